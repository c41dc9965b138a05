//! One request to Azure: signed, sent, judged, and sent again where that can help.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use hakobu_core::{Error, ErrorKind, Result};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, Method};

use super::container::AzureContainer;
use super::refusal::{AuthKind, AzureRefusal, AzureRemedy, RefusedByAzure};
use crate::object::counts::RequestKind;
use crate::object::credentials::azure::AzureProof;
use crate::object::credentials::azure::shared_key::SignedRequest;
use crate::object::exchange::{ApiAnswer, BodyUse, StoreFailure, header_value};
use crate::object::http::{AnswerBody, HttpAnswer, HttpClient, HttpFailure, HttpRequest, NOT_A_STORE};
use crate::object::retry::repeated;
use crate::object::s3::spelling::{encode_key, query_text};

/// The largest answer that is read as a whole: a page of 5 000 blobs with all the metadata that each may have.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The largest answer of an error.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
const ERROR_CODE: &str = "x-ms-error-code";
const REQUEST_ID: &str = "x-ms-request-id";
const VERSION: HeaderName = HeaderName::from_static("x-ms-version");
/// The version of the interface.
const API_VERSION: HeaderValue = HeaderValue::from_static("2023-11-03");

/// The requests of a lane.
pub(crate) struct AzureLane {
    pub(crate) container: Arc<AzureContainer>,
    pub(crate) http: HttpClient,
}

/// A request, before it is signed.
pub(crate) struct AzureRequest<'a> {
    kind: RequestKind,
    method: Method,
    /// The step in words, for messages.
    during: &'static str,
    key: Option<&'a str>,
    /// Names and values in the order of the names.
    query: Vec<(&'static str, String)>,
    headers: HeaderMap,
    content: Vec<Bytes>,
}

pub(crate) type AzureFailure = StoreFailure<AzureRefusal>;

impl<'a> AzureRequest<'a> {
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

/// An attempt that failed.
enum AzureAttempt {
    NoAnswer(HttpFailure),
    Refused(AzureRefusal),
}

impl AzureLane {
    /// Performs a request and reads its answer.
    pub(crate) async fn perform(&self, request: &AzureRequest<'_>) -> Result<ApiAnswer, AzureFailure> {
        self.repeat(request).await
    }

    /// Performs a request and returns when its answer begins.
    pub(crate) async fn open(
        &self,
        request: &AzureRequest<'_>,
    ) -> Result<ApiAnswer<AnswerBody>, AzureFailure> {
        self.repeat(request).await
    }

    async fn repeat<B: BodyUse>(&self, request: &AzureRequest<'_>) -> Result<ApiAnswer<B>, AzureFailure> {
        if let Some(key) = request.key {
            check_key(key, request.during).map_err(|error| AzureFailure::Failed(self.at(request, error)))?;
        }
        let mut plan = self.container.http.retry_plan();
        let (mut may_renew, mut may_be_damaged) = (true, true);
        loop {
            let proof =
                self.container.credentials.proof().await.map_err(|error| self.without_proof(error))?;
            let refusal = match self.attempt::<B>(request, &proof, plan.is_retry()).await {
                Ok(answer) => {
                    self.container.http.outage.succeeded();
                    return Ok(answer);
                }
                Err(AzureAttempt::NoAnswer(failure)) => {
                    if failure.was_sent {
                        plan.note_uncertain();
                    }
                    let delay = if failure.may_repeat { plan.next_delay(None) } else { None };
                    let Some(delay) = delay else {
                        let error = failure.into_error(request.during);
                        return Err(AzureFailure::Failed(self.at(request, error)));
                    };
                    tokio::time::sleep(delay).await;
                    continue;
                }
                Err(AzureAttempt::Refused(refusal)) => refusal,
            };
            match refusal.remedy() {
                AzureRemedy::Repeat { .. } => self.container.http.outage.answered(),
                _ => self.container.http.outage.succeeded(),
            }
            let may_be_done = plan.may_be_done();
            if !refusal.is_certain() {
                plan.note_uncertain();
            }
            let repeats = match (refusal.remedy(), &proof) {
                (AzureRemedy::Repeat { .. }, _) => true,
                (AzureRemedy::RepeatOnce, _) => std::mem::take(&mut may_be_damaged),
                (AzureRemedy::RenewToken, AzureProof::Token(token)) if std::mem::take(&mut may_renew) => {
                    let renewed = self.container.credentials.renew(token).await;
                    renewed.map_err(|error| self.without_proof(error))?;
                    continue;
                }
                _ => false,
            };
            let delay = if repeats { plan.next_delay(refusal.retry_after) } else { None };
            let Some(delay) = delay else { return Err(AzureFailure::Refused { refusal, may_be_done }) };
            tokio::time::sleep(delay).await;
        }
    }

    async fn attempt<B: BodyUse>(
        &self,
        request: &AzureRequest<'_>,
        proof: &AzureProof,
        is_retry: bool,
    ) -> Result<ApiAnswer<B>, AzureAttempt> {
        let target = &self.container.target;
        let path = match request.key {
            Some(key) => format!("{}/{}", target.path(), encode_key(blob_name(key))),
            None => target.path(),
        };
        let mut query = query_text(&request.query);
        let mut headers = request.headers.clone();
        headers.insert(VERSION, API_VERSION);
        match proof {
            AzureProof::Anonymous => {}
            AzureProof::Key(key) => {
                let content_bytes = request.content.iter().map(|piece| piece.len() as u64).sum();
                let signed = SignedRequest {
                    method: &request.method,
                    path: &path,
                    query: &request.query,
                    content_bytes,
                };
                key.sign(signed, &mut headers, SystemTime::now());
            }
            AzureProof::Sas(sas) => {
                if !query.is_empty() {
                    query.push('&');
                }
                query.push_str(sas);
            }
            AzureProof::Token(token) => {
                if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", token.token)) {
                    value.set_sensitive(true);
                    headers.insert(AUTHORIZATION, value);
                }
            }
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
        let mut answer = answer.await.map_err(AzureAttempt::NoAnswer)?;
        if !(200..300).contains(&answer.status) {
            return Err(refused(answer).await);
        }
        let (status, length) = (answer.status, answer.length());
        let headers = std::mem::take(&mut answer.headers);
        let body = B::of(answer, ANSWER_BYTES_MAX).await.map_err(AzureAttempt::NoAnswer)?;
        Ok(ApiAnswer { status, headers, length, body })
    }

    /// Returns the error for a failure.
    pub(crate) fn error(&self, request: &AzureRequest<'_>, failure: AzureFailure) -> Error {
        let refusal = match failure {
            AzureFailure::Failed(error) => return error,
            AzureFailure::Refused { refusal, .. } => refusal,
        };
        let key = request.key.unwrap_or_default();
        repeated(refusal.into_error(&RefusedByAzure {
            during: request.during,
            location: self.container.location_of(key),
            account: &self.container.target.account,
            container: &self.container.target.container,
            blob: blob_name(key),
            auth: match self.container.credentials.known() {
                AzureProof::Anonymous => AuthKind::Anonymous,
                AzureProof::Key(_) => AuthKind::Key,
                AzureProof::Sas(_) => AuthKind::Sas,
                AzureProof::Token(_) => AuthKind::Token,
            },
        }))
    }

    /// Returns an error of this kind for an object.
    pub(crate) fn error_of(&self, kind: ErrorKind, during: &'static str, key: &str, cause: &str) -> Error {
        let error = repeated(Error::new(kind, during, cause)).at(self.container.location_of(key));
        if kind == ErrorKind::Protocol { error.hint(NOT_A_STORE) } else { error }
    }

    fn without_proof(&self, error: Error) -> AzureFailure {
        AzureFailure::Failed(error.at(self.container.location_of("")))
    }

    fn at(&self, request: &AzureRequest<'_>, error: Error) -> Error {
        repeated(error).at(self.container.location_of(request.key.unwrap_or_default()))
    }
}

/// Reads the answer of an error.
async fn refused(answer: HttpAnswer<'_>) -> AzureAttempt {
    let (status, retry_after) = (answer.status, answer.retry_after());
    let code = answer.header(ERROR_CODE).map(str::to_owned);
    let is_foreign = code.is_none() && answer.header(REQUEST_ID).is_none();
    let permit = answer.permit;
    // An answer that cannot be read is judged by its status.
    let body = answer.body.read_all(REFUSAL_BYTES_MAX).await.unwrap_or_default();
    let mut refusal = AzureRefusal::new(status, code.as_deref(), &body);
    refusal.retry_after = retry_after;
    refusal.is_foreign = is_foreign;
    if refusal.remedy() == (AzureRemedy::Repeat { with_fewer: true }) {
        permit.refused(retry_after);
    }
    AzureAttempt::Refused(refusal)
}

/// Returns the name of the blob with a key. A directory's own object has no slash at the end of its name.
pub(super) fn blob_name(key: &str) -> &str {
    key.strip_suffix('/').unwrap_or(key)
}

/// Refuses keys that would mean another one on their way through a URL, or that Azure does not take.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check_key(key: &str, during: &'static str) -> Result<()> {
    let path = blob_name(key);
    let cause = if path.is_empty() {
        "a key without a name"
    } else if path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        "a key with an empty name, . or .. in it is not a path"
    } else if key.encode_utf16().count() > 1024 {
        "the key is longer than 1024 characters"
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
        for key in ["a", "a/b", "a/", "a b", "...", "a/.b", "%2e%2e/a", &"あ".repeat(1024)] {
            assert!(check_key(key, "reading").is_ok(), "{key}");
        }
        for key in ["", "/", "/a", "a//b", "a//", ".", "..", "a/../b", "a/.", "./a", &"k".repeat(1025)] {
            assert_eq!(check_key(key, "reading").unwrap_err().kind, ErrorKind::Unsupported, "{key}");
        }
    }

    #[test]
    fn queries_are_sorted() {
        let request = AzureRequest::new(RequestKind::List, Method::GET, "listing")
            .query("restype", "container")
            .query("prefix", "a/b")
            .query("comp", "list");
        assert_eq!(query_text(&request.query), "comp=list&prefix=a%2Fb&restype=container");
    }
}
