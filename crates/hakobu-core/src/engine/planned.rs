//! The requests that the changes of a plan would take at object stores.
//!
//! A dry run looks at both sides as the run after it does. These are the requests that come on top: for what is read and
//! written, and for what is only asked for where something is written.

use super::lane::CHANGES_AT_ONCE;
use super::node::DirectoryNode;
use super::shared::EngineState;
use crate::capabilities::ContentSharing;
use crate::entry::{EntryKind, EntryMetadata};
use crate::extended::lost_digest;
use crate::extent::CHUNK_BYTES;
use crate::planner::same_attributes;
use crate::requests::{RequestCosts, RequestCounts, RunRequests};

/// The metadata of one entry.
const LOOK: RequestCounts = RequestCounts { head: 1, ..RequestCounts::NONE };

impl EngineState<'_> {
    /// Records what changes take at each end that counts requests, in a dry run.
    fn plan(
        &self,
        at_source: impl FnOnce(&RequestCosts) -> RequestCounts,
        at_target: impl FnOnce(&RequestCosts) -> RequestCounts,
    ) {
        if !self.setup.job.dry_run {
            return;
        }
        let (source, target) = (self.setup.source.capabilities(), self.setup.target.capabilities());
        let requests = RunRequests {
            source: source.request_costs.map(at_source).unwrap_or_default(),
            target: target.request_costs.map(at_target).unwrap_or_default(),
        };
        self.record.plan_requests(&requests);
    }

    /// Records the requests for an entry that is copied. `alone`: it is not transferred together with others. `is_exact`:
    /// the source has been asked for it already.
    pub(super) fn plan_content(&self, metadata: &EntryMetadata, alone: bool, is_exact: bool) {
        let is_file = metadata.kind == EntryKind::File;
        let size_bytes = if metadata.is_special() { 0 } else { metadata.size_bytes };
        let copies = self.sharing() == Some(ContentSharing::InStore) && !(alone && size_bytes == 0);
        let target = self.setup.target;
        let at_source = |costs: &RequestCosts| {
            let run_bytes = match target.run_bytes(size_bytes) {
                run_bytes if run_bytes > CHUNK_BYTES => run_bytes,
                _ => self.setup.source.run_bytes(size_bytes),
            };
            // A copy that the store makes at once is that of the version that was looked at.
            let rechecked = self.evidence.must_recheck() && (alone || !copies);
            let mut looks = u64::from(copies) + u64::from(rechecked);
            if alone {
                let examined = is_file && !is_exact && self.evidence.source_lacks();
                let begun = target.capabilities().attributes_first
                    && !self.ask.keep.is_empty()
                    && size_bytes > target.run_bytes(size_bytes);
                // It is looked at once more at the end.
                looks += u64::from(examined) + u64::from(begun) + 1;
            }
            let content = match (copies, alone) {
                (true, _) => RequestCounts::default(),
                (false, true) => costs.read(size_bytes, run_bytes),
                (false, false) => costs.read(size_bytes, u64::MAX),
            };
            LOOK.times(looks).plus(&content)
        };
        let at_target = |costs: &RequestCosts| match copies {
            true => costs.copied(size_bytes),
            false => costs.stored(size_bytes),
        };
        self.plan(at_source, at_target);
    }

    /// Records the requests for an entry that gets other attributes.
    pub(super) fn plan_attributes(&self, source: &EntryMetadata, target: Option<&EntryMetadata>) {
        let extended = target.is_some_and(|target| !target.same_extended(source));
        // The entry itself stays as it is if only what the target keeps apart from it is lost.
        let is_lost = target.filter(|target| target.missed).is_some_and(|target| {
            let there = EntryMetadata { extended: lost_digest(target.extended), ..*target };
            same_attributes(source, &there, &self.able)
        });
        let at_target = |costs: &RequestCosts| if is_lost { LOOK } else { costs.attributes };
        self.plan(|_| LOOK.times(u64::from(extended)), at_target);
    }

    /// Records the requests for a further name of a file. `to_known`: this run stores the file.
    pub(super) fn plan_link(&self, to_known: bool) {
        let looks = u64::from(self.evidence.must_recheck());
        let copy = RequestCounts { copy: 1, ..RequestCounts::default() };
        self.plan(|_| LOOK.times(looks), |_| LOOK.times(u64::from(!to_known)).plus(&copy));
    }

    /// Records the requests for files of one directory that are deleted, as many at a time as one operation takes.
    pub(super) fn plan_removals(&self, files: u64) {
        let at_once = CHANGES_AT_ONCE as u64;
        let deleted = |costs: &RequestCosts| {
            costs.deleted(at_once).times(files / at_once).plus(&costs.deleted(files % at_once))
        };
        self.plan(|_| RequestCounts::default(), deleted);
    }

    /// Returns the requests that the changes of a plan take besides those that the plan has taken. `opened`: those before
    /// anything was listed.
    pub(super) fn planned_requests(&self, opened: &RunRequests, taken: &RunRequests) -> RunRequests {
        let mut planned = self.record.planned_requests();
        if !self.setup.job.dry_run || !self.record.plans_removals() {
            return planned;
        }
        // Another run deletes. It opens both ends and lists them, and looks at nothing else.
        let able = [self.setup.source.capabilities(), self.setup.target.capabilities()];
        let looked = self.record.looked_at_directories();
        let ends = [
            (&mut planned.source, &opened.source, &taken.source),
            (&mut planned.target, &opened.target, &taken.target),
        ];
        for ((able, looked), (planned, opened, taken)) in able.into_iter().zip(looked).zip(ends) {
            let looks =
                able.request_costs.map_or(0, |costs| costs.directory_look.list).saturating_mul(looked);
            let (list, head) = (taken.list.saturating_sub(looks), opened.head);
            planned.merge(&RequestCounts { list, head, ..RequestCounts::NONE });
        }
        planned
    }

    /// Records the requests for a directory that is deleted.
    pub(super) fn plan_removed_directory(&self) {
        self.plan(|_| RequestCounts::default(), |costs| costs.removed_directory);
    }

    /// Records the requests for the attributes of a directory that is done.
    pub(super) fn plan_directory(&self, node: &DirectoryNode) {
        let of_target = |costs: &RequestCosts, extended: bool| {
            let object = if node.is_new() { costs.directory } else { costs.existing_directory };
            if extended { object } else { object.plus(&costs.kept_attributes) }
        };
        if node.is_set() {
            let extended = node.extended && !self.ask.keep.is_empty();
            let examined = node.is_new() && !node.is_top() && self.evidence.source_lacks();
            let rechecked = self.evidence.must_recheck() && node.listed_ctime.is_some();
            let looks = u64::from(extended) + u64::from(examined) + u64::from(rechecked);
            self.plan(|costs| costs.directory_look.times(looks), |costs| of_target(costs, extended));
        }
        // The run that deletes gives the directory its attributes back.
        if node.shrinks() && !self.evidence.target_lacks() {
            self.plan(|_| RequestCounts::default(), |costs| of_target(costs, false));
        }
    }
}
