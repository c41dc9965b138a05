//! Runs as the interface shows them.

use hakobu_core::losses::Loss;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::byte_text::ByteText;
use super::problem::Problem;
use crate::limits_setting::LimitsSetting;
use crate::run::RunRow;
use crate::run_figures::RunFigures;
use crate::run_phases::PhaseView;
use crate::run_request::{FleetRequest, RunVerb};
use crate::run_wait::RunWaitView;
use crate::unit_counters::UnitCounters;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It could not go on.
    Failed,
    /// It is complete but for entries that failed.
    Partial,
    /// Units are being worked on, or will be.
    Running,
    /// Somebody paused it.
    Paused,
    /// Somebody cancelled it.
    Cancelled,
    /// It is complete.
    Complete,
}

impl RunState {
    /// Returns the state of a run.
    pub fn of(row: &RunRow, is_paused: bool) -> Self {
        use crate::run::RunOutcome;
        match row.outcome {
            Some(RunOutcome::Complete) => Self::Complete,
            Some(RunOutcome::Partial) => Self::Partial,
            Some(RunOutcome::Failed) => Self::Failed,
            Some(RunOutcome::Cancelled) => Self::Cancelled,
            None if is_paused => Self::Paused,
            None => Self::Running,
        }
    }
}

/// The numbers of units of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunUnits {
    /// Units that were ever added. The number grows while directories are found.
    pub added: u64,
    /// Units that are done.
    pub committed: u64,
    /// Units that were tried too often. Their entries failed.
    pub given_up: u64,
    /// Units on which brokers work.
    pub leased: u64,
}

/// How fast a run is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunProgress {
    /// The present rate: the bytes that `bytes_done` grows by in a second. While a run removes or compares, the bytes that it
    /// compares in a second.
    pub bytes_per_second: u64,
    /// The present rate: the entries that `entries_done` grows by in a second. While a run removes or compares, the entries that
    /// it looks at in a second.
    pub entries_per_second: u64,
    /// The present bottleneck, as most lanes of all brokers name it, by the names of reports such as `source read`; empty if it is
    /// not known.
    pub limited_by: String,
    /// The forecast of the end.
    pub forecast: Option<RunForecast>,
}

/// The forecast of a run's end. It needs a run of the same relationship that was complete.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunForecast {
    /// The share that is done, from 0 to 1.
    pub done: f64,
    /// The moment before which it ends with a probability of one half, in milliseconds since 1970.
    pub p50_ms: u64,
    /// The moment before which it ends nine times out of ten.
    pub p90_ms: u64,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// The number.
    pub id: u64,
    /// The number of the relationship; none for a run of its own.
    pub relationship: Option<u64>,
    /// The name of the relationship, if it is there still.
    pub relationship_name: Option<String>,
    /// The group whose brokers work on it.
    pub group: String,
    /// The command.
    pub verb: RunVerb,
    /// The state.
    pub state: RunState,
    /// The phase: `copy`, `links`, `removal`, `directories`, `verify` or `ended`.
    pub phase: String,
    /// The event that it waits for, if nothing of it moves and nobody paused it.
    pub waiting_for: Option<RunWaitView>,
    /// The start, in milliseconds since 1970.
    pub started_ms: u64,
    /// The end, in milliseconds since 1970.
    pub ended_ms: Option<u64>,
    /// The units.
    pub units: RunUnits,
    /// How much is done, with what brokers told of units under way.
    pub figures: RunFigures,
    /// The counters of committed units.
    pub counters: UnitCounters,
    /// The number of entries that failed.
    pub failures: u64,
    /// The rates of a run that has not ended.
    pub progress: Option<RunProgress>,
}

/// Locations and options of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestView {
    /// The command.
    #[serde(default)]
    pub verb: RunVerb,
    /// The sources.
    pub sources: Vec<ByteText>,
    /// The target.
    pub target: ByteText,
    /// Further arguments of the command, as on the command line.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// True if the target is compared with the source at the end.
    #[serde(default)]
    pub verify: bool,
}

impl From<&FleetRequest> for RequestView {
    fn from(request: &FleetRequest) -> Self {
        Self {
            verb: request.verb,
            sources: request.sources.iter().map(ByteText::from).collect(),
            target: ByteText::from(&request.target),
            arguments: request.arguments.clone(),
            verify: request.verify,
        }
    }
}

impl From<RequestView> for FleetRequest {
    fn from(view: RequestView) -> Self {
        Self {
            verb: view.verb,
            sources: view.sources.into_iter().map(Into::into).collect(),
            target: view.target.into(),
            arguments: view.arguments,
            verify: view.verify,
            ..Self::default()
        }
    }
}

/// A unit that a broker works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunLane {
    /// The number of the unit.
    pub unit: u64,
    /// The time for which it runs in milliseconds.
    pub running_ms: u64,
    /// The entries that were found so far, as in [`RunFigures`].
    pub entries_found: u64,
    /// The entries that are done.
    pub entries_done: u64,
    /// The bytes that are done, or on their way to the target.
    pub bytes_done: u64,
    /// The entries that failed.
    pub failures: u64,
    /// The number of lanes that work in parallel; 0 if it is not known.
    pub lanes: u64,
    /// The present bottleneck by the names of reports, such as `source read`; empty if it is not known.
    pub limited_by: String,
    /// The time since the broker last reported on it in milliseconds, if reports are missing. Another broker gets the unit when its
    /// lease ends.
    pub silent_ms: Option<u64>,
}

/// A broker that works on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunBroker {
    /// The name.
    pub broker: String,
    /// Its units.
    pub units: Vec<RunLane>,
}

/// A run with everything that is known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: RunView,
    /// Locations and options.
    pub request: RequestView,
    /// The phases, in their order; none if it ended under an earlier version.
    pub phases: Vec<PhaseView>,
    /// The brokers that work on it.
    pub brokers: Vec<RunBroker>,
    /// The limits that were set for it.
    pub limits: Option<LimitsSetting>,
    /// The limits that it shares with other runs: of its group, and of endpoints that it touches. None if it has ended.
    #[serde(default)]
    pub shared_limits: Vec<SharedLimitView>,
    /// Properties that committed units could not keep at the target.
    pub losses: Vec<LossView>,
    /// The number of failures of each kind.
    pub failures_by_kind: std::collections::BTreeMap<String, u64>,
    /// The last error with which a broker returned a unit. Of a run that has ended, the error that ended it.
    pub last_error: Option<Problem>,
}

/// Limits that several runs share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SharedLimitView {
    /// The group, if they are those of a group.
    pub group: Option<String>,
    /// The location, if they are those of an endpoint.
    pub location: Option<ByteText>,
    /// The limits.
    pub limits: LimitsSetting,
}

/// A property that the target could not keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LossView {
    /// The property, by the names of reports: `acl`, `xattr`, `hardlinks`, `holes`, `owner`, `setid`, `flags` or `times`.
    pub what: String,
    /// The number of entries.
    pub count: u64,
    /// The side of the example: `source` or `target`, whichever detected the loss.
    pub side: String,
    /// One of the entries, below the root of that side; empty for the root itself.
    pub example: ByteText,
}

impl From<&Loss> for LossView {
    fn from(loss: &Loss) -> Self {
        Self {
            what: loss.what.name().to_owned(),
            count: loss.count,
            side: if loss.at_target { "target" } else { "source" }.to_owned(),
            example: ByteText(loss.example.clone()),
        }
    }
}

/// An entry that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    /// The number in the run.
    pub number: u64,
    /// The path.
    pub path: ByteText,
    /// The error.
    pub error: Problem,
}

/// The rates of a run at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RateSample {
    /// The moment, in milliseconds since 1970.
    pub at_ms: u64,
    /// The bytes a second.
    pub bytes_per_second: u64,
    /// The entries a second.
    pub entries_per_second: u64,
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunComparison {
    /// The run.
    pub run: RunView,
    /// The other run.
    pub other: RunView,
    /// The time of the run in milliseconds.
    pub run_ms: u64,
    /// The time of the other run in milliseconds.
    pub other_ms: u64,
    /// The options that only one of them has, `+` those of the run and `-` those of the other.
    pub options: Vec<String>,
    /// Entries that failed in the run and not in the other, at most 100.
    pub new_failures: Vec<FailureView>,
    /// Entries that failed in the other and not in the run, at most 100.
    pub mended_failures: Vec<FailureView>,
}
