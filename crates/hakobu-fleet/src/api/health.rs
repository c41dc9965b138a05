//! Health, readiness, metrics, live events, and the description of the interface.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::caller::ViewerCaller;
use super::events::READERS_MAX;
use super::fleet_status::FleetStatus;
use super::metrics;
use super::problem::{ApiError, ApiResult, Problem};
use super::state::ApiState;

/// The time within which a control plane that is ready answers.
const READY_WITHIN: Duration = Duration::from_secs(3);

/// Tells that the process answers.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = String)), security(()))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// The readiness.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Readiness)]
pub struct ReadinessView {
    /// True if requests are answered, and the ledger works.
    pub is_ready: bool,
    /// The kind of the error, if it is not. Its words are for those who are signed in.
    pub error: Option<String>,
}

/// Tells whether the ledger works.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, body = ReadinessView), (status = 503, body = ReadinessView)), security(()))]
pub async fn readyz(State(state): State<Arc<ApiState>>) -> (StatusCode, Json<ReadinessView>) {
    let asked = state.ask(|leader| leader.ledger_error().map(Problem::from));
    let error = match tokio::time::timeout(READY_WITHIN, asked).await {
        Ok(Ok(None)) => None,
        Ok(Ok(Some(problem))) => Some(problem.kind),
        Ok(Err(error)) => Some(Problem::from(&error).kind),
        Err(_) => Some("timed_out".to_owned()),
    };
    let error = error.or_else(|| (!state.overview().is_loaded).then(|| "starting".to_owned()));
    let status = if error.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadinessView { is_ready: error.is_none(), error }))
}

/// Shows which parts of the control plane do not work, with cause and remedy.
#[utoipa::path(get, path = "/api/v1/status", tag = "health", responses((status = 200, body = FleetStatus)))]
pub async fn show_status(State(state): State<Arc<ApiState>>, _caller: ViewerCaller) -> Json<FleetStatus> {
    Json(state.overview().status.clone())
}

/// Shows metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String)))]
pub async fn show_metrics(State(state): State<Arc<ApiState>>, _caller: ViewerCaller) -> ApiResult<Response> {
    let text = metrics::text(&state)
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "io", error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Sends live data as server-sent events: `run` (a RunView), `relationship` (a RelationshipSummary, or `{id, removed}`), `broker` (a
/// BrokerView, or `{name, removed}`), `errand` (an ErrandView without its result), `status` (a FleetStatus), `hello` at the beginning, and `reset`
/// if everything must be read anew. Whoever comes back with `Last-Event-ID` gets what was missed. A reader that is too slow is cut off.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn watch(
    State(state): State<Arc<ApiState>>,
    ViewerCaller(caller): ViewerCaller,
    headers: HeaderMap,
) -> ApiResult<Response> {
    if state.events.readers() >= READERS_MAX {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "timed_out", "too many watch already");
        return Err(error.retry_after(10));
    }
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let may_read = {
        let state = state.clone();
        move || caller.proof.is_valid(&state)
    };
    Ok(state.events.stream(last, may_read).into_response())
}
