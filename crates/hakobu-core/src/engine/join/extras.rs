//! Handles entries that only the target has.

use super::*;
use crate::engine::node::ExtraDirectory;
use crate::job::Removal;
use crate::plant::planted;

impl Join<'_> {
    /// Returns true if an entry may replace one of another kind. An entry that the user named may not, unless it is a
    /// directory; the entry in its place was checked before.
    pub(super) fn makes_way(&self, source: &EntryMetadata) -> bool {
        let may = self.shared.setup.job.removal != Removal::Leave;
        may && (self.target_name.is_none() || source.kind == EntryKind::Directory)
    }

    /// Returns true if a filter excludes an entry of the source. Entries that the user named are never excluded.
    pub(super) fn is_left_out(&mut self, name: &[u8], metadata: &EntryMetadata) -> bool {
        let Some(filter) = self.shared.filter.as_ref().filter(|_| self.target_name.is_none()) else {
            return false;
        };
        let top_bytes = self.below_top.len();
        self.below_top.extend_from_slice(name);
        filter.saw(&self.below_top);
        let left_out = filter.leaves_out(&self.below_top, metadata);
        self.below_top.truncate(top_bytes);
        left_out
    }

    /// Returns true if a filter rule protects an entry that only the target has.
    pub(super) fn is_protected(&mut self, name: &[u8], kind: EntryKind) -> bool {
        let Some(filter) = self.shared.filter.as_ref().filter(|_| !planted("removal-ignores-filter")) else {
            return false;
        };
        let top_bytes = self.below_top.len();
        self.below_top.extend_from_slice(name);
        let protected = filter.rules_leave_out(&self.below_top, kind == EntryKind::Directory);
        self.below_top.truncate(top_bytes);
        protected
    }

    /// Returns the error if an entry cannot replace the target's entry because a filter rule protects that one. This
    /// happens if a rule is only about directories, or only about other entries.
    pub(super) fn is_held_by_rule(
        &mut self,
        source: &EntryMetadata,
        target: &Listing,
        index: usize,
    ) -> Option<Error> {
        let there = target.metadata(index).kind;
        let one_is_a_directory = (source.kind == EntryKind::Directory) != (there == EntryKind::Directory);
        if !one_is_a_directory || self.target_name.is_some() || !self.is_protected(target.name(index), there)
        {
            return None;
        }
        let words = format!(
            "the target has {} where the source has {}, and a filter rule leaves that alone; remove or rename one of \
             them, or change the rule",
            there.words(),
            source.kind.words()
        );
        Some(Error::new(ErrorKind::Conflict, "copying", words))
    }

    /// Returns true if this run only removes.
    pub(super) fn removes(&self) -> bool {
        self.shared.setup.job.removal == Removal::Remove
    }

    /// Returns true if everything that the source has here is known, so that other entries are only at the target.
    fn is_complete(&self, parts: &[OriginListing]) -> bool {
        parts.len() == self.node.origins.len() && self.node.origins.iter().all(|origin| origin.only.is_none())
    }

    pub(super) fn begin_extras(&mut self, parts: &[OriginListing], target: &Listing) {
        if self.again {
            return;
        }
        if self.verifies() && self.is_complete(parts) {
            self.matched = vec![false; target.len()];
        }
        if self.shared.setup.job.removal == Removal::Leave {
            return;
        }
        if !self.node.has_found_entries() {
            self.counters.entries_in_target.add(target.len() as u64);
        }
        if self.is_complete(parts) {
            self.matched = vec![false; target.len()];
        }
    }

    /// Handles the target's entries that were not found at the source. `matched`: the number of those that were found.
    pub(super) fn end_extras(&mut self, target: &Listing, matched: u64) {
        if self.again {
            return;
        }
        if self.verifies() {
            return self.verify_extras(target);
        }
        if self.shared.setup.job.removal == Removal::Leave {
            self.counters.entries_only_in_target.add((target.len() as u64).saturating_sub(matched));
            return;
        }
        let matched = std::mem::take(&mut self.matched);
        for index in matched.iter().enumerate().filter_map(|(index, matched)| (!matched).then_some(index)) {
            self.extra(target, index, None);
        }
    }

    /// Removes an entry of the target, or counts it and its contents. `in_the_way_of`: the kind of the source's entry.
    pub(super) fn extra(&mut self, target: &Listing, index: usize, in_the_way_of: Option<EntryKind>) {
        let path = match self.node.target.join(target.name(index)) {
            Ok(path) => path,
            Err(error) => return self.fail(target.name(index), error),
        };
        let removed = self.removes();
        let metadata = target.metadata(index);
        if self.is_protected(target.name(index), metadata.kind) {
            self.node.spare();
            return self.counters.entries_skipped.add(1);
        }
        let size_bytes = if metadata.kind == EntryKind::File { metadata.size_bytes } else { 0 };
        self.planned("delete", &path, size_bytes);
        if self.shared.setup.job.dry_run {
            self.node.shrink();
        }
        match metadata.kind {
            EntryKind::Directory => self.shared.plan_removed_directory(),
            _ => self.deletions += 1,
        }
        if removed {
            // If the source has changed since the user agreed, for example because it is no longer mounted, the run
            // must stop. Directories are counted when they are removed, because a filter rule may protect something in
            // them.
            if metadata.kind != EntryKind::Directory && !self.shared.may_remove() {
                return;
            }
            self.node.touch();
        } else {
            self.shared.record.only_in_target(&path);
        }
        if metadata.kind == EntryKind::Directory {
            let listed = |listing| TargetState::Listed(listing, self.prefetched.clone());
            let state = self.prefetched.take(&path).map_or(TargetState::Unknown, listed);
            let doomed = ExtraDirectory { removed, kept_names: self.node.kept_names(), in_the_way_of };
            let node = DirectoryNode::doomed(path, self.node, doomed);
            self.found.directories.push(DirectoryTask::new(node, state));
        } else if removed {
            self.node.hold(1);
            self.found.removals.push(path);
        } else {
            self.counters.entries_only_in_target.add(1);
        }
    }
}
