//! Calls about errands: what the page asks of a broker while somebody makes a relationship.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::AdminCaller;
use super::listing::{JsonBody, PathParts};
use super::problem::{ApiError, ApiResult};
use super::state::{ApiState, AuditedAction};
use crate::change::LedgerChange;
use crate::errand::{Errand, ErrandView};
use crate::names::GroupName;
use crate::relationship::LOCATION_BYTES_MAX;
use crate::run_request::FleetRequest;

/// The number of an errand.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrandNumber {
    /// The number.
    pub id: u64,
}

/// Asks a broker of a group. As it looks at any location, this needs the role admin, as making a relationship does.
#[utoipa::path(post, path = "/api/v1/groups/{group}/errands", tag = "errands", params(("group" = String, Path)),
    request_body = Errand, responses((status = 202, body = ErrandNumber)))]
pub async fn create_errand(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    PathParts(group): PathParts<GroupName>,
    JsonBody(errand): JsonBody<Errand>,
) -> ApiResult<(StatusCode, Json<ErrandNumber>)> {
    let detail = match &errand {
        Errand::Browse { location } => {
            if location.0.is_empty() || location.0.len() > LOCATION_BYTES_MAX {
                return Err(ApiError::usage("location: it is empty or too long").field("location"));
            }
            hakobu_core::path::lossy(&location.0)
        }
        Errand::Test { request } | Errand::Preview { request } | Errand::Probe { request } => {
            let request = FleetRequest::from(request.clone());
            state.reader.read(&request)?;
            hakobu_core::path::lossy(&request.target.0)
        }
    };
    let action = match errand.kind() {
        "browse" => "errand.browse",
        "test" => "errand.test",
        "preview" => "errand.preview",
        _ => "errand.probe",
    };
    let action = AuditedAction { detail, ..caller.does(action, group.to_string()) };
    state.change(action, LedgerChange::Nothing).await?;
    let id = state.ask(move |leader| leader.add_errand(group, errand)).await??;
    Ok((StatusCode::ACCEPTED, Json(ErrandNumber { id })))
}

/// Shows an errand, with its result once it is done. Results are kept for ten minutes.
#[utoipa::path(get, path = "/api/v1/errands/{id}", tag = "errands", params(("id" = u64, Path)),
    responses((status = 200, body = ErrandView)))]
pub async fn show_errand(
    State(state): State<Arc<ApiState>>,
    _caller: AdminCaller,
    PathParts(id): PathParts<u64>,
) -> ApiResult<Json<ErrandView>> {
    let errand = state.ask(move |leader| leader.errand(id).cloned()).await?;
    errand.map(Json).ok_or_else(|| ApiError::not_found("errand"))
}
