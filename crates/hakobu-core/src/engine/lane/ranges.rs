//! Leaves ranges of large files to other runs, begins with ranges that were left, and finishes the files.

use super::*;
use crate::endpoint::SharedDraft;
use crate::engine::large::FileSharing;
use crate::exchange::{DirectorySlice, SharePlace};
use crate::open_file::{OpenFileEnd, OpenFileRange, OpenFileVersion, OpenLargeFile, divide};
use crate::plant::planted;

impl Worker<'_> {
    /// Leaves the chunks of a file that no lane has taken to other runs, if they are wanted.
    pub(super) fn give_rest(&mut self, file: &Arc<LargeFile>) -> Result<()> {
        let Some(exchange) = self.shared.setup.exchange else { return Ok(()) };
        if exchange.range_bytes(file.bytes_left()).is_none() || !self.may_be_open(file) {
            return Ok(());
        }
        match file.give_rest() {
            0 => Ok(()),
            given => {
                let progress = file.count_done(given);
                self.end_file(file.clone(), progress)
            }
        }
    }

    /// Returns true if other runs can write ranges of a file, and one of them can finish it.
    fn may_be_open(&self, file: &LargeFile) -> bool {
        let (job, source) = (self.shared.setup.job, &file.source);
        let has_one_name = source.path.names().last() == file.target.names().last();
        // Other names of the file wait for this one.
        let is_only_name = source.metadata.links <= 1 || !self.keeps_links();
        self.shared.setup.target.shares_drafts()
            && file.kind == DraftKind::File
            && source.metadata.kind == EntryKind::File
            // The version that was listed is compared with what others see.
            && !self.shared.evidence.source_lacks()
            && !file.is_open_ended()
            && file.chunks() > SINGLE_LANE_CHUNKS
            && !file.is_finished_elsewhere()
            // Of these another run may list the directory, which removes drafts.
            && !file.node.has_found_entries()
            && has_one_name
            && is_only_name
            && !(job.verify_medium || source.tolerant)
    }

    /// Leaves the draft of a file to other runs, once all that this run copies of it is written.
    pub(super) fn share_draft(&mut self, file: Arc<LargeFile>) -> Result<()> {
        if file.sharing != FileSharing::Alone {
            let ask = ExtendedAsk::default();
            if let Err(error) = self.ask_source(SourceOp::Revalidate { file: file.source.clone(), ask }) {
                self.fail_file(&file, at_source(error), 0)?;
                return self.end_file(file, ChunkProgress::Abandon);
            }
        }
        self.submit(TargetOp::ShareDraft { draft: file.draft }, PendingPurpose::DraftShared(file)).map(drop)
    }

    /// Gives ranges away, once the draft is left to other runs.
    pub(super) fn draft_shared(&mut self, file: &Arc<LargeFile>, name: Vec<u8>) {
        if let (Some(given), Some(exchange)) = (file.given(), self.shared.setup.exchange) {
            let (root, source, target) = (file.source.root, file.source.path.clone(), file.target.clone());
            let place = SharePlace { root, source, target, top_names: file.node.top_names() };
            let version = OpenFileVersion::of(&file.source.metadata);
            let left_bytes: u64 = given.iter().map(|range| range.length).sum();
            let ranges = divide(given, exchange.range_bytes(left_bytes).unwrap_or(left_bytes));
            file.node.cut();
            exchange
                .give_ranges(OpenLargeFile { place, version, draft: name, replaces: file.replaces }, ranges);
        }
        self.shared.queue.draft_done();
        self.task_done(&file.node);
    }

    /// Records that a range of an open file cannot be copied.
    pub(super) fn tear(&self, file: &OpenLargeFile, error: Error) {
        if error.is_fatal() {
            return self.shared.stop(error.at(&file.place.source));
        }
        if let Some(exchange) = self.shared.setup.exchange {
            exchange.tear(file, error);
        }
    }

    /// Begins to copy a range of an open file.
    pub(super) fn begin_range(&mut self, share: OpenFileRange) -> Result<()> {
        if !share.is_sound() {
            return Err(unexpected());
        }
        if planted("ranges-lost") {
            return Ok(());
        }
        let OpenFileRange { file, extent } = share;
        let metadata = match self.look_at(file.place.root, &file.place.source) {
            Ok(metadata) if file.version.is_that_of(&metadata) => metadata,
            Ok(_) => {
                let words = "it has changed since it was begun";
                self.tear(&file, Error::new(ErrorKind::SourceChanged, "reading", words));
                return Ok(());
            }
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                self.tear(&file, error);
                return Ok(());
            }
        };
        let mut large = self.large_file(&file, metadata)?;
        large.limit_to(Arc::new(file), extent);
        let node = large.node.clone();
        node.hold(1);
        self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(large)]);
        self.shared.queue.release(&node, self.counters);
        Ok(())
    }

    /// Begins to write a range of a draft that another run has begun.
    pub(super) fn join_draft(&mut self, file: Arc<LargeFile>, open: &OpenLargeFile) -> Result<()> {
        let setup = self.shared.setup;
        file.set_run_bytes(setup.source.run_bytes(file.size_bytes()));
        let is_stale = setup.exchange.is_some_and(|exchange| exchange.lease().is_repeated());
        let shared = SharedDraft { is_stale, ..shared_draft(open, file.source.metadata.sparse) };
        let join = TargetOp::JoinDraft { draft: file.draft, shared };
        self.submit(join, PendingPurpose::Begun(file)).map(drop)
    }

    /// Finishes an open file, or copies it anew if the source has changed.
    pub(super) fn begin_file_end(&mut self, end: OpenFileEnd) -> Result<()> {
        let is_copied_anew = end.is_copied_anew();
        let OpenFileEnd { file, torn } = end;
        let now = match self.look_at(file.place.root, &file.place.source) {
            Err(error) if error.is_fatal() => return Err(error),
            // Whatever it is, copying it anew meets it again.
            now => now.ok().filter(|now| !is_copied_anew && file.version.is_that_of(now)),
        };
        let Some(metadata) = now else { return self.copy_anew(&file) };
        if let Some(error) = torn {
            self.discard_shared(&file)?;
            return self.fail_item(&file.place.source, error);
        }
        let mut large = self.large_file(&file, metadata)?;
        large.mark_written();
        if !self.join_complete(&file, large.draft)? {
            return self.copy_anew(&file);
        }
        let node = large.node.clone();
        node.hold(1);
        self.shared.queue.hold(1);
        self.end_file(Arc::new(large), ChunkProgress::Finish)?;
        self.shared.queue.release(&node, self.counters);
        Ok(())
    }

    /// Copies a file whose draft is of no use.
    fn copy_anew(&mut self, file: &OpenLargeFile) -> Result<()> {
        self.discard_shared(file)?;
        let place = directory_of(file)?;
        let (_, name) = file.place.source.split_last().ok_or_else(unexpected)?;
        self.begin_slice(&DirectorySlice { place, names: vec![name.to_vec()] });
        Ok(())
    }

    /// Removes the draft of an open file, if it is there.
    fn discard_shared(&mut self, file: &OpenLargeFile) -> Result<()> {
        let draft = draft_numbers(&mut self.next_draft)();
        if self.join_complete(file, draft)? {
            self.ask_target(TargetOp::Abandon { draft, keep: false })?;
        }
        Ok(())
    }

    /// Opens the draft of an open file, of which all is written. Returns false if that is not possible.
    fn join_complete(&mut self, file: &OpenLargeFile, draft: DraftId) -> Result<bool> {
        let shared = SharedDraft { is_complete: true, ..shared_draft(file, true) };
        match self.ask_target(TargetOp::JoinDraft { draft, shared }) {
            Err(error) if error.is_fatal() => Err(error),
            joined => Ok(joined.is_ok()),
        }
    }

    /// Returns an open file as one of this run.
    fn large_file(&mut self, file: &OpenLargeFile, metadata: EntryMetadata) -> Result<LargeFile> {
        let SharePlace { root, source, target, .. } = &file.place;
        let node = DirectoryNode::of_slice(&directory_of(file)?);
        let source = SourceFile { root: *root, path: source.clone(), metadata, tolerant: false };
        let how =
            LargeFileMode { kind: DraftKind::File, replaces: file.replaces, named: false, digest: false };
        let draft = draft_numbers(&mut self.next_draft)();
        Ok(LargeFile::new(node, source, target.clone(), draft, how))
    }
}

/// Returns the place of the directory in which a file is.
fn directory_of(file: &OpenLargeFile) -> Result<SharePlace> {
    let SharePlace { root, source, target, top_names } = &file.place;
    let (source, _) = source.split_last().ok_or_else(unexpected)?;
    let (target, _) = target.split_last().ok_or_else(unexpected)?;
    Ok(SharePlace { root: *root, source, target, top_names: *top_names })
}

fn shared_draft(file: &OpenLargeFile, sparse: bool) -> SharedDraft {
    SharedDraft {
        path: file.place.target.clone(),
        name: file.draft.clone(),
        size_bytes: file.version.size_bytes,
        sparse,
        is_stale: false,
        is_complete: false,
    }
}
