//! Directories: listing both sides, comparing them, and setting their attributes in the end.

use super::*;

impl Worker<'_> {
    pub(super) fn directory(&mut self, task: DirectoryTask) -> Result<()> {
        let parts = self.scan_sound(&task)?;
        if !parts.is_empty() || task.node.is_doomed() {
            let (target, prefetched) = match task.target {
                TargetState::Listed(target, prefetched) => (Some(target), prefetched),
                _ => (None, Prefetched::default()),
            };
            self.join(&task.node, &parts, target.as_ref(), &prefetched)?;
        }
        self.directories_done(1);
        Ok(())
    }

    pub(super) fn directories(&mut self, tasks: Vec<DirectoryTask>) -> Result<()> {
        let mut scanned = Vec::with_capacity(tasks.len());
        for task in tasks {
            let parts = self.scan_sound(&task)?;
            if parts.is_empty() && !task.node.is_doomed() {
                self.directories_done(1);
            } else {
                scanned.push((task, parts));
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

    /// Lists a directory of the source if it may be copied. Nothing: it failed, which has been
    /// recorded, or only the target has it.
    fn scan_sound(&mut self, task: &DirectoryTask) -> Result<Vec<Part>> {
        if task.node.is_doomed() {
            return Ok(Vec::new());
        }
        let parts = self.scan(&task.node)?;
        let is_new = matches!(task.target, TargetState::Absent);
        if !parts.is_empty() && (is_new || self.shared.must_examine()) && !self.count_losses(&task.node)? {
            return Ok(Vec::new());
        }
        Ok(parts)
    }

    /// Counts what a directory lacks at the target. Whether it may be copied all the same.
    fn count_losses(&mut self, node: &Arc<Node>) -> Result<bool> {
        let Some(origin) = node.first() else { return Ok(true) };
        match examine(self.shared, &mut *self.source, origin.root, &origin.path) {
            Ok(()) => Ok(true),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                self.fail_directory(node, at_source(error));
                Ok(false)
            }
        }
    }

    /// Lists a directory of the source, each of its origins. What fails is recorded; if nothing is
    /// left, the directory is done.
    pub(super) fn scan(&mut self, node: &Arc<Node>) -> Result<Vec<Part>> {
        let mut parts = Vec::with_capacity(node.origins.len());
        self.enter(Stage::Scan);
        for (index, origin) in node.origins.iter().enumerate() {
            match self.scan_origin(origin) {
                Ok(listing) => parts.push(Part { origin: index, listing: Arc::new(listing) }),
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => {
                    node.fail();
                    fail(self.shared, self.counters, failure(origin.named(), at_source(error)));
                }
            }
        }
        self.leave(Stage::Scan);
        if parts.is_empty() {
            self.shared.queue.release(node, self.counters);
        }
        Ok(parts)
    }

    fn scan_origin(&mut self, origin: &Origin) -> Result<Listing> {
        if let Some(only) = &origin.only {
            let mut listing = Listing::with_capacity(1);
            let inspect = Operation::Inspect { root: origin.root, path: origin.path.join(&only.name)? };
            let Outcome::Inspected(Some(metadata)) = self.ask_source(inspect)? else {
                return Err(not_there());
            };
            listing.push(&only.name, metadata)?;
            return Ok(listing);
        }
        let list = Operation::List { root: origin.root, directories: vec![origin.path.clone()], budget: 0 };
        match self.ask_source(list)? {
            Outcome::Listed(mut listed) => listed.pop().ok_or_else(unexpected)?.result,
            _ => Err(unexpected()),
        }
    }

    /// A directory could not be listed, on either side: nothing of what it holds is copied.
    pub(super) fn fail_directory(&mut self, node: &Arc<Node>, error: Error) {
        // Of several origins one may have been told already, but not the others.
        node.stick();
        if node.fail() || node.origins.len() > 1 {
            fail(self.shared, self.counters, failure(node.source(), error));
        }
        self.shared.queue.release(node, self.counters);
    }

    pub(super) fn listed(
        &mut self,
        tasks: Vec<(DirectoryTask, Vec<Part>)>,
        listings: Vec<DirectoryListing>,
    ) -> Result<()> {
        let mut listings = listings.into_iter();
        let asked: Vec<_> = listings.by_ref().take(tasks.len()).collect();
        if asked.len() != tasks.len() {
            return Err(unexpected());
        }
        let prefetched = Prefetched::new(listings);
        let count = tasks.len() as u64;
        for ((task, parts), target) in tasks.into_iter().zip(asked) {
            match target.result {
                Ok(target) => self.join(&task.node, &parts, Some(&target), &prefetched)?,
                // It went away after its parent was listed.
                Err(error) if error.kind == ErrorKind::NotFound => {
                    task.node.touch();
                    task.node.parent.iter().for_each(|parent| parent.touch());
                    self.join(&task.node, &parts, None, &prefetched)?;
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
        parts: &[Part],
        target: Option<&Listing>,
        prefetched: &Prefetched,
    ) -> Result<()> {
        self.enter(Stage::Scan);
        let found = {
            let mut drafts = draft_numbers(&mut self.next_draft);
            let (shared, source) = (self.shared, &mut *self.source);
            let mut examine = |root: u16, path: &EntryPath| examine(shared, source, root, path);
            Join::new(shared, self.counters, node, prefetched, &mut drafts, &mut examine).run(parts, target)
        };
        self.leave(Stage::Scan);
        self.add(node, found)?;
        self.shared.queue.release(node, self.counters);
        Ok(())
    }

    pub(super) fn add(&mut self, node: &Arc<Node>, found: Found) -> Result<()> {
        let Found { directories, packs, files, changes, removals } = found;
        self.shared.queue.add(directories, packs, files);
        self.shared.queue.hold((changes.len() + removals.len()) as u64);
        let kept_names = node.kept_names();
        let remove = |path| Change::Remove { path, directory: false, kept_names };
        for paths in removals.chunks(CHANGES_AT_ONCE) {
            let changes = paths.iter().cloned().map(remove).collect();
            let pending = Pending::Removed { paths: paths.to_vec(), node: node.clone() };
            self.submit(Operation::Apply { changes }, pending)?;
        }
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
            finished.iter().for_each(|node| node.count(self.counters));
            self.shared.queue.complete(finished.len() as u64);
            return Ok(());
        }
        for nodes in finished.chunks(CHANGES_AT_ONCE) {
            let (mut settled, mut changes) = (Vec::with_capacity(nodes.len()), Vec::new());
            for node in nodes {
                if let Some(change) = node.change() {
                    if node.is_doomed() && !self.shared.may_remove() {
                        return Ok(());
                    }
                    settled.push(node.clone());
                    changes.push(change);
                } else {
                    // It has turned out meanwhile that something in it stays.
                    node.count(self.counters);
                    self.shared.queue.complete(1);
                }
            }
            if !changes.is_empty() {
                self.submit(Operation::Apply { changes }, Pending::Settled { nodes: settled })?;
            }
        }
        Ok(())
    }
}

/// Counts the extended attributes of an entry that are lost; fails if they must not be.
pub(super) fn examine(shared: &Shared<'_>, source: &mut dyn Lane, root: u16, path: &EntryPath) -> Result<()> {
    match ask(source, Operation::Losses { root, path: path.clone() })? {
        Outcome::Stored { losses, .. } => {
            shared.record.losses(losses);
            Ok(())
        }
        _ => Err(unexpected()),
    }
}
