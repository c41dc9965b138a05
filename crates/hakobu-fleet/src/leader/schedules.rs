//! Starts the runs of relationships with a schedule, and pauses runs during blackouts.

use std::collections::BTreeMap;

use hakobu_core::error::{ErrorKind, Result};

use super::{Leader, Then};
use crate::change::{LedgerAnswer, LedgerChange, LedgerRefusal};
use crate::ids::{Moment, RelationshipId};
use crate::run::NewRun;
use crate::run_request::FleetRequest;
use crate::schedule::StartDecision;
use crate::start_delay::{DelayCause, StartDelay};
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
            run.is_blackout = self.plans.has_blackout(Some(id), now);
            running.insert(id, run.row.id);
        }
        let (mut starts, mut delays) = (Vec::new(), Vec::new());
        for (id, planned) in &mut self.plans.planned {
            if planned.next.is_none_or(|next| next > now) {
                continue;
            }
            let Some(schedule) = planned.schedule() else {
                planned.next = None;
                continue;
            };
            match schedule.decide(planned.dealt_with, now, running.contains_key(id)) {
                StartDecision::Start(start) => {
                    // It is dealt with when the ledger has it.
                    planned.next = Some(now.plus_ms(RETRY_MS));
                    starts.push((*id, start));
                }
                StartDecision::LeaveOut(start) => {
                    planned.dealt_with = now;
                    planned.next = schedule.next_planned(now);
                    delays.push((*id, (start, true)));
                }
                StartDecision::Delay(start, until) => {
                    planned.next = until;
                    delays.push((*id, (start, false)));
                }
                StartDecision::Wait(until) => {
                    planned.next = until;
                    planned.delay.take_if(|delay| !delay.is_left_out);
                }
            }
        }
        for (id, delay) in delays {
            if let Err(error) = self.delay_start(id, delay, running.get(&id).copied()) {
                self.ledger_error = Some(error);
            }
        }
        for (id, planned) in starts {
            let started = match self.start_scheduled(id, planned, now) {
                Err(error) if matches!(error.kind, ErrorKind::Usage | ErrorKind::Unsupported) => {
                    // It stays so until somebody changes the relationship.
                    let cause = DelayCause::Refused(error.to_string());
                    self.note_delay(id, StartDelay { planned, is_left_out: false, cause })
                }
                started => started,
            };
            if let Err(error) = started {
                self.ledger_error = Some(error);
            }
        }
    }

    fn start_scheduled(&mut self, id: RelationshipId, planned: Moment, now: Moment) -> Result<()> {
        let Some(record) = self.ledger.relationship(id)? else { return Ok(()) };
        let run = NewRun {
            relationship: Some(id),
            group: record.relationship.group.clone(),
            request: FleetRequest::of(&record.relationship)?.json()?,
            started: now,
            units: vec![UnitWork::All],
        };
        if let Some(other) = self.run_into(&run) {
            // It is asked for again soon, until the other run has ended.
            let cause = DelayCause::TargetInUse(other);
            return self.note_delay(id, StartDelay { planned, is_left_out: false, cause });
        }
        let change = LedgerChange::StartRun(Box::new(run));
        change.check()?;
        self.pending.push((change, Then::Planned(id, now)));
        Ok(())
    }

    /// Notes that a planned run has started. One that could not, because another one of the relationship began at this moment,
    /// is decided about again.
    pub(super) fn has_started(&mut self, id: RelationshipId, at: Moment, answer: &LedgerAnswer) {
        if matches!(answer, LedgerAnswer::Refused(LedgerRefusal::RunOpen(_))) {
            return;
        }
        if let Some(planned) = self.plans.planned.get_mut(&id) {
            planned.dealt_with = planned.dealt_with.max(at);
            planned.next = planned.schedule().and_then(|schedule| schedule.next_planned(at));
            planned.delay = None;
        }
    }
}
