//! Large files that share their blocks with the source instead of being copied.

use super::*;

impl Worker<'_> {
    pub(super) fn may_clone(&self, file: &LargeFile) -> bool {
        let setup = self.shared.setup;
        setup.job.clone
            && setup.target.capabilities().clones
            && setup.source.capabilities().clones
            && file.chunks() > 0
            && file.kind == DraftKind::File
            && file.source.metadata.kind == EntryKind::File
            && !self.shared.cannot_clone.load(Relaxed)
    }

    /// Continues with a draft that was begun for sharing blocks. It keeps a journal in case that fails.
    pub(super) fn begun_to_clone(&mut self, file: Arc<LargeFile>, begun: EarlierWork) -> Result<()> {
        if !begun.done.is_empty() {
            // An earlier run had to copy as well.
            return self.begun_again(file, begun);
        }
        file.begun(begun)?;
        self.clone_file(file)
    }

    pub(super) fn clone_file(&mut self, file: Arc<LargeFile>) -> Result<()> {
        match self.ask_source(SourceOp::Open { file: file.source.clone() }) {
            Ok(SourceOutcome::Opened(from)) => self
                .submit(TargetOp::Reflink { draft: file.draft, from }, PendingPurpose::Cloned(file))
                .map(drop),
            Ok(_) => Err(unexpected()),
            Err(error) => self.fail_file(&file, at_source(error), 0),
        }
    }

    pub(super) fn cloned(&mut self, file: Arc<LargeFile>) -> Result<()> {
        self.counters.cloned_bytes.add(file.size_bytes());
        self.counters.target_written_bytes.add(file.size_bytes());
        while file.take_chunk().is_some() {}
        let progress = file.count_done(file.chunks());
        self.end_file(file, progress)
    }

    /// Copies a file that cannot share blocks, and disables sharing for all further files.
    pub(super) fn not_cloned(&mut self, file: Arc<LargeFile>) -> Result<()> {
        self.shared.cannot_clone.store(true, Relaxed);
        if file.chunks() > SINGLE_LANE_CHUNKS {
            self.shared.queue.activate(file);
            return Ok(());
        }
        self.move_alone(file)
    }
}
