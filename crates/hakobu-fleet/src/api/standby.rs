//! The interface of a control plane that waits to lead: it says who leads.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::serve::Listener;
use axum::{Json, Router};
use hakobu_core::error::Result;
use serde::Serialize;

use super::page_files::page_file;
use super::problem::ApiError;
use super::server::{add_headers, serve_until};
use crate::ledger::leadership::{LeadershipState, LeadershipView};

/// The time that requests have to end before this control plane leads.
const FAREWELL: Duration = Duration::from_millis(200);

/// The state of a control plane that waits.
#[derive(Serialize)]
struct StandbyHealth {
    status: &'static str,
    leader: Option<String>,
    /// The moment since which the ledger does not answer, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger_down_since_ms: Option<u64>,
}

/// Answers every call with the name of the leader, and shows the page, until `stop` ends. Probes for health find it well, and not
/// ready. `is_tls`: the listener encrypts.
///
/// # Errors
/// Those of listening.
pub async fn serve_standby<L: Listener<Addr = SocketAddr>>(
    listener: L,
    is_tls: bool,
    view: LeadershipView,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let seen = view.clone();
    let refuse = async move || refusal(&seen);
    let router = Router::new()
        .route("/healthz", get(async || StatusCode::OK))
        .route(
            "/readyz",
            get(async move || {
                let ledger_down_since_ms = view.trouble().map(|trouble| trouble.since_ms);
                let health = StandbyHealth { status: "standby", leader: leader(&view), ledger_down_since_ms };
                (StatusCode::SERVICE_UNAVAILABLE, Json(health))
            }),
        )
        .route("/metrics", get(refuse.clone()))
        .route("/api/{*call}", any(refuse))
        .fallback(page_file)
        .layer(map_response(move |mut response: Response| {
            add_headers(response.headers_mut(), is_tls);
            std::future::ready(response)
        }));
    serve_until(listener, router, stop, FAREWELL).await
}

fn leader(view: &LeadershipView) -> Option<String> {
    match view.state() {
        LeadershipState::Following { leader } => leader.filter(|_| view.trouble().is_none()),
        LeadershipState::Leading(_) => None,
    }
}

fn refusal(view: &LeadershipView) -> Response {
    if view.trouble().is_some() {
        // The error is in the log: who asks here may be anybody.
        let words =
            "the ledger does not answer, so this control plane cannot lead, and does not know which one does";
        return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ledger_down", words)
            .hint("see that PostgreSQL runs and is reached from the control plane, whose log has the error; it goes on by itself")
            .retry_after(5)
            .into_response();
    }
    let words = match leader(view) {
        Some(leader) => format!("this control plane waits, and \"{leader}\" leads"),
        None => "this control plane waits until it leads".to_owned(),
    };
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "standby", words)
        .hint("ask the one that leads, or ask again in some seconds")
        .retry_after(5)
        .into_response()
}
