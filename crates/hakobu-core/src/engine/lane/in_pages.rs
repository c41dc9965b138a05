//! Copies and compares directories page by page, without listing them completely first.

use super::*;
use crate::handle::Cursor;

/// The maximum number of entries in the first page of a directory, so that the first entries are copied soon.
const FIRST_ENTRIES: usize = 1000;
/// The maximum number of entries in further pages. It bounds the memory used. Object stores list pages of 1000.
const PORTION_ENTRIES: usize = 8000;

/// Returns the maximum number of entries in the page from a cursor on.
fn page_entries(from: Option<&Cursor>) -> usize {
    if from.is_some() { PORTION_ENTRIES } else { FIRST_ENTRIES }
}

impl Worker<'_> {
    /// Returns true if a directory can be copied in pages. Plans and reports need sorted entries, and if the target
    /// ignores case all names have to be compared.
    pub(super) fn may_take_portions(&self, node: &DirectoryNode) -> bool {
        let job = self.shared.setup.job;
        let writes = !job.dry_run && !job.mode.only_reads() && job.removal != Removal::Remove;
        let whole = matches!(&node.origins[..], [origin] if origin.only.is_none());
        writes && whole && !self.shared.setup.target.capabilities().names.ignores_case
    }

    /// Lists the next page of a source directory.
    pub(super) fn scan_portion(
        &mut self,
        origin: &Origin,
        from: Option<Cursor>,
        detail: Detail,
    ) -> Result<(PrefetchedDirectory, Option<Cursor>)> {
        let (root, directory, entries) = (origin.root, origin.path.clone(), page_entries(from.as_ref()));
        let portion = SourceOp::Page { root, directory, from, entries, detail };
        let SourceOutcome::Page(ListingPage { mut listing, rest, below }) = self.ask_source(portion)? else {
            return Err(unexpected());
        };
        self.sift(origin, &mut listing)?;
        Ok((PrefetchedDirectory { listing, below: Prefetched::new(below.into_iter()) }, rest))
    }

    /// Copies the next page of a directory that did not exist at the target.
    pub(super) fn portion(&mut self, node: &Arc<DirectoryNode>, from: Cursor) -> Result<()> {
        let Some(origin) = node.origins.first() else { return Err(unexpected()) };
        self.enter(LaneStage::Scan);
        let scanned = self.scan_portion(origin, Some(from), self.new_detail());
        self.leave(LaneStage::Scan);
        match scanned {
            Ok((PrefetchedDirectory { listing, below }, rest)) => {
                let part = OriginListing { below, ..OriginListing::whole(0, listing) };
                let rest = rest.map(TargetState::Rest);
                self.join_portion(node, &[part], (None, &Prefetched::default()), rest)
            }
            Err(error) => self.fail_portion(node, at_source(error)),
        }
    }

    /// Compares the listed entries of a directory, and queues the rest, if any, for any lane.
    pub(super) fn join_portion(
        &mut self,
        node: &Arc<DirectoryNode>,
        parts: &[OriginListing],
        target: (Option<&Listing>, &Prefetched),
        rest: Option<TargetState>,
    ) -> Result<()> {
        let is_last = rest.is_none();
        let rest = rest.map(|rest| DirectoryTask::new(node.clone(), rest));
        self.join(node, parts, target, rest)?;
        if is_last {
            self.directories_done(1);
        }
        // Before the next page is read, so that whoever lists does not copy them all.
        self.shared.give_shares();
        Ok(())
    }

    /// Returns true if both sides list a directory in order, so that neither has to be listed completely first.
    pub(super) fn list_in_order(&self, node: &DirectoryNode) -> bool {
        let setup = self.shared.setup;
        let [source, target] = [setup.source.capabilities(), setup.target.capabilities()];
        let is_one = node.is_doomed() || matches!(&node.origins[..], [origin] if origin.only.is_none());
        is_one && source.lists_in_order && target.lists_in_order && !target.names.ignores_case
    }

    fn page_order(&self) -> PageOrder {
        let setup = self.shared.setup;
        let [source, target] = [setup.source.capabilities(), setup.target.capabilities()];
        PageOrder(source.key_order.filter(|order| target.key_order == Some(*order)))
    }

    /// Begins a directory that both sides list in order.
    pub(super) fn begin_sides(&mut self, task: DirectoryTask) -> Result<()> {
        let DirectoryTask { node, target, known } = task;
        let node = &node;
        let unlisted = node.is_top() || self.shared.must_examine();
        if !self.shared.ask.miss.is_empty() && unlisted && !node.is_doomed() && !self.count_losses(node)? {
            self.directories_done(1);
            return Ok(());
        }
        let mut sides = Box::new(PendingEntries::new(!node.is_doomed(), self.page_order()));
        if let (Some(PrefetchedDirectory { mut listing, below }), Some(origin)) =
            (known, node.origins.first())
        {
            let sifted = self.sift(origin, &mut listing);
            if let Err(error) = sifted.and_then(|()| sides.source.add(listing, None, below)) {
                return self.fail_portion(node, at_source(error));
            }
        }
        if let TargetState::Listed(listing, below) = target
            && let Err(error) = sides.target.add(listing, None, below)
        {
            return self.fail_portion(node, at_target(error, &node.target));
        }
        self.sides(node, sides)
    }

    /// Lists as much of both sides as is needed to continue with a directory.
    pub(super) fn sides(&mut self, node: &Arc<DirectoryNode>, mut sides: Box<PendingEntries>) -> Result<()> {
        if let Some(origin) = node.origins.first().filter(|_| sides.source.wants_more()) {
            self.enter(LaneStage::Scan);
            let scanned = self.scan_portion(origin, sides.source.take_cursor(), self.detail());
            self.leave(LaneStage::Scan);
            let added = scanned.and_then(|(known, rest)| sides.source.add(known.listing, rest, known.below));
            if let Err(error) = added {
                return self.fail_portion(node, at_source(error));
            }
        }
        if !sides.target.wants_more() {
            return self.join_sides(node, sides);
        }
        let (directory, from) = (node.target.clone(), sides.target.take_cursor());
        let entries = page_entries(from.as_ref());
        // For a directory that is removed, names and kinds are enough.
        let detail = match node.is_doomed() {
            true => Detail { kinds_only: true, ..Detail::default() },
            false => Detail { missed: Classes::NONE, ..self.detail() },
        };
        let portion = TargetOp::Page { directory, from, entries, detail };
        self.submit(portion, PendingPurpose::Portion { node: node.clone(), sides }).map(drop)
    }

    /// Handles a page listed by the target.
    pub(super) fn target_portion(
        &mut self,
        node: &Arc<DirectoryNode>,
        mut sides: Box<PendingEntries>,
        portion: Result<ListingPage>,
    ) -> Result<()> {
        let added = portion.and_then(|ListingPage { listing, rest, below }| {
            sides.target.add(listing, rest, Prefetched::new(below.into_iter()))
        });
        match added {
            Ok(()) => {}
            // It disappeared after its parent was listed.
            Err(error) if error.kind == ErrorKind::NotFound => {
                node.touch();
                node.parent.iter().for_each(|parent| parent.touch());
                sides.target.end();
            }
            Err(error) => return self.fail_portion(node, at_target(error, &node.target)),
        }
        self.join_sides(node, sides)
    }

    /// Compares the entries that are known on both sides.
    fn join_sides(&mut self, node: &Arc<DirectoryNode>, mut sides: Box<PendingEntries>) -> Result<()> {
        let (source, target) = match sides.take() {
            Ok(taken) => taken,
            Err(error) => return self.fail_portion(node, at_source(error)),
        };
        let (of_source, of_target) = (sides.source.below.clone(), sides.target.below.clone());
        let rest = (!sides.is_done()).then_some(TargetState::Sides(sides));
        let parts = match node.is_doomed() {
            true => Vec::new(),
            false => vec![OriginListing { below: of_source, ..OriginListing::whole(0, source) }],
        };
        self.join_portion(node, &parts, (Some(&target), &of_target), rest)
    }

    /// Fails a directory that cannot be listed to its end. The remaining entries are neither copied nor removed.
    fn fail_portion(&mut self, node: &Arc<DirectoryNode>, error: Error) -> Result<()> {
        if error.is_fatal() {
            return Err(error);
        }
        self.fail_directory(node, error);
        self.directories_done(1);
        Ok(())
    }
}
