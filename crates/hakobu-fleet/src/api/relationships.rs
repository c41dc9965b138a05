//! Calls about relationships.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::{AdminCaller, OperatorCaller, ViewerCaller};
use super::listing::{JsonBody, ListPage, PathParts, QueryParts, page_items};
use super::overview::RelationshipEntry;
use super::problem::{ApiError, ApiResult};
use super::relationship_view::{
    RelationshipInput, RelationshipState, RelationshipSummary, RelationshipUpdate, RelationshipView,
};
use super::run_view::RequestView;
use super::state::ApiState;
use crate::change::{LedgerAnswer, LedgerChange};
use crate::ids::{RelationshipId, Revision};
use crate::relationship::RelationshipRecord;
use crate::run::NewRun;
use crate::run_request::FleetRequest;
use crate::schedule::{PREVIEW_STARTS_MAX, Schedule, ScheduleSetting};
use crate::unit::UnitWork;

/// The orders of a list of relationships.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RelationshipOrder {
    /// By name.
    #[default]
    Name,
    /// By state, those first that need somebody.
    State,
    /// By the start of the last run, the latest first.
    LastRun,
    /// By the next start, the earliest first.
    NextStart,
    /// By the last change, the latest first.
    Changed,
}

/// The query of a list of relationships.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct RelationshipQuery {
    /// Only those in whose name, owner, sources or target this text stands.
    pub search: Option<String>,
    /// Only those in one of these states, with commas between them.
    pub state: Option<String>,
    /// Only those of a group.
    pub group: Option<String>,
    /// The order: `name`, `state`, `last_run`, `next_start` or `changed`.
    #[param(inline)]
    pub order: RelationshipOrder,
    /// The value of `next` of the page before.
    pub after: Option<String>,
    /// The number of items, at most 1000.
    pub limit: Option<u32>,
}

/// The place of a relationship in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct ListPlace(u64, String, u64);

impl ListPlace {
    fn of(entry: &RelationshipEntry, order: RelationshipOrder) -> Self {
        let name = || entry.record.relationship.name.clone();
        let latest_first = |moment: u64| u64::MAX - moment;
        let (number, text) = match order {
            RelationshipOrder::Name => (0, name()),
            RelationshipOrder::State => (entry.state() as u64, name()),
            RelationshipOrder::LastRun => {
                (latest_first(entry.last_run.as_ref().map_or(0, |run| run.started_ms)), String::new())
            }
            RelationshipOrder::NextStart => {
                (entry.next_start.map_or(u64::MAX, |start| start.get()), String::new())
            }
            RelationshipOrder::Changed => (latest_first(entry.record.changed.get()), String::new()),
        };
        Self(number, text, entry.record.id.get())
    }

    fn text(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn parse(text: &str) -> ApiResult<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let place = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        place.ok_or_else(|| {
            ApiError::usage("after: this is no place in the list: take the value of next").field("after")
        })
    }
}

/// Lists relationships.
#[utoipa::path(get, path = "/api/v1/relationships", tag = "relationships", params(RelationshipQuery),
    responses((status = 200, body = ListPage<RelationshipSummary>)))]
pub async fn list_relationships(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    QueryParts(query): QueryParts<RelationshipQuery>,
) -> ApiResult<Json<ListPage<RelationshipSummary>>> {
    let after = match query.after.as_deref().filter(|after| !after.is_empty()) {
        Some(after) => Some(ListPlace::parse(after)?),
        None => None,
    };
    let states = query.state.as_deref().filter(|text| !text.is_empty()).map(parse_states).transpose()?;
    let search = query.search.as_deref().unwrap_or_default().to_lowercase();
    let limit = page_items(query.limit);
    let overview = state.overview();
    let fitting = overview.relationships.values().filter(|entry| {
        (search.is_empty() || entry.search.contains(&search))
            && states.as_ref().is_none_or(|states| states.contains(&entry.state()))
            && query.group.as_deref().is_none_or(|group| entry.record.relationship.group.as_str() == group)
    });
    let mut total = 0_u64;
    let mut places: Vec<ListPlace> = Vec::new();
    for entry in fitting {
        total += 1;
        let place = ListPlace::of(entry, query.order);
        if after.as_ref().is_none_or(|after| place > *after) {
            places.push(place);
        }
    }
    let has_more = places.len() > limit;
    if has_more {
        places.select_nth_unstable(limit - 1);
        places.truncate(limit);
    }
    places.sort_unstable();
    let next = places.last().filter(|_| has_more).map(ListPlace::text);
    let items = places.iter().filter_map(|place| {
        let id = RelationshipId::new(place.2).ok()?;
        Some(overview.relationships.get(&id)?.summary())
    });
    Ok(Json(ListPage { items: items.collect(), next, total: Some(total) }))
}

fn parse_states(text: &str) -> ApiResult<Vec<RelationshipState>> {
    let state = |name: &str| {
        serde_json::from_value(serde_json::Value::String(name.trim().to_owned())).map_err(|_| {
            let words = "failed, partial, running, paused, cancelled, new and complete are possible";
            ApiError::usage(format!("state: {name}: there is no such state; {words}")).field("state")
        })
    };
    text.split(',').map(state).collect()
}

/// Makes a relationship.
#[utoipa::path(post, path = "/api/v1/relationships", tag = "relationships", request_body = RelationshipInput,
    responses((status = 201, body = RelationshipView)))]
pub async fn create_relationship(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    JsonBody(input): JsonBody<RelationshipInput>,
) -> ApiResult<(StatusCode, Json<RelationshipView>)> {
    let (relationship, request) = input.checked(None, &caller.who, state.settings.keys.as_deref())?;
    state.reader.read(&request)?;
    let action = caller.does("relationship.create", relationship.name.clone());
    let (now, relationship) = (state.clock.moment(), Box::new(relationship));
    let change = LedgerChange::SaveRelationship { replaces: None, now, relationship };
    let view = saved(&state, state.change(action, change).await?).await?;
    Ok((StatusCode::CREATED, Json(view)))
}

/// Shows a relationship.
#[utoipa::path(get, path = "/api/v1/relationships/{id}", tag = "relationships", params(("id" = u64, Path)),
    responses((status = 200, body = RelationshipView)))]
pub async fn show_relationship(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts(id): PathParts<RelationshipId>,
) -> ApiResult<Json<RelationshipView>> {
    view(&state, id).map(Json)
}

/// Changes a relationship, in the revision that is known.
#[utoipa::path(put, path = "/api/v1/relationships/{id}", tag = "relationships", params(("id" = u64, Path)),
    request_body = RelationshipUpdate, responses((status = 200, body = RelationshipView)))]
pub async fn change_relationship(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    PathParts(id): PathParts<RelationshipId>,
    JsonBody(update): JsonBody<RelationshipUpdate>,
) -> ApiResult<Json<RelationshipView>> {
    let before = record(&state, id).await?;
    let (relationship, request) =
        update.relationship.checked(Some(&before), &caller.who, state.settings.keys.as_deref())?;
    state.reader.read(&request)?;
    let action = caller.does("relationship.change", relationship.name.clone());
    let (now, relationship) = (state.clock.moment(), Box::new(relationship));
    let replaces = Some((id, Revision::new(update.revision)?));
    let change = LedgerChange::SaveRelationship { replaces, now, relationship };
    saved(&state, state.change(action, change).await?).await.map(Json)
}

/// The query of a removal.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RevisionQuery {
    /// The revision that is removed: with another one, the removal is refused (409).
    pub revision: u64,
}

/// Removes a relationship. Its runs stay. While one of them is under way, the removal is refused (409).
#[utoipa::path(delete, path = "/api/v1/relationships/{id}", tag = "relationships",
    params(("id" = u64, Path), RevisionQuery), responses((status = 204)))]
pub async fn remove_relationship(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    PathParts(id): PathParts<RelationshipId>,
    QueryParts(query): QueryParts<RevisionQuery>,
) -> ApiResult<StatusCode> {
    let name = record(&state, id).await?.relationship.name;
    let change = LedgerChange::RemoveRelationship(id, Revision::new(query.revision)?);
    state.change(caller.does("relationship.remove", name), change).await?;
    state.renew_relationship(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The number of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunNumber {
    /// The number.
    pub run: u64,
}

/// Starts a run of a relationship.
#[utoipa::path(post, path = "/api/v1/relationships/{id}/runs", tag = "relationships", params(("id" = u64, Path)),
    responses((status = 201, body = RunNumber)))]
pub async fn start_relationship(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(id): PathParts<RelationshipId>,
) -> ApiResult<(StatusCode, Json<RunNumber>)> {
    let record = record(&state, id).await?;
    let request = FleetRequest::of(&record.relationship)?;
    // A relationship that another version saved may ask for what this one refuses.
    state.reader.read(&request)?;
    let run = NewRun {
        relationship: Some(id),
        group: record.relationship.group.clone(),
        request: request.json()?,
        started: state.clock.moment(),
        units: vec![UnitWork::All],
    };
    let action = caller.does("run.start", record.relationship.name);
    let answer = state.change(action, LedgerChange::StartRun(Box::new(run))).await?;
    state.look().await?;
    run_started(&answer).map(|run| (StatusCode::CREATED, Json(run)))
}

/// Returns the number of a run that was started.
///
/// # Errors
/// For another answer, which the ledger does not give.
pub fn run_started(answer: &LedgerAnswer) -> ApiResult<RunNumber> {
    match answer {
        LedgerAnswer::RunStarted(run) => Ok(RunNumber { run: run.get() }),
        _ => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "io", "the ledger gave another answer")),
    }
}

/// The query of a preview.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct StartsQuery {
    /// The number of starts, at most 100.
    pub count: Option<u32>,
}

/// The next starts of a schedule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScheduleStarts {
    /// The schedule in words (English).
    pub words: String,
    /// The starts, in milliseconds since 1970.
    pub starts_ms: Vec<u64>,
    /// True if it is a blackout now.
    pub is_blackout: bool,
    /// The next moment at which a blackout begins or ends.
    pub blackout_changes_ms: Option<u64>,
}

/// Shows the next starts of a schedule that is not saved yet.
#[utoipa::path(post, path = "/api/v1/schedules/preview", tag = "relationships", params(StartsQuery),
    request_body = ScheduleSetting, responses((status = 200, body = ScheduleStarts)))]
pub async fn preview_schedule(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    QueryParts(query): QueryParts<StartsQuery>,
    JsonBody(setting): JsonBody<ScheduleSetting>,
) -> ApiResult<Json<ScheduleStarts>> {
    let schedule = Schedule::new(&setting).map_err(|error| ApiError::setting("", error))?;
    let now = state.clock.moment();
    let count = query.count.map_or(5, |count| (count as usize).min(PREVIEW_STARTS_MAX));
    let blackout = schedule.blackout_at(now);
    Ok(Json(ScheduleStarts {
        words: schedule.words(),
        starts_ms: schedule.preview(now, count).into_iter().map(|start| start.get()).collect(),
        is_blackout: blackout.is_blackout,
        blackout_changes_ms: blackout.until.map(|moment| moment.get()),
    }))
}

/// The words for a request that was checked.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RequestCheck {
    /// The request as it was understood.
    pub request: RequestView,
}

/// Checks locations and options without saving them.
#[utoipa::path(post, path = "/api/v1/requests/check", tag = "relationships", request_body = RequestView,
    responses((status = 200, body = RequestCheck)))]
pub async fn check_request(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    JsonBody(view): JsonBody<RequestView>,
) -> ApiResult<Json<RequestCheck>> {
    let request = FleetRequest::from(view);
    state.reader.read(&request)?;
    Ok(Json(RequestCheck { request: RequestView::from(&request) }))
}

/// Returns a relationship from the ledger.
pub(super) async fn record(state: &ApiState, id: RelationshipId) -> ApiResult<RelationshipRecord> {
    let record = state.ask(move |leader| leader.ledger().relationship(id)).await??;
    record.ok_or_else(|| ApiError::not_found("relationship"))
}

async fn saved(state: &ApiState, answer: LedgerAnswer) -> ApiResult<RelationshipView> {
    let LedgerAnswer::RelationshipSaved(id, _) = answer else {
        return Err(ApiError::not_found("relationship"));
    };
    state.renew_relationship(id).await?;
    view(state, id)
}

fn view(state: &ApiState, id: RelationshipId) -> ApiResult<RelationshipView> {
    let overview = state.overview();
    let entry = overview.relationships.get(&id).ok_or_else(|| ApiError::not_found("relationship"))?;
    Ok(RelationshipView {
        id: id.get(),
        revision: entry.record.revision.get(),
        changed_ms: entry.record.changed.get(),
        relationship: RelationshipInput::of(&entry.record.relationship)?,
        state: entry.state(),
        last_run: entry.last_run.clone(),
        next_start_ms: entry.next_start.map(|start| start.get()),
        delayed_start: entry.delayed_start.clone(),
        schedule_words: entry.schedule_words.clone(),
    })
}
