//! The leader: gives units to brokers, takes their results, and moves runs on from phase to phase.
//!
//! It decides nothing that outlasts it: the ledger does. It knows beside the ledger until when each lease lasts, by a clock
//! that does not jump. A leader that takes over lets all leases last once more, so no broker loses one by the change.
//!
//! Changes wait until [`Leader::flush`], which applies all of them in one transaction and then answers.

mod active_run;
mod announcements;
mod calls;
mod credentials;
mod doubtful;
mod doubts;
mod errands;
mod fleet_limits;
mod ledger_probe;
mod limit_scope;
mod limited_endpoint;
mod live_broker;
mod phases;
mod reaching;
mod refused_broker;
mod refused_brokers;
mod runs;
mod saved_limits;
mod schedule_plans;
mod schedules;
mod sightings;
mod silent_brokers;
mod splitting;
mod start_delays;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};

pub use active_run::{ActiveRun, LeasedUnit};
pub(crate) use limit_scope::LimitScope;
pub use live_broker::LiveBroker;
pub use reaching::ReachingBrokers;
pub use refused_broker::RefusedBroker;

use limited_endpoint::LimitedEndpoint;

use crate::bus::{BusTrouble, LeaderBus, ReplyTo};
use crate::change::{BATCH_CHANGES_MAX, LedgerAnswer, LedgerChange, LedgerRefusal};
use crate::errand_desk::ErrandDesk;
use crate::fleet_clock::FleetClock;
use crate::ids::{Epoch, Moment, RelationshipId, RunId, UnitId, UnitKey};
use crate::key_file::SealingKeys;
use crate::lease_token::LeaseKey;
use crate::ledger::{Ledger, PAGE_ROWS_MAX};
use crate::limits_setting::LimitsSetting;
use crate::message::LeaderAnswer;
use crate::message_form::encode;
use crate::names::{BrokerName, GroupName};
use crate::relationship::CredentialReference;

/// The number of rounds in which changes may lead to further ones before the leader looks at its queue again.
const ROUNDS_MAX: usize = 8;

/// The settings of a leader.
#[derive(Clone, Debug)]
pub struct LeaderSettings {
    /// The duration of a lease. Brokers renew it several times within.
    pub lease: Duration,
    /// The time for which a unit runs before it is asked to give something away.
    pub split_after: Duration,
    /// The key of the leases' tokens.
    pub key: LeaseKey,
}

/// The leader.
pub struct Leader {
    ledger: Box<dyn Ledger>,
    buses: Vec<Arc<dyn LeaderBus>>,
    clock: Arc<dyn FleetClock>,
    settings: LeaderSettings,
    runs: BTreeMap<RunId, ActiveRun>,
    brokers: BTreeMap<BrokerName, LiveBroker>,
    refused: BTreeMap<BrokerName, RefusedBroker>,
    pending: Vec<(LedgerChange, Then)>,
    /// The run whose units were given out last in each group, so that runs take turns.
    last_run: BTreeMap<GroupName, RunId>,
    /// The limits of groups.
    group_limits: BTreeMap<GroupName, LimitsSetting>,
    /// The limits of endpoints, by their locations.
    endpoint_limits: BTreeMap<Vec<u8>, LimitedEndpoint>,
    errands: ErrandDesk,
    plans: schedule_plans::SchedulePlans,
    doubts: doubtful::LeaderDoubts,
    announcements: silent_brokers::Announcements,
    /// The time at which the ledger was last told which brokers are there.
    told_ms: u64,
    /// The keys of sealed credentials.
    keys: Option<Arc<SealingKeys>>,
    /// The credentials of relationships with runs under way, as last read.
    credentials: BTreeMap<RelationshipId, Vec<CredentialReference>>,
    /// The error of the last reading of the ledger.
    ledger_error: Option<Error>,
    /// The error of the last transaction. That the ledger can be read does not mean that it can be written.
    write_error: Option<Error>,
    /// The time at which a ledger that does not work was last written on trial.
    probed_ms: u64,
}

/// The consequence of an answer of the ledger.
enum Then {
    Lease { group: GroupName, broker: BrokerName, asked: (UnitKey, Epoch), reply: ReplyTo },
    Commit { key: UnitKey, has_children: bool, reply: ReplyTo },
    Return { key: UnitKey, counts: bool, reply: ReplyTo },
    Expire(UnitKey),
    Step(RunId),
    Start(LedgerReply),
    Controlled(RunId, LedgerReply),
    Limited(GroupName, Option<LimitsSetting>, LedgerReply),
    EndpointLimited(Vec<u8>, Option<LimitedEndpoint>, LedgerReply),
    Planned(RelationshipId, Moment),
    Saved(Option<RelationshipId>, LedgerReply),
    End(RunId),
    Cancel(RunId, LedgerReply),
    Tell(LedgerReply),
    Nothing,
}

/// Takes the answer of the ledger to one change, or its error. It does not block.
pub type LedgerReply = Box<dyn FnOnce(Result<LedgerAnswer>) + Send>;

impl Leader {
    /// Takes up all runs that have not ended.
    ///
    /// # Errors
    /// Those of the ledger.
    pub fn new(
        mut ledger: Box<dyn Ledger>,
        buses: Vec<Arc<dyn LeaderBus>>,
        clock: Arc<dyn FleetClock>,
        settings: LeaderSettings,
    ) -> Result<Self> {
        let mut runs = BTreeMap::new();
        for row in ledger.open_runs()? {
            let limits = saved_limits::saved_limits(&mut *ledger, &row)?;
            runs.insert(row.id, ActiveRun::new(row, limits)?);
        }
        let ends_ms = clock.elapsed_ms().saturating_add(as_ms(settings.lease));
        let mut after: Option<UnitId> = None;
        loop {
            let units = ledger.leased_units(after, PAGE_ROWS_MAX)?;
            let Some(last) = units.last() else { break };
            after = Some(last.key.unit);
            for unit in units {
                let (Some(run), Some(holder)) = (runs.get_mut(&unit.key.run), unit.state.holder) else {
                    continue;
                };
                let (lease, now_ms) = ((unit.state.epoch, holder.deadline), clock.elapsed_ms());
                let leased = LeasedUnit::taken_over(holder.broker, lease, ends_ms, now_ms);
                run.leased.insert(unit.key.unit, leased);
            }
        }
        let plans = schedule_plans::SchedulePlans::read(&mut *ledger, clock.moment())?;
        for run in runs.values_mut() {
            run.is_blackout = plans.has_blackout(run.row.relationship, clock.moment());
        }
        let (brokers, last_run) = (BTreeMap::new(), BTreeMap::new());
        let group_limits = saved_limits::group_limits(&mut *ledger)?;
        let endpoint_limits = saved_limits::endpoint_limits(&mut *ledger)?;
        let mut leader = Self {
            ledger,
            buses,
            clock,
            settings,
            runs,
            brokers,
            refused: BTreeMap::new(),
            pending: Vec::new(),
            last_run,
            group_limits,
            endpoint_limits,
            errands: ErrandDesk::default(),
            plans,
            doubts: doubtful::LeaderDoubts::default(),
            announcements: silent_brokers::Announcements::default(),
            told_ms: 0,
            keys: None,
            credentials: BTreeMap::new(),
            ledger_error: None,
            write_error: None,
            probed_ms: 0,
        };
        leader.find_endpoints();
        for run in leader.runs.keys().copied().collect::<Vec<_>>() {
            leader.move_on(run)?;
        }
        Ok(leader)
    }

    /// Ends the leader, and returns its ledger. What waits to be applied is dropped, as if the process had been killed.
    pub fn into_ledger(self) -> Box<dyn Ledger> {
        self.ledger
    }

    /// Sets the keys of sealed credentials. Without them, units that need such cannot be given to anybody.
    pub fn set_keys(&mut self, keys: Arc<SealingKeys>) {
        self.keys = Some(keys);
    }

    /// Returns the ledger, for reading. What waits to be applied is not in it.
    pub fn ledger(&mut self) -> &mut dyn Ledger {
        &mut *self.ledger
    }

    /// Returns the runs that have not ended.
    pub fn active_runs(&self) -> &BTreeMap<RunId, ActiveRun> {
        &self.runs
    }

    /// Returns the brokers that were seen lately.
    pub fn live_brokers(&self) -> &BTreeMap<BrokerName, LiveBroker> {
        &self.brokers
    }

    /// Returns the error of the ledger, while it does not work.
    pub fn ledger_error(&self) -> Option<&Error> {
        self.write_error.as_ref().or(self.ledger_error.as_ref())
    }

    /// Returns what does not work on the ways to brokers.
    pub fn bus_troubles(&self) -> Vec<BusTrouble> {
        self.buses.iter().flat_map(|bus| bus.troubles()).collect()
    }

    /// Returns the clock.
    pub fn clock(&self) -> &dyn FleetClock {
        &*self.clock
    }

    /// Asks for a change, which is applied with the next ones.
    pub fn change(&mut self, change: LedgerChange, reply: LedgerReply) {
        if let Err(error) = change.check() {
            return reply(Err(error));
        }
        let inner = match &change {
            LedgerChange::Audited(_, inner) => inner,
            change => change,
        };
        let then = match inner {
            LedgerChange::EndRun(end) => Then::Cancel(end.run, reply),
            LedgerChange::StartRun(run) => {
                if let Some(other) = self.run_into(run) {
                    return reply(Ok(LedgerAnswer::Refused(LedgerRefusal::TargetInUse(other))));
                }
                Then::Start(reply)
            }
            LedgerChange::PauseRun(run, _) | LedgerChange::LimitRun(run, _) => Then::Controlled(*run, reply),
            LedgerChange::LimitGroup(group, limits) => {
                match limits.as_deref().map(LimitsSetting::parse).transpose() {
                    Ok(limits) => Then::Limited(group.clone(), limits, reply),
                    Err(error) => return reply(Err(error.into())),
                }
            }
            LedgerChange::LimitEndpoint(location, limits) => {
                match LimitedEndpoint::parse(location, limits.as_deref()) {
                    Ok(limited) => Then::EndpointLimited(location.clone(), limited, reply),
                    Err(error) => return reply(Err(error)),
                }
            }
            LedgerChange::SaveRelationship { .. } => Then::Saved(None, reply),
            LedgerChange::RemoveRelationship(id, _) => Then::Saved(Some(*id), reply),
            LedgerChange::DrainBroker(name, is_draining) => {
                if let Some(broker) = self.brokers.get_mut(name) {
                    broker.is_draining = *is_draining;
                }
                Then::Tell(reply)
            }
            _ => Then::Tell(reply),
        };
        self.pending.push((change, then));
    }

    /// Applies what waits, and answers. If the ledger does not work, everybody is told so, and nothing is lost: brokers ask
    /// again.
    pub fn flush(&mut self) {
        for _round in 0..ROUNDS_MAX {
            if self.pending.is_empty() {
                return;
            }
            let rest = self.pending.split_off(self.pending.len().min(BATCH_CHANGES_MAX));
            let (changes, thens): (Vec<_>, Vec<_>) =
                std::mem::replace(&mut self.pending, rest).into_iter().unzip();
            match self.ledger.apply(&changes) {
                Ok(answers) => {
                    self.ledger_works(&changes);
                    let followed = thens.into_iter().zip(answers);
                    let runs: BTreeSet<RunId> =
                        followed.filter_map(|(then, answer)| self.follow(then, answer)).collect();
                    for run in runs {
                        if let Err(error) = self.move_on(run) {
                            self.doubt_run(run);
                            self.ledger_error = Some(error);
                        }
                    }
                }
                Err(error) => {
                    thens.into_iter().for_each(|then| self.fail(then, &error));
                    self.write_error = Some(error);
                    return;
                }
            }
        }
    }

    /// Does what is due: leases that have ended, units to split, runs that move on, offers.
    pub fn tick(&mut self) {
        self.expire();
        self.flush();
        self.follow_schedules();
        self.flush();
        self.tell_sightings();
        self.probe_ledger();
        self.forget_brokers();
        self.forget_refused();
        self.announce_lost_brokers();
        self.ask_for_splits();
        self.offer();
        self.settle_doubts();
        self.flush();
        self.sweep();
    }

    /// Does what follows from an answer. Returns the run that may move on.
    fn follow(&mut self, then: Then, answer: LedgerAnswer) -> Option<RunId> {
        match then {
            Then::Nothing => None,
            Then::Tell(reply) => {
                reply(Ok(answer));
                None
            }
            Then::Controlled(run, reply) => {
                reply(Ok(answer));
                Some(run)
            }
            Then::Limited(group, limits, reply) => {
                self.set_group_limits(group, limits);
                reply(Ok(answer));
                None
            }
            Then::EndpointLimited(location, limited, reply) => {
                self.set_endpoint_limits(location, limited);
                reply(Ok(answer));
                None
            }
            Then::Saved(id, reply) => {
                let saved = match &answer {
                    LedgerAnswer::RelationshipSaved(id, _) => Some(*id),
                    _ => id,
                };
                reply(Ok(answer));
                if let Some(id) = saved {
                    self.credentials.remove(&id);
                    self.plan(id);
                }
                None
            }
            Then::Planned(id, at) => {
                self.has_started(id, at, &answer);
                match answer {
                    LedgerAnswer::RunStarted(run) => Some(run),
                    _ => None,
                }
            }
            Then::Start(reply) => {
                let started = match &answer {
                    LedgerAnswer::RunStarted(run) => Some(*run),
                    _ => None,
                };
                reply(Ok(answer));
                started
            }
            Then::Lease { group, broker, asked, reply } => {
                self.leased(&group, &broker, asked, answer, reply);
                None
            }
            Then::Commit { key, has_children, reply } => self.committed(key, has_children, &answer, reply),
            Then::Return { key, counts, reply } => {
                send(reply, &LeaderAnswer::Done);
                self.returned(key, counts, &answer)
            }
            Then::Expire(key) => self.returned(key, false, &answer),
            Then::Step(run) => {
                if let Some(active) = self.runs.get_mut(&run) {
                    active.has_new_units();
                }
                Some(run)
            }
            Then::End(run) => {
                if answer == LedgerAnswer::Done
                    && let Some(ended) = self.runs.remove(&run)
                {
                    ended.row.relationship.into_iter().for_each(|id| self.plan_after_run(id));
                    self.forget_credentials(ended.row.relationship);
                    self.announce_end(run, ended.last_error.as_ref());
                }
                None
            }
            Then::Cancel(run, reply) => {
                let is_done = answer == LedgerAnswer::Done;
                reply(Ok(answer));
                if is_done {
                    let ended = self.runs.remove(&run).and_then(|run| run.row.relationship);
                    ended.into_iter().for_each(|id| self.plan_after_run(id));
                    self.announce_end(run, None);
                }
                None
            }
        }
    }

    /// Tells that a change could not be applied. It may have been: what it is about is looked up again.
    fn fail(&mut self, then: Then, error: &Error) {
        match then {
            Then::Tell(reply)
            | Then::Cancel(_, reply)
            | Then::Limited(_, _, reply)
            | Then::EndpointLimited(_, _, reply) => reply(Err(error.clone())),
            Then::Start(reply) | Then::Saved(_, reply) => {
                self.doubt_lists();
                reply(Err(error.clone()));
            }
            Then::Controlled(run, reply) => {
                self.doubt_run(run);
                reply(Err(error.clone()));
            }
            Then::Lease { asked: (key, _), reply, .. }
            | Then::Commit { key, reply, .. }
            | Then::Return { key, reply, .. } => {
                self.doubt_unit(key);
                send(reply, &LeaderAnswer::Refused(error.to_string()));
            }
            Then::Expire(key) => self.doubt_unit(key),
            Then::Step(run) | Then::End(run) => self.doubt_run(run),
            Then::Planned(..) => self.doubt_lists(),
            Then::Nothing => {}
        }
    }

    fn now(&self) -> (Moment, u64) {
        (self.clock.moment(), self.clock.elapsed_ms())
    }
}

/// Sends an answer to a broker.
fn send(reply: ReplyTo, answer: &LeaderAnswer) {
    let bytes = encode(answer).or_else(|error| encode(&LeaderAnswer::Refused(error.to_string())));
    reply(bytes.unwrap_or_default());
}

fn as_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn no_such(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, "looking in the ledger", format!("there is no such {what}"))
}
