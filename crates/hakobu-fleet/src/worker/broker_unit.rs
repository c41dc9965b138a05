//! A unit that a broker works on, as its threads share it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::counters::CounterTotals;
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::pace::{RateLimit, RateSetting, RunLimits};
use hakobu_core::target_lease::TargetLease;

use super::slot_figures::SlotFigures;
use crate::message::{GrantedUnit, GrantedWork, LeaseName, SentLimits, UnitProgress};
use crate::unit_counters::UnitCounters;

/// The part of a lease before its end in which nothing is changed any more: what was begun before has that long to be done.
const MARGIN: u64 = 4;
/// The number of nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// The flag that stops the engine of a slot, its limits and its figures. The hosts that stay open from unit to unit know the
/// first two.
#[derive(Clone)]
pub struct UnitControls {
    /// Stops the engine.
    pub cancel: Arc<AtomicBool>,
    /// The limits.
    pub limits: Arc<LiveLimits>,
    /// The figures.
    figures: Arc<Mutex<SlotFigures>>,
}

impl Default for UnitControls {
    fn default() -> Self {
        let limits = Arc::new(LiveLimits::new(RunLimits::default(), Instant::now));
        Self { cancel: Arc::default(), limits, figures: Arc::default() }
    }
}

/// A unit that a broker works on.
pub struct BrokerUnit {
    /// The name of the lease.
    pub lease: LeaseName,
    /// The right to change the target.
    pub target_lease: TargetLease,
    /// The flag that stops the engine, and its limits.
    controls: UnitControls,
    /// True as long as the engine of this unit runs, which shares its controls with the units before and after it.
    runs: Mutex<bool>,
    sent_limits: Mutex<SentLimits>,
    splits: AtomicBool,
    is_lost: AtomicBool,
    since_ms: u64,
    entries: AtomicU64,
    bytes: AtomicU64,
    operations: AtomicU64,
    settled: AtomicU64,
    done: AtomicU64,
    failures: AtomicU64,
    lanes: AtomicU64,
    now_ns: fn() -> u64,
}

impl BrokerUnit {
    /// Creates the state of a unit that was granted. `asked_ms`: the time before it was asked for.
    pub fn new(granted: &GrantedUnit, controls: UnitControls, asked_ms: u64, now_ns: fn() -> u64) -> Self {
        controls.cancel.store(false, Relaxed);
        controls.limits.set(run_limits(&granted.limits));
        let mut figures = controls.figures.lock().unwrap_or_else(PoisonError::into_inner);
        if figures.begin_unit(granted.lease.key.run, now_ns()) {
            controls.limits.forget_source();
        }
        drop(figures);
        let key = granted.lease.token.draft_key();
        let mut target_lease = TargetLease::new(key, now_ns, end_ns(asked_ms, granted.lease_ms));
        // The first lease has the epoch 1. The draft of an open file is that of an earlier lease as well.
        if granted.lease.epoch.get() > 1 || matches!(granted.work, GrantedWork::File(..)) {
            target_lease = target_lease.repeated();
        }
        Self {
            lease: granted.lease.clone(),
            target_lease,
            controls,
            runs: Mutex::new(true),
            sent_limits: Mutex::new(granted.limits.clone()),
            splits: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            since_ms: asked_ms,
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            lanes: AtomicU64::new(0),
            now_ns,
        }
    }

    /// Prolongs the lease.
    pub fn renew(&self, asked_ms: u64, lease_ms: u64) {
        self.target_lease.prolong(end_ns(asked_ms, lease_ms));
    }

    /// Ends the lease: another broker has the unit, or nobody wants it any more. Returns true if that was not known before.
    pub fn lose(&self) -> bool {
        let was_lost = self.is_lost.swap(true, Relaxed);
        self.target_lease.end();
        self.stop();
        !was_lost
    }

    /// Stops the engine, because the broker ends.
    pub fn stop(&self) {
        if *self.runs.lock().unwrap_or_else(PoisonError::into_inner) {
            self.controls.cancel.store(true, Relaxed);
        }
    }

    /// Notes that its engine has ended. From now on its controls are those of the next unit.
    pub fn engine_ended(&self) {
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Returns true as long as the engine of this unit runs.
    pub fn runs(&self) -> bool {
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the lease has ended while the engine runs.
    pub fn is_overdue(&self) -> bool {
        self.runs() && self.target_lease.is_over()
    }

    /// Returns true if the unit is another's.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    /// Returns true if what waits is to be given away.
    pub fn splits(&self) -> bool {
        self.splits.load(Relaxed)
    }

    /// Asks for what waits to be given away.
    pub fn set_splits(&self, splits: bool) {
        self.splits.fetch_or(splits, Relaxed);
    }

    /// Applies limits, if they are others than before.
    pub fn set_limits(&self, limits: &SentLimits) {
        let mut known = self.sent_limits.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != *limits {
            known.clone_from(limits);
            self.controls.limits.set(run_limits(limits));
        }
    }

    /// Notes the figures of the engine.
    pub fn count(&self, totals: &CounterTotals) {
        self.entries.store(totals.entries_scanned, Relaxed);
        let counters = UnitCounters::from(totals);
        let under_way = totals.source_read_bytes.saturating_sub(totals.sampled_bytes);
        self.bytes.store(counters.figures().bytes_done.max(under_way), Relaxed);
        self.operations.store(totals.source_requests + totals.target_requests, Relaxed);
        self.settled.store(counters.bytes_settled(), Relaxed);
        self.done.store(counters.figures().entries_done, Relaxed);
        self.failures.store(totals.entries_failed, Relaxed);
        self.lanes.store(totals.lanes, Relaxed);
        let mut figures = self.controls.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.take((self.now_ns)(), totals);
    }

    /// Returns the progress.
    pub fn progress(&self, now_ms: u64) -> UnitProgress {
        let figures = self.controls.figures.lock().unwrap_or_else(PoisonError::into_inner);
        UnitProgress {
            lease: self.lease.clone(),
            running_ms: now_ms.saturating_sub(self.since_ms),
            entries: self.entries.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            operations: self.operations.load(Relaxed),
            bytes_settled: self.settled.load(Relaxed),
            entries_done: self.done.load(Relaxed),
            failures: self.failures.load(Relaxed),
            lanes: u16::try_from(self.lanes.load(Relaxed)).unwrap_or(u16::MAX),
            limited_by: figures.bottleneck(),
        }
    }

    /// Returns the time since it was asked for.
    pub fn age(&self, now_ms: u64) -> Duration {
        Duration::from_millis(now_ms.saturating_sub(self.since_ms))
    }
}

/// Returns the moment at which a lease that was asked for then ends for its broker, in nanoseconds.
fn end_ns(asked_ms: u64, lease_ms: u64) -> u64 {
    asked_ms.saturating_add(lease_ms - lease_ms / MARGIN).saturating_mul(MS)
}

fn run_limits(sent: &SentLimits) -> RunLimits {
    let setting = match (sent.is_paused, sent.bytes_per_second) {
        (true, _) => Some(RateSetting::Paused),
        (false, Some(rate)) => Some(RateSetting::BytesPerSecond(rate)),
        (false, None) => None,
    };
    RunLimits {
        rate: RateLimit { steps: setting.map(|setting| (0, setting)).into_iter().collect(), began_s: 0 },
        // Listing and removing are no content.
        operations_per_second: if sent.is_paused { Some(0) } else { sent.operations_per_second },
        source_p99_us: sent.source_p99_us.map(u64::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_reach_the_engine_as_they_were_sent() {
        let sent = SentLimits {
            bytes_per_second: Some(20_000),
            operations_per_second: Some(7),
            source_p99_us: Some(10),
            is_paused: false,
        };
        let limits = run_limits(&sent);
        assert_eq!(limits.rate.first(), RateSetting::BytesPerSecond(20_000));
        assert_eq!((limits.operations_per_second, limits.source_p99_us), (Some(7), Some(10)));
        let paused = run_limits(&SentLimits { is_paused: true, ..sent });
        assert_eq!((paused.rate.first(), paused.operations_per_second), (RateSetting::Paused, Some(0)));
        assert!(!run_limits(&SentLimits::default()).is_some());
    }
}
