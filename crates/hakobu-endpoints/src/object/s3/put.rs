//! Objects in one request: PutObject.

use hakobu_core::{Error, ErrorKind, Result};
use http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, Method};

use super::bucket::S3NewObjects;
use super::get::METADATA_PREFIX;
use super::request::{S3Failure, S3Lane, S3Request};
use super::spelling::{crc64_of, crc64_text};
use crate::object::api::{
    ObjectHead, ObjectProperties, ObjectVersion, PutCondition, PutObject, StoredChecksum, StoredObject,
};
use crate::object::counts::RequestKind;

const STORING: &str = "storing the object";
pub(super) const CRC64: HeaderName = HeaderName::from_static("x-amz-checksum-crc64nvme");
const STORAGE_CLASS: HeaderName = HeaderName::from_static("x-amz-storage-class");
const ENCRYPTION: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
const ENCRYPTION_KEY: HeaderName = HeaderName::from_static("x-amz-server-side-encryption-aws-kms-key-id");
const ACL: HeaderName = HeaderName::from_static("x-amz-acl");

impl S3Request<'_> {
    /// Adds the properties of a new object. `usual` has those that the user wants for all objects.
    ///
    /// # Errors
    /// `Unsupported` if a name or value cannot be that of a header.
    pub(super) fn properties(mut self, properties: &ObjectProperties, usual: &S3NewObjects) -> Result<Self> {
        let is_marker = self.key.is_some_and(|key| key.ends_with('/'));
        let wanted_type = usual.content_type.as_ref().filter(|_| !is_marker);
        if let Some(content_type) = wanted_type.or(properties.content_type.as_ref()) {
            self = self.header(CONTENT_TYPE, content_type)?;
        }
        if let Some(class) = properties.storage_class.as_ref().filter(|_| usual.storage_class.is_none()) {
            self = self.header(STORAGE_CLASS, class)?;
        }
        self = self.usual_properties(usual)?;
        for (name, value) in &properties.metadata {
            let unsupported = || {
                Error::new(
                    ErrorKind::Unsupported,
                    STORING,
                    format!("{} cannot be the name of metadata", name.escape_debug()),
                )
            };
            let name = HeaderName::try_from(format!("{METADATA_PREFIX}{name}")).map_err(|_| unsupported())?;
            self = self.header(name, value)?;
        }
        Ok(self)
    }

    /// Adds the properties that the user wants for all objects, apart from the content type.
    ///
    /// # Errors
    /// `Unsupported` if a value cannot be that of a header.
    pub(super) fn usual_properties(mut self, usual: &S3NewObjects) -> Result<Self> {
        if let Some(class) = &usual.storage_class {
            self = self.header(STORAGE_CLASS, class)?;
        }
        if let Some(encryption) = &usual.encryption {
            self = self.header(ENCRYPTION, encryption.algorithm())?;
            if let Some(key) = encryption.key() {
                self = self.header(ENCRYPTION_KEY, key)?;
            }
        }
        if let Some(acl) = &usual.acl {
            self = self.header(ACL, acl)?;
        }
        Ok(self)
    }

    /// Adds a condition on the object that is replaced.
    ///
    /// # Errors
    /// `Unsupported` if the version cannot be that of a header.
    pub(super) fn condition(self, condition: &PutCondition) -> Result<Self> {
        match condition {
            PutCondition::None => Ok(self),
            PutCondition::IfAbsent => self.header(IF_NONE_MATCH, "*"),
            PutCondition::IfVersion(version) => match &version.etag {
                Some(etag) => self.header(IF_MATCH, etag),
                None => Ok(self),
            },
        }
    }

    /// Adds the checksum that the store is to check.
    ///
    /// # Errors
    /// None that can happen.
    pub(super) fn crc64(self, crc64: Option<u64>) -> Result<Self> {
        match crc64 {
            Some(crc64) => self.header(CRC64, &crc64_text(crc64)),
            None => Ok(self),
        }
    }
}

/// Returns the version in the head of an answer.
pub(super) fn version_of(headers: &HeaderMap) -> ObjectVersion {
    let etag = headers.get(http::header::ETAG).and_then(|value| value.to_str().ok());
    ObjectVersion { etag: etag.filter(|etag| !etag.is_empty()).map(str::to_owned), generation: None }
}

/// Returns the checksum in the head of an answer.
pub(super) fn returned_crc64(headers: &HeaderMap) -> Option<u64> {
    headers.get(CRC64).and_then(|value| crc64_of(value.to_str().ok()?))
}

/// Returns true if the store returned the checksum that it was sent, which proves that it computed it.
///
/// # Errors
/// The cause, if it returned another one.
pub(super) fn is_checked(returned: Option<u64>, sent: Option<u64>) -> Result<bool, &'static str> {
    match (returned, sent) {
        (Some(returned), Some(sent)) if returned != sent => {
            Err("the store has another checksum of it than was sent")
        }
        (returned, sent) => Ok(returned.is_some() && sent.is_some()),
    }
}

impl S3Lane {
    pub(super) async fn put(&self, object: PutObject<'_>) -> Result<StoredObject> {
        let PutObject { key, content, properties, condition, crc64 } = object;
        let size_bytes: u64 = content.iter().map(|piece| piece.len() as u64).sum();
        let request = S3Request::new(RequestKind::Put, Method::PUT, STORING)
            .key(key)
            .properties(properties, &self.bucket.new_objects)?
            .condition(condition)?
            .crc64(crc64)?
            .content(content);
        match self.perform(&request).await {
            Ok(answer) => {
                let is_checked = is_checked(returned_crc64(&answer.headers), crc64)
                    .map_err(|cause| self.error_of(ErrorKind::Corrupt, STORING, key, cause))?;
                Ok(StoredObject { version: version_of(&answer.headers), is_checked })
            }
            Err(failure) => {
                let is_ours = |head: &ObjectHead| {
                    let is_equal = match (crc64, &head.checksum) {
                        (Some(ours), Some(StoredChecksum::Crc64(theirs))) => ours == *theirs,
                        _ => true,
                    };
                    is_equal && head.size_bytes == size_bytes && has_metadata(head, properties)
                };
                self.own_success(&request, key, failure, crc64, is_ours).await
            }
        }
    }

    /// Finds out if a condition failed because an earlier attempt had succeeded without its answer arriving.
    pub(super) async fn own_success(
        &self,
        request: &S3Request<'_>,
        key: &str,
        failure: S3Failure,
        crc64: Option<u64>,
        is_ours: impl Fn(&ObjectHead) -> bool,
    ) -> Result<StoredObject> {
        if let S3Failure::Refused { refusal, may_be_done: true } = &failure
            && (matches!(refusal.status, 409 | 412) || refusal.is(&["NoSuchUpload"]))
            && let Some(head) = self.head(key).await?
            && is_ours(&head)
        {
            let is_checked = crc64.is_some_and(|crc64| head.checksum == Some(StoredChecksum::Crc64(crc64)));
            return Ok(StoredObject { version: head.version, is_checked });
        }
        Err(self.put_failed(request, failure))
    }

    /// Returns the error for an object that was not stored.
    pub(super) fn put_failed(&self, request: &S3Request<'_>, failure: S3Failure) -> Error {
        let is_condition = matches!(&failure, S3Failure::Refused { refusal, .. } if refusal.status == 412);
        let error = self.error(request, failure);
        match is_condition {
            true => Error {
                detail: "something else was stored with this key in the meantime".to_owned(),
                ..error
            }
            .hint("run the command again"),
            false => error,
        }
    }
}

/// Returns true if an object has the metadata that was sent with it.
fn has_metadata(head: &ObjectHead, properties: &ObjectProperties) -> bool {
    properties.metadata.iter().all(|pair| head.metadata.contains(pair))
}
