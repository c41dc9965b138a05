//! How many lanes a run works with: more or fewer of them are tried while it goes on, and what moved more stays.
//! Knows no clock and no lanes: what was seen is handed in.

use std::collections::VecDeque;
use std::time::Duration;

use crate::endpoint::Passed;
use crate::extent::CHUNK_BYTES;
use crate::units::format_rate;

/// The counts that are tried, one after the other.
const LADDER: [u16; 14] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32];
/// A rate is what lies in the middle of those of so many looks, so that a moment of silence does not count; of twice as
/// many where they are too far apart to tell.
const LOOKS: usize = 7;
/// How long connections take to find their rate: this, and so many round trips.
const SETTLE: Duration = Duration::from_millis(400);
const SETTLE_ROUND_TRIPS: u32 = 8;
/// A try is worth it that gains so much, if that is more than so many times what the rates are uncertain by.
const GAIN: f64 = 1.05;
const CERTAIN: f64 = 4.0;
/// How much a new estimate of how far rates are apart counts beside those before.
const SPREAD_WEIGHT: f64 = 0.25;
/// A try that gains this part of what so many more lanes could move at the most has room above it.
const PROPORTIONAL: f64 = 0.8;
/// A round trip that is longer than the shortest by less than this, or by less than a quarter, says nothing of a queue.
const WAITS_LEAST: Duration = Duration::from_millis(1);
/// Fewer lanes are also better where they lose no more than this and each took longer for a chunk than [`CHUNK_LONG_S`]:
/// what they have in hand has to be waited for in the end.
const AS_GOOD: f64 = 0.98;
const CHUNK_LONG_S: f64 = 1.0;
/// More lanes against segments that are lost without need are kept unless they move much less, since what is left of the
/// beginning still hides the gain; but not where a chunk would take each longer than this.
const HELPED: f64 = 0.6;
const CHUNK_TOO_LONG_S: f64 = 30.0;
/// So few looks do to begin with them.
const HELP_LOOKS: usize = 4;
/// A try that loses so much is over at once, and so is one against segments that are lost without need.
const LOSS: f64 = 0.7;
const LOSS_HELPING: f64 = 0.5;
/// How long nothing is tried after nothing was gained: at first, and at most.
const REST: Duration = Duration::from_secs(4);
const REST_MAX: Duration = Duration::from_secs(60);
/// A rate that has become so much higher or lower is another way: what was found out about it is worth nothing.
const CHANGED: f64 = 1.3;
/// So many tries that gained nothing are told; a long run has many.
const FAILURES_TOLD_MAX: u32 = 8;

/// What was seen at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// When.
    pub now_ns: u64,
    /// What has passed over the connections.
    pub passed: Passed,
    /// There is something that no lane has taken.
    pub has_waiting: bool,
    /// More lanes would only wait for each other: processors have no time left, or the rate is limited as asked.
    pub is_bound: bool,
}

/// What is to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// So many lanes from now on.
    pub lanes: u16,
    /// What was found out, if it is worth telling: the choice and the reason.
    pub told: Option<(String, String)>,
}

/// Which way is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Finding out what the lanes that there are move.
    Measuring { since_ns: u64, last: Option<Rate> },
    /// Others are tried instead of `from` lanes, which moved `rate`.
    Trying(Try),
    /// Nothing is tried until then, unless the rate becomes another.
    Resting { until_ns: u64, rate: Rate },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Try {
    since_ns: u64,
    /// What it is compared with.
    from: u16,
    rate: Rate,
    /// How far it is from there.
    steps: usize,
    /// It is made against segments that are lost without need.
    helps: bool,
}

/// Bytes per second, and by how much they are uncertain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rate {
    middle: f64,
    error: f64,
}

impl Rate {
    /// Whether it is higher than another one beyond doubt.
    fn is_above(self, other: Self) -> bool {
        self.middle - other.middle > CERTAIN * self.error.hypot(other.error)
    }

    fn max(self, other: Self) -> Self {
        if self.middle > other.middle { self } else { other }
    }
}

/// What one look said.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// In bytes per second.
    rate: f64,
    /// Segments were sent again since the one before.
    lost: bool,
    /// Segments had to wait on their way.
    waited: bool,
}

/// Finds out how many lanes move most.
#[derive(Debug)]
pub(super) struct Tuner {
    lanes: u16,
    most: u16,
    way: Way,
    phase: Phase,
    /// Since the ways were last both tried in vain: whether one was.
    vain: bool,
    rest: Duration,
    /// The last looks.
    looks: VecDeque<Look>,
    before: Option<Seen>,
    /// By how much of itself a rate is usually off.
    spread: f64,
    /// Since the last rest ended as many lanes as there may be were tried.
    helped: bool,
    failures_told: u32,
}

impl Tuner {
    /// A run begins with `lanes` and may have up to `most`.
    pub fn new(lanes: u16, most: u16, now_ns: u64) -> Self {
        Self {
            lanes,
            most: most.max(lanes),
            way: Way::Up,
            phase: Phase::Measuring { since_ns: now_ns, last: None },
            vain: false,
            rest: REST,
            looks: VecDeque::with_capacity(2 * LOOKS),
            before: None,
            spread: 0.0,
            helped: false,
            failures_told: 0,
        }
    }

    /// Takes a look, a few times a second. What is to be changed, if anything.
    pub fn look(&mut self, seen: Seen) -> Option<Change> {
        self.note(&seen);
        // Where lanes lack work, or something to do it with, nothing can be learnt of their number.
        if !seen.has_waiting || seen.is_bound {
            return self.give_up(&seen);
        }
        let settle = SETTLE + seen.passed.round_trip.saturating_mul(SETTLE_ROUND_TRIPS);
        let settled = |since_ns: u64| seen.now_ns.saturating_sub(since_ns) >= nanoseconds(settle);
        match self.phase {
            Phase::Measuring { since_ns, .. } | Phase::Trying(Try { since_ns, .. }) if !settled(since_ns) => {
                self.forget();
                None
            }
            Phase::Trying(this) if self.loses(this) => Some(self.back(&seen, this)),
            Phase::Measuring { .. } if self.can_help(HELP_LOOKS) => self.help(&seen),
            // At the beginning segments waited as well, or none was lost yet.
            Phase::Resting { .. } if self.can_help(LOOKS) => self.help(&seen),
            _ if self.looks.len() < LOOKS => None,
            Phase::Measuring { since_ns, last } => self.measured(&seen, since_ns, last),
            Phase::Trying(this) => self.tried(&seen, this),
            Phase::Resting { until_ns, rate } => self.rested(&seen, until_ns, rate),
        }
    }

    fn note(&mut self, seen: &Seen) {
        let Some(before) = self.before.replace(*seen) else { return };
        let seconds = seen.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        if self.looks.len() == 2 * LOOKS {
            self.looks.pop_front();
        }
        let Passed { round_trip, round_trip_least, .. } = seen.passed;
        let waits = round_trip.saturating_sub(round_trip_least);
        self.looks.push_back(Look {
            rate: seen.passed.bytes.saturating_sub(before.passed.bytes) as f64 / seconds,
            lost: seen.passed.sent_again > before.passed.sent_again,
            waited: waits >= (round_trip_least / 4).max(WAITS_LEAST),
        });
        if self.looks.len() == LOOKS {
            self.learn_spread();
        }
    }

    /// Whether segments are lost although hardly any has to wait: others than ours lose them, and each connection takes that for
    /// a line that is full.
    fn loses_without_need(&self) -> bool {
        let waited = self.looks.iter().filter(|look| look.waited).count();
        waited * 2 <= self.looks.len() && self.looks.iter().any(|look| look.lost)
    }

    /// What was seen until now does not count any more.
    fn forget(&mut self) {
        self.looks.clear();
    }

    fn rates(&self) -> impl Iterator<Item = f64> + Clone {
        self.looks.iter().map(|look| look.rate)
    }

    /// What the last looks say.
    fn rate(&self) -> Rate {
        let middle = self.middle();
        Rate { middle, error: middle * self.spread / (self.looks.len().max(1) as f64).sqrt() }
    }

    fn middle(&self) -> f64 {
        median(self.rates())
    }

    /// Learns how far rates are apart, as a part of themselves. A few of them alone would often seem to be close together.
    fn learn_spread(&mut self) {
        let middle = self.middle();
        if self.looks.len() < LOOKS || middle <= 0.0 {
            return;
        }
        // From one look to the next, so that a rate that grows does not count as one that is uncertain.
        let steps = self.rates().zip(self.rates().skip(1)).map(|(one, next)| (next - one).abs());
        // Of a normal distribution the deviation in the middle is this part of the standard deviation, and the error of
        // the median this multiple of the mean's; and a difference has the deviation of both.
        let spread = median(steps) / middle / std::f64::consts::SQRT_2 / 0.6745 * 1.2533;
        self.spread = match self.spread {
            0.0 => spread,
            before => before + SPREAD_WEIGHT * (spread - before),
        };
    }

    /// Whether a try has been so bad for some looks that it need not be waited for.
    fn loses(&self, this: Try) -> bool {
        let least = this.rate.middle * if this.helps { LOSS_HELPING } else { LOSS };
        self.looks.len() >= LOOKS / 2 && self.rates().all(|now| now < least)
    }

    /// Nothing can be tried now, and a try that was under way is taken back.
    fn give_up(&mut self, seen: &Seen) -> Option<Change> {
        self.forget();
        match self.phase {
            Phase::Trying(Try { from, rate, .. }) => {
                self.lanes = from;
                self.rest(seen, rate);
                Some(Change { lanes: from, told: None })
            }
            Phase::Measuring { .. } => {
                self.phase = Phase::Measuring { since_ns: seen.now_ns, last: None };
                None
            }
            Phase::Resting { .. } => None,
        }
    }

    /// Begins a try once the rate does not grow by itself any more.
    fn measured(&mut self, seen: &Seen, since_ns: u64, last: Option<Rate>) -> Option<Change> {
        let rate = self.rate();
        let grows = |last: Rate| rate.middle > last.middle * GAIN && rate.is_above(last);
        if last.is_none_or(grows) {
            self.forget();
            self.phase = Phase::Measuring { since_ns, last: Some(rate) };
            return None;
        }
        self.begin(seen, rate, 1)
    }

    fn can_help(&self, looks: usize) -> bool {
        let is_new = !self.helped && self.lanes < self.most;
        is_new && self.looks.len() >= looks && self.loses_without_need()
    }

    /// Tries as many lanes as there may be.
    fn help(&mut self, seen: &Seen) -> Option<Change> {
        (self.way, self.helped) = (Way::Up, true);
        let change = self.begin(seen, self.rate(), LADDER.len());
        if let Phase::Trying(this) = &mut self.phase {
            this.helps = true;
        }
        change
    }

    /// Tries more or fewer lanes than those that move `rate`, `steps` further on the ladder.
    fn begin(&mut self, seen: &Seen, rate: Rate, steps: usize) -> Option<Change> {
        let from = self.lanes;
        let further: Vec<u16> = match self.way {
            Way::Up => LADDER.into_iter().filter(|count| (from + 1..=self.most).contains(count)).collect(),
            Way::Down => LADDER.into_iter().rev().filter(|count| *count < from).collect(),
        };
        let steps = steps.min(further.len());
        let Some(lanes) = steps.checked_sub(1).and_then(|last| further.get(last)) else {
            return self.in_vain(seen, rate);
        };
        self.forget();
        self.lanes = *lanes;
        self.phase = Phase::Trying(Try { since_ns: seen.now_ns, from, rate, steps, helps: false });
        Some(Change { lanes: self.lanes, told: None })
    }

    /// Judges a try.
    fn tried(&mut self, seen: &Seen, this: Try) -> Option<Change> {
        let rate = self.rate();
        let Try { from, rate: before, helps, .. } = this;
        let gain = if before.middle > 0.0 { rate.middle / before.middle } else { 1.0 };
        let chunk_s = |lanes: u16, rate: Rate| f64::from(lanes) * CHUNK_BYTES as f64 / rate.middle.max(1.0);
        let is_as_good = match self.way {
            Way::Up => helps && gain >= HELPED && chunk_s(self.lanes, rate) < CHUNK_TOO_LONG_S,
            Way::Down => {
                !self.loses_without_need() && gain >= AS_GOOD && chunk_s(from, before) > CHUNK_LONG_S
            }
        };
        let gains = gain >= GAIN && rate.is_above(before);
        if gain >= GAIN && !gains && self.looks.len() < 2 * LOOKS {
            return None;
        }
        if !gains && !is_as_good {
            return Some(self.back(seen, this));
        }
        let lanes = self.lanes;
        (self.vain, self.rest) = (false, REST);
        let (choice, mut reason) =
            told(format!("lanes: {lanes} instead of {from}"), (lanes, rate), (from, before));
        if helps {
            reason.insert_str(0, "segments are lost though the line is not full; ");
        }
        let told = (choice, reason);
        // The more it gained, the further off the best count is. What was lost on the way down counts in the end.
        let steps = match gain {
            _ if gain * f64::from(from) > PROPORTIONAL * f64::from(lanes) && self.way == Way::Up => 3,
            ..1.25 => 1,
            _ => 2,
        };
        // What was compared with a rate that the beginning still made higher says nothing of that any more.
        let best = if helps { rate } else { rate.max(before) };
        let next = self.begin(seen, best, steps);
        Some(Change { lanes: next.map_or(lanes, |next| next.lanes), told: Some(told) })
    }

    /// Takes a try back. One that went far is followed by one that does not.
    fn back(&mut self, seen: &Seen, this: Try) -> Change {
        let (tried, rate) = (self.lanes, self.rate());
        self.lanes = this.from;
        self.failures_told += 1;
        let choice = format!("lanes: {}, as before", this.from);
        let told = (self.failures_told <= FAILURES_TOLD_MAX)
            .then(|| told(choice, (tried, rate), (this.from, this.rate)));
        let next = match this.steps {
            // It was compared with a rate of the beginning, perhaps: what the others move now is looked at anew.
            _ if this.helps => {
                self.phase = Phase::Measuring { since_ns: seen.now_ns, last: None };
                None
            }
            0..=1 => self.in_vain(seen, this.rate),
            _ => self.begin(seen, this.rate, 1),
        };
        Change { lanes: next.map_or(this.from, |next| next.lanes), told }
    }

    /// One way led nowhere: the other one is the next, and when both have, nothing is tried for a while.
    fn in_vain(&mut self, seen: &Seen, rate: Rate) -> Option<Change> {
        self.way = if self.way == Way::Up { Way::Down } else { Way::Up };
        if self.vain {
            self.rest(seen, rate);
            return None;
        }
        self.vain = true;
        self.begin(seen, rate, 1)
    }

    fn rest(&mut self, seen: &Seen, rate: Rate) {
        self.forget();
        self.vain = false;
        self.phase = Phase::Resting { until_ns: seen.now_ns.saturating_add(nanoseconds(self.rest)), rate };
        self.rest = (self.rest * 2).min(REST_MAX);
    }

    /// Ends a rest that is over, or in which the way has become another.
    fn rested(&mut self, seen: &Seen, until_ns: u64, before: Rate) -> Option<Change> {
        let rate = self.rate();
        let is_other = |high: Rate, low: Rate| high.middle > low.middle * CHANGED && high.is_above(low);
        let has_changed = is_other(rate, before) || is_other(before, rate);
        if has_changed {
            self.rest = REST;
        }
        if has_changed || seen.now_ns >= until_ns {
            self.forget();
            self.helped = false;
            self.phase = Phase::Measuring { since_ns: seen.now_ns, last: None };
        }
        None
    }
}

/// What lies in the middle, 0 of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn told(choice: String, tried: (u16, Rate), before: (u16, Rate)) -> (String, String) {
    let rate = |(lanes, rate): (u16, Rate)| format!("{} with {lanes}", format_rate(rate.middle));
    (choice, format!("{}, {}", rate(tried), rate(before)))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK_NS: u64 = 200_000_000;
    const MEGABYTE: f64 = 1e6;

    /// A way that moves what `rate` says of the lanes and the time in seconds, give or take `noise`.
    struct Simulated {
        tuner: Tuner,
        lanes: u16,
        now_ns: u64,
        passed: f64,
        noise: f64,
        random: u64,
        changes: Vec<(f64, u16)>,
        told: Vec<String>,
    }

    impl Simulated {
        fn new(lanes: u16, most: u16, noise: f64) -> Self {
            let tuner = Tuner::new(lanes, most, 0);
            let (changes, told) = (Vec::new(), Vec::new());
            Self { tuner, lanes, now_ns: 0, passed: 0.0, noise, random: 7, changes, told }
        }

        fn run(&mut self, seconds: f64, rate: impl Fn(u16, f64) -> f64) {
            self.run_seen(seconds, rate, |seen| seen);
        }

        fn run_seen(&mut self, seconds: f64, rate: impl Fn(u16, f64) -> f64, see: impl Fn(Seen) -> Seen) {
            let end_ns = self.now_ns + (seconds * 1e9) as u64;
            while self.now_ns < end_ns {
                self.now_ns += LOOK_NS;
                self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let share = (self.random >> 33) as f64 / (1_u64 << 31) as f64 * 2.0 - 1.0;
                let seconds = self.now_ns as f64 / 1e9;
                self.passed += rate(self.lanes, seconds) * (1.0 + self.noise * share) * LOOK_NS as f64 / 1e9;
                let seen = Seen {
                    now_ns: self.now_ns,
                    passed: Passed {
                        bytes: self.passed as u64,
                        round_trip: Duration::from_millis(30),
                        round_trip_least: Duration::from_millis(20),
                        sent_again: self.now_ns,
                    },
                    has_waiting: true,
                    is_bound: false,
                };
                if let Some(Change { lanes, told }) = self.tuner.look(see(seen)) {
                    self.lanes = lanes;
                    self.changes.push((seconds, lanes));
                    self.told.extend(told.map(|(choice, reason)| format!("{choice} ({reason})")));
                }
            }
        }

        /// The first changes, for messages.
        fn first(&self) -> &[(f64, u16)] {
            &self.changes[..self.changes.len().min(40)]
        }

        /// The share of this time in which there were so many lanes.
        fn share_of(&self, from: f64, to: f64, wanted: impl Fn(u16) -> bool) -> f64 {
            let mut lanes =
                self.changes.iter().take_while(|change| change.0 <= from).last().map_or(0, |c| c.1);
            let (mut at, mut share) = (from, 0.0);
            for (next, more) in self.changes.iter().filter(|change| change.0 > from && change.0 <= to) {
                share += if wanted(lanes) { next - at } else { 0.0 };
                (lanes, at) = (*more, *next);
            }
            share += if wanted(lanes) { to - at } else { 0.0 };
            share / (to - from)
        }
    }

    #[test]
    fn where_the_line_is_full_the_count_stays() {
        let mut way = Simulated::new(10, 32, 0.05);
        way.run(600.0, |_, _| 119.0 * MEGABYTE);
        assert!(way.share_of(0.5, 600.0, |lanes| (8..=12).contains(&lanes)) > 0.99, "{:?}", way.first());
        assert!(way.share_of(30.0, 600.0, |lanes| lanes == 10) > 0.9, "{:?}", way.first());
        assert!(way.told.iter().all(|told| told.contains("as before (")), "{:?}", way.told);
    }

    #[test]
    fn where_each_connection_has_its_rate_there_are_soon_as_many_as_pay() {
        let mut way = Simulated::new(2, 32, 0.05);
        way.run(60.0, |lanes, _| (f64::from(lanes) * 6.0).min(119.0) * MEGABYTE);
        assert!(way.share_of(14.0, 60.0, |lanes| lanes >= 20) > 0.9, "{:?}", way.first());
        let mut way = Simulated::new(10, 32, 0.05);
        way.run(60.0, |lanes, _| f64::from(lanes) * MEGABYTE);
        assert!(way.share_of(12.0, 60.0, |lanes| lanes >= 28) > 0.9, "{:?}", way.first());
    }

    #[test]
    fn where_the_line_loses_what_need_not_wait_many_are_tried_at_once() {
        let mut way = Simulated::new(10, 32, 0.05);
        let see = |seen: Seen| Seen {
            passed: Passed { round_trip: Duration::from_millis(21), ..seen.passed },
            ..seen
        };
        way.run_seen(20.0, |lanes, _| f64::from(lanes) * MEGABYTE, see);
        assert!(way.share_of(3.0, 20.0, |lanes| lanes == 32) > 0.6, "{:?}", way.first());
    }

    #[test]
    fn what_is_left_of_the_beginning_does_not_hide_that_many_help() {
        let mut way = Simulated::new(16, 32, 0.15);
        let see = |seen: Seen| Seen {
            passed: Passed { round_trip: Duration::from_millis(21), ..seen.passed },
            ..seen
        };
        let falling = |lanes: u16, at: f64| (f64::from(lanes) * 1.5 + 40.0 * (-at / 5.0).exp()) * MEGABYTE;
        way.run_seen(30.0, falling, see);
        assert!(way.share_of(3.0, 30.0, |lanes| lanes >= 28) > 0.9, "{:?}", way.first());
        // Nor that at first they had to wait.
        let mut way = Simulated::new(10, 32, 0.02);
        let late = |seen: Seen| if seen.now_ns < 8_000_000_000 { seen } else { see(seen) };
        way.run_seen(30.0, |lanes, _| (f64::from(lanes) * 0.4 + 16.0) * MEGABYTE, late);
        assert!(way.share_of(11.0, 13.0, |lanes| lanes >= 28) > 0.9, "{:?}", way.first());
        // Nor that they had to for a long time, in which nothing was tried any more.
        let mut way = Simulated::new(10, 32, 0.02);
        let late = |seen: Seen| if seen.now_ns < 100_000_000_000 { seen } else { see(seen) };
        way.run_seen(120.0, |_, _| 119.0 * MEGABYTE, late);
        assert!(way.share_of(20.0, 100.0, |lanes| lanes <= 12) > 0.99, "{:?}", way.first());
        assert!(way.share_of(104.0, 106.0, |lanes| lanes >= 28) > 0.9, "{:?}", way.first());
        // On a slow line, where nothing is gained, they would have to be waited for.
        let mut way = Simulated::new(10, 32, 0.05);
        way.run_seen(30.0, |_, _| 3.0 * MEGABYTE, see);
        assert!(way.share_of(6.0, 30.0, |lanes| lanes <= 12) > 0.8, "{:?}", way.first());
    }

    #[test]
    fn where_more_connections_lose_there_are_soon_fewer() {
        let crowded = |lanes: u16, _| {
            let more = f64::from(lanes.saturating_sub(4));
            (f64::from(lanes) * 25.0).min(100.0) * (1.0 - 0.1 * more).max(0.1) * MEGABYTE
        };
        let mut way = Simulated::new(10, 32, 0.05);
        way.run(60.0, crowded);
        assert!(way.share_of(15.0, 60.0, |lanes| (3..=5).contains(&lanes)) > 0.95, "{:?}", way.first());
        assert!(way.told.iter().any(|told| told.starts_with("lanes: 8 instead of 10 (")), "{:?}", way.told);
    }

    #[test]
    fn on_a_slow_line_fewer_lanes_do() {
        let mut way = Simulated::new(10, 32, 0.02);
        way.run(120.0, |_, _| 12.0 * MEGABYTE);
        assert!(way.share_of(30.0, 120.0, |lanes| (2..=3).contains(&lanes)) > 0.8, "{:?}", way.first());
    }

    #[test]
    fn a_way_that_changes_is_looked_at_again() {
        // After half a minute each connection gets a fifth of what it got, since others use the line.
        let mut way = Simulated::new(10, 32, 0.03);
        let rate = |lanes: u16, at: f64| {
            let each = if at < 40.0 { 20.0 } else { 2.0 };
            (f64::from(lanes) * each).min(119.0) * MEGABYTE
        };
        way.run(90.0, rate);
        assert!(way.share_of(30.0, 40.0, |lanes| (8..=12).contains(&lanes)) > 0.99, "{:?}", way.first());
        assert!(way.share_of(55.0, 90.0, |lanes| lanes >= 24) > 0.9, "{:?}", way.first());
    }

    #[test]
    fn nothing_is_tried_where_nothing_can_be_learnt() {
        for idle in [true, false] {
            let mut way = Simulated::new(2, 32, 0.1);
            let see = |seen| match idle {
                true => Seen { has_waiting: false, ..seen },
                false => Seen { is_bound: true, ..seen },
            };
            way.run_seen(60.0, |lanes, _| f64::from(lanes) * MEGABYTE, see);
            assert!(way.changes.is_empty(), "{:?}", way.first());
        }
        // What becomes bound during a try is taken back, and left alone for a while.
        let mut way = Simulated::new(2, 32, 0.0);
        way.run(4.0, |_, _| 10.0 * MEGABYTE);
        assert_eq!(way.lanes, 3);
        way.run_seen(2.0, |_, _| 10.0 * MEGABYTE, |seen| Seen { is_bound: true, ..seen });
        assert_eq!(way.lanes, 2);
    }

    #[test]
    fn noise_does_not_carry_it_away() {
        let mut way = Simulated::new(4, 32, 0.3);
        way.run(3600.0, |_, _| 119.0 * MEGABYTE);
        assert!(way.share_of(60.0, 3600.0, |lanes| (2..=8).contains(&lanes)) > 0.95, "{:?}", way.first());
        assert!(way.changes.len() < 400);
    }
}
