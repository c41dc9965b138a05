//! Calls about brokers, groups and limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::byte_text::ByteText;
use super::caller::{AdminCaller, OperatorCaller, ViewerCaller};
use super::fleet_view::{
    BrokerState, BrokerView, EndpointLimits, EndpointLimitsInput, GroupReach, GroupView,
};
use super::glimpse::one_broker;
use super::listing::{JsonBody, ListPage, PathParts, QueryParts, page_items};
use super::problem::{ApiError, ApiResult};
use super::run_view::RequestView;
use super::runs::check_open;
use super::state::{ApiState, AuditedAction};
use crate::change::LedgerChange;
use crate::endpoint_location::EndpointLocation;
use crate::ids::RunId;
use crate::leader::ReachingBrokers;
use crate::limits_setting::LimitsSetting;
use crate::names::{BrokerName, GroupName};
use crate::run_request::FleetRequest;

/// The query of a list of brokers.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct BrokerQuery {
    /// Only those of a group.
    pub group: Option<String>,
    /// The value of `next` of the page before.
    pub after: Option<String>,
    /// The number of items, at most 1000.
    pub limit: Option<u32>,
}

/// Lists brokers by name.
#[utoipa::path(get, path = "/api/v1/brokers", tag = "brokers", params(BrokerQuery),
    responses((status = 200, body = ListPage<BrokerView>)))]
pub async fn list_brokers(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    QueryParts(query): QueryParts<BrokerQuery>,
) -> ApiResult<Json<ListPage<BrokerView>>> {
    let limit = page_items(query.limit);
    let overview = state.overview();
    let fits = |broker: &&BrokerView| query.group.as_deref().is_none_or(|group| broker.group == group);
    let total = overview.brokers.values().filter(fits).count() as u64;
    let after = query.after.as_deref().unwrap_or_default();
    let behind = overview.brokers.values().filter(fits).filter(|broker| broker.name.as_str() > after);
    let mut items: Vec<_> = behind.take(limit + 1).cloned().collect();
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|broker| broker.name.clone());
    Ok(Json(ListPage { items, next, total: Some(total) }))
}

/// Shows a broker.
#[utoipa::path(get, path = "/api/v1/brokers/{name}", tag = "brokers", params(("name" = String, Path)),
    responses((status = 200, body = BrokerView)))]
pub async fn show_broker(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts(name): PathParts<BrokerName>,
) -> ApiResult<Json<BrokerView>> {
    let broker = state.ask(move |leader| one_broker(leader, &name)).await??;
    broker.map(Json).ok_or_else(|| ApiError::not_found("broker"))
}

/// Has a broker take no further units. It ends those that it has.
#[utoipa::path(post, path = "/api/v1/brokers/{name}/drain", tag = "brokers", params(("name" = String, Path)),
    responses((status = 204)))]
pub async fn drain_broker(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(name): PathParts<BrokerName>,
) -> ApiResult<StatusCode> {
    set_draining(&state, caller.does("broker.drain", name.to_string()), name, true).await
}

/// Lets a broker take units again.
#[utoipa::path(post, path = "/api/v1/brokers/{name}/undrain", tag = "brokers", params(("name" = String, Path)),
    responses((status = 204)))]
pub async fn undrain_broker(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(name): PathParts<BrokerName>,
) -> ApiResult<StatusCode> {
    set_draining(&state, caller.does("broker.undrain", name.to_string()), name, false).await
}

async fn set_draining(
    state: &ApiState,
    action: AuditedAction,
    name: BrokerName,
    is_draining: bool,
) -> ApiResult<StatusCode> {
    // The leader looks at the change within, and has its own broker drain as well.
    state.change(action, LedgerChange::DrainBroker(name, is_draining)).await?;
    state.look().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Forgets a broker that is away. One that is there is kept: it would come back with its next report, and not be drained any more.
#[utoipa::path(delete, path = "/api/v1/brokers/{name}", tag = "brokers", params(("name" = String, Path)),
    responses((status = 204)))]
pub async fn forget_broker(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    PathParts(name): PathParts<BrokerName>,
) -> ApiResult<StatusCode> {
    let action = caller.does("broker.forget", name.to_string());
    let known = name.clone();
    let broker = state.ask(move |leader| one_broker(leader, &known)).await??;
    if broker.is_some_and(|broker| broker.state != BrokerState::Away) {
        let words = format!("the broker {name} is there, and only one that is away can be forgotten");
        return Err(ApiError::new(StatusCode::CONFLICT, "broker_there", words).hint("end the broker first"));
    }
    state.change(action, LedgerChange::ForgetBroker(name)).await?;
    state.look().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the groups that a broker, a relationship or a run belongs to.
#[utoipa::path(get, path = "/api/v1/groups", tag = "groups", responses((status = 200, body = ListPage<GroupView>)))]
pub async fn list_groups(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
) -> ApiResult<Json<ListPage<GroupView>>> {
    let overview = state.overview();
    let mut groups: BTreeMap<String, GroupView> = BTreeMap::new();
    let mut of = |name: &str, count: &dyn Fn(&mut GroupView)| {
        let group = groups.entry(name.to_owned()).or_insert_with(|| GroupView {
            name: name.to_owned(),
            brokers: 0,
            brokers_away: 0,
            slots: 0,
            units: 0,
            runs: 0,
            relationships: 0,
            limits: None,
            reaches: Vec::new(),
            reaches_everything: false,
        });
        count(group);
    };
    for broker in overview.brokers.values() {
        let is_away = u64::from(matches!(broker.state, BrokerState::Away | BrokerState::Refused));
        of(&broker.group, &|group| {
            group.brokers += 1 - is_away;
            group.brokers_away += is_away;
            group.slots += broker.slots;
            group.units += broker.units;
            if is_away == 0 {
                group.reaches_everything |= broker.reaches.is_empty();
                group.reaches.extend(broker.reaches.iter().cloned());
            }
        });
    }
    for run in overview.runs.values() {
        of(&run.view.group, &|group| group.runs += 1);
    }
    for entry in overview.relationships.values() {
        of(entry.record.relationship.group.as_str(), &|group| group.relationships += 1);
    }
    for (name, limits) in &overview.group_limits {
        of(name.as_str(), &|group| group.limits = Some(limits.clone()));
    }
    Ok(Json(ListPage::whole(groups.into_values().map(with_reach_once).collect())))
}

/// Returns a group that names each location once, and none if a broker reaches everything.
fn with_reach_once(mut group: GroupView) -> GroupView {
    if group.reaches_everything {
        group.reaches.clear();
    }
    group.reaches.sort_by(|one, other| one.0.cmp(&other.0));
    group.reaches.dedup();
    group
}

/// Tells which brokers of a group reach the locations of a request. Others may come later.
#[utoipa::path(post, path = "/api/v1/groups/{group}/reach", tag = "groups", params(("group" = String, Path)),
    request_body = RequestView, responses((status = 200, body = GroupReach)))]
pub async fn reach_of_group(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
    PathParts(group): PathParts<GroupName>,
    JsonBody(view): JsonBody<RequestView>,
) -> ApiResult<Json<GroupReach>> {
    let locations = FleetRequest::from(view).into_locations();
    let found = state.ask(move |leader| leader.group_reach(&group, &locations)).await?;
    let ReachingBrokers { brokers, reaching, unreached } = found;
    Ok(Json(GroupReach { brokers, reaching, unreached: unreached.iter().map(ByteText::from).collect() }))
}

/// Sets the limits of a run under way, over all its brokers. They hold within seconds.
#[utoipa::path(put, path = "/api/v1/runs/{id}/limits", tag = "limits", params(("id" = u64, Path)),
    request_body = LimitsSetting, responses((status = 204)))]
pub async fn limit_run(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(id): PathParts<RunId>,
    JsonBody(limits): JsonBody<LimitsSetting>,
) -> ApiResult<StatusCode> {
    limits.check().map_err(|error| ApiError::setting("", error))?;
    check_open(&state, id).await?;
    let action = AuditedAction { detail: words(&limits), ..caller.does("run.limit", id.to_string()) };
    state.change(action, LedgerChange::LimitRun(id, Some(words(&limits)))).await?;
    state.look().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sets the limits of a group, over all its runs. They hold until they are replaced.
#[utoipa::path(put, path = "/api/v1/groups/{group}/limits", tag = "limits", params(("group" = String, Path)),
    request_body = LimitsSetting, responses((status = 204)))]
pub async fn limit_group(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    PathParts(group): PathParts<GroupName>,
    JsonBody(limits): JsonBody<LimitsSetting>,
) -> ApiResult<StatusCode> {
    limits.check().map_err(|error| ApiError::setting("", error))?;
    let action = AuditedAction { detail: words(&limits), ..caller.does("group.limit", group.to_string()) };
    let limits = Some(limits).filter(|limits| *limits != LimitsSetting::default());
    state.change(action, LedgerChange::LimitGroup(group, limits.as_ref().map(words))).await?;
    state.look().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the limits of endpoints.
#[utoipa::path(get, path = "/api/v1/endpoint-limits", tag = "limits",
    responses((status = 200, body = ListPage<EndpointLimits>)))]
pub async fn list_endpoint_limits(
    State(state): State<Arc<ApiState>>,
    _caller: ViewerCaller,
) -> ApiResult<Json<ListPage<EndpointLimits>>> {
    Ok(Json(ListPage::whole(state.overview().endpoint_limits.clone())))
}

/// Sets the limits of an endpoint, over all runs of which a source or the target is there. They hold until they are replaced.
#[utoipa::path(put, path = "/api/v1/endpoint-limits", tag = "limits", request_body = EndpointLimitsInput,
    responses((status = 204)))]
pub async fn limit_endpoint(
    State(state): State<Arc<ApiState>>,
    OperatorCaller(caller): OperatorCaller,
    JsonBody(input): JsonBody<EndpointLimitsInput>,
) -> ApiResult<StatusCode> {
    let EndpointLimitsInput { location, limits } = input;
    limits.check().map_err(|error| ApiError::setting("limits", error))?;
    let endpoint =
        EndpointLocation::new(&location.0).map_err(|error| ApiError::from(error).field("location"))?;
    let location = endpoint.as_bytes().to_vec();
    let action = AuditedAction { detail: words(&limits), ..caller.does("endpoint.limit", location.clone()) };
    let limits = Some(limits).filter(|limits| *limits != LimitsSetting::default());
    state.change(action, LedgerChange::LimitEndpoint(location, limits.as_ref().map(words))).await?;
    state.look().await?;
    Ok(StatusCode::NO_CONTENT)
}

fn words(limits: &LimitsSetting) -> String {
    serde_json::to_string(limits).unwrap_or_default()
}
