//! Calls about what failed in a run: the list, another run of only that, and the comparison of two runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE;
use hakobu_core::error::Result;
use hakobu_core::path::EntryPath;
use serde::Deserialize;
use utoipa::IntoParams;

use super::caller::{OperatorCaller, ViewerCaller};
use super::listing::{ListPage, PathParts, QueryParts, page_items, position};
use super::problem::{ApiError, ApiResult, Problem};
use super::relationships::{RunNumber, run_started};
use super::run_view::{FailureView, RunComparison};
use super::state::ApiState;
use crate::change::LedgerChange;
use crate::failure::{NumberedFailure, kind_of_name};
use crate::ids::{RowNumber, RunId};
use crate::run::{NewRun, RunRow, STEP_UNITS_MAX};
use crate::run_request::{FleetRequest, RunVerb};
use crate::unit::UnitWork;

/// The number of failures that the leader reads at a time.
const ROWS_AT_ONCE: usize = 1000;
/// The number of failures that are looked through for a page.
const LOOKED_THROUGH_MAX: usize = 20_000;
/// The number of paths in one unit of a run of what failed.
const PATHS_A_UNIT: usize = 1000;
/// The number of failures that a run of what failed can begin with: more are many enough for a run of everything.
const RETRIED_MAX: usize = 1_000_000;
/// The number of failures that a comparison names.
const COMPARED_SHOWN_MAX: usize = 100;
/// The number of failures of each run that are compared.
const COMPARED_MAX: usize = 100_000;

/// The query of a list of failures.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct FailureQuery {
    /// Only those of a kind, such as `permission_denied`.
    pub kind: Option<String>,
    /// Only those whose path begins like this.
    pub path: Option<String>,
    /// As `path`, in base64 with the alphabet for addresses, for paths that are not UTF-8.
    pub path_base64: Option<String>,
    /// The value of `next` of the page before.
    pub after: Option<String>,
    /// The number of items, at most 1000.
    pub limit: Option<u32>,
}

/// Lists the entries that failed. A page may have few items and the list go on, if a path is asked for.
#[utoipa::path(get, path = "/api/v1/runs/{id}/failures", tag = "runs", params(("id" = u64, Path), FailureQuery),
    responses((status = 200, body = ListPage<FailureView>)))]
pub async fn list_failures(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts(id): PathParts<RunId>,
    QueryParts(query): QueryParts<FailureQuery>,
) -> ApiResult<Json<ListPage<FailureView>>> {
    let row = run(&state, id).await?;
    let kind = match query.kind.as_deref().filter(|kind| !kind.is_empty()) {
        None => None,
        Some(name) => Some(kind_of_name(name).ok_or_else(|| {
            ApiError::usage(format!("kind: {name}: no failure has this kind")).field("kind")
        })?),
    };
    let prefix = match &query.path_base64 {
        Some(base64) => BASE64_URL_SAFE
            .decode(base64)
            .map_err(|error| ApiError::usage(format!("path_base64: {error}")).field("path_base64"))?,
        None => query.path.unwrap_or_default().into_bytes(),
    };
    let limit = page_items(query.limit);
    let mut after: Option<RowNumber> = position(query.after.as_deref())?;
    let (mut items, mut looked) = (Vec::new(), 0);
    let is_whole = prefix.is_empty();
    loop {
        let count = if is_whole { limit } else { ROWS_AT_ONCE };
        let rows = state.ask(move |leader| leader.ledger().failures(id, kind, after, count)).await??;
        let is_end = rows.len() < count;
        looked += rows.len();
        for failure in rows {
            after = Some(failure.number);
            if failure.row.failure.path.starts_with(&prefix) {
                items.push(view(&failure));
            }
            if items.len() == limit {
                break;
            }
        }
        let is_full = items.len() == limit;
        if is_full || is_end || looked >= LOOKED_THROUGH_MAX {
            let next = after.filter(|_| is_full || !is_end).map(|number| number.to_string());
            let total = (is_whole && kind.is_none()).then_some(row.failures);
            return Ok(Json(ListPage { items, next, total }));
        }
    }
}

fn view(failure: &NumberedFailure) -> FailureView {
    FailureView {
        number: failure.number.get(),
        path: failure.row.failure.path[..].into(),
        error: Problem::from(&failure.row.failure.error),
    }
}

async fn run(state: &ApiState, id: RunId) -> ApiResult<RunRow> {
    let row = state.ask(move |leader| leader.ledger().run(id)).await??;
    row.ok_or_else(|| ApiError::not_found("run"))
}

/// Starts a run of only what failed in another one.
#[utoipa::path(post, path = "/api/v1/runs/{id}/retry", tag = "runs", params(("id" = u64, Path)),
    responses((status = 201, body = RunNumber)))]
pub async fn retry_run(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(id): PathParts<RunId>,
) -> ApiResult<(StatusCode, Json<RunNumber>)> {
    let row = run(&state, id).await?;
    if row.ended.is_none() {
        return Err(ApiError::new(StatusCode::CONFLICT, "run_open", "the run has not ended")
            .hint("wait until it has ended, or cancel it"));
    }
    if row.failures == 0 {
        let words = "no entry failed in this run";
        return Err(ApiError::new(StatusCode::CONFLICT, "nothing_failed", words)
            .hint("to copy everything once more, start the relationship"));
    }
    let mut request = FleetRequest::parse(&row.request)?;
    state.reader.read(&request)?;
    let units = again(&state, id).await?;
    request.is_retry = !units.contains(&UnitWork::All);
    // Nothing is removed while something fails, or not everything was.
    request.removes_more |= request.verb == RunVerb::Sync && row.counters.entries_only_in_target > 0;
    let run = NewRun {
        relationship: row.relationship,
        group: row.group,
        request: request.json()?,
        started: state.clock.moment(),
        units,
    };
    let action = caller.does("run.retry", id.to_string());
    let answer = state.change(action, LedgerChange::StartRun(Box::new(run))).await?;
    state.look().await?;
    run_started(&answer).map(|run| (StatusCode::CREATED, Json(run)))
}

/// Returns units of the entries that failed in a run, each once.
async fn again(state: &ApiState, id: RunId) -> ApiResult<Vec<UnitWork>> {
    let (mut paths, mut after) = (BTreeSet::new(), None);
    loop {
        let rows = state.ask(move |leader| leader.ledger().failures(id, None, after, ROWS_AT_ONCE)).await??;
        let is_end = rows.len() < ROWS_AT_ONCE;
        for failure in rows {
            after = Some(failure.number);
            // A failure of the whole run has a place that is no path below the root.
            let path = EntryPath::new(failure.row.failure.path).unwrap_or_else(|_| EntryPath::root());
            paths.insert((failure.row.root, path.as_bytes().to_vec()));
        }
        if paths.len() > RETRIED_MAX {
            let words = format!("more than {RETRIED_MAX} entries failed");
            return Err(ApiError::new(StatusCode::CONFLICT, "too_many_failures", words)
                .hint("start a run of everything: it skips what is there"));
        }
        if is_end {
            break;
        }
    }
    if paths.iter().any(|(_, path)| path.is_empty()) {
        return Ok(vec![UnitWork::All]);
    }
    let highest = paths.iter().filter(|path| !is_below_another(path, &paths));
    let paths = highest.map(|(root, path)| Ok((*root, EntryPath::new(path.clone())?)));
    let paths = paths.collect::<Result<Vec<_>>>()?;
    let each = PATHS_A_UNIT.max(paths.len().div_ceil(STEP_UNITS_MAX));
    Ok(paths.chunks(each).map(|some| UnitWork::Again(some.to_vec())).collect())
}

/// Returns true if an entry is in a directory that is copied again with everything below it.
fn is_below_another((root, path): &(u16, Vec<u8>), paths: &BTreeSet<(u16, Vec<u8>)>) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| path[..at].to_vec()).any(|above| paths.contains(&(*root, above)))
}

/// Compares a run with another one.
#[utoipa::path(get, path = "/api/v1/runs/{id}/compare/{other}", tag = "runs",
    params(("id" = u64, Path), ("other" = u64, Path)), responses((status = 200, body = RunComparison)))]
pub async fn compare_runs(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts((id, other)): PathParts<(RunId, RunId)>,
) -> ApiResult<Json<RunComparison>> {
    let (one, two) = (run(&state, id).await?, run(&state, other).await?);
    let (mine, others) = (failures(&state, id).await?, failures(&state, other).await?);
    let now = state.clock.moment().get();
    let time = |row: &RunRow| row.ended.map_or(now, |end| end.get()).saturating_sub(row.started.get());
    let overview = state.overview();
    Ok(Json(RunComparison {
        run_ms: time(&one),
        other_ms: time(&two),
        options: option_differences(&FleetRequest::parse(&one.request)?, &FleetRequest::parse(&two.request)?),
        new_failures: only_in(&mine, &others),
        mended_failures: only_in(&others, &mine),
        run: overview.ended_view(&one),
        other: overview.ended_view(&two),
    }))
}

async fn failures(state: &ApiState, id: RunId) -> ApiResult<Vec<NumberedFailure>> {
    let mut all: Vec<NumberedFailure> = Vec::new();
    loop {
        let after = all.last().map(|failure| failure.number);
        let rows = state.ask(move |leader| leader.ledger().failures(id, None, after, ROWS_AT_ONCE)).await??;
        let is_end = rows.len() < ROWS_AT_ONCE;
        all.extend(rows);
        if is_end || all.len() >= COMPARED_MAX {
            return Ok(all);
        }
    }
}

fn only_in(these: &[NumberedFailure], others: &[NumberedFailure]) -> Vec<FailureView> {
    let place = |failure: &NumberedFailure| (failure.row.root, failure.row.failure.path.clone());
    let others: BTreeSet<_> = others.iter().map(place).collect();
    let only = these.iter().filter(|failure| !others.contains(&place(failure)));
    only.take(COMPARED_SHOWN_MAX).map(view).collect()
}

/// Returns the arguments that only one of two requests has.
fn option_differences(one: &FleetRequest, other: &FleetRequest) -> Vec<String> {
    let words = |request: &FleetRequest| {
        let mut words = vec![request.verb.name().to_owned()];
        words.extend(request.arguments.iter().cloned());
        if request.verify {
            words.push("verify".to_owned());
        }
        words
    };
    let (one, other) = (words(one), words(other));
    let only = |sign: char, these: &[String], those: &[String]| {
        let only = these.iter().filter(|word| !those.contains(word));
        only.map(|word| format!("{sign}{word}")).collect::<Vec<_>>()
    };
    [only('+', &one, &other), only('-', &other, &one)].concat()
}
