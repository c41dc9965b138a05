//! The effect of changes on the tables of a ledger. All implementations use this, so that all decide equally.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Failure;
use hakobu_core::path::EntryPath;

use super::tables::Tables;
use crate::change::{
    BATCH_CHANGES_MAX, LedgerAnswer as Answer, LedgerChange, LedgerRefusal as Refusal, UnitResult,
};
use crate::failure::{FailureRow, NumberedFailure};
use crate::ids::{Epoch, Moment, RelationshipId, Revision, RowNumber, RunId, UnitKey};
use crate::lease::{ATTEMPTS_MAX, Lease, UnitState};
use crate::limits::check_at_most;
use crate::names::BrokerName;
use crate::notification::NotificationKind;
use crate::notification_setting::NotificationSetting;
use crate::open_file::{OpenFilePosition, OpenFileRow};
use crate::relationship::Relationship;
use crate::run::{NewRun, RunEnd, RunOutcome, RunPhase, RunRow, RunStep};
use crate::run_phases::count_unit;
use crate::token::{NewToken, TokenHash};
use crate::transition::{UnitBefore, UnitDecision, UnitRefusal, UnitTransition, decide};
use crate::unit::{UnitItem, UnitRecord, UnitWork};

/// Checks a batch before anything of it is applied.
///
/// # Errors
/// `Usage`
pub(super) fn check_batch(changes: &[LedgerChange]) -> Result<()> {
    check_at_most("the changes of a batch", changes.len(), BATCH_CHANGES_MAX)?;
    changes.iter().try_for_each(LedgerChange::check)
}

/// Applies checked changes in their order.
///
/// # Errors
/// Those of the tables. The transaction must then be undone.
pub(super) fn apply_batch<T: Tables>(tables: &mut T, changes: &[LedgerChange]) -> Result<Vec<Answer>> {
    let mut batch = ChangeBatch { tables, runs: BTreeMap::new() };
    let answers = changes.iter().map(|change| batch.apply(change)).collect::<Result<_>>()?;
    batch.write_runs()?;
    Ok(answers)
}

/// A batch of changes. The rows of runs, which nearly each change counts in, are written once, at the end.
struct ChangeBatch<'t, T> {
    tables: &'t mut T,
    runs: BTreeMap<RunId, CachedRun>,
}

struct CachedRun {
    record: RunRow,
    is_changed: bool,
}

impl<T: Tables> ChangeBatch<'_, T> {
    fn apply(&mut self, change: &LedgerChange) -> Result<Answer> {
        match change {
            LedgerChange::StartRun(run) => self.start_run(run),
            LedgerChange::StepRun(step) => self.step_run(step),
            LedgerChange::EndRun(end) => self.end_run(end),
            LedgerChange::SetForecast(run, forecast) => {
                self.set_in_run(*run, |run| run.forecast.clone_from(forecast))
            }
            LedgerChange::PauseRun(run, is_paused) => self.set_in_run(*run, |run| run.is_paused = *is_paused),
            LedgerChange::LimitRun(run, limits) => self.set_in_run(*run, |run| run.limits.clone_from(limits)),
            LedgerChange::TellRun(run) => self.tables.delete_untold(*run).map(|()| Answer::Done),
            LedgerChange::LimitGroup(group, limits) => {
                self.tables.set_group_limits(group, limits.as_deref()).map(|()| Answer::Done)
            }
            LedgerChange::LimitEndpoint(location, limits) => {
                self.tables.set_endpoint_limits(location, limits.as_deref()).map(|()| Answer::Done)
            }
            LedgerChange::SetMark(name, value) => self.tables.set_mark(name, value).map(|()| Answer::Done),
            LedgerChange::Unit(key, transition) => self.move_unit(*key, transition),
            LedgerChange::Commit { key, broker, epoch, result } => self.commit(*key, broker, *epoch, result),
            LedgerChange::SaveRelationship { replaces: None, now, relationship } => {
                self.add_relationship(relationship, *now)
            }
            LedgerChange::SaveRelationship { replaces: Some((id, revision)), now, relationship } => {
                self.replace_relationship(*id, *revision, relationship, *now)
            }
            LedgerChange::RemoveRelationship(id, revision) => self.remove_relationship(*id, *revision),
            LedgerChange::SeeBroker(sighting) => {
                let before = self.tables.broker(&sighting.name)?;
                self.tables.put_broker(&sighting.record(before))?;
                Ok(Answer::Done)
            }
            LedgerChange::DrainBroker(name, is_draining) => self.drain_broker(name, *is_draining),
            LedgerChange::ForgetBroker(name) => match self.tables.broker(name)? {
                None => Ok(Answer::Refused(Refusal::UnknownBroker)),
                Some(_) => self.tables.delete_broker(name).map(|()| Answer::Done),
            },
            LedgerChange::AddToken(token) => self.add_token(token),
            LedgerChange::UseToken(hash, now) => self.use_token(hash, *now),
            LedgerChange::RevokeToken(id) => Ok(match self.tables.delete_token(*id)? {
                true => Answer::Done,
                false => Answer::Refused(Refusal::UnknownToken),
            }),
            LedgerChange::Nothing => Ok(Answer::Done),
            LedgerChange::Audited(entry, inner) => {
                let answer = self.apply(inner)?;
                let refused = match &answer {
                    Answer::Refused(refusal) => Some(refusal.name()),
                    _ => None,
                };
                self.tables.insert_audit(entry, refused)?;
                Ok(answer)
            }
        }
    }

    /// Returns a run, or the reason for which nothing can be changed in it.
    fn open_run(&mut self, run: RunId) -> Result<Result<&mut CachedRun, Refusal>> {
        let cached = match self.runs.entry(run) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => match self.tables.run(run)? {
                None => return Ok(Err(Refusal::UnknownRun)),
                Some(record) => free.insert(CachedRun { record, is_changed: false }),
            },
        };
        Ok(if cached.record.phase == RunPhase::Ended { Err(Refusal::RunEnded) } else { Ok(cached) })
    }

    /// Changes the row of a run that was found open.
    fn change_run(&mut self, run: RunId, change: impl FnOnce(&mut RunRow)) {
        if let Some(cached) = self.runs.get_mut(&run) {
            change(&mut cached.record);
            cached.is_changed = true;
        }
    }

    fn write_runs(&mut self) -> Result<()> {
        for cached in self.runs.values().filter(|cached| cached.is_changed) {
            self.tables.update_run(&cached.record)?;
        }
        Ok(())
    }

    fn start_run(&mut self, run: &NewRun) -> Result<Answer> {
        if let Some(relationship) = run.relationship {
            if self.tables.relationship(relationship)?.is_none() {
                return Ok(Answer::Refused(Refusal::UnknownRelationship));
            }
            if let Some(open) = self.tables.open_run_of(relationship)? {
                return Ok(Answer::Refused(Refusal::RunOpen(open)));
            }
        }
        let record = self.tables.insert_run(run)?;
        let id = record.id;
        self.runs.insert(id, CachedRun { record, is_changed: false });
        self.offer(id, &run.units)?;
        Ok(Answer::RunStarted(id))
    }

    /// Adds units to a run that was found open.
    fn offer(&mut self, run: RunId, units: &[UnitWork]) -> Result<()> {
        let state = UnitState::offered(self.tables.first_epoch()?);
        for work in units {
            self.tables.insert_unit(run, &state, &work.encode()?)?;
        }
        let added = units.len() as u64;
        if added > 0 {
            self.change_run(run, |run| run.units.added = run.units.added.saturating_add(added));
        }
        Ok(())
    }

    fn step_run(&mut self, step: &RunStep) -> Result<Answer> {
        let run = match self.open_run(step.run)? {
            Ok(run) => &run.record,
            Err(refusal) => return Ok(Answer::Refused(refusal)),
        };
        let refusal = match () {
            () if run.step != step.step => Some(Refusal::OtherStep),
            () if step.phase < run.phase => Some(Refusal::PhaseGoesBack),
            // A run ends with its report.
            () if step.phase == RunPhase::Ended => Some(Refusal::UnitsLeft),
            () if step.phase != run.phase && run.units.open() > 0 => Some(Refusal::UnitsLeft),
            () => None,
        };
        if let Some(refusal) = refusal {
            return Ok(Answer::Refused(refusal));
        }
        self.change_run(step.run, |run| {
            run.step = run.step.saturating_add(1);
            run.phase = step.phase;
            run.cursor.clone_from(&step.cursor);
        });
        self.offer(step.run, &step.units)?;
        Ok(Answer::Done)
    }

    fn end_run(&mut self, end: &RunEnd) -> Result<Answer> {
        let run = match self.open_run(end.run)? {
            Ok(run) => &run.record,
            Err(refusal) => return Ok(Answer::Refused(refusal)),
        };
        let may_drop = matches!(end.outcome, RunOutcome::Cancelled | RunOutcome::Failed);
        if run.units.open() > 0 && !may_drop {
            return Ok(Answer::Refused(Refusal::UnitsLeft));
        }
        self.change_run(end.run, |run| {
            run.step = run.step.saturating_add(1);
            run.phase = RunPhase::Ended;
            run.cursor.clear();
            run.ended = Some(end.ended);
            run.outcome = Some(end.outcome);
            run.counters.dropped = end.dropped;
        });
        self.tables.insert_report(end.run, &end.report)?;
        if self.is_to_be_told(end)? {
            self.tables.insert_untold(end.run)?;
        }
        // A run that starts in this batch looks for others of its relationship.
        self.write_runs()?;
        Ok(Answer::Done)
    }

    /// Returns true if the relationship of a run says who is told of this end.
    fn is_to_be_told(&mut self, end: &RunEnd) -> Result<bool> {
        let relationship = self.runs.get(&end.run).and_then(|cached| cached.record.relationship);
        let Some(relationship) = relationship else { return Ok(false) };
        let record = self.tables.relationship(relationship)?;
        // One of a later version of the program is not understood here, and nobody is told.
        let setting = record.and_then(|record| record.relationship.notification);
        let setting = setting.and_then(|json| NotificationSetting::understood(&json));
        Ok(setting.is_some_and(|setting| setting.tells(NotificationKind::of_outcome(end.outcome))))
    }

    fn set_in_run(&mut self, run: RunId, set: impl FnOnce(&mut RunRow)) -> Result<Answer> {
        if let Err(refusal) = self.open_run(run)? {
            return Ok(Answer::Refused(refusal));
        }
        self.change_run(run, set);
        Ok(Answer::Done)
    }

    /// Decides a transition. Units of runs that have ended are not known any more, though their rows may be there still.
    fn decide(
        &mut self,
        key: UnitKey,
        transition: &UnitTransition,
    ) -> Result<(Option<UnitRecord>, UnitDecision)> {
        if self.open_run(key.run)?.is_err() {
            return Ok((None, UnitDecision::Refuse(UnitRefusal::Unknown)));
        }
        let unit = self.tables.unit(key)?;
        let before = match &unit {
            Some(unit) => UnitBefore::Open(&unit.state, &unit.group),
            None => self.tables.committed(key)?.map_or(UnitBefore::Unknown, UnitBefore::Committed),
        };
        let decision = decide(before, transition);
        Ok((unit, decision))
    }

    fn move_unit(&mut self, key: UnitKey, transition: &UnitTransition) -> Result<Answer> {
        let (unit, decision) = self.decide(key, transition)?;
        let state = match (decision, unit) {
            (UnitDecision::Refuse(refusal), _) => return Ok(Answer::Refused(Refusal::Unit(refusal))),
            (UnitDecision::GiveUp, _) => return self.give_up(key, transition),
            (UnitDecision::Become(state), _) => {
                self.tables.update_unit(key, &state)?;
                state
            }
            (UnitDecision::Repeat, Some(unit)) => unit.state,
            (UnitDecision::Repeat, None) | (UnitDecision::Commit(_), _) => return Ok(Answer::Committed),
        };
        let Some(holder) = state.holder else { return Ok(Answer::Ready(state.epoch)) };
        let work = self.work(key)?;
        Ok(Answer::Leased(Box::new(Lease { key, epoch: state.epoch, deadline: holder.deadline, work })))
    }

    fn work(&mut self, key: UnitKey) -> Result<UnitWork> {
        match self.tables.encoded_work(key)? {
            Some(bytes) => UnitWork::decode(&bytes),
            None => Err(Error::new(ErrorKind::Corrupt, "reading the work of a unit", "there is none")),
        }
    }

    /// Removes a unit that was tried too often: its items are failures, which a run of what failed begins with.
    fn give_up(&mut self, key: UnitKey, last: &UnitTransition) -> Result<Answer> {
        let error = no_result(last);
        let items: Vec<(u16, EntryPath)> = match self.work(key)? {
            UnitWork::All => vec![(0, EntryPath::root())],
            UnitWork::Again(paths) => paths,
            UnitWork::File(OpenFilePosition { root, path }) => vec![(root, path)],
            // Its file fails once, when it ends.
            UnitWork::Items(items) if items.iter().any(UnitItem::is_range) => {
                for item in items {
                    let row = OpenFileRow::torn(item.position(), &error)?;
                    self.tables.insert_open_file(key.run, &row)?;
                }
                Vec::new()
            }
            UnitWork::Items(items) => {
                let paths = |item: UnitItem| item.paths().into_iter().map(move |path| (item.root, path));
                items.into_iter().flat_map(paths).collect()
            }
            UnitWork::Links(range) => {
                let groups = self.tables.links_in(key.run, &range)?.map(|pack| pack.groups);
                let names = groups.into_iter().flatten().flat_map(|group| group.names);
                names.map(|name| (name.root, name.path)).collect()
            }
            UnitWork::Directories(range) => {
                let rows = self.tables.directories_in(key.run, &range)?.map(|pack| pack.directories);
                rows.into_iter().flatten().map(|row| (row.root, row.path)).collect()
            }
        };
        for (root, path) in items {
            let failure = Failure { path: path.as_bytes().to_vec(), error: error.clone() };
            self.add_failure(key.run, FailureRow::new(root, &failure))?;
        }
        self.tables.delete_unit(key)?;
        self.change_run(key.run, |run| {
            run.units.given_up = run.units.given_up.saturating_add(1);
            count_unit(&mut run.counters.phase_units, run.phase);
        });
        Ok(Answer::GivenUp)
    }

    fn commit(
        &mut self,
        key: UnitKey,
        broker: &BrokerName,
        epoch: Epoch,
        result: &UnitResult,
    ) -> Result<Answer> {
        let transition = UnitTransition::Commit { broker: broker.clone(), epoch };
        match self.decide(key, &transition)?.1 {
            UnitDecision::Commit(epoch) => {
                if result.names_entries() && !result.is_within(&self.work(key)?) {
                    return Ok(Answer::Refused(Refusal::Unit(UnitRefusal::OutsideUnit)));
                }
                self.tables.delete_unit(key)?;
                self.tables.insert_committed(key, epoch)?;
                self.add_result(key.run, result)?;
                Ok(Answer::Committed)
            }
            UnitDecision::Repeat => Ok(Answer::Committed),
            UnitDecision::Refuse(refusal) => Ok(Answer::Refused(Refusal::Unit(refusal))),
            UnitDecision::Become(_) | UnitDecision::GiveUp => {
                Err(Error::new(ErrorKind::Corrupt, "committing a unit", "it would have another state"))
            }
        }
    }

    fn add_result(&mut self, run: RunId, result: &UnitResult) -> Result<()> {
        for row in &result.open_directories {
            self.tables.insert_open_directory(run, row)?;
        }
        for row in &result.open_files {
            self.tables.insert_open_file(run, row)?;
        }
        for row in &result.link_names {
            self.tables.insert_link_name(run, row)?;
        }
        for row in &result.failures {
            self.add_failure(run, row.clone())?;
        }
        self.change_run(run, |run| {
            run.units.committed = run.units.committed.saturating_add(1);
            run.counters.add(&result.counters);
            count_unit(&mut run.counters.phase_units, run.phase);
            run.losses.add(&result.losses);
        });
        self.offer(run, &result.children)
    }

    fn add_failure(&mut self, run: RunId, row: FailureRow) -> Result<()> {
        let mut last = 0;
        self.change_run(run, |run| {
            run.failures = run.failures.saturating_add(1);
            last = run.failures;
        });
        self.tables.insert_failure(run, &NumberedFailure { number: RowNumber::new(last)?, row })
    }

    fn add_relationship(&mut self, relationship: &Relationship, now: Moment) -> Result<Answer> {
        if self.tables.relationship_by_name(&relationship.name)?.is_some() {
            return Ok(Answer::Refused(Refusal::NameTaken));
        }
        let record = self.tables.insert_relationship(relationship, now)?;
        Ok(Answer::RelationshipSaved(record.id, record.revision))
    }

    fn replace_relationship(
        &mut self,
        id: RelationshipId,
        revision: Revision,
        relationship: &Relationship,
        now: Moment,
    ) -> Result<Answer> {
        let Some(mut record) = self.tables.relationship(id)? else {
            return Ok(Answer::Refused(Refusal::UnknownRelationship));
        };
        let Some(next) = revision.next().filter(|_| record.revision == revision) else {
            return Ok(Answer::Refused(Refusal::OtherRevision));
        };
        if self.tables.relationship_by_name(&relationship.name)?.is_some_and(|named| named != id) {
            return Ok(Answer::Refused(Refusal::NameTaken));
        }
        (record.revision, record.changed, record.relationship) = (next, now, relationship.clone());
        self.tables.update_relationship(&record)?;
        Ok(Answer::RelationshipSaved(id, next))
    }

    fn remove_relationship(&mut self, id: RelationshipId, revision: Revision) -> Result<Answer> {
        match self.tables.relationship(id)? {
            None => return Ok(Answer::Refused(Refusal::UnknownRelationship)),
            Some(record) if record.revision != revision => {
                return Ok(Answer::Refused(Refusal::OtherRevision));
            }
            Some(_) => {}
        }
        match self.tables.open_run_of(id)? {
            Some(open) => Ok(Answer::Refused(Refusal::RunOpen(open))),
            None => self.tables.delete_relationship(id).map(|()| Answer::Done),
        }
    }

    fn drain_broker(&mut self, name: &BrokerName, is_draining: bool) -> Result<Answer> {
        let Some(mut record) = self.tables.broker(name)? else {
            return Ok(Answer::Refused(Refusal::UnknownBroker));
        };
        record.is_draining = is_draining;
        self.tables.put_broker(&record)?;
        Ok(Answer::Done)
    }

    fn add_token(&mut self, token: &NewToken) -> Result<Answer> {
        if self.tables.token(&token.hash)?.is_some() {
            return Ok(Answer::Refused(Refusal::TokenTaken));
        }
        self.tables.insert_token(token).map(Answer::TokenAdded)
    }

    fn use_token(&mut self, hash: &TokenHash, now: Moment) -> Result<Answer> {
        let Some(mut record) = self.tables.token(hash)?.filter(|record| record.is_valid_at(now)) else {
            return Ok(Answer::Refused(Refusal::UnknownToken));
        };
        if record.token.is_single_use {
            self.tables.delete_token(record.id)?;
        } else {
            self.tables.set_token_used(record.id, now)?;
        }
        record.last_used = Some(now);
        Ok(Answer::TokenUsed(Box::new(record)))
    }
}

/// Returns the error of a unit that was tried too often: the last one, if a broker told of it.
fn no_result(last: &UnitTransition) -> Error {
    match last {
        UnitTransition::Refuse { error: Some(error), .. } => {
            Error { detail: format!("{} ({ATTEMPTS_MAX} attempts)", error.detail), ..(**error).clone() }
        }
        _ => {
            let detail = format!("{ATTEMPTS_MAX} attempts ended without a result");
            Error::new(ErrorKind::Io, "working on a unit", detail)
                .hint("see the logs of the brokers, and retry what failed")
        }
    }
}
