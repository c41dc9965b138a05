//! Makes the job of a request once its endpoints are known.

use hakobu_core::endpoint::Earlier;
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::{Job, LANES_MAX, Mode, Update};

use crate::carryover::Carryover;
use crate::fit;
use crate::host::Host;
use crate::opening::TransferHosts;
use crate::plan::TransferPlan;
use hakobu_agent::machine;
use hakobu_core::lane_count::EndpointFacts;
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::request::{CopyRequest, Durability, LaneSetting, Verify};

/// Makes the job of one attempt.
pub struct JobMaker<'a> {
    pub request: &'a CopyRequest,
    pub limits: &'a LiveLimits,
    pub observer: &'a dyn Observer,
    pub hosts: &'a TransferHosts,
    pub plan: &'a TransferPlan,
}

impl JobMaker<'_> {
    /// Returns the job, and reports what was decided.
    pub fn job(&self, carryover: &Carryover) -> Job {
        let (plan, apart) = (self.plan, self.hosts.target.is_some());
        let hash = fit::HostPair::of(self.hosts).hash();
        let lanes = self.lanes();
        Job {
            items: plan.items.clone(),
            make_directory: plan.make_directory.clone(),
            lanes,
            lanes_max: self.lanes_max(lanes),
            limits: self.limits.begin(),
            compression: self.request.compression,
            digest: self.request.verify != Verify::None,
            clone: !matches!(self.request.verify, Verify::Wire | Verify::Medium),
            durable: self.request.durable == Durability::Yes,
            dry_run: self.request.dry_run,
            require: self.request.require.iter().copied().collect(),
            mode: self.request.mode,
            earlier: match (self.request.restart || carryover.is_last) && !carryover.begun {
                true => Earlier::Forget,
                false => Earlier::Refuse,
            },
            verify_medium: self.request.verify == Verify::Medium,
            skip_unreadable: self.request.skip_unreadable,
            live: self.request.live,
            removal: self.request.removal,
            removals_max: self.request.removals_max,
            filter: self.request.filter.clone(),
            extended: self.request.preserve.extended,
            by_name: self.request.preserve.by_name,
            owners: self.request.preserve.owner,
            compare_content: self.request.compare_content,
            sample: self.request.sample,
            one_file_system: self.request.one_file_system,
            hard_links: self.request.preserve.hard_links,
            update: self.update(apart, hash),
            // With `--verify medium` only written data is read back. Whole pieces are written instead of blocks, so
            // that the data beside a changed block is checked as well.
            blocks: hash && apart && self.request.verify != Verify::Medium,
            target_directories: plan.target_directories.clone(),
            source_file_systems: plan.source_file_systems(),
            itemize: self.request.itemize && !self.request.dry_run,
            full: self.request.full,
        }
    }

    /// Decides how changed files of trees are updated.
    fn update(&self, apart: bool, hash: bool) -> Update {
        let request = self.request;
        if request.mode != Mode::Delta {
            return Update::Whole;
        }
        let (update, why) = match (request.in_place, request.whole_file) {
            (true, _) => (Update::InPlace, "as asked"),
            (_, true) => (Update::Whole, "as asked"),
            _ if !hash => (Update::Whole, "one end cannot compute digests"),
            _ if !apart => (Update::Whole, "no data is sent, and both sides would have to be read"),
            _ if request.verify == Verify::Medium => {
                (Update::Whole, "all of it is read back from the medium")
            }
            _ => (Update::Changes, "equal data is not sent"),
        };
        let choice = match update {
            Update::Whole => "all of it",
            Update::Changes => "what differs",
            Update::InPlace => "what differs, in place",
        };
        self.decided(format!("large files that changed: {choice}"), why.to_owned());
        update
    }

    fn lanes(&self) -> u16 {
        if self.request.target.is_stream() {
            self.decided("lanes: 1".to_owned(), "standard output takes its bytes in order".to_owned());
            return 1;
        }
        if let LaneSetting::Count(count) = self.request.lanes {
            return count.clamp(1, LANES_MAX);
        }
        let (lanes, why) = self.ends().lanes();
        self.decided(format!("lanes: {lanes}"), why);
        lanes
    }

    /// Returns the maximum number of lanes.
    fn lanes_max(&self, lanes: u16) -> u16 {
        let is_tuned = self.request.lanes == LaneSetting::Auto && !self.request.target.is_stream();
        if is_tuned { self.ends().lanes_max(lanes) } else { lanes }
    }

    fn ends(&self) -> EndpointFacts {
        let (source, target) = (&*self.hosts.source, self.hosts.target());
        let concurrency = |host: &dyn Host| host.capabilities().concurrency;
        EndpointFacts {
            round_trip: source.round_trip().max(target.round_trip()),
            processors: (source.machine().processors, target.machine().processors),
            here: machine::facts().processors,
            apart: self.hosts.target.is_some(),
            concurrency: concurrency(source).or(concurrency(target)),
            over_network: self.plan.over_network,
            has_disks: self.plan.has_disks,
            is_digest: self.request.mode.is_digest(),
        }
    }

    fn decided(&self, choice: String, reason: String) {
        self.observer.event(Event::Decision { choice, reason });
    }
}
