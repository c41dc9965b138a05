//! Helper threads that describe the entries of a very large directory on otherwise idle processors. The calling thread
//! reads the names, and describes those that the helpers do not take.

use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, available_parallelism};

use hakobu_core::entry::EntryMetadata;
use rustix::fs::FileType;
use rustix::io::Errno;

/// The number of names that are described as a batch.
pub(super) const BATCH: usize = 2048;
/// The maximum number of helper threads.
const HELPERS_MAX: usize = 3;
/// The maximum number of batches that wait for a helper.
const WAITING_MAX: usize = 4;

/// The description of an entry, or the error of reading it.
pub(super) type DescribedEntry = std::result::Result<EntryMetadata, Errno>;
/// Names as they were read, with their types.
pub(super) type TypedNames = Vec<(CString, FileType)>;
/// The descriptions of a batch of names.
pub(super) type DescribedBatch = Vec<(CString, DescribedEntry)>;

/// Threads that describe names. Dropping it ends them.
pub(super) struct Helpers {
    shared: Arc<HelperState>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct HelperState {
    state: Mutex<QueueState>,
    more: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<TypedNames>,
    found: Vec<DescribedBatch>,
    ended: bool,
}

impl HelperState {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes batches until no more will come.
    fn help(&self, mut describe: impl FnMut(TypedNames) -> DescribedBatch) {
        let mut state = self.lock();
        loop {
            if let Some(names) = state.waiting.pop_front() {
                drop(state);
                let found = describe(names);
                state = self.lock();
                state.found.push(found);
            } else if state.ended {
                return;
            } else {
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Helpers {
    /// Starts one helper for each other processor, up to a limit. `helper` creates the describing function of each.
    /// Returns `None` if no helper could be started.
    pub(super) fn start<D: FnMut(TypedNames) -> DescribedBatch + Send + 'static>(
        helper: impl Fn() -> Option<D>,
    ) -> Option<Self> {
        let count = available_parallelism().map_or(1, usize::from).saturating_sub(1).min(HELPERS_MAX);
        let shared = Arc::<HelperState>::default();
        let start = |_| {
            let (shared, describe) = (Arc::clone(&shared), helper()?);
            Builder::new().name("describe".to_owned()).spawn(move || shared.help(describe)).ok()
        };
        let threads: Vec<_> = (0..count).map_while(start).collect();
        (!threads.is_empty()).then_some(Self { shared, threads })
    }

    /// Hands over a batch. Returns it if enough batches are waiting.
    pub(super) fn hand_over(&self, names: TypedNames) -> Option<TypedNames> {
        let mut state = self.shared.lock();
        if state.waiting.len() >= WAITING_MAX {
            return Some(names);
        }
        state.waiting.push_back(names);
        drop(state);
        self.shared.more.notify_one();
        None
    }

    /// Takes back a batch that no helper has started.
    pub(super) fn take_back(&self) -> Option<TypedNames> {
        self.shared.lock().waiting.pop_back()
    }

    /// Returns the descriptions that are complete.
    pub(super) fn found(&self) -> Vec<DescribedBatch> {
        std::mem::take(&mut self.shared.lock().found)
    }

    /// Waits for the batches in progress and returns the remaining descriptions. The flag is false if a helper
    /// panicked.
    pub(super) fn end(mut self) -> (Vec<DescribedBatch>, bool) {
        let whole = self.stop();
        (self.found(), whole)
    }

    fn stop(&mut self) -> bool {
        self.shared.lock().ended = true;
        self.shared.more.notify_all();
        let ends: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        ends.iter().all(std::thread::Result::is_ok)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.shared.lock().waiting.clear();
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(first: usize) -> TypedNames {
        (first..first + 3).map(|name| (CString::new(name.to_string()).unwrap(), FileType::Unknown)).collect()
    }

    fn refuse(names: TypedNames) -> DescribedBatch {
        names.into_iter().map(|(name, _)| (name, Err(Errno::IO))).collect()
    }

    #[test]
    fn all_that_was_handed_over_is_found_once() {
        let Some(helpers) = Helpers::start(|| Some(refuse)) else { return };
        let mut found = Vec::new();
        for batch in 0..200 {
            if let Some(names) = helpers.hand_over(names(3 * batch)) {
                found.push(refuse(names));
            }
            found.append(&mut helpers.found());
        }
        while let Some(names) = helpers.take_back() {
            found.push(refuse(names));
        }
        let (mut rest, whole) = helpers.end();
        found.append(&mut rest);
        let mut names: Vec<usize> =
            found.iter().flatten().map(|(name, _)| name.to_str().unwrap().parse().unwrap()).collect();
        names.sort_unstable();
        assert!(whole && names == (0..600).collect::<Vec<_>>());
    }

    #[test]
    fn one_that_panics_is_noticed() {
        let Some(helpers) = Helpers::start(|| Some(|_| unreachable!("a defect"))) else { return };
        assert!(helpers.hand_over(names(0)).is_none());
        while !helpers.shared.lock().waiting.is_empty() {
            std::thread::yield_now();
        }
        assert!(!helpers.end().1);
    }
}
