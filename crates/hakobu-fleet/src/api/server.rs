//! The server: listens, guards every request, looks at the fleet each second, and ends when it is asked to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::serve::{IncomingStream, Listener};
use hakobu_core::error::{Error, Result};

use super::caller::PeerAddress;
use super::page_files::page_file;
use super::problem::ApiError;
use super::router::router;
use super::state::ApiState;
use super::timed_stream::BoundedListener;

/// The maximum length of a request's body in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The maximum number of connections.
const CONNECTIONS_MAX: usize = 1024;
/// The size of the kernel's buffer for what waits to be sent on a connection. The kernel doubles it. By itself it would let it grow
/// to megabytes, and a reader of events could be far behind before that is seen.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// The time after which a connection ends to which nothing could be written. Streams of events show more often that they are alive.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// The time after which a request is answered with an error.
const REQUEST_MAX: Duration = Duration::from_secs(40);
/// The time between two looks at the fleet.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The time that requests have to end after the server was asked to.
const FAREWELL: Duration = Duration::from_secs(3);

/// Headers of all answers.
const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; font-src 'self'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
];

impl<L: Listener<Addr = SocketAddr>> Connected<IncomingStream<'_, BoundedListener<L>>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, BoundedListener<L>>) -> Self {
        Self(stream.remote_addr().ip())
    }
}

/// Returns all calls and the page, guarded.
pub fn guarded(state: &Arc<ApiState>) -> Router {
    router(state.clone())
        .fallback(page_file)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(state.clone(), guard))
}

/// Listens on an address. What waits to be sent on its connections is bounded.
///
/// # Errors
/// Those of the system.
pub fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    // Connections inherit it.
    rustix::net::sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves the interface until `stop` ends. The leader must run.
///
/// # Errors
/// Those of reading the fleet for the first time, and of listening.
pub async fn serve<L: Listener<Addr = SocketAddr>>(
    listener: L,
    state: Arc<ApiState>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    state.load().await?;
    let looks = tokio::spawn(look(state.clone()));
    let result = serve_until(listener, guarded(&state), stop, FAREWELL).await;
    looks.abort();
    result
}

/// Serves a router until `stop` ends, and then what is under way for at most `farewell`.
///
/// # Errors
/// Those of listening.
pub(super) async fn serve_until<L: Listener<Addr = SocketAddr>>(
    listener: L,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
    farewell: Duration,
) -> Result<()> {
    let listener = BoundedListener::new(listener, CONNECTIONS_MAX, SILENT_MAX);
    let service = router.into_make_service_with_connect_info::<PeerAddress>();
    let (begin_end, ending) = tokio::sync::oneshot::channel::<()>();
    let (end, mut ended) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        stop.await;
        let _has_ended = begin_end.send(());
        // Streams of events have no end of their own, and a client may never send the rest of a request.
        tokio::time::sleep(farewell).await;
        let _has_ended = end.send(());
    });
    let served = axum::serve(listener, service).with_graceful_shutdown(async move {
        let _is_asked = ending.await;
    });
    tokio::select! {
        result = served => result.map_err(|error| Error::io("serving the interface", &error)),
        _ = &mut ended => Ok(()),
    }
}

/// Looks at the fleet again and again. While the ledger does not work, states stay as they were.
async fn look(state: Arc<ApiState>) {
    let mut times = tokio::time::interval(LOOK_EVERY);
    times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        // Those who watch are told of its error.
        let _has_failed = state.look().await;
    }
}

async fn no_such_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "usage", "this address has no such method")
        .hint("GET /api/v1/openapi.json describes all calls")
}

async fn guard(State(state): State<Arc<ApiState>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let is_file = !request.uri().path().starts_with("/api/");
    let mut response = match check_host(&state, &request) {
        Err(error) => error.into_response(),
        Ok(()) => match tokio::time::timeout(REQUEST_MAX, next.run(request)).await {
            Ok(response) => response,
            Err(_) => {
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "timed_out", "the request took too long")
                    .retry_after(2)
                    .into_response()
            }
        },
    };
    let headers = response.headers_mut();
    add_headers(headers, state.settings.is_tls);
    if !(is_file && headers.contains_key(header::CACHE_CONTROL)) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    state.counts.count(response.status().as_u16(), began.elapsed());
    response
}

/// Adds the headers that all answers have.
pub(super) fn add_headers(headers: &mut HeaderMap, is_tls: bool) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
}

/// Checks that the request names this host by an address, or by a name that it has: a name of another site that leads here is
/// how pages of that site would reach it.
fn check_host(state: &ApiState, request: &Request) -> std::result::Result<(), ApiError> {
    let host = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let host = host.or_else(|| host_header(request.headers())).unwrap_or_default();
    let name = name_of(&host);
    let is_own = name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || state.settings.hosts.iter().any(|own| own.eq_ignore_ascii_case(name));
    if is_own {
        return Ok(());
    }
    let words =
        format!("the host {:?} is not one of this control plane", hakobu_core::path::lossy(name.as_bytes()));
    Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "other_host", words)
        .hint("start it with --host NAME for each name that it is reached by"))
}

fn host_header(headers: &HeaderMap) -> Option<String> {
    headers.get(header::HOST).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Returns a host without its port and brackets.
fn name_of(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_without_ports() {
        for (host, name) in
            [("a:80", "a"), ("a", "a"), ("[::1]:8420", "::1"), ("127.0.0.1:1", "127.0.0.1"), ("", "")]
        {
            assert_eq!(name_of(host), name);
        }
    }
}
