//! Starts by schedule that wait, or are left out: their causes, and their records in the audit log.

use hakobu_core::error::Result;

use super::{Leader, Then};
use crate::audit::{AUDIT_TEXT_BYTES_MAX, AuditEntry};
use crate::change::LedgerChange;
use crate::ids::{Moment, RelationshipId, RunId};
use crate::limits::shortened;
use crate::notification::time_words;
use crate::start_delay::{DelayCause, StartDelay};

/// The number of the latest runs among which the one is looked for that was under way at a time.
const RUNS_LOOKED_AT: usize = 32;
/// The name under which the control plane acts by itself.
const SCHEDULER: &str = "schedule";

impl Leader {
    /// Returns the starts by schedule that wait, and those that were left out last.
    pub fn start_delays(&self) -> impl Iterator<Item = (RelationshipId, &StartDelay)> {
        self.plans.planned.iter().filter_map(|(id, planned)| Some((*id, planned.delay.as_ref()?)))
    }

    /// Notes a start that waits or is left out, for the reason that there is now. `open` is the run of the relationship that has
    /// not ended.
    ///
    /// # Errors
    /// Those of the ledger.
    pub(super) fn delay_start(
        &mut self,
        id: RelationshipId,
        (planned, is_left_out): (Moment, bool),
        open: Option<RunId>,
    ) -> Result<()> {
        let cause = match open {
            Some(run) => DelayCause::RunOpen(run),
            None => self.cause_of_delay(id, planned)?,
        };
        self.note_delay(id, StartDelay { planned, is_left_out, cause })
    }

    /// Returns the cause for which a start is late or waits, although no run of its relationship is under way.
    fn cause_of_delay(&mut self, id: RelationshipId, planned: Moment) -> Result<DelayCause> {
        let (now, _) = self.now();
        let Some(plan) = self.plans.planned.get(&id) else { return Ok(DelayCause::Away) };
        let schedule = plan.schedule();
        let is_blackout = |at| schedule.as_ref().is_some_and(|schedule| schedule.blackout_at(at).is_blackout);
        if is_blackout(now) {
            return Ok(DelayCause::Blackout);
        }
        if let Some(delay) = &plan.delay
            && delay.planned == planned
        {
            // It has waited until it was too late.
            return Ok(delay.cause.clone());
        }
        let is_planned_in_blackout = is_blackout(planned);
        let runs = self.ledger.runs(Some(id), None, RUNS_LOOKED_AT)?;
        let was_open =
            runs.iter().find(|run| run.started <= planned && run.ended.is_none_or(|ended| ended > planned));
        Ok(match was_open {
            Some(run) => DelayCause::RunOpen(run.id),
            None if is_planned_in_blackout => DelayCause::Blackout,
            None => DelayCause::Away,
        })
    }

    /// Notes a delay. The audit log has each reason once, however many starts there are meanwhile.
    ///
    /// # Errors
    /// Those of the ledger.
    pub(super) fn note_delay(&mut self, id: RelationshipId, mut delay: StartDelay) -> Result<()> {
        let Some(plan) = self.plans.planned.get_mut(&id) else { return Ok(()) };
        if let Some(before) = &plan.delay {
            if !before.is_left_out && !delay.is_left_out {
                delay.planned = before.planned;
            }
            if before.is_like(&delay) {
                plan.delay = Some(delay);
                return Ok(());
            }
        }
        let Some(record) = self.ledger.relationship(id)? else { return Ok(()) };
        let action = if delay.is_left_out { "schedule.leave_out" } else { "schedule.wait" };
        let detail = format!("the start of {} {}", time_words(delay.planned), delay.words());
        let (when, _) = self.now();
        let entry = AuditEntry {
            when,
            who: SCHEDULER.to_owned(),
            action: action.to_owned(),
            object: record.relationship.name.into_bytes(),
            detail: shortened(&detail, AUDIT_TEXT_BYTES_MAX),
        };
        let change = LedgerChange::Audited(Box::new(entry), Box::new(LedgerChange::Nothing));
        change.check()?;
        self.pending.push((change, Then::Nothing));
        if let Some(plan) = self.plans.planned.get_mut(&id) {
            plan.delay = Some(delay);
        }
        Ok(())
    }
}
