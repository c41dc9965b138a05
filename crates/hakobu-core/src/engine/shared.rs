//! What the lanes of one run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::accounts::Accounts;
use super::entrance::Entrance;
use super::gate::Gate;
use super::links::Links;
use super::portions::Portions;
use super::queue::Queue;
use super::record::Record;
use crate::capabilities::Capabilities;
use crate::counters::{LaneCounters, ThreadTime};
use crate::endpoint::{SourceEndpoint, TargetEndpoint};
use crate::error::{Error, ErrorKind};
use crate::event::{Difference, Different, Event, Failure, Observer};
use crate::extended::{Classes, ExtendedAsk};
use crate::filter::{self, Filter};
use crate::job::{Job, Mode, Removal};
use crate::losses::LossKind;
use crate::pacer::{Keeper, LimitChanges, Pacer};
use crate::path::EntryPath;
use crate::tag::Tagger;

/// A clock that only ever goes forward.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment.
    fn now_ns(&self) -> u64;

    /// The time of the thread that asks; zeros where nobody counts it.
    fn thread_time(&self) -> ThreadTime {
        ThreadTime::default()
    }
}

/// What a run works with.
pub struct Setup<'a> {
    /// Where the data is.
    pub source: &'a dyn SourceEndpoint,
    /// Where it goes.
    pub target: &'a dyn TargetEndpoint,
    /// What to do.
    pub job: &'a Job,
    /// Who is told.
    pub observer: &'a dyn Observer,
    /// The time.
    pub clock: &'a dyn Clock,
    /// By which content of both ends is compared: its key is drawn at random for this run, and told to nobody but them.
    pub tagger: Tagger,
    /// Tells what the run is held to from then on.
    pub changes: &'a dyn LimitChanges,
    /// Set from outside to stop the run: drafts are abandoned, nothing partial stays visible.
    pub cancel: &'a AtomicBool,
}

impl std::fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("job", &self.job).finish_non_exhaustive()
    }
}

/// What the lanes of one run share.
pub(super) struct Shared<'a> {
    pub(super) setup: &'a Setup<'a>,
    /// How much lanes take at a time.
    pub(super) portions: Portions,
    pub(super) queue: Queue,
    pub(super) record: Record,
    /// How many entries were found to be removed.
    pub(super) removals: AtomicU64,
    /// Which entries take part, if not all do.
    pub(super) filter: Option<Filter>,
    /// What the target can hold of what the source can tell.
    pub(super) able: Capabilities,
    /// Which extended attributes go along.
    pub(super) ask: ExtendedAsk,
    /// Access control lists, where they are to be kept and the target has none: the modes in the source's listings are those
    /// that grant nobody more.
    pub(super) masked: Classes,
    /// Inodes with several names.
    pub(super) links: Links,
    /// The numbers at the target of the source's users and groups, where names count.
    pub(super) accounts: Accounts,
    /// Where lanes open their ends, one after another.
    pub(super) entrance: Entrance,
    /// How many of them may work.
    pub(super) gate: Gate,
    /// Sharing blocks was tried and cannot be done between these ends.
    pub(super) cannot_clone: AtomicBool,
    /// Gives turns, where there are limits.
    pub(super) pacer: Pacer,
}

impl Shared<'_> {
    /// Takes over limits that were set anew, and those that follow from the time of day and from how the source does.
    pub(super) fn keep_limits(&self, keeper: &mut Keeper) {
        let now_ns = self.setup.clock.now_ns();
        self.record.paused(keeper.paused_ns(&self.pacer, now_ns));
        if let Some(limits) = self.setup.changes.changed() {
            let words = format!("from now on: {}", limits.words());
            keeper.change(limits, &self.pacer, now_ns);
            self.setup.observer.event(Event::Notice { words });
        }
        if let Some(words) = keeper.pause_words(now_ns) {
            self.setup.observer.event(Event::Notice { words });
        }
        if let Some((choice, reason)) = keeper.look(&self.pacer, now_ns) {
            self.setup.observer.event(Event::Decision { choice, reason });
        }
    }

    /// Says which of the paths that a list named the source lacks, once all of it has been seen.
    pub(super) fn miss_listed(&self) {
        // The run that removes has another before it.
        let looks = self.setup.job.removal != Removal::Remove && !self.queue.is_stopped();
        let Some(filter) = self.filter.as_ref().filter(|_| looks) else { return };
        for path in filter.missing() {
            let failure = Failure { path: path.to_vec(), error: filter::error_of_missing() };
            fail(self, &self.record.lanes[0], failure);
        }
    }

    /// One line of a plan.
    pub(super) fn planned(&self, action: &str, path: &EntryPath, size_bytes: u64) {
        // What is removed has a size as well, and does not travel.
        self.record.plan_change(if action == "delete" { 0 } else { size_bytes });
        let path = path.as_bytes().to_vec();
        self.setup.observer.event(Event::Planned { action: action.into(), path, size_bytes });
    }

    /// Whether entries that are left alone have to be looked at for what an earlier run lost.
    pub(super) fn must_examine(&self) -> bool {
        !self.required().is_empty()
    }

    /// The extended attributes that are lost where an entry has them, and must not be.
    pub(super) fn required(&self) -> Classes {
        let class = |kind: &LossKind| match kind {
            LossKind::Acl => Classes::ACL,
            LossKind::Xattr => Classes::USER | Classes::TRUSTED | Classes::SELINUX,
            LossKind::SetId => Classes::CAPABILITY,
            _ => Classes::NONE,
        };
        self.ask.miss & self.setup.job.require.iter().map(class).fold(Classes::NONE, |all, one| all | one)
    }

    /// Looks for extended attributes that are lost.
    pub(super) fn ask_losses(&self) -> ExtendedAsk {
        ExtendedAsk { keep: Classes::NONE, ..self.ask }
    }

    /// Whether one more entry may be removed. If not, the run ends.
    pub(super) fn may_remove(&self) -> bool {
        let max = self.setup.job.removals_max;
        if self.removals.fetch_add(1, Relaxed) < max {
            return true;
        }
        let words =
            format!("more than the {max} entries that were agreed to would go; run it again to see which");
        self.stop(Error::new(ErrorKind::Refused, "deleting", words));
        false
    }

    /// Takes note of something that differs, and tells it.
    pub(super) fn difference(&self, difference: Difference) {
        if self.setup.job.mode == Mode::Compare {
            // Ranges are many, and in the report.
            if !matches!(difference.what, Different::Range(_)) {
                self.setup.observer.event(Event::Difference(difference.clone()));
            }
            self.record.difference(difference);
        }
    }

    /// Stops all lanes because of `error`; the first one counts.
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

/// Records that one entry could not be copied; ends the run if all others would fail as well.
pub(super) fn fail(shared: &Shared<'_>, counters: &LaneCounters, failure: Failure) {
    if failure.error.is_fatal() {
        return shared.stop(failure.error.at(&failure.path));
    }
    counters.entries_failed.add(1);
    shared.record.failure(&failure);
    shared.setup.observer.event(Event::Failure(failure));
}
