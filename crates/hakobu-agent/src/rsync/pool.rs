//! The files that wait, largest first, and how many of them one rsync gets.
//!
//! An rsync costs a connection and a dozen round trips besides its bytes, so small files go in batches worth many times
//! that. Once all is known, a batch is most of what its connection can do until all of them end together.

use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::path::EntryPath;

/// Files with their sizes in bytes.
pub(super) type Sizes = HashMap<EntryPath, u64>;

/// The least that is worth a connection, while the scan may bring more.
const BATCH_BYTES_MIN: u64 = 8 << 20;
/// The same when all is known.
const LAST_BATCH_BYTES_MIN: u64 = 1 << 20;
/// More than this is lost too much of when a connection breaks.
const BATCH_BYTES_MAX: u64 = 512 << 20;
/// The most names of one batch.
const BATCH_FILES_MAX: usize = 8192;
/// How long a batch should take while the scan goes on, and how many times as long as what it costs to begin one.
const BATCH_TIME: Duration = Duration::from_secs(8);
const BATCH_SETUPS: u32 = 20;
/// The least, in the end.
const LAST_BATCH_SETUPS: u32 = 3;
/// What of its share a connection gets at once, in parts of a hundred. It may turn out to be slower than the others.
const OF_SHARE_PERCENT: u64 = 70;
/// For so long the scan may find what is largest before any file goes.
const PATIENCE: Duration = Duration::from_millis(500);
/// What a file costs besides its bytes.
const FILE_COST_BYTES: u64 = 8 << 10;
/// So many files may wait before the scan has to.
const WAITING_MAX: usize = if cfg!(test) { 1000 } else { 2_000_000 };
/// How often a waiting lane looks around.
const LOOK: Duration = Duration::from_millis(100);

/// A file that is to be brought over. They are ordered by size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    pub size_bytes: u64,
    pub path: EntryPath,
    pub may_have_holes: bool,
}

/// What rsync did with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Created,
    Updated,
    Attributes,
}

/// What is known of the lanes when one of them gets a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    /// How many there are to be.
    pub lanes: usize,
    /// What each moves in a second, as far as is known.
    pub bytes_per_second: u64,
    /// What it costs to begin a batch, and to end it.
    pub setup: Duration,
    /// What the others have left of theirs.
    pub left_bytes: Vec<u64>,
}

impl Share {
    fn bytes_in(&self, time: Duration) -> u64 {
        let bytes = u128::from(self.bytes_per_second) * time.as_millis() / 1000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// What one lane has to do if all end together, with so much that waits. Lanes that have more left than that do
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

    /// The bytes of the next batch.
    fn budget_bytes(&self, waiting_bytes: u64, scan_done: bool) -> u64 {
        let usual = self.bytes_in(BATCH_TIME.max(self.setup * BATCH_SETUPS));
        let usual = usual.clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
        if !scan_done {
            return usual;
        }
        let least = self.bytes_in(self.setup * LAST_BATCH_SETUPS).max(LAST_BATCH_BYTES_MIN);
        let share = self.level_bytes(waiting_bytes);
        // What is left over must be worth another one.
        let most = (share / 100 * OF_SHARE_PERCENT).max(least.min(share));
        usual.min(most.max(LAST_BATCH_BYTES_MIN))
    }
}

/// The files of one rsync.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub files: Vec<Waiting>,
    /// What was done with them, in earlier attempts as well.
    pub changes: HashMap<EntryPath, Change>,
    /// The most bytes of it that an attempt has moved.
    pub moved_bytes: u64,
    /// Whether the connection of an attempt was lost, which may have done more than it told.
    pub was_lost: bool,
}

impl Batch {
    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add)
    }

    /// Whether an attempt that has moved so many bytes is further than all before it.
    pub fn is_further(&mut self, moved_bytes: u64) -> bool {
        let is_further = moved_bytes > self.moved_bytes;
        self.moved_bytes = self.moved_bytes.max(moved_bytes);
        is_further
    }

    /// The paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &EntryPath> {
        self.files.iter().map(|file| &file.path)
    }
}

#[derive(Debug, Default)]
struct State {
    heap: BinaryHeap<Waiting>,
    returned: VecDeque<Batch>,
    /// The bytes, and what the files cost besides, of the heap.
    cost_bytes: u64,
    scan_done: bool,
    /// Since when there are lanes that take any.
    lanes_since: Option<Instant>,
    stopped: bool,
    /// Batches that lanes work on.
    taken: usize,
}

/// Files from the scan to the lanes.
#[derive(Debug, Default)]
pub(super) struct Pool {
    state: Mutex<State>,
    changed: Condvar,
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lanes begin to take files.
    pub fn begin(&self) {
        self.state().lanes_since = Some(Instant::now());
    }

    /// Adds a file, once there is room, or where there is nobody yet who would make some.
    pub fn put(&self, file: Waiting, cancel: &AtomicBool) {
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

    /// No more files will come.
    pub fn end_of_scan(&self) {
        self.state().scan_done = true;
        self.changed.notify_all();
    }

    /// Nobody gets any more.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Whether all is done, or nothing more is to be.
    pub fn is_finished(&self) -> bool {
        let state = self.state();
        state.stopped || state.is_empty()
    }

    /// Whether all files are known.
    pub fn scan_done(&self) -> bool {
        self.state().scan_done
    }

    /// The bytes that wait.
    pub fn waiting_bytes(&self) -> u64 {
        let state = self.state();
        state.returned.iter().map(Batch::bytes).fold(state.cost_bytes, u64::saturating_add)
    }

    /// The next batch, by what is known of the lanes at that moment. None when there will be no more.
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

    /// A batch is done with. What is given back is done again.
    pub fn done(&self, again: Option<Batch>) {
        let mut state = self.state();
        state.taken = state.taken.saturating_sub(1);
        state.returned.extend(again);
        self.changed.notify_all();
    }
}

impl State {
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

fn cost(file: &Waiting) -> u64 {
    file.size_bytes.saturating_add(FILE_COST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody has asked to stop.
    static RUNS: AtomicBool = AtomicBool::new(false);

    fn file(size_bytes: u64, name: &str) -> Waiting {
        Waiting { size_bytes, path: EntryPath::new(name).unwrap(), may_have_holes: false }
    }

    /// Lanes of which nothing more is known.
    fn lanes(lanes: usize) -> impl Fn() -> Share {
        move || Share { lanes, ..Share::default() }
    }

    #[test]
    fn the_largest_go_first_and_alone() {
        let pool = Pool::default();
        for index in 0..100 {
            pool.put(file(100_000, &format!("small{index}")), &RUNS);
        }
        pool.put(file(1 << 30, "large"), &RUNS);
        let first = pool.take(&lanes(4)).unwrap();
        assert_eq!(first.files, [file(1 << 30, "large")]);
        pool.end_of_scan();
        let next = pool.take(&lanes(4)).unwrap();
        // All four lanes get something of what is left.
        assert!(next.files.len() > 1 && next.files.len() < 25, "{}", next.files.len());
    }

    #[test]
    fn a_scan_that_soon_ends_is_waited_for() {
        let pool = Pool::default();
        // As if no time went by: this machine may be slow.
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
        // One that is at something huge is left alone.
        assert_eq!(level(4, &[1_000_000, 0, 0], 300), 100);
        // More work than are wanted, which happens when their number has gone down.
        assert_eq!(level(1, &[10, 10], 10), 10);
    }

    /// The batches of `lanes`, each as fast as the others, and when the last one ends.
    fn simulated(pool: &Pool, lanes: usize, rate: u64, setup: Duration) -> (usize, f64) {
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
            let pool = Pool::default();
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
        let pool = Pool::default();
        for index in 0..WAITING_MAX + 10 {
            pool.put(file(1, &index.to_string()), &RUNS);
        }
        pool.begin();
        pool.put(file(1, "after the stop"), &AtomicBool::new(true));
        assert_eq!(pool.state().heap.len(), WAITING_MAX + 11);
    }

    #[test]
    fn what_is_given_back_is_done_again_and_nothing_is_lost() {
        let pool = Pool::default();
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
        // What was moved once before is no progress.
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
