//! The bottleneck of a run, from those of the units under way.

use std::collections::BTreeMap;

use hakobu_core::counters::LaneStage;

use super::glimpse::{RunGlimpse, open_state};
use super::run_view::RunState;

/// Returns the bottleneck that most lanes have. A lane that waits for work says nothing about those that have some.
pub fn run_bottleneck(glimpse: &RunGlimpse) -> String {
    if open_state(glimpse) == RunState::Paused {
        return String::new();
    }
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for unit in glimpse.brokers.iter().flat_map(|broker| &broker.units) {
        if !unit.limited_by.is_empty() {
            *causes.entry(&unit.limited_by).or_default() += unit.lanes.max(1);
        }
    }
    let most = causes.into_iter().max_by_key(|(cause, lanes)| (*cause != LaneStage::Idle.name(), *lanes));
    most.map(|(cause, _)| cause.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::run_view::{RunBroker, RunLane, RunUnits};
    use crate::ids::{Moment, RunId};
    use crate::names::GroupName;
    use crate::run::NewRun;
    use crate::run_figures::RunFigures;
    use crate::run_request::FleetRequest;

    fn glimpse(units: &[(u64, &str)]) -> RunGlimpse {
        let run = NewRun {
            relationship: None,
            group: GroupName::new("local").unwrap(),
            request: "{}".to_owned(),
            started: Moment::default(),
            units: Vec::new(),
        };
        let lane = |(lanes, limited_by): &(u64, &str)| RunLane {
            unit: 1,
            running_ms: 0,
            entries_found: 0,
            entries_done: 0,
            bytes_done: 0,
            failures: 0,
            lanes: *lanes,
            limited_by: (*limited_by).to_owned(),
            silent_ms: None,
        };
        let broker = |(at, unit)| RunBroker { broker: format!("b{at}"), units: vec![lane(unit)] };
        RunGlimpse {
            row: run.record(RunId::default()),
            request: FleetRequest::default(),
            is_paused: false,
            limits: None,
            shared_limits: Vec::new(),
            waiting_for: None,
            brokers: units.iter().enumerate().map(broker).collect(),
            figures: RunFigures::default(),
            waits_for_reports: false,
            looks_again: false,
            settled_bytes: 0,
            units: RunUnits::default(),
            last_error: None,
        }
    }

    #[test]
    fn the_bottleneck_of_most_lanes_is_that_of_the_run() {
        assert_eq!(run_bottleneck(&glimpse(&[])), "");
        assert_eq!(run_bottleneck(&glimpse(&[(4, "")])), "");
        let units = [(8, "network"), (2, "source read"), (2, "source read"), (40, "idle"), (0, "")];
        assert_eq!(run_bottleneck(&glimpse(&units)), "network");
        assert_eq!(run_bottleneck(&glimpse(&units[1..])), "source read");
        assert_eq!(run_bottleneck(&glimpse(&[(3, "idle"), (0, "")])), "idle");
        let paused = RunGlimpse { is_paused: true, ..glimpse(&units) };
        assert_eq!(run_bottleneck(&paused), "", "nothing is slow that does not move");
    }
}
