//! Objects in one request, with their metadata.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;
use hakobu_core::{Error, ErrorKind, Result};
use http::Method;
use http::header::CONTENT_TYPE;

use super::bucket::GcsNewObjects;
use super::request::{GcsFailure, GcsLane, GcsRequest};
use super::resource::{NewResource, ObjectResource, crc32c, crc32c_text};
use crate::object::api::{
    ObjectHead, ObjectProperties, PutCondition, PutObject, StoredChecksum, StoredObject,
};
use crate::object::counts::RequestKind;

const STORING: &str = "storing the object";
const OTHER_CHECKSUM: &str = "the store has another checksum of it than was sent";

/// Returns random digits.
pub(super) fn random_digits() -> String {
    // Keyed afresh for each value by the standard library, from the system's random numbers.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

impl GcsRequest<'_> {
    /// Adds a condition on the object that is replaced.
    pub(super) fn condition(self, condition: &PutCondition) -> Self {
        match condition {
            PutCondition::None => self,
            PutCondition::IfAbsent => self.query("ifGenerationMatch", "0"),
            PutCondition::IfVersion(version) => match version.generation {
                Some(generation) => self.query("ifGenerationMatch", generation.to_string()),
                None => self,
            },
        }
    }
}

impl GcsLane {
    pub(super) async fn put(&self, object: PutObject<'_>) -> Result<StoredObject> {
        let PutObject { key, content, properties, condition, crc64: _ } = object;
        self.check_free(STORING, key)?;
        let usual = &self.bucket.new_objects;
        self.put_as(STORING, key, content, (properties, usual), condition).await.map(|(stored, _)| stored)
    }

    /// Stores an object, and returns the CRC-32C of its content as well.
    pub(super) async fn put_as(
        &self,
        during: &'static str,
        key: &str,
        content: Vec<Bytes>,
        (properties, usual): (&ObjectProperties, &GcsNewObjects),
        condition: &PutCondition,
    ) -> Result<(StoredObject, u32)> {
        let size_bytes: u64 = content.iter().map(|piece| piece.len() as u64).sum();
        let sum = crc32c(&content);
        let resource = NewResource {
            name: Some(key),
            crc32c: Some(crc32c_text(sum)),
            ..NewResource::new(key, properties, usual)
        };
        // The resource counts at Google, and the part at other servers.
        let content_type = resource.content_type.unwrap_or("application/octet-stream");
        // No content has this line.
        let boundary = random_digits();
        let head = [
            format!("--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n").into_bytes(),
            resource.json(),
            format!("\r\n--{boundary}\r\nContent-Type: {content_type}\r\n\r\n").into_bytes(),
        ];
        let mut pieces = vec![Bytes::from(head.concat())];
        pieces.extend(content);
        pieces.push(Bytes::from(format!("\r\n--{boundary}--\r\n")));
        let mut request =
            GcsRequest::new(RequestKind::Put, Method::POST, during, self.bucket.target.uploads())
                .key(key)
                .query("uploadType", "multipart")
                .condition(condition)
                .header(CONTENT_TYPE, &format!("multipart/related; boundary={boundary}"))?
                .content(pieces);
        if let Some(acl) = usual.acl {
            request = request.query("predefinedAcl", acl.json);
        }
        let stored = match self.perform(&request).await {
            Ok(answer) => self.stored(during, key, &answer.body, Some(sum))?,
            Err(failure) => {
                let is_ours = |head: &ObjectHead| {
                    head.checksum == Some(StoredChecksum::Crc32c(sum)) && head.size_bytes == size_bytes
                };
                self.own_success(&request, key, failure, is_ours).await?
            }
        };
        Ok((stored, sum))
    }

    /// Reads the answer to a request that stores an object with a known checksum.
    ///
    /// # Errors
    /// `Corrupt` if the store's checksum differs.
    pub(super) fn stored(
        &self,
        during: &'static str,
        key: &str,
        body: &[u8],
        sum: Option<u32>,
    ) -> Result<StoredObject> {
        let wrong = |_| self.error_of(ErrorKind::Protocol, during, key, "the answer is no object");
        let resource: ObjectResource = serde_json::from_slice(body).map_err(wrong)?;
        match (resource.crc32c(), sum) {
            (Some(there), Some(here)) if there != here => {
                Err(self.error_of(ErrorKind::Corrupt, during, key, OTHER_CHECKSUM))
            }
            (there, here) => {
                let is_checked = there.is_some() && here.is_some();
                Ok(StoredObject { version: resource.version(), is_checked })
            }
        }
    }

    /// Finds out if a condition failed because an earlier attempt had succeeded without its answer arriving.
    pub(super) async fn own_success(
        &self,
        request: &GcsRequest<'_>,
        key: &str,
        failure: GcsFailure,
        is_ours: impl Fn(&ObjectHead) -> bool,
    ) -> Result<StoredObject> {
        if let GcsFailure::Refused { refusal, may_be_done: true } = &failure
            && (refusal.status == 412 || refusal.is_missing_upload())
            && let Some(head) = self.head(key).await?
            && is_ours(&head)
        {
            return Ok(StoredObject { version: head.version, is_checked: true });
        }
        Err(self.put_failed(request, failure))
    }

    /// Returns the error for an object that was not stored.
    pub(super) fn put_failed(&self, request: &GcsRequest<'_>, failure: GcsFailure) -> Error {
        let status = match &failure {
            GcsFailure::Refused { refusal, .. } => refusal.status,
            GcsFailure::Failed(_) => 0,
        };
        let error = self.error(request, failure);
        match status {
            412 => {
                let detail = "something else was stored with this key in the meantime".to_owned();
                Error { detail, ..error }.hint("run the command again")
            }
            // Only the bucket can be missing.
            404 if error.kind == ErrorKind::NotFound => {
                let detail = format!("the bucket {} does not exist", self.bucket.name);
                Error { detail, ..error }.hint("buckets are not created here")
            }
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_differ() {
        assert_ne!(random_digits(), random_digits());
        assert_eq!(random_digits().len(), 32);
    }
}
