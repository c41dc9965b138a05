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
use super::relationship_view::{CredentialView, references};
use super::relationships::record;
use super::state::{ApiState, AuditedAction};
use crate::change::LedgerChange;
use crate::errand::{Errand, ErrandView};
use crate::ids::RelationshipId;
use crate::names::GroupName;
use crate::relationship::{LOCATION_BYTES_MAX, check_references};

/// The number of an errand.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrandNumber {
    /// The number.
    pub id: u64,
}

/// A request to a broker, with the credentials that it needs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrandInput {
    /// The request.
    #[serde(flatten)]
    pub errand: Errand,
    /// The places of the credentials, as of a relationship. A secret is sealed at once, and forgotten with the errand.
    #[serde(default)]
    pub credentials: Vec<CredentialView>,
    /// The number of the relationship whose sealed credentials are meant.
    #[serde(default)]
    pub relationship: Option<u64>,
}

/// Asks a broker of a group. As it looks at any location, this needs the role admin, as making a relationship does.
#[utoipa::path(post, path = "/api/v1/groups/{group}/errands", tag = "errands", params(("group" = String, Path)),
    request_body = ErrandInput, responses((status = 202, body = ErrandNumber)))]
pub async fn create_errand(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    PathParts(group): PathParts<GroupName>,
    JsonBody(input): JsonBody<ErrandInput>,
) -> ApiResult<(StatusCode, Json<ErrandNumber>)> {
    let ErrandInput { errand, credentials, relationship } = input;
    let request = errand.request();
    let detail = match &errand {
        Errand::Browse { location, .. } if location.0.is_empty() || location.0.len() > LOCATION_BYTES_MAX => {
            return Err(ApiError::usage("location: it is empty or too long").field("location"));
        }
        Errand::Browse { location, .. } => hakobu_core::path::lossy(&location.0),
        _ => hakobu_core::path::lossy(&request.target.0),
    };
    state.reader.read(&request)?;
    let before = match relationship {
        Some(id) => Some(record(&state, RelationshipId::new(id)?).await?),
        None => None,
    };
    let credentials = references(credentials, before.as_ref(), state.settings.keys.as_deref())?;
    check_references(&credentials).map_err(|error| ApiError::from(error).field("credentials"))?;
    let action = match errand.kind() {
        "browse" => "errand.browse",
        "test" => "errand.test",
        "preview" => "errand.preview",
        _ => "errand.probe",
    };
    let action = AuditedAction { detail, ..caller.does(action, group.to_string()) };
    state.change(action, LedgerChange::Nothing).await?;
    let id = state.ask(move |leader| leader.add_errand(group, errand, credentials)).await??;
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
    // There is no list of errands.
    let missing = || ApiError::new(StatusCode::NOT_FOUND, "not_found", "there is no such errand");
    errand.map(Json).ok_or_else(missing)
}
