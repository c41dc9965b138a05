//! Limits that may be set anew while a run is under way, wherever its engine is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hakobu_core::pace::Limits;
use hakobu_core::pacer::LimitChanges;

/// What a run is held to, from whoever may say so to whoever keeps it.
#[derive(Debug)]
pub struct LiveLimits {
    /// The limits, and since when they hold: timetables count from then.
    limits: Mutex<(Limits, Instant)>,
    /// Whether they were set since somebody took them.
    is_new: AtomicBool,
}

impl Default for LiveLimits {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl LiveLimits {
    /// Limits that hold from now on.
    pub fn new(limits: Limits) -> Self {
        Self { limits: Mutex::new((limits, Instant::now())), is_new: AtomicBool::new(false) }
    }

    /// Others hold from now on, also for the run that is under way.
    pub fn set(&self, limits: Limits) {
        self.put(limits);
        self.is_new.store(true, Ordering::Release);
    }

    /// A run begins with these.
    pub fn begin_with(&self, limits: Limits) {
        self.is_new.store(false, Ordering::Release);
        self.put(limits);
    }

    /// Those that a run begins with that begins now.
    pub fn begin(&self) -> Limits {
        self.is_new.store(false, Ordering::Release);
        self.now()
    }

    fn put(&self, limits: Limits) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = (limits, Instant::now());
    }

    fn now(&self) -> Limits {
        let (limits, since) = &*self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.later(since.elapsed())
    }
}

impl LimitChanges for LiveLimits {
    fn changed(&self) -> Option<Limits> {
        self.is_new.swap(false, Ordering::AcqRel).then(|| self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(operations: u32) -> Limits {
        Limits { operations_per_second: Some(operations), ..Limits::default() }
    }

    #[test]
    fn what_is_set_is_taken_once_by_the_run_or_by_the_next_one() {
        let live = LiveLimits::new(of(1));
        assert_eq!(live.changed(), None);
        live.set(of(2));
        assert_eq!(live.changed(), Some(of(2)));
        assert_eq!(live.changed(), None);
        live.set(of(3));
        assert_eq!(live.begin(), of(3));
        assert_eq!(live.changed(), None);
        live.set(of(4));
        live.begin_with(of(5));
        assert_eq!((live.changed(), live.begin()), (None, of(5)));
    }
}
