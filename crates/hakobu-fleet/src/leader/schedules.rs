//! Starts the runs of relationships with a schedule, and pauses runs during blackouts.

use std::collections::BTreeMap;

use hakobu_core::error::Result;

use super::schedule_plans::PlannedRelationship;
use super::{Leader, Then};
use crate::change::LedgerChange;
use crate::ids::{Moment, RelationshipId};
use crate::run::NewRun;
use crate::run_request::FleetRequest;
use crate::schedule::StartDecision;
use crate::unit::UnitWork;

/// The time between two looks at what is due, in milliseconds.
const LOOK_EVERY_MS: u64 = 1_000;
/// The pause after a start that the ledger did not take, in milliseconds.
const RETRY_MS: u64 = 10_000;

impl Leader {
    /// Takes up the schedule of a relationship that was saved or removed.
    pub(super) fn plan(&mut self, id: RelationshipId) {
        let (now, _) = self.now();
        let read = self.ledger.relationship(id).and_then(|record| match record {
            Some(record) => self.plans.put(&mut *self.ledger, &record, now),
            None => {
                self.plans.planned.remove(&id);
                Ok(())
            }
        });
        if let Err(error) = read {
            self.ledger_error = Some(error);
        }
    }

    /// Looks at a schedule again, as a run of its relationship has ended.
    pub(super) fn plan_after_run(&mut self, id: RelationshipId) {
        let (now, _) = self.now();
        if let Some(planned) = self.plans.planned.get_mut(&id) {
            planned.next = Some(now);
        }
    }

    /// Starts what is due, and pauses runs during blackouts.
    pub(super) fn follow_schedules(&mut self) {
        let (now, now_ms) = self.now();
        if now_ms.saturating_sub(self.plans.looked_ms) < LOOK_EVERY_MS {
            return;
        }
        self.plans.looked_ms = now_ms;
        let mut running = BTreeMap::new();
        for run in self.runs.values_mut() {
            let Some(id) = run.row.relationship else { continue };
            let schedule = self.plans.planned.get(&id).and_then(PlannedRelationship::schedule);
            run.is_blackout = schedule.is_some_and(|schedule| schedule.blackout_at(now).is_blackout);
            running.insert(id, run.row.id);
        }
        let mut starts = Vec::new();
        for (id, planned) in &mut self.plans.planned {
            if planned.next.is_none_or(|next| next > now) {
                continue;
            }
            let Some(schedule) = planned.schedule() else {
                planned.next = None;
                continue;
            };
            match schedule.decide(planned.dealt_with, now, running.contains_key(id)) {
                StartDecision::Start(_) => {
                    // It is dealt with when the ledger has it.
                    planned.next = Some(now.plus_ms(RETRY_MS));
                    starts.push(*id);
                }
                StartDecision::LeaveOut(_) => {
                    planned.dealt_with = now;
                    planned.next = schedule.next_start(now);
                }
                StartDecision::Wait(until) => planned.next = until,
            }
        }
        for id in starts {
            if let Err(error) = self.start_scheduled(id, now) {
                self.ledger_error = Some(error);
            }
        }
    }

    fn start_scheduled(&mut self, id: RelationshipId, now: Moment) -> Result<()> {
        let Some(record) = self.ledger.relationship(id)? else { return Ok(()) };
        let run = NewRun {
            relationship: Some(id),
            group: record.relationship.group.clone(),
            request: FleetRequest::of(&record.relationship)?.json()?,
            started: now,
            units: vec![UnitWork::All],
        };
        if self.run_into(&run).is_some() {
            // It is asked for again soon, until the other run has ended.
            return Ok(());
        }
        let change = LedgerChange::StartRun(Box::new(run));
        change.check()?;
        self.pending.push((change, Then::Planned(id, now)));
        Ok(())
    }

    /// Notes that a planned run has started, or could not because another one has not ended.
    pub(super) fn has_started(&mut self, id: RelationshipId, at: Moment) {
        if let Some(planned) = self.plans.planned.get_mut(&id) {
            planned.dealt_with = planned.dealt_with.max(at);
            planned.next = planned.schedule().and_then(|schedule| schedule.next_start(at));
        }
    }
}
