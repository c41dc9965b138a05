//! The target's answers, and what each leads to.

use super::*;

impl Worker<'_> {
    pub(super) fn answer(&mut self, completion: Completion) -> Result<()> {
        if completion.ticket == ASKED {
            self.asked = Some(completion.result);
            return Ok(());
        }
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
            (Pending::Stored { task, packed, content_bytes }, Ok(Outcome::Stored { failures, losses })) => {
                self.shared.record.losses(losses);
                self.stored((task, packed, content_bytes), failures)
            }
            (Pending::Applied { sources, node }, Ok(Outcome::Stored { failures, losses })) => {
                check_indices(&failures, sources.len())?;
                self.shared.record.losses(losses);
                self.applied(&sources, &node, failures);
                Ok(())
            }
            (Pending::Settled { nodes }, Ok(Outcome::Stored { failures, losses })) => {
                check_indices(&failures, nodes.len())?;
                self.shared.record.losses(losses);
                self.settled(&nodes, failures);
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
            (Pending::Abandoned(file), Ok(Outcome::Done)) => {
                self.abandoned(&file);
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
                    self.fail_directory(&task.node, error.clone());
                }
                self.directories_done(count);
            }
            Pending::Stored { task, packed, .. } => {
                let directory = &task.node.origins.get(task.origin).ok_or_else(unexpected)?.path;
                for pick in packed {
                    self.fail_pick(directory, &task.picks, pick, error.clone());
                }
                self.task_done(&task.node);
            }
            Pending::Applied { sources, node } => {
                let failures = (0..sources.len() as u32).map(|index| (index, error.clone())).collect();
                self.applied(&sources, &node, failures);
            }
            Pending::Settled { nodes } => {
                let failures = (0..nodes.len() as u32).map(|index| (index, error.clone())).collect();
                self.settled(&nodes, failures);
            }
            Pending::Begun(file)
            | Pending::BegunAlone(file)
            | Pending::BegunToClone(file)
            | Pending::Cloned(file) => return self.fail_file(&file, error, 0),
            Pending::Chunk { file, .. } => return self.fail_file(&file, error, 1),
            Pending::Finished(file) => {
                self.fail_file(&file, error, 0)?;
                return self.end_file(file, Progress::Abandon);
            }
            Pending::Abandoned(file) => self.abandoned(&file),
            Pending::Ignored => {}
        }
        Ok(())
    }

    fn applied(&mut self, sources: &[EntryPath], node: &Arc<Node>, failures: Vec<(u32, Error)>) {
        self.counters.entries_attributes_only.add((sources.len() - failures.len()) as u64);
        for (index, error) in failures {
            if let Some(source) = sources.get(index as usize) {
                fail(self.shared, self.counters, failure(source, error));
            }
        }
        sources.iter().for_each(|_| self.shared.queue.release(node, self.counters));
        self.shared.queue.complete(sources.len() as u64);
    }

    fn settled(&mut self, nodes: &[Arc<Node>], failures: Vec<(u32, Error)>) {
        for (index, error) in failures {
            if let Some(node) = nodes.get(index as usize)
                && node.fail()
            {
                fail(self.shared, self.counters, failure(node.source(), error));
            }
        }
        // What failed does not count.
        nodes.iter().for_each(|node| node.count(self.counters));
        self.shared.queue.complete(nodes.len() as u64);
    }
}
