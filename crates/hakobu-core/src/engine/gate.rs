//! Limits how many lanes work. The other lanes rest between two tasks with their connections open.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A gate at which all lanes from a given index on rest.
#[derive(Debug)]
pub(super) struct LaneGate {
    open: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl LaneGate {
    /// Returns a gate that lets the first `open` lanes work.
    pub fn new(open: usize) -> Self {
        Self { open: AtomicUsize::new(open), lock: Mutex::default(), wake: Condvar::new() }
    }

    /// Returns the number of lanes that may work.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Returns true if lane `index` may work.
    pub fn lets(&self, index: usize) -> bool {
        index < self.open()
    }

    /// Sets the number of lanes that may work.
    pub fn set(&self, open: usize) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.open.store(open, Relaxed);
        drop(guard);
        self.wake.notify_all();
    }

    /// Blocks until lane `index` may work, [`LaneGate::wake`] is called or `limit` has passed.
    pub fn rest(&self, index: usize, limit: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.lets(index) {
            drop(self.wake.wait_timeout(guard, limit));
        }
    }

    /// Wakes resting lanes so that they check whether the run is over.
    pub fn wake(&self) {
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_rest_until_they_may_work() {
        let gate = LaneGate::new(1);
        assert!(gate.lets(0) && !gate.lets(1));
        std::thread::scope(|scope| {
            let resting = scope.spawn(|| {
                while !gate.lets(1) {
                    gate.rest(1, Duration::from_secs(60));
                }
            });
            gate.set(2);
            resting.join().unwrap();
        });
        gate.rest(1, Duration::from_secs(60));
    }
}
