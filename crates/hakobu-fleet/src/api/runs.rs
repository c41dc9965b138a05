//! Calls about runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hakobu_core::error::Result;
use serde::Deserialize;
use utoipa::IntoParams;

use super::caller::{AdminCaller, OperatorCaller, ViewerCaller};
use super::listing::{JsonBody, ListPage, PathParts, QueryParts, page_items, position};
use super::problem::{ApiError, ApiResult};
use super::relationships::{RunNumber, run_started};
use super::run_view::{LossView, RateSample, RequestView, RunDetail, RunState, RunView};
use super::state::{ApiState, AuditedAction, refused};
use crate::change::LedgerChange;
use crate::failure::name_of_kind;
use crate::ids::{RelationshipId, RunId};
use crate::names::GroupName;
use crate::run::{NewRun, RunRow};
use crate::run_phases::phases;
use crate::run_report::RunReport;
use crate::run_request::FleetRequest;
use crate::unit::UnitWork;

/// The number of runs that are looked through for a page of those in one state.
const LOOKED_THROUGH_MAX: usize = 2000;

/// The query of a list of runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    /// Only those of a relationship.
    pub relationship: Option<u64>,
    /// Only those in one of these states, with commas between them: `failed`, `partial`, `running`, `paused`, `cancelled`, `complete`.
    pub state: Option<String>,
    /// The value of `next` of the page before.
    pub after: Option<String>,
    /// The number of items, at most 1000.
    pub limit: Option<u32>,
}

/// Lists runs, the latest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", params(RunQuery),
    responses((status = 200, body = ListPage<RunView>)))]
pub async fn list_runs(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    QueryParts(query): QueryParts<RunQuery>,
) -> ApiResult<Json<ListPage<RunView>>> {
    let before: Option<RunId> = position(query.after.as_deref())?;
    let relationship = query.relationship.map(RelationshipId::new).transpose()?;
    let limit = page_items(query.limit);
    let Some(states) = query.state.as_deref().filter(|text| !text.is_empty()) else {
        let rows = state.ask(move |leader| leader.ledger().runs(relationship, before, limit)).await??;
        let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.id.to_string());
        return Ok(Json(ListPage { items: views(&state, &rows), next, total: None }));
    };
    let states = parse_states(states)?;
    let is_open = |state: &RunState| matches!(state, RunState::Running | RunState::Paused);
    if states.iter().all(is_open) {
        let overview = state.overview();
        let views = overview.runs.values().rev().map(|run| &run.view);
        let views = views.filter(|view| states.contains(&view.state));
        let views = views.filter(|view| query.relationship.is_none_or(|of| view.relationship == Some(of)));
        let mut views: Vec<_> = views
            .filter(|view| before.is_none_or(|before| view.id < before.get()))
            .take(limit + 1)
            .cloned()
            .collect();
        let next = (views.len() > limit).then(|| views[limit - 1].id.to_string());
        views.truncate(limit);
        return Ok(Json(ListPage { items: views, next, total: None }));
    }
    let rows =
        state.ask(move |leader| leader.ledger().runs(relationship, before, LOOKED_THROUGH_MAX)).await??;
    let all = views(&state, &rows);
    let (mut items, mut next) = (Vec::new(), None);
    for view in all {
        if items.len() == limit {
            break;
        }
        next = Some(view.id.to_string());
        if states.contains(&view.state) {
            items.push(view);
        }
    }
    let is_end = rows.len() < LOOKED_THROUGH_MAX && next == rows.last().map(|row| row.id.to_string());
    Ok(Json(ListPage { items, next: next.filter(|_| !is_end), total: None }))
}

fn parse_states(text: &str) -> ApiResult<Vec<RunState>> {
    let state = |name: &str| {
        serde_json::from_value(serde_json::Value::String(name.trim().to_owned())).map_err(|_| {
            let words = "failed, partial, running, paused, cancelled and complete are possible";
            ApiError::usage(format!("state: {name}: there is no such state; {words}")).field("state")
        })
    };
    text.split(',').map(state).collect()
}

/// Returns runs for a list: those under way as they are now.
fn views(state: &ApiState, rows: &[RunRow]) -> Vec<RunView> {
    let overview = state.overview();
    let view = |row: &RunRow| match overview.runs.get(&row.id).filter(|_| row.ended.is_none()) {
        Some(live) => live.view.clone(),
        None => overview.ended_view(row),
    };
    rows.iter().map(view).collect()
}

/// A run of its own, without a relationship.
#[derive(Clone, Debug, serde::Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RunInput)]
pub struct StartRunInput {
    /// The group whose brokers work on it.
    pub group: String,
    /// Locations and options.
    pub request: RequestView,
}

/// Starts a run of its own. As it may copy anything, this needs the role admin.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", request_body = StartRunInput,
    responses((status = 201, body = RunNumber)))]
pub async fn start_run(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    JsonBody(input): JsonBody<StartRunInput>,
) -> ApiResult<(StatusCode, Json<RunNumber>)> {
    let group = GroupName::new(input.group).map_err(|error| ApiError::from(error).field("group"))?;
    let request = FleetRequest::from(input.request);
    state.reader.read(&request)?;
    let action = caller.does("run.start", request.target.0.clone());
    let (started, request) = (state.clock.moment(), request.json()?);
    let run = NewRun { relationship: None, group, request, started, units: vec![UnitWork::All] };
    let answer = state.change(action, LedgerChange::StartRun(Box::new(run))).await?;
    state.look().await?;
    run_started(&answer).map(|run| (StatusCode::CREATED, Json(run)))
}

/// Shows a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs", params(("id" = u64, Path)),
    responses((status = 200, body = RunDetail)))]
pub async fn show_run(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts(id): PathParts<RunId>,
) -> ApiResult<Json<RunDetail>> {
    let (row, kinds, report) = state
        .ask(move |leader| -> Result<_> {
            let ledger = leader.ledger();
            Ok((ledger.run(id)?, ledger.failure_counts(id)?, ledger.report(id)?))
        })
        .await??;
    let row = row.ok_or_else(|| ApiError::not_found("run"))?;
    let overview = state.overview();
    let live = overview.runs.get(&id).filter(|_| row.ended.is_none());
    let request = FleetRequest::parse(&row.request)?;
    let mut run = live.map_or_else(|| overview.ended_view(&row), |live| live.view.clone());
    run.verb = request.verb;
    let mut report = report.and_then(|json| serde_json::from_slice::<RunReport>(&json).ok());
    let phases = match (&mut report, row.ended) {
        (Some(report), _) => std::mem::take(&mut report.phases),
        (None, Some(_)) => Vec::new(),
        (None, None) => phases(&row, &request, None),
    };
    Ok(Json(RunDetail {
        run,
        phases,
        request: RequestView::from(&request),
        brokers: live.map(|live| live.glimpse.brokers.clone()).unwrap_or_default(),
        limits: live.and_then(|live| live.glimpse.limits.clone()),
        shared_limits: live.map(|live| live.glimpse.shared_limits.clone()).unwrap_or_default(),
        losses: row.losses.iter().map(LossView::from).collect(),
        failures_by_kind: kinds
            .into_iter()
            .map(|(kind, count)| (name_of_kind(kind).to_owned(), count))
            .collect(),
        last_error: match live {
            Some(live) => live.glimpse.last_error.clone(),
            None => report.and_then(RunReport::into_problem),
        },
    }))
}

/// Shows the rates of the last ten minutes of a run under way.
#[utoipa::path(get, path = "/api/v1/runs/{id}/rates", tag = "runs", params(("id" = u64, Path)),
    responses((status = 200, body = ListPage<RateSample>)))]
pub async fn show_rates(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts(id): PathParts<RunId>,
) -> ApiResult<Json<ListPage<RateSample>>> {
    let overview = state.overview();
    let samples = overview.runs.get(&id).map(|live| live.samples.iter().map(|sample| sample.shown).collect());
    Ok(Json(ListPage::whole(samples.unwrap_or_default())))
}

/// Cancels a run. What was copied stays.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", params(("id" = u64, Path)),
    responses((status = 204)))]
pub async fn cancel_run(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(id): PathParts<RunId>,
) -> ApiResult<StatusCode> {
    check_open(&state, id).await?;
    let action = caller.does("run.cancel", id.to_string());
    let audited = {
        let state = state.clone();
        move |change| state.audited(action, change)
    };
    let answer = state.ask_ledger(move |leader, reply| leader.cancel_run(id, audited, reply)).await?;
    refused(answer)?;
    state.look().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a run: brokers stop where they are.
#[utoipa::path(post, path = "/api/v1/runs/{id}/pause", tag = "runs", params(("id" = u64, Path)),
    responses((status = 204)))]
pub async fn pause_run(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(id): PathParts<RunId>,
) -> ApiResult<StatusCode> {
    set_paused(&state, caller.does("run.pause", id.to_string()), id, true).await
}

/// Lets a run go on that was paused.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resume", tag = "runs", params(("id" = u64, Path)),
    responses((status = 204)))]
pub async fn resume_run(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(id): PathParts<RunId>,
) -> ApiResult<StatusCode> {
    set_paused(&state, caller.does("run.resume", id.to_string()), id, false).await
}

async fn set_paused(
    state: &ApiState,
    action: AuditedAction,
    id: RunId,
    is_paused: bool,
) -> ApiResult<StatusCode> {
    check_open(state, id).await?;
    state.change(action, LedgerChange::PauseRun(id, is_paused)).await?;
    state.look().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks that a run has not ended.
///
/// # Errors
/// Not found, or ended.
pub async fn check_open(state: &ApiState, id: RunId) -> ApiResult<()> {
    let row = state.ask(move |leader| leader.ledger().run(id)).await??;
    match row {
        None => Err(ApiError::not_found("run")),
        Some(row) if row.ended.is_some() => Err(ApiError::from(crate::change::LedgerRefusal::RunEnded)),
        Some(_) => Ok(()),
    }
}

/// Shows the report of a run that has ended, to download.
#[utoipa::path(get, path = "/api/v1/runs/{id}/report", tag = "runs", params(("id" = u64, Path)),
    responses((status = 200, body = Object, content_type = "application/json")))]
pub async fn show_report(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts(id): PathParts<RunId>,
) -> ApiResult<Response> {
    let (row, report) = state
        .ask(move |leader| -> Result<_> { Ok((leader.ledger().run(id)?, leader.ledger().report(id)?)) })
        .await??;
    let report = match (row, report) {
        (None, _) => return Err(ApiError::not_found("run")),
        (Some(_), None) => {
            let words = "the run has no report yet: it has not ended";
            return Err(ApiError::new(StatusCode::CONFLICT, "run_open", words));
        }
        (Some(_), Some(report)) => report,
    };
    let name = format!("attachment; filename=\"hakobu-run-{id}.json\"");
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, report).into_response())
}
