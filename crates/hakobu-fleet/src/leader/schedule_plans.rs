//! The schedules of relationships, as a leader knows them beside the ledger.

use std::collections::BTreeMap;

use hakobu_core::error::Result;

use crate::ids::{Moment, RelationshipId};
use crate::ledger::{Ledger, PAGE_ROWS_MAX};
use crate::relationship::RelationshipRecord;
use crate::schedule::Schedule;
use crate::start_delay::StartDelay;

/// The schedule of a relationship. It is kept as text, which is small, and parsed when something is due.
pub(super) struct PlannedRelationship {
    pub json: String,
    /// The moment until which starts have been dealt with.
    pub dealt_with: Moment,
    /// The moment before which nothing is due; `None` until something else changes.
    pub next: Option<Moment>,
    /// The start that waits, or that was left out last; none from the next start on.
    pub delay: Option<StartDelay>,
}

impl PlannedRelationship {
    /// Returns the schedule. It was readable when it was put here.
    pub fn schedule(&self) -> Option<Schedule> {
        Schedule::parse(&self.json).ok()
    }

    /// Takes over what was known of the same schedule.
    fn keep(&mut self, before: Self) {
        if self.json == before.json {
            self.dealt_with = self.dealt_with.max(before.dealt_with);
            self.delay = before.delay;
        }
    }
}

/// The schedules of all relationships that have one.
#[derive(Default)]
pub(super) struct SchedulePlans {
    pub planned: BTreeMap<RelationshipId, PlannedRelationship>,
    pub looked_ms: u64,
}

impl SchedulePlans {
    /// Returns true if the schedule of a relationship has a blackout at a moment.
    pub(super) fn has_blackout(&self, relationship: Option<RelationshipId>, at: Moment) -> bool {
        let planned = relationship.and_then(|id| self.planned.get(&id));
        let schedule = planned.and_then(PlannedRelationship::schedule);
        schedule.is_some_and(|schedule| schedule.blackout_at(at).is_blackout)
    }

    /// Reads the schedules of all relationships. One that cannot be read is left out: it was checked when it was saved.
    ///
    /// # Errors
    /// Those of the ledger.
    pub(super) fn read(ledger: &mut dyn Ledger, now: Moment) -> Result<Self> {
        let mut plans = Self::default();
        let mut after = None;
        loop {
            let records = ledger.relationships(after, PAGE_ROWS_MAX)?;
            let Some(last) = records.last() else { return Ok(plans) };
            after = Some(last.id);
            for record in records {
                plans.put(ledger, &record, now)?;
            }
        }
    }

    pub(super) fn put(
        &mut self,
        ledger: &mut dyn Ledger,
        record: &RelationshipRecord,
        now: Moment,
    ) -> Result<()> {
        let before = self.planned.remove(&record.id);
        let json = record.relationship.schedule.as_ref().filter(|json| Schedule::parse(json).is_ok());
        let Some(json) = json.cloned() else { return Ok(()) };
        let last = ledger.runs(Some(record.id), None, 1)?.first().map(|run| run.started);
        let dealt_with = record.changed.max(last.unwrap_or_default());
        let mut plan = PlannedRelationship { json, dealt_with, next: Some(now), delay: None };
        if let Some(before) = before {
            plan.dealt_with = if plan.json == before.json { before.dealt_with } else { dealt_with };
            plan.keep(before);
        }
        self.planned.insert(record.id, plan);
        Ok(())
    }

    /// Takes over what earlier plans knew beside the ledger.
    pub(super) fn keep(&mut self, before: Self) {
        for (id, before) in before.planned {
            if let Some(plan) = self.planned.get_mut(&id) {
                plan.keep(before);
            }
        }
    }
}
