//! The waiting files, largest first, and the size of the batches for each rsync.
//!
//! An rsync costs a connection and a dozen round trips besides its bytes, so small files are batched to be worth many
//! times that. Once all files are known, a batch is most of what its connection can do until all connections end
//! together.

use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::path::EntryPath;

/// Files with their sizes in bytes.
pub(super) type FileSizes = HashMap<EntryPath, u64>;

/// The least number of bytes worth a connection while the scan may add more.
const BATCH_BYTES_MIN: u64 = 8 << 20;
/// The least number once all files are known.
const LAST_BATCH_BYTES_MIN: u64 = 1 << 20;
/// The most bytes of a batch: with more, too much is lost when a connection breaks.
const BATCH_BYTES_MAX: u64 = 512 << 20;
/// The most names of one batch.
const BATCH_FILES_MAX: usize = 8192;
/// The duration of a batch during the scan, and its least multiple of a batch's start-up cost.
const BATCH_TIME: Duration = Duration::from_secs(8);
const BATCH_SETUPS: u32 = 20;
/// The least multiple once all files are known.
const LAST_BATCH_SETUPS: u32 = 3;
/// The percentage of its share that a connection gets at once. It may turn out to be slower than the others.
const OF_SHARE_PERCENT: u64 = 70;
/// The time for the scan to find the largest files before any file is sent.
const PATIENCE: Duration = Duration::from_millis(500);
/// The cost of a file besides its bytes.
const FILE_COST_BYTES: u64 = 8 << 10;
/// The most files that may wait before the scan has to.
const WAITING_MAX: usize = if cfg!(test) { 1000 } else { 2_000_000 };
/// The interval at which a waiting lane checks.
const LOOK: Duration = Duration::from_millis(100);

/// A file to be copied. The order is by size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PooledFile {
    pub size_bytes: u64,
    pub path: EntryPath,
    pub may_have_holes: bool,
}

/// The change that rsync made to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeByRsync {
    Created,
    Updated,
    Attributes,
}

/// The state of the lanes when one of them gets a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    /// The number of lanes there should be.
    pub lanes: usize,
    /// The rate of each, as far as it is known.
    pub bytes_per_second: u64,
    /// The cost of beginning and ending a batch.
    pub setup: Duration,
    /// The bytes that the other lanes have left.
    pub left_bytes: Vec<u64>,
}

impl Share {
    fn bytes_in(&self, time: Duration) -> u64 {
        let bytes = u128::from(self.bytes_per_second) * time.as_millis() / 1000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the bytes for one lane if all are to end together, given the waiting bytes. Lanes that have more left do
    /// not take part.
    fn level_bytes(&self, waiting_bytes: u64) -> u64 {
        let mut left = self.left_bytes.clone();
        left.sort_unstable();
        let idle = self.lanes.saturating_sub(left.len()).max(1) as u64;
        let (mut lanes, mut sum) = (idle, waiting_bytes);
        for bytes in left {
            if bytes >= sum / lanes {
                break;
            }
            lanes += 1;
            sum = sum.saturating_add(bytes);
        }
        sum / lanes
    }

    /// Returns the bytes of the next batch.
    fn budget_bytes(&self, waiting_bytes: u64, scan_done: bool) -> u64 {
        let usual = self.bytes_in(BATCH_TIME.max(self.setup * BATCH_SETUPS));
        let usual = usual.clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
        if !scan_done {
            return usual;
        }
        let least = self.bytes_in(self.setup * LAST_BATCH_SETUPS).max(LAST_BATCH_BYTES_MIN);
        let share = self.level_bytes(waiting_bytes);
        // The rest must be worth another batch.
        let most = (share / 100 * OF_SHARE_PERCENT).max(least.min(share));
        usual.min(most.max(LAST_BATCH_BYTES_MIN))
    }
}

/// The files of one rsync.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub files: Vec<PooledFile>,
    /// The changes made to them, including by earlier attempts.
    pub changes: HashMap<EntryPath, ChangeByRsync>,
    /// The most bytes of it that an attempt has moved.
    pub moved_bytes: u64,
    /// True if an attempt lost its connection, so it may have done more than it reported.
    pub was_lost: bool,
}

impl Batch {
    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add)
    }

    /// Returns true if an attempt that has moved this many bytes is further than all before it.
    pub fn is_further(&mut self, moved_bytes: u64) -> bool {
        let is_further = moved_bytes > self.moved_bytes;
        self.moved_bytes = self.moved_bytes.max(moved_bytes);
        is_further
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &EntryPath> {
        self.files.iter().map(|file| &file.path)
    }
}

#[derive(Debug, Default)]
struct FilePoolState {
    heap: BinaryHeap<PooledFile>,
    returned: VecDeque<Batch>,
    /// The bytes of the files in the heap, plus their extra cost.
    cost_bytes: u64,
    scan_done: bool,
    /// The time since which lanes take files.
    lanes_since: Option<Instant>,
    stopped: bool,
    /// The number of batches that lanes work on.
    taken: usize,
}

/// The queue of files between the scan and the lanes.
#[derive(Debug, Default)]
pub(super) struct FilePool {
    state: Mutex<FilePoolState>,
    changed: Condvar,
}

impl FilePool {
    fn state(&self) -> MutexGuard<'_, FilePoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that lanes begin to take files.
    pub fn begin(&self) {
        self.state().lanes_since = Some(Instant::now());
    }

    /// Adds a file. Waits for room, unless no lane takes files yet.
    pub fn put(&self, file: PooledFile, cancel: &AtomicBool) {
        let mut state = self.state();
        while state.lanes_since.is_some()
            && state.heap.len() >= WAITING_MAX
            && !state.stopped
            && !cancel.load(Relaxed)
        {
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.cost_bytes = state.cost_bytes.saturating_add(cost(&file));
        state.heap.push(file);
        if state.cost_bytes >= BATCH_BYTES_MIN {
            self.changed.notify_one();
        }
    }

    /// Records that no more files will be added.
    pub fn end_of_scan(&self) {
        self.state().scan_done = true;
        self.changed.notify_all();
    }

    /// Stops handing out batches.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Returns true if everything is done, or the pool is stopped.
    pub fn is_finished(&self) -> bool {
        let state = self.state();
        state.stopped || state.is_empty()
    }

    /// Returns true if all files are known.
    pub fn scan_done(&self) -> bool {
        self.state().scan_done
    }

    /// Returns the bytes that wait.
    pub fn waiting_bytes(&self) -> u64 {
        let state = self.state();
        state.returned.iter().map(Batch::bytes).fold(state.cost_bytes, u64::saturating_add)
    }

    /// Returns the next batch, sized by the state of the lanes at that moment. `None` if there will be no more.
    pub fn take(&self, share: &dyn Fn() -> Share) -> Option<Batch> {
        let mut state = self.state();
        loop {
            if state.stopped || state.is_empty() {
                self.changed.notify_all();
                return None;
            }
            if let Some(batch) = state.draw(share) {
                state.taken += 1;
                self.changed.notify_all();
                return Some(batch);
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Records that a batch has ended. A batch given back is repeated.
    pub fn done(&self, again: Option<Batch>) {
        let mut state = self.state();
        state.taken = state.taken.saturating_sub(1);
        state.returned.extend(again);
        self.changed.notify_all();
    }
}

impl FilePoolState {
    fn is_empty(&self) -> bool {
        self.scan_done && self.taken == 0 && self.heap.is_empty() && self.returned.is_empty()
    }

    fn draw(&mut self, share: &dyn Fn() -> Share) -> Option<Batch> {
        if let Some(batch) = self.returned.pop_front() {
            return Some(batch);
        }
        let is_early = self.lanes_since.is_some_and(|since| since.elapsed() < PATIENCE);
        if !self.scan_done && (is_early || self.cost_bytes < BATCH_BYTES_MIN) {
            return None;
        }
        let budget = share().budget_bytes(self.cost_bytes, self.scan_done);
        let mut batch = Batch::default();
        let mut spent = 0;
        while let Some(largest) = self.heap.peek() {
            let more = cost(largest);
            if !batch.files.is_empty() && (spent + more > budget || batch.files.len() == BATCH_FILES_MAX) {
                break;
            }
            spent += more;
            batch.files.extend(self.heap.pop());
        }
        self.cost_bytes = self.cost_bytes.saturating_sub(spent);
        (!batch.files.is_empty()).then_some(batch)
    }
}

fn cost(file: &PooledFile) -> u64 {
    file.size_bytes.saturating_add(FILE_COST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stop flag that is never set.
    static RUNS: AtomicBool = AtomicBool::new(false);

    fn file(size_bytes: u64, name: &str) -> PooledFile {
        PooledFile { size_bytes, path: EntryPath::new(name).unwrap(), may_have_holes: false }
    }

    /// Returns lanes of which only the number is known.
    fn lanes(lanes: usize) -> impl Fn() -> Share {
        move || Share { lanes, ..Share::default() }
    }

    #[test]
    fn the_largest_go_first_and_alone() {
        let pool = FilePool::default();
        for index in 0..100 {
            pool.put(file(100_000, &format!("small{index}")), &RUNS);
        }
        pool.put(file(1 << 30, "large"), &RUNS);
        let first = pool.take(&lanes(4)).unwrap();
        assert_eq!(first.files, [file(1 << 30, "large")]);
        pool.end_of_scan();
        let next = pool.take(&lanes(4)).unwrap();
        // All four lanes get a part of the rest.
        assert!(next.files.len() > 1 && next.files.len() < 25, "{}", next.files.len());
    }

    #[test]
    fn a_scan_that_soon_ends_is_waited_for() {
        let pool = FilePool::default();
        // Stop the clock: this host may be slow.
        pool.state().lanes_since = Some(Instant::now() + Duration::from_secs(3600));
        pool.put(file(BATCH_BYTES_MIN, "found first"), &RUNS);
        assert!(pool.state().draw(&lanes(4)).is_none());
        pool.put(file(1 << 30, "large"), &RUNS);
        pool.end_of_scan();
        assert_eq!(pool.take(&lanes(4)).unwrap().files, [file(1 << 30, "large")]);
    }

    #[test]
    fn all_lanes_end_together() {
        let level = |lanes, left: &[u64], waiting| {
            Share { lanes, left_bytes: left.to_vec(), ..Share::default() }.level_bytes(waiting)
        };
        assert_eq!(level(4, &[], 400), 100);
        assert_eq!(level(4, &[50, 100, 50], 200), 100);
        // A lane with a huge file is left out.
        assert_eq!(level(4, &[1_000_000, 0, 0], 300), 100);
        // More lanes work than are wanted, which happens when their number was reduced.
        assert_eq!(level(1, &[10, 10], 10), 10);
    }

    /// Simulates `lanes` of the same speed. Returns the number of batches, and the time at which the last one ends.
    fn simulated(pool: &FilePool, lanes: usize, rate: u64, setup: Duration) -> (usize, f64) {
        let mut free_at = vec![0.0_f64; lanes];
        let mut batches = 0;
        loop {
            let (index, now) =
                free_at.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            let left = |at: f64| ((at - now).max(0.0) * rate as f64) as u64;
            let others = free_at.iter().enumerate().filter(|(other, _)| *other != index);
            let left_bytes: Vec<_> = others.map(|(_, at)| left(*at)).filter(|left| *left > 0).collect();
            let share = || Share { lanes, bytes_per_second: rate, setup, left_bytes: left_bytes.clone() };
            let Some(batch) = pool.take(&share) else { break };
            free_at[index] += setup.as_secs_f64() + batch.bytes() as f64 / rate as f64;
            batches += 1;
            pool.done(None);
        }
        (batches, free_at.into_iter().fold(0.0, f64::max))
    }

    #[test]
    fn little_is_spent_on_connections_and_on_waiting_for_the_last() {
        for (lanes, setup_ms) in [(4, 300), (16, 300), (32, 300), (16, 1500)] {
            let pool = FilePool::default();
            for index in 0..10_000 {
                pool.put(file(100_000, &format!("small{index}")), &RUNS);
            }
            for index in 0..20 {
                pool.put(file(100_000_000, &format!("large{index}")), &RUNS);
            }
            pool.put(file(300_000_000, "alone"), &RUNS);
            pool.end_of_scan();
            let rate = 6_250_000;
            let least = (3_300_000_000 / lanes as u64) as f64 / rate as f64;
            let least = least.max(300_000_000.0 / rate as f64);
            let (batches, time) = simulated(&pool, lanes, rate, Duration::from_millis(setup_ms));
            assert!(batches < 20 + 12 * lanes, "{batches} batches of {lanes} lanes");
            assert!(
                time < least * 1.15 + 1.0,
                "{time} s with {lanes} lanes, {setup_ms} ms, at least {least}"
            );
        }
    }

    #[test]
    fn a_scan_waits_only_for_lanes_that_take() {
        let pool = FilePool::default();
        for index in 0..WAITING_MAX + 10 {
            pool.put(file(1, &index.to_string()), &RUNS);
        }
        pool.begin();
        pool.put(file(1, "after the stop"), &AtomicBool::new(true));
        assert_eq!(pool.state().heap.len(), WAITING_MAX + 11);
    }

    #[test]
    fn what_is_given_back_is_done_again_and_nothing_is_lost() {
        let pool = FilePool::default();
        for index in 0..50 {
            pool.put(file(index, &format!("{index}")), &RUNS);
        }
        pool.end_of_scan();
        let mut batch = pool.take(&lanes(1)).unwrap();
        assert!(!pool.is_finished());
        let names: Vec<_> = batch.paths().cloned().collect();
        assert!(batch.is_further(7) && !batch.is_further(7));
        pool.done(Some(batch));
        let mut again = pool.take(&lanes(1)).unwrap();
        // Bytes that were moved before are no progress.
        assert!(!again.is_further(7) && again.is_further(8));
        assert!(again.paths().eq(&names));
        let mut files = again.files.len();
        pool.done(None);
        while let Some(batch) = pool.take(&lanes(1)) {
            files += batch.files.len();
            pool.done(None);
        }
        assert_eq!(files, 50);
        assert!(pool.is_finished());
    }
}
