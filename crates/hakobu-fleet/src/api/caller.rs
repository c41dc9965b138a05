//! The one who asks: proven by a token, or by the session of the page, and allowed to do what the role may.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};

use super::problem::{ApiError, ApiResult};
use super::state::{ApiState, AuditedAction};
use crate::api_token::ApiToken;
use crate::change::{LedgerAnswer, LedgerChange};
use crate::token::{TokenHash, TokenRecord, TokenRole};

/// The header that a change needs which is allowed by a cookie: pages of other sites cannot set it.
pub const CHANGE_HEADER: &str = "x-hakobu-request";
/// The time after which the ledger is told again that a token is used, in milliseconds.
const TELL_USE_EVERY_MS: u64 = 60_000;

/// The address of the one who asks, which the server notes with each request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// The one who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The label of the token.
    pub who: String,
    /// The role.
    pub role: TokenRole,
    /// The proof, which may end.
    pub proof: CallerProof,
}

/// The proof of who asks.
#[derive(Clone, Debug)]
pub enum CallerProof {
    /// A token.
    Token(TokenHash),
    /// The secret of a session.
    Session(String),
    /// A token that was valid once.
    Once,
}

impl CallerProof {
    /// Returns true if it still holds.
    pub fn is_valid(&self, state: &ApiState) -> bool {
        match self {
            Self::Token(hash) => {
                let now = state.clock.moment();
                state.tokens().get(hash).is_some_and(|record| record.is_valid_at(now))
            }
            Self::Session(secret) => state.sessions().using(secret, state.instant()).is_some(),
            Self::Once => false,
        }
    }
}

impl Caller {
    /// Returns the record for the audit log of something that this one does.
    pub fn does(&self, action: &'static str, object: impl Into<Vec<u8>>) -> AuditedAction {
        AuditedAction { who: self.who.clone(), action, object: object.into(), detail: String::new() }
    }

    fn needs(self, role: TokenRole) -> ApiResult<Self> {
        if self.role >= role {
            return Ok(self);
        }
        let words =
            format!("this needs the role {}, and the token has the role {}", role.name(), self.role.name());
        Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", words)
            .hint("ask an admin for a token with that role"))
    }
}

macro_rules! callers {
    ($( $(#[$doc:meta])* $name:ident $role:ident ),* $(,)?) => { $(
        $(#[$doc])*
        pub struct $name(pub Caller);

        impl FromRequestParts<Arc<ApiState>> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> ApiResult<Self> {
                caller(parts, state).await?.needs(TokenRole::$role).map(Self)
            }
        }
    )* };
}

callers! {
    /// One who may see.
    ViewerCaller Viewer,
    /// One who may start, stop and limit runs.
    OperatorCaller Operator,
    /// One who may change everything.
    AdminCaller Admin,
}

/// Returns the one who asks.
async fn caller(parts: &Parts, state: &Arc<ApiState>) -> ApiResult<Caller> {
    if let Some(value) = parts.headers.get(header::AUTHORIZATION) {
        let value = value.to_str().unwrap_or_default();
        let Some((_, token)) =
            value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        else {
            return Err(unauthenticated("the header Authorization must be: Bearer TOKEN"));
        };
        let source = source(parts);
        let record = proven(state, token, source).await?;
        let proof = match record.token.is_single_use {
            true => CallerProof::Once,
            false => CallerProof::Token(record.token.hash),
        };
        return Ok(Caller { who: record.token.label, role: record.token.role, proof });
    }
    let Some(secret) = cookie(&parts.headers, session_cookie(state)) else {
        return Err(unauthenticated("no token was given")
            .hint("send the header Authorization: Bearer TOKEN, or sign in"));
    };
    let session = state.sessions().using(&secret, state.instant());
    let session = session.ok_or_else(|| unauthenticated("the session has ended").hint("sign in again"))?;
    let is_reading = matches!(parts.method, Method::GET | Method::HEAD);
    if !is_reading {
        check_change_header(&parts.headers)?;
    }
    Ok(Caller { who: session.label, role: session.role, proof: CallerProof::Session(secret) })
}

/// Returns the address of the one who asks.
pub fn source(parts: &Parts) -> IpAddr {
    let unknown = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
    parts.extensions.get::<ConnectInfo<PeerAddress>>().map_or(unknown, |peer| peer.0.0)
}

/// Checks that a page of this site asks.
///
/// # Errors
/// Forbidden without the header.
pub fn check_change_header(headers: &HeaderMap) -> ApiResult<()> {
    let is_other_site =
        headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    if headers.contains_key(CHANGE_HEADER) && !is_other_site {
        return Ok(());
    }
    let words = "a change with the cookie of a session needs the header X-Hakobu-Request, which other sites cannot send";
    Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", words))
}

/// Returns the token with this text, if it is valid. Failed attempts slow down further ones of their source.
///
/// # Errors
/// Unauthenticated, or too many attempts.
pub async fn proven(state: &Arc<ApiState>, text: &str, source: IpAddr) -> ApiResult<TokenRecord> {
    let parsed = ApiToken::parse(text);
    if let Ok(token) = &parsed {
        let known = state.tokens().get(&token.hash()).cloned();
        if let Some(record) = known.filter(|record| !record.token.is_single_use) {
            let now = state.clock.moment();
            if record.is_valid_at(now) {
                note_use(state, &record);
                return Ok(record);
            }
        }
    }
    // From here on it is an attempt.
    if let Err(wait) = state.attempts().check(source, state.instant()) {
        let words = "too many attempts to sign in failed";
        let seconds = wait.as_secs().max(1);
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", words)
            .hint(format!("try again in {seconds} s"))
            .retry_after(seconds));
    }
    let used = match &parsed {
        Ok(token) => use_token(state, token.hash()).await?,
        Err(_) => None,
    };
    let Some(record) = used else {
        state.attempts().failed(source, state.instant());
        state.counts.refused_logins.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let words = match &parsed {
            Err(fault) => fault.words(),
            Ok(_) => "the token is not valid: it was revoked, has expired, or was valid once",
        };
        return Err(unauthenticated(words).hint("ask an admin for a new token"));
    };
    state.attempts().succeeded(source);
    if record.token.is_single_use {
        state.tokens().remove(&record.token.hash);
    }
    Ok(record)
}

async fn use_token(state: &ApiState, hash: TokenHash) -> ApiResult<Option<TokenRecord>> {
    let change = LedgerChange::UseToken(hash, state.clock.moment());
    let answer = state.ask_ledger(move |leader, reply| leader.change(change, reply)).await?;
    Ok(match answer {
        LedgerAnswer::TokenUsed(record) => Some(*record),
        _ => None,
    })
}

/// Tells the ledger from time to time that a token is used.
fn note_use(state: &Arc<ApiState>, record: &TokenRecord) {
    let now = state.clock.moment();
    let is_told =
        record.last_used.is_some_and(|last| now.get().saturating_sub(last.get()) < TELL_USE_EVERY_MS);
    if is_told {
        return;
    }
    let hash = record.token.hash;
    if let Some(known) = state.tokens().get_mut(&hash) {
        known.last_used = Some(now);
    }
    let change = LedgerChange::UseToken(hash, now);
    // It is told with the next use if the leader is busy.
    let _is_full = state.control.spawn(move |leader| leader.change(change, Box::new(|_| {})));
}

fn unauthenticated(words: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthenticated", words)
}

/// Returns the name of the cookie. With TLS, its prefix has browsers refuse one that another host set.
pub fn session_cookie(state: &ApiState) -> &'static str {
    match state.settings.is_tls {
        true => "__Host-hakobu_session",
        false => "hakobu_session",
    }
}

/// Returns a cookie of a request.
pub fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}
