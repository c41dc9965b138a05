//! The loop of one lane: take a task, read from the source, hand it to the target, count answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Shared;
use super::join::{Found, Join, fail};
use super::large::{LargeFile, Progress, SINGLE_LANE_CHUNKS};
use super::node::{DirectoryTask, Node, TargetState};
use super::queue::{PackTask, Taken, Task};
use crate::checksum::crc64;
use crate::counters::{LaneCounters, Stage};
use crate::digest::{Digest, piece_value};
use crate::endpoint::{
    Change, Check, Completion, DraftId, Fetched, Lane, Loss, LossKind, Operation, Outcome, Picks, Ticket,
    Wait, failure,
};
use crate::entry::{Kind, Metadata};
use crate::error::{Error, ErrorKind, Result};
use crate::extent::{Extent, PIECES_PER_CHUNK};
use crate::job::Item;
use crate::listing::{DirectoryListing, Listing};
use crate::path::EntryPath;

/// So many operations may be under way before the lane waits for answers.
const UNDER_WAY_MAX: usize = 192;
/// How long an idle lane waits before it looks for work again.
const IDLE_WAIT: Duration = Duration::from_millis(20);
/// How long a lane with answers outstanding waits before it looks for other work.
const ANSWER_WAIT: Duration = Duration::from_millis(2);
/// How many entries the target may send along with directories that were asked for: enough that
/// depth costs few round trips, and so few that both sides are soon at work.
const LIST_BUDGET: u32 = 2 * 1024;
/// How many directories get their attributes with one operation.
const CHANGES_AT_ONCE: usize = 256;

/// What an operation under way was for.
enum Pending {
    Listing { tasks: Vec<(DirectoryTask, Arc<Listing>)> },
    Stored { node: Arc<Node>, picks: Arc<Picks>, packed: Vec<u32>, content_bytes: u64 },
    Begun(Arc<LargeFile>),
    BegunAlone(Arc<LargeFile>),
    BegunToClone(Arc<LargeFile>),
    Cloned(Arc<LargeFile>),
    Chunk { file: Arc<LargeFile>, extent: Extent },
    Finished(Arc<LargeFile>),
    Applied { changes: Vec<Change>, node: Option<Arc<Node>> },
    Ignored,
}

/// One lane at work.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    index: usize,
    source: Box<dyn Lane>,
    target: Box<dyn Lane>,
    counters: &'a LaneCounters,
    under_way: HashMap<Ticket, Pending>,
    next_ticket: Ticket,
    next_draft: DraftId,
    /// When the current stage began.
    mark_ns: u64,
    wants: (bool, bool),
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared<'a>, index: usize, source: Box<dyn Lane>, target: Box<dyn Lane>) -> Self {
        let now_ns = shared.setup.clock.now_ns();
        shared.record.lane_opened(now_ns);
        let able = shared.setup.target.capabilities();
        Self {
            shared,
            index,
            source,
            target,
            counters: &shared.record.lanes[index],
            under_way: HashMap::new(),
            next_ticket: 0,
            // Lanes give out numbers from ranges of their own.
            next_draft: (index as DraftId) << 48,
            mark_ns: now_ns,
            wants: (able.wants_checksum, able.wants_digest || shared.setup.job.digest),
        }
    }

    /// Looks at what the user named, and puts the first tasks into the queue.
    pub fn begin(&mut self) -> Result<()> {
        let job = self.shared.setup.job;
        if let Some(path) = job.make_directory.as_ref().filter(|_| !job.dry_run) {
            let changes = vec![Change::MakeDirectory { path: path.clone(), mode: 0o755 }];
            let Outcome::Stored { failures, .. } = self.ask_target(Operation::Apply { changes })? else {
                return Err(unexpected());
            };
            if let Some((_, error)) = failures.into_iter().next() {
                return Err(error);
            }
        }
        for item in &job.items {
            self.begin_item(item)?;
        }
        self.shared.queue.start();
        if self.shared.queue.scan_done() {
            self.shared.record.scan_ended(self.shared.setup.clock.now_ns());
        }
        Ok(())
    }

    fn begin_item(&mut self, item: &Item) -> Result<()> {
        let inspect = Operation::Inspect { root: item.root, path: item.source.clone() };
        let Outcome::Inspected(Some(metadata)) = self.ask_source(inspect)? else {
            let error = Error::new(ErrorKind::NotFound, "reading", "there is no such file or directory");
            fail(self.shared, self.counters, failure(&item.source, error));
            return Ok(());
        };
        let there = match self.ask_target(Operation::Inspect { root: 0, path: item.target.clone() })? {
            Outcome::Inspected(there) => there.filter(|_| !self.shared.setup.job.device),
            _ => return Err(unexpected()),
        };
        if metadata.kind == Kind::Directory && item.source.is_root() {
            return self.begin_contents(item, &metadata, there.as_ref());
        }
        let (source_parent, name) = item.source.split_last().ok_or_else(unexpected)?;
        let (target_parent, target_name) = item.target.split_last().ok_or_else(unexpected)?;
        let mut listing = Listing::with_capacity(1);
        listing.push(name, metadata)?;
        let listing = Arc::new(listing);
        let node = Node::new((item.root, source_parent, target_parent), None, None, false);
        let found = {
            let mut drafts = draft_numbers(&mut self.next_draft);
            let mut nothing = HashMap::new();
            let mut join = Join::new(self.shared, self.counters, &node, &mut nothing, &mut drafts);
            join.target_name = Some(target_name);
            join.entry(&listing, 0, there.as_ref());
            join.close_pack(&listing);
            join.found
        };
        self.add(&node, found)?;
        self.shared.queue.release(&node);
        Ok(())
    }

    /// The contents of a directory go into another one.
    fn begin_contents(&mut self, item: &Item, metadata: &Metadata, there: Option<&Metadata>) -> Result<()> {
        self.counters.entries_scanned.add(1);
        let (state, touched) = match there.map(|there| there.kind) {
            Some(Kind::Directory) => {
                (TargetState::Unknown, there.map(Metadata::attributes) != Some(metadata.attributes()))
            }
            Some(Kind::Symlink) | None => (TargetState::Absent, true),
            Some(kind) => {
                let words = format!("{} is in the place of the directory", kind.words());
                return Err(Error::new(ErrorKind::Conflict, "copying to", words).at(&item.target));
            }
        };
        let counter =
            if there.is_none() { &self.counters.entries_created } else { &self.counters.entries_unchanged };
        counter.add(1);
        let place = (item.root, item.source.clone(), item.target.clone());
        let node = Node::new(place, Some(metadata.attributes()), None, touched);
        self.shared.queue.add(vec![DirectoryTask { node, target: state }], Vec::new(), Vec::new());
        Ok(())
    }

    /// Works until everything is done or the run is stopped.
    pub fn work(&mut self) -> Result<()> {
        loop {
            self.answers()?;
            if self.index == 0 {
                self.finish_directories()?;
            }
            if self.under_way.len() >= UNDER_WAY_MAX {
                self.wait_for_answer(Duration::from_millis(100))?;
                continue;
            }
            match self.shared.queue.take(self.index) {
                Taken::Task(task) => self.task(task)?,
                Taken::Nothing if self.under_way.is_empty() => {
                    self.enter(Stage::Idle);
                    self.shared.queue.wait(IDLE_WAIT);
                    self.leave(Stage::Idle);
                }
                Taken::Nothing => self.wait_for_answer(ANSWER_WAIT)?,
                Taken::Ended => break,
            }
        }
        self.target.flush();
        Ok(())
    }

    /// Brings the target to stable storage: the last thing of a run that was not stopped.
    pub fn settle(&mut self) -> Result<()> {
        let job = self.shared.setup.job;
        if self.shared.queue.is_stopped() || job.dry_run || !job.durable || job.device {
            return Ok(());
        }
        self.enter(Stage::Sync);
        let Outcome::Done = self.ask_target(Operation::Barrier)? else { return Err(unexpected()) };
        self.leave(Stage::Sync);
        Ok(())
    }

    fn task(&mut self, task: Task) -> Result<()> {
        match task {
            Task::Directory(task) => self.directory(task),
            Task::Directories(tasks) => self.directories(tasks),
            Task::Pack(task) => self.pack(&task),
            Task::Begin(file) => self.begin_file(file),
            Task::Chunks(file) => self.chunks(&file),
        }
    }

    // Directories

    fn directory(&mut self, task: DirectoryTask) -> Result<()> {
        if let Some(listing) = self.scan(&task.node)? {
            let target = match task.target {
                TargetState::Listed(target) => Some(target),
                _ => None,
            };
            self.join(&task.node, &listing, target.as_ref(), &mut HashMap::new())?;
        }
        self.directories_done(1);
        Ok(())
    }

    fn directories(&mut self, tasks: Vec<DirectoryTask>) -> Result<()> {
        let mut scanned = Vec::with_capacity(tasks.len());
        for task in tasks {
            match self.scan(&task.node)? {
                Some(listing) => scanned.push((task, listing)),
                None => self.directories_done(1),
            }
        }
        if scanned.is_empty() {
            return Ok(());
        }
        let directories = scanned.iter().map(|(task, _)| task.node.target.clone()).collect();
        let budget = if self.shared.setup.target.capabilities().remote { LIST_BUDGET } else { 0 };
        let list = Operation::List { root: 0, directories, budget };
        self.submit(list, Pending::Listing { tasks: scanned })
    }

    /// Lists a directory of the source. `None`: it failed, which has been recorded.
    fn scan(&mut self, node: &Arc<Node>) -> Result<Option<Arc<Listing>>> {
        self.enter(Stage::Scan);
        let list = Operation::List { root: node.root, directories: vec![node.source.clone()], budget: 0 };
        let outcome = self.ask_source(list)?;
        self.leave(Stage::Scan);
        let Outcome::Listed(mut listed) = outcome else { return Err(unexpected()) };
        match listed.pop().ok_or_else(unexpected)?.result {
            Ok(listing) => Ok(Some(Arc::new(listing))),
            Err(error) => {
                fail(self.shared, self.counters, failure(&node.source, error));
                self.shared.queue.release(node);
                Ok(None)
            }
        }
    }

    fn listed(
        &mut self,
        tasks: Vec<(DirectoryTask, Arc<Listing>)>,
        listings: Vec<DirectoryListing>,
    ) -> Result<()> {
        let mut listings = listings.into_iter();
        let asked: Vec<_> = listings.by_ref().take(tasks.len()).collect();
        if asked.len() != tasks.len() {
            return Err(unexpected());
        }
        let mut prefetched: HashMap<EntryPath, Listing> =
            listings.filter_map(|listing| Some((listing.path, listing.result.ok()?))).collect();
        let count = tasks.len() as u64;
        for ((task, listing), target) in tasks.into_iter().zip(asked) {
            match target.result {
                Ok(target) => self.join(&task.node, &listing, Some(&target), &mut prefetched)?,
                // It went away after its parent was listed.
                Err(error) if error.kind == ErrorKind::NotFound => {
                    task.node.touch();
                    self.join(&task.node, &listing, None, &mut prefetched)?;
                }
                Err(error) => {
                    fail(self.shared, self.counters, failure(&task.node.target, error));
                    self.shared.queue.release(&task.node);
                }
            }
        }
        self.directories_done(count);
        Ok(())
    }

    fn join(
        &mut self,
        node: &Arc<Node>,
        listing: &Arc<Listing>,
        target: Option<&Listing>,
        prefetched: &mut HashMap<EntryPath, Listing>,
    ) -> Result<()> {
        self.enter(Stage::Scan);
        let found = {
            let mut drafts = draft_numbers(&mut self.next_draft);
            Join::new(self.shared, self.counters, node, prefetched, &mut drafts).run(listing, target)
        };
        self.leave(Stage::Scan);
        self.add(node, found)?;
        self.shared.queue.release(node);
        Ok(())
    }

    fn add(&mut self, node: &Arc<Node>, found: Found) -> Result<()> {
        let Found { directories, packs, files, changes } = found;
        self.shared.queue.add(directories, packs, files);
        self.shared.queue.hold(changes.len() as u64);
        for changes in changes.chunks(CHANGES_AT_ONCE) {
            let changes = changes.to_vec();
            let apply = Operation::Apply { changes: changes.clone() };
            self.submit(apply, Pending::Applied { changes, node: Some(node.clone()) })?;
        }
        Ok(())
    }

    fn directories_done(&mut self, count: u64) {
        self.shared.queue.scanned(count);
        if self.shared.queue.scan_done() {
            self.shared.record.scan_ended(self.shared.setup.clock.now_ns());
        }
        self.shared.queue.complete(count);
    }

    /// Sets the attributes of directories below which everything is done. Only lane 0 does, in the
    /// order in which they were finished, so that a directory comes after those it holds.
    fn finish_directories(&mut self) -> Result<()> {
        let finished = self.shared.queue.take_finished();
        if self.shared.setup.job.dry_run {
            self.shared.queue.complete(finished.len() as u64);
            return Ok(());
        }
        for nodes in finished.chunks(CHANGES_AT_ONCE) {
            let changes: Vec<_> = nodes
                .iter()
                .filter_map(|node| {
                    let attributes = node.attributes_to_set()?;
                    Some(Change::Directory { path: node.target.clone(), attributes })
                })
                .collect();
            let apply = Operation::Apply { changes: changes.clone() };
            self.submit(apply, Pending::Applied { changes, node: None })?;
        }
        Ok(())
    }

    // Packs

    fn pack(&mut self, task: &PackTask) -> Result<()> {
        let buffer = self.target.pack_buffer();
        self.enter(Stage::Read);
        let fetched = self.ask_source(Operation::Fetch {
            root: task.node.root,
            directory: task.node.source.clone(),
            target: task.node.target.clone(),
            picks: task.picks.clone(),
            buffer,
        })?;
        self.leave(Stage::Read);
        let Outcome::Fetched(fetched) = fetched else { return Err(unexpected()) };
        let Fetched { pack, packed, failures, losses, content_bytes } = fetched;
        for (pick, error) in failures {
            self.fail_pick(&task.node, &task.picks, pick, error);
        }
        self.shared.record.losses(losses);
        self.counters.source_read_bytes.add(content_bytes);
        if packed.is_empty() {
            self.task_done(&task.node);
            return Ok(());
        }
        let pending =
            Pending::Stored { node: task.node.clone(), picks: task.picks.clone(), packed, content_bytes };
        self.submit(Operation::Store { pack }, pending)
    }

    fn fail_pick(&self, node: &Node, picks: &Picks, pick: u32, error: Error) {
        let name =
            picks.entries.get(pick as usize).map_or(&b""[..], |pick| picks.listing.name(pick.index as usize));
        let path = node.source.join(name).unwrap_or_else(|_| node.source.clone());
        fail(self.shared, self.counters, failure(path, error));
    }

    fn stored(
        &mut self,
        (node, picks, packed, content_bytes): (Arc<Node>, Arc<Picks>, Vec<u32>, u64),
        failures: Vec<(u32, Error)>,
    ) -> Result<()> {
        check_indices(&failures, packed.len())?;
        let mut counts = [0u64; 2];
        for pick in &packed {
            let replaces = picks.entries.get(*pick as usize).is_some_and(|pick| pick.replaces);
            counts[usize::from(replaces)] += 1;
        }
        for (record, error) in failures {
            if let Some(&pick) = packed.get(record as usize) {
                let replaces = picks.entries.get(pick as usize).is_some_and(|pick| pick.replaces);
                counts[usize::from(replaces)] -= 1;
                self.fail_pick(&node, &picks, pick, error);
            }
        }
        self.counters.entries_created.add(counts[0]);
        self.counters.entries_updated.add(counts[1]);
        self.counters.target_written_bytes.add(content_bytes);
        self.task_done(&node);
        Ok(())
    }

    /// A pack or big file is done, one way or the other.
    fn task_done(&self, node: &Arc<Node>) {
        self.shared.queue.release(node);
        self.shared.queue.complete(1);
    }

    // Big files

    fn begin_file(&mut self, file: Arc<LargeFile>) -> Result<()> {
        let begin = Operation::Begin {
            draft: file.draft,
            path: file.target.clone(),
            size_bytes: file.size_bytes(),
            device: file.device,
        };
        self.file_losses(&file);
        if self.may_clone(&file) {
            return self.submit(begin, Pending::BegunToClone(file));
        }
        if file.chunks() > SINGLE_LANE_CHUNKS {
            return self.submit(begin, Pending::Begun(file));
        }
        self.submit(begin, Pending::BegunAlone(file.clone()))?;
        self.move_alone(file)
    }

    /// Moves a file of which this lane has begun the draft, without waiting for any answer.
    fn move_alone(&mut self, file: Arc<LargeFile>) -> Result<()> {
        if file.chunks() == 0 {
            return self.end_file(file, Progress::Finish);
        }
        self.chunks(&file)
    }

    // Blocks shared with the source instead of being copied

    fn may_clone(&self, file: &LargeFile) -> bool {
        let setup = self.shared.setup;
        setup.job.clone
            && setup.target.capabilities().clones
            && setup.source.capabilities().clones
            && file.chunks() > 0
            && !file.device
            && !self.shared.cannot_clone.load(Relaxed)
    }

    fn clone_file(&mut self, file: Arc<LargeFile>) -> Result<()> {
        match self.ask_source(Operation::Open { file: file.source.clone() }) {
            Ok(Outcome::Opened(from)) => {
                self.submit(Operation::Clone { draft: file.draft, from }, Pending::Cloned(file))
            }
            Ok(_) => Err(unexpected()),
            Err(error) => self.fail_file(&file, error, 0),
        }
    }

    fn cloned(&mut self, file: Arc<LargeFile>) -> Result<()> {
        self.counters.cloned_bytes.add(file.size_bytes());
        self.counters.target_written_bytes.add(file.size_bytes());
        while file.take_chunk().is_some() {}
        let progress = file.count_done(file.chunks());
        self.end_file(file, progress)
    }

    /// What cannot be shared is copied, and nothing else is tried to be shared.
    fn not_cloned(&mut self, file: Arc<LargeFile>) -> Result<()> {
        self.shared.cannot_clone.store(true, Relaxed);
        if file.chunks() > SINGLE_LANE_CHUNKS {
            self.shared.queue.activate(file);
            return Ok(());
        }
        self.move_alone(file)
    }

    fn file_losses(&self, file: &LargeFile) {
        let metadata = &file.source.metadata;
        let lost = [(LossKind::HardLinks, metadata.links > 1), (LossKind::Holes, metadata.sparse)];
        let example = file.source.path.as_bytes();
        let losses = lost.into_iter().filter(|(_, loses)| *loses && !file.device);
        let loss = |(what, _)| Loss { what, count: 1, example: example.to_vec() };
        self.shared.record.losses(losses.map(loss).collect());
    }

    /// Moves chunks until none is left for this lane.
    fn chunks(&mut self, file: &Arc<LargeFile>) -> Result<()> {
        while let Some(extent) = file.take_chunk() {
            if let Err(error) = self.chunk(file, extent) {
                if error.is_fatal() {
                    return Err(error);
                }
                self.fail_file(file, error, 1)?;
            }
            self.answers()?;
            while self.under_way.len() >= UNDER_WAY_MAX {
                self.wait_for_answer(Duration::from_millis(100))?;
            }
            if self.shared.queue.is_stopped() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn chunk(&mut self, file: &Arc<LargeFile>, extent: Extent) -> Result<()> {
        let mut values = [Digest::default(); PIECES_PER_CHUNK as usize];
        let mut count = 0;
        for piece in extent.pieces() {
            let buffer = self.target.piece_buffer();
            self.enter(Stage::Read);
            let read = Operation::Read { file: file.source.clone(), extent: piece, buffer };
            let outcome = self.ask_source(read)?;
            self.leave(Stage::Read);
            let Outcome::Read(buffer) = outcome else { return Err(unexpected()) };
            self.counters.source_read_bytes.add(piece.length);
            let mut check = Check::default();
            if self.wants.1 {
                let value = piece_value(file.size_bytes(), piece.offset, buffer.filled());
                values[count] = value;
                check.value = Some(value);
            }
            if self.wants.0 {
                check.crc = crc64(buffer.filled());
            }
            count += 1;
            self.leave(Stage::Hash);
            let last = piece.end() == extent.end();
            let pending = if last { Pending::Chunk { file: file.clone(), extent } } else { Pending::Ignored };
            let write = Operation::Write {
                draft: file.draft,
                offset: piece.offset,
                buffer,
                check,
                acknowledge: last,
            };
            // Only the last piece is answered; an error of an earlier one is remembered by the draft.
            self.submit(write, pending)?;
        }
        if self.wants.1 {
            file.add_values(extent.offset, &values[..count]);
        }
        Ok(())
    }

    /// A big file cannot be copied; `chunks` of those it handed out are given up here.
    fn fail_file(&mut self, file: &Arc<LargeFile>, error: Error, chunks: u64) -> Result<()> {
        let (first, given_up) = file.fail();
        if first {
            fail(self.shared, self.counters, failure(&file.source.path, error));
        }
        if chunks + given_up == 0 {
            return Ok(());
        }
        let progress = file.count_done(chunks + given_up);
        self.end_file(file.clone(), progress)
    }

    fn end_file(&mut self, file: Arc<LargeFile>, progress: Progress) -> Result<()> {
        match progress {
            Progress::More => Ok(()),
            Progress::Finish => {
                match self.ask_source(Operation::Confirm { file: file.source.clone() }) {
                    Err(error) => {
                        file.fail();
                        fail(self.shared, self.counters, failure(&file.source.path, error));
                        return self.end_file(file, Progress::Abandon);
                    }
                    Ok(Outcome::Stored { losses, .. }) if !file.device => self.shared.record.losses(losses),
                    Ok(_) => {}
                }
                let finish = Operation::Finish {
                    draft: file.draft,
                    attributes: file.source.metadata.attributes(),
                    digest: file.digest(),
                };
                self.submit(finish, Pending::Finished(file))
            }
            Progress::Abandon => {
                self.task_done(&file.node);
                self.submit(Operation::Abandon { draft: file.draft }, Pending::Ignored)
            }
        }
    }

    fn finished(&mut self, file: &Arc<LargeFile>) {
        let counter =
            if file.replaces { &self.counters.entries_updated } else { &self.counters.entries_created };
        counter.add(1);
        // A digest stands for what the user named, not for some large file in it.
        if let (Some(digest), [only]) = (file.digest(), &self.shared.setup.job.items[..])
            && only.source == file.source.path
        {
            self.shared.record.digest(digest);
        }
        self.task_done(&file.node);
    }

    // Operations and answers

    /// Hands an operation to the target, waiting for answers while its queue is full.
    fn submit(&mut self, operation: Operation, pending: Pending) -> Result<()> {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        if !matches!(pending, Pending::Ignored) {
            self.under_way.insert(ticket, pending);
        }
        let mut operation = operation;
        self.enter(Stage::Send);
        loop {
            match self.target.submit(ticket, operation) {
                Ok(()) => break,
                Err(back) => operation = back,
            }
            self.leave(Stage::Send);
            self.wait_for_answer(Duration::from_millis(100))?;
            if self.shared.queue.is_stopped() {
                return Err(Error::new(ErrorKind::Cancelled, "copying", "stopped as asked"));
            }
            self.enter(Stage::Send);
        }
        self.leave(Stage::Send);
        Ok(())
    }

    /// Deals with the answers that are there.
    fn answers(&mut self) -> Result<()> {
        while let Some(completion) = self.target.reap(Wait::Now) {
            self.answer(completion)?;
        }
        Ok(())
    }

    fn wait_for_answer(&mut self, limit: Duration) -> Result<()> {
        self.target.flush();
        self.enter(Stage::Wait);
        let completion = self.target.reap(Wait::For(limit));
        self.leave(Stage::Wait);
        match completion {
            Some(completion) => self.answer(completion),
            None => Ok(()),
        }
    }

    fn answer(&mut self, completion: Completion) -> Result<()> {
        let Some(pending) = self.under_way.remove(&completion.ticket) else {
            // A piece in the middle of a chunk: its draft remembers the error.
            return match completion.result {
                Err(error) if error.is_fatal() => Err(error),
                _ => Ok(()),
            };
        };
        match (pending, completion.result) {
            (_, Err(error)) if error.is_fatal() => Err(error),
            (Pending::Ignored, _) => Ok(()),
            (Pending::Listing { tasks }, Ok(Outcome::Listed(listings))) => self.listed(tasks, listings),
            (
                Pending::Stored { node, picks, packed, content_bytes },
                Ok(Outcome::Stored { failures, losses }),
            ) => {
                self.shared.record.losses(losses);
                self.stored((node, picks, packed, content_bytes), failures)
            }
            (Pending::Applied { changes, node }, Ok(Outcome::Stored { failures, losses })) => {
                check_indices(&failures, changes.len())?;
                self.shared.record.losses(losses);
                self.applied(&changes, node.as_ref(), failures);
                Ok(())
            }
            (Pending::Begun(file), Ok(Outcome::Done)) => {
                self.shared.queue.activate(file);
                Ok(())
            }
            (Pending::BegunAlone(_), Ok(Outcome::Done)) => Ok(()),
            (Pending::BegunToClone(file), Ok(Outcome::Done)) => self.clone_file(file),
            (Pending::Cloned(file), Ok(Outcome::Done)) => self.cloned(file),
            (Pending::Cloned(file), Err(error)) if error.kind == ErrorKind::Unsupported => {
                self.not_cloned(file)
            }
            (Pending::Chunk { file, extent }, Ok(Outcome::Done)) => {
                self.counters.target_written_bytes.add(extent.length);
                let progress = file.count_done(1);
                self.end_file(file, progress)
            }
            (Pending::Finished(file), Ok(Outcome::Done)) => {
                self.finished(&file);
                Ok(())
            }
            (Pending::Finished(file), Ok(Outcome::Stored { failures, losses })) => {
                check_indices(&failures, 0)?;
                self.shared.record.losses(losses);
                self.finished(&file);
                Ok(())
            }
            (_, Ok(_)) => Err(unexpected()),
            (pending, Err(error)) => self.failed(pending, error),
        }
    }

    /// An operation failed as a whole, and others need not.
    fn failed(&mut self, pending: Pending, error: Error) -> Result<()> {
        match pending {
            Pending::Listing { tasks } => {
                let count = tasks.len() as u64;
                for (task, _) in tasks {
                    fail(self.shared, self.counters, failure(&task.node.target, error.clone()));
                    self.shared.queue.release(&task.node);
                }
                self.directories_done(count);
            }
            Pending::Stored { node, picks, packed, .. } => {
                for pick in packed {
                    self.fail_pick(&node, &picks, pick, error.clone());
                }
                self.task_done(&node);
            }
            Pending::Applied { changes, node } => {
                let failures = (0..changes.len() as u32).map(|index| (index, error.clone())).collect();
                self.applied(&changes, node.as_ref(), failures);
            }
            Pending::Begun(file)
            | Pending::BegunAlone(file)
            | Pending::BegunToClone(file)
            | Pending::Cloned(file) => return self.fail_file(&file, error, 0),
            Pending::Chunk { file, .. } => return self.fail_file(&file, error, 1),
            Pending::Finished(file) => {
                fail(self.shared, self.counters, failure(&file.source.path, error));
                return self.end_file(file, Progress::Abandon);
            }
            Pending::Ignored => {}
        }
        Ok(())
    }

    fn applied(&mut self, changes: &[Change], node: Option<&Arc<Node>>, failures: Vec<(u32, Error)>) {
        for (index, error) in failures {
            if let Some(change) = changes.get(index as usize) {
                fail(self.shared, self.counters, failure(change.path(), error));
            }
        }
        if let Some(node) = node {
            changes.iter().for_each(|_| self.shared.queue.release(node));
        }
        self.shared.queue.complete(changes.len() as u64);
    }

    fn ask_source(&mut self, operation: Operation) -> Result<Outcome> {
        ask(&mut *self.source, operation)
    }

    /// Asks the target one thing and waits for it; only where nothing else is under way.
    fn ask_target(&mut self, operation: Operation) -> Result<Outcome> {
        debug_assert!(self.under_way.is_empty());
        ask(&mut *self.target, operation)
    }

    // Time

    fn enter(&mut self, _stage: Stage) {
        self.mark_ns = self.shared.setup.clock.now_ns();
    }

    /// Counts the time since the last mark for `stage`.
    fn leave(&mut self, stage: Stage) {
        let now_ns = self.shared.setup.clock.now_ns();
        self.counters.stage_ns[stage as usize].add(now_ns.saturating_sub(self.mark_ns));
        self.mark_ns = now_ns;
    }
}

fn ask(lane: &mut dyn Lane, operation: Operation) -> Result<Outcome> {
    if lane.submit(0, operation).is_err() {
        return Err(unexpected());
    }
    lane.flush();
    loop {
        match lane.reap(Wait::Forever) {
            Some(completion) if completion.ticket == 0 => return completion.result,
            // The lane itself failed: no answer will come.
            Some(Completion { result: Err(error), .. }) if error.is_fatal() => return Err(error),
            Some(_) => {}
            None => return Err(unexpected()),
        }
    }
}

/// Failures are told in order, each once, and about what was asked for.
fn check_indices(failures: &[(u32, Error)], count: usize) -> Result<()> {
    let ascending = failures.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let within = failures.last().is_none_or(|(last, _)| (*last as usize) < count);
    if ascending && within { Ok(()) } else { Err(unexpected()) }
}

fn draft_numbers(next: &mut DraftId) -> impl FnMut() -> DraftId + '_ {
    move || {
        *next += 1;
        *next
    }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, "copying", "an endpoint gave an answer to something else than was asked")
}
