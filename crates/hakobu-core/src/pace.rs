//! The limits of a run: a rate for content, which may depend on the time of day, and limits that spare its ends.
//! [`crate::pacer`] schedules the lanes accordingly.

use std::time::Duration;

use crate::units::{format_rate_and_bits, parse_bytes};

const DAY_S: u64 = 24 * 60 * 60;
const SECOND_NS: u64 = 1_000_000_000;
/// The minimum rate. A lower one could not be kept: what lanes send at a time would take minutes.
const LEAST_BYTES_PER_SECOND: u64 = 10_000;
/// The maximum number of entries in a timetable.
const STEPS_MAX: usize = 64;
/// The error for a limit that is never anything but a pause.
const ENDLESS: &str = "a pause needs an end: 08:00,pause 19:00,off";

/// A limit on the transfer rate of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSetting {
    /// No limit.
    Unlimited,
    /// A limit in bytes per second.
    BytesPerSecond(u64),
    /// No transfer at all.
    Paused,
}

/// A rate limit that may depend on the time of day. Without steps there is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// The second of the day from which each rate applies, in order. The last rate applies until the first step of the
    /// next day.
    pub steps: Vec<(u32, RateSetting)>,
    /// The second of the day at which the run began.
    pub began_s: u32,
}

/// The error for a limit that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{words}", if *column > 1 { format!("at column {column}: ") } else { String::new() })]
pub struct RateLimitError {
    /// The column, from 1, in characters.
    pub column: usize,
    /// The fault.
    pub words: String,
}

impl RateLimit {
    /// Parses `20M`, or a timetable: `08:00,20M 12:00,pause 13:00,20M 19:00,off`. `now_s` is the second of the day.
    ///
    /// # Errors
    /// The column of what cannot be parsed.
    pub fn parse(text: &str, now_s: u32) -> Result<Self, RateLimitError> {
        let wrong = |at: usize, words: String| {
            let column = text.get(..at).unwrap_or_default().chars().count() + 1;
            RateLimitError { column, words }
        };
        if !text.contains(',') {
            if text.contains(':') {
                let words = "a time of day and its rate are separated by a comma, as in 08:00,20M 19:00,off";
                return Err(wrong(0, words.to_owned()));
            }
            let rate = parse_rate(text.trim()).map_err(|words| wrong(0, words))?;
            if rate == RateSetting::Paused {
                return Err(wrong(0, ENDLESS.to_owned()));
            }
            return Ok(Self { steps: vec![(0, rate)], began_s: now_s });
        }
        let mut steps: Vec<(u32, RateSetting)> = Vec::new();
        for word in text.split_ascii_whitespace() {
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            let Some((time, rate)) = word.split_once(',') else {
                return Err(wrong(at, format!("{word:?} is not a time with a rate, such as 08:00,20M")));
            };
            let from_s = parse_time(time)
                .ok_or_else(|| wrong(at, format!("{time:?} is not a time of day (00:00 to 23:59)")))?;
            if let Some((_, next)) = rate.split_once(',') {
                let words = format!("{next:?} follows a comma: separate two times with a space");
                return Err(wrong(at + word.len() - next.len(), words));
            }
            let rate = parse_rate(rate).map_err(|words| wrong(at + time.len() + 1, words))?;
            if steps.last().is_some_and(|(before_s, _)| *before_s >= from_s) {
                let words = format!(
                    "{time} is not later than the time before it; list the times of the day in order"
                );
                return Err(wrong(at, words));
            }
            if steps.len() == STEPS_MAX {
                return Err(wrong(at, format!("there are more than {STEPS_MAX} times")));
            }
            steps.push((from_s, rate));
        }
        if steps.iter().all(|(_, rate)| *rate == RateSetting::Paused) {
            return Err(wrong(0, ENDLESS.to_owned()));
        }
        Ok(Self { steps, began_s: now_s })
    }

    /// Returns true if there is a limit at any time.
    pub fn is_some(&self) -> bool {
        self.steps.iter().any(|(_, rate)| *rate != RateSetting::Unlimited)
    }

    /// Returns the rate if it is the same at all times.
    pub fn constant(&self) -> Option<RateSetting> {
        match self.steps[..] {
            [] => Some(RateSetting::Unlimited),
            [(_, rate)] => Some(rate),
            _ => None,
        }
    }

    /// Returns the rate at the start of the run.
    pub fn first(&self) -> RateSetting {
        self.at(Duration::ZERO)
    }

    /// Returns the end of a pause at the start of the run, as a second of the day, and the rate after it.
    pub fn first_pause(&self) -> Option<(u32, RateSetting)> {
        let until_s = self.until_s(Duration::ZERO).filter(|_| self.first() == RateSetting::Paused)?;
        self.steps.iter().find(|step| step.0 == until_s).copied()
    }

    /// Returns the first rate that is not a pause.
    pub fn first_moving(&self) -> RateSetting {
        self.first_pause().map_or(self.first(), |(_, rate)| rate)
    }

    /// Returns the limit for a run that begins later by `elapsed`.
    #[must_use]
    pub fn later(&self, elapsed: Duration) -> Self {
        let began_s = (u64::from(self.began_s) + elapsed.as_secs() % DAY_S) % DAY_S;
        Self { steps: self.steps.clone(), began_s: began_s as u32 }
    }

    /// Returns the rate at `elapsed` after the start.
    pub(crate) fn at(&self, elapsed: Duration) -> RateSetting {
        self.index_at(elapsed).map_or(RateSetting::Unlimited, |index| self.steps[index].1)
    }

    /// Returns the index of the step that applies at `elapsed` after the start.
    fn index_at(&self, elapsed: Duration) -> Option<usize> {
        let into_ns = (u128::from(self.began_s) * u128::from(SECOND_NS) + elapsed.as_nanos())
            % u128::from(DAY_S * SECOND_NS);
        let into = Duration::from_nanos(into_ns as u64);
        let begun = self.steps.iter().rposition(|step| Duration::from_secs(step.0.into()) <= into);
        // Before the first step of the day, the last one of the previous day applies.
        begun.or(self.steps.len().checked_sub(1))
    }

    /// Returns the second of the day from which the rate differs from that at `elapsed` after the start; `None` if it
    /// never does.
    pub(crate) fn until_s(&self, elapsed: Duration) -> Option<u32> {
        let now = self.index_at(elapsed)?;
        let later = self.steps[now + 1..].iter().chain(&self.steps[..now]);
        later.into_iter().find(|step| step.1 != self.steps[now].1).map(|step| step.0)
    }

    /// Describes the rate at `elapsed` after the start for people: `a pause until 13:00`.
    pub(crate) fn words_at(&self, elapsed: Duration) -> String {
        let until = self.until_s(elapsed).map(|until_s| format!(" until {}", time_words(until_s)));
        format!("{}{}", rate_words(&self.at(elapsed)), until.unwrap_or_default())
    }

    /// Describes the limit for people: `at most 20.0 MB/s = 160 Mbit/s`.
    pub fn words(&self) -> String {
        let step = |(from_s, held): &(u32, RateSetting)| {
            format!("{} from {}", rate_words(held), time_words(*from_s))
        };
        match &self.steps[..] {
            [(_, held)] => rate_words(held),
            steps => steps.iter().map(step).collect::<Vec<_>>().join(", "),
        }
    }
}

/// The limits of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// The limit on the rate at which content leaves the source.
    pub rate: RateLimit,
    /// The maximum number of operations per second at the source, and of those at the target; 0 lets none through.
    pub operations_per_second: Option<u32>,
    /// The 99th percentile of the duration of reads at the source that must not be exceeded, in microseconds.
    pub source_p99_us: Option<u64>,
}

impl RunLimits {
    /// Returns true if there are any limits.
    pub fn is_some(&self) -> bool {
        self.rate.is_some() || self.operations_per_second.is_some() || self.source_p99_us.is_some()
    }

    /// Returns the limits for a run that begins later by `elapsed`.
    #[must_use]
    pub fn later(&self, elapsed: Duration) -> Self {
        Self { rate: self.rate.later(elapsed), ..self.clone() }
    }

    /// Describes what a timetable, if there is one, prescribes at the start: `a pause until 13:00`.
    pub fn first_words(&self) -> Option<String> {
        self.rate.constant().is_none().then(|| self.rate.words_at(Duration::ZERO))
    }

    /// Describes all limits for people, with their options.
    pub fn words(&self) -> String {
        let rate = self.rate.is_some().then(|| format!("{} (--bwlimit)", self.rate.words()));
        let operations = self
            .operations_per_second
            .map(|operations| format!("at most {operations} operations a second at each end (--iops-limit)"));
        let latency = self
            .source_p99_us
            .map(|us| format!("99 % of reads at the source within {} ms (--source-p99)", us as f64 / 1000.0));
        let all: Vec<_> = [rate, operations, latency].into_iter().flatten().collect();
        if all.is_empty() { "no limits".to_owned() } else { all.join(", ") }
    }
}

fn rate_words(rate: &RateSetting) -> String {
    match rate {
        RateSetting::Unlimited => "no limit".to_owned(),
        RateSetting::BytesPerSecond(bytes) => format!("at most {}", format_rate_and_bits(*bytes)),
        RateSetting::Paused => "a pause".to_owned(),
    }
}

/// Formats a second of the day as `08:00`.
pub fn time_words(second: u32) -> String {
    format!("{:02}:{:02}", second / 3600, second / 60 % 60)
}

/// Parses a rate with its unit. The unit is required, because rsync reads a bare number as KiB and hakobu reads one as
/// bytes.
fn parse_rate(text: &str) -> Result<RateSetting, String> {
    match text {
        "off" => return Ok(RateSetting::Unlimited),
        "pause" => return Ok(RateSetting::Paused),
        _ => {}
    }
    let number = text.strip_suffix("/s").unwrap_or(text);
    if number.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()) == "0" {
        return Err(format!(
            "{text} would stop everything; for no limit, which rsync writes as 0, write off"
        ));
    }
    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text} has no unit: write 20M for 20 MB/s, or {text}KiB for rsync's meaning"));
    }
    let bytes = parse_bytes(number).map_err(|error| match text.to_ascii_lowercase() {
        bits if bits.contains("bit") || bits.ends_with("bps") => {
            format!("{text} is in bits, but rates are in bytes per second: for 20 Mbit/s write 2.5M")
        }
        _ => error.to_string(),
    })?;
    match bytes {
        LEAST_BYTES_PER_SECOND.. => Ok(RateSetting::BytesPerSecond(bytes)),
        _ => Err(format!("{text} is below the minimum of 10 kB/s")),
    }
}

/// Parses `08:00` as a second of the day.
fn parse_time(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str, below: u32| {
        let fits = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|number| fits && *number < below)
    };
    Some((number(hours, 24)? * 60 + number(minutes, 60)?) * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> RateLimit {
        RateLimit::parse(text, 0).unwrap()
    }

    #[test]
    fn rates_and_timetables_are_read() {
        assert_eq!(parsed("20M").constant(), Some(RateSetting::BytesPerSecond(20_000_000)));
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
            ("5000", 1, "write 20M for 20 MB/s, or 5000KiB"),
            ("fast", 1, "number"),
            ("9k", 1, "minimum of 10 kB/s"),
            ("0", 1, "write off"),
            ("0M/s", 1, "write off"),
            ("pause", 1, "needs an end"),
            ("00:00,pause", 1, "needs an end"),
            ("00:00,pause 12:00,pause", 1, "needs an end"),
            ("08:00,20M 12:00", 11, "not a time with a rate"),
            ("08:00,20M 25:00,off", 11, "not a time of day"),
            ("08:00,20M 12:60,off", 11, "not a time of day"),
            ("08:00,20M 19:00,soon", 17, "number"),
            ("08:00,20M 07:00,off", 11, "is not later than"),
            ("08:00 20M 19:00 off", 1, "separated by a comma"),
            ("08:00,20M,19:00,off", 11, "follows a comma"),
            ("20Mbit", 1, "write 2.5M"),
            ("08:00,160mbps 19:00,off", 7, "write 2.5M"),
            ("20Q", 1, "k, M, G, T"),
            ("+8:00,20M", 1, "not a time of day"),
        ] {
            let error = RateLimit::parse(text, 0).unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert_eq!(error.to_string().starts_with("at column "), column > 1, "{error}");
            assert!(error.words.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_time_of_day_decides() {
        let limit = RateLimit::parse("08:00,20M 19:00,off", 7 * 3600).unwrap();
        let after = |hours: u64| limit.at(Duration::from_secs(hours * 3600));
        let limited = RateSetting::BytesPerSecond(20_000_000);
        for (hours, rate) in [
            (0, RateSetting::Unlimited),
            (1, limited),
            (12, RateSetting::Unlimited),
            (24, RateSetting::Unlimited),
        ] {
            assert_eq!(after(hours), rate, "{hours}");
            // A run that begins later has less of the timetable before it.
            let later = limit.later(Duration::from_secs(hours * 3600));
            assert_eq!(later.at(Duration::ZERO), rate, "{hours}");
        }
        assert_eq!(after(24 * 365 + 2), limited);
        let words = |hours: u64| limit.words_at(Duration::from_secs(hours * 3600));
        assert_eq!(words(0), "no limit until 08:00");
        assert_eq!(words(1), "at most 20.0 MB/s = 160 Mbit/s until 19:00");
        assert_eq!(words(13), "no limit until 08:00");
        let limits = RunLimits { rate: limit.clone(), ..RunLimits::default() };
        assert_eq!(limits.first_words().unwrap(), "no limit until 08:00");
        // A step with the same rate is no change, and a constant rate has no end.
        let same = RateLimit::parse("08:00,pause 09:00,pause 10:00,20M", 8 * 3600).unwrap();
        assert_eq!(same.until_s(Duration::ZERO), Some(10 * 3600));
        assert_eq!((same.first_pause(), same.first_moving()), (Some((10 * 3600, limited)), limited));
        assert_eq!((limit.first_pause(), limit.first_moving()), (None, RateSetting::Unlimited));
        assert_eq!((parsed("20M").until_s(Duration::ZERO), RunLimits::default().first_words()), (None, None));
        assert_eq!(RateLimit::default().at(Duration::ZERO), RateSetting::Unlimited);
    }

    #[test]
    fn limits_are_told_with_their_options() {
        assert!(!RunLimits::default().is_some());
        assert_eq!(RunLimits::default().words(), "no limits");
        let limits = RunLimits { operations_per_second: Some(500), ..RunLimits::default() };
        assert!(limits.is_some());
        assert_eq!(limits.words(), "at most 500 operations a second at each end (--iops-limit)");
        let limits = RunLimits { rate: parsed("20M"), source_p99_us: Some(1_500), ..RunLimits::default() };
        assert_eq!(
            limits.words(),
            "at most 20.0 MB/s = 160 Mbit/s (--bwlimit), 99 % of reads at the source within 1.5 ms (--source-p99)"
        );
    }
}
