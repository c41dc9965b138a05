//! The interface of a control plane that waits to lead: it says who leads.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hakobu_core::error::{Error, Result};
use serde::Serialize;
use tokio::net::TcpListener;

use super::problem::ApiError;
use crate::ledger::leadership::{LeadershipState, LeadershipView};

/// The state of a control plane that waits.
#[derive(Serialize)]
struct StandbyHealth {
    status: &'static str,
    leader: Option<String>,
}

/// Answers every request with the name of the leader, until `stop` ends. Probes for health find it well, and not ready.
///
/// # Errors
/// Those of listening.
pub async fn serve_standby(
    listener: TcpListener,
    view: LeadershipView,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let seen = view.clone();
    let router = Router::new()
        .route("/healthz", get(async || StatusCode::OK))
        .route(
            "/readyz",
            get(async move || {
                let health = StandbyHealth { status: "standby", leader: leader(&view) };
                (StatusCode::SERVICE_UNAVAILABLE, Json(health))
            }),
        )
        .fallback(async move || refusal(&seen));
    let served = axum::serve(listener, router).with_graceful_shutdown(stop).await;
    served.map_err(|error| Error::io("serving the interface", &error))
}

fn leader(view: &LeadershipView) -> Option<String> {
    match view.state() {
        LeadershipState::Following { leader } => leader,
        LeadershipState::Leading(_) => None,
    }
}

fn refusal(view: &LeadershipView) -> Response {
    let words = match leader(view) {
        Some(leader) => format!("this control plane waits, and \"{leader}\" leads"),
        None => "this control plane waits until it leads".to_owned(),
    };
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "standby", words)
        .hint("ask the one that leads, or ask again in some seconds")
        .retry_after(5)
        .into_response()
}
