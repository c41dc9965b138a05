//! Schedules the lanes of a run with limits, and adjusts the limits over time.
//!
//! Lanes only read a few numbers here ([`Pacer`]). One thread ([`LimitAdjuster`]) checks several times a second whether these
//! have to change: because of the time of day, because somebody set another limit, or because reads at the source take
//! too long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::pace::{RateSetting, RunLimits, time_words};

const SECOND_NS: u64 = 1_000_000_000;
/// Unused capacity of the last `BURST_NS` may still be used.
const BURST_NS: u64 = 50_000_000;
/// The interval at which lanes ask again during a pause.
const PAUSE_STEP_NS: u64 = 50_000_000;
/// Stands for the absence of a limit.
const NO_LIMIT: u64 = u64::MAX;
/// A batch of operations takes at most one `AT_ONCE_PART`th of a second.
const AT_ONCE_PART: u64 = 10;

/// Reads are judged after this time if there were enough of them, and otherwise after the longer time.
const JUDGED_AFTER_NS: u64 = SECOND_NS;
const JUDGED_READS: u64 = 100;
const JUDGED_AT_LATEST_NS: u64 = 3 * SECOND_NS;
/// If reads take too long, the rate is reduced to this percentage of what was done.
const BACK_OFF_PERCENT: u64 = 70;
/// Each time that reads are fast enough, this percentage of the rate at which they last were not is added.
const PROBE_PERCENT: u64 = 5;
/// The minimum rate. With fewer operations a second, nothing can be learned about the source.
const LEAST_OPERATIONS: u64 = 2;
/// A limit is dropped once it is this many times the rate at which it was set.
const FREE_FROM: u64 = 2;
/// The minimum time between reports of decisions about the source.
const TELL_EVERY_NS: u64 = 5 * SECOND_NS;

/// Limits that may change while a run is in progress.
pub trait LimitChanges: Sync {
    /// Returns the limits if they have changed since the last call.
    fn changed(&self) -> Option<RunLimits>;

    /// Returns the backlog of the run before, if there was one.
    fn backlog(&self) -> PacerBacklog {
        PacerBacklog::default()
    }

    /// Keeps the backlog of this run for the next one.
    fn keep_backlog(&self, _backlog: PacerBacklog) {}
}

/// The state in which a run leaves its limits: how long what was let through before its time takes, and what is known of the
/// source's latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacerBacklog {
    quantities: [QuantityBacklog; 3],
    latency: Option<LatencyBacklog>,
}

/// The reads since the last judgement, and the limit on a source whose reads took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LatencyBacklog {
    /// The latency that is asked for.
    p99_us: u64,
    held: Option<SourceLatencyLimit>,
    since_ns: u64,
    reads: u64,
    late: u64,
    operations: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QuantityBacklog {
    left_ns: u64,
    per_second: u64,
}

impl PacerBacklog {
    /// Returns what is left of it after some time.
    #[must_use]
    pub fn after(&self, elapsed: Duration) -> Self {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let rest = |before: QuantityBacklog| QuantityBacklog {
            left_ns: before.left_ns.saturating_sub(elapsed_ns),
            ..before
        };
        Self { quantities: self.quantities.map(rest), ..*self }
    }

    /// Returns it without what is known of the source: the next run may have another one.
    #[must_use]
    pub fn without_latency(&self) -> Self {
        Self { latency: None, ..*self }
    }
}

/// Limits that never change.
impl LimitChanges for () {
    fn changed(&self) -> Option<RunLimits> {
        None
    }
}

/// The quantities that are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitedQuantities {
    /// Bytes of content that leave the source.
    Content = 0,
    /// Operations at the source.
    Source = 1,
    /// Operations at the target.
    Target = 2,
}

/// The answer to a request for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacerTurn {
    /// Proceed now.
    Now,
    /// Proceed at this time.
    At(u64),
    /// No turn yet: ask again at this time.
    AskAt(u64),
}

/// The limit on one quantity.
#[derive(Debug)]
struct QuantityLimit {
    /// The rate: [`NO_LIMIT`] for none, 0 in a pause.
    per_second: AtomicU64,
    /// The time at which everything let through so far, and everything that waits for its turn, would be done at the given rate.
    free_ns: AtomicU64,
    /// The part of that for which lanes wait, as a duration.
    waiting_ns: AtomicU64,
    /// The rate by which both are counted; 0 if there was no limit yet.
    booked_per_second: AtomicU64,
}

impl QuantityLimit {
    fn new(now_ns: u64, backlog: QuantityBacklog) -> Self {
        Self {
            per_second: AtomicU64::new(NO_LIMIT),
            free_ns: AtomicU64::new(now_ns.saturating_add(backlog.left_ns)),
            waiting_ns: AtomicU64::new(0),
            booked_per_second: AtomicU64::new(backlog.per_second),
        }
    }

    fn turn(&self, now_ns: u64, amount: u64) -> PacerTurn {
        let rate = match self.per_second.load(Relaxed) {
            NO_LIMIT => return PacerTurn::Now,
            0 => return PacerTurn::AskAt(now_ns.saturating_add(PAUSE_STEP_NS)),
            rate => rate,
        };
        let takes_ns = duration_ns(amount, rate);
        let begin_ns = self.book(now_ns, takes_ns);
        if begin_ns <= now_ns {
            return PacerTurn::Now;
        }
        self.waiting_ns.fetch_add(takes_ns, Relaxed);
        PacerTurn::At(begin_ns)
    }

    /// Books a duration, and returns when it begins.
    fn book(&self, now_ns: u64, takes_ns: u64) -> u64 {
        let begin = |free_ns: u64| free_ns.max(now_ns.saturating_sub(BURST_NS));
        let booked = self
            .free_ns
            .fetch_update(Relaxed, Relaxed, |free_ns| Some(begin(free_ns).saturating_add(takes_ns)));
        begin(booked.unwrap_or(now_ns))
    }

    /// Books an amount that is let through already, also in a pause.
    fn owe(&self, now_ns: u64, amount: u64) {
        let rate = match self.per_second.load(Relaxed) {
            0 => self.booked_per_second.load(Relaxed),
            rate => rate,
        };
        if !matches!(rate, 0 | NO_LIMIT) {
            self.book(now_ns, duration_ns(amount, rate));
        }
    }

    /// Notes that a lane that waited for its turn goes on.
    fn begun(&self, amount: u64) {
        let takes_ns = duration_ns(amount, self.per_second.load(Relaxed).max(1));
        let less = |waiting_ns: u64| Some(waiting_ns.saturating_sub(takes_ns));
        let _before = self.waiting_ns.fetch_update(Relaxed, Relaxed, less);
    }

    /// Returns how long what was let through takes from now on, at the rate by which it is counted.
    fn left_ns(&self, now_ns: u64) -> u64 {
        let booked_ns = self.free_ns.load(Relaxed).saturating_sub(now_ns);
        booked_ns.saturating_sub(self.waiting_ns.load(Relaxed))
    }

    /// Sets another rate. What was let through counts on at that rate; lanes that wait have to ask again.
    fn change(&self, per_second: u64, now_ns: u64) {
        let (left_ns, before) = (self.left_ns(now_ns), self.booked_per_second.load(Relaxed));
        self.per_second.store(per_second, Relaxed);
        let left_ns = match per_second {
            NO_LIMIT => 0,
            // It is done while nothing else is let through.
            0 => left_ns,
            rate => {
                self.booked_per_second.store(rate, Relaxed);
                let left_ns = u128::from(left_ns) * u128::from(before) / u128::from(rate);
                u64::try_from(left_ns).unwrap_or(u64::MAX)
            }
        };
        self.waiting_ns.store(0, Relaxed);
        self.free_ns.store(now_ns.saturating_add(left_ns), Relaxed);
    }

    /// Sets another rate for turns that begin later. Lanes that wait keep theirs.
    fn adjust(&self, per_second: u64) {
        self.per_second.store(per_second, Relaxed);
        if !matches!(per_second, 0 | NO_LIMIT) {
            self.booked_per_second.store(per_second, Relaxed);
        }
    }

    fn backlog(&self, now_ns: u64) -> QuantityBacklog {
        let per_second = self.booked_per_second.load(Relaxed);
        QuantityBacklog { left_ns: self.left_ns(now_ns), per_second }
    }
}

fn duration_ns(amount: u64, per_second: u64) -> u64 {
    let takes_ns = u128::from(amount) * u128::from(SECOND_NS) / u128::from(per_second);
    u64::try_from(takes_ns).unwrap_or(u64::MAX)
}

/// Schedules lanes. Times are those of the run's clock, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Pacer {
    gates: [QuantityLimit; 3],
    /// The number of times that limits were set. A lane that waits for an earlier turn asks again.
    changes: AtomicU64,
    /// Reads longer than this are late; [`NO_LIMIT`] if reads are not timed.
    late_ns: AtomicU64,
    /// Reads at the source, late ones among them, and operations, since the last judgement.
    reads: AtomicU64,
    late: AtomicU64,
    operations: AtomicU64,
    /// True if the source is held back because its reads take too long.
    by_latency: AtomicBool,
}

impl Pacer {
    pub fn new(now_ns: u64, backlog: PacerBacklog) -> Self {
        Self {
            gates: backlog.quantities.map(|backlog| QuantityLimit::new(now_ns, backlog)),
            changes: AtomicU64::new(0),
            late_ns: AtomicU64::new(NO_LIMIT),
            reads: AtomicU64::new(0),
            late: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            by_latency: AtomicBool::new(false),
        }
    }

    /// Returns true if lanes have to ask for turns.
    pub fn holds(&self, what: LimitedQuantities) -> bool {
        self.gates[what as usize].per_second.load(Relaxed) != NO_LIMIT
            || what == LimitedQuantities::Source && self.times_reads()
    }

    /// Returns the turn for this amount: after everything requested before, spread at the given rate.
    pub fn turn(&self, what: LimitedQuantities, now_ns: u64, amount: u64) -> PacerTurn {
        let turn = self.gates[what as usize].turn(now_ns, amount);
        if what == LimitedQuantities::Source && !matches!(turn, PacerTurn::AskAt(_)) {
            self.operations.fetch_add(amount, Relaxed);
        }
        turn
    }

    /// Notes that a lane goes on that waited for its turn for this amount.
    pub fn begun(&self, what: LimitedQuantities, amount: u64) {
        self.gates[what as usize].begun(amount);
    }

    /// Counts an amount that is let through already. Turns after it begin later.
    pub fn owe(&self, what: LimitedQuantities, now_ns: u64, amount: u64) {
        self.gates[what as usize].owe(now_ns, amount);
        if what == LimitedQuantities::Source {
            self.operations.fetch_add(amount, Relaxed);
        }
    }

    /// Returns the number of times that limits were set.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Returns true during a pause.
    pub fn is_paused(&self) -> bool {
        self.gates[LimitedQuantities::Content as usize].per_second.load(Relaxed) == 0
    }

    /// Returns the maximum number of operations in one batch.
    pub fn operations_at_once(&self) -> u64 {
        let most = |what: LimitedQuantities| match self.gates[what as usize].per_second.load(Relaxed) {
            NO_LIMIT => NO_LIMIT,
            rate => (rate / AT_ONCE_PART).max(1),
        };
        most(LimitedQuantities::Source).min(most(LimitedQuantities::Target))
    }

    /// Returns true if the durations of reads are needed.
    pub fn times_reads(&self) -> bool {
        self.late_ns.load(Relaxed) != NO_LIMIT
    }

    /// Records `reads` reads at the source that took `each_ns` each.
    pub fn read_took(&self, each_ns: u64, reads: u64) {
        self.reads.fetch_add(reads, Relaxed);
        if each_ns > self.late_ns.load(Relaxed) {
            self.late.fetch_add(reads, Relaxed);
        }
    }

    /// Returns true if the source is held back because its reads take too long.
    pub fn is_held_by_latency(&self) -> bool {
        self.by_latency.load(Relaxed)
    }

    /// Sets rates. Lanes that wait ask again.
    fn set(&self, per_second: [u64; 3], now_ns: u64) {
        self.gates.iter().zip(per_second).for_each(|(gate, rate)| gate.change(rate, now_ns));
        self.changes.fetch_add(1, Relaxed);
    }

    fn per_second(&self, what: LimitedQuantities) -> u64 {
        self.gates[what as usize].per_second.load(Relaxed)
    }
}

/// Adjusts limits over time. There is one, with one thread.
#[derive(Debug)]
pub(crate) struct LimitAdjuster {
    limits: RunLimits,
    /// The start of the current limits. Their timetable counts from then.
    since_ns: u64,
    /// The limit on operations at the source because of late reads.
    by_latency: Option<SourceLatencyLimit>,
    judged_ns: u64,
    /// The time from the last judgement to the end of the run before.
    unjudged_ns: u64,
    told_ns: Option<u64>,
    /// The end, in seconds of the day, of the pause that was reported last, if it is not over.
    paused_until_s: Option<u32>,
    /// The time until which pauses have been counted.
    counted_ns: u64,
}

/// The limit on a source whose reads take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SourceLatencyLimit {
    per_second: u64,
    /// The rate when reads last took too long.
    was: u64,
}

impl LimitAdjuster {
    pub fn new(limits: RunLimits, pacer: &Pacer, now_ns: u64, backlog: PacerBacklog) -> Self {
        let before = backlog.latency.filter(|before| limits.source_p99_us == Some(before.p99_us));
        if let Some(LatencyBacklog { reads, late, operations, .. }) = before {
            pacer.reads.store(reads, Relaxed);
            pacer.late.store(late, Relaxed);
            pacer.operations.store(operations, Relaxed);
        }
        let mut keeper = Self {
            limits,
            since_ns: now_ns,
            by_latency: before.and_then(|before| before.held),
            judged_ns: now_ns,
            unjudged_ns: before.map_or(0, |before| before.since_ns),
            told_ns: None,
            paused_until_s: None,
            counted_ns: now_ns,
        };
        keeper.begin(pacer, now_ns);
        keeper
    }

    /// Replaces the limits from now on.
    pub fn change(&mut self, limits: RunLimits, pacer: &Pacer, now_ns: u64) {
        // Other limits say nothing about the source: shares in a limit change more often than reads are judged.
        if self.limits.source_p99_us != limits.source_p99_us {
            (self.by_latency, self.judged_ns, self.unjudged_ns) = (None, now_ns, 0);
            for counter in [&pacer.reads, &pacer.late, &pacer.operations] {
                counter.store(0, Relaxed);
            }
        }
        (self.limits, self.since_ns) = (limits, now_ns);
        self.begin(pacer, now_ns);
    }

    fn begin(&mut self, pacer: &Pacer, now_ns: u64) {
        pacer
            .late_ns
            .store(self.limits.source_p99_us.map_or(NO_LIMIT, |us| us.saturating_mul(1000)), Relaxed);
        pacer.set([self.content(now_ns), self.source(pacer), self.operations()], now_ns);
    }

    /// Returns the state in which the run leaves its limits.
    pub fn backlog(&self, pacer: &Pacer, now_ns: u64) -> PacerBacklog {
        let latency = self.limits.source_p99_us.map(|p99_us| LatencyBacklog {
            p99_us,
            held: self.by_latency,
            since_ns: self.unjudged_ns.saturating_add(now_ns.saturating_sub(self.judged_ns)),
            reads: pacer.reads.load(Relaxed),
            late: pacer.late.load(Relaxed),
            operations: pacer.operations.load(Relaxed),
        });
        PacerBacklog { quantities: [0, 1, 2].map(|index| pacer.gates[index].backlog(now_ns)), latency }
    }

    /// Checks the time and the latency of the source. Returns a decision about the source and its reason, if they are
    /// to be reported.
    pub fn look(&mut self, pacer: &Pacer, now_ns: u64) -> Option<(String, String)> {
        let content = self.content(now_ns);
        if content != pacer.per_second(LimitedQuantities::Content) {
            let [source, target] = [LimitedQuantities::Source, LimitedQuantities::Target];
            pacer.set([content, pacer.per_second(source), pacer.per_second(target)], now_ns);
        }
        self.limits.source_p99_us?;
        self.judge(pacer, now_ns)
    }

    /// Returns a message about a pause that has begun or ended since the last call.
    pub fn pause_words(&mut self, now_ns: u64) -> Option<String> {
        let elapsed = self.elapsed(now_ns);
        let is_paused = self.limits.rate.at(elapsed) == RateSetting::Paused;
        let until_s = if is_paused { self.limits.rate.until_s(elapsed) } else { None };
        let before = std::mem::replace(&mut self.paused_until_s, until_s);
        match (before, until_s) {
            (before, Some(until_s)) if before != Some(until_s) => {
                Some(format!("paused until {}, by the timetable of --bwlimit", time_words(until_s)))
            }
            (Some(_), None) => {
                Some(format!("the pause is over: {} (--bwlimit)", self.limits.rate.words_at(elapsed)))
            }
            _ => None,
        }
    }

    /// Returns how much of the time since the last call was a pause, in nanoseconds. Must be called before limits are
    /// changed or checked.
    pub fn paused_ns(&mut self, pacer: &Pacer, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.counted_ns, now_ns));
        if pacer.is_paused() { passed_ns } else { 0 }
    }

    /// Returns the second of the day until which a timetable pauses the run.
    pub fn paused_until_s(&self) -> Option<u32> {
        self.paused_until_s
    }

    fn elapsed(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(now_ns.saturating_sub(self.since_ns))
    }

    /// Returns the current limit in bytes per second.
    fn content(&self, now_ns: u64) -> u64 {
        match self.limits.rate.at(self.elapsed(now_ns)) {
            RateSetting::Unlimited => NO_LIMIT,
            RateSetting::Paused => 0,
            RateSetting::BytesPerSecond(rate) => rate.max(1),
        }
    }

    /// Returns the operations per second at each end; 0 lets none through.
    fn operations(&self) -> u64 {
        self.limits.operations_per_second.map_or(NO_LIMIT, u64::from)
    }

    /// Returns the operations per second at the source, and notes if it is held back because its reads take too long.
    fn source(&self, pacer: &Pacer) -> u64 {
        let by_latency = self.by_latency.map_or(NO_LIMIT, |held| held.per_second);
        pacer.by_latency.store(by_latency < self.operations(), Relaxed);
        by_latency.min(self.operations())
    }

    /// Reduces the source's rate if more than one percent of its reads were late, and raises it otherwise.
    fn judge(&mut self, pacer: &Pacer, now_ns: u64) -> Option<(String, String)> {
        let elapsed_ns = self.unjudged_ns.saturating_add(now_ns.saturating_sub(self.judged_ns));
        let reads = pacer.reads.load(Relaxed);
        let is_due = elapsed_ns >= JUDGED_AFTER_NS && reads >= JUDGED_READS;
        if !is_due && elapsed_ns < JUDGED_AT_LATEST_NS {
            return None;
        }
        (self.judged_ns, self.unjudged_ns) = (now_ns, 0);
        let taken = |counter: &AtomicU64| counter.swap(0, Relaxed);
        let (reads, late, done) = (taken(&pacer.reads), taken(&pacer.late), taken(&pacer.operations));
        if reads == 0 {
            return None;
        }
        let done = (u128::from(done) * u128::from(SECOND_NS) / u128::from(elapsed_ns.max(1))) as u64;
        let before = self.by_latency;
        if late.saturating_mul(100) > reads {
            let was = before.map_or(done, |held| held.per_second.min(done));
            let per_second = (was.saturating_mul(BACK_OFF_PERCENT) / 100).max(LEAST_OPERATIONS);
            self.by_latency = Some(SourceLatencyLimit { per_second, was });
        } else if let Some(SourceLatencyLimit { per_second, was }) = before {
            let per_second = per_second.saturating_add((was.saturating_mul(PROBE_PERCENT) / 100).max(1));
            let is_free = per_second >= was.max(LEAST_OPERATIONS).saturating_mul(FREE_FROM);
            self.by_latency = (!is_free).then_some(SourceLatencyLimit { per_second, was });
        }
        let source = self.source(pacer);
        pacer.gates[LimitedQuantities::Source as usize].adjust(source);
        let has_turned = before.is_some() != self.by_latency.is_some();
        let is_quiet = self.told_ns.is_some_and(|told_ns| now_ns.saturating_sub(told_ns) < TELL_EVERY_NS);
        if before.is_none() && self.by_latency.is_none() || is_quiet && !has_turned {
            return None;
        }
        self.told_ns = Some(now_ns);
        let choice = match self.by_latency {
            Some(held) => format!("source: at most {} operations a second", held.per_second),
            None => "source: no longer throttled".to_owned(),
        };
        let limit_ms = self.limits.source_p99_us.unwrap_or(0) as f64 / 1000.0;
        let share = late as f64 * 100.0 / reads as f64;
        let reason = format!("{share:.1} % of {reads} reads took longer than {limit_ms} ms (--source-p99)");
        Some((choice, reason))
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
