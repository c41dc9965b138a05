//! Objects in parts. Google's servers take them as S3 does ([`multipart`](super::multipart)); at servers that do not, parts
//! are objects of their own until they are put together ([`compose`](super::compose)).

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use hakobu_core::{ErrorKind, Result};

use super::request::GcsLane;
use super::resource::joined_crc32c;
use crate::object::api::{
    CompleteUpload, CopyPart, ObjectProperties, PartTag, PutCondition, PutPart, StoredObject,
    UnfinishedUpload, UploadId,
};

const COPYING: &str = "copying a part inside the store";
pub(super) const BEGINNING: &str = "beginning the upload of";
pub(super) const SENDING: &str = "sending a part of";
pub(super) const COMPLETING: &str = "completing the upload of";
pub(super) const ABORTING: &str = "aborting the upload of";
pub(super) const GONE: &str = "the store does not know the upload any more";

impl GcsLane {
    pub(super) async fn begin_upload(&self, key: &str, properties: &ObjectProperties) -> Result<UploadId> {
        self.check_free(BEGINNING, key)?;
        if !self.bucket.lacks_multipart.load(Ordering::Relaxed) {
            if let Some(upload) = self.begin_multipart(key, properties).await? {
                return Ok(upload);
            }
            self.bucket.lacks_multipart.store(true, Ordering::Relaxed);
        }
        self.begin_temporary(key, properties).await
    }

    pub(super) async fn put_part(&self, part: PutPart<'_>) -> Result<PartTag> {
        match Self::temporary_id(part.upload) {
            Some(_) => self.put_temporary(part).await,
            None => self.put_multipart(part).await,
        }
    }

    pub(super) async fn list_parts(&self, key: &str, upload: &UploadId) -> Result<Option<Vec<PartTag>>> {
        match Self::temporary_id(upload) {
            Some(id) => self.list_temporary(id).await,
            None => self.list_multipart(key, upload).await,
        }
    }

    pub(super) async fn complete_upload(&self, upload: CompleteUpload<'_>) -> Result<StoredObject> {
        let sum = self.whole_sum(upload.upload, upload.parts);
        let stored = match Self::temporary_id(upload.upload) {
            Some(id) => self.compose(id, upload, sum).await?,
            None => self.complete_multipart(upload, sum).await?,
        };
        self.forget_sums(upload.upload);
        Ok(stored)
    }

    pub(super) async fn abort_upload(&self, key: &str, upload: &UploadId) -> Result<()> {
        self.forget_sums(upload);
        match Self::temporary_id(upload) {
            Some(id) => self.remove_temporary(id).await,
            None => self.abort_multipart(key, upload).await,
        }
    }

    pub(super) async fn list_uploads(&self, prefix: &str) -> Result<Vec<UnfinishedUpload>> {
        let mut uploads = self.temporary_uploads(prefix).await?;
        match self.multipart_uploads(prefix).await {
            Ok(more) => uploads.extend(more),
            // A server without them has none.
            Err(_) if !self.bucket.target.is_google => {}
            Err(error) => return Err(error),
        }
        Ok(uploads)
    }

    pub(super) async fn copy_part(&self, part: CopyPart<'_>) -> Result<PartTag> {
        let cause = "the store copies objects as a whole";
        Err(self.error_of(ErrorKind::Unsupported, COPYING, part.key, cause))
    }

    /// Notes the checksum of a part that was sent.
    pub(super) fn note_sum(&self, upload: &UploadId, number: u32, sum: (u32, u64)) {
        let mut sums = self.bucket.part_sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.insert((upload.0.clone(), number), sum);
    }

    /// Returns the CRC-32C of the whole; `None` if another process has sent some of the parts.
    fn whole_sum(&self, upload: &UploadId, parts: &[PartTag]) -> Option<u32> {
        let sums = self.bucket.part_sums.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = parts.iter().map(|part| sums.get(&(upload.0.clone(), part.number)).copied());
        sums.collect::<Option<Vec<_>>>()?
            .into_iter()
            .reduce(|(sum, size), (next, next_bytes)| {
                (joined_crc32c(sum, next, next_bytes), size + next_bytes)
            })
            .map(|(sum, _)| sum)
    }

    fn forget_sums(&self, upload: &UploadId) {
        let mut sums = self.bucket.part_sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.retain(|(id, _), _| *id != upload.0);
    }

    /// Checks a condition before a request that knows none. What changes in between goes unnoticed.
    pub(super) async fn check_condition(&self, key: &str, condition: &PutCondition) -> Result<()> {
        let holds = match condition {
            PutCondition::None => true,
            PutCondition::IfAbsent => self.head(key).await?.is_none(),
            PutCondition::IfVersion(version) => {
                self.head(key).await?.is_some_and(|head| head.version == *version)
            }
        };
        let cause = "something else was stored with this key in the meantime";
        match holds {
            true => Ok(()),
            false => {
                Err(self.error_of(ErrorKind::Conflict, COMPLETING, key, cause).hint("run the command again"))
            }
        }
    }
}
