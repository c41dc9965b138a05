//! The loop of one lane: takes tasks, reads from the source, passes data to the target, and counts answers.

mod answers;
mod begin;
mod case;
mod chunks;
mod clones;
mod compare;
mod delta;
mod directories;
mod examine;
mod files;
mod further_names;
mod hashes;
mod in_pages;
mod limits;
mod moved;
mod packed_links;
mod packs;
mod ranges;
mod recheck;
mod same_inode;
mod shares;
mod slices;
mod source;
mod sparse;
mod whole_file;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::examinations::{Examination, Examinations, ExaminedEntry};
use super::join::{AttributeChange, ChangedEntry, Join, JoinResults, UnclearEntry, at_source, at_target};
use super::large::{ChunkProgress, IfDifferent, LargeFile, LargeFileMode, SINGLE_LANE_CHUNKS};
use super::links::LinkedName;
use super::node::{
    CountedDirectory, DirectoryNode, DirectoryProof, DirectoryTask, Origin, OriginListing, Prefetched,
    PrefetchedDirectory, SingleEntry, TargetState, TouchedAttributes,
};
use super::pending_entries::{PageOrder, PendingEntries};
use super::queue::{LaneTask, NextTask, PackResend, PackTask};
use super::room::Lack;
use super::shared::{EngineState, fail};
use crate::checksum::crc64;
use crate::compression::{CompressionStats, Levels};
use crate::counters::{LaneCounters, LaneStage, WorkTime};
use crate::digest::{Digest, Forest, chunk_value, piece_value};
use crate::endpoint::{
    Change, Check, Completion, CompletionWait, Detail, DraftAttributes, DraftId, DraftKind, DraftParameters,
    Earlier, EarlierWork, FetchedPack, ListingPage, Pick, Picks, PieceBuffer, SourceFile, SourceLane,
    SourceOp, SourceOutcome, TargetLane, TargetOp, TargetOutcome, Ticket, failure,
};
use crate::entry::{Attributes, EntryKind, EntryMetadata, Inode};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EntryAction, Event, Failure};
use crate::extended::{Classes, Extended, ExtendedAsk};
use crate::extent::{CHUNK_BYTES, Extent, PIECE_BYTES, PIECES_PER_CHUNK, UNKNOWN_BYTES};
use crate::job::{JobItem, Mode, Removal};
use crate::listing::{DirectoryListing, Listing};
use crate::losses::{Loss, LossKind};
use crate::path::EntryPath;
use crate::tag::{PieceTags, Tagger};
use source::{ChunkCursor, Source};

/// The number of operations in progress at which the lane waits for answers.
const UNDER_WAY_MAX: usize = 192;
/// The time that an idle lane waits before it looks for work again.
const IDLE_WAIT: Duration = Duration::from_millis(20);
/// The interval at which a resting lane checks if the run is over.
const REST_AT_ONCE: Duration = Duration::from_millis(100);
/// The time that a lane with outstanding answers waits before it looks for other work.
const ANSWER_WAIT: Duration = Duration::from_millis(2);
/// The maximum number of changes in one operation.
pub(super) const CHANGES_AT_ONCE: usize = 256;
/// The number of bytes of extended attributes from which on an operation takes no more changes.
const CHANGES_BYTES_TARGET: usize = 1 << 20;

/// The interval at which a lane that waits for answers checks if the run was stopped.
const FULL_WAIT: Duration = Duration::from_millis(100);
/// The interval at which externally measured times are read, which takes some system calls.
const TIMES_EVERY_NS: u64 = 100_000_000;
/// The interval at which a lane held back by limits checks for a stop or changed limits.
const HELD_AT_ONCE: Duration = Duration::from_millis(50);
/// The purpose of an operation in progress.
enum PendingPurpose {
    Listing {
        tasks: Vec<(DirectoryTask, Vec<OriginListing>)>,
    },
    /// The next page of a directory that both sides list in order.
    Portion {
        node: Arc<DirectoryNode>,
        sides: Box<PendingEntries>,
    },
    Stored {
        task: PackTask,
        packed: Vec<u32>,
        content_bytes: u64,
    },
    /// A pack that the store copies.
    CopiedInStore {
        task: PackTask,
        packed: Vec<u32>,
    },
    Begun(Arc<LargeFile>),
    BegunAlone(Arc<LargeFile>),
    /// A draft is abandoned, to be begun again.
    Unbegun(Arc<LargeFile>),
    BegunToClone(Arc<LargeFile>),
    Cloned(Arc<LargeFile>),
    /// A draft is left to other runs.
    DraftShared(Arc<LargeFile>),
    Chunk {
        file: Arc<LargeFile>,
        extent: Extent,
        /// The number of its bytes that were written, excluding zeros and kept data.
        written_bytes: u64,
        /// The number of earlier attempts.
        attempt: u8,
        /// A digest over the values of the content that was read.
        seal: Digest,
    },
    /// An answer that [`Worker::told`] or [`Worker::ask_target`] waits for.
    Told,
    Finished(Arc<LargeFile>),
    Abandoned(Arc<LargeFile>),
    /// Attributes of entries in a directory.
    Applied {
        entries: Vec<ChangedEntry>,
        node: Arc<DirectoryNode>,
    },
    /// The attributes of an entry that listings did not show. `number` counts within the examination.
    Examined {
        examination: u64,
        number: usize,
    },
    /// The target's digests of entries that are compared.
    Digested {
        task: PackTask,
    },
    /// New hard links to existing files of the target.
    Linked {
        followers: Vec<LinkedName>,
    },
    /// Entries of a directory that only the target had.
    Removed {
        paths: Vec<EntryPath>,
        node: Arc<DirectoryNode>,
    },
    /// Attributes of complete directories, or their removal.
    Settled {
        nodes: Vec<Arc<DirectoryNode>>,
    },
    Ignored,
}

/// One working lane.
pub(super) struct Worker<'a> {
    shared: &'a EngineState<'a>,
    index: usize,
    source: Source,
    target: Box<dyn TargetLane>,
    counters: &'a LaneCounters,
    under_way: HashMap<Ticket, PendingPurpose>,
    /// The target's values, by the ticket of the request.
    told: HashMap<Ticket, Result<TargetOutcome>>,
    /// The source's digests of entries that are compared, by the ticket of the target's request.
    digests: HashMap<Ticket, Vec<Result<Digest>>>,
    /// Entries whose attributes at the target are awaited.
    examinations: Examinations,
    next_ticket: Ticket,
    next_draft: DraftId,
    /// The time at which the current stage began.
    mark_ns: u64,
    /// The time at which externally measured times were last read.
    times_ns: u64,
    /// The time that the thread spent on its work.
    near: WorkTime,
    /// The number of the lane's last recorded choice of a compression level, and the levels used by then.
    choices: (u32, Levels),
    wants: (bool, bool),
}

impl<'a> Worker<'a> {
    pub fn new(
        shared: &'a EngineState<'a>,
        index: usize,
        source: Box<dyn SourceLane>,
        target: Box<dyn TargetLane>,
    ) -> Self {
        let now_ns = shared.setup.clock.now_ns();
        shared.record.lane_opened(now_ns);
        let able = shared.setup.target.capabilities();
        let source = Source::new(source, shared.setup.source.capabilities().reads_at_once);
        Self {
            shared,
            index,
            source,
            target,
            counters: &shared.record.lanes[index],
            under_way: HashMap::new(),
            told: HashMap::new(),
            digests: HashMap::new(),
            examinations: Examinations::default(),
            next_ticket: 0,
            // Lanes use separate ranges of draft IDs.
            next_draft: (index as DraftId) << 48,
            mark_ns: now_ns,
            times_ns: now_ns,
            near: WorkTime::default(),
            choices: Default::default(),
            wants: (able.wants_checksum, able.wants_digest),
        }
    }

    /// Works until everything is done or the run is stopped.
    pub fn work(&mut self) -> Result<()> {
        loop {
            self.answers()?;
            self.examine_more()?;
            if self.index == 0 {
                self.finish_directories()?;
            }
            if !self.shared.gate.lets(self.index) {
                if self.rest()? {
                    continue;
                }
                break;
            }
            if self.under_way.len() >= UNDER_WAY_MAX {
                self.wait_for_answer(FULL_WAIT)?;
                if self.shared.queue.is_stopped() {
                    break;
                }
                continue;
            }
            match self.shared.queue.take(self.index) {
                NextTask::Task(task) => {
                    if matches!(task, LaneTask::Directory(_) | LaneTask::Directories(_)) {
                        self.shared.give_shares();
                    }
                    self.task(task)?;
                }
                NextTask::Nothing if self.under_way.is_empty() => {
                    self.enter(LaneStage::Idle);
                    self.shared.queue.wait(IDLE_WAIT);
                    self.leave(LaneStage::Idle);
                }
                NextTask::Nothing => self.wait_for_answer(ANSWER_WAIT)?,
                NextTask::Ended => break,
            }
        }
        self.target.flush();
        self.take_times();
        Ok(())
    }

    /// Takes no new task for a while, because fewer lanes are to work. Returns false if the run is over.
    fn rest(&mut self) -> Result<bool> {
        if self.under_way.is_empty() {
            self.target.flush();
            self.enter(LaneStage::Idle);
            self.shared.gate.rest(self.index, REST_AT_ONCE);
            self.leave(LaneStage::Idle);
        } else {
            self.wait_for_answer(ANSWER_WAIT)?;
        }
        Ok(!self.shared.queue.is_over())
    }

    /// Pauses within a chunk while fewer lanes are to work and the others have enough to do. On a slow link a chunk
    /// takes long, and the rest of it can wait until the end.
    fn rest_within(&mut self) -> Result<()> {
        while !self.shared.gate.lets(self.index) && self.shared.queue.has_waiting() {
            if !self.rest()? {
                break;
            }
        }
        Ok(())
    }

    /// Flushes the target to stable storage, as the last step of a run that was not stopped. A dry run compares the
    /// plan with the free space instead.
    pub fn settle(&mut self) -> Result<()> {
        let job = self.shared.setup.job;
        // Other kinds of drafts need no new space and are flushed when they are finished.
        let only_content = job.items.iter().all(|item| item.place != DraftKind::File);
        if job.dry_run && !only_content && !self.shared.queue.is_stopped() {
            return self.foresee_room();
        }
        let writes = !job.dry_run && !only_content && !job.mode.only_reads();
        if self.shared.queue.is_stopped() || !writes {
            return Ok(());
        }
        let is_last = self.shared.setup.exchange.is_none_or(|exchange| exchange.completes());
        let all =
            is_last && self.shared.filter.is_none() && !job.one_file_system && job.removal != Removal::Remove;
        let barrier = TargetOp::Barrier { durable: job.durable, whole: all && self.shared.record.is_clean() };
        self.enter(LaneStage::Sync);
        let TargetOutcome::Done = self.ask_target(barrier)? else { return Err(unexpected()) };
        self.leave(LaneStage::Sync);
        Ok(())
    }

    /// Reports at the end of a dry run if the target lacks space for the plan.
    fn foresee_room(&self) -> Result<()> {
        let setup = self.shared.setup;
        if setup.target.capabilities().read_only && self.shared.record.plans_changes() {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "planning",
                "the target is mounted for reading only",
            ));
        }
        self.check_room(true)
    }

    /// Ends the run if the target lacks space for what was scanned, and says so if it may.
    pub(super) fn check_room(&self, all_scanned: bool) -> Result<()> {
        let (setup, room) = (self.shared.setup, self.shared.record.room());
        if setup.job.mode.only_reads() || setup.job.removal == Removal::Remove {
            return Ok(());
        }
        match room.lack(setup.target.capabilities(), all_scanned) {
            Some(Lack::Certain(error)) => {
                // Not an error of the entry at hand, which would only be counted.
                self.shared.stop(error);
                Err(stopped())
            }
            Some(Lack::Possible(words)) if room.is_told_first() => {
                setup.observer.event(Event::Notice { words });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn task(&mut self, task: LaneTask) -> Result<()> {
        match task {
            LaneTask::Directory(task) => self.directory(task),
            LaneTask::Directories(tasks) => self.directories(tasks),
            LaneTask::Pack(task) => self.pack_in_parts(task),
            LaneTask::Begin(file) => self.begin_file(file),
            LaneTask::Chunks(file) => {
                let moved = self.move_chunks(&file);
                file.leave();
                moved
            }
        }
    }

    /// Transfers or compares the entries of a pack, at most as many at once as limits allow.
    fn pack_in_parts(&mut self, task: PackTask) -> Result<()> {
        let most = usize::try_from(self.shared.pacer.operations_at_once()).unwrap_or(usize::MAX);
        if task.picks.entries.len() <= most {
            return self.part(task);
        }
        for part in self.parts(&task, most) {
            self.part(part)?;
            self.answers()?;
        }
        Ok(())
    }

    fn part(&mut self, task: PackTask) -> Result<()> {
        if task.compare.is_some() { self.compare_pack(task) } else { self.pack(&task) }
    }

    /// Submits an operation to the target, and handles answers while its queue is full.
    fn submit(&mut self, operation: TargetOp, pending: PendingPurpose) -> Result<Ticket> {
        self.hold_target(&operation, &pending)?;
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        if !matches!(pending, PendingPurpose::Ignored) {
            self.under_way.insert(ticket, pending);
        }
        let mut operation = operation;
        self.enter(LaneStage::Send);
        loop {
            self.shared.check_lease(&operation)?;
            match self.target.submit(ticket, operation) {
                Ok(()) => break,
                Err(back) => operation = back,
            }
            self.leave(LaneStage::Send);
            self.wait_while_full()?;
            self.enter(LaneStage::Send);
        }
        self.leave(LaneStage::Send);
        Ok(ticket)
    }

    /// Handles the answers that have arrived.
    fn answers(&mut self) -> Result<()> {
        while let Some(completion) = self.target.reap(CompletionWait::Now) {
            self.answer(completion)?;
        }
        Ok(())
    }

    fn wait_for_answer(&mut self, limit: Duration) -> Result<()> {
        self.target.flush();
        self.enter(LaneStage::Wait);
        let completion = self.target.reap(CompletionWait::For(limit));
        self.leave(LaneStage::Wait);
        match completion {
            Some(completion) => self.answer(completion),
            None => Ok(()),
        }
    }

    /// Waits for an answer of a target that accepts no further operation.
    fn wait_while_full(&mut self) -> Result<()> {
        self.wait_for_answer(FULL_WAIT)?;
        if self.shared.queue.is_stopped() {
            return Err(stopped());
        }
        Ok(())
    }

    /// Submits one operation to the target and waits for its result. Other answers that arrive first are handled.
    fn ask_target(&mut self, mut operation: TargetOp) -> Result<TargetOutcome> {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.shared.check_lease(&operation)?;
        self.under_way.insert(ticket, PendingPurpose::Told);
        while let Err(back) = self.target.submit(ticket, operation) {
            operation = back;
            self.wait_while_full()?;
        }
        self.target.flush();
        loop {
            // The handling of another answer may ask as well, and wait for its own result.
            if let Some(result) = self.told.remove(&ticket) {
                return result;
            }
            let completion = self.target.reap(CompletionWait::Forever).ok_or_else(unexpected)?;
            self.answer(completion)?;
        }
    }

    fn enter(&mut self, _stage: LaneStage) {
        self.mark_ns = self.shared.setup.clock.now_ns();
    }

    /// Adds the time since the last mark to `stage`.
    fn leave(&mut self, stage: LaneStage) {
        let now_ns = self.shared.setup.clock.now_ns();
        self.counters.stage_ns[stage as usize].add(now_ns.saturating_sub(self.mark_ns));
        self.mark_ns = now_ns;
        if now_ns.saturating_sub(self.times_ns) >= TIMES_EVERY_NS {
            self.take_times();
        }
    }

    /// Reads the times measured for this thread and by the remote end.
    fn take_times(&mut self) {
        self.times_ns = self.mark_ns;
        let near = self.near.take(self.shared.setup.clock.thread_time(), self.counters.worked_ns());
        let beyond = self.target.beyond();
        self.counters.set_times(near, beyond);
        self.look_at_choices(&beyond.compressed);
    }

    /// Reports the lane's choice of compression if it is new.
    fn look_at_choices(&mut self, compressed: &CompressionStats) {
        let news = (compressed.choice.map_or(0, |choice| choice.number), compressed.levels);
        if std::mem::replace(&mut self.choices, news) == news {
            return;
        }
        if let Some(choice) = self.shared.record.compressed(compressed, self.times_ns) {
            let (choice, reason) = choice.words();
            self.shared.setup.observer.event(Event::Decision { choice, reason });
        }
    }
}

/// Checks that failures are in ascending order, each reported once, and within the request.
fn check_indices(failures: &[(u32, Error)], count: usize) -> Result<()> {
    let ascending = failures.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let within = failures.last().is_none_or(|(last, _)| (*last as usize) < count);
    if ascending && within { Ok(()) } else { Err(unexpected()) }
}

/// Groups changes into operations of limited size, each with the values that belong to its changes.
fn batches<T>(changes: impl IntoIterator<Item = (T, Change)>) -> Vec<(Vec<T>, Vec<Change>)> {
    let mut batches = Vec::new();
    let (mut stand, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (one, change) in changes {
        let more = change.extended().map_or(0, |extended| extended.as_bytes().len());
        if batch.len() >= CHANGES_AT_ONCE || (!batch.is_empty() && bytes + more > CHANGES_BYTES_TARGET) {
            batches.push((std::mem::take(&mut stand), std::mem::take(&mut batch)));
            bytes = 0;
        }
        bytes += more;
        stand.push(one);
        batch.push(change);
    }
    if !batch.is_empty() {
        batches.push((stand, batch));
    }
    batches
}

fn draft_numbers(next: &mut DraftId) -> impl FnMut() -> DraftId + '_ {
    move || {
        *next += 1;
        *next
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "copying", "stopped as asked")
}

fn not_there() -> Error {
    Error::new(ErrorKind::NotFound, "reading", "there is no such file or directory")
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, "copying", "an endpoint sent an unexpected answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_no_operation_can_have_are_no_answer() {
        let failures = |indices: &[u32]| -> Vec<(u32, Error)> {
            indices.iter().map(|index| (*index, not_there())).collect()
        };
        for sound in [&[][..], &[0], &[1], &[0, 1, 2]] {
            assert!(check_indices(&failures(sound), 3).is_ok(), "{sound:?}");
        }
        for wrong in [&[3][..], &[1, 1], &[2, 0], &[0, 1, 2, 3]] {
            assert!(check_indices(&failures(wrong), 3).is_err(), "{wrong:?}");
        }
        assert!(check_indices(&[], 0).is_ok());
    }

    /// Returns a change with this many extended attributes; 32 of them exceed the size of an operation.
    fn change(attributes: usize) -> Change {
        let value = vec![7; CHANGES_BYTES_TARGET / 32];
        let mut all: Vec<_> =
            (0..attributes).map(|name| (format!("user.{name}").into_bytes(), value.clone())).collect();
        let extended = (attributes > 0).then(|| Extended::new(Classes::USER, &mut all).unwrap());
        let attributes = EntryMetadata::new(EntryKind::Directory).attributes();
        Change::Directory { path: EntryPath::root(), attributes, extended }
    }

    fn batch_sizes(changes: impl IntoIterator<Item = Change>) -> Vec<usize> {
        let batches = batches(changes.into_iter().enumerate());
        let numbers = batches.iter().flat_map(|(numbers, _)| numbers.iter().copied());
        assert!(numbers.enumerate().all(|(expected, number)| expected == number), "each once and in order");
        batches
            .iter()
            .map(|(numbers, changes)| {
                assert_eq!(numbers.len(), changes.len());
                changes.len()
            })
            .collect()
    }

    #[test]
    fn changes_go_together_as_far_as_an_operation_takes_them() {
        assert_eq!(batch_sizes([]), [0; 0]);
        let many = (0..=CHANGES_AT_ONCE).map(|_| change(0));
        assert_eq!(batch_sizes(many), [CHANGES_AT_ONCE, 1]);
        assert_eq!(batch_sizes([16, 16, 1, 0].map(change)), [1, 3]);
        assert_eq!(batch_sizes([0, 15, 15, 1].map(change)), [4]);
        assert_eq!(batch_sizes([40, 0].map(change)), [1, 1]);
    }

    #[test]
    fn no_two_drafts_have_one_number() {
        let mut next = 5;
        let numbers = {
            let mut number = draft_numbers(&mut next);
            [number(), number()]
        };
        assert_eq!((numbers, next), ([6, 7], 7));
    }
}
