//! One request to S3: signed, sent, judged, and sent again where that can help.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use hakobu_core::{Error, ErrorKind, Result};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};

use super::bucket::{LIMITS, S3Bucket};
use super::refusal::{RefusalRemedy, RefusedRequest, S3Refusal};
use super::sign::{SignedParts, Signer};
use super::spelling::{encode_key, query_text};
use crate::object::counts::RequestKind;
use crate::object::credentials::SigningKeys;
use crate::object::exchange::{ApiAnswer, StoreFailure, header_value};
use crate::object::http::{AnswerBody, HttpAnswer, HttpClient, HttpFailure, HttpRequest, NOT_A_STORE};
use crate::object::retry::repeated;

/// The largest answer that is read as a whole: a page of 1 000 keys of 3 072 bytes each when encoded, twice over.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The largest answer of an error.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
const REGION_HEADER: &str = "x-amz-bucket-region";
const REQUESTER_PAYS: HeaderName = HeaderName::from_static("x-amz-request-payer");

/// The requests of a lane.
pub(crate) struct S3Lane {
    pub(crate) bucket: Arc<S3Bucket>,
    pub(crate) http: HttpClient,
    pub(crate) signer: Signer,
}

/// A request, before it is signed.
pub(crate) struct S3Request<'a> {
    kind: RequestKind,
    method: Method,
    /// The step in words, for messages.
    during: &'static str,
    pub(super) key: Option<&'a str>,
    /// Names and values in the order of the names.
    query: Vec<(&'static str, String)>,
    headers: HeaderMap,
    content: Vec<Bytes>,
}

pub(crate) type S3Failure = StoreFailure<S3Refusal>;

impl<'a> S3Request<'a> {
    pub(crate) fn new(kind: RequestKind, method: Method, during: &'static str) -> Self {
        let (query, headers) = (Vec::new(), HeaderMap::new());
        Self { kind, method, during, key: None, query, headers, content: Vec::new() }
    }

    pub(crate) fn key(mut self, key: &'a str) -> Self {
        self.key = Some(key);
        self
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let place = self.query.partition_point(|(other, _)| *other < name);
        self.query.insert(place, (name, value.into()));
        self
    }

    /// Adds a header.
    ///
    /// # Errors
    /// `Unsupported` if the value cannot be one.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Result<Self> {
        let value = header_value(&name, value, self.during, self.key)?;
        self.headers.insert(name, value);
        Ok(self)
    }

    pub(crate) fn content(mut self, content: Vec<Bytes>) -> Self {
        self.content = content;
        self
    }
}

/// The use that is made of a body.
trait AnswerUse: Sized {
    async fn of(answer: HttpAnswer<'_>) -> Result<Self, AttemptFailure>;
}

impl AnswerUse for Bytes {
    async fn of(answer: HttpAnswer<'_>) -> Result<Self, AttemptFailure> {
        let body = answer.body.read_all(ANSWER_BYTES_MAX).await.map_err(AttemptFailure::NoAnswer)?;
        match S3Refusal::in_success(&body) {
            Some(refusal) => Err(AttemptFailure::Refused(refusal)),
            None => Ok(body),
        }
    }
}

impl AnswerUse for AnswerBody {
    async fn of(answer: HttpAnswer<'_>) -> Result<Self, AttemptFailure> {
        Ok(answer.body)
    }
}

enum AttemptFailure {
    NoAnswer(HttpFailure),
    Refused(S3Refusal),
}

impl S3Lane {
    /// Performs a request and reads its answer.
    pub(crate) async fn perform(&self, request: &S3Request<'_>) -> Result<ApiAnswer, S3Failure> {
        self.repeat(request).await
    }

    /// Performs a request and returns when its answer begins.
    pub(crate) async fn open(&self, request: &S3Request<'_>) -> Result<ApiAnswer<AnswerBody>, S3Failure> {
        self.repeat(request).await
    }

    async fn repeat<B: AnswerUse>(&self, request: &S3Request<'_>) -> Result<ApiAnswer<B>, S3Failure> {
        if let Some(key) = request.key {
            check_key(key, request.during).map_err(|error| S3Failure::Failed(self.at(request, error)))?;
        }
        let mut plan = self.bucket.http.retry_plan();
        let (mut may_renew, mut may_move, mut may_be_damaged) = (true, true, true);
        loop {
            let keys = self.bucket.credentials.keys().await.map_err(|error| self.without_keys(error))?;
            let refusal = match self.attempt::<B>(request, keys.as_ref(), plan.is_retry()).await {
                Ok(answer) => {
                    self.bucket.http.outage.succeeded();
                    return Ok(answer);
                }
                Err(AttemptFailure::NoAnswer(failure)) => {
                    if failure.was_sent {
                        plan.note_uncertain();
                    }
                    let delay = if failure.may_repeat { plan.next_delay(None) } else { None };
                    let Some(delay) = delay else {
                        let is_unresolved = failure.is_unresolved;
                        let error = self.at(request, failure.into_error(request.during));
                        let hint = self.bucket.target().name_hint().filter(|_| is_unresolved);
                        return Err(S3Failure::Failed(match hint {
                            Some(hint) => error.hint(hint),
                            None => error,
                        }));
                    };
                    tokio::time::sleep(delay).await;
                    continue;
                }
                Err(AttemptFailure::Refused(refusal)) => refusal,
            };
            match refusal.remedy() {
                RefusalRemedy::Repeat { .. } => self.bucket.http.outage.answered(),
                _ => self.bucket.http.outage.succeeded(),
            }
            let may_be_done = plan.may_be_done();
            if !refusal.is_certain() {
                plan.note_uncertain();
            }
            let repeats = match (refusal.remedy(), &keys) {
                (RefusalRemedy::Repeat { .. }, _) => true,
                (RefusalRemedy::RepeatOnce, _) => std::mem::take(&mut may_be_damaged),
                (RefusalRemedy::RenewKeys, Some(keys)) if std::mem::take(&mut may_renew) => {
                    let renewed = self.bucket.credentials.renew(keys).await;
                    renewed.map_err(|error| self.without_keys(error))?;
                    continue;
                }
                (RefusalRemedy::MoveTo(region), _) if std::mem::take(&mut may_move) => {
                    match self.bucket.target().in_region(&self.bucket.name, &region) {
                        Some(target) => {
                            self.bucket.set_target(target);
                            continue;
                        }
                        None => false,
                    }
                }
                _ => false,
            };
            let delay = if repeats { plan.next_delay(refusal.retry_after) } else { None };
            let Some(delay) = delay else { return Err(S3Failure::Refused { refusal, may_be_done }) };
            tokio::time::sleep(delay).await;
        }
    }

    async fn attempt<B: AnswerUse>(
        &self,
        request: &S3Request<'_>,
        keys: Option<&Arc<SigningKeys>>,
        is_retry: bool,
    ) -> Result<ApiAnswer<B>, AttemptFailure> {
        let target = self.bucket.target();
        let path = match request.key {
            Some(key) => format!("{}/{}", target.path, encode_key(key)),
            None if target.path.is_empty() => "/".to_owned(),
            None => target.path.clone(),
        };
        let query = query_text(&request.query);
        let mut headers = request.headers.clone();
        if self.bucket.pays_requests {
            headers.insert(REQUESTER_PAYS, HeaderValue::from_static("requester"));
        }
        if let Some(keys) = keys {
            let (method, host, region) = (&request.method, &target.host, &target.region);
            let parts = SignedParts { method, host, path: &path, query: &query, region };
            self.signer.sign(keys, parts, &mut headers, SystemTime::now());
        }
        let mark = if query.is_empty() { "" } else { "?" };
        let answer = self.http.send(HttpRequest {
            kind: request.kind,
            method: request.method.clone(),
            url: format!("{}{path}{mark}{query}", target.origin),
            headers,
            content: &request.content,
            is_retry,
        });
        let mut answer = answer.await.map_err(AttemptFailure::NoAnswer)?;
        if !(200..300).contains(&answer.status) {
            return Err(refused(answer).await);
        }
        self.bucket.set_known();
        let (status, length) = (answer.status, answer.length());
        let headers = std::mem::take(&mut answer.headers);
        let body = B::of(answer).await?;
        Ok(ApiAnswer { status, headers, length, body })
    }

    /// Returns the error for a failure.
    pub(crate) fn error(&self, request: &S3Request<'_>, failure: S3Failure) -> Error {
        let refusal = match failure {
            S3Failure::Failed(error) => return error,
            S3Failure::Refused { refusal, .. } => refusal,
        };
        repeated(refusal.into_error(RefusedRequest {
            during: request.during,
            location: self.bucket.location_of(request.key.unwrap_or_default()),
            bucket: &self.bucket.name,
            region: &self.bucket.target().region,
            is_signed: self.bucket.credentials.are_used(),
        }))
    }

    /// Returns an error of this kind for an object.
    pub(crate) fn error_of(&self, kind: ErrorKind, during: &'static str, key: &str, cause: &str) -> Error {
        let error = repeated(Error::new(kind, during, cause)).at(self.bucket.location_of(key));
        if kind == ErrorKind::Protocol { error.hint(NOT_A_STORE) } else { error }
    }

    fn without_keys(&self, error: Error) -> S3Failure {
        S3Failure::Failed(error.at(self.bucket.location_of("")))
    }

    fn at(&self, request: &S3Request<'_>, error: Error) -> Error {
        repeated(error).at(self.bucket.location_of(request.key.unwrap_or_default()))
    }
}

/// Reads the answer of an error.
async fn refused(answer: HttpAnswer<'_>) -> AttemptFailure {
    let (status, retry_after) = (answer.status, answer.retry_after());
    let region = answer.header(REGION_HEADER).map(str::to_owned);
    let permit = answer.permit;
    // An answer that cannot be read is judged by its status.
    let body = answer.body.read_all(REFUSAL_BYTES_MAX).await.unwrap_or_default();
    let mut refusal = S3Refusal::new(status, &body);
    refusal.retry_after = retry_after;
    refusal.region = refusal.region.or(region);
    if refusal.remedy() == (RefusalRemedy::Repeat { with_fewer: true }) {
        permit.refused(retry_after);
    }
    AttemptFailure::Refused(refusal)
}

/// Refuses keys that would mean another one on their way through a URL, or in a server that keeps files.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check_key(key: &str, during: &'static str) -> Result<()> {
    let path = key.strip_suffix('/').unwrap_or(key);
    let cause = if path.is_empty() {
        "a key without a name"
    } else if path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        "a key with an empty name, . or .. in it is not a path"
    } else if key.len() > LIMITS.key_bytes_max {
        "the key is longer than 1024 bytes"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Unsupported, during, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_would_mean_another_one_are_refused() {
        for key in ["a", "a/b", "a/", "a b", "...", "a/.b", "%2e%2e/a", &"k".repeat(1024)] {
            assert!(check_key(key, "reading").is_ok(), "{key}");
        }
        for key in ["", "/", "/a", "a//b", "a//", ".", "..", "a/../b", "a/.", "./a", &"k".repeat(1025)] {
            assert_eq!(check_key(key, "reading").unwrap_err().kind, ErrorKind::Unsupported, "{key}");
        }
    }

    #[test]
    fn queries_are_sorted() {
        let request = S3Request::new(RequestKind::List, Method::GET, "listing")
            .query("prefix", "a/b")
            .query("list-type", "2")
            .query("uploads", "");
        assert_eq!(query_text(&request.query), "list-type=2&prefix=a%2Fb&uploads=");
    }

    #[test]
    fn values_that_would_end_a_header_are_refused() {
        let name = HeaderName::from_static("x-amz-meta-a");
        for value in ["a\r\nb: c", "\u{e9}", "a\0", "\t"] {
            let request = S3Request::new(RequestKind::Put, Method::PUT, "writing");
            assert_eq!(
                request.header(name.clone(), value).err().map(|error| error.kind),
                Some(ErrorKind::Unsupported)
            );
        }
    }
}
