//! Calls about tokens, the audit log and the session of the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::caller::{AdminCaller, ViewerCaller, check_change_header, cookie, proven, session_cookie, source};
use super::fleet_view::{AuditView, TokenInput, TokenSecret, TokenView};
use super::listing::{JsonBody, ListPage, PathParts, QueryParts, page_items, position};
use super::problem::{ApiError, ApiResult};
use super::state::{ApiState, AuditedAction};
use crate::api_token::ApiToken;
use crate::change::{LedgerAnswer, LedgerChange};
use crate::ids::{RowNumber, TokenId};
use crate::token::{NewToken, TokenRecord, TokenRole};

/// Lists tokens, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", responses((status = 200, body = ListPage<TokenView>)))]
pub async fn list_tokens(
    State(state): State<Arc<ApiState>>,
    _caller: AdminCaller,
) -> ApiResult<Json<ListPage<TokenView>>> {
    let records = state.ask(|leader| leader.ledger().tokens()).await??;
    Ok(Json(ListPage::whole(records.iter().map(TokenView::from).collect())))
}

/// Makes a token. Its secret is in the answer, and is never shown again.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = TokenInput,
    responses((status = 201, body = TokenSecret)))]
pub async fn create_token(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    JsonBody(input): JsonBody<TokenInput>,
) -> ApiResult<(StatusCode, Json<TokenSecret>)> {
    if input.label.trim().is_empty() {
        return Err(ApiError::usage("label: it is empty: name what the token is for").field("label"));
    }
    let secret = ApiToken::generate()?;
    let created = state.clock.moment();
    let expires = input.valid_for_s.map(|seconds| created.plus_ms(seconds.saturating_mul(1000)));
    let new = NewToken {
        hash: secret.hash(),
        label: input.label,
        role: input.role,
        created,
        expires,
        is_single_use: input.is_single_use,
    };
    let detail = format!("role {}", new.role.name());
    let action = AuditedAction { detail, ..caller.does("token.create", new.label.clone()) };
    let answer = state.change(action, LedgerChange::AddToken(new.clone())).await?;
    let LedgerAnswer::TokenAdded(id) = answer else { return Err(ApiError::not_found("token")) };
    state.renew_tokens().await?;
    let token = TokenView::from(&TokenRecord { id, token: new, last_used: None });
    let secret = String::from_utf8_lossy(secret.text().expose()).into_owned();
    Ok((StatusCode::CREATED, Json(TokenSecret { token, secret })))
}

/// Revokes a token. Its sessions end.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "tokens", params(("id" = u64, Path)),
    responses((status = 204)))]
pub async fn revoke_token(
    State(state): State<Arc<ApiState>>,
    AdminCaller(caller): AdminCaller,
    PathParts(id): PathParts<TokenId>,
) -> ApiResult<StatusCode> {
    let label =
        state.tokens().values().find(|record| record.id == id).map(|record| record.token.label.clone());
    let action = caller.does("token.revoke", label.unwrap_or_else(|| id.to_string()));
    let answer = state.change(action, LedgerChange::RevokeToken(id)).await;
    state.renew_tokens().await?;
    answer.map(|_| StatusCode::NO_CONTENT)
}

/// The query of the audit log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// The value of `next` of the page before.
    pub after: Option<String>,
    /// The number of items, at most 1000.
    pub limit: Option<u32>,
}

/// Lists who did what, the latest first.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, body = ListPage<AuditView>)))]
pub async fn list_audit(
    State(state): State<Arc<ApiState>>,
    _caller: AdminCaller,
    QueryParts(query): QueryParts<AuditQuery>,
) -> ApiResult<Json<ListPage<AuditView>>> {
    let before: Option<RowNumber> = position(query.after.as_deref())?;
    let limit = page_items(query.limit);
    let records = state.ask(move |leader| leader.ledger().audit(before, limit)).await??;
    let next = records.last().filter(|_| records.len() == limit).map(|record| record.number.to_string());
    Ok(Json(ListPage { items: records.iter().map(AuditView::from).collect(), next, total: None }))
}

/// The token to sign in with.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The token. One that is valid once is used up.
    pub token: String,
}

/// The one who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// The label of the token.
    pub who: String,
    /// The role.
    pub role: TokenRole,
    /// The version of the control plane.
    pub version: String,
}

/// The parts of a request that its body needs as well.
pub struct RequestHead(Parts);

impl<S: Send + Sync> FromRequestParts<S> for RequestHead {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.clone()))
    }
}

/// Signs in to the page: sets the cookie of a session. The header `X-Hakobu-Request` is needed.
#[utoipa::path(post, path = "/api/v1/session", tag = "session", request_body = SignIn,
    responses((status = 200, body = SessionView)), security(()))]
pub async fn sign_in(
    State(state): State<Arc<ApiState>>,
    RequestHead(head): RequestHead,
    JsonBody(input): JsonBody<SignIn>,
) -> ApiResult<Response> {
    check_change_header(&head.headers)?;
    let record = proven(&state, &input.token, source(&head)).await?;
    let action = AuditedAction {
        who: record.token.label.clone(),
        action: "session.begin",
        object: Vec::new(),
        detail: format!("from {}", source(&head)),
    };
    state.change(action, LedgerChange::Nothing).await?;
    let (label, role) = (record.token.label.clone(), record.token.role);
    let token = (!record.token.is_single_use).then_some(record.id);
    let secret = state.sessions().begin(label.clone(), role, token, state.instant())?;
    let view = SessionView { who: label, role, version: env!("CARGO_PKG_VERSION").to_owned() };
    let mut response = Json(view).into_response();
    set_cookie(&state, &mut response, &secret, None);
    Ok(response)
}

/// Shows who is signed in.
#[utoipa::path(get, path = "/api/v1/session", tag = "session", responses((status = 200, body = SessionView)))]
pub async fn show_session(ViewerCaller(caller): ViewerCaller) -> Json<SessionView> {
    Json(SessionView { who: caller.who, role: caller.role, version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Signs out.
#[utoipa::path(delete, path = "/api/v1/session", tag = "session", responses((status = 204)), security(()))]
pub async fn sign_out(State(state): State<Arc<ApiState>>, headers: HeaderMap) -> ApiResult<Response> {
    check_change_header(&headers)?;
    if let Some(secret) = cookie(&headers, session_cookie(&state)) {
        state.sessions().end(&secret);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&state, &mut response, "", Some(0));
    Ok(response)
}

fn set_cookie(state: &ApiState, response: &mut Response, secret: &str, max_age_s: Option<u64>) {
    let mut text = format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict", session_cookie(state));
    if state.settings.is_tls {
        text.push_str("; Secure");
    }
    if let Some(seconds) = max_age_s {
        text.push_str(&format!("; Max-Age={seconds}"));
    }
    if let Ok(value) = HeaderValue::try_from(text) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
}
