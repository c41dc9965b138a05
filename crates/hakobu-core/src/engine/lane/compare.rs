//! Compares the content of entries in a tree, either before anything else is done with them or only to compare.

use super::*;
use crate::event::{Difference, Different};

impl Worker<'_> {
    /// Requests the target's tags of small files, and computes those of the source meanwhile.
    pub(super) fn compare_pack(&mut self, task: PackTask) -> Result<()> {
        if self.shared.setup.job.mode.is_digest() {
            return self.hash_pack(&task);
        }
        let PackTask { node, origin, picks, .. } = &task;
        let origin = node.origins.get(*origin).ok_or_else(unexpected)?;
        let name = |pick: &Pick| match &picks.target_name {
            Some(name) => name.clone(),
            None => picks.listing.name(pick.index as usize).to_vec(),
        };
        let names = picks.entries.iter().map(name).collect();
        let stored = self.shared.uses_kept_digests();
        let key = (!stored).then(|| self.shared.setup.tagger.key());
        let digest = TargetOp::Digest { directory: node.target.clone(), names, key };
        let ours = SourceOp::DigestPicks {
            root: origin.root,
            directory: origin.path.clone(),
            picks: picks.clone(),
            key,
            stored,
        };
        let count = picks.entries.len();
        let ticket = self.submit(digest, PendingPurpose::Digested { task })?;
        self.target.flush();
        self.enter(LaneStage::Read);
        let ours = match self.ask_source(ours) {
            Ok(SourceOutcome::Digests(digests)) if digests.len() == count => digests,
            Ok(_) => return Err(unexpected()),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => vec![Err(error); count],
        };
        self.leave(LaneStage::Read);
        self.digests.insert(ticket, ours);
        Ok(())
    }

    /// Handles the digests of a pack from both sides.
    pub(super) fn compared(
        &mut self,
        task: &PackTask,
        ours: Vec<Result<Digest>>,
        theirs: Vec<Result<Digest>>,
    ) -> Result<()> {
        let PackTask { node, origin, picks, compare, .. } = task;
        if theirs.len() != ours.len() || ours.len() != picks.entries.len() {
            return Err(unexpected());
        }
        let mut changed = Vec::new();
        for (index, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
            let pick = picks.entries[index];
            let metadata = *picks.listing.metadata(pick.index as usize);
            match (ours, theirs) {
                (Err(error), _) => {
                    self.fail_pick(node, *origin, picks, (index as u32, at_source(error)))?;
                }
                (_, Err(error)) => self.fail_stored(node, *origin, picks, (index as u32, error))?,
                (Ok(ours), Ok(theirs)) => {
                    if metadata.kind == EntryKind::File {
                        self.counters.entries_compared.add(1);
                        self.counters.source_read_bytes.add(metadata.size_bytes);
                        self.counters.target_read_bytes.add(metadata.size_bytes);
                        self.counters.bytes_kept.add(metadata.size_bytes);
                    }
                    match ours == theirs {
                        true => self.found_equal(node, *origin, picks, pick)?,
                        false => changed.push(pick),
                    }
                }
            }
        }
        if self.shared.setup.job.mode == Mode::Compare {
            for pick in changed {
                let name = picks.target_name.as_deref().unwrap_or(picks.listing.name(pick.index as usize));
                self.shared.differs(&node.target.join(name)?, Different::Content);
                // Other differences of the entry have been counted.
                if !pick.replaces {
                    self.counters.entries_different.add(1);
                }
            }
        } else if let Some(IfDifferent::Link(to)) = compare {
            for pick in changed {
                let name = picks.listing.name(pick.index as usize);
                let metadata = *picks.listing.metadata(pick.index as usize);
                self.link_instead((node, *origin), (name, metadata), to)?;
            }
        } else if self.shared.setup.job.dry_run {
            for pick in changed {
                let metadata = picks.listing.metadata(pick.index as usize);
                let name = picks.target_name.as_deref().unwrap_or(picks.listing.name(pick.index as usize));
                self.counters.entries_updated.add(1);
                let target = node.target.join(name)?;
                self.shared.planned("update", &target, metadata.size_bytes);
                self.first_name_done(metadata.inode, &target, false)?;
            }
        } else if *compare == Some(IfDifferent::Write(DraftKind::InPlace)) {
            let from = node.origins.get(*origin).ok_or_else(unexpected)?;
            for pick in changed {
                let metadata = *picks.listing.metadata(pick.index as usize);
                let name = picks.listing.name(pick.index as usize);
                let target = node.target.join(picks.target_name.as_deref().unwrap_or(name))?;
                let (root, path) = (from.root, from.path.join(name)?);
                self.write_instead(node, (root, path, metadata), target, DraftKind::InPlace);
            }
        } else if !changed.is_empty() {
            node.hold(1);
            node.touch();
            let (listing, target_name) = (picks.listing.clone(), picks.target_name.clone());
            let entries = changed.into_iter().map(|pick| Pick { replaces: true, ..pick }).collect();
            let picks = Arc::new(Picks { listing, entries, target_name });
            let task = PackTask::new(node.clone(), *origin, picks);
            self.shared.queue.add(Vec::new(), vec![task], Vec::new());
        }
        self.task_done(node);
        Ok(())
    }

    /// Handles an entry with the same content on both sides. Its attributes may differ.
    fn found_equal(
        &mut self,
        node: &Arc<DirectoryNode>,
        origin: usize,
        picks: &Picks,
        pick: Pick,
    ) -> Result<()> {
        let name = picks.listing.name(pick.index as usize);
        let metadata = picks.listing.metadata(pick.index as usize);
        let target = node.target.join(picks.target_name.as_deref().unwrap_or(name))?;
        let waits = pick.replaces && self.names_await_attributes();
        if !waits {
            self.first_name_done(metadata.inode, &target, true)?;
        }
        if !pick.replaces {
            self.counters.entries_unchanged.add(1);
            self.counters.bytes_unchanged.add(if metadata.kind == EntryKind::File {
                metadata.size_bytes
            } else {
                0
            });
            return Ok(());
        }
        if self.shared.setup.job.mode == Mode::Compare {
            // The differences have been reported.
            return Ok(());
        }
        let from = node.origins.get(origin).ok_or_else(unexpected)?;
        self.set_attributes(node, (from.root, from.path.join(name)?), target, metadata)
    }

    /// Returns true if other names of a file with equal content have to wait until its attributes are set.
    fn names_await_attributes(&self) -> bool {
        let job = self.shared.setup.job;
        self.shared.copies_names() && job.mode != Mode::Compare && !job.dry_run
    }

    /// Sets the attributes of an entry whose content is equal.
    fn set_attributes(
        &mut self,
        node: &Arc<DirectoryNode>,
        (root, path): (u16, EntryPath),
        target: EntryPath,
        metadata: &EntryMetadata,
    ) -> Result<()> {
        if self.shared.setup.job.dry_run {
            self.counters.entries_attributes_only.add(1);
            self.shared.planned("attributes", &target, 0);
            return Ok(());
        }
        let first_of = metadata.inode.filter(|_| self.names_await_attributes());
        let ask = ExtendedAsk { miss: Classes::NONE, ..self.shared.ask };
        let extended = match super::directories::examine(self.shared, &mut self.source, (root, &path), ask) {
            Ok(extended) => extended,
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                fail(self.shared, self.counters, failure(&path, at_source(error)));
                return self.first_name_failed(first_of);
            }
        };
        node.hold(1);
        self.shared.queue.hold(1);
        let change = Change::Attributes { path: target.clone(), attributes: metadata.attributes(), extended };
        let entries = vec![ChangedEntry { source: path, target, first_of }];
        let pending = PendingPurpose::Applied { entries, node: node.clone() };
        self.submit(TargetOp::Apply { changes: vec![change] }, pending).map(drop)
    }

    /// Handles a large file after comparing it.
    pub(super) fn large_compared(&mut self, file: &Arc<LargeFile>) -> Result<()> {
        self.counters.entries_compared.add(1);
        let node = &file.node;
        let verifies = self.shared.setup.job.mode == Mode::Compare;
        let planned = file.has_changed() && self.shared.setup.job.dry_run;
        let waits = file.replaces && !file.has_changed() && self.names_await_attributes();
        if (!file.has_changed() || planned) && !waits {
            self.first_name_done(file.source.metadata.inode, &file.target, !file.has_changed())?;
        }
        let if_different = file.if_different.get();
        if let (true, false, Some(IfDifferent::Link(to))) = (file.has_changed(), verifies, if_different) {
            let (parent, name) = file.source.path.split_last().unwrap_or_default();
            let is_from = |origin: &Origin| origin.root == file.source.root && origin.path == parent;
            let origin = node.origins.iter().position(is_from).ok_or_else(unexpected)?;
            self.link_instead((node, origin), (name, file.source.metadata), to)?;
            self.task_done(node);
            return Ok(());
        }
        match (file.has_changed(), verifies) {
            (true, true) if !file.replaces => self.counters.entries_different.add(1),
            (false, _) if !file.replaces => {
                self.counters.entries_unchanged.add(1);
                self.counters.bytes_unchanged.add(file.size_bytes());
            }
            (_, true) => {}
            (false, false) => {
                let from = (file.source.root, file.source.path.clone());
                self.set_attributes(node, from, file.target.clone(), &file.source.metadata)?;
            }
            (true, false) if planned => {
                self.counters.entries_updated.add(1);
                self.shared.planned("update", &file.target, file.size_bytes());
            }
            (true, false) => {
                let from = (file.source.root, file.source.path.clone(), file.source.metadata);
                let kind = match if_different {
                    Some(IfDifferent::Write(kind)) => *kind,
                    _ => DraftKind::File,
                };
                self.write_instead(node, from, file.target.clone(), kind);
            }
        }
        self.task_done(node);
        Ok(())
    }

    /// Copies the content of a file that was found to differ, as a file that is transferred on its own.
    fn write_instead(
        &mut self,
        node: &Arc<DirectoryNode>,
        (root, path, metadata): (u16, EntryPath, EntryMetadata),
        target: EntryPath,
        kind: DraftKind,
    ) {
        let job = self.shared.setup.job;
        let source = SourceFile { root, path, metadata, tolerant: job.skip_unreadable };
        let how = LargeFileMode { kind, replaces: true, named: false, digest: job.digest };
        let draft = draft_numbers(&mut self.next_draft)();
        let file = LargeFile::new(node.clone(), source, target, draft, how);
        file.changes();
        node.hold(1);
        node.touch();
        self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(file)]);
    }
}

impl EngineState<'_> {
    /// Reports that an entry differs.
    pub(in crate::engine) fn differs(&self, path: &EntryPath, what: Different) {
        self.difference(Difference::new(path.as_bytes(), what));
    }

    /// Reports that an entry differs from that of the source.
    pub(in crate::engine) fn differs_from(
        &self,
        source: &EntryMetadata,
        target: &EntryMetadata,
        path: &EntryPath,
        what: Different,
    ) {
        if self.setup.job.mode == Mode::Compare {
            self.difference(Difference::between(path, what, source, target));
        }
    }
}
