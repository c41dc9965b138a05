//! Lists both sides of directories, compares them, and sets the attributes of directories at the end.

use super::*;
use crate::entry::AccountId;
use crate::event::drafts_left_out;
use crate::job::{Mode, Removal};

/// The maximum number of account names in one operation.
const ACCOUNTS_AT_ONCE: usize = 256;

impl Worker<'_> {
    pub(super) fn directory(&mut self, task: DirectoryTask) -> Result<()> {
        let mut task = match task.target {
            TargetState::Rest(rest) => return self.portion(&task.node, rest),
            TargetState::Sides(sides) => return self.sides(&task.node, sides),
            TargetState::Named(names) => return self.named(&task.node, &names),
            target => DirectoryTask { target, ..task },
        };
        if !self.clear_place(&mut task)? {
            self.directories_done(1);
            return Ok(());
        }
        if matches!(task.target, TargetState::Listed(..)) && self.list_in_order(&task.node) {
            return self.begin_sides(task);
        }
        let mut parts = self.scan_sound(&mut task)?;
        if parts.is_empty() && !task.node.is_doomed() {
            self.directories_done(1);
            return Ok(());
        }
        let (target, prefetched) = match task.target {
            TargetState::Listed(target, prefetched) => (Some(target), prefetched),
            _ => (None, Prefetched::default()),
        };
        // If the target does not have the directory, this may be only its first page.
        let rest = parts.iter_mut().find_map(|part| part.rest.take()).map(TargetState::Rest);
        self.join_portion(&task.node, &parts, (target.as_ref(), &prefetched), rest)
    }

    pub(super) fn directories(&mut self, tasks: Vec<DirectoryTask>) -> Result<()> {
        let mut scanned = Vec::with_capacity(tasks.len());
        for mut task in tasks {
            if !self.clear_place(&mut task)? {
                self.directories_done(1);
                continue;
            }
            if self.list_in_order(&task.node) {
                self.begin_sides(task)?;
                continue;
            }
            let parts = self.scan_sound(&mut task)?;
            if parts.is_empty() && !task.node.is_doomed() {
                self.directories_done(1);
            } else {
                scanned.push((task, parts));
            }
        }
        // For directories that are removed, names and kinds are enough.
        let (doomed, others): (Vec<_>, Vec<_>) =
            scanned.into_iter().partition(|(task, _)| task.node.is_doomed());
        // The target is not asked for attributes that it cannot hold.
        self.list(others, Detail { missed: Classes::NONE, ..self.detail() })?;
        self.list(doomed, Detail { kinds_only: true, ..Detail::default() })
    }

    /// Removes the entry in whose place a directory is created. Returns false if that failed, which has been recorded.
    fn clear_place(&mut self, task: &mut DirectoryTask) -> Result<bool> {
        if !matches!(task.target, TargetState::Occupied) {
            return Ok(true);
        }
        task.target = TargetState::Absent;
        let path = task.node.target.clone();
        let changes = vec![Change::MakeDirectory { path, mode: 0o700 }];
        let TargetOutcome::PackWritten { failures, .. } = self.ask_target(TargetOp::Apply { changes })?
        else {
            return Err(unexpected());
        };
        let Some((_, error)) = failures.into_iter().next() else { return Ok(true) };
        self.fail_directory(&task.node, at_target(error, &task.node.target));
        Ok(false)
    }

    fn list(&mut self, tasks: Vec<(DirectoryTask, Vec<OriginListing>)>, detail: Detail) -> Result<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        let directories = tasks.iter().map(|(task, _)| task.node.target.clone()).collect();
        let budget = self.shared.portions.prefetched;
        let list = TargetOp::List { directories, budget, detail };
        self.submit(list, PendingPurpose::Listing { tasks }).map(drop)
    }

    /// Lists a source directory if it may be copied. Returns nothing if that failed, which has been recorded, or if
    /// only the target has the directory.
    fn scan_sound(&mut self, task: &mut DirectoryTask) -> Result<Vec<OriginListing>> {
        if task.node.is_doomed() {
            return Ok(Vec::new());
        }
        let is_new = matches!(task.target, TargetState::Absent);
        let detail = if is_new { self.new_detail() } else { self.detail() };
        let parts = match (task.known.take(), task.node.origins.first()) {
            (Some(known), Some(origin)) => self.scan_known(&task.node, origin, known)?,
            _ => self.scan(&task.node, detail, is_new && self.may_take_portions(&task.node))?,
        };
        // A top directory is in no listing that would show its losses.
        let unlisted = is_new || task.node.is_top() || self.shared.must_examine();
        let lost = !self.shared.ask.miss.is_empty() && unlisted;
        if !parts.is_empty() && lost && !self.count_losses(&task.node)? {
            return Ok(Vec::new());
        }
        Ok(parts)
    }

    /// Counts the losses of a directory at the target. Returns false if it must not be copied.
    pub(super) fn count_losses(&mut self, node: &Arc<DirectoryNode>) -> Result<bool> {
        let Some(origin) = node.first() else { return Ok(true) };
        let ask = self.shared.ask_losses();
        match examine(self.shared, &mut self.source, (origin.root, &origin.path), ask) {
            Ok(_) => Ok(true),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                self.fail_directory(node, at_source(error));
                Ok(false)
            }
        }
    }

    /// Returns the detail needed for entries that both sides may have.
    pub(super) fn detail(&self) -> Detail {
        let missed = self.shared.ask.miss | self.shared.masked;
        let proven = self.shared.setup.job.mode == Mode::Compare;
        Detail { kinds_only: false, extended: self.shared.ask.keep, missed, proven }
    }

    /// Returns the detail needed for entries that only the source has. If the target has no access control lists, it
    /// includes the mode that an entry may have without one.
    pub(super) fn new_detail(&self) -> Detail {
        Detail { missed: self.shared.masked, ..Detail::default() }
    }

    /// Lists all origins of a directory at the source, or the first page of its only origin. Failures are recorded; if
    /// nothing is left, the directory is done.
    fn scan(
        &mut self,
        node: &Arc<DirectoryNode>,
        detail: Detail,
        first_portion: bool,
    ) -> Result<Vec<OriginListing>> {
        let mut parts = Vec::with_capacity(node.origins.len());
        self.enter(LaneStage::Scan);
        for (index, origin) in node.origins.iter().enumerate() {
            let scanned = match first_portion {
                true => self.scan_portion(origin, None, detail),
                false => self.scan_origin(origin, detail).map(|known| (known, None)),
            };
            let scanned = scanned.map(|(PrefetchedDirectory { listing, below }, rest)| OriginListing {
                rest,
                below,
                ..OriginListing::whole(index, listing)
            });
            match scanned {
                Ok(part) => parts.push(part),
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => {
                    node.fail();
                    fail(self.shared, self.counters, failure(origin.named(), at_source(error)));
                }
            }
        }
        self.leave(LaneStage::Scan);
        if parts.is_empty() {
            self.shared.queue.release(node, self.counters);
        }
        Ok(parts)
    }

    /// Uses a listing that was sent along with that of a directory above; no operation is needed.
    fn scan_known(
        &mut self,
        node: &Arc<DirectoryNode>,
        origin: &Origin,
        known: PrefetchedDirectory,
    ) -> Result<Vec<OriginListing>> {
        let PrefetchedDirectory { mut listing, below } = known;
        match self.sift(origin, &mut listing) {
            Ok(()) => Ok(vec![OriginListing { below, ..OriginListing::whole(0, listing) }]),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                self.fail_directory(node, at_source(error));
                Ok(Vec::new())
            }
        }
    }

    /// Removes excluded and invalid entries from a listing, and sets the owners that the entries get at the target.
    pub(super) fn sift(&mut self, origin: &Origin, listing: &mut Listing) -> Result<()> {
        self.leave_drafts_out(origin, listing);
        self.refuse_twins(origin, listing)?;
        self.fail_refused(listing);
        self.examine_limited(origin, listing)?;
        self.check_inodes(origin, listing)?;
        self.by_name(listing)
    }

    fn scan_origin(&mut self, origin: &Origin, detail: Detail) -> Result<PrefetchedDirectory> {
        if let Some(only) = &origin.only {
            let mut listing = Listing::with_capacity(1);
            let path = origin.path.join(&only.name)?;
            let inspect = SourceOp::Stat { root: origin.root, path, detail };
            let SourceOutcome::Stat(Some(metadata)) = self.ask_source(inspect)? else {
                return Err(not_there());
            };
            listing.push(&only.name, metadata)?;
            listing.mark_exact();
            self.by_name(&mut listing)?;
            return Ok(PrefetchedDirectory { listing, below: Prefetched::default() });
        }
        let directories = vec![origin.path.clone()];
        let budget = self.shared.portions.prefetched_source;
        let list = SourceOp::List { root: origin.root, directories, budget, detail };
        let SourceOutcome::Listed(listed) = self.ask_source(list)? else { return Err(unexpected()) };
        let mut listed = listed.into_iter();
        let mut listing = listed.next().ok_or_else(unexpected)?.result?;
        self.sift(origin, &mut listing)?;
        Ok(PrefetchedDirectory { listing, below: Prefetched::new(listed) })
    }

    /// Refuses directories that have the same name as an object. A target with directories can hold only one of them,
    /// and the object takes precedence. The object is in the same listing, unless this page begins after it.
    fn refuse_twins(&mut self, origin: &Origin, listing: &mut Listing) -> Result<()> {
        let setup = self.shared.setup;
        if !setup.source.capabilities().shared_names
            || setup.target.capabilities().shared_names
            || listing.is_empty()
        {
            return Ok(());
        }
        let mut twins = Vec::new();
        for index in (0..listing.len()).filter(|index| listing.metadata(*index).kind == EntryKind::Directory)
        {
            let name = listing.name(index);
            let is_twin = if name < listing.name(0) {
                let path = origin.path.join(name)?;
                let inspect = SourceOp::Stat { root: origin.root, path, detail: Detail::default() };
                let SourceOutcome::Stat(found) = self.ask_source(inspect)? else {
                    return Err(unexpected());
                };
                found.is_some_and(|found| found.kind != EntryKind::Directory)
            } else {
                listing.find(name, false).is_some()
            };
            if is_twin {
                twins.push(index);
            }
        }
        for index in twins.iter().copied() {
            let path = origin.path.join(listing.name(index))?.as_bytes().to_vec();
            let words = "the source has an object of this name as well, and the target cannot have both; rename one of them";
            listing.refuse(Failure { path, error: Error::new(ErrorKind::Conflict, "copying", words) });
        }
        listing.remove(&twins);
        Ok(())
    }

    /// Fails entries whose names are invalid. Other entries are not affected.
    fn fail_refused(&self, listing: &Listing) {
        // The run before has reported them.
        if self.shared.setup.job.removal == Removal::Remove {
            return;
        }
        for refused in listing.refused() {
            let error = at_source(refused.error.clone());
            fail(self.shared, self.counters, failure(&refused.path, error));
        }
    }

    /// Counts the drafts in a source directory, which are left out, and reports the first such directories.
    fn leave_drafts_out(&self, origin: &Origin, listing: &Listing) {
        let drafts = listing.drafts();
        if drafts == 0 {
            return;
        }
        self.counters.entries_scanned.add(drafts);
        self.counters.entries_skipped.add(drafts);
        // The run before has reported them.
        if self.shared.setup.job.removal == Removal::Remove {
            return;
        }
        let earlier = self.shared.record.directory_with_drafts();
        if let Some(words) = drafts_left_out(&origin.named(), drafts, earlier) {
            self.shared.setup.observer.event(Event::Notice { words });
        }
    }

    /// Maps the owners in a source listing by name to the target's numbers, if requested.
    pub(super) fn by_name(&mut self, listing: &mut Listing) -> Result<()> {
        if !self.shared.setup.job.by_name {
            return Ok(());
        }
        let unknown = self.shared.accounts.unknown((0..listing.len()).map(|index| listing.metadata(index)));
        if !unknown.is_empty() {
            self.learn(unknown)?;
        }
        self.shared.accounts.translate(listing.all_metadata_mut());
        Ok(())
    }

    fn learn(&mut self, accounts: Vec<AccountId>) -> Result<()> {
        let asked = SourceOp::Names { accounts: accounts.clone() };
        let SourceOutcome::Names(names) = self.ask_source(asked)? else { return Err(unexpected()) };
        if names.len() != accounts.len() {
            return Err(unexpected());
        }
        let named = accounts.iter().zip(names).filter_map(|(account, name)| Some((*account, name?)));
        let named: Vec<_> = named.collect();
        // Accounts without a name keep their numbers and are not looked up again. They are published together with the
        // others, because other lanes must not use source numbers for accounts still being looked up.
        let mut known: HashMap<_, _> =
            accounts.into_iter().map(|account| (account, account.number())).collect();
        for named in named.chunks(ACCOUNTS_AT_ONCE) {
            let asked = TargetOp::Numbers { names: named.to_vec() };
            let TargetOutcome::Numbers(numbers) = self.ask_target(asked)? else { return Err(unexpected()) };
            if numbers.len() != named.len() {
                return Err(unexpected());
            }
            let found = named.iter().zip(numbers);
            known.extend(found.filter_map(|((account, _), number)| Some((*account, number?))));
        }
        self.shared.accounts.learn(known);
        Ok(())
    }

    /// Fails a directory that could not be listed on one of the sides. None of its contents are copied.
    pub(super) fn fail_directory(&mut self, node: &Arc<DirectoryNode>, error: Error) {
        // One of several origins may have been reported already, but not the others.
        node.stick();
        if node.fail() || node.origins.len() > 1 {
            fail(self.shared, self.counters, failure(node.source(), error));
        }
        self.shared.queue.release(node, self.counters);
    }

    pub(super) fn listed(
        &mut self,
        tasks: Vec<(DirectoryTask, Vec<OriginListing>)>,
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
                Ok(target) => self.join(&task.node, &parts, (Some(&target), &prefetched), None)?,
                // It disappeared after its parent was listed.
                Err(error) if error.kind == ErrorKind::NotFound => {
                    task.node.touch();
                    task.node.parent.iter().for_each(|parent| parent.touch());
                    self.join(&task.node, &parts, (None, &prefetched), None)?;
                }
                Err(error) => self.fail_directory(&task.node, at_target(error, &task.node.target)),
            }
        }
        self.directories_done(count);
        self.shared.give_shares();
        Ok(())
    }

    /// Compares the listed entries of a directory and adds the resulting tasks, with `rest` after them.
    pub(super) fn join(
        &mut self,
        node: &Arc<DirectoryNode>,
        parts: &[OriginListing],
        (target, prefetched): (Option<&Listing>, &Prefetched),
        rest: Option<DirectoryTask>,
    ) -> Result<()> {
        let renamed = match target {
            Some(target) => self.rename_by_case(node, parts, target)?,
            None => None,
        };
        let target = renamed.as_ref().or(target);
        self.join_examined((node, parts), (target, prefetched), rest, false)
    }

    /// Compares entries as [`Worker::join`] does. `again`: only those that were unclear and have been examined.
    pub(super) fn join_examined(
        &mut self,
        (node, parts): (&Arc<DirectoryNode>, &[OriginListing]),
        (target, prefetched): (Option<&Listing>, &Prefetched),
        rest: Option<DirectoryTask>,
        again: bool,
    ) -> Result<()> {
        self.enter(LaneStage::Scan);
        let mut found = {
            let mut drafts = draft_numbers(&mut self.next_draft);
            let (shared, source) = (self.shared, &mut self.source);
            let mut examine =
                |root: u16, path: &EntryPath, ask: ExtendedAsk| examine(shared, source, (root, path), ask);
            let join = Join::new(shared, self.counters, node, prefetched, &mut drafts, &mut examine);
            if again { join.again() } else { join }.run(parts, target)
        };
        let unclear = std::mem::take(&mut found.unclear);
        self.leave(LaneStage::Scan);
        if !self.shared.setup.job.dry_run {
            self.check_room(false)?;
        }
        // Another lane may finish the rest, the directory and even the run before this call ends.
        let held = u64::from(rest.is_some());
        node.hold(held);
        self.shared.queue.hold(held);
        if !unclear.is_empty() {
            node.hold(1);
            self.shared.queue.hold_scan();
        }
        self.add(node, found, rest)?;
        if !unclear.is_empty() {
            self.examine((node, parts), (target, prefetched), &unclear)?;
        }
        self.shared.queue.release(node, self.counters);
        self.shared.queue.complete(held);
        Ok(())
    }

    pub(super) fn add(
        &mut self,
        node: &Arc<DirectoryNode>,
        found: JoinResults,
        rest: Option<DirectoryTask>,
    ) -> Result<()> {
        let JoinResults { directories, packs, files, changes, failed, links, removals, given, unclear: _ } =
            found;
        self.give_names(given);
        match rest {
            Some(rest) => self.shared.queue.add_before(rest, directories, packs, files),
            None => self.shared.queue.add(directories, packs, files),
        }
        self.link(links)?;
        for inode in failed {
            self.first_name_failed(Some(inode))?;
        }
        self.shared.queue.hold((changes.len() + removals.len()) as u64);
        let kept_names = node.kept_names();
        let remove = |path| Change::Remove { path, directory: false, kept_names };
        for paths in removals.chunks(CHANGES_AT_ONCE) {
            let changes = paths.iter().cloned().map(remove).collect();
            let pending = PendingPurpose::Removed { paths: paths.to_vec(), node: node.clone() };
            self.submit(TargetOp::Apply { changes }, pending)?;
        }
        let both = |AttributeChange { entry, change }| (entry, change);
        for (entries, changes) in batches(changes.into_iter().map(both)) {
            let pending = PendingPurpose::Applied { entries, node: node.clone() };
            self.submit(TargetOp::Apply { changes }, pending)?;
        }
        Ok(())
    }

    pub(super) fn directories_done(&mut self, count: u64) {
        self.shared.queue.scanned(count);
        if self.shared.queue.scan_done() {
            self.scan_ended();
        }
        self.shared.queue.complete(count);
    }

    /// Records the end of the scan. From then on the need for space is known.
    pub(super) fn scan_ended(&self) {
        self.shared.record.scan_ended(self.shared.setup.clock.now_ns());
        if !self.shared.setup.job.dry_run {
            // A lack of space has stopped the run.
            let _ = self.check_room(true);
        }
    }

    /// Sets the attributes of directories below which everything is done. Only lane 0 does this, in the order in which
    /// they were finished, so that a directory comes after those it contains.
    pub(super) fn finish_directories(&mut self) -> Result<()> {
        let finished = self.shared.queue.take_finished();
        let finished = self.leave_open(finished);
        for (node, error) in finished.iter().filter_map(|node| Some((node, node.held_by_rule()?))) {
            fail(self.shared, self.counters, failure(node.source(), at_target(error, &node.target)));
        }
        if self.shared.setup.job.dry_run {
            for node in &finished {
                self.shared.plan_directory(node);
                node.count(self.counters);
            }
            self.shared.queue.complete(finished.len() as u64);
            return Ok(());
        }
        let mut changes = Vec::with_capacity(finished.len());
        for node in self.recheck_directories(finished)? {
            // After a failure, something in it may not have been examined. Its attributes are set by another run.
            let is_open = node.is_unproven() && !self.shared.record.is_clean();
            if let Some(mut change) = node.change().filter(|_| !is_open) {
                if node.is_doomed() && !self.shared.may_remove() {
                    return Ok(());
                }
                if let Change::Directory { extended, .. } = &mut change {
                    match self.extended_of(&node)? {
                        Ok(found) => *extended = found,
                        // Its mode may grant more than its access control list would, so a new directory stays closed.
                        Err(NotRead) => {
                            node.count(self.counters);
                            self.shared.queue.complete(1);
                            continue;
                        }
                    }
                }
                changes.push((node, change));
            } else {
                match is_open {
                    true => node.count_left(self.counters),
                    // Meanwhile something in it turned out to stay.
                    false => node.count(self.counters),
                }
                self.shared.queue.complete(1);
            }
        }
        for (nodes, changes) in batches(changes) {
            self.submit(TargetOp::Apply { changes }, PendingPurpose::Settled { nodes })?;
        }
        Ok(())
    }

    /// Returns the extended attributes of a complete directory if they have to be set.
    fn extended_of(
        &mut self,
        node: &Arc<DirectoryNode>,
    ) -> Result<std::result::Result<Option<Extended>, NotRead>> {
        let Some(origin) = node.first().filter(|_| node.extended && !self.shared.ask.keep.is_empty()) else {
            return Ok(Ok(None));
        };
        let ask = ExtendedAsk { miss: Classes::NONE, ..self.shared.ask };
        match examine(self.shared, &mut self.source, (origin.root, &origin.path), ask) {
            Ok(extended) => Ok(Ok(extended)),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                if node.fail() {
                    fail(self.shared, self.counters, failure(node.source(), at_source(error)));
                }
                Ok(Err(NotRead))
            }
        }
    }
}

/// The extended attributes of a directory could not be read, which has been recorded.
struct NotRead;

/// Requests the extended attributes of an entry and counts those that are lost. Fails if they must not be lost.
pub(super) fn examine(
    shared: &EngineState<'_>,
    source: &mut Source,
    (root, path): (u16, &EntryPath),
    which: ExtendedAsk,
) -> Result<Option<Extended>> {
    match source.ask(SourceOp::Extended { root, path: path.clone(), ask: which })? {
        SourceOutcome::Extended { extended, losses } => {
            shared.record.losses(losses);
            Ok(extended)
        }
        _ => Err(unexpected()),
    }
}
