//! Handles the target's answers.

use super::limits::entries_of;
use super::*;
use crate::extent::chunk_count;
use crate::pacer::LimitedQuantities;

/// The maximum number of times that a chunk is written again if the medium did not keep it.
const REPAIRS_MAX: u8 = 2;

impl Worker<'_> {
    pub(super) fn answer(&mut self, completion: Completion<TargetOutcome>) -> Result<()> {
        if let Ok(TargetOutcome::Listed(listings)) = &completion.result {
            self.owe_listed(LimitedQuantities::Target, listings);
        }
        if let Ok(TargetOutcome::Page(portion)) = &completion.result {
            self.owe(LimitedQuantities::Target, entries_of(portion));
        }
        let Some(pending) = self.under_way.remove(&completion.ticket) else {
            // This operation was inside a chunk; its draft remembers the error.
            return match completion.result {
                Err(error) if error.is_fatal() => Err(error),
                _ => Ok(()),
            };
        };
        match (pending, completion.result) {
            (_, Err(error)) if error.is_fatal() => Err(error),
            (PendingPurpose::Ignored, _) => Ok(()),
            (PendingPurpose::Told, told) => {
                self.told.insert(completion.ticket, told);
                Ok(())
            }
            (PendingPurpose::Listing { tasks }, Ok(TargetOutcome::Listed(listings))) => {
                self.listed(tasks, listings)
            }
            (PendingPurpose::Portion { node, sides }, Ok(TargetOutcome::Page(portion))) => {
                self.target_portion(&node, sides, Ok(portion))
            }
            (
                PendingPurpose::Stored { task, packed, content_bytes },
                Ok(TargetOutcome::PackWritten { failures, losses }),
            ) => {
                self.shared.record.losses(losses);
                self.stored((task, packed, content_bytes), failures)
            }
            (
                PendingPurpose::CopiedInStore { task, packed },
                Ok(TargetOutcome::PackWritten { failures, losses }),
            ) => {
                self.shared.record.losses(losses);
                self.copied_in_store(task, packed, failures)
            }
            (
                PendingPurpose::Applied { entries, node },
                Ok(TargetOutcome::PackWritten { failures, losses }),
            ) => {
                check_indices(&failures, entries.len())?;
                self.shared.record.losses(losses);
                self.applied(&entries, &node, failures)
            }
            (PendingPurpose::Examined { examination, number }, Ok(TargetOutcome::Stat(there))) => {
                self.examined(examination, number, Ok(there))
            }
            (PendingPurpose::Digested { task }, Ok(TargetOutcome::Digests(theirs))) => {
                let ours = self.digests.remove(&completion.ticket).ok_or_else(unexpected)?;
                self.compared(&task, ours, theirs)
            }
            (PendingPurpose::Linked { followers }, Ok(TargetOutcome::PackWritten { failures, .. })) => {
                check_indices(&failures, followers.len())?;
                self.linked(followers, failures)
            }
            (PendingPurpose::Removed { paths, node }, Ok(TargetOutcome::PackWritten { failures, .. })) => {
                check_indices(&failures, paths.len())?;
                self.removed(&paths, &node, failures);
                Ok(())
            }
            (PendingPurpose::Settled { nodes }, Ok(TargetOutcome::PackWritten { failures, losses })) => {
                check_indices(&failures, nodes.len())?;
                self.shared.record.losses(losses);
                self.settled(&nodes, failures);
                Ok(())
            }
            (PendingPurpose::Begun(file), Ok(TargetOutcome::Done)) => self.begun(file),
            (PendingPurpose::Begun(file), Ok(TargetOutcome::Begun(begun))) => self.begun_again(file, *begun),
            (PendingPurpose::BegunAlone(_), Ok(TargetOutcome::Done)) => Ok(()),
            (PendingPurpose::Unbegun(file), Ok(TargetOutcome::Done)) => self.begin_anew(file),
            (PendingPurpose::BegunToClone(file), Ok(TargetOutcome::Done)) => self.clone_file(file),
            (PendingPurpose::BegunToClone(file), Ok(TargetOutcome::Begun(begun))) => {
                self.begun_to_clone(file, *begun)
            }
            (PendingPurpose::Cloned(file), Ok(TargetOutcome::Done)) => self.cloned(file),
            (PendingPurpose::DraftShared(file), Ok(TargetOutcome::DraftShared(name))) => {
                self.draft_shared(&file, name);
                Ok(())
            }
            (PendingPurpose::Cloned(file), Err(error)) if error.kind == ErrorKind::Unsupported => {
                self.not_cloned(file, &error)
            }
            (PendingPurpose::Chunk { file, extent, written_bytes, .. }, Ok(TargetOutcome::Done)) => {
                self.counters.target_written_bytes.add(written_bytes);
                self.counters.bytes_kept.add(extent.length - written_bytes);
                let progress = file.count_done(chunk_count(extent.length));
                self.end_file(file, progress)
            }
            (PendingPurpose::Chunk { file, extent, attempt, seal, .. }, Err(error))
                if error.kind == ErrorKind::Corrupt && file.completes() && attempt < REPAIRS_MAX =>
            {
                self.repair(&file, extent, (attempt + 1, seal))
            }
            (PendingPurpose::Finished(file), Ok(TargetOutcome::Done)) => self.finished(&file),
            (PendingPurpose::Finished(file), Ok(TargetOutcome::PackWritten { failures, losses })) => {
                check_indices(&failures, 0)?;
                self.shared.record.losses(losses);
                self.finished(&file)
            }
            (PendingPurpose::Abandoned(file), Ok(TargetOutcome::Done)) => {
                self.abandoned(&file);
                Ok(())
            }
            (_, Ok(_)) => Err(unexpected()),
            (pending, Err(error)) => self.failed(pending, error),
        }
    }

    /// Handles the failure of a whole operation. Other operations may still succeed.
    pub(super) fn failed(&mut self, pending: PendingPurpose, error: Error) -> Result<()> {
        match pending {
            PendingPurpose::Listing { tasks } => {
                let count = tasks.len() as u64;
                for (task, _) in tasks {
                    self.fail_directory(&task.node, at_target(error.clone(), &task.node.target));
                }
                self.directories_done(count);
            }
            PendingPurpose::Portion { node, sides } => self.target_portion(&node, sides, Err(error))?,
            PendingPurpose::Stored { task, packed, .. } | PendingPurpose::CopiedInStore { task, packed } => {
                for pick in packed {
                    self.fail_stored(&task.node, task.origin, &task.picks, (pick, error.clone()))?;
                }
                self.task_done(&task.node);
            }
            PendingPurpose::Applied { entries, node } => {
                let failures = (0..entries.len() as u32).map(|index| (index, error.clone())).collect();
                return self.applied(&entries, &node, failures);
            }
            PendingPurpose::Examined { examination, number } => {
                return self.examined(examination, number, Err(error));
            }
            PendingPurpose::Digested { task } => {
                for pick in 0..task.picks.entries.len() as u32 {
                    self.fail_stored(&task.node, task.origin, &task.picks, (pick, error.clone()))?;
                }
                self.task_done(&task.node);
            }
            PendingPurpose::Linked { followers } => {
                let failures = (0..followers.len() as u32).map(|index| (index, error.clone())).collect();
                self.linked(followers, failures)?;
            }
            PendingPurpose::Removed { paths, node } => {
                let failures = (0..paths.len() as u32).map(|index| (index, error.clone())).collect();
                self.removed(&paths, &node, failures);
            }
            PendingPurpose::Settled { nodes } => {
                let failures = (0..nodes.len() as u32).map(|index| (index, error.clone())).collect();
                self.settled(&nodes, failures);
            }
            // There is no chunk whose answer would end the file.
            PendingPurpose::Begun(file)
            | PendingPurpose::Unbegun(file)
            | PendingPurpose::BegunToClone(file)
                if file.chunks() == 0 && !file.is_open_ended() =>
            {
                self.fail_file(&file, at_target(error, &file.target), 0)?;
                return self.end_file(file, ChunkProgress::Abandon);
            }
            PendingPurpose::Begun(file) | PendingPurpose::BegunToClone(file) => {
                return self.begin_anew_if_invisible(file, error);
            }
            PendingPurpose::BegunAlone(file)
            | PendingPurpose::Unbegun(file)
            | PendingPurpose::Cloned(file) => {
                return self.fail_file(&file, at_target(error, &file.target), 0);
            }
            PendingPurpose::Chunk { file, extent, .. } => {
                return self.fail_file(&file, at_target(error, &file.target), chunk_count(extent.length));
            }
            PendingPurpose::Finished(file) | PendingPurpose::DraftShared(file) => {
                self.fail_file(&file, at_target(error, &file.target), 0)?;
                return self.end_file(file, ChunkProgress::Abandon);
            }
            PendingPurpose::Abandoned(file) => self.abandoned(&file),
            PendingPurpose::Ignored | PendingPurpose::Told => {}
        }
        Ok(())
    }

    fn applied(
        &mut self,
        entries: &[ChangedEntry],
        node: &Arc<DirectoryNode>,
        failures: Vec<(u32, Error)>,
    ) -> Result<()> {
        self.counters.entries_attributes_only.add((entries.len() - failures.len()) as u64);
        for ChangedEntry { target, first_of, .. } in but_failed(entries, &failures) {
            self.shared.changed(EntryAction::Attributes, target, 0);
            self.first_name_done(*first_of, target, true)?;
        }
        for (index, error) in failures {
            if let Some(ChangedEntry { source, target, first_of }) = entries.get(index as usize) {
                fail(self.shared, self.counters, failure(source, at_target(error, target)));
                self.first_name_failed(*first_of)?;
            }
        }
        entries.iter().for_each(|_| self.shared.queue.release(node, self.counters));
        self.shared.queue.complete(entries.len() as u64);
        Ok(())
    }

    fn removed(&mut self, paths: &[EntryPath], node: &Arc<DirectoryNode>, failures: Vec<(u32, Error)>) {
        self.counters.entries_deleted.add((paths.len() - failures.len()) as u64);
        self.counters.entries_only_in_target.add(failures.len() as u64);
        self.shared.record.deleted(but_failed(paths, &failures));
        for path in but_failed(paths, &failures) {
            self.shared.changed(EntryAction::Delete, path, 0);
        }
        for (index, error) in failures {
            node.stick();
            if let Some(path) = paths.get(index as usize) {
                fail(self.shared, self.counters, failure(path, at_target(error, path)));
            }
        }
        paths.iter().for_each(|_| self.shared.queue.release(node, self.counters));
        self.shared.queue.complete(paths.len() as u64);
    }

    fn settled(&mut self, nodes: &[Arc<DirectoryNode>], failures: Vec<(u32, Error)>) {
        for (index, error) in failures {
            // The reason why something in it stays has been reported.
            if let Some(node) = nodes.get(index as usize)
                && node.fail()
                && !node.is_stuck()
            {
                node.stick();
                fail(self.shared, self.counters, failure(node.source(), at_target(error, &node.target)));
            }
        }
        // Directories that failed are not counted here.
        let mut deleted = Vec::new();
        for node in nodes {
            node.count(self.counters);
            let Some(action) = node.change_made() else { continue };
            self.shared.changed(action, &node.target, 0);
            if action == EntryAction::Delete {
                deleted.push(&node.target);
            }
        }
        if !deleted.is_empty() {
            self.shared.record.deleted(deleted);
        }
        self.shared.queue.complete(nodes.len() as u64);
    }
}

/// Returns those of the items that did not fail. The indices of the failures are in ascending order.
fn but_failed<'a, T>(items: &'a [T], failures: &'a [(u32, Error)]) -> impl Iterator<Item = &'a T> {
    let mut failures = failures.iter().map(|(index, _)| *index as usize).peekable();
    let succeeded = items.iter().enumerate().filter(move |(index, _)| failures.next_if_eq(index).is_none());
    succeeded.map(|(_, item)| item)
}
