//! The forecast of the next run of a relationship, from the runs before it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hakobu_core::error::Result;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::ViewerCaller;
use super::forecast::quantile;
use super::listing::PathParts;
use super::problem::{ApiError, ApiResult};
use super::state::ApiState;
use crate::ids::RelationshipId;
use crate::run::{RunOutcome, RunRow};
use crate::run_request::FleetRequest;

/// The number of runs that a forecast is made from.
const FORECAST_RUNS: usize = 20;
/// The number of runs that are looked through for complete ones.
const LOOKED_THROUGH_MAX: usize = 10 * FORECAST_RUNS;

/// The times that complete runs of a relationship took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextRunForecast {
    /// The number of runs that it is made from: those that were complete, at most the last 20.
    pub runs: u64,
    /// The time that half of them took at most, in milliseconds.
    pub p50_ms: u64,
    /// The time that nine of ten took at most, in milliseconds.
    pub p90_ms: u64,
    /// The bytes that half of them copied at most.
    pub p50_bytes: u64,
    /// The bytes that nine of ten copied at most.
    pub p90_bytes: u64,
}

/// Foretells the length of the next run of a relationship. The first run is left out if there are others: it copied everything.
#[utoipa::path(get, path = "/api/v1/relationships/{id}/forecast", tag = "relationships", params(("id" = u64, Path)),
    responses((status = 200, body = NextRunForecast)))]
pub async fn forecast_next(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts(id): PathParts<RelationshipId>,
) -> ApiResult<Json<NextRunForecast>> {
    let (is_there, rows) = state
        .ask(move |leader| -> Result<_> {
            let ledger = leader.ledger();
            Ok((ledger.relationship(id)?.is_some(), ledger.runs(Some(id), None, LOOKED_THROUGH_MAX)?))
        })
        .await??;
    if !is_there {
        return Err(ApiError::not_found("relationship"));
    }
    Ok(Json(foretold(&rows)))
}

/// Returns the forecast from runs, the latest first. A run that tried again what failed says nothing about the others.
fn foretold(rows: &[RunRow]) -> NextRunForecast {
    let is_retry = |row: &RunRow| FleetRequest::parse(&row.request).is_ok_and(|request| request.is_retry);
    let counts = |row: &&RunRow| row.outcome == Some(RunOutcome::Complete) && !is_retry(row);
    let mut rows: Vec<&RunRow> = rows.iter().filter(counts).take(FORECAST_RUNS + 1).collect();
    if rows.len() > 1 {
        rows.pop();
    }
    let times =
        || rows.iter().map(|row| row.ended.map_or(0, |end| end.get().saturating_sub(row.started.get())));
    let bytes = || rows.iter().map(|row| row.counters.figures().bytes_done);
    NextRunForecast {
        runs: rows.len() as u64,
        p50_ms: quantile(times(), 0.5) as u64,
        p90_ms: quantile(times(), 0.9) as u64,
        p50_bytes: quantile(bytes(), 0.5) as u64,
        p90_bytes: quantile(bytes(), 0.9) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Moment, RunId};
    use crate::names::GroupName;
    use crate::run::NewRun;
    use crate::unit_counters::UnitCounters;

    /// Returns a run that took so many seconds and copied so many bytes.
    fn run(seconds: u64, bytes: u64) -> RunRow {
        let new = NewRun {
            relationship: None,
            group: GroupName::new("local").unwrap(),
            request: r#"{"sources":["/a"],"target":"/b"}"#.to_owned(),
            started: Moment::new(1_000_000).unwrap(),
            units: Vec::new(),
        };
        let counters = UnitCounters { target_written_bytes: bytes, ..UnitCounters::default() };
        RunRow {
            ended: Some(new.started.plus_ms(seconds * 1000)),
            outcome: Some(RunOutcome::Complete),
            counters,
            ..new.record(RunId::default())
        }
    }

    fn forecast(runs: u64, ms: (u64, u64), bytes: (u64, u64)) -> NextRunForecast {
        NextRunForecast { runs, p50_ms: ms.0, p90_ms: ms.1, p50_bytes: bytes.0, p90_bytes: bytes.1 }
    }

    #[test]
    fn the_next_run_is_foretold_from_complete_ones_but_the_first() {
        assert_eq!(foretold(&[]), NextRunForecast::default());
        let first = run(9000, 9_000_000);
        let alone = forecast(1, (9_000_000, 9_000_000), (9_000_000, 9_000_000));
        assert_eq!(foretold(std::slice::from_ref(&first)), alone);
        let (mut retry, mut cancelled) = (run(1, 1), run(2, 2));
        retry.request = retry.request.replace('}', r#","is_retry":true}"#);
        cancelled.outcome = Some(RunOutcome::Cancelled);
        let open = RunRow { ended: None, outcome: None, ..run(0, 0) };
        let rows = [open, run(10, 100), retry, cancelled, run(20, 300), run(30, 200), first];
        assert_eq!(foretold(&rows), forecast(3, (20_000, 28_000), (200, 280)));
    }

    #[test]
    fn the_last_twenty_runs_count() {
        let rows: Vec<_> = (0..50).map(|number| run(if number < 20 { 10 } else { 99 }, 5)).collect();
        assert_eq!(foretold(&rows), forecast(20, (10_000, 10_000), (5, 5)));
    }
}
