//! Deletions. The store takes a request for each object; requests that carry many of them save no work and no money.

use futures_util::StreamExt;
use futures_util::stream;
use hakobu_core::Result;
use http::Method;

use super::request::{GcsFailure, GcsLane, GcsRequest};
use crate::object::counts::RequestKind;

const DELETING: &str = "deleting the object";
/// The deletions of one call that are in flight.
const AT_ONCE: usize = 64;

impl GcsLane {
    pub(super) async fn delete(&self, keys: &[String]) -> Result<Vec<Result<()>>> {
        let mut outcomes: Vec<Option<Result<()>>> = keys.iter().map(|_| None).collect();
        let mut pending = stream::iter(0..keys.len())
            .map(|index| async move { (index, self.delete_one(&keys[index]).await) })
            .buffer_unordered(AT_ONCE);
        while let Some((index, outcome)) = pending.next().await {
            if let Err(error) = &outcome
                && error.is_fatal()
            {
                return Err(error.clone());
            }
            outcomes[index] = Some(outcome);
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    async fn delete_one(&self, key: &str) -> Result<()> {
        let url = self.bucket.target.resource(key);
        let request = GcsRequest::new(RequestKind::Delete, Method::DELETE, DELETING, url).key(key);
        match self.perform(&request).await {
            Ok(_) => Ok(()),
            Err(failure @ GcsFailure::Failed(_)) => Err(self.error(&request, failure)),
            Err(failure) => match self.missing(&failure, DELETING).await? {
                true => Ok(()),
                false => Err(self.error(&request, failure)),
            },
        }
    }
}
