//! How far the phases of a run are, for people and programs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::phase_units::PhaseUnits;
use crate::run::{RunOutcome, RunPhase, RunRow};
use crate::run_request::{FleetRequest, RunVerb};

/// The state of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseState {
    /// It is done.
    Done,
    /// It is under way.
    Running,
    /// The run went on without it.
    Skipped,
    /// The run ended in the middle of it.
    Stopped,
    /// It has not begun. In a run that has ended, it never will.
    NotBegun,
}

/// The reason for which a phase was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// There was nothing to do.
    NothingToDo,
    /// Entries failed, so that nothing may be removed.
    EntriesFailed,
}

/// A phase of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PhaseView {
    /// The name: `copy`, `links`, `removal`, `directories` or `verify`.
    pub phase: String,
    /// The state.
    pub state: PhaseState,
    /// The reason, if it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<SkipReason>,
}

/// Returns true if the target has something that is to be removed.
pub fn has_extra(row: &RunRow, request: &FleetRequest) -> bool {
    request.verb == RunVerb::Sync && (request.removes_more || row.counters.entries_only_in_target > 0)
}

/// Counts a unit that has ended in a phase.
pub fn count_unit(units: &mut PhaseUnits, phase: RunPhase) {
    if let Some(count) = units_of(units, phase) {
        *count = count.saturating_add(1);
    }
}

/// Returns the number of units of a phase, if it is one that a run may leave out.
fn units_of(units: &mut PhaseUnits, phase: RunPhase) -> Option<&mut u64> {
    match phase {
        RunPhase::Links => Some(&mut units.links),
        RunPhase::Removal => Some(&mut units.removal),
        RunPhase::Directories => Some(&mut units.directories),
        RunPhase::Verify => Some(&mut units.verify),
        RunPhase::Copy | RunPhase::Ended => None,
    }
}

/// Returns the phases of a run from its last row under way. `outcome`: the outcome if it ends now.
pub fn phases(row: &RunRow, request: &FleetRequest, outcome: Option<RunOutcome>) -> Vec<PhaseView> {
    let is_meant = |phase: &RunPhase| match phase {
        RunPhase::Removal => request.verb == RunVerb::Sync,
        RunPhase::Verify => request.verify,
        RunPhase::Ended => false,
        RunPhase::Copy | RunPhase::Links | RunPhase::Directories => true,
    };
    let is_regular_end = matches!(outcome, Some(RunOutcome::Complete | RunOutcome::Partial));
    let mut units = row.counters.phase_units;
    let view = |phase: RunPhase| {
        let has_units = units_of(&mut units, phase).is_some_and(|count| *count > 0);
        let (state, reason) = match phase {
            _ if phase > row.phase && !is_regular_end => (PhaseState::NotBegun, None),
            _ if phase == row.phase && outcome.is_none() => (PhaseState::Running, None),
            _ if phase == row.phase && !is_regular_end => (PhaseState::Stopped, None),
            RunPhase::Copy => (PhaseState::Done, None),
            _ if has_units => (PhaseState::Done, None),
            RunPhase::Removal if has_extra(row, request) => {
                (PhaseState::Skipped, Some(SkipReason::EntriesFailed))
            }
            _ => (PhaseState::Skipped, Some(SkipReason::NothingToDo)),
        };
        PhaseView { phase: phase.name().to_owned(), state, reason }
    };
    RunPhase::ALL.into_iter().filter(is_meant).map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Moment, RunId};
    use crate::names::GroupName;
    use crate::run::NewRun;

    fn row(phase: RunPhase) -> RunRow {
        let new = NewRun {
            relationship: None,
            group: GroupName::new("local").unwrap(),
            request: "{}".to_owned(),
            started: Moment::default(),
            units: Vec::new(),
        };
        RunRow { phase, ..new.record(RunId::default()) }
    }

    fn shown(row: &RunRow, request: &FleetRequest, outcome: Option<RunOutcome>) -> String {
        let words = |view: PhaseView| {
            let reason = match view.reason {
                None => "",
                Some(SkipReason::NothingToDo) => ", nothing to do",
                Some(SkipReason::EntriesFailed) => ", entries failed",
            };
            format!("{} {:?}{reason}", view.phase, view.state)
        };
        phases(row, request, outcome).into_iter().map(words).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn phases_that_were_not_done_are_told_from_those_that_were() {
        let copy = FleetRequest::default();
        let sync = FleetRequest { verb: RunVerb::Sync, verify: true, ..FleetRequest::default() };
        let first = row(RunPhase::Copy);
        assert_eq!(shown(&first, &copy, None), "copy Running; links NotBegun; directories NotBegun");
        let failed = shown(&first, &sync, Some(RunOutcome::Failed));
        assert_eq!(
            failed,
            "copy Stopped; links NotBegun; removal NotBegun; directories NotBegun; verify NotBegun"
        );
        let complete = shown(&first, &copy, Some(RunOutcome::Complete));
        assert_eq!(complete, "copy Done; links Skipped, nothing to do; directories Skipped, nothing to do");

        let mut last = row(RunPhase::Verify);
        last.counters.entries_only_in_target = 3;
        count_unit(&mut last.counters.phase_units, RunPhase::Directories);
        let running = shown(&last, &sync, None);
        assert_eq!(
            running,
            "copy Done; links Skipped, nothing to do; removal Skipped, entries failed; directories Done; verify Running"
        );
        count_unit(&mut last.counters.phase_units, RunPhase::Removal);
        count_unit(&mut last.counters.phase_units, RunPhase::Links);
        count_unit(&mut last.counters.phase_units, RunPhase::Verify);
        let partial = shown(&last, &sync, Some(RunOutcome::Partial));
        assert_eq!(partial, "copy Done; links Done; removal Done; directories Done; verify Done");
        let cancelled = shown(&row(RunPhase::Removal), &sync, Some(RunOutcome::Cancelled));
        assert!(cancelled.ends_with("removal Stopped; directories NotBegun; verify NotBegun"), "{cancelled}");
    }
}
