//! Gives lanes their turns, where a run is held to limits, and keeps the limits as time goes on.
//!
//! Lanes only read a few numbers here ([`Pacer`]); one thread looks several times a second whether those have to be others
//! ([`Keeper`]): by the time of day, since somebody has set another limit, or since reads at the source take too long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::pace::{Limits, Rate, time_words};

const SECOND_NS: u64 = 1_000_000_000;
/// What was not used of a limit for so long may still be used.
const BURST_NS: u64 = 50_000_000;
/// In a pause it is asked again after so long.
const PAUSE_STEP_NS: u64 = 50_000_000;
/// In the place of a limit where there is none.
const NO_LIMIT: u64 = u64::MAX;
/// Operations that belong together take no more than this part of a second.
const AT_ONCE_PART: u64 = 10;

/// Reads are judged after so long, if there were so many, or else after the longer time.
const JUDGED_AFTER_NS: u64 = SECOND_NS;
const JUDGED_READS: u64 = 100;
const JUDGED_AT_LATEST_NS: u64 = 3 * SECOND_NS;
/// Where reads take too long, this part of what was done goes on, in percent.
const BACK_OFF_PERCENT: u64 = 70;
/// Each time that they do not, so much of it is added, in percent.
const PROBE_PERCENT: u64 = 5;
/// Fewer operations a second than this would say nothing about the source.
const LEAST_OPERATIONS: u64 = 2;
/// A limit of so many times what was done when it was found is none any more.
const FREE_FROM: u64 = 2;
/// What is decided about the source is told no more often.
const TELL_EVERY_NS: u64 = 5 * SECOND_NS;

/// Limits that may be set anew while a run is under way.
pub trait LimitChanges: Sync {
    /// The limits, if they are others than when it was asked last.
    fn changed(&self) -> Option<Limits>;
}

/// Limits that stay as they are.
impl LimitChanges for () {
    fn changed(&self) -> Option<Limits> {
        None
    }
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paced {
    /// Bytes of content that leave the source.
    Content = 0,
    /// Operations at the source.
    Source = 1,
    /// Operations at the target.
    Target = 2,
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

/// How much of one thing may be done.
#[derive(Debug)]
struct Gate {
    /// [`NO_LIMIT`], or 0 in a pause.
    per_second: AtomicU64,
    /// When all that has been let through would be through, at the rate.
    free_ns: AtomicU64,
}

impl Gate {
    fn new(now_ns: u64) -> Self {
        Self { per_second: AtomicU64::new(NO_LIMIT), free_ns: AtomicU64::new(now_ns) }
    }

    fn turn(&self, now_ns: u64, amount: u64) -> Turn {
        let rate = match self.per_second.load(Relaxed) {
            NO_LIMIT => return Turn::Now,
            0 => return Turn::AskAt(now_ns.saturating_add(PAUSE_STEP_NS)),
            rate => rate,
        };
        let takes_ns = u128::from(amount) * u128::from(SECOND_NS) / u128::from(rate);
        let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
        let begin = |free_ns: u64| free_ns.max(now_ns.saturating_sub(BURST_NS));
        let booked = self
            .free_ns
            .fetch_update(Relaxed, Relaxed, |free_ns| Some(begin(free_ns).saturating_add(takes_ns)));
        let begin_ns = begin(booked.unwrap_or(now_ns));
        if begin_ns <= now_ns { Turn::Now } else { Turn::At(begin_ns) }
    }
}

/// Gives lanes their turns. Its clock is the run's.
#[derive(Debug)]
pub(crate) struct Pacer {
    gates: [Gate; 3],
    /// How often limits were set. Whoever waits for a turn of before asks again.
    changes: AtomicU64,
    /// A longer read than this is late; [`NO_LIMIT`] where nobody asks.
    late_ns: AtomicU64,
    /// Reads at the source, those of them that were late, and operations, since they were judged last.
    reads: AtomicU64,
    late: AtomicU64,
    operations: AtomicU64,
    /// The source is held back because its reads take too long.
    by_latency: AtomicBool,
}

impl Pacer {
    pub fn new(now_ns: u64) -> Self {
        Self {
            gates: [Gate::new(now_ns), Gate::new(now_ns), Gate::new(now_ns)],
            changes: AtomicU64::new(0),
            late_ns: AtomicU64::new(NO_LIMIT),
            reads: AtomicU64::new(0),
            late: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            by_latency: AtomicBool::new(false),
        }
    }

    /// Whether anybody has to ask.
    pub fn holds(&self, what: Paced) -> bool {
        self.gates[what as usize].per_second.load(Relaxed) != NO_LIMIT
            || what == Paced::Source && self.times_reads()
    }

    /// When so much may be done: after all that have asked before, which is as if they went at the rate.
    pub fn turn(&self, what: Paced, now_ns: u64, amount: u64) -> Turn {
        let turn = self.gates[what as usize].turn(now_ns, amount);
        if what == Paced::Source && !matches!(turn, Turn::AskAt(_)) {
            self.operations.fetch_add(amount, Relaxed);
        }
        turn
    }

    /// How often limits were set.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Whether nothing may go at all now.
    pub fn is_paused(&self) -> bool {
        self.gates[Paced::Content as usize].per_second.load(Relaxed) == 0
    }

    /// So many operations at most may belong together.
    pub fn operations_at_once(&self) -> u64 {
        let most = |what: Paced| match self.gates[what as usize].per_second.load(Relaxed) {
            NO_LIMIT => NO_LIMIT,
            rate => (rate / AT_ONCE_PART).max(1),
        };
        most(Paced::Source).min(most(Paced::Target))
    }

    /// Whether somebody wants to know how long reads take.
    pub fn times_reads(&self) -> bool {
        self.late_ns.load(Relaxed) != NO_LIMIT
    }

    /// So many reads at the source took so long each.
    pub fn read_took(&self, each_ns: u64, reads: u64) {
        self.reads.fetch_add(reads, Relaxed);
        if each_ns > self.late_ns.load(Relaxed) {
            self.late.fetch_add(reads, Relaxed);
        }
    }

    /// Whether the source is held back because its reads take too long.
    pub fn is_held_by_latency(&self) -> bool {
        self.by_latency.load(Relaxed)
    }

    fn set(&self, what: Paced, per_second: u64) {
        self.gates[what as usize].per_second.store(per_second, Relaxed);
    }

    /// What was booked at other rates counts no more.
    fn begin_anew(&self, now_ns: u64) {
        self.gates.iter().for_each(|gate| gate.free_ns.store(now_ns, Relaxed));
        self.changes.fetch_add(1, Relaxed);
    }
}

/// Keeps limits as time goes on. There is one, with one thread.
#[derive(Debug)]
pub(crate) struct Keeper {
    limits: Limits,
    /// Since when they hold: their timetable counts from then.
    since_ns: u64,
    /// How many operations a second reads that take too long leave to the source.
    by_latency: Option<Held>,
    judged_ns: u64,
    told_ns: Option<u64>,
    /// The pause that was told last, if it is not over: until which second of the day.
    paused_until_s: Option<u32>,
    /// Pauses are counted until then.
    counted_ns: u64,
}

/// The source is held back by the latency of its reads.
#[derive(Clone, Copy, Debug)]
struct Held {
    per_second: u64,
    /// What was done when reads took too long last.
    was: u64,
}

impl Keeper {
    pub fn new(limits: Limits, pacer: &Pacer, now_ns: u64) -> Self {
        let mut keeper = Self {
            limits,
            since_ns: now_ns,
            by_latency: None,
            judged_ns: now_ns,
            told_ns: None,
            paused_until_s: None,
            counted_ns: now_ns,
        };
        keeper.begin(pacer, now_ns);
        keeper
    }

    /// Other limits hold from now on.
    pub fn change(&mut self, limits: Limits, pacer: &Pacer, now_ns: u64) {
        (self.limits, self.since_ns, self.by_latency, self.judged_ns) = (limits, now_ns, None, now_ns);
        self.begin(pacer, now_ns);
    }

    fn begin(&mut self, pacer: &Pacer, now_ns: u64) {
        pacer
            .late_ns
            .store(self.limits.source_p99_us.map_or(NO_LIMIT, |us| us.saturating_mul(1000)), Relaxed);
        pacer.set(Paced::Content, self.content(now_ns));
        pacer.set(Paced::Target, self.operations());
        self.hold_source(pacer);
        for counter in [&pacer.reads, &pacer.late, &pacer.operations] {
            counter.store(0, Relaxed);
        }
        pacer.begin_anew(now_ns);
    }

    /// Looks at the time and at how the source does. What was decided about it, and why, if that is to be told.
    pub fn look(&mut self, pacer: &Pacer, now_ns: u64) -> Option<(String, String)> {
        let content = self.content(now_ns);
        if content != pacer.gates[Paced::Content as usize].per_second.load(Relaxed) {
            pacer.set(Paced::Content, content);
            pacer.begin_anew(now_ns);
        }
        self.limits.source_p99_us?;
        self.judge(pacer, now_ns)
    }

    /// Words for a pause that has begun or ended since it was asked last.
    pub fn pause_words(&mut self, now_ns: u64) -> Option<String> {
        let elapsed = self.elapsed(now_ns);
        let is_paused = self.limits.rate.at(elapsed) == Rate::Paused;
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

    /// How much of the time since it was asked last was a pause. To be asked before limits are changed or looked at.
    pub fn paused_ns(&mut self, pacer: &Pacer, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.counted_ns, now_ns));
        if pacer.is_paused() { passed_ns } else { 0 }
    }

    /// Until which second of the day nothing may go, where a timetable says so.
    pub fn paused_until_s(&self) -> Option<u32> {
        self.paused_until_s
    }

    fn elapsed(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(now_ns.saturating_sub(self.since_ns))
    }

    /// How many bytes a second may go now.
    fn content(&self, now_ns: u64) -> u64 {
        match self.limits.rate.at(self.elapsed(now_ns)) {
            Rate::Unlimited => NO_LIMIT,
            Rate::Paused => 0,
            Rate::BytesPerSecond(rate) => rate.max(1),
        }
    }

    fn operations(&self) -> u64 {
        self.limits.operations_per_second.map_or(NO_LIMIT, |operations| u64::from(operations.max(1)))
    }

    fn hold_source(&self, pacer: &Pacer) {
        let by_latency = self.by_latency.map_or(NO_LIMIT, |held| held.per_second);
        pacer.set(Paced::Source, by_latency.min(self.operations()));
        pacer.by_latency.store(by_latency < self.operations(), Relaxed);
    }

    /// Holds the source back where more than a hundredth of its reads were late, and else less than before.
    fn judge(&mut self, pacer: &Pacer, now_ns: u64) -> Option<(String, String)> {
        let elapsed_ns = now_ns.saturating_sub(self.judged_ns);
        let reads = pacer.reads.load(Relaxed);
        let is_due = elapsed_ns >= JUDGED_AFTER_NS && reads >= JUDGED_READS;
        if !is_due && elapsed_ns < JUDGED_AT_LATEST_NS {
            return None;
        }
        self.judged_ns = now_ns;
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
            self.by_latency = Some(Held { per_second, was });
        } else if let Some(Held { per_second, was }) = before {
            let per_second = per_second.saturating_add((was.saturating_mul(PROBE_PERCENT) / 100).max(1));
            let is_free = per_second >= was.max(LEAST_OPERATIONS).saturating_mul(FREE_FROM);
            self.by_latency = (!is_free).then_some(Held { per_second, was });
        }
        self.hold_source(pacer);
        let has_turned = before.is_some() != self.by_latency.is_some();
        let is_quiet = self.told_ns.is_some_and(|told_ns| now_ns.saturating_sub(told_ns) < TELL_EVERY_NS);
        if before.is_none() && self.by_latency.is_none() || is_quiet && !has_turned {
            return None;
        }
        self.told_ns = Some(now_ns);
        let choice = match self.by_latency {
            Some(held) => format!("source: at most {} operations a second", held.per_second),
            None => "source: not held back any more".to_owned(),
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
