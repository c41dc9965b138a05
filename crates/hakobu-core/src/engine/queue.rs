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
mod tests {
    use super::super::large::LargeFileMode;
    use super::super::node::{CountedDirectory, Origin, TouchedAttributes};
    use super::*;
    use crate::endpoint::{DraftKind, SourceFile};
    use crate::entry::{Attributes, EntryKind, EntryMetadata, FileTime};
    use crate::extent::CHUNK_BYTES;
    use crate::path::EntryPath;

    fn node(name: &str, parent: Option<Arc<DirectoryNode>>) -> Arc<DirectoryNode> {
        let path = EntryPath::new(name).unwrap();
        let mtime = FileTime::default();
        let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime };
        DirectoryNode::new(
            (vec![Origin::whole(0, path.clone())], path),
            (Some(attributes), CountedDirectory::Created),
            parent,
            TouchedAttributes::Yes,
        )
    }

    #[test]
    fn a_directory_is_finished_after_what_it_holds() {
        let (queue, counters) = (TaskQueue::new(false, 24), LaneCounters::default());
        let top = node("top", None);
        let (a, b) = (node("top/a", Some(top.clone())), node("top/b", Some(top.clone())));
        queue.release(&top, &counters);
        queue.release(&a, &counters);
        assert_eq!(queue.take_finished().len(), 1);
        queue.release(&b, &counters);
        let order: Vec<_> = queue.take_finished().iter().map(|node| node.target.to_string()).collect();
        assert_eq!(order, ["top/b", "top"]);
    }

    #[test]
    fn unknown_directories_are_asked_for_together() {
        let queue = TaskQueue::new(false, 24);
        let tasks = (0..40)
            .map(|number| DirectoryTask::new(node(&format!("d{number}"), None), TargetState::Unknown))
            .collect();
        queue.add(tasks, Vec::new(), Vec::new());
        queue.start();
        let NextTask::Task(LaneTask::Directories(tasks)) = queue.take(0) else { panic!("no task") };
        assert_eq!(tasks.len(), 24);
        assert_eq!(tasks[0].node.target.to_string(), "d0");
        queue.complete(40);
        assert!(matches!(queue.take(1), NextTask::Ended));
    }

    fn pack(node: &Arc<DirectoryNode>) -> PackTask {
        let picks = Picks { listing: Arc::default(), entries: Vec::new(), target_name: None };
        PackTask {
            node: node.clone(),
            origin: 0,
            picks: Arc::new(picks),
            compare: None,
            resend: None,
            is_read: false,
        }
    }

    #[test]
    fn the_rest_of_a_directory_comes_before_the_last_packs_and_no_sooner() {
        let (queue, node) = (TaskQueue::new(false, 24), node("d", None));
        let task = || DirectoryTask::new(node.clone(), TargetState::Absent);
        queue.add(vec![task()], Vec::new(), Vec::new());
        queue.start();
        assert!(matches!(queue.take(0), NextTask::Task(LaneTask::Directory(_))));
        // Its first page contained a directory and packs.
        let packs = (0..=PACKS_FEW).map(|_| pack(&node)).collect();
        queue.add(vec![task()], packs, Vec::new());
        let rest = TargetState::Rest(crate::handle::Cursor::new(()));
        queue.add_before(DirectoryTask::new(node.clone(), rest), Vec::new(), Vec::new(), Vec::new());
        for lane in [0, 1] {
            assert!(matches!(queue.take(lane), NextTask::Task(LaneTask::Pack(_))));
        }
        let NextTask::Task(LaneTask::Directory(DirectoryTask { target, .. })) = queue.take(1) else {
            panic!("no rest")
        };
        assert!(matches!(target, TargetState::Rest(_)));
        assert!(matches!(queue.take(0), NextTask::Task(LaneTask::Pack(_))));
        assert!(!queue.scan_done());
    }

    #[test]
    fn nothing_to_do_is_the_end_only_after_the_start() {
        let queue = TaskQueue::new(false, 24);
        assert!(matches!(queue.take(0), NextTask::Nothing));
        queue.start();
        assert!(matches!(queue.take(0), NextTask::Ended));
    }

    fn file(name: &str) -> Arc<LargeFile> {
        let path = EntryPath::new(name).unwrap();
        let metadata = EntryMetadata { size_bytes: 3 * CHUNK_BYTES, ..EntryMetadata::new(EntryKind::File) };
        let source = SourceFile { root: 0, path: path.clone(), metadata, tolerant: false };
        let how = LargeFileMode { kind: DraftKind::File, replaces: false, named: false, digest: false };
        Arc::new(LargeFile::new(node("top", None), source, path, 1, how))
    }

    /// Returns the task for lane 1 as text: `begin a`, or `a` for its chunks.
    fn large(queue: &TaskQueue) -> String {
        match queue.take(1) {
            NextTask::Task(LaneTask::Begin(file)) => format!("begin {}", file.target),
            NextTask::Task(LaneTask::Chunks(file)) => file.target.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn writers_are_spread_over_files_where_that_is_better() {
        for (spreads, expected) in [(false, ["a", "a", "a", "a"]), (true, ["a", "begin b", "b", "a"])] {
            let queue = TaskQueue::new(spreads, 24);
            let (a, b) = (file("a"), file("b"));
            queue.add(Vec::new(), Vec::new(), vec![a.clone(), b.clone()]);
            queue.start();
            assert_eq!(large(&queue), "begin a");
            queue.activate(a.clone());
            let mut taken = vec![large(&queue), large(&queue)];
            if spreads {
                queue.activate(b.clone());
            }
            taken.push(large(&queue));
            // The first of its lanes has left.
            a.leave();
            taken.push(large(&queue));
            assert_eq!(taken, expected);
        }
    }

    fn directory(name: &str, target: TargetState) -> DirectoryTask {
        DirectoryTask::new(node(name, None), target)
    }

    /// Returns the task for a lane as text.
    fn taken(queue: &TaskQueue, lane: usize) -> String {
        match queue.take(lane) {
            NextTask::Task(LaneTask::Directory(task)) => format!("directory {}", task.node.target),
            NextTask::Task(LaneTask::Directories(tasks)) => format!("{} directories", tasks.len()),
            NextTask::Task(LaneTask::Pack(_)) => "pack".to_owned(),
            NextTask::Task(LaneTask::Begin(file)) => format!("begin {}", file.target),
            NextTask::Task(LaneTask::Chunks(file)) => format!("chunks of {}", file.target),
            NextTask::Nothing => "nothing".to_owned(),
            NextTask::Ended => "the end".to_owned(),
        }
    }

    #[test]
    fn the_first_lane_takes_small_things_first_and_the_others_large_ones() {
        for (lane, expected) in
            [(0, ["pack", "directory d", "begin a"]), (1, ["begin a", "pack", "directory d"])]
        {
            let queue = TaskQueue::new(false, 24);
            queue.add(
                vec![directory("d", TargetState::Absent)],
                vec![pack(&node("d", None))],
                vec![file("a")],
            );
            queue.start();
            assert_eq!([(); 3].map(|()| taken(&queue, lane)), expected);
            assert_eq!(taken(&queue, lane), "nothing");
        }
    }

    #[test]
    fn directories_are_taken_in_order_and_the_rest_of_one_behind_those_in_it() {
        let queue = TaskQueue::new(false, 24);
        let tasks = ["a", "b", "c"].map(|name| directory(name, TargetState::Absent));
        queue.add(tasks.into(), Vec::new(), Vec::new());
        assert_eq!(taken(&queue, 0), "directory a");
        let within = ["a/x", "a/y"].map(|name| directory(name, TargetState::Absent));
        queue.add_before(directory("a", TargetState::Absent), within.into(), Vec::new(), Vec::new());
        let expected = ["directory a/x", "directory a/y", "directory a", "directory b", "directory c"];
        assert_eq!([(); 5].map(|()| taken(&queue, 0)), expected);
        // A directory whose state at the target is known is not listed in one request with others.
        let tasks = [directory("d", TargetState::Unknown), directory("e", TargetState::Absent)];
        queue.add(tasks.into(), Vec::new(), Vec::new());
        assert_eq!([(); 2].map(|()| taken(&queue, 0)), ["1 directories", "directory e"]);
    }

    /// Takes directories to give them away, and returns their paths.
    fn shares(queue: &TaskQueue, demand: WorkDemand) -> Vec<String> {
        let tasks = queue.take_shares(demand);
        let shares = tasks.iter().map(|task| task.node.share().unwrap().place.target.to_string()).collect();
        tasks.iter().filter_map(|task| task.node.parent.as_ref()).for_each(|parent| parent.open());
        queue.given(&tasks);
        queue.complete(tasks.len() as u64);
        shares
    }

    #[test]
    fn the_directories_that_wait_longest_are_given_away_and_those_above_stay_open() {
        let (queue, counters) = (TaskQueue::new(false, 24), LaneCounters::default());
        let top = node("top", None);
        let inner = node("top/a", Some(top.clone()));
        let task = |name: &str, parent: &Arc<DirectoryNode>, target| {
            DirectoryTask::new(node(name, Some(parent.clone())), target)
        };
        queue.add(vec![DirectoryTask::new(top.clone(), TargetState::Absent)], Vec::new(), Vec::new());
        queue.start();
        assert_eq!(shares(&queue, WorkDemand::All), [""; 0], "the user named it");
        assert_eq!(taken(&queue, 0), "directory top");
        let below = ["top/b", "top/c", "top/d"].map(|name| task(name, &top, TargetState::Unknown));
        queue.add(below.into(), Vec::new(), Vec::new());
        let rest = TargetState::Rest(crate::handle::Cursor::new(()));
        let begun = [rest, TargetState::Occupied].map(|target| task("top/a/begun", &inner, target));
        queue.add(begun.into(), Vec::new(), Vec::new());
        queue.add(vec![task("top/a/x", &inner, TargetState::Absent)], Vec::new(), Vec::new());
        assert_eq!(shares(&queue, WorkDemand::Nothing), [""; 0]);
        // The order is that of the stack: `top/b` would have been taken first of the three.
        assert_eq!(shares(&queue, WorkDemand::Half), ["top/d", "top/c", "top/b"]);
        assert!(top.is_open() && !inner.is_open());
        assert_eq!(shares(&queue, WorkDemand::All), ["top/a/x"]);
        assert!(inner.is_open());
        // An open directory is passed on when all that the run does in it is done.
        queue.release(&top, &counters);
        (0..3).for_each(|_| queue.release(&inner, &counters));
        let finished: Vec<_> = queue.take_finished().iter().map(|node| node.target.to_string()).collect();
        assert_eq!(finished, ["top/a", "top"]);
        assert_eq!(counters.entries_created.get(), 0);
        queue.scanned(3);
        assert!(queue.scan_done());
    }

    #[test]
    fn a_run_is_over_when_all_that_was_begun_is_done() {
        let queue = TaskQueue::new(false, 24);
        queue.add(vec![directory("d", TargetState::Absent)], vec![pack(&node("d", None))], vec![file("a")]);
        queue.add(Vec::new(), Vec::new(), Vec::new());
        assert!(!queue.is_over() && !queue.scan_done() && queue.has_waiting());
        queue.start();
        assert!(!queue.scan_done());
        queue.scanned(1);
        assert!(queue.scan_done() && !queue.is_over());
        queue.hold(2);
        queue.complete(4);
        assert!(!queue.is_over());
        queue.complete(1);
        assert!(queue.is_over() && !queue.is_stopped());
        assert_eq!(taken(&queue, 0), "the end");
        // A wait ends at once when no work can come.
        queue.wait(Duration::from_secs(3600));
    }

    #[test]
    fn a_run_that_is_stopped_is_over_whatever_is_left() {
        let queue = TaskQueue::new(false, 24);
        queue.add(Vec::new(), Vec::new(), vec![file("a")]);
        assert!(!queue.is_stopped() && !queue.is_over());
        queue.stop();
        assert!(queue.is_stopped() && queue.is_over());
        assert_eq!(taken(&queue, 1), "the end");
    }

    #[test]
    fn whatever_no_lane_has_taken_is_waiting() {
        let waits = |queue: &TaskQueue| queue.has_waiting();
        let queue = TaskQueue::new(false, 24);
        assert!(!waits(&queue));
        queue.add(vec![directory("d", TargetState::Absent)], Vec::new(), Vec::new());
        assert!(waits(&queue));
        taken(&queue, 0);
        queue.add(Vec::new(), vec![pack(&node("d", None))], Vec::new());
        assert!(waits(&queue));
        taken(&queue, 0);
        assert!(!waits(&queue));
        queue.add(Vec::new(), Vec::new(), vec![file("a")]);
        assert!(waits(&queue));
        taken(&queue, 0);
        let file = file("a");
        queue.activate(file.clone());
        assert!(waits(&queue));
        while file.take_chunk().is_some() {}
        assert!(!waits(&queue));
    }

    #[test]
    fn a_file_without_chunks_left_is_taken_by_nobody() {
        let queue = TaskQueue::new(false, 24);
        let (empty, other) = (file("a"), file("b"));
        queue.add(Vec::new(), Vec::new(), vec![empty.clone(), other.clone()]);
        queue.start();
        assert_eq!([(); 2].map(|()| taken(&queue, 1)), ["begin a", "begin b"]);
        while empty.take_chunk().is_some() {}
        queue.activate(empty);
        assert_eq!(taken(&queue, 1), "nothing");
        queue.activate(other);
        assert_eq!(taken(&queue, 1), "chunks of b");
    }

    #[test]
    fn no_more_drafts_are_open_than_the_target_has_descriptors_for() {
        let queue = TaskQueue::new(false, 24);
        queue.add(Vec::new(), Vec::new(), (0..=DRAFTS_MAX).map(|_| file("a")).collect());
        queue.start();
        (0..DRAFTS_MAX).for_each(|_| assert_eq!(taken(&queue, 1), "begin a"));
        assert_eq!(taken(&queue, 1), "nothing");
        queue.draft_done();
        assert_eq!(taken(&queue, 1), "begin a");
    }

    #[test]
    fn scanning_pauses_while_much_waits() {
        let queue = TaskQueue::new(false, 24);
        let packs = |count| (0..count).map(|_| pack(&node("d", None))).collect();
        queue.add(vec![directory("d", TargetState::Absent)], packs(PACKS_MAX), Vec::new());
        assert_eq!(taken(&queue, 0), "pack");
        queue.add(Vec::new(), Vec::new(), (0..FILES_MAX).map(|_| file("a")).collect());
        // With this many large files the first lane takes one of them as well.
        assert_eq!(taken(&queue, 0), "begin a");
        assert_eq!((1..PACKS_MAX).filter(|_| taken(&queue, 0) == "pack").count(), PACKS_MAX - 1);
        assert_eq!(taken(&queue, 0), "directory d");
    }

    #[test]
    fn a_directory_of_which_nothing_is_set_is_only_counted() {
        let (queue, counters) = (TaskQueue::new(false, 24), LaneCounters::default());
        let path = EntryPath::new("d").unwrap();
        let place = (vec![Origin::whole(0, path.clone())], path);
        let above =
            DirectoryNode::new(place.clone(), (None, CountedDirectory::Not), None, TouchedAttributes::Yes);
        let node = DirectoryNode::new(
            place,
            (None, CountedDirectory::Created),
            Some(above.clone()),
            TouchedAttributes::Yes,
        );
        queue.add(vec![DirectoryTask::new(node.clone(), TargetState::Absent)], Vec::new(), Vec::new());
        queue.start();
        queue.release(&above, &counters);
        queue.release(&node, &counters);
        assert!(queue.take_finished().is_empty());
        assert_eq!(counters.entries_created.get(), 1);
        queue.complete(1);
        assert!(queue.is_over());
        // A directory with attributes to set keeps the run going.
        queue.release(&self::node("e", None), &counters);
        assert!(!queue.is_over() && queue.take_finished().len() == 1);
    }
}
