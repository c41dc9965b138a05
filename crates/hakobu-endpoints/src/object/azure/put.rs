//! Objects in one request: Put Blob.

use hakobu_core::{Error, ErrorKind, Result};
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, Method};

use super::container::AzureNewObjects;
use super::get::{METADATA_PREFIX, is_folder};
use super::request::{AzureFailure, AzureLane, AzureRequest};
use super::spelling::{crc64_of, crc64_text, etag_of};
use crate::object::api::{
    CopySource, ObjectHead, ObjectProperties, ObjectVersion, PutCondition, PutObject, StoredObject,
};
use crate::object::counts::RequestKind;

const STORING: &str = "storing the object";
pub(super) const CRC64: HeaderName = HeaderName::from_static("x-ms-content-crc64");
const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");
const CONTENT_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-content-type");
const ACCESS_TIER: HeaderName = HeaderName::from_static("x-ms-access-tier");

impl AzureRequest<'_> {
    /// Adds the properties of a new object, the object of a directory or another. `usual` has those that the user wants
    /// for all objects.
    ///
    /// # Errors
    /// `Unsupported` if a name or value cannot be that of a header.
    pub(super) fn properties(
        mut self,
        properties: &ObjectProperties,
        usual: &AzureNewObjects,
        is_marker: bool,
    ) -> Result<Self> {
        let wanted_type = usual.content_type.as_ref().filter(|_| !is_marker);
        if let Some(content_type) = wanted_type.or(properties.content_type.as_ref()) {
            self = self.header(CONTENT_TYPE, content_type)?;
        }
        // An entry without content is read in listings, and costs the same in each tier.
        let wanted_tier = usual.access_tier.as_ref().or(properties.storage_class.as_ref());
        if let Some(tier) = wanted_tier.filter(|_| !is_marker) {
            self = self.header(ACCESS_TIER, tier)?;
        }
        self.metadata(&properties.metadata)
    }

    /// Adds metadata.
    ///
    /// # Errors
    /// `Unsupported` if a name or value cannot be that of a header.
    pub(super) fn metadata(mut self, metadata: &[(String, String)]) -> Result<Self> {
        for (name, value) in metadata {
            let unsupported = || {
                let cause = format!("{} cannot be the name of metadata", name.escape_debug());
                Error::new(ErrorKind::Unsupported, STORING, cause)
            };
            let name = HeaderName::try_from(format!("{METADATA_PREFIX}{name}")).map_err(|_| unsupported())?;
            self = self.header(name, value)?;
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
    ObjectVersion { etag: etag.and_then(etag_of), generation: None }
}

/// Returns true if the store returned the checksum that it was sent, which proves that it computed it.
///
/// # Errors
/// The cause, if it returned another one.
pub(super) fn is_checked(headers: &HeaderMap, sent: Option<u64>) -> Result<bool, &'static str> {
    let returned = headers.get(CRC64).and_then(|value| crc64_of(value.to_str().ok()?));
    match (returned, sent) {
        (Some(returned), Some(sent)) if returned != sent => {
            Err("the store has another checksum of it than was sent")
        }
        (returned, sent) => Ok(returned.is_some() && sent.is_some()),
    }
}

impl AzureLane {
    pub(super) async fn put(&self, object: PutObject<'_>) -> Result<StoredObject> {
        if object.key.ends_with('/') {
            return self.put_marker(object).await;
        }
        self.put_blob(object).await
    }

    /// Stores the object of a directory, unless a file has its name.
    async fn put_marker(&self, object: PutObject<'_>) -> Result<StoredObject> {
        let PutObject { key, properties, condition, .. } = object;
        let is_free = *condition == PutCondition::None;
        let absent = PutCondition::IfAbsent;
        let stored = match is_free {
            true => self.put_blob(PutObject { condition: &absent, ..object }).await,
            false => return self.put_blob(object).await,
        };
        let error = match stored {
            Err(error) if error.kind == ErrorKind::Conflict => error,
            stored => return stored,
        };
        match self.blob_head(key, STORING).await? {
            Some((head, _)) if is_folder(&head.metadata) => {
                let source =
                    CopySource { bucket: None, key, version: Some(&head.version), unmodified_since: None };
                self.set_metadata(source, properties).await
            }
            Some(_) => {
                let cause = "an object of the same name is in its place";
                Err(self.error_of(ErrorKind::Conflict, STORING, key, cause).hint("rename one of them"))
            }
            None => Err(error),
        }
    }

    async fn put_blob(&self, object: PutObject<'_>) -> Result<StoredObject> {
        let PutObject { key, content, properties, condition, crc64 } = object;
        let size_bytes: u64 = content.iter().map(|piece| piece.len() as u64).sum();
        let request = AzureRequest::new(RequestKind::Put, Method::PUT, STORING)
            .key(key)
            .header(BLOB_TYPE, "BlockBlob")?
            .properties(properties, &self.container.new_objects, key.ends_with('/'))?
            .condition(condition)?
            .crc64(crc64)?
            .content(content);
        match self.perform(&request).await {
            Ok(answer) => {
                let is_checked = is_checked(&answer.headers, crc64)
                    .map_err(|cause| self.error_of(ErrorKind::Corrupt, STORING, key, cause))?;
                Ok(StoredObject { version: version_of(&answer.headers), is_checked })
            }
            Err(failure) => {
                let is_ours =
                    |head: &ObjectHead| head.size_bytes == size_bytes && has_metadata(head, properties);
                self.own_success(&request, key, failure, is_ours).await
            }
        }
    }

    /// Finds out if a condition failed because an earlier attempt had succeeded without its answer arriving.
    pub(super) async fn own_success(
        &self,
        request: &AzureRequest<'_>,
        key: &str,
        failure: AzureFailure,
        is_ours: impl Fn(&ObjectHead) -> bool,
    ) -> Result<StoredObject> {
        if let AzureFailure::Refused { refusal, may_be_done: true } = &failure
            && refusal.is_condition()
            && let Some(head) = self.head(key).await?
            && is_ours(&head)
        {
            // Heads do not have the checksum.
            return Ok(StoredObject { version: head.version, is_checked: false });
        }
        Err(self.put_failed(request, failure))
    }

    /// Returns the error for an object that was not stored.
    pub(super) fn put_failed(&self, request: &AzureRequest<'_>, failure: AzureFailure) -> Error {
        let is_condition =
            matches!(&failure, AzureFailure::Refused { refusal, .. } if refusal.is_condition());
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
pub(super) fn has_metadata(head: &ObjectHead, properties: &ObjectProperties) -> bool {
    !properties.metadata.is_empty() && properties.metadata.iter().all(|pair| head.metadata.contains(pair))
}
