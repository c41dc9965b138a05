//! Limits that can be changed during a run, wherever its engine is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::pace::RunLimits;
use crate::pacer::{LimitChanges, PacerBacklog};

/// The maximum number of changes that are recorded. Later ones are missing in the report.
const CHANGES_MAX: usize = 256;

/// The limits of a run, passed from those who change them to those who apply them.
#[derive(Debug)]
pub struct LiveLimits {
    /// The limits, and the time from which they apply and timetables count.
    limits: Mutex<(RunLimits, Instant)>,
    /// True if they were changed since they were last taken.
    is_new: AtomicBool,
    /// The time of creation. `set`: the changes since, each with the time after it.
    began: Instant,
    set: Mutex<Vec<(Duration, RunLimits)>>,
    /// The backlog of the last run, and the end of that run.
    backlog: Mutex<(PacerBacklog, Instant)>,
    /// The clock.
    clock: fn() -> Instant,
}

impl LiveLimits {
    /// Limits that hold from now on.
    pub fn new(limits: RunLimits, clock: fn() -> Instant) -> Self {
        let began = clock();
        let limits = Mutex::new((limits, began));
        let backlog = Mutex::new((PacerBacklog::default(), began));
        Self { limits, is_new: AtomicBool::new(false), began, set: Mutex::default(), backlog, clock }
    }

    /// Sets limits that apply from now on, also to a run in progress.
    pub fn set(&self, limits: RunLimits) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if set.len() < CHANGES_MAX {
            set.push(((self.clock)().saturating_duration_since(self.began), limits.clone()));
        }
        drop(set);
        self.put(limits);
        self.is_new.store(true, Ordering::Release);
    }

    /// Forgets how long reads at the source took: the next run has another one.
    pub fn forget_source(&self) {
        let mut kept = self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0 = kept.0.without_latency();
    }

    /// Returns the first 256 changes since creation, each with the time after it.
    pub fn set_since(&self) -> Vec<(Duration, RunLimits)> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the limits that a run begins with, which is not recorded as a change.
    pub fn begin_with(&self, limits: RunLimits) {
        self.is_new.store(false, Ordering::Release);
        self.put(limits);
    }

    /// Returns the limits of a run that begins now.
    pub fn begin(&self) -> RunLimits {
        self.is_new.store(false, Ordering::Release);
        self.now()
    }

    fn put(&self, limits: RunLimits) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = (limits, (self.clock)());
    }

    fn now(&self) -> RunLimits {
        let (limits, since) = &*self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.later((self.clock)().saturating_duration_since(*since))
    }
}

impl LimitChanges for LiveLimits {
    fn changed(&self) -> Option<RunLimits> {
        self.is_new.swap(false, Ordering::AcqRel).then(|| self.now())
    }

    fn backlog(&self) -> PacerBacklog {
        let (backlog, ended) = *self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        backlog.after((self.clock)().saturating_duration_since(ended))
    }

    fn keep_backlog(&self, backlog: PacerBacklog) {
        *self.backlog.lock().unwrap_or_else(PoisonError::into_inner) = (backlog, (self.clock)());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(operations: u32) -> RunLimits {
        RunLimits { operations_per_second: Some(operations), ..RunLimits::default() }
    }

    #[test]
    fn what_is_set_is_taken_once_by_the_run_or_by_the_next_one() {
        let live = LiveLimits::new(of(1), Instant::now);
        assert_eq!(live.changed(), None);
        live.set(of(2));
        assert_eq!(live.changed(), Some(of(2)));
        assert_eq!(live.changed(), None);
        live.set(of(3));
        assert_eq!(live.begin(), of(3));
        assert_eq!(live.changed(), None);
        live.set(of(4));
        let set: Vec<_> = live.set_since().into_iter().map(|(_, limits)| limits).collect();
        assert_eq!(set, [of(2), of(3), of(4)]);
        (0..CHANGES_MAX).for_each(|_| live.set(of(4)));
        assert_eq!(live.set_since().len(), CHANGES_MAX);
        live.begin_with(of(5));
        assert_eq!((live.changed(), live.begin()), (None, of(5)));
    }
}
