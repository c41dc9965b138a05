//! The report of a run that has ended, for people and programs.

use std::collections::BTreeMap;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::lossy;
use hakobu_core::report::ReportLoss;
use serde::{Deserialize, Serialize};

use crate::api::problem::Problem;
use crate::failure::name_of_kind;
use crate::ids::Moment;
use crate::ledger::Ledger;
use crate::run::{RunOutcome, RunRow};
use crate::run_figures::RunFigures;
use crate::run_phases::{PhaseView, phases};
use crate::run_request::FleetRequest;
use crate::unit_counters::UnitCounters;

/// The name and version of the report's form.
pub const REPORT_SCHEMA: &str = "hakobu.fleet.run/1";
/// The number of failures that a report names. The ledger has all of them.
const FAILURES_NAMED_MAX: usize = 100;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The name and version of this form.
    pub schema: String,
    /// The number of the run.
    pub run: u64,
    /// The number of the relationship, if it is a run of one.
    pub relationship: Option<u64>,
    /// Locations and options.
    pub request: FleetRequest,
    /// The group whose brokers worked on it.
    pub group: String,
    /// The outcome: `complete`, `partial`, `failed` or `cancelled`.
    pub outcome: String,
    /// The start, in milliseconds since 1970.
    pub started_ms: u64,
    /// The end, in milliseconds since 1970.
    pub ended_ms: u64,
    /// The phase in which it ended.
    pub phase: String,
    /// The phases. Reports of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseView>,
    /// The number of units that were committed.
    pub units: u64,
    /// How much was done, as the interface shows it. Reports of earlier versions have zeros.
    #[serde(default)]
    pub figures: RunFigures,
    /// The counters.
    pub counters: UnitCounters,
    /// The number of entries that failed.
    pub failures: u64,
    /// The number of failures of each kind.
    pub failures_by_kind: BTreeMap<String, u64>,
    /// The first failures.
    pub first_failures: Vec<ReportedFailure>,
    /// Properties that the target could not keep.
    pub losses: Vec<ReportLoss>,
    /// The error that ended the run, if one did.
    pub error: Option<String>,
    /// That error in the form of the API, with its kind and its remedy. Reports of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// A failure in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedFailure {
    /// The path.
    pub path: String,
    /// The kind of error.
    pub kind: String,
    /// The error in words.
    pub error: String,
}

impl RunReport {
    /// Returns the error that ended the run.
    pub fn into_problem(self) -> Option<Problem> {
        self.problem.or_else(|| Some(Problem { message: self.error?, ..Problem::default() }))
    }
}

/// Returns the report of a run that ends now, as JSON.
///
/// # Errors
/// Those of the ledger.
pub fn report(
    ledger: &mut dyn Ledger,
    row: &RunRow,
    request: &FleetRequest,
    (outcome, now): (RunOutcome, Moment),
    error: Option<&Error>,
) -> Result<Vec<u8>> {
    let counts = ledger.failure_counts(row.id)?;
    let first = ledger.failures(row.id, None, None, FAILURES_NAMED_MAX)?;
    let report = RunReport {
        schema: REPORT_SCHEMA.to_owned(),
        run: row.id.get(),
        relationship: row.relationship.map(|id| id.get()),
        request: request.clone(),
        group: row.group.to_string(),
        outcome: outcome.name().to_owned(),
        started_ms: row.started.get(),
        ended_ms: now.get(),
        phase: row.phase.name().to_owned(),
        phases: phases(row, request, Some(outcome)),
        units: row.units.committed,
        figures: row.counters.figures().shown(),
        counters: row.counters,
        failures: row.failures,
        failures_by_kind: counts
            .into_iter()
            .map(|(kind, count)| (name_of_kind(kind).to_owned(), count))
            .collect(),
        first_failures: first
            .iter()
            .map(|failure| ReportedFailure {
                path: lossy(&failure.row.failure.path),
                kind: name_of_kind(failure.row.failure.error.kind).to_owned(),
                error: failure.row.failure.error.to_string(),
            })
            .collect(),
        losses: row.losses.reported(),
        error: error.map(Error::to_string),
        problem: error.map(Problem::from),
    };
    serde_json::to_vec(&report)
        .map_err(|error| Error::new(ErrorKind::Io, "writing the report of a run", error.to_string()))
}
