//! HTTP of one lane: one request, one attempt. It limits times and sizes, and counts.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hakobu_core::request::RETRY_FOR_DEFAULT;
use hakobu_core::{Error, ErrorKind, Result};
use http::header::{CONTENT_LENGTH, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method};
use http_body::Body as _;
use tokio::time::{Instant, Sleep};

use super::budget::{BudgetShare, RequestBudget, RequestPermit};
use super::clock::ClockInterval;
use super::content::ContentBody;
use super::counts::{RequestCounters, RequestKind};
use super::retry::{OutageClock, RetryPlan};

/// Time limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// The longest time to connect, with TLS.
    pub connect: Duration,
    /// The longest time without a byte in either direction.
    pub stall: Duration,
    /// The longest time from the first attempt to the beginning of the last one.
    pub retries: Duration,
    /// The longest such time while no request succeeds.
    pub outage: Duration,
    /// The longest such time before the store has ever answered, when a wrong address is more likely than a store that is busy.
    pub first_answer: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            retries: Duration::from_secs(300),
            outage: RETRY_FOR_DEFAULT,
            first_answer: Duration::from_secs(8),
        }
    }
}

/// The time for which an idle connection is kept. Servers close theirs after some 20 seconds.
const IDLE_LIMIT: Duration = Duration::from_secs(15);
const USER_AGENT: &str = concat!("hakobu/", env!("CARGO_PKG_VERSION"));

/// State that the lanes of a bucket share.
#[derive(Debug, Default)]
pub(crate) struct HttpShared {
    pub(crate) limits: HttpLimits,
    pub(crate) budget: RequestBudget,
    pub(crate) counters: Arc<RequestCounters>,
    pub(crate) clock: ClockInterval,
    pub(crate) answer_time: AnswerTime,
    pub(crate) outage: Arc<OutageClock>,
}

impl HttpShared {
    /// Begins the attempts at a request.
    pub(crate) fn retry_plan(&self) -> RetryPlan {
        RetryPlan::new(self.limits, &self.outage)
    }
}

/// The shortest time from a request to the beginning of its answer, in nanoseconds.
#[derive(Debug)]
pub(crate) struct AnswerTime(AtomicU64);

impl Default for AnswerTime {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl AnswerTime {
    fn add(&self, time: Duration) {
        self.0.fetch_min(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the time, or `None` before the first answer.
    pub(crate) fn least(&self) -> Option<Duration> {
        Some(self.0.load(Ordering::Relaxed)).filter(|time| *time < u64::MAX).map(Duration::from_nanos)
    }
}

/// The connections of a lane.
pub(crate) struct HttpClient {
    client: reqwest::Client,
    shared: Arc<HttpShared>,
    share: BudgetShare,
}

/// A request, as it goes out.
pub(crate) struct HttpRequest<'a> {
    pub(crate) kind: RequestKind,
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) content: &'a [Bytes],
    pub(crate) is_retry: bool,
}

/// An answer, with its body still to come.
pub(crate) struct HttpAnswer<'a> {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: AnswerBody,
    /// The place in the budget. It is given back when the answer is dropped or taken apart.
    pub(crate) permit: RequestPermit<'a>,
}

/// An attempt that brought no answer.
#[derive(Debug)]
pub(crate) struct HttpFailure {
    pub(crate) kind: ErrorKind,
    /// The cause in the words of the system.
    pub(crate) cause: String,
    pub(crate) hint: Option<&'static str>,
    /// True if another attempt may succeed.
    pub(crate) may_repeat: bool,
    /// True if the server may have received the request.
    pub(crate) was_sent: bool,
    /// True if the name of the server has no address.
    pub(crate) is_unresolved: bool,
}

impl HttpFailure {
    fn stalled(limit: Duration, doing: &str) -> Self {
        let cause = format!("{doing} for {} s", limit.as_secs());
        Self {
            kind: ErrorKind::TimedOut,
            cause,
            hint: None,
            may_repeat: true,
            was_sent: true,
            is_unresolved: false,
        }
    }

    fn of(error: &reqwest::Error) -> Self {
        let cause = innermost(error);
        let failure = |kind, hint, may_repeat| Self {
            kind,
            cause: cause.clone(),
            hint,
            may_repeat,
            was_sent: !error.is_connect() && !error.is_builder(),
            is_unresolved: cause.contains("lookup address"),
        };
        if cause.contains("certificate") {
            return failure(ErrorKind::Protocol, Some(CERTIFICATE), false);
        }
        if error.is_builder() {
            return failure(ErrorKind::Usage, None, false);
        }
        if cause.contains("InvalidContentType") || cause.contains("corrupt message") {
            return Self {
                cause: NOT_TLS.to_owned(),
                ..failure(ErrorKind::Protocol, Some(PLAIN_HTTP), false)
            };
        }
        if cause.contains("too large") || cause.contains("invalid HTTP") {
            return failure(ErrorKind::Protocol, Some(NOT_HTTP), false);
        }
        let kind = if error.is_timeout() { ErrorKind::TimedOut } else { ErrorKind::ConnectionLost };
        // A server that does not speak TLS may hang up.
        let hint = cause.contains("tls handshake eof").then_some(PLAIN_HTTP);
        failure(kind, hint, true)
    }

    pub(crate) fn into_error(self, during: &'static str) -> Error {
        let error = Error::new(self.kind, during, self.cause);
        match self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

const CERTIFICATE: &str = "name the authority's certificate in SSL_CERT_FILE, or install it on this machine";
const NOT_TLS: &str = "the server does not speak TLS at this port";
const PLAIN_HTTP: &str = "if the endpoint is one without encryption, write http:// instead of https://";
/// The remedy for an answer that no store gives.
pub(super) const NOT_A_STORE: &str = "the endpoint must be that of an object store";
const NOT_HTTP: &str = "the endpoint must be that of an object store, with https:// if it is encrypted";

/// Returns the words of the innermost cause: what surrounds it says no more than that a request failed.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let words = cause.to_string();
    match words.find(" (os error") {
        Some(end) => words[..end].to_lowercase(),
        None => words,
    }
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        self.shared.budget.end_share();
    }
}

impl HttpClient {
    /// Sets up the client of a lane.
    ///
    /// # Errors
    /// If the system has no certificates, or a proxy in the environment cannot be read.
    pub(crate) fn new(shared: Arc<HttpShared>) -> Result<Self> {
        let client = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(shared.limits.connect)
            .pool_idle_timeout(IDLE_LIMIT)
            .tcp_nodelay(true)
            .build();
        match client {
            Ok(client) => Ok(Self { client, share: shared.budget.share(), shared }),
            Err(error) => Err(HttpFailure::of(&error).into_error("setting up HTTPS")),
        }
    }

    /// Sends a request once, and returns when its answer begins.
    pub(crate) async fn send(&self, request: HttpRequest<'_>) -> Result<HttpAnswer<'_>, HttpFailure> {
        let permit = self.shared.budget.take(&self.share).await;
        self.shared.counters.add(request.kind, request.is_retry);
        let taken = Arc::new(AtomicU64::new(0));
        let is_empty = request.content.iter().all(Bytes::is_empty);
        let mut headers = request.headers;
        if is_empty && matches!(request.method, Method::PUT | Method::POST) {
            // The client leaves it out, and S3 insists on it.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut building = self.client.request(request.method, request.url).headers(headers);
        if !is_empty {
            let counters = Arc::clone(&self.shared.counters);
            let content = ContentBody::new(request.content, Arc::clone(&taken), counters);
            building = building.body(reqwest::Body::wrap(content));
        }
        let (sent, began) = (SystemTime::now(), Instant::now());
        let answer = self.wait(building.send(), &taken).await.inspect_err(|failure| {
            if !failure.was_sent {
                self.shared.counters.take_back(request.kind, request.is_retry);
            }
        })?;
        permit.answered();
        self.shared.answer_time.add(began.elapsed());
        let (head, body) = http::Response::from(answer).into_parts();
        if let Some(date) = date_of(&head.headers) {
            self.shared.clock.add(date, sent, SystemTime::now());
        }
        let body = AnswerBody::new(body, Arc::clone(&self.shared));
        Ok(HttpAnswer { status: head.status.as_u16(), headers: head.headers, body, permit })
    }

    /// Waits for the head of an answer, as long as the content of the request is being taken.
    async fn wait(
        &self,
        sending: impl Future<Output = reqwest::Result<reqwest::Response>>,
        taken: &AtomicU64,
    ) -> Result<reqwest::Response, HttpFailure> {
        let stall = self.shared.limits.stall;
        let mut sending = std::pin::pin!(sending);
        let mut before = 0;
        loop {
            match tokio::time::timeout(stall, sending.as_mut()).await {
                Ok(answer) => return answer.map_err(|error| HttpFailure::of(&error)),
                Err(_) => match taken.load(Ordering::Relaxed) {
                    now if now > before => before = now,
                    _ => return Err(HttpFailure::stalled(stall, "no answer")),
                },
            }
        }
    }
}

/// Returns the date of an answer.
pub(crate) fn date_of(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

impl HttpAnswer<'_> {
    /// Returns the value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the time that the server asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let words = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        if let Ok(seconds) = words.parse() {
            return Some(Duration::from_secs(seconds));
        }
        httpdate::parse_http_date(words).ok()?.duration_since(SystemTime::now()).ok()
    }

    /// Returns the length of the body that the head promises.
    pub(crate) fn length(&self) -> Option<u64> {
        self.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }
}

/// The body of an answer: bytes as they arrive. It fails if none arrive for a while, or fewer than promised.
pub(crate) struct AnswerBody {
    body: reqwest::Body,
    shared: Arc<HttpShared>,
    /// The alarm, armed while nothing arrives.
    stall: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl AnswerBody {
    fn new(body: reqwest::Body, shared: Arc<HttpShared>) -> Self {
        let stall = Box::pin(tokio::time::sleep(shared.limits.stall));
        Self { body, shared, stall, is_waiting: false }
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// If it has more than `bytes_max`.
    pub(crate) async fn read_all(mut self, bytes_max: usize) -> Result<Bytes, HttpFailure> {
        let mut first = Bytes::new();
        let mut all = Vec::new();
        while let Some(chunk) = self.next().await.transpose()? {
            if first.len() + all.len() + chunk.len() > bytes_max {
                return Err(HttpFailure {
                    kind: ErrorKind::Protocol,
                    cause: format!("the answer is longer than {bytes_max} bytes"),
                    hint: None,
                    may_repeat: false,
                    was_sent: true,
                    is_unresolved: false,
                });
            }
            if first.is_empty() && all.is_empty() {
                first = chunk;
                continue;
            }
            if all.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(if all.is_empty() { first } else { all.into() })
    }
}

impl Stream for AnswerBody {
    type Item = Result<Bytes, HttpFailure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.is_waiting = false;
                    // Trailers carry nothing that is used.
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.shared.counters.add_received(bytes.len());
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(HttpFailure::of(&error))));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    let limit = self.shared.limits.stall;
                    if !self.is_waiting {
                        self.is_waiting = true;
                        self.stall.as_mut().reset(Instant::now() + limit);
                    }
                    return match self.stall.as_mut().poll(context) {
                        Poll::Ready(()) => {
                            Poll::Ready(Some(Err(HttpFailure::stalled(limit, "no data arrived"))))
                        }
                        Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
    }
}
