//! The progress of a run over time: bytes and stages in equal intervals, at most as many as a chart can show.
//!
//! Memory is bounded for runs of any length: if all samples are used up, neighbours are merged and the interval
//! doubles. More than half of the samples stay in use.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bottleneck;
use crate::counters::{CounterTotals, LaneStage};

/// The maximum number of samples in a timeline.
pub const TIMELINE_SAMPLES_MAX: usize = 240;
/// The initial interval, for runs of up to a minute: slightly longer than the time between two reports of an engine.
const INTERVAL_MS_MIN: u64 = 250;
/// The longest time that the first figures of an attempt may cover: an engine reports five times a second from its
/// start.
const FIRST_SPAN_MS: u64 = 200;
/// The latest time that can be represented. It leaves room for computing the ends of intervals.
const TIME_MS_MAX: u64 = u64::MAX / 4;

/// The activity of a run in intervals of equal length, the first of which begins with the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "AsRead")]
pub struct Timeline {
    /// The length of each interval in milliseconds; the run may have ended within the last one.
    pub interval_ms: u64,
    /// The intervals in order, [`TIMELINE_SAMPLES_MAX`] at most.
    pub samples: Vec<TimelineSample>,
}

/// One interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimelineSample {
    /// Bytes of content written to the target.
    pub bytes: u64,
    /// Bytes written to the target, zeros skipped and bytes found equal.
    pub bytes_done: u64,
    /// The share of the lanes' time, 0 to 1, by stage; only stages that took any.
    pub stages: BTreeMap<String, f64>,
}

/// A timeline as read from a report, which may come from an untrusted source.
#[derive(Deserialize)]
#[serde(default)]
struct AsRead {
    interval_ms: u64,
    samples: Vec<TimelineSample>,
}

impl Default for AsRead {
    fn default() -> Self {
        Self { interval_ms: INTERVAL_MS_MIN, samples: Vec::new() }
    }
}

impl From<AsRead> for Timeline {
    fn from(AsRead { interval_ms, mut samples }: AsRead) -> Self {
        let mut interval_ms = interval_ms.max(1);
        while samples.len() > TIMELINE_SAMPLES_MAX {
            samples = samples.chunks(2).map(TimelineSample::of_all).collect();
            interval_ms = interval_ms.saturating_mul(2);
        }
        Self { interval_ms, samples }
    }
}

impl TimelineSample {
    /// Merges neighbours. The stages are averaged with equal weights, because the working time of each sample is no
    /// longer known.
    fn of_all(samples: &[Self]) -> Self {
        let mut sum = Self::default();
        for sample in samples {
            sum.bytes = sum.bytes.saturating_add(sample.bytes);
            sum.bytes_done = sum.bytes_done.saturating_add(sample.bytes_done);
            for (stage, share) in &sample.stages {
                *sum.stages.entry(stage.clone()).or_default() += share / samples.len() as f64;
            }
        }
        sum
    }
}

/// Counters, either cumulative or of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct IntervalCounters {
    bytes: u64,
    bytes_done: u64,
    stage_ns: [u64; LaneStage::COUNT],
    /// The parts of the held time caused by two of the limits.
    held_ns: [u64; 2],
}

impl IntervalCounters {
    fn of(figures: &CounterTotals) -> Self {
        Self {
            bytes: figures.target_written_bytes,
            bytes_done: figures.target_written_bytes.saturating_add(figures.bytes_kept),
            stage_ns: figures.stage_ns,
            held_ns: bottleneck::held_ns(figures),
        }
    }

    /// Combines each figure with its counterpart.
    fn with(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut stage_ns = self.stage_ns;
        stage_ns.iter_mut().zip(other.stage_ns).for_each(|(one, other)| *one = with(*one, other));
        let mut held_ns = self.held_ns;
        held_ns.iter_mut().zip(other.held_ns).for_each(|(one, other)| *one = with(*one, other));
        Self {
            bytes: with(self.bytes, other.bytes),
            bytes_done: with(self.bytes_done, other.bytes_done),
            stage_ns,
            held_ns,
        }
    }

    fn plus(self, more: Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    fn minus(self, less: Self) -> Self {
        self.with(less, u64::saturating_sub)
    }

    /// Returns the proportional part of a span of `of` milliseconds that lies within an interval.
    fn part(self, milliseconds: u64, of: u64) -> Self {
        let part = |all: u64| (u128::from(all) * u128::from(milliseconds) / u128::from(of.max(1))) as u64;
        self.with(self, |all, _| part(all))
    }

    fn total_ns(&self) -> u64 {
        self.stage_ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// Builds a timeline from the figures that a run reports. Times come from the caller.
#[derive(Clone, Debug)]
pub struct TimelineRecorder {
    interval_ms: u64,
    samples: Vec<IntervalCounters>,
    /// The latest figures.
    seen: IntervalCounters,
    seen_at_ms: u64,
    /// The time when the lanes last reported time spent. A flush, for example, is reported only when it is over.
    spent_at_ms: u64,
    /// The sum of everything recorded.
    total: IntervalCounters,
    remote: bool,
}

impl Default for TimelineRecorder {
    fn default() -> Self {
        Self {
            interval_ms: INTERVAL_MS_MIN,
            samples: Vec::new(),
            seen: IntervalCounters::default(),
            seen_at_ms: 0,
            spent_at_ms: 0,
            total: IntervalCounters::default(),
            remote: false,
        }
    }
}

impl TimelineRecorder {
    /// Records the cumulative figures of an attempt. `at` is the time since the run's start. Figures smaller than the
    /// previous ones belong to a new attempt, which counts from zero.
    pub fn record(&mut self, at: Duration, figures: &CounterTotals) {
        self.remote = figures.remote;
        let now = IntervalCounters::of(figures);
        let before = self.seen;
        let is_new = before == IntervalCounters::default()
            || now.bytes < before.bytes
            || now.bytes_done < before.bytes_done
            || now.total_ns() < before.total_ns();
        self.seen = now;
        if is_new {
            // Nothing was done between attempts.
            let earliest_ms = self.milliseconds(at).saturating_sub(FIRST_SPAN_MS);
            self.seen_at_ms = self.seen_at_ms.max(earliest_ms);
            self.spent_at_ms = self.spent_at_ms.max(earliest_ms);
        }
        self.add(if is_new { now } else { now.minus(before) }, self.milliseconds(at));
    }

    /// Finishes the timeline at a time since the start, with the total of bytes written and the figures of the summary,
    /// which may cover only the last of several passes. Returns `None` if nothing was transferred.
    pub fn finish(mut self, at: Duration, written_bytes: u64, figures: &CounterTotals) -> Option<Timeline> {
        let all = IntervalCounters { bytes: written_bytes, ..IntervalCounters::of(figures) };
        let mut rest = all.minus(self.total);
        rest.bytes_done = rest.bytes_done.max(rest.bytes);
        self.remote |= figures.remote;
        let at_ms = self.milliseconds(at);
        self.seen_at_ms = self.seen_at_ms.max(at_ms.saturating_sub(FIRST_SPAN_MS));
        if self.seen == IntervalCounters::default() {
            self.spent_at_ms = self.seen_at_ms;
        }
        self.add(rest, at_ms);
        if self.total == IntervalCounters::default() {
            return None;
        }
        let sample = |sums: &IntervalCounters| TimelineSample {
            bytes: sums.bytes,
            bytes_done: sums.bytes_done,
            stages: bottleneck::shares(&sums.stage_ns, sums.held_ns, self.remote),
        };
        Some(Timeline { interval_ms: self.interval_ms, samples: self.samples.iter().map(sample).collect() })
    }

    /// Returns the time in milliseconds, which never runs backwards, whatever the order in which figures arrive.
    fn milliseconds(&self, at: Duration) -> u64 {
        u64::try_from(at.as_millis()).unwrap_or(u64::MAX).min(TIME_MS_MAX).max(self.seen_at_ms)
    }

    /// Adds what was done until now: bytes since the last figures, and time since some was last reported.
    fn add(&mut self, more: IntervalCounters, until_ms: u64) {
        let bytes = IntervalCounters { stage_ns: [0; LaneStage::COUNT], held_ns: [0; 2], ..more };
        self.spread(bytes, self.seen_at_ms, until_ms);
        if more.total_ns() > 0 {
            self.spread(more.minus(bytes), self.spent_at_ms, until_ms);
            self.spent_at_ms = until_ms;
        }
        self.total = self.total.plus(more);
        self.seen_at_ms = until_ms;
    }

    /// Spreads figures over the intervals in which they arose.
    fn spread(&mut self, more: IntervalCounters, since_ms: u64, until_ms: u64) {
        // A moment belongs to the interval that it ends, except for the very first one.
        let first_ms = if since_ms < until_ms { since_ms } else { until_ms.saturating_sub(1) };
        let last_ms = until_ms.saturating_sub(1).max(first_ms);
        self.make_room(last_ms);
        let mut rest = more;
        let (first, last) = (first_ms / self.interval_ms, last_ms / self.interval_ms);
        for index in first..=last {
            let (begin, end) = (index * self.interval_ms, (index + 1) * self.interval_ms);
            let within = until_ms.min(end).saturating_sub(since_ms.max(begin));
            let part = if index == last { rest } else { more.part(within, until_ms - since_ms) };
            rest = rest.minus(part);
            if let Some(sample) = self.samples.get_mut(index as usize) {
                *sample = sample.plus(part);
            }
        }
    }

    /// Lengthens the intervals until one can contain this moment, and adds missing ones.
    fn make_room(&mut self, at_ms: u64) {
        while at_ms / self.interval_ms >= TIMELINE_SAMPLES_MAX as u64 {
            let pairs = self.samples.chunks(2);
            self.samples =
                pairs.map(|pair| pair.iter().fold(IntervalCounters::default(), |a, b| a.plus(*b))).collect();
            self.interval_ms *= 2;
        }
        let count = (at_ms / self.interval_ms) as usize + 1;
        if self.samples.len() < count {
            self.samples.resize(count, IntervalCounters::default());
        }
    }
}

#[cfg(test)]
#[path = "timeline/tests.rs"]
mod tests;
