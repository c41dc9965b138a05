//! How many lanes may work: the others rest between two tasks, with their connections open.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lanes from a number on rest before it.
#[derive(Debug)]
pub(super) struct Gate {
    open: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Gate {
    /// The first `open` lanes may work.
    pub fn new(open: usize) -> Self {
        Self { open: AtomicUsize::new(open), lock: Mutex::default(), wake: Condvar::new() }
    }

    /// Whether lane `index` may work.
    pub fn lets(&self, index: usize) -> bool {
        index < self.open.load(Relaxed)
    }

    /// From now on so many may.
    pub fn set(&self, open: usize) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.open.store(open, Relaxed);
        drop(guard);
        self.wake.notify_all();
    }

    /// Rests until lane `index` may work, or [`Gate::wake`] was called, or `limit` is over.
    pub fn rest(&self, index: usize, limit: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.lets(index) {
            drop(self.wake.wait_timeout(guard, limit));
        }
    }

    /// Has those that rest look whether the run is over.
    pub fn wake(&self) {
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_rest_until_they_may_work() {
        let gate = Gate::new(1);
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
