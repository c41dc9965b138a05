//! The target's answers, and what each leads to.

use super::*;

impl Worker<'_> {
    pub(super) fn answer(&mut self, completion: Completion) -> Result<()> {
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
    pub(super) fn failed(&mut self, pending: Pending, error: Error) -> Result<()> {
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

    pub(super) fn applied(
        &mut self,
        changes: &[Change],
        node: Option<&Arc<Node>>,
        failures: Vec<(u32, Error)>,
    ) {
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
}
