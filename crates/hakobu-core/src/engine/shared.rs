//! State shared by the lanes of one run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::accounts::Accounts;
use super::bulky_attributes::BulkyAttributes;
use super::entrance::LaneEntrance;
use super::gate::LaneGate;
use super::links::Links;
use super::node::DirectoryProof;
use super::queue::TaskQueue;
use super::record::RunRecord;
use super::work_sizes::WorkSizes;
use crate::capabilities::{Capabilities, ContentSharing};
use crate::counters::{LaneCounters, ThreadTime};
use crate::endpoint::{SourceEndpoint, TargetEndpoint};
use crate::entry::{EntryKind, EntryMetadata};
use crate::error::{Error, ErrorKind};
use crate::event::{Difference, Different, EntryAction, EntryChange, Event, Failure, Observer};
use crate::evidence::ListingEvidence;
use crate::exchange::WorkExchange;
use crate::extended::{Classes, ExtendedAsk};
use crate::filter::{self, Filter};
use crate::job::{Job, Mode, Removal};
use crate::losses::LossKind;
use crate::pacer::{LimitAdjuster, LimitChanges, Pacer};
use crate::path::EntryPath;
use crate::plant::planted;
use crate::requests::RunRequests;
use crate::tag::Tagger;

/// A monotonic clock.
pub trait Clock: Send + Sync {
    /// Returns the nanoseconds since some fixed moment.
    fn now_ns(&self) -> u64;

    /// Returns the time used by the calling thread; zeros if it is not measured.
    fn thread_time(&self) -> ThreadTime {
        ThreadTime::default()
    }
}

/// The inputs of a run.
pub struct Setup<'a> {
    /// The endpoint that is read.
    pub source: &'a dyn SourceEndpoint,
    /// The endpoint that is written.
    pub target: &'a dyn TargetEndpoint,
    /// The work to do.
    pub job: &'a Job,
    /// The observer that receives events.
    pub observer: &'a dyn Observer,
    /// The clock.
    pub clock: &'a dyn Clock,
    /// The keyed hash that content is compared by. Its key is random for each run and known only to the two ends.
    pub tagger: Tagger,
    /// Returns limits that were changed during the run.
    pub changes: &'a dyn LimitChanges,
    /// Set from outside to stop the run. Drafts are then abandoned, and nothing partial stays visible.
    pub cancel: &'a AtomicBool,
    /// The place where this run takes work from and gives work to, if it copies only a part of a tree.
    pub exchange: Option<&'a dyn WorkExchange>,
}

impl Setup<'_> {
    /// Returns the requests that both ends were sent so far.
    pub(super) fn requests(&self) -> RunRequests {
        RunRequests { source: self.source.requests(), target: self.target.requests() }
    }
}

impl std::fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("job", &self.job).finish_non_exhaustive()
    }
}

/// State shared by the lanes of one run.
pub(super) struct EngineState<'a> {
    pub(super) setup: &'a Setup<'a>,
    /// The amounts of work that lanes take at a time.
    pub(super) portions: WorkSizes,
    pub(super) queue: TaskQueue,
    pub(super) record: RunRecord,
    /// The number of entries found to be removed.
    pub(super) removals: AtomicU64,
    /// The filter rules; `None` if all entries take part.
    pub(super) filter: Option<Filter>,
    /// The target's capabilities, limited by those of the source.
    pub(super) able: Capabilities,
    /// The attributes that listings of both sides show.
    pub(super) evidence: ListingEvidence,
    /// The extended attributes to keep, and those that are lost.
    pub(super) ask: ExtendedAsk,
    /// Contains ACL if access control lists are to be kept but the target has none. Modes in the source's listings then
    /// grant nobody more than the list does.
    pub(super) masked: Classes,
    /// Inodes with several names.
    pub(super) links: Links,
    /// The target's numbers for the source's users and groups, if owners are matched by name.
    pub(super) accounts: Accounts,
    /// The large extended attributes of which an entry was examined.
    pub(super) bulky_attributes: BulkyAttributes,
    /// Staggers the opening of lanes.
    pub(super) entrance: LaneEntrance,
    /// Limits the number of lanes that work.
    pub(super) gate: LaneGate,
    /// Set once sharing blocks between these endpoints has failed as unsupported.
    pub(super) cannot_clone: AtomicBool,
    /// Paces operations according to the limits.
    pub(super) pacer: Pacer,
}

impl EngineState<'_> {
    /// Returns true if a directory of the source has no attributes that that of the target is to have. `there` is that of the
    /// target, unless it is new.
    pub(super) fn has_no_attributes(&self, source: &EntryMetadata, there: Option<&EntryMetadata>) -> bool {
        source.is_implied() && (there.is_some() || self.setup.target.capabilities().shared_names)
    }

    /// Returns true if the run copies a single name, so that no link to another one can be lost. `is_named`: the user named
    /// the entry.
    pub(super) fn is_only_name(&self, is_named: bool) -> bool {
        is_named && self.setup.job.items.len() == 1
    }

    /// Returns the way in which files may get to the target without being read; `None` if there is none.
    pub(super) fn sharing(&self) -> Option<ContentSharing> {
        let Setup { job, source, target, .. } = self.setup;
        target.capabilities().shares_with(source.capabilities()).filter(|_| job.clone)
    }

    /// Applies limits that were changed, and those that follow from the time of day and the source's latency.
    pub(super) fn keep_limits(&self, keeper: &mut LimitAdjuster) {
        let now_ns = self.setup.clock.now_ns();
        self.record.paused(keeper.paused_ns(&self.pacer, now_ns));
        if let Some(limits) = self.setup.changes.changed() {
            let words = format!("from now on: {}", limits.words());
            keeper.change(limits, &self.pacer, now_ns);
            // Whoever shares a run among processes sets the limits of each part anew all the time.
            if self.setup.exchange.is_none() {
                self.setup.observer.event(Event::Notice { words });
            }
        }
        if let Some(words) = keeper.pause_words(now_ns) {
            self.setup.observer.event(Event::Notice { words });
        }
        if let Some((choice, reason)) = keeper.look(&self.pacer, now_ns) {
            self.setup.observer.event(Event::Decision { choice, reason });
        }
    }

    /// Returns true if both ends tell which names belong to one inode.
    pub(super) fn tells_names(&self) -> bool {
        let tells = |able: &Capabilities| able.inodes || able.tells_links;
        tells(self.setup.source.capabilities()) && tells(self.setup.target.capabilities())
    }

    /// Returns true if each name of a file at the target is a copy with attributes of its own.
    pub(super) fn copies_names(&self) -> bool {
        self.setup.target.capabilities().tells_links
    }

    /// Returns true if digests that a store keeps with objects take the place of their content.
    pub(super) fn uses_kept_digests(&self) -> bool {
        let keeps = |able: &Capabilities| able.tells_links;
        let is_any = keeps(self.setup.source.capabilities()) || keeps(self.setup.target.capabilities());
        is_any && !self.setup.job.full
    }

    /// Reports the paths of the user's list that the source does not have, once everything has been scanned.
    pub(super) fn miss_listed(&self) {
        // A run that only removes follows another run, which has reported them. A part of a tree does not have them all.
        let is_first_and_whole = self.setup.job.removal != Removal::Remove && self.setup.exchange.is_none();
        let looks = is_first_and_whole && !self.queue.is_stopped();
        let Some(filter) = self.filter.as_ref().filter(|_| looks) else { return };
        for path in filter.missing() {
            let failure = Failure { path: path.to_vec(), error: filter::error_of_missing() };
            fail(self, &self.record.lanes[0], failure);
        }
    }

    /// Reports one line of a plan.
    pub(super) fn planned(&self, action: &str, path: &EntryPath, size_bytes: u64) {
        // An entry to delete has a size as well, but nothing is transferred.
        self.record.plan_change(if action == "delete" { 0 } else { size_bytes });
        if action == "delete" {
            self.record.plan_removal();
        }
        let path = path.as_bytes().to_vec();
        self.setup.observer.event(Event::Planned { action: action.into(), path, size_bytes });
    }

    /// Reports a change that the target has confirmed, in a run that lists changes.
    pub(super) fn changed(&self, action: EntryAction, path: &EntryPath, size_bytes: u64) {
        let is_hidden = action == EntryAction::Attributes && planted("attributes-unlisted");
        if self.setup.job.itemize && !is_hidden {
            let path = path.as_bytes().to_vec();
            self.setup.observer.event(Event::Changed(EntryChange { action, path, size_bytes }));
        }
    }

    /// Returns the directory at the target whose attributes stay as they are, in a run that only removes: it leaves them to
    /// the run that copies, and restores what a removal changes.
    pub(super) fn keeps_attributes<'m>(
        &self,
        target: Option<&'m EntryMetadata>,
    ) -> Option<&'m EntryMetadata> {
        let removes = self.setup.job.removal == Removal::Remove;
        target.filter(|target| removes && target.kind == EntryKind::Directory)
    }

    /// Returns true if a directory does not take the place of another entry, but exists beside it.
    pub(super) fn keeps_replaced_entries(&self) -> bool {
        self.setup.target.capabilities().shared_names && !self.setup.job.dry_run
    }

    /// Returns the proof for a directory that both sides have, given whether that above it is settled.
    pub(super) fn proof(
        &self,
        (source, target): (&EntryMetadata, &EntryMetadata),
        is_above_settled: bool,
    ) -> DirectoryProof {
        match self.evidence.is_before_upload(source, target) {
            _ if !self.evidence.needs_settled() => DirectoryProof::NotNeeded,
            true if is_above_settled => DirectoryProof::Settled,
            true => DirectoryProof::SettledAlone,
            false => DirectoryProof::Missing,
        }
    }

    /// Returns true if the attributes of directories without a proof are set even if they are equal. What a filter leaves
    /// out is not examined, so nothing would be proven.
    pub(super) fn renews(&self, proof: DirectoryProof) -> bool {
        let job = self.setup.job;
        let writes = !job.mode.only_reads() && job.removal != Removal::Remove;
        proof == DirectoryProof::Missing && writes && self.filter.is_none()
    }

    /// Returns true if even unchanged entries have to be examined for metadata that an earlier run lost.
    pub(super) fn must_examine(&self) -> bool {
        !self.required().is_empty()
    }

    /// Returns the extended attributes that the target loses although `--require` forbids it.
    pub(super) fn required(&self) -> Classes {
        let class = |kind: &LossKind| match kind {
            LossKind::Acl => Classes::ACL | Classes::NFS4_ACL,
            LossKind::Xattr => Classes::USER | Classes::TRUSTED | Classes::SELINUX,
            LossKind::SetId => Classes::CAPABILITY,
            _ => Classes::NONE,
        };
        self.ask.miss & self.setup.job.require.iter().map(class).fold(Classes::NONE, |all, one| all | one)
    }

    /// Returns true if the source fails for small entries that lose what `--require` names. An object store does not know it.
    pub(super) fn source_refuses(&self) -> bool {
        !self.setup.source.capabilities().tells_links
    }

    /// Returns a request that looks only for extended attributes that are lost.
    pub(super) fn ask_losses(&self) -> ExtendedAsk {
        ExtendedAsk { keep: Classes::NONE, ..self.ask }
    }

    /// Returns true if one more entry may be removed. Otherwise stops the run.
    pub(super) fn may_remove(&self) -> bool {
        let max = self.setup.job.removals_max;
        if self.removals.fetch_add(1, Relaxed) < max {
            return true;
        }
        let words = format!(
            "more than the {max} entries that you agreed to would be deleted; run it again to see which"
        );
        self.stop(Error::new(ErrorKind::Refused, "deleting", words));
        false
    }

    /// Records and reports a difference, in a run that compares.
    pub(super) fn difference(&self, difference: Difference) {
        if self.setup.job.mode == Mode::Compare {
            // Ranges are too many for events; they are in the report.
            if !matches!(difference.what, Different::Range(_)) {
                self.setup.observer.event(Event::Difference(difference.clone()));
            }
            self.record.difference(difference);
        }
    }

    /// Stops all lanes because of `error`. Only the first error is kept.
    pub(super) fn stop(&self, error: Error) {
        self.record.fatal(error);
        self.queue.stop();
        self.lanes_are_complete();
    }

    pub(super) fn lanes_are_complete(&self) {
        self.gate.wake();
        self.setup.source.lanes_are_complete();
        self.setup.target.lanes_are_complete();
    }
}

/// Records that one entry could not be copied. Stops the run if the error would affect all other entries as well.
pub(super) fn fail(shared: &EngineState<'_>, counters: &LaneCounters, failure: Failure) {
    if failure.error.is_fatal() {
        return shared.stop(failure.error.at(&failure.path));
    }
    counters.entries_failed.add(1);
    shared.record.failure(&failure);
    shared.setup.observer.event(Event::Failure(failure));
}
