//! Directories: listing both sides, comparing them, and setting their attributes in the end.

use super::*;

impl Worker<'_> {
    pub(super) fn directory(&mut self, task: DirectoryTask) -> Result<()> {
        if let Some(listing) = self.scan(&task.node)? {
            if matches!(task.target, TargetState::Absent) && !self.count_losses(&task.node)? {
                self.directories_done(1);
                return Ok(());
            }
            let (target, prefetched) = match task.target {
                TargetState::Listed(target, prefetched) => (Some(target), prefetched),
                _ => (None, Prefetched::default()),
            };
            self.join(&task.node, &listing, target.as_ref(), &prefetched)?;
        }
        self.directories_done(1);
        Ok(())
    }

    pub(super) fn directories(&mut self, tasks: Vec<DirectoryTask>) -> Result<()> {
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
        self.submit(list, Pending::Listing { tasks: scanned }).map(drop)
    }

    /// Counts what a new directory will lack. Whether it may be copied all the same.
    fn count_losses(&mut self, node: &Arc<Node>) -> Result<bool> {
        match self.ask_source(Operation::Losses { root: node.root, path: node.source.clone() }) {
            Ok(Outcome::Stored { losses, .. }) => {
                self.shared.record.losses(losses);
                Ok(true)
            }
            Ok(_) => Err(unexpected()),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                self.fail_directory(node, at_source(error));
                Ok(false)
            }
        }
    }

    /// Lists a directory of the source. `None`: it failed, which has been recorded.
    pub(super) fn scan(&mut self, node: &Arc<Node>) -> Result<Option<Arc<Listing>>> {
        self.enter(Stage::Scan);
        let list = Operation::List { root: node.root, directories: vec![node.source.clone()], budget: 0 };
        let outcome = self.ask_source(list);
        self.leave(Stage::Scan);
        let listed = match outcome {
            Ok(Outcome::Listed(mut listed)) => listed.pop().ok_or_else(unexpected)?.result,
            Ok(_) => return Err(unexpected()),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => Err(error),
        };
        match listed {
            Ok(listing) => Ok(Some(Arc::new(listing))),
            Err(error) => {
                self.fail_directory(node, at_source(error));
                Ok(None)
            }
        }
    }

    /// A directory could not be listed, on either side: nothing of what it holds is copied.
    pub(super) fn fail_directory(&mut self, node: &Arc<Node>, error: Error) {
        if node.fail() {
            fail(self.shared, self.counters, failure(&node.source, error));
        }
        self.shared.queue.release(node);
    }

    pub(super) fn listed(
        &mut self,
        tasks: Vec<(DirectoryTask, Arc<Listing>)>,
        listings: Vec<DirectoryListing>,
    ) -> Result<()> {
        let mut listings = listings.into_iter();
        let asked: Vec<_> = listings.by_ref().take(tasks.len()).collect();
        if asked.len() != tasks.len() {
            return Err(unexpected());
        }
        let prefetched = Prefetched::new(listings);
        let count = tasks.len() as u64;
        for ((task, listing), target) in tasks.into_iter().zip(asked) {
            match target.result {
                Ok(target) => self.join(&task.node, &listing, Some(&target), &prefetched)?,
                // It went away after its parent was listed.
                Err(error) if error.kind == ErrorKind::NotFound => {
                    task.node.touch();
                    task.node.parent.iter().for_each(|parent| parent.touch());
                    self.join(&task.node, &listing, None, &prefetched)?;
                }
                Err(error) => self.fail_directory(&task.node, at_target(error, &task.node.target)),
            }
        }
        self.directories_done(count);
        Ok(())
    }

    pub(super) fn join(
        &mut self,
        node: &Arc<Node>,
        listing: &Arc<Listing>,
        target: Option<&Listing>,
        prefetched: &Prefetched,
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

    pub(super) fn add(&mut self, node: &Arc<Node>, found: Found) -> Result<()> {
        let Found { directories, packs, files, changes } = found;
        self.shared.queue.add(directories, packs, files);
        self.shared.queue.hold(changes.len() as u64);
        for changes in changes.chunks(CHANGES_AT_ONCE) {
            let entries = changes.iter().map(|(source, change)| (source.clone(), change.path().clone()));
            let pending = Pending::Applied { entries: entries.collect(), node: node.clone() };
            let changes = changes.iter().map(|(_, change)| change.clone()).collect();
            self.submit(Operation::Apply { changes }, pending)?;
        }
        Ok(())
    }

    pub(super) fn directories_done(&mut self, count: u64) {
        self.shared.queue.scanned(count);
        if self.shared.queue.scan_done() {
            self.shared.record.scan_ended(self.shared.setup.clock.now_ns());
        }
        self.shared.queue.complete(count);
    }

    /// Sets the attributes of directories below which everything is done. Only lane 0 does, in the
    /// order in which they were finished, so that a directory comes after those it holds.
    pub(super) fn finish_directories(&mut self) -> Result<()> {
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
            self.submit(Operation::Apply { changes }, Pending::Settled { nodes: nodes.to_vec() })?;
        }
        Ok(())
    }
}
