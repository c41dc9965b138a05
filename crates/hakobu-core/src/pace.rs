//! A limit of the rate at which content leaves the source: what was asked for, by the time of day, and whose turn it is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{format_rate_and_bits, parse_bytes};

const DAY_S: u64 = 24 * 60 * 60;
const SECOND_NS: u64 = 1_000_000_000;
/// What was not used of the rate for so long may still be used.
const BURST_NS: u64 = 50_000_000;
/// A lower rate than this could not be kept: what lanes hand over at a time would take minutes.
const LEAST_BYTES_PER_SECOND: u64 = 10_000;
/// The most lines of a timetable.
const STEPS_MAX: usize = 64;

/// How fast content may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// As fast as it can.
    Unlimited,
    /// So many bytes a second.
    BytesPerSecond(u64),
    /// Not at all.
    Paused,
}

/// A limit of the rate, which may depend on the time of day. Without any step there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// From which second of the day on, in order, which rate holds; the last one until the first begins again.
    steps: Vec<(u32, Rate)>,
    /// The second of the day in which the run began.
    began_s: u32,
}

/// Why a limit cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at column {column}: {words}")]
pub struct RateLimitError {
    /// Where, from 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub words: String,
}

impl RateLimit {
    /// Reads `20M`, or a timetable: `08:00,20M 12:00,pause 13:00,20M 19:00,off`. `now_s` is the second of the day.
    ///
    /// # Errors
    /// With the column of what cannot be read.
    pub fn parse(text: &str, now_s: u32) -> Result<Self, RateLimitError> {
        let wrong = |at: usize, words: String| {
            let column = text.get(..at).unwrap_or_default().chars().count() + 1;
            RateLimitError { column, words }
        };
        if !text.contains(',') {
            let rate = parse_rate(text.trim()).map_err(|words| wrong(0, words))?;
            if rate == Rate::Paused {
                return Err(wrong(0, "a pause needs an end: 08:00,pause 19:00,off".to_owned()));
            }
            return Ok(Self { steps: vec![(0, rate)], began_s: now_s });
        }
        let mut steps: Vec<(u32, Rate)> = Vec::new();
        for word in text.split_ascii_whitespace() {
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            let Some((time, rate)) = word.split_once(',') else {
                return Err(wrong(at, format!("{word:?} is no time with a rate, such as 08:00,20M")));
            };
            let from_s = parse_time(time)
                .ok_or_else(|| wrong(at, format!("{time:?} is no time of day from 00:00 to 23:59")))?;
            let rate = parse_rate(rate).map_err(|words| wrong(at + time.len() + 1, words))?;
            if steps.last().is_some_and(|(before_s, _)| *before_s >= from_s) || steps.len() == STEPS_MAX {
                let words =
                    format!("{time} does not come after the time before it, or there are over {STEPS_MAX}");
                return Err(wrong(at, words));
            }
            steps.push((from_s, rate));
        }
        Ok(Self { steps, began_s: now_s })
    }

    /// Whether there is any limit at any time.
    pub fn is_some(&self) -> bool {
        self.steps.iter().any(|(_, rate)| *rate != Rate::Unlimited)
    }

    /// The rate that always holds, if it is one.
    pub fn constant(&self) -> Option<Rate> {
        match self.steps[..] {
            [] => Some(Rate::Unlimited),
            [(_, rate)] => Some(rate),
            _ => None,
        }
    }

    /// The rate so long after the beginning, and for how long it holds from then on, if not for ever.
    fn at(&self, elapsed: Duration) -> (Rate, Option<Duration>) {
        let into_ns = (u128::from(self.began_s) * u128::from(SECOND_NS) + elapsed.as_nanos())
            % u128::from(DAY_S * SECOND_NS);
        let into = Duration::from_nanos(into_ns as u64);
        let begins = |step: &(u32, Rate)| Duration::from_secs(step.0.into());
        let next = self.steps.iter().position(|step| begins(step) > into);
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else {
            return (Rate::Unlimited, None);
        };
        if self.steps.len() == 1 {
            return (first.1, None);
        }
        let tomorrow = || begins(first) + Duration::from_secs(DAY_S) - into;
        match next {
            Some(0) => (last.1, Some(begins(first) - into)),
            Some(next) => (self.steps[next - 1].1, Some(begins(&self.steps[next]) - into)),
            None => (last.1, Some(tomorrow())),
        }
    }

    /// `at most 20.0 MB/s = 160 Mbit/s`, for people.
    pub fn words(&self) -> String {
        let rate = |rate: &Rate| match rate {
            Rate::Unlimited => "no limit".to_owned(),
            Rate::BytesPerSecond(bytes) => format!("at most {}", format_rate_and_bits(*bytes)),
            Rate::Paused => "a pause".to_owned(),
        };
        let step = |(from_s, held): &(u32, Rate)| {
            format!("{} from {:02}:{:02}", rate(held), from_s / 3600, from_s / 60 % 60)
        };
        match &self.steps[..] {
            [(_, held)] => rate(held),
            steps => steps.iter().map(step).collect::<Vec<_>>().join(", "),
        }
    }
}

/// A rate with its unit. rsync takes a bare number for KiB, and we would for bytes, so nobody gets either unasked.
fn parse_rate(text: &str) -> Result<Rate, String> {
    match text {
        "off" => return Ok(Rate::Unlimited),
        "pause" => return Ok(Rate::Paused),
        _ => {}
    }
    let number = text.strip_suffix("/s").unwrap_or(text);
    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "{text} needs a unit: {text}KiB is what rsync takes it for, or 20M for 20 MB/s; or off, pause"
        ));
    }
    let bytes = parse_bytes(number).map_err(|error| error.to_string())?;
    match bytes {
        LEAST_BYTES_PER_SECOND.. => Ok(Rate::BytesPerSecond(bytes)),
        _ => Err(format!("{text} is too slow to be kept: the least is 10 kB/s")),
    }
}

/// The second of the day of `08:00`.
fn parse_time(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str, below: u32| {
        let fits = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|number| fits && *number < below)
    };
    Some((number(hours, 24)? * 60 + number(minutes, 60)?) * 60)
}

/// What comes of asking for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is now.
    Now,
    /// It will be at this time.
    At(u64),
    /// There is none yet: ask again at this time.
    AskAt(u64),
}

/// Gives lanes their turns. Its clock begins with the run.
#[derive(Debug)]
pub(crate) struct Pacer<'a> {
    limit: &'a RateLimit,
    began_ns: u64,
    /// When all that has been let through would be through, at the rate.
    free_ns: AtomicU64,
}

impl<'a> Pacer<'a> {
    pub fn new(limit: &'a RateLimit, now_ns: u64) -> Self {
        Self { limit, began_ns: now_ns, free_ns: AtomicU64::new(now_ns) }
    }

    /// Whether anybody has to ask.
    pub fn is_needed(&self) -> bool {
        self.limit.is_some()
    }

    /// When so many bytes may go: after all that have asked before, which is as if they went at the rate.
    pub fn turn(&self, now_ns: u64, bytes: u64) -> Turn {
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.began_ns));
        let (rate, holds) = self.limit.at(elapsed);
        let rate = match rate {
            Rate::Unlimited => return Turn::Now,
            Rate::Paused => {
                let holds_ns =
                    holds.map_or(u64::MAX, |holds| u64::try_from(holds.as_nanos()).unwrap_or(u64::MAX));
                return Turn::AskAt(now_ns.saturating_add(holds_ns));
            }
            Rate::BytesPerSecond(rate) => rate,
        };
        let takes_ns = (u128::from(bytes) * u128::from(SECOND_NS) / u128::from(rate.max(1))) as u64;
        let begin = |free_ns: u64| free_ns.max(now_ns.saturating_sub(BURST_NS));
        let booked = self
            .free_ns
            .fetch_update(Relaxed, Relaxed, |free_ns| Some(begin(free_ns).saturating_add(takes_ns)));
        let begin_ns = begin(booked.unwrap_or(now_ns));
        if begin_ns <= now_ns { Turn::Now } else { Turn::At(begin_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn parsed(text: &str) -> RateLimit {
        RateLimit::parse(text, 0).unwrap()
    }

    #[test]
    fn rates_and_timetables_are_read() {
        assert_eq!(parsed("20M").constant(), Some(Rate::BytesPerSecond(20_000_000)));
        assert_eq!(parsed("20MB/s").words(), "at most 20.0 MB/s = 160 Mbit/s");
        assert!(!parsed("off").is_some() && !RateLimit::default().is_some());
        let table = parsed("08:00,20M 12:30,pause 19:00,off");
        assert!(table.is_some() && table.constant().is_none());
        assert_eq!(
            table.words(),
            "at most 20.0 MB/s = 160 Mbit/s from 08:00, a pause from 12:30, no limit from 19:00"
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_column() {
        for (text, column, words) in [
            ("5000", 1, "needs a unit: 5000KiB is what rsync"),
            ("fast", 1, "number"),
            ("9k", 1, "too slow"),
            ("pause", 1, "needs an end"),
            ("08:00,20M 12:00", 11, "no time with a rate"),
            ("08:00,20M 25:00,off", 11, "no time of day"),
            ("08:00,20M 12:60,off", 11, "no time of day"),
            ("08:00,20M 19:00,soon", 17, "number"),
            ("08:00,20M 07:00,off", 11, "does not come after"),
            ("+8:00,20M", 1, "no time of day"),
        ] {
            let error = RateLimit::parse(text, 0).unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.words.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_time_of_day_decides() {
        let limit = RateLimit::parse("08:00,20M 19:00,off", 7 * 3600).unwrap();
        let after = |hours: u64| limit.at(Duration::from_secs(hours * 3600));
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
        assert_eq!(after(0), (Rate::Unlimited, hours(1)));
        assert_eq!(after(1), (Rate::BytesPerSecond(20_000_000), hours(11)));
        assert_eq!(after(12), (Rate::Unlimited, hours(13)));
        assert_eq!(after(24), (Rate::Unlimited, hours(1)));
        assert_eq!(after(24 * 365 + 2), (Rate::BytesPerSecond(20_000_000), hours(10)));
    }

    #[test]
    fn all_together_get_the_rate_and_no_more() {
        let limit = parsed("1M");
        let pacer = Pacer::new(&limit, 7);
        let (mut free_at, mut sent) = ([7_u64; 3], 0);
        // Three lanes for ten seconds.
        loop {
            let lane = (0..3).min_by_key(|lane| free_at[*lane]).unwrap();
            let now_ns = free_at[lane];
            if now_ns > 10_000 * MS {
                break;
            }
            sent += 10_000;
            free_at[lane] = match pacer.turn(now_ns, 10_000) {
                Turn::Now => now_ns + MS,
                Turn::At(at_ns) => at_ns + MS,
                Turn::AskAt(_) => panic!("no pause"),
            };
        }
        assert!((9_900_000..=10_200_000).contains(&sent), "{sent}");
        // What was not used for a minute is not made up for.
        let minute_ns = 70_000 * MS;
        let at_once = (0..1000).take_while(|_| pacer.turn(minute_ns, 10_000) == Turn::Now).count();
        assert!((5..=6).contains(&at_once), "{at_once}");
    }

    #[test]
    fn a_pause_ends() {
        let limit = RateLimit::parse("00:00,pause 00:01,off", 0).unwrap();
        let pacer = Pacer::new(&limit, 0);
        assert_eq!(pacer.turn(1000 * MS, 1), Turn::AskAt(60_000 * MS));
        assert_eq!(pacer.turn(60_000 * MS, 1), Turn::Now);
    }
}
