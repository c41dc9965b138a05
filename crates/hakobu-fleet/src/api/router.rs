//! All calls, and the OpenAPI document of them.

use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::Problem;
use super::state::ApiState;
use super::{access, errands, failures, fleet, health, next_run, relationships, runs};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "hakobu fleet",
        description = "The control plane of a fleet: relationships, runs, brokers. Programs send `Authorization: Bearer TOKEN`. \
            A change with the cookie of a session needs the header `X-Hakobu-Request`. Numbers of rows, revisions and moments (in milliseconds \
            since 1970) are below 2^53; counters of bytes are exact, and may be larger.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(Problem)),
    security(("token" = []), ("session" = []))
)]
struct ApiDocument;

fn calls() -> OpenApiRouter<Arc<ApiState>> {
    OpenApiRouter::with_openapi(ApiDocument::openapi())
        .routes(routes!(relationships::list_relationships, relationships::create_relationship))
        .routes(routes!(
            relationships::show_relationship,
            relationships::change_relationship,
            relationships::remove_relationship
        ))
        .routes(routes!(relationships::start_relationship))
        .routes(routes!(next_run::forecast_next))
        .routes(routes!(relationships::preview_schedule))
        .routes(routes!(relationships::check_request))
        .routes(routes!(runs::list_runs, runs::start_run))
        .routes(routes!(runs::show_run))
        .routes(routes!(runs::show_rates))
        .routes(routes!(runs::cancel_run))
        .routes(routes!(runs::pause_run))
        .routes(routes!(runs::resume_run))
        .routes(routes!(failures::retry_run))
        .routes(routes!(runs::show_report))
        .routes(routes!(failures::list_failures))
        .routes(routes!(failures::compare_runs))
        .routes(routes!(fleet::limit_run))
        .routes(routes!(fleet::list_brokers))
        .routes(routes!(fleet::show_broker, fleet::forget_broker))
        .routes(routes!(fleet::drain_broker))
        .routes(routes!(fleet::undrain_broker))
        .routes(routes!(fleet::list_groups))
        .routes(routes!(fleet::limit_group))
        .routes(routes!(fleet::reach_of_group))
        .routes(routes!(fleet::list_endpoint_limits, fleet::limit_endpoint))
        .routes(routes!(errands::create_errand))
        .routes(routes!(errands::show_errand))
        .routes(routes!(access::list_tokens, access::create_token))
        .routes(routes!(access::revoke_token))
        .routes(routes!(access::list_audit))
        .routes(routes!(access::sign_in, access::show_session, access::sign_out))
        .routes(routes!(health::show_status))
        .routes(routes!(health::watch))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::show_metrics))
}

/// Returns the OpenAPI document, as JSON.
pub fn document() -> String {
    let (_, mut document) = calls().split_for_parts();
    // The document is of the interface, not of a release of the program.
    document.info.version = "1".to_owned();
    let problem = RefOr::Ref(Ref::from_schema_name("Problem"));
    let answer = ResponseBuilder::new()
        .description("An error")
        .content("application/json", utoipa::openapi::ContentBuilder::new().schema(Some(problem)).build())
        .build();
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), RefOr::T(answer.clone()));
        }
    }
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new("hakobu_session")));
    let components = document.components.take().unwrap_or_else(|| ComponentsBuilder::new().build());
    let mut components = components;
    components.add_security_scheme("token", SecurityScheme::Http(token));
    components.add_security_scheme("session", cookie);
    document.components = Some(components);
    document.to_pretty_json().unwrap_or_default()
}

async fn show_document() -> impl IntoResponse {
    static DOCUMENT: std::sync::LazyLock<String> = std::sync::LazyLock::new(document);
    ([(axum::http::header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

/// Returns the router of all calls.
pub fn router(state: Arc<ApiState>) -> Router {
    let (calls, _) = calls().split_for_parts();
    calls.route("/api/v1/openapi.json", get(show_document)).with_state(state)
}
