//! Deletions: Delete Blob.

use futures_util::StreamExt;
use futures_util::stream;
use hakobu_core::Result;
use http::Method;
use http::header::IF_MATCH;

use super::get::is_folder;
use super::request::{AzureFailure, AzureLane, AzureRequest, check_key};
use crate::object::counts::RequestKind;

const DELETING: &str = "deleting the object";
/// The deletions in flight of one call. A batch would cost as much.
const DELETIONS_AT_ONCE: usize = 32;

impl AzureLane {
    pub(super) async fn delete(&self, keys: &[String]) -> Result<Vec<Result<()>>> {
        let mut outcomes: Vec<Option<Result<()>>> = keys.iter().map(|_| None).collect();
        let mut pending = stream::iter(0..keys.len())
            .map(|index| async move { (index, self.delete_one(&keys[index]).await) })
            .buffer_unordered(DELETIONS_AT_ONCE);
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
        check_key(key, DELETING).map_err(|error| error.at(self.container.location_of(key)))?;
        let mut request = AzureRequest::new(RequestKind::Delete, Method::DELETE, DELETING).key(key);
        if key.ends_with('/') {
            // A file may have the same name, and stays.
            match self.blob_head(key, DELETING).await? {
                Some((head, _)) if is_folder(&head.metadata) => {
                    if let Some(etag) = &head.version.etag {
                        request = request.header(IF_MATCH, etag)?;
                    }
                }
                _ => return Ok(()),
            }
        }
        match self.perform(&request).await {
            Ok(_) => Ok(()),
            Err(AzureFailure::Refused { refusal, .. }) if refusal.is_missing_blob() => Ok(()),
            Err(failure) => Err(self.put_failed(&request, failure)),
        }
    }
}
