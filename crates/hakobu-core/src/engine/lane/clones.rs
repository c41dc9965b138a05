//! Files that get to the target without being read: large ones that share their blocks with the source, and all that an
//! object store copies by itself.

use super::packs::{content_of, name_of};
use super::*;
use crate::capabilities::ContentSharing;

impl Worker<'_> {
    pub(super) fn may_clone(&self, file: &LargeFile) -> bool {
        self.shared.sharing().is_some()
            && file.chunks() > 0
            && file.kind == DraftKind::File
            && file.source.metadata.kind == EntryKind::File
            && !self.shared.cannot_clone.load(Relaxed)
    }

    /// Returns true if the store copies the entries of a pack.
    pub(super) fn may_copy_in_store(&self, task: &PackTask) -> bool {
        self.shared.sharing() == Some(ContentSharing::InStore)
            && task.compare.is_none()
            && !task.is_read
            && !self.shared.cannot_clone.load(Relaxed)
    }

    pub(super) fn copy_in_store(&mut self, task: &PackTask) -> Result<()> {
        let PackTask { node, origin, picks, .. } = task;
        let from = node.origins.get(*origin).ok_or_else(unexpected)?;
        let (root, directory) = (from.root, from.path.clone());
        let opened = match self.ask_source(SourceOp::OpenPicks { root, directory, picks: picks.clone() }) {
            Ok(SourceOutcome::OpenedPicks(opened)) if opened.len() == picks.entries.len() => opened,
            Ok(_) => return Err(unexpected()),
            Err(error) => return Err(error),
        };
        let (mut copies, mut packed) = (Vec::with_capacity(opened.len()), Vec::with_capacity(opened.len()));
        let mut read = Vec::new();
        for (pick, opened) in (0..).zip(opened) {
            match opened {
                Ok(None) => read.push(pick),
                Ok(Some(file)) => {
                    let name = picks.target_name.as_deref().unwrap_or_else(|| name_of(picks, pick));
                    copies.push((name.to_vec(), file));
                    packed.push(pick);
                }
                Err(error) => self.fail_pick(node, *origin, picks, (pick, at_source(error)))?,
            }
        }
        self.pack_again(task, &read);
        if copies.is_empty() {
            self.task_done(node);
            return Ok(());
        }
        let directory = node.target.clone();
        let pending = PendingPurpose::CopiedInStore { task: task.clone(), packed };
        self.submit(TargetOp::CopyInStore { directory, copies }, pending).map(drop)
    }

    /// Queues entries of a pack to be read and written.
    fn pack_again(&mut self, task: &PackTask, again: &[u32]) {
        if again.is_empty() {
            return;
        }
        let PackTask { node, origin, picks, resend, .. } = task;
        let entries = again.iter().filter_map(|pick| picks.entries.get(*pick as usize).copied()).collect();
        let picks = Picks { listing: picks.listing.clone(), entries, target_name: picks.target_name.clone() };
        let (node, origin, picks) = (node.clone(), *origin, Arc::new(picks));
        node.hold(1);
        let again = PackTask { resend: *resend, is_read: true, ..PackTask::new(node, origin, picks) };
        self.shared.queue.add(Vec::new(), vec![again], Vec::new());
    }

    /// Continues after a pack was copied. Entries that the store does not copy are read and written.
    pub(super) fn copied_in_store(
        &mut self,
        task: PackTask,
        packed: Vec<u32>,
        failures: Vec<(u32, Error)>,
    ) -> Result<()> {
        check_indices(&failures, packed.len())?;
        let (refused, failures): (Vec<_>, Vec<_>) =
            failures.into_iter().partition(|(_, error)| error.kind == ErrorKind::Unsupported);
        let reason = refused.first().map(|(_, error)| error.clone());
        let refused: HashSet<u32> = refused.into_iter().map(|(index, _)| index).collect();
        let (mut stored, mut failed, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let mut failures = failures.into_iter().peekable();
        let mut bytes = 0;
        for (index, pick) in (0..).zip(packed) {
            if refused.contains(&index) {
                again.push(pick);
                continue;
            }
            match failures.next_if(|(failure, _)| *failure == index) {
                Some((_, error)) => failed.push((stored.len() as u32, error)),
                None => bytes += content_of(&task.picks, pick),
            }
            stored.push(pick);
        }
        if let Some(reason) = reason {
            // Single ones have a reason of their own: they are archived, or may be read only.
            if stored.is_empty() {
                self.disable_sharing(&reason);
            }
            self.pack_again(&task, &again);
        }
        self.counters.cloned_bytes.add(bytes);
        // The store has copied the version that was looked at, at once.
        self.count_stored((task, stored, bytes), failed, false)
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
            Err(error) if error.kind == ErrorKind::Unsupported => self.move_uncloned(file),
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
    pub(super) fn not_cloned(&mut self, file: Arc<LargeFile>, reason: &Error) -> Result<()> {
        self.disable_sharing(reason);
        self.move_uncloned(file)
    }

    fn move_uncloned(&mut self, file: Arc<LargeFile>) -> Result<()> {
        if file.chunks() > SINGLE_LANE_CHUNKS {
            self.shared.queue.activate(file);
            return Ok(());
        }
        self.move_alone(file)
    }

    fn disable_sharing(&self, reason: &Error) {
        let is_first = !self.shared.cannot_clone.swap(true, Relaxed);
        if is_first && self.shared.sharing() == Some(ContentSharing::InStore) {
            let words = format!(
                "the store does not copy these objects by itself, so their content passes through this machine: {}",
                reason.detail
            );
            self.shared.setup.observer.event(Event::Notice { words });
        }
    }
}
