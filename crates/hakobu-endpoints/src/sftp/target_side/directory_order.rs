//! The order of operations that change directories.
//!
//! Making or removing a directory changes the modification time of the one that it is in. So an operation that sets a
//! directory's attributes has to wait for earlier ones on directories below it; all others run at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::lock::{Mutex as AsyncMutex, OwnedMutexGuard};
use hakobu_core::path::EntryPath;

/// The operations in progress on directories, by path.
#[derive(Debug, Default)]
pub(super) struct DirectoryOrder(Mutex<HashMap<EntryPath, Vec<PathUse>>>);

/// One operation in progress that concerns a path.
#[derive(Debug)]
struct PathUse {
    /// Locked until the operation has ended.
    end: Arc<AsyncMutex<()>>,
    /// True if the operation changes the directory itself, false if it changes one below.
    itself: bool,
}

/// The place of an operation in the order. Operations that wait for it go on when it is dropped.
#[derive(Debug)]
pub(super) struct DirectoryTurn {
    order: Arc<DirectoryOrder>,
    directories: Vec<EntryPath>,
    end: Arc<AsyncMutex<()>>,
    /// The ends of the operations to wait for.
    earlier: Vec<Arc<AsyncMutex<()>>>,
    _held: Option<OwnedMutexGuard<()>>,
}

impl DirectoryOrder {
    /// Registers an operation that changes `directories`. Call it in the order in which operations are submitted.
    pub(super) fn enter(self: Arc<Self>, directories: Vec<EntryPath>) -> DirectoryTurn {
        let end = Arc::new(AsyncMutex::new(()));
        let held = Arc::clone(&end).try_lock_owned();
        let mut earlier: Vec<Arc<AsyncMutex<()>>> = Vec::new();
        let mut uses = self.uses();
        for directory in &directories {
            let below = uses.get(directory).into_iter().flatten();
            let above = ancestors(directory).flat_map(|above| uses.get(&above).into_iter().flatten());
            for used in below.chain(above.filter(|used| used.itself)) {
                if !earlier.iter().any(|end| Arc::ptr_eq(end, &used.end)) {
                    earlier.push(Arc::clone(&used.end));
                }
            }
        }
        for directory in &directories {
            let mut add = |path: EntryPath, itself| {
                uses.entry(path).or_default().push(PathUse { end: Arc::clone(&end), itself });
            };
            add(directory.clone(), true);
            ancestors(directory).for_each(|above| add(above, false));
        }
        drop(uses);
        DirectoryTurn { order: self, directories, end, earlier, _held: held }
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<EntryPath, Vec<PathUse>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirectoryTurn {
    /// Waits for the earlier operations on the same directories, and on those above and below them.
    pub(super) async fn wait(&mut self) {
        for end in std::mem::take(&mut self.earlier) {
            drop(end.lock().await);
        }
    }
}

impl Drop for DirectoryTurn {
    fn drop(&mut self) {
        let mut uses = self.order.uses();
        for directory in &self.directories {
            for path in ancestors(directory).chain([directory.clone()]) {
                let Some(of_path) = uses.get_mut(&path) else { continue };
                of_path.retain(|used| !Arc::ptr_eq(&used.end, &self.end));
                if of_path.is_empty() {
                    uses.remove(&path);
                }
            }
        }
    }
}

/// Returns the directories that a path is in, from its parent to the root.
fn ancestors(path: &EntryPath) -> impl Iterator<Item = EntryPath> {
    let parent = |path: &EntryPath| path.split_last().map(|(parent, _)| parent);
    std::iter::successors(parent(path), move |path| parent(path))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn paths(texts: &[&str]) -> Vec<EntryPath> {
        texts.iter().map(|text| EntryPath::new(*text).unwrap()).collect()
    }

    /// Returns true if an operation on `later` waits for one on `earlier`.
    fn waits(earlier: &[&str], later: &[&str]) -> bool {
        let order = Arc::new(DirectoryOrder::default());
        let first = Arc::clone(&order).enter(paths(earlier));
        let mut second = Arc::clone(&order).enter(paths(later));
        let waits = second.wait().now_or_never().is_none();
        drop(first);
        second.wait().now_or_never().unwrap();
        drop(second);
        assert!(order.uses().is_empty(), "{earlier:?} {later:?}");
        waits
    }

    #[test]
    fn only_related_directories_follow_each_other() {
        for (earlier, later) in [
            (&["a"][..], &["a"][..]),
            (&["a/b/c"], &["a"]),
            (&["a"], &["a/b/c"]),
            (&["x", "a/b"], &["y", "a"]),
            (&["a"], &[""]),
        ] {
            assert!(waits(earlier, later), "{earlier:?} {later:?}");
        }
        for (earlier, later) in
            [(&["a/b"][..], &["a/c"][..]), (&["a"], &["ab"]), (&["a/b", "c"], &["a/d", "e"])]
        {
            assert!(!waits(earlier, later), "{earlier:?} {later:?}");
        }
    }

    #[test]
    fn a_directory_waits_for_all_that_are_below_it() {
        let order = Arc::new(DirectoryOrder::default());
        let mut below: Vec<_> = ["a/1", "a/2", "a/3"].map(|it| Arc::clone(&order).enter(paths(&[it]))).into();
        let mut above = Arc::clone(&order).enter(paths(&["a"]));
        assert!(below.iter_mut().all(|turn| turn.wait().now_or_never().is_some()));
        let mut waiting = Box::pin(above.wait());
        while let Some(turn) = below.pop() {
            assert!(waiting.as_mut().now_or_never().is_none());
            drop(turn);
        }
        waiting.now_or_never().unwrap();
    }
}
