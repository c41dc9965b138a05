//! Runs many tasks at a time when each only waits for a file server, which answers others meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

/// The maximum numbers of additional threads: for one call, and for the whole process.
const THREADS_MAX: usize = 15;
const THREADS_OF_ALL: usize = 64;
/// The number of tasks for which one thread is started.
const WORTH_A_THREAD: usize = 4;

/// The number of threads that are not taken.
static SPARE_THREADS: AtomicUsize = AtomicUsize::new(THREADS_OF_ALL);

/// Calls `work` for each number below `count`, in any order, and returns the results in numerical order. `begin`
/// creates the state of each thread.
pub(crate) fn many<W, T: Send>(
    count: usize,
    begin: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize) -> T + Sync,
) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let run = || {
        let mut with = begin();
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= count {
                return;
            }
            let came = work(&mut with, number);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, came));
        }
    };
    let threads = Threads::take((count / WORTH_A_THREAD).min(THREADS_MAX));
    thread::scope(|scope| {
        for _ in 0..threads.0 {
            // The calling thread does the work of threads that cannot be started.
            if Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, came)| came).collect()
}

/// A share of the available threads, returned when dropped.
struct Threads(usize);

impl Threads {
    /// Takes up to `wanted` threads, as far as they are available.
    fn take(wanted: usize) -> Self {
        let mut taken = 0;
        let _ = SPARE_THREADS.fetch_update(Relaxed, Relaxed, |spare| {
            taken = wanted.min(spare);
            Some(spare - taken)
        });
        Self(taken)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        SPARE_THREADS.fetch_add(self.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_done_once_and_told_in_order() {
        for count in [0, 1, 7, 1000] {
            let squares = many(count, || (), |(), number| number * number);
            assert_eq!(squares, (0..count).map(|number| number * number).collect::<Vec<_>>());
        }
    }

    #[test]
    fn many_who_ask_at_once_are_all_served() {
        let sums =
            many(32, || (), |(), outer| many(100, || (), |(), inner| inner * outer).iter().sum::<usize>());
        assert_eq!(sums, (0..32).map(|outer| 4950 * outer).collect::<Vec<_>>());
    }
}
