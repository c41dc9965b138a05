//! Reads packs of small files from the source and stores them at the target.

use super::*;

impl Worker<'_> {
    /// Transfers the entries of a task. Extended attributes may split them into several packs.
    pub(super) fn pack(&mut self, task: &PackTask) -> Result<()> {
        if self.may_copy_in_store(task) {
            return self.copy_in_store(task);
        }
        let all = task.picks.entries.len() as u32;
        let mut from = 0;
        loop {
            let until = self.pack_from(task, from)?;
            if until >= all {
                return Ok(());
            }
            if until <= from {
                return Err(unexpected());
            }
            from = until;
        }
    }

    /// Transfers a pack of entries beginning at `from`. Returns the index after the last one.
    fn pack_from(&mut self, task: &PackTask, from: u32) -> Result<u32> {
        let origin = task.node.origins.get(task.origin).ok_or_else(unexpected)?;
        let buffer = self.target.pack_buffer();
        self.enter(LaneStage::Read);
        let fetched = self.ask_source(SourceOp::ReadPack {
            root: origin.root,
            directory: origin.path.clone(),
            target: task.node.target.clone(),
            picks: task.picks.clone(),
            from,
            ask: self.shared.ask,
            buffer,
        });
        self.leave(LaneStage::Read);
        let fetched = match fetched {
            Ok(SourceOutcome::Pack(fetched)) => fetched,
            Ok(_) => return Err(unexpected()),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                let until = task.picks.entries.len() as u32;
                let failures = (from..until).map(|pick| (pick, error.clone())).collect();
                FetchedPack { failures, until, ..FetchedPack::default() }
            }
        };
        let FetchedPack { pack, until, packed, failures, losses, content_bytes } = fetched;
        // Entries that are neither packed nor failed would be lost silently.
        if until as usize > task.picks.entries.len()
            || packed.len() + failures.len() != until.saturating_sub(from) as usize
        {
            return Err(unexpected());
        }
        if (until as usize) < task.picks.entries.len() {
            // The rest counts as a task of its own.
            task.node.hold(1);
            self.shared.queue.hold(1);
        }
        for (pick, error) in failures {
            self.fail_pick(&task.node, task.origin, &task.picks, (pick, at_source(error)))?;
        }
        self.shared.record.losses(losses);
        self.counters.source_read_bytes.add(content_bytes);
        if packed.is_empty() {
            self.task_done(&task.node);
            return Ok(until);
        }
        let task = task.clone();
        let pending = PendingPurpose::Stored { task, packed, content_bytes };
        self.submit(TargetOp::WritePack { pack }, pending)?;
        Ok(until)
    }

    /// Fails an entry of a pack that could not be stored at the target.
    pub(super) fn fail_stored(
        &mut self,
        node: &Arc<DirectoryNode>,
        origin: usize,
        picks: &Picks,
        (pick, error): (u32, Error),
    ) -> Result<()> {
        let name = picks.target_name.as_deref().unwrap_or_else(|| name_of(picks, pick));
        let error = match node.target.join(name) {
            Ok(target) => at_target(error, &target),
            Err(_) => error,
        };
        self.fail_pick(node, origin, picks, (pick, error))
    }

    pub(super) fn fail_pick(
        &mut self,
        node: &Arc<DirectoryNode>,
        origin: usize,
        picks: &Picks,
        (pick, error): (u32, Error),
    ) -> Result<()> {
        let directory = &node.origins.get(origin).ok_or_else(unexpected)?.path;
        let name = name_of(picks, pick);
        let path = directory.join(name).unwrap_or_else(|_| directory.clone());
        fail(self.shared, self.counters, failure(path, error));
        match metadata_of(picks, pick) {
            Some(metadata) => self.first_name_failed(metadata),
            None => Ok(()),
        }
    }

    pub(super) fn stored(
        &mut self,
        (task, packed, content_bytes): (PackTask, Vec<u32>, u64),
        failures: Vec<(u32, Error)>,
    ) -> Result<()> {
        check_indices(&failures, packed.len())?;
        let (mut counts, mut stored_bytes) = ([0u64; 2], content_bytes);
        let mut failed = HashSet::new();
        for (record, error) in failures {
            if let Some(&pick) = packed.get(record as usize) {
                failed.insert(pick);
                stored_bytes = stored_bytes.saturating_sub(content_of(&task.picks, pick));
                self.fail_stored(&task.node, task.origin, &task.picks, (pick, error))?;
            }
        }
        let mut stored = packed;
        stored.retain(|pick| !failed.contains(pick));
        if self.shared.evidence.must_recheck() {
            stored = self.recheck_pack(&task, stored)?;
        }
        for pick in &stored {
            counts[usize::from(task.replaces(*pick))] += 1;
        }
        let PackTask { node, picks, .. } = &task;
        for pick in stored {
            if self.shared.setup.job.itemize {
                self.tell_stored(&task, pick)?;
            }
            if let Some(metadata) = metadata_of(picks, pick).filter(|metadata| metadata.inode.is_some()) {
                let target =
                    node.target.join(picks.target_name.as_deref().unwrap_or(name_of(picks, pick)))?;
                self.first_name_done(metadata, &target, false)?;
            }
        }
        self.counters.entries_created.add(counts[0]);
        self.counters.entries_updated.add(counts[1]);
        self.counters.target_written_bytes.add(stored_bytes);
        self.task_done(node);
        Ok(())
    }

    /// Reports an entry of a pack that was stored.
    fn tell_stored(&self, task: &PackTask, pick: u32) -> Result<()> {
        let PackTask { node, picks, .. } = task;
        let target = node.target.join(picks.target_name.as_deref().unwrap_or(name_of(picks, pick)))?;
        let action = if task.replaces(pick) { EntryAction::Update } else { EntryAction::Create };
        self.shared.changed(action, &target, content_of(picks, pick));
        Ok(())
    }

    /// Completes a pack or large file, whether it succeeded or failed.
    pub(super) fn task_done(&self, node: &Arc<DirectoryNode>) {
        self.shared.queue.release(node, self.counters);
        self.shared.queue.complete(1);
    }
}

/// Returns the name of an entry at the source.
pub(super) fn name_of(picks: &Picks, pick: u32) -> &[u8] {
    picks.entries.get(pick as usize).map_or(&b""[..], |pick| picks.listing.name(pick.index as usize))
}

fn metadata_of(picks: &Picks, pick: u32) -> Option<&EntryMetadata> {
    picks.entries.get(pick as usize).map(|pick| picks.listing.metadata(pick.index as usize))
}

/// Returns the bytes of content that an entry adds to a pack. The text of a symbolic link does not count.
pub(super) fn content_of(picks: &Picks, pick: u32) -> u64 {
    metadata_of(picks, pick)
        .filter(|metadata| metadata.kind == EntryKind::File)
        .map_or(0, |metadata| metadata.size_bytes)
}
