//! Finds the number of lanes that transfers most, by trying more or fewer of them during a run. It has no clock and
//! starts no lanes; samples are passed in.

use std::collections::VecDeque;
use std::time::Duration;

use crate::endpoint::LinkStats;
use crate::extent::CHUNK_BYTES;
use crate::units::format_rate;

/// The numbers of lanes to try, in order.
const LADDER: [u16; 14] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32];
/// The number of samples that a rate is the median of, so that a moment of silence does not count. Twice as many are
/// used if the difference is too small to be certain.
const LOOKS: usize = 7;
/// The time that connections take to reach their rate: this duration plus a number of round trips.
const SETTLE: Duration = Duration::from_millis(400);
const SETTLE_ROUND_TRIPS: u32 = 8;
/// A try succeeds if it gains this factor, and if the gain is more than this multiple of the uncertainty of the rates.
const GAIN: f64 = 1.05;
const CERTAIN: f64 = 4.0;
/// The weight of a new estimate of the spread of rates, relative to earlier ones.
const SPREAD_WEIGHT: f64 = 0.25;
/// If the rate grows by at least this share of the factor by which the lanes grew, even more lanes may help.
const PROPORTIONAL: f64 = 0.8;
/// A round trip longer than the shortest by less than this, or by less than a quarter, indicates no queue.
const WAITS_LEAST: Duration = Duration::from_millis(1);
/// Fewer lanes are also better if they lose no more than this and each lane took longer than [`CHUNK_LONG_S`] for a
/// chunk, because the run has to wait for their chunks in the end.
const AS_GOOD: f64 = 0.98;
const CHUNK_LONG_S: f64 = 1.0;
/// More lanes against needless segment loss are kept unless they transfer much less, because the burst at the beginning
/// still hides the gain. They are not kept if each lane would take longer than this for a chunk.
const HELPED: f64 = 0.6;
const CHUNK_TOO_LONG_S: f64 = 30.0;
/// The smaller number of samples that is enough to start a try against needless segment loss.
const HELP_LOOKS: usize = 4;
/// A try is ended at once if it falls to this share of the rate. A try against needless segment loss has a lower bound.
const LOSS: f64 = 0.7;
const LOSS_HELPING: f64 = 0.5;
/// The time without tries after tries that gained nothing: initially, and at most.
const REST: Duration = Duration::from_secs(4);
const REST_MAX: Duration = Duration::from_secs(60);
/// A rate that changes by this factor indicates a different network path, for which earlier results do not hold.
const CHANGED: f64 = 1.3;
/// The maximum number of failed tries that are reported; a long run has many.
const FAILURES_TOLD_MAX: u32 = 8;

/// One sample of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct TunerSample {
    /// The time of the sample in nanoseconds.
    pub now_ns: u64,
    /// The totals of the connections.
    pub passed: LinkStats,
    /// True if there is work that no lane has taken.
    pub has_waiting: bool,
    /// True if more lanes would only wait for each other: the processors are busy, or the rate is limited by the user.
    pub is_bound: bool,
}

/// A change to the number of lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaneChange {
    /// The number of lanes from now on.
    pub lanes: u16,
    /// The choice and its reason, if they are to be reported.
    pub told: Option<(String, String)>,
}

/// The direction of the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TuningDirection {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Measuring the rate of the current lanes.
    Measuring { since_ns: u64, last: Option<MeasuredRate> },
    /// Trying another number of lanes.
    Trying(TuningTrial),
    /// No tries until then, unless the rate changes.
    Resting { until_ns: u64, rate: MeasuredRate },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct TuningTrial {
    since_ns: u64,
    /// The number of lanes before the try; `rate` is their rate.
    from: u16,
    rate: MeasuredRate,
    /// The number of steps on the ladder from there.
    steps: usize,
    /// True if the try is made against needless segment loss.
    helps: bool,
}

/// A rate in bytes per second, and its uncertainty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct MeasuredRate {
    middle: f64,
    error: f64,
}

impl MeasuredRate {
    /// Returns true if the rate is certainly higher than another one.
    fn is_above(self, other: Self) -> bool {
        self.middle - other.middle > CERTAIN * self.error.hypot(other.error)
    }

    fn max(self, other: Self) -> Self {
        if self.middle > other.middle { self } else { other }
    }
}

/// The measurements of one sample.
#[derive(Clone, Copy, Debug)]
struct SampleFigures {
    /// The rate in bytes per second.
    rate: f64,
    /// True if segments were sent again since the previous sample.
    lost: bool,
    /// True if segments were queued on the network path.
    waited: bool,
}

/// Finds the number of lanes that transfers most.
#[derive(Debug)]
pub(super) struct Tuner {
    lanes: u16,
    most: u16,
    way: TuningDirection,
    phase: Phase,
    /// True if a try in one direction failed since the last success or rest.
    vain: bool,
    rest: Duration,
    /// The latest samples.
    looks: VecDeque<SampleFigures>,
    before: Option<TunerSample>,
    /// The usual deviation of a rate, as a share of the rate.
    spread: f64,
    /// True if the maximum number of lanes has been tried since the last rest.
    helped: bool,
    failures_told: u32,
}

impl Tuner {
    /// Returns the tuner of a run that begins with `lanes` and may use up to `most`.
    pub fn new(lanes: u16, most: u16, now_ns: u64) -> Self {
        Self {
            lanes,
            most: most.max(lanes),
            way: TuningDirection::Up,
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

    /// Takes a sample; called a few times per second. Returns the change to make, if any.
    pub fn look(&mut self, seen: TunerSample) -> Option<LaneChange> {
        self.note(&seen);
        // While lanes lack work or are limited otherwise, nothing can be learned about their number.
        if !seen.has_waiting || seen.is_bound {
            return self.give_up(&seen);
        }
        let settle = SETTLE + seen.passed.round_trip.saturating_mul(SETTLE_ROUND_TRIPS);
        let settled = |since_ns: u64| seen.now_ns.saturating_sub(since_ns) >= nanoseconds(settle);
        match self.phase {
            Phase::Measuring { since_ns, .. } | Phase::Trying(TuningTrial { since_ns, .. })
                if !settled(since_ns) =>
            {
                self.forget();
                None
            }
            Phase::Trying(this) if self.loses(this) => Some(self.back(&seen, this)),
            Phase::Measuring { .. } if self.can_help(HELP_LOOKS) => self.help(&seen),
            // Checked again while resting: at the beginning segments may have been queued, or none lost yet.
            Phase::Resting { .. } if self.can_help(LOOKS) => self.help(&seen),
            _ if self.looks.len() < LOOKS => None,
            Phase::Measuring { since_ns, last } => self.measured(&seen, since_ns, last),
            Phase::Trying(this) => self.tried(&seen, this),
            Phase::Resting { until_ns, rate } => self.rested(&seen, until_ns, rate),
        }
    }

    fn note(&mut self, seen: &TunerSample) {
        let Some(before) = self.before.replace(*seen) else { return };
        let seconds = seen.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        if self.looks.len() == 2 * LOOKS {
            self.looks.pop_front();
        }
        let LinkStats { round_trip, round_trip_least, .. } = seen.passed;
        let waits = round_trip.saturating_sub(round_trip_least);
        self.looks.push_back(SampleFigures {
            rate: seen.passed.bytes.saturating_sub(before.passed.bytes) as f64 / seconds,
            lost: seen.passed.sent_again > before.passed.sent_again,
            waited: waits >= (round_trip_least / 4).max(WAITS_LEAST),
        });
        if self.looks.len() == LOOKS {
            self.learn_spread();
        }
    }

    /// Returns true if segments are lost although hardly any are queued. Other traffic causes the loss, and each
    /// connection mistakes it for a full link.
    fn loses_without_need(&self) -> bool {
        let waited = self.looks.iter().filter(|look| look.waited).count();
        waited * 2 <= self.looks.len() && self.looks.iter().any(|look| look.lost)
    }

    /// Discards the samples.
    fn forget(&mut self) {
        self.looks.clear();
    }

    fn rates(&self) -> impl Iterator<Item = f64> + Clone {
        self.looks.iter().map(|look| look.rate)
    }

    /// Returns the rate over the latest samples.
    fn rate(&self) -> MeasuredRate {
        let middle = self.middle();
        MeasuredRate { middle, error: middle * self.spread / (self.looks.len().max(1) as f64).sqrt() }
    }

    fn middle(&self) -> f64 {
        median(self.rates())
    }

    /// Updates the spread of rates, as a share of the rate. A few samples alone would often seem too close together.
    fn learn_spread(&mut self) {
        let middle = self.middle();
        if self.looks.len() < LOOKS || middle <= 0.0 {
            return;
        }
        // Differences between consecutive samples are used so that a growing rate does not count as uncertain.
        let steps = self.rates().zip(self.rates().skip(1)).map(|(one, next)| (next - one).abs());
        // For a normal distribution, 0.6745 is the ratio of the median absolute deviation to the standard deviation,
        // and 1.2533 that of the median's error to the mean's. A difference of two samples has the deviation of both,
        // hence the root of 2.
        let spread = median(steps) / middle / std::f64::consts::SQRT_2 / 0.6745 * 1.2533;
        self.spread = match self.spread {
            0.0 => spread,
            before => before + SPREAD_WEIGHT * (spread - before),
        };
    }

    /// Returns true if all samples of a try have been so low that it can be ended early.
    fn loses(&self, this: TuningTrial) -> bool {
        let least = this.rate.middle * if this.helps { LOSS_HELPING } else { LOSS };
        self.looks.len() >= LOOKS / 2 && self.rates().all(|now| now < least)
    }

    /// Discards the samples, because nothing can be learned now, and undoes a try in progress.
    fn give_up(&mut self, seen: &TunerSample) -> Option<LaneChange> {
        self.forget();
        match self.phase {
            Phase::Trying(TuningTrial { from, rate, .. }) => {
                self.lanes = from;
                self.rest(seen, rate);
                Some(LaneChange { lanes: from, told: None })
            }
            Phase::Measuring { .. } => {
                self.phase = Phase::Measuring { since_ns: seen.now_ns, last: None };
                None
            }
            Phase::Resting { .. } => None,
        }
    }

    /// Begins a try once the rate has stopped growing by itself.
    fn measured(
        &mut self,
        seen: &TunerSample,
        since_ns: u64,
        last: Option<MeasuredRate>,
    ) -> Option<LaneChange> {
        let rate = self.rate();
        let grows = |last: MeasuredRate| rate.middle > last.middle * GAIN && rate.is_above(last);
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

    /// Tries the maximum number of lanes.
    fn help(&mut self, seen: &TunerSample) -> Option<LaneChange> {
        (self.way, self.helped) = (TuningDirection::Up, true);
        let change = self.begin(seen, self.rate(), LADDER.len());
        if let Phase::Trying(this) = &mut self.phase {
            this.helps = true;
        }
        change
    }

    /// Tries a number of lanes `steps` further on the ladder than the lanes that reached `rate`.
    fn begin(&mut self, seen: &TunerSample, rate: MeasuredRate, steps: usize) -> Option<LaneChange> {
        let from = self.lanes;
        let further: Vec<u16> = match self.way {
            TuningDirection::Up => {
                LADDER.into_iter().filter(|count| (from + 1..=self.most).contains(count)).collect()
            }
            TuningDirection::Down => LADDER.into_iter().rev().filter(|count| *count < from).collect(),
        };
        let steps = steps.min(further.len());
        let Some(lanes) = steps.checked_sub(1).and_then(|last| further.get(last)) else {
            return self.in_vain(seen, rate);
        };
        self.forget();
        self.lanes = *lanes;
        self.phase = Phase::Trying(TuningTrial { since_ns: seen.now_ns, from, rate, steps, helps: false });
        Some(LaneChange { lanes: self.lanes, told: None })
    }

    /// Judges a try.
    fn tried(&mut self, seen: &TunerSample, this: TuningTrial) -> Option<LaneChange> {
        let rate = self.rate();
        let TuningTrial { from, rate: before, helps, .. } = this;
        let gain = if before.middle > 0.0 { rate.middle / before.middle } else { 1.0 };
        let chunk_s =
            |lanes: u16, rate: MeasuredRate| f64::from(lanes) * CHUNK_BYTES as f64 / rate.middle.max(1.0);
        let is_as_good = match self.way {
            TuningDirection::Up => helps && gain >= HELPED && chunk_s(self.lanes, rate) < CHUNK_TOO_LONG_S,
            TuningDirection::Down => {
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
            reason.insert_str(0, "segments are lost although the link is not full; ");
        }
        let told = (choice, reason);
        // The larger the gain, the further away is the best number. Losses accepted going down add up, because
        // later tries are compared with the best rate.
        let steps = match gain {
            _ if gain * f64::from(from) > PROPORTIONAL * f64::from(lanes)
                && self.way == TuningDirection::Up =>
            {
                3
            }
            ..1.25 => 1,
            _ => 2,
        };
        // A rate measured during the burst at the beginning is no longer comparable.
        let best = if helps { rate } else { rate.max(before) };
        let next = self.begin(seen, best, steps);
        Some(LaneChange { lanes: next.map_or(lanes, |next| next.lanes), told: Some(told) })
    }

    /// Undoes a try. A try of several steps is followed by one of a single step.
    fn back(&mut self, seen: &TunerSample, this: TuningTrial) -> LaneChange {
        let (tried, rate) = (self.lanes, self.rate());
        self.lanes = this.from;
        self.failures_told += 1;
        let choice = format!("lanes: {}, as before", this.from);
        let told = (self.failures_told <= FAILURES_TOLD_MAX)
            .then(|| told(choice, (tried, rate), (this.from, this.rate)));
        let next = match this.steps {
            // The earlier rate may be from the burst at the beginning, so the rate is measured again.
            _ if this.helps => {
                self.phase = Phase::Measuring { since_ns: seen.now_ns, last: None };
                None
            }
            0..=1 => self.in_vain(seen, this.rate),
            _ => self.begin(seen, this.rate, 1),
        };
        LaneChange { lanes: next.map_or(this.from, |next| next.lanes), told }
    }

    /// Records that one direction failed. The other one is tried next; if both have failed, a rest begins.
    fn in_vain(&mut self, seen: &TunerSample, rate: MeasuredRate) -> Option<LaneChange> {
        self.way = if self.way == TuningDirection::Up { TuningDirection::Down } else { TuningDirection::Up };
        if self.vain {
            self.rest(seen, rate);
            return None;
        }
        self.vain = true;
        self.begin(seen, rate, 1)
    }

    fn rest(&mut self, seen: &TunerSample, rate: MeasuredRate) {
        self.forget();
        self.vain = false;
        self.phase = Phase::Resting { until_ns: seen.now_ns.saturating_add(nanoseconds(self.rest)), rate };
        self.rest = (self.rest * 2).min(REST_MAX);
    }

    /// Ends a rest that is over, or during which the network path has changed.
    fn rested(&mut self, seen: &TunerSample, until_ns: u64, before: MeasuredRate) -> Option<LaneChange> {
        let rate = self.rate();
        let is_other =
            |high: MeasuredRate, low: MeasuredRate| high.middle > low.middle * CHANGED && high.is_above(low);
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

/// Returns the median; 0 if there are no values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn told(choice: String, tried: (u16, MeasuredRate), before: (u16, MeasuredRate)) -> (String, String) {
    let rate = |(lanes, rate): (u16, MeasuredRate)| format!("{} with {lanes}", format_rate(rate.middle));
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

    /// A simulated network path with the given rate for a number of lanes and a time in seconds, with relative `noise`.
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

        fn run_seen(
            &mut self,
            seconds: f64,
            rate: impl Fn(u16, f64) -> f64,
            see: impl Fn(TunerSample) -> TunerSample,
        ) {
            let end_ns = self.now_ns + (seconds * 1e9) as u64;
            while self.now_ns < end_ns {
                self.now_ns += LOOK_NS;
                self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let share = (self.random >> 33) as f64 / (1_u64 << 31) as f64 * 2.0 - 1.0;
                let seconds = self.now_ns as f64 / 1e9;
                self.passed += rate(self.lanes, seconds) * (1.0 + self.noise * share) * LOOK_NS as f64 / 1e9;
                let seen = TunerSample {
                    now_ns: self.now_ns,
                    passed: LinkStats {
                        bytes: self.passed as u64,
                        round_trip: Duration::from_millis(30),
                        round_trip_least: Duration::from_millis(20),
                        sent_again: self.now_ns,
                    },
                    has_waiting: true,
                    is_bound: false,
                };
                if let Some(LaneChange { lanes, told }) = self.tuner.look(see(seen)) {
                    self.lanes = lanes;
                    self.changes.push((seconds, lanes));
                    self.told.extend(told.map(|(choice, reason)| format!("{choice} ({reason})")));
                }
            }
        }

        /// Returns the first changes, for messages.
        fn first(&self) -> &[(f64, u16)] {
            &self.changes[..self.changes.len().min(40)]
        }

        /// Returns the share of this time in which the number of lanes was as `wanted`.
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
        let see = |seen: TunerSample| TunerSample {
            passed: LinkStats { round_trip: Duration::from_millis(21), ..seen.passed },
            ..seen
        };
        way.run_seen(20.0, |lanes, _| f64::from(lanes) * MEGABYTE, see);
        assert!(way.share_of(3.0, 20.0, |lanes| lanes == 32) > 0.6, "{:?}", way.first());
    }

    #[test]
    fn what_is_left_of_the_beginning_does_not_hide_that_many_help() {
        let mut way = Simulated::new(16, 32, 0.15);
        let see = |seen: TunerSample| TunerSample {
            passed: LinkStats { round_trip: Duration::from_millis(21), ..seen.passed },
            ..seen
        };
        let falling = |lanes: u16, at: f64| (f64::from(lanes) * 1.5 + 40.0 * (-at / 5.0).exp()) * MEGABYTE;
        way.run_seen(30.0, falling, see);
        assert!(way.share_of(3.0, 30.0, |lanes| lanes >= 28) > 0.9, "{:?}", way.first());
        // Nor does queueing at the beginning.
        let mut way = Simulated::new(10, 32, 0.02);
        let late = |seen: TunerSample| if seen.now_ns < 8_000_000_000 { seen } else { see(seen) };
        way.run_seen(30.0, |lanes, _| (f64::from(lanes) * 0.4 + 16.0) * MEGABYTE, late);
        assert!(way.share_of(11.0, 13.0, |lanes| lanes >= 28) > 0.9, "{:?}", way.first());
        // Nor does queueing for a long time, after which no more tries were made.
        let mut way = Simulated::new(10, 32, 0.02);
        let late = |seen: TunerSample| if seen.now_ns < 100_000_000_000 { seen } else { see(seen) };
        way.run_seen(120.0, |_, _| 119.0 * MEGABYTE, late);
        assert!(way.share_of(20.0, 100.0, |lanes| lanes <= 12) > 0.99, "{:?}", way.first());
        assert!(way.share_of(104.0, 106.0, |lanes| lanes >= 28) > 0.9, "{:?}", way.first());
        // On a slow link nothing is gained, and the run would have to wait for their chunks.
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
        // After 40 s each connection gets a tenth of its earlier rate, because others use the link.
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
                true => TunerSample { has_waiting: false, ..seen },
                false => TunerSample { is_bound: true, ..seen },
            };
            way.run_seen(60.0, |lanes, _| f64::from(lanes) * MEGABYTE, see);
            assert!(way.changes.is_empty(), "{:?}", way.first());
        }
        // A try that becomes limited is undone, and a rest follows.
        let mut way = Simulated::new(2, 32, 0.0);
        way.run(4.0, |_, _| 10.0 * MEGABYTE);
        assert_eq!(way.lanes, 3);
        way.run_seen(2.0, |_, _| 10.0 * MEGABYTE, |seen| TunerSample { is_bound: true, ..seen });
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
