//! The body of an object that is being read. Its rest is asked for again if the connection is lost.

use bytes::Bytes;
use futures_util::StreamExt;
use hakobu_core::extent::Extent;
use hakobu_core::{Error, ErrorKind, Result};

use super::api::{BodyStream, ObjectBody, ObjectHead};
use super::http::AnswerBody;
use super::retry::RetryPlan;

/// The cause of an error for an object that is not the one that was asked for.
pub(super) const REPLACED: &str = "another object was stored with this key in the meantime";

/// An object or a range of it, whose body has begun.
pub(super) struct BegunBody {
    /// The metadata, with the size of the whole object.
    pub(super) head: ObjectHead,
    pub(super) body: AnswerBody,
    /// The range that the body has.
    pub(super) range: Extent,
}

/// A lane that reads objects.
pub(super) trait RangeReader: Send + Sync + 'static {
    /// Begins the attempts at a request.
    fn retry_plan(&self) -> RetryPlan;

    /// Returns an error of this kind for an object that is read.
    fn reading_error(&self, kind: ErrorKind, key: &str, cause: &str) -> Error;

    /// Asks for the rest of an object.
    fn read_rest(
        &self,
        key: &str,
        rest: Extent,
        head: &ObjectHead,
    ) -> impl Future<Output = Result<BegunBody>> + Send;
}

/// Returns the body of an object, which `lane` asks for again where it was interrupted.
pub(super) fn resumed<L: RangeReader>(lane: L, key: &str, begun: BegunBody) -> ObjectBody {
    let BegunBody { head, body, range: left } = begun;
    let plan = lane.retry_plan();
    let state =
        ResumedBody { lane, key: key.to_owned(), head: head.clone(), body, left, plan, is_over: false };
    let chunks: BodyStream = Box::pin(futures_util::stream::unfold(state, |mut state| async {
        let next = state.next().await?;
        Some((next, state))
    }));
    ObjectBody { head, chunks }
}

struct ResumedBody<L> {
    lane: L,
    key: String,
    head: ObjectHead,
    body: AnswerBody,
    /// The bytes that are still to come.
    left: Extent,
    plan: RetryPlan,
    is_over: bool,
}

impl<L: RangeReader> ResumedBody<L> {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        while !self.is_over {
            let cause = match self.body.next().await {
                Some(Ok(chunk)) if chunk.len() as u64 > self.left.length => {
                    return self.fail(ErrorKind::Protocol, "the store sends more than it announced");
                }
                Some(Ok(chunk)) => {
                    let length = chunk.len() as u64;
                    self.left =
                        Extent { offset: self.left.offset + length, length: self.left.length - length };
                    self.plan = self.lane.retry_plan();
                    return Some(Ok(chunk));
                }
                None if self.left.length == 0 => {
                    self.is_over = true;
                    return None;
                }
                None => "the store ended the content early".to_owned(),
                Some(Err(failure)) if !failure.may_repeat => return self.fail(failure.kind, &failure.cause),
                Some(Err(failure)) => failure.cause,
            };
            if self.left.length == 0 {
                // All bytes are here; how the connection ended does not matter.
                self.is_over = true;
                return None;
            }
            let Some(delay) = self.plan.next_delay(None) else {
                return self.fail(ErrorKind::ConnectionLost, &cause);
            };
            tokio::time::sleep(delay).await;
            match self.lane.read_rest(&self.key, self.left, &self.head).await {
                Ok(rest)
                    if rest.head.uploaded == self.head.uploaded
                        && rest.head.size_bytes == self.head.size_bytes =>
                {
                    self.body = rest.body;
                }
                Ok(_) => return self.fail(ErrorKind::SourceChanged, REPLACED),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    fn fail(&mut self, kind: ErrorKind, cause: &str) -> Option<Result<Bytes>> {
        self.is_over = true;
        Some(Err(self.lane.reading_error(kind, &self.key, cause)))
    }
}
