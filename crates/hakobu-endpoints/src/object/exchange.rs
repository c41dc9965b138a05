//! The parts of a request and of its answer that are alike for all providers.

use bytes::Bytes;
use hakobu_core::{Error, ErrorKind, Result};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use super::http::{AnswerBody, HttpAnswer, HttpFailure};

/// An answer of a store that is no error.
pub(crate) struct ApiAnswer<B = Bytes> {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The length that the head promises.
    pub(crate) length: Option<u64>,
    pub(crate) body: B,
}

impl<B> ApiAnswer<B> {
    /// Returns the value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The final outcome of a request that did not succeed.
#[derive(Debug)]
pub(crate) enum StoreFailure<R> {
    /// The store said no.
    Refused {
        refusal: R,
        /// True if an earlier attempt may have done what this one was refused for.
        may_be_done: bool,
    },
    /// Anything else.
    Failed(Error),
}

/// The use that is made of a body. One that is read as a whole has at most `bytes_max`.
pub(crate) trait BodyUse: Sized {
    async fn of(answer: HttpAnswer<'_>, bytes_max: usize) -> Result<Self, HttpFailure>;
}

impl BodyUse for Bytes {
    async fn of(answer: HttpAnswer<'_>, bytes_max: usize) -> Result<Self, HttpFailure> {
        answer.body.read_all(bytes_max).await
    }
}

impl BodyUse for AnswerBody {
    async fn of(answer: HttpAnswer<'_>, _: usize) -> Result<Self, HttpFailure> {
        Ok(answer.body)
    }
}

/// Returns the value of a header of a request about the object `key`.
///
/// # Errors
/// `Unsupported` if it has other characters than those of ASCII that can be printed.
pub(crate) fn header_value(
    name: &HeaderName,
    value: &str,
    during: &'static str,
    key: Option<&str>,
) -> Result<HeaderValue> {
    let is_text = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    HeaderValue::from_str(value).ok().filter(|_| is_text).ok_or_else(|| {
        let cause = format!("{name} cannot have the value {}", value.escape_debug());
        Error::new(ErrorKind::Unsupported, during, cause).at(key.unwrap_or_default())
    })
}
