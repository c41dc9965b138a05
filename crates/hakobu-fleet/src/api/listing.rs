//! Lists in pages, and the parts of requests: with errors in the form of all others.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::{ApiError, ApiResult};

/// The number of items of a page, unless another is asked for.
const PAGE_ITEMS: usize = 100;
/// The maximum number of items of a page.
pub const PAGE_ITEMS_MAX: usize = 1000;

/// A page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ListPage<T> {
    /// The items.
    pub items: Vec<T>,
    /// The value of `after` with which the list goes on; none at the end. A page may have few items, or none, and the list go on.
    pub next: Option<String>,
    /// The number of items of the whole list that fit, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl<T> ListPage<T> {
    /// Returns a list that has one page.
    pub fn whole(items: Vec<T>) -> Self {
        let total = Some(items.len() as u64);
        Self { items, next: None, total }
    }
}

/// Returns the number of items that a page may have.
pub fn page_items(limit: Option<u32>) -> usize {
    limit.map_or(PAGE_ITEMS, |limit| (limit as usize).clamp(1, PAGE_ITEMS_MAX))
}

/// Reads the number behind which a list goes on.
pub fn position<T: TryFrom<u64>>(after: Option<&str>) -> ApiResult<Option<T>> {
    let Some(text) = after.filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.parse().ok().and_then(|number: u64| T::try_from(number).ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => {
            Err(ApiError::usage("after: this is no place in the list: take the value of next").field("after"))
        }
    }
}

/// The JSON of a request.
pub struct JsonBody<T>(pub T);

/// The query of a request.
pub struct QueryParts<T>(pub T);

/// The variable parts of a path.
pub struct PathParts<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(refused_json(&rejection)),
        }
    }
}

fn refused_json(rejection: &JsonRejection) -> ApiError {
    match rejection.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "usage",
            "the body must be JSON, with the header Content-Type: application/json",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "usage", "the body is too large")
        }
        _ => ApiError::usage(format!("reading the body: {}", rejection.body_text())),
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParts<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        match query {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(ApiError::usage(format!("reading the query: {}", rejection.body_text()))),
        }
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParts<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path: Result<Path<T>, PathRejection> = Path::from_request_parts(parts, state).await;
        match path {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(ApiError::usage(format!("reading the path: {}", rejection.body_text()))),
        }
    }
}
