//! The queue of tasks that wait for a lane, and the count of unfinished work.
//!
//! The queue has one lock, taken once per directory, pack or large file. The chunks of a large file are taken from the
//! file's own counter. Directories are taken last in, first out, so the queue's length grows with the depth of the tree
//! and not with its size. Lanes scan only while few packs wait.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::large::{IfDifferent, LargeFile};
use super::node::{DirectoryNode, DirectoryTask, TargetState};
use crate::counters::LaneCounters;
use crate::endpoint::Picks;
use crate::exchange::WorkDemand;

/// The number of waiting packs at which scanning pauses.
const PACKS_MAX: usize = 256;
/// While fewer packs wait, the next page of a directory is read. They keep a lane busy for about as long as that takes.
const PACKS_FEW: usize = 4;
/// The number of waiting large files at which scanning pauses.
const FILES_MAX: usize = 1024;
/// The maximum number of open drafts. Each takes one of the target's file descriptors (1024 by default).
const DRAFTS_MAX: usize = 512;

/// The maximum number of directories that are given away at a time, unless all are.
const SHARES_AT_ONCE: usize = 1000;

/// The number of waiting entries below which no slices are given away: they are soon copied.
const SLICED_ENTRIES_LEAST: usize = 200;

/// A pack to read and store.
#[derive(Clone, Debug)]
pub(super) struct PackTask {
    /// The directory.
    pub node: Arc<DirectoryNode>,
    /// The index of the directory's origin that has the entries.
    pub origin: usize,
    /// The entries of the pack.
    pub picks: Arc<Picks>,
    /// Set if the content is compared first.
    pub compare: Option<IfDifferent>,
    /// Set if the entries are sent again, because they changed while they were uploaded.
    pub resend: Option<PackResend>,
    /// True if the entries are read, and not copied by the store.
    pub is_read: bool,
    /// True if another run that looks at the entries would do the same with them.
    pub may_be_given: bool,
}

/// The reason for sending a pack again.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackResend {
    /// The number of earlier attempts.
    pub attempts: u8,
    /// True if the first attempt created the entries.
    pub created: bool,
}

impl PackTask {
    /// Creates a task that sends entries as they are, and stays with this run.
    pub fn new(node: Arc<DirectoryNode>, origin: usize, picks: Arc<Picks>) -> Self {
        Self { node, origin, picks, compare: None, resend: None, is_read: false, may_be_given: false }
    }

    /// Returns true if its entries can be given to another run.
    fn can_be_given(&self) -> bool {
        let is_plain = self.compare.is_none() && self.resend.is_none() && self.picks.target_name.is_none();
        self.may_be_given && is_plain && self.node.has_slice_place(self.origin)
    }

    /// Returns true if an entry of the pack replaces one that was there before the run.
    pub fn replaces(&self, pick: u32) -> bool {
        let created = self.resend.is_some_and(|resend| resend.created);
        !created && self.picks.entries.get(pick as usize).is_some_and(|pick| pick.replaces)
    }
}

/// A task for a lane.
#[derive(Debug)]
pub(super) enum LaneTask {
    /// Scan a directory whose state at the target is known.
    Directory(DirectoryTask),
    /// Scan directories, and list them at the target.
    Directories(Vec<DirectoryTask>),
    /// Copy or compare a pack.
    Pack(PackTask),
    /// Begin a large file.
    Begin(Arc<LargeFile>),
    /// Transfer chunks of a large file until none is left.
    Chunks(Arc<LargeFile>),
}

/// The result of [`TaskQueue::take`].
#[derive(Debug)]
pub(super) enum NextTask {
    /// A task.
    Task(LaneTask),
    /// No task now; there may be one later.
    Nothing,
    /// All work is done, or the run was stopped.
    Ended,
}

#[derive(Debug, Default)]
struct TaskQueueState {
    directories: Vec<DirectoryTask>,
    packs: VecDeque<PackTask>,
    files: VecDeque<Arc<LargeFile>>,
    active: VecDeque<Arc<LargeFile>>,
    finished: Vec<Arc<DirectoryNode>>,
    /// The number of files that were begun and are neither finished nor given up.
    drafts: usize,
    /// True if lanes write to different files where possible.
    spreads: bool,
    /// The number of directories listed in one request.
    listed_at_once: usize,
    /// The number of tasks that wait or are in progress, and of directories whose attributes are not set.
    outstanding: u64,
    /// The number of directories that wait or are being scanned.
    scanning: u64,
    started: bool,
    stopped: bool,
}

/// The tasks of one run.
#[derive(Debug, Default)]
pub(super) struct TaskQueue {
    state: Mutex<TaskQueueState>,
    wake: Condvar,
}

impl TaskQueue {
    /// Returns an empty queue. `spreads`: lanes take different files where possible. `listed_at_once`: the maximum
    /// number of directories in one task.
    pub fn new(spreads: bool, listed_at_once: usize) -> Self {
        let state = TaskQueueState { spreads, listed_at_once, ..TaskQueueState::default() };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, TaskQueueState> {
        // Every single statement leaves the state consistent, so it is valid even if a lane panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the first tasks have been added. From now on an empty queue is the end of the run.
    pub fn start(&self) {
        self.lock().started = true;
        self.wake.notify_all();
    }

    /// Stops the run for all lanes.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }

    /// Returns true if the run was stopped early.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Returns true if no work is left or the run was stopped.
    pub fn is_over(&self) -> bool {
        let state = self.lock();
        state.stopped || (state.started && state.outstanding == 0)
    }

    /// Returns true if there is work that no lane has taken.
    pub fn has_waiting(&self) -> bool {
        let state = self.lock();
        let small = !state.packs.is_empty() || !state.files.is_empty() || !state.directories.is_empty();
        small || state.active.iter().any(|file| file.has_chunks_left())
    }

    /// Returns true if every directory has been scanned.
    pub fn scan_done(&self) -> bool {
        let state = self.lock();
        state.started && state.scanning == 0
    }

    /// Adds the results of a scan. Directories are taken in the order in which they are passed.
    pub fn add(&self, directories: Vec<DirectoryTask>, packs: Vec<PackTask>, files: Vec<Arc<LargeFile>>) {
        if directories.is_empty() && packs.is_empty() && files.is_empty() {
            return;
        }
        self.lock().add(directories, packs, files);
        self.wake.notify_all();
    }

    /// Adds the results of scanning a part of a directory. `rest`, the remainder of that directory, is taken after the
    /// directories found in it. The number of waiting directories therefore does not grow with the size of the
    /// directory.
    pub fn add_before(
        &self,
        rest: DirectoryTask,
        directories: Vec<DirectoryTask>,
        packs: Vec<PackTask>,
        files: Vec<Arc<LargeFile>>,
    ) {
        let mut state = self.lock();
        state.directories.push(rest);
        state.add(directories, packs, files);
        drop(state);
        self.wake.notify_all();
    }

    /// Makes the chunks of a large file that has been begun available to lanes.
    pub fn activate(&self, file: Arc<LargeFile>) {
        self.lock().active.push_back(file);
        self.wake.notify_all();
    }

    /// Records that a large file is finished or given up, so that another one may begin.
    pub fn draft_done(&self) {
        let mut state = self.lock();
        let was_full = state.drafts >= DRAFTS_MAX;
        state.drafts = state.drafts.saturating_sub(1);
        drop(state);
        if was_full {
            self.wake.notify_all();
        }
    }

    /// Counts work in progress that was not queued.
    pub fn hold(&self, count: u64) {
        self.lock().outstanding += count;
    }

    /// Counts a part of a scan that was not queued.
    pub fn hold_scan(&self) {
        let mut state = self.lock();
        state.outstanding += 1;
        state.scanning += 1;
    }

    /// Records that `count` tasks are done.
    pub fn complete(&self, count: u64) {
        let mut state = self.lock();
        state.outstanding -= count;
        if state.outstanding == 0 {
            drop(state);
            self.wake.notify_all();
        }
    }

    /// Records that `count` directories have been scanned.
    pub fn scanned(&self, count: u64) {
        self.lock().scanning -= count;
    }

    /// Records that a task in or below `node` is done. Directories that become complete are added to the finished ones,
    /// each after those it contains. A directory without anything to set is counted here instead.
    pub fn release(&self, node: &Arc<DirectoryNode>, counters: &LaneCounters) {
        let mut node = node;
        while node.release() {
            if node.has_end() || node.is_open() {
                let mut state = self.lock();
                state.outstanding += 1;
                let is_first = state.finished.is_empty();
                state.finished.push(node.clone());
                drop(state);
                if is_first {
                    // Lane 0 may be asleep. It takes all finished directories at once, so only the first one wakes it.
                    self.wake.notify_all();
                }
            } else {
                node.count(counters);
            }
            match &node.parent {
                Some(parent) => node = parent,
                None => return,
            }
        }
    }

    /// Takes directories that no lane has begun, to give them away: those that have waited longest, which are nearest to the
    /// root. Each counts as waiting until [`TaskQueue::given`].
    pub fn take_shares(&self, demand: WorkDemand) -> Vec<DirectoryTask> {
        let mut state = self.lock();
        let waiting = state.directories.len();
        let mut left = match demand {
            WorkDemand::Nothing => 0,
            WorkDemand::Half => waiting.div_ceil(2).min(SHARES_AT_ONCE),
            WorkDemand::All => waiting,
        };
        let is_taken = |task: &mut DirectoryTask| {
            let is_taken = left > 0 && task.may_be_given();
            left -= usize::from(is_taken);
            is_taken
        };
        state.directories.extract_if(.., is_taken).collect()
    }

    /// Takes packs that no lane has begun, to give their entries away: those that would wait longest. Each counts as waiting
    /// until [`TaskQueue::given_packs`].
    pub fn take_slices(&self, demand: WorkDemand) -> Vec<PackTask> {
        if demand == WorkDemand::Nothing {
            return Vec::new();
        }
        let mut state = self.lock();
        let count = |pack: &PackTask| if pack.can_be_given() { pack.picks.entries.len() } else { 0 };
        let entries: usize = state.packs.iter().map(count).sum();
        if entries < SLICED_ENTRIES_LEAST {
            return Vec::new();
        }
        let mut keeps = if demand == WorkDemand::Half { entries / 2 } else { 0 };
        let is_taken = |pack: &PackTask| {
            let is_taken = keeps == 0 && pack.can_be_given();
            keeps = keeps.saturating_sub(count(pack));
            is_taken
        };
        let (taken, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.packs).into_iter().partition(is_taken);
        state.packs = kept.into();
        taken
    }

    /// Records that the entries of packs now belong to another run. Their directories must be open.
    pub fn given_packs(&self, packs: &[PackTask]) {
        // An open directory is counted later.
        packs.iter().for_each(|pack| self.release(&pack.node, &LaneCounters::default()));
        self.complete(packs.len() as u64);
    }

    /// Records that directories now belong to another run. Those above them must be open.
    pub fn given(&self, tasks: &[DirectoryTask]) {
        let counters = LaneCounters::default();
        for parent in tasks.iter().filter_map(|task| task.node.parent.as_ref()) {
            // An open directory is counted later.
            self.release(parent, &counters);
        }
        self.scanned(tasks.len() as u64);
    }

    /// Takes the finished directories, in an order in which their attributes may be set.
    pub fn take_finished(&self) -> Vec<Arc<DirectoryNode>> {
        std::mem::take(&mut self.lock().finished)
    }

    /// Takes the next task for lane `index`. Lane 0 prefers the scan and small files, and the other lanes prefer large
    /// files, so that neither kind of work waits for the other to end.
    pub fn take(&self, index: usize) -> NextTask {
        let mut state = self.lock();
        if state.stopped || (state.started && state.outstanding == 0) {
            return NextTask::Ended;
        }
        let small_first = index == 0 && state.files.len() < FILES_MAX;
        let task = if small_first {
            state.take_small().or_else(|| state.take_large())
        } else {
            state.take_large().or_else(|| state.take_small())
        };
        task.map_or(NextTask::Nothing, NextTask::Task)
    }

    /// Waits until something may have changed, at most `limit`.
    pub fn wait(&self, limit: Duration) {
        let state = self.lock();
        if state.stopped || (state.started && state.outstanding == 0) {
            return;
        }
        let waited = self.wake.wait_timeout(state, limit);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl TaskQueueState {
    fn add(&mut self, directories: Vec<DirectoryTask>, packs: Vec<PackTask>, files: Vec<Arc<LargeFile>>) {
        self.outstanding += (directories.len() + packs.len() + files.len()) as u64;
        self.scanning += directories.len() as u64;
        self.directories.extend(directories.into_iter().rev());
        self.packs.extend(packs);
        self.files.extend(files);
    }

    fn take_large(&mut self) -> Option<LaneTask> {
        while self.active.front().is_some_and(|file| !file.has_chunks_left()) {
            self.active.pop_front();
        }
        let active = match self.spreads {
            false => self.active.front(),
            true => self.active.iter().filter(|file| file.has_chunks_left()).min_by_key(|file| file.lanes()),
        };
        let active = active.cloned();
        let own = self.spreads && active.as_ref().is_some_and(|file| file.lanes() > 0);
        let begun = if own || active.is_none() { self.begin() } else { None };
        begun.or_else(|| {
            let file = active?;
            file.enter();
            Some(LaneTask::Chunks(file))
        })
    }

    fn begin(&mut self) -> Option<LaneTask> {
        if self.drafts >= DRAFTS_MAX {
            return None;
        }
        let file = self.files.pop_front()?;
        self.drafts += 1;
        Some(LaneTask::Begin(file))
    }

    fn take_small(&mut self) -> Option<LaneTask> {
        let scan = self.packs.len() < PACKS_MAX && self.files.len() < FILES_MAX;
        // The rest of a directory is read early enough that other lanes do not run out of work.
        let rest = self.directories.last().is_some_and(|task| task.target.is_begun());
        if scan && rest && self.packs.len() < PACKS_FEW {
            return self.take_directories();
        }
        let pack = self.packs.pop_front().map(LaneTask::Pack);
        pack.or_else(|| if scan { self.take_directories() } else { None })
    }

    fn take_directories(&mut self) -> Option<LaneTask> {
        let first = self.directories.pop()?;
        if !matches!(first.target, TargetState::Unknown) {
            return Some(LaneTask::Directory(first));
        }
        let mut tasks = vec![first];
        while tasks.len() < self.listed_at_once
            && self.directories.last().is_some_and(|task| matches!(task.target, TargetState::Unknown))
        {
            tasks.extend(self.directories.pop());
        }
        Some(LaneTask::Directories(tasks))
    }
}

#[cfg(test)]
mod tests;
