//! The way in for lanes: the first one opens its ends at once, the others after it and one after another, since each may
//! be a login that takes a while. A lane whose turn comes when everything is done opens nothing.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;

/// How long a lane waits before it looks whether the run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where lanes wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Entrance {
    /// Whether a lane may go in: the first one has, and nobody is in the door.
    free: Mutex<bool>,
    wake: Condvar,
}

impl Entrance {
    /// Opens what lane `index` works with, when it is its turn; `None` if the run `is_over` by then.
    pub fn enter<T>(
        &self,
        index: usize,
        is_over: impl Fn() -> bool,
        open: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        if index > 0 && !self.wait(&is_over) {
            return Ok(None);
        }
        let _leaving = Leaving(self);
        open().map(Some)
    }

    /// Waits for this lane's turn. Whether there is still something to do.
    fn wait(&self, is_over: &impl Fn() -> bool) -> bool {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_over() {
            if std::mem::take(&mut *free) {
                return true;
            }
            let waited = self.wake.wait_timeout(free, LOOK_EVERY);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

/// Lets the next one in, however this one fared.
struct Leaving<'a>(&'a Entrance);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_go_in_one_by_one_behind_the_first() {
        let (entrance, order) = (Entrance::default(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for index in [2, 1, 0] {
                let (entrance, order) = (&entrance, &order);
                scope.spawn(move || {
                    entrance.enter(
                        index,
                        || false,
                        || {
                            order.lock().unwrap().push(index);
                            Ok(())
                        },
                    )
                });
            }
        });
        let order = order.into_inner().unwrap();
        assert_eq!((order[0], order.len()), (0, 3));
        assert!(entrance.enter(3, || true, || Ok(())).unwrap().is_none());
    }
}
