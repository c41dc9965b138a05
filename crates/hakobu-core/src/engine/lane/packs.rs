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
        let mut fetched = match fetched {
            Ok(SourceOutcome::Pack(fetched)) => fetched,
            Ok(_) => return Err(unexpected()),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                let until = task.picks.entries.len() as u32;
                let failures = (from..until).map(|pick| (pick, error.clone())).collect();
                FetchedPack { failures, until, ..FetchedPack::default() }
            }
        };
        // Entries that are neither packed nor failed would be lost silently.
        if fetched.until as usize > task.picks.entries.len()
            || fetched.packed.len() + fetched.failures.len() != fetched.until.saturating_sub(from) as usize
        {
            return Err(unexpected());
        }
        if (fetched.until as usize) < task.picks.entries.len() {
            // The rest counts as a task of its own.
            task.node.hold(1);
            self.shared.queue.hold(1);
        }
        for (pick, error) in std::mem::take(&mut fetched.failures) {
            self.fail_pick(&task.node, task.origin, &task.picks, (pick, at_source(error)))?;
        }
        self.shared.record.losses(std::mem::take(&mut fetched.losses));
        self.counters.source_read_bytes.add(fetched.content_bytes);
        let task = self.take_out_links(task, &mut fetched)?;
        let FetchedPack { pack, until, packed, content_bytes, .. } = fetched;
        if packed.is_empty() {
            self.task_done(&task.node);
            return Ok(until);
        }
        let inodes = self.inodes_of(&task, &packed);
        let pending = PendingPurpose::Stored { task, packed, content_bytes };
        self.submit(TargetOp::WritePack { pack, inodes }, pending)?;
        Ok(until)
    }

    /// Returns the inodes of entries that are stored as names of files with several.
    fn inodes_of(&self, task: &PackTask, packed: &[u32]) -> Vec<(u32, Inode)> {
        if task.picks.target_name.is_some() || !self.keeps_links() {
            return Vec::new();
        }
        let inode = |(record, pick): (u32, &u32)| {
            let metadata = metadata_of(&task.picks, *pick).filter(|metadata| metadata.links > 1)?;
            metadata.inode.map(|inode| (record, inode))
        };
        (0_u32..).zip(packed).filter_map(inode).collect()
    }

    /// Returns true if names of one file stay names of one file.
    pub(super) fn keeps_links(&self) -> bool {
        self.shared.setup.job.hard_links && self.shared.able.hard_links
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
            Some(metadata) => self.first_name_failed(metadata.inode),
            None => Ok(()),
        }
    }

    pub(super) fn stored(
        &mut self,
        stored: (PackTask, Vec<u32>, u64),
        failures: Vec<(u32, Error)>,
    ) -> Result<()> {
        let rechecks = self.shared.evidence.must_recheck();
        self.count_stored(stored, failures, rechecks)
    }

    /// Counts the entries of a pack that are at the target, unless `rechecks` shows that some have changed.
    pub(super) fn count_stored(
        &mut self,
        (task, packed, content_bytes): (PackTask, Vec<u32>, u64),
        failures: Vec<(u32, Error)>,
        rechecks: bool,
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
        if rechecks {
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
                self.first_name_done(metadata.inode, &target, false)?;
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

pub(super) fn metadata_of(picks: &Picks, pick: u32) -> Option<&EntryMetadata> {
    picks.entries.get(pick as usize).map(|pick| picks.listing.metadata(pick.index as usize))
}

/// Returns the bytes of content that an entry adds to a pack. The text of a symbolic link does not count.
pub(super) fn content_of(picks: &Picks, pick: u32) -> u64 {
    metadata_of(picks, pick)
        .filter(|metadata| metadata.kind == EntryKind::File)
        .map_or(0, |metadata| metadata.size_bytes)
}
