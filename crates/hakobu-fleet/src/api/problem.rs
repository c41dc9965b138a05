//! Errors as the interface answers them: one form for all.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hakobu_core::error::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::change::LedgerRefusal;
use crate::failure::name_of_kind;
use crate::setting_error::SettingError;

/// An error for people and programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The kind, by which programs decide: `usage`, `not_found`, `unauthenticated`, `forbidden`, `other_revision`, ...
    pub kind: String,
    /// The operation, the object and the cause, in words.
    pub message: String,
    /// The remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The field of the request that is at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The column within the field, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

/// A problem with its status. It is kept apart, because results are moved often.
#[derive(Debug)]
pub struct ApiError(Box<ApiErrorParts>);

#[derive(Debug)]
struct ApiErrorParts {
    status: StatusCode,
    problem: Problem,
    retry_after_s: Option<u64>,
}

/// The result of a call.
pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// Creates an error.
    pub fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        let problem = Problem { kind: kind.to_owned(), message: message.into(), ..Problem::default() };
        Self(Box::new(ApiErrorParts { status, problem, retry_after_s: None }))
    }

    /// Returns the error for something that does not exist, and of which there is a list.
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
            .hint(format!("see the list of {what}s for those that exist"))
    }

    /// Returns the error for a request that is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "usage", message)
    }

    /// Adds a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.problem.hint = Some(hint.into());
        self
    }

    /// Names the field at fault.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.0.problem.field = Some(field.into());
        self
    }

    /// Sets the time after which the call may be repeated.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Returns a setting's error within a field.
    pub fn setting(field: &str, error: SettingError) -> Self {
        let error = error.within(field);
        let mut answer = Self::usage(error.to_string()).field(error.field);
        answer.0.problem.column = error.column.map(|column| column as u64);
        answer
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let ApiErrorParts { status, problem, retry_after_s } = *self.0;
        let mut response = (status, Json(problem)).into_response();
        if let Some(seconds) = retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        Self {
            kind: name_of_kind(error.kind).to_owned(),
            // The hint stands by itself.
            message: Error { hint: None, ..error.clone() }.to_string(),
            hint: error.hint.as_deref().map(str::to_owned),
            ..Self::default()
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match error.kind {
            ErrorKind::Usage | ErrorKind::Unsupported | ErrorKind::Requirement => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict | ErrorKind::Locked | ErrorKind::Refused => StatusCode::CONFLICT,
            ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            ErrorKind::TimedOut | ErrorKind::ConnectionLost => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let retry_after_s = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(2);
        Self(Box::new(ApiErrorParts { status, problem: Problem::from(&error), retry_after_s }))
    }
}

impl From<LedgerRefusal> for ApiError {
    fn from(refusal: LedgerRefusal) -> Self {
        Self::refused(refusal, None)
    }
}

impl ApiError {
    /// Returns the error for a refusal of the ledger. `relationship`: the name of the relationship whose run is the cause.
    pub fn refused(refusal: LedgerRefusal, relationship: Option<&str>) -> Self {
        const UNTIL_ENDED: &str = "wait until it has ended, or cancel it";
        let (words, hint) = match refusal {
            LedgerRefusal::UnknownRun => return Self::not_found("run"),
            LedgerRefusal::UnknownRelationship => return Self::not_found("relationship"),
            LedgerRefusal::UnknownBroker => return Self::not_found("broker"),
            LedgerRefusal::UnknownToken => return Self::not_found("token"),
            LedgerRefusal::RunEnded => ("the run has ended".to_owned(), None),
            LedgerRefusal::RunOpen(run) => {
                (format!("run {run} of this relationship is under way"), Some(UNTIL_ENDED))
            }
            LedgerRefusal::TargetInUse(run) => {
                let words = match relationship {
                    Some(name) => format!(
                        "run {run} of the relationship \"{name}\" copies to this target, or to a place within or around it"
                    ),
                    None => format!("run {run} copies to this target, or to a place within or around it"),
                };
                (words, Some(UNTIL_ENDED))
            }
            LedgerRefusal::OtherRevision => (
                "somebody else has changed the relationship meanwhile".to_owned(),
                Some("read it again, and make the change in what it is now"),
            ),
            LedgerRefusal::NameTaken => {
                ("another relationship has this name".to_owned(), Some("choose another name"))
            }
            LedgerRefusal::TokenTaken => ("the token is there already".to_owned(), None),
            _ => ("the state of the run does not allow this now".to_owned(), None),
        };
        let error = Self::new(StatusCode::CONFLICT, refusal.name(), words);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}
