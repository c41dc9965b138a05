//! Staggers the opening of lanes. The first lane opens its endpoints at once, then two more may, and each of those
//! admits two more, because opening a lane may be a slow login. A lane whose turn comes too late opens nothing.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Result;

/// The interval at which a waiting lane checks again whether it may open or the run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Makes lanes wait for their turn to open.
#[derive(Debug, Default)]
pub(super) struct LaneEntrance {
    door: Mutex<EntranceState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct EntranceState {
    /// The number of lanes that may open now; 0 until the first lane has opened.
    free: usize,
}

impl LaneEntrance {
    /// Waits for the turn of lane `index` and for `may_open`, then calls `open`. Returns `None` if the run `is_over`.
    pub fn enter<T>(
        &self,
        index: usize,
        is_over: impl Fn() -> bool,
        may_open: impl FnMut() -> bool,
        open: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        if index > 0 && !self.wait(&is_over, may_open) {
            return Ok(None);
        }
        let opened = open();
        let mut door = self.lock();
        door.free += if opened.is_ok() { 2 } else { 1 };
        drop(door);
        self.wake.notify_all();
        opened.map(Some)
    }

    /// Waits for this lane's turn. Returns false if the run is over.
    fn wait(&self, is_over: &impl Fn() -> bool, mut may_open: impl FnMut() -> bool) -> bool {
        let mut door = self.lock();
        while !is_over() {
            if door.free > 0 && may_open() {
                door.free -= 1;
                return true;
            }
            let waited = self.wake.wait_timeout(door, LOOK_EVERY);
            door = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, EntranceState> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn lanes_go_in_behind_the_first() {
        let (entrance, order) = (LaneEntrance::default(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for index in [2, 1, 0] {
                let (entrance, order) = (&entrance, &order);
                scope.spawn(move || {
                    entrance.enter(
                        index,
                        || false,
                        || true,
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
        assert!(entrance.enter(3, || true, || true, || Ok(())).unwrap().is_none());
    }

    #[test]
    fn each_lane_lets_in_two() {
        let entrance = LaneEntrance::default();
        let enter = |index, open: Result<()>| entrance.enter(index, || false, || true, || open);
        let refused = || Err(crate::Error::new(crate::ErrorKind::Io, "opening", "no"));
        let free = || entrance.lock().free;
        enter(0, Ok(())).unwrap();
        assert_eq!(free(), 2);
        enter(1, Ok(())).unwrap();
        assert_eq!(free(), 3);
        enter(2, refused()).unwrap_err();
        assert_eq!(free(), 3);
    }

    #[test]
    fn a_lane_waits_until_it_may_open() {
        let (entrance, asked) = (LaneEntrance::default(), AtomicUsize::new(0));
        entrance.enter(0, || false, || false, || Ok(())).unwrap();
        let may_open = || asked.fetch_add(1, Relaxed) == 3;
        assert!(entrance.enter(1, || false, may_open, || Ok(())).unwrap().is_some());
        let is_over = || asked.fetch_add(1, Relaxed) == 7;
        assert!(entrance.enter(2, is_over, || false, || Ok(())).unwrap().is_none());
    }
}
