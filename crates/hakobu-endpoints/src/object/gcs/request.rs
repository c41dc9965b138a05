//! One request to Google Cloud Storage: sent, judged, and sent again where that can help.

use std::sync::Arc;

use bytes::Bytes;
use hakobu_core::{Error, ErrorKind, Result};
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, Method};

use super::bucket::GcsBucket;
use super::refusal::{GcsRefusal, GcsRemedy, RefusedGcsRequest};
use crate::object::counts::RequestKind;
use crate::object::credentials::gcs_tokens::AccessToken;
use crate::object::exchange::{ApiAnswer, BodyUse, StoreFailure, header_value};
use crate::object::http::{AnswerBody, HttpAnswer, HttpClient, HttpFailure, HttpRequest, NOT_A_STORE};
use crate::object::retry::repeated;
use crate::object::s3::check_key;
use crate::object::s3::spelling::encode_value;

/// The largest answer that is read as a whole: a page of 1 000 objects, each with a key and metadata of full size.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// The largest answer of an error.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
const USER_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

/// The requests of a lane.
pub(crate) struct GcsLane {
    pub(crate) bucket: Arc<GcsBucket>,
    pub(crate) http: HttpClient,
}

/// A request, before it is authorized.
pub(crate) struct GcsRequest<'a> {
    kind: RequestKind,
    method: Method,
    /// The step in words, for messages.
    during: &'static str,
    url: String,
    /// The key that it is about.
    pub(super) key: Option<&'a str>,
    query: Vec<(&'static str, String)>,
    headers: HeaderMap,
    content: Vec<Bytes>,
}

pub(crate) type GcsFailure = StoreFailure<GcsRefusal>;

impl<'a> GcsRequest<'a> {
    pub(crate) fn new(kind: RequestKind, method: Method, during: &'static str, url: String) -> Self {
        let (query, headers) = (Vec::new(), HeaderMap::new());
        Self { kind, method, during, url, key: None, query, headers, content: Vec::new() }
    }

    /// Says which object it is about. Keys that no request can carry are refused.
    pub(crate) fn key(mut self, key: &'a str) -> Self {
        self.key = Some(key);
        self
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
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

    fn whole_url(&self) -> String {
        let mut url = self.url.clone();
        for (index, (name, value)) in self.query.iter().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(name);
            if !value.is_empty() {
                url.extend(["=", &encode_value(value)]);
            }
        }
        url
    }
}

enum GcsAttemptFailure {
    NoAnswer(HttpFailure),
    Refused(GcsRefusal),
}

impl GcsLane {
    /// Performs a request and reads its answer.
    pub(crate) async fn perform(&self, request: &GcsRequest<'_>) -> Result<ApiAnswer, GcsFailure> {
        self.repeat(request).await
    }

    /// Performs a request and returns when its answer begins.
    pub(crate) async fn open(&self, request: &GcsRequest<'_>) -> Result<ApiAnswer<AnswerBody>, GcsFailure> {
        self.repeat(request).await
    }

    async fn repeat<B: BodyUse>(&self, request: &GcsRequest<'_>) -> Result<ApiAnswer<B>, GcsFailure> {
        if let Some(key) = request.key {
            check_key(key, request.during).map_err(|error| GcsFailure::Failed(self.at(request, error)))?;
        }
        let mut plan = self.bucket.http.retry_plan();
        let (mut may_renew, mut may_be_damaged) = (true, true);
        loop {
            let token = self.bucket.credentials.token().await.map_err(|error| self.without_token(error))?;
            let refusal = match self.attempt::<B>(request, token.as_ref(), plan.is_retry()).await {
                Ok(answer) => {
                    self.bucket.http.outage.succeeded();
                    return Ok(answer);
                }
                Err(GcsAttemptFailure::NoAnswer(failure)) => {
                    if failure.was_sent {
                        plan.note_uncertain();
                    }
                    let delay = if failure.may_repeat { plan.next_delay(None) } else { None };
                    let Some(delay) = delay else {
                        return Err(GcsFailure::Failed(self.at(request, failure.into_error(request.during))));
                    };
                    tokio::time::sleep(delay).await;
                    continue;
                }
                Err(GcsAttemptFailure::Refused(refusal)) => refusal,
            };
            match refusal.remedy() {
                GcsRemedy::Repeat { .. } => self.bucket.http.outage.answered(),
                _ => self.bucket.http.outage.succeeded(),
            }
            let may_be_done = plan.may_be_done();
            if !refusal.is_certain() {
                plan.note_uncertain();
            }
            let repeats = match (refusal.remedy(), &token) {
                (GcsRemedy::Repeat { .. }, _) => true,
                (GcsRemedy::RepeatOnce, _) => std::mem::take(&mut may_be_damaged),
                (GcsRemedy::RenewToken, Some(token)) if std::mem::take(&mut may_renew) => {
                    let renewed = self.bucket.credentials.renew(token).await;
                    renewed.map_err(|error| self.without_token(error))?;
                    continue;
                }
                _ => false,
            };
            let delay = if repeats { plan.next_delay(refusal.retry_after) } else { None };
            let Some(delay) = delay else { return Err(GcsFailure::Refused { refusal, may_be_done }) };
            tokio::time::sleep(delay).await;
        }
    }

    async fn attempt<B: BodyUse>(
        &self,
        request: &GcsRequest<'_>,
        token: Option<&Arc<AccessToken>>,
        is_retry: bool,
    ) -> Result<ApiAnswer<B>, GcsAttemptFailure> {
        let mut headers = request.headers.clone();
        if let Some(project) = &self.bucket.paying_project {
            headers.insert(USER_PROJECT, project.clone());
        }
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, token.authorization.clone());
        }
        let answer = self.http.send(HttpRequest {
            kind: request.kind,
            method: request.method.clone(),
            url: request.whole_url(),
            headers,
            content: &request.content,
            is_retry,
        });
        let mut answer = answer.await.map_err(GcsAttemptFailure::NoAnswer)?;
        if !(200..300).contains(&answer.status) {
            return Err(refused(answer).await);
        }
        self.bucket.set_known();
        let (status, length) = (answer.status, answer.length());
        let headers = std::mem::take(&mut answer.headers);
        let body = B::of(answer, ANSWER_BYTES_MAX).await.map_err(GcsAttemptFailure::NoAnswer)?;
        Ok(ApiAnswer { status, headers, length, body })
    }

    /// Returns the error for a failure.
    pub(crate) fn error(&self, request: &GcsRequest<'_>, failure: GcsFailure) -> Error {
        match failure {
            GcsFailure::Failed(error) => error,
            GcsFailure::Refused { refusal, .. } => {
                self.refusal(request.during, request.key.unwrap_or_default(), refusal)
            }
        }
    }

    fn refusal(&self, during: &'static str, key: &str, refusal: GcsRefusal) -> Error {
        repeated(refusal.into_error(RefusedGcsRequest {
            during,
            location: self.bucket.location_of(key),
            bucket: &self.bucket.name,
            has_credentials: self.bucket.credentials.are_used(),
            has_project: self.bucket.paying_project.is_some(),
        }))
    }

    /// Returns an error of this kind for an object.
    pub(crate) fn error_of(&self, kind: ErrorKind, during: &'static str, key: &str, cause: &str) -> Error {
        let error = repeated(Error::new(kind, during, cause)).at(self.bucket.location_of(key));
        if kind == ErrorKind::Protocol { error.hint(NOT_A_STORE) } else { error }
    }

    fn without_token(&self, error: Error) -> GcsFailure {
        GcsFailure::Failed(error.at(self.bucket.location_of("")))
    }

    fn at(&self, request: &GcsRequest<'_>, error: Error) -> Error {
        repeated(error).at(self.bucket.location_of(request.key.unwrap_or_default()))
    }
}

/// Reads the answer of an error.
async fn refused(answer: HttpAnswer<'_>) -> GcsAttemptFailure {
    let (status, retry_after) = (answer.status, answer.retry_after());
    let permit = answer.permit;
    // An answer that cannot be read is judged by its status.
    let body = answer.body.read_all(REFUSAL_BYTES_MAX).await.unwrap_or_default();
    let refusal = GcsRefusal { retry_after, ..GcsRefusal::new(status, &body) };
    if refusal.remedy() == (GcsRemedy::Repeat { with_fewer: true }) {
        permit.refused(retry_after);
    }
    GcsAttemptFailure::Refused(refusal)
}
