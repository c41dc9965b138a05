//! The course of runs: units are leased, committed and returned, phases follow each other, and runs end.

use hakobu_core::error::{Error, ErrorKind, Result};

use super::calls::ends_a_run;
use super::limited_endpoint::endpoints_of;
use super::phases::{NextStep, next_step};
use super::saved_limits::saved_limits;
use super::{ActiveRun, Leader, LeasedUnit, LedgerReply, Then, as_ms, no_such, send};
use crate::bus::ReplyTo;
use crate::change::{LedgerAnswer, LedgerChange, LedgerRefusal};
use crate::ids::{Epoch, Moment, RunId, UnitId, UnitKey};
use crate::leader::active_run::ReadyUnit;
use crate::lease::Lease;
use crate::link_name::PackLimits;
use crate::message::{GrantedUnit, GrantedWork, LeaderAnswer, LeaseName, SentLimits};
use crate::names::{BrokerName, GroupName};
use crate::open_file::{OpenFileRecord, OpenFileRow};
use crate::run::{NewRun, RunEnd, RunOutcome, RunPhase};
use crate::run_report;
use crate::run_request::FleetRequest;
use crate::transition::{UnitRefusal, UnitTransition};
use crate::unit::UnitWork;

impl Leader {
    /// Takes a ready unit for a group. Runs take turns.
    pub(super) fn take_ready(
        &mut self,
        group: &GroupName,
        broker: &BrokerName,
        offered: &[UnitKey],
    ) -> Result<Option<ReadyUnit>> {
        let (_, now_ms) = self.now();
        let last = self.last_run.get(group).copied();
        let reach = self.brokers.get(broker).map(|live| &live.reach);
        let is_reached = |run: &ActiveRun| reach.is_none_or(|reach| reach.has_all(&run.locations));
        let of_group = self.runs.iter().filter(|(_, run)| run.row.group == *group && is_reached(run));
        let mut turns: Vec<RunId> = of_group.map(|(id, _)| *id).collect();
        let next = last.map_or(0, |last| turns.partition_point(|run| *run <= last));
        let next = next.min(turns.len());
        turns.rotate_left(next);
        // A unit that was offered comes first, whatever run it belongs to.
        turns.sort_by_key(|run| !offered.iter().any(|key| key.run == *run));
        for id in turns {
            if self.runs.get(&id).is_none_or(|run| self.is_full_for(run, broker)) {
                continue;
            }
            let Some(run) = self.runs.get_mut(&id) else { continue };
            run.read_ready(&mut *self.ledger)?;
            if let Some(unit) = run.take_ready(offered, now_ms) {
                self.last_run.insert(group.clone(), id);
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    /// Returns the run that has not ended and copies to the target of a request, or to a place within or around it. Each would
    /// take the other's drafts for those of a broker that has died.
    ///
    /// Another run of the same relationship has a refusal of its own.
    pub(super) fn run_into(&mut self, new: &NewRun) -> Option<RunId> {
        let request = FleetRequest::parse(&new.request).ok()?;
        let target = &request.target.0;
        if self
            .pending
            .iter()
            .filter_map(|(change, _)| started_by(change))
            .any(|run| copies_into(run, target))
        {
            // One of two that are asked for at a time is a run when the other one is looked at.
            self.flush();
        }
        let is_other =
            |run: &&ActiveRun| new.relationship.is_none() || run.row.relationship != new.relationship;
        let mut others = self.runs.values().filter(is_other);
        let other = others.find(|run| targets_overlap(&run.request.target.0, target));
        other.map(|run| run.row.id)
    }

    /// Answers a broker that asked for a unit.
    pub(super) fn leased(
        &mut self,
        group: &GroupName,
        broker: &BrokerName,
        (key, epoch): (UnitKey, Epoch),
        answer: LedgerAnswer,
        reply: ReplyTo,
    ) {
        let lease = match answer {
            LedgerAnswer::Leased(lease) => lease,
            // It is gone, or somebody else has it.
            _ => {
                self.doubt_unit(key);
                return send(reply, &LeaderAnswer::Leases(Vec::new()));
            }
        };
        let (_, now_ms) = self.now();
        let lease_ms = as_ms(self.settings.lease);
        match self.grant(group, broker, &lease, lease_ms) {
            Ok(Some(mut granted)) => {
                let ends_ms = now_ms.saturating_add(lease_ms);
                let leased = LeasedUnit::new(broker.clone(), (lease.epoch, lease.deadline), ends_ms, now_ms);
                if let Some(run) = self.runs.get_mut(&key.run) {
                    run.leased.insert(key.unit, leased);
                    if let Some(live) = self.brokers.get_mut(broker) {
                        live.relationships.extend(run.row.relationship);
                    }
                }
                granted.limits = self.unit_limits(key);
                send(reply, &LeaderAnswer::Leases(vec![granted]));
            }
            Ok(None) => send(reply, &LeaderAnswer::Leases(Vec::new())),
            Err(error) => {
                // The lease ends by itself, as nobody renews it.
                let next = (epoch.next().unwrap_or(epoch), lease.deadline);
                let leased = LeasedUnit::new(broker.clone(), next, now_ms, now_ms);
                if let Some(run) = self.runs.get_mut(&key.run) {
                    run.leased.insert(key.unit, leased);
                    run.last_error = Some(error.clone());
                }
                if ends_a_run(&error) {
                    self.fail_run(key.run, Some(&error));
                }
                send(reply, &LeaderAnswer::Refused(error.to_string()));
            }
        }
    }

    /// Returns a unit for a broker, with the rows of the ledger that are its work.
    fn grant(
        &mut self,
        group: &GroupName,
        broker: &BrokerName,
        lease: &Lease,
        lease_ms: u64,
    ) -> Result<Option<GrantedUnit>> {
        let Lease { key, epoch, work, .. } = lease;
        let Some(run) = self.runs.get(&key.run) else { return Ok(None) };
        let work = match (work, run.row.phase) {
            (UnitWork::Links(range), _) => {
                let groups = self.ledger.links_in(key.run, range)?.map(|pack| pack.groups);
                let names =
                    groups.iter().flatten().flat_map(|group| group.earlier.iter().chain(&group.names));
                GrantedWork::Names(names.map(Into::into).collect())
            }
            (UnitWork::Directories(range), _) => {
                let rows = self.ledger.directories_in(key.run, range)?.map(|pack| pack.directories);
                let ends = rows.iter().flatten().map(Into::into).collect();
                let one = PackLimits { names: 1, ..PackLimits::default() };
                let further = self.ledger.directory_pack(key.run, Some(&range.until), one)?;
                let is_last = further.is_none() && run.row.units.open() == 1;
                GrantedWork::Ends { ends, is_examined: run.row.failures == 0, is_last }
            }
            (UnitWork::File(position), _) => {
                let missing = || Error::new(ErrorKind::Corrupt, "granting a unit", "its file is not open");
                let file = self.ledger.open_file(key.run, position)?.ok_or_else(missing)?;
                let OpenFileRecord { detail, torn } = file;
                let row = OpenFileRow { position: position.clone(), is_torn: false, detail };
                GrantedWork::File((&row).into(), torn)
            }
            (_, RunPhase::Removal) => GrantedWork::Removal { created: run.row.counters.entries_absent },
            (_, RunPhase::Verify) => GrantedWork::Verify,
            (work, _) => GrantedWork::Copy(work.encode()?),
        };
        let token = self.settings.key.token(*key, *epoch, group, broker);
        let lease = LeaseName { key: *key, epoch: *epoch, token };
        let request = run.sent_request.clone();
        let relationship = run.row.relationship;
        let credentials = self.credentials_for(relationship, broker, &lease)?;
        // Its share is known once it is among those under way.
        let limits = SentLimits::default();
        Ok(Some(GrantedUnit { lease, lease_ms, request, limits, work, credentials }))
    }

    /// Answers a broker that committed a unit. Returns the run if it may move on.
    pub(super) fn committed(
        &mut self,
        key: UnitKey,
        has_children: bool,
        answer: &LedgerAnswer,
        reply: ReplyTo,
    ) -> Option<RunId> {
        match answer {
            LedgerAnswer::Committed => {
                let run = self.runs.get_mut(&key.run);
                if let Some(run) = run {
                    run.forget(key.unit);
                    if has_children {
                        run.has_new_units();
                    }
                }
                send(reply, &LeaderAnswer::Done);
                Some(key.run)
            }
            LedgerAnswer::Refused(LedgerRefusal::Unit(UnitRefusal::OutsideUnit)) => {
                let words = "the result names entries that do not belong to the unit";
                send(reply, &LeaderAnswer::Unacceptable(words.to_owned()));
                None
            }
            _ => {
                send(reply, &LeaderAnswer::Lost);
                None
            }
        }
    }

    /// Takes back a unit. Returns the run if it may move on.
    pub(super) fn returned(&mut self, key: UnitKey, counts: bool, answer: &LedgerAnswer) -> Option<RunId> {
        let (_, now_ms) = self.now();
        let run = self.runs.get_mut(&key.run)?;
        match answer {
            LedgerAnswer::Ready(epoch) => {
                run.leased.remove(&key.unit);
                run.put_back(key, *epoch, counts, now_ms);
                None
            }
            LedgerAnswer::GivenUp => {
                run.forget(key.unit);
                Some(key.run)
            }
            // Somebody committed it, or has it anew.
            _ => {
                self.doubt_unit(key);
                None
            }
        }
    }

    /// Asks for the leases that have ended to be taken back.
    pub(super) fn expire(&mut self) {
        let (now, now_ms) = self.now();
        for run in self.runs.values_mut() {
            for (unit, leased) in &mut run.leased {
                if leased.ends_ms > now_ms {
                    continue;
                }
                // Once, unless the ledger does not work.
                leased.ends_ms = now_ms.saturating_add(1_000);
                let key = UnitKey { run: run.row.id, unit: *unit };
                // The calendar may have been set back since.
                let now = now.max(leased.deadline);
                let change = LedgerChange::Unit(key, UnitTransition::Expire { epoch: leased.epoch, now });
                self.pending.push((change, Then::Expire(key)));
            }
        }
    }

    /// Takes up a run that was started, and asks for its next step if no unit is left.
    ///
    /// # Errors
    /// Those of the ledger.
    pub(super) fn move_on(&mut self, id: RunId) -> Result<()> {
        let Some(row) = self.ledger.run(id)?.filter(|row| row.ended.is_none()) else {
            self.runs.remove(&id);
            return Ok(());
        };
        let run = match self.runs.entry(id) {
            std::collections::btree_map::Entry::Occupied(there) => {
                let run = there.into_mut();
                if run.row.limits != row.limits {
                    run.limits = saved_limits(&mut *self.ledger, &row)?;
                }
                run.row = row;
                run
            }
            std::collections::btree_map::Entry::Vacant(free) => {
                let limits = saved_limits(&mut *self.ledger, &row)?;
                let mut run = ActiveRun::new(row, limits)?;
                run.endpoints = endpoints_of(&run.request, &self.endpoint_limits);
                // The next look at schedules is up to a second away, and units would be given out until then.
                run.is_blackout = self.plans.has_blackout(run.row.relationship, self.clock.moment());
                free.insert(run)
            }
        };
        if run.row.units.open() > 0 {
            return Ok(());
        }
        let now = self.clock.moment();
        match next_step(&mut *self.ledger, &run.row, &run.request, now)? {
            NextStep::Units(step) => {
                self.pending.push((LedgerChange::StepRun(Box::new(step)), Then::Step(id)));
            }
            NextStep::End(end) => self.pending.push((LedgerChange::EndRun(Box::new(end)), Then::End(id))),
        }
        Ok(())
    }

    /// Ends a run because of an error that nothing mends.
    pub(super) fn fail_run(&mut self, id: RunId, error: Option<&Error>) {
        match self.end(id, RunOutcome::Failed, error) {
            Ok(end) => self.pending.push((LedgerChange::EndRun(Box::new(end)), Then::End(id))),
            Err(error) => self.ledger_error = Some(error),
        }
    }

    /// Returns the end of a run that is not finished.
    ///
    /// # Errors
    /// `NotFound`, and those of the ledger.
    pub fn end(&mut self, id: RunId, outcome: RunOutcome, error: Option<&Error>) -> Result<RunEnd> {
        let now: Moment = self.clock.moment();
        let mut row = self.ledger.run(id)?.ok_or_else(|| no_such("run"))?;
        let run = self.runs.get(&id).ok_or_else(|| no_such("run under way"))?;
        // Units whose results wait to be written are not dropped.
        let is_committed = |unit: UnitId| {
            let commits = |change: &LedgerChange| matches!(change, LedgerChange::Commit { key, .. } if key.unit == unit);
            self.pending.iter().any(|(change, _)| commits(change))
        };
        let dropped = run.under_way_without(is_committed);
        row.counters.dropped = dropped;
        let report = run_report::report(&mut *self.ledger, &row, &run.request, (outcome, now), error)?;
        Ok(RunEnd { run: id, ended: now, outcome, dropped, report })
    }

    /// Ends a run as somebody asked for. Its brokers stop when they report next.
    pub fn cancel_run(
        &mut self,
        id: RunId,
        audited: impl FnOnce(LedgerChange) -> LedgerChange,
        reply: LedgerReply,
    ) {
        match self.end(id, RunOutcome::Cancelled, None) {
            Ok(end) => {
                let change = audited(LedgerChange::EndRun(Box::new(end)));
                let ended = self.runs.remove(&id);
                self.forget_credentials(ended.as_ref().and_then(|run| run.row.relationship));
                self.pending.push((change, Then::Cancel(id, reply)));
                ended.and_then(|run| run.row.relationship).into_iter().for_each(|id| self.plan_after_run(id));
            }
            Err(error) => reply(Err(error)),
        }
    }
}

/// Returns the run that a change starts.
fn started_by(change: &LedgerChange) -> Option<&NewRun> {
    match change {
        LedgerChange::StartRun(run) => Some(run),
        LedgerChange::Audited(_, inner) => started_by(inner),
        _ => None,
    }
}

/// Returns true if a run copies to a target, or to a place within or around it.
fn copies_into(run: &NewRun, target: &[u8]) -> bool {
    FleetRequest::parse(&run.request).is_ok_and(|request| targets_overlap(&request.target.0, target))
}

/// Returns true if one of two locations is the other, or within it, as they are written.
fn targets_overlap(one: &[u8], other: &[u8]) -> bool {
    let trimmed = |place: &'_ [u8]| -> usize {
        place.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1)
    };
    let (one, other) = (&one[..trimmed(one)], &other[..trimmed(other)]);
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_within_each_other_are_told_from_neighbours() {
        for (one, other) in
            [("/a", "/a"), ("/a/", "/a"), ("/a/b", "/a"), ("s3://b/p", "s3://b/p/q/"), ("/", "/a")]
        {
            assert!(targets_overlap(one.as_bytes(), other.as_bytes()), "{one} {other}");
            assert!(targets_overlap(other.as_bytes(), one.as_bytes()), "{one} {other}");
        }
        for (one, other) in [("/a", "/ab"), ("/a/b", "/a/c"), ("host:/a", "/a"), ("s3://b/p", "s3://b/pq")] {
            assert!(!targets_overlap(one.as_bytes(), other.as_bytes()), "{one} {other}");
        }
    }
}
