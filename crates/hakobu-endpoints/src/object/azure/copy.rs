//! Copies inside the store: Copy Blob, Put Block From URL, and Set Blob Metadata for a copy onto itself.

use std::time::Duration;

use hakobu_core::{Error, ErrorKind, Result};
use http::header::IF_MATCH;
use http::{HeaderMap, HeaderName, Method};

use super::put::version_of;
use super::request::{AzureFailure, AzureLane, AzureRequest, blob_name, check_key};
use super::spelling::block_id;
use crate::object::api::{CopyObject, CopyPart, CopySource, ObjectProperties, PartTag, StoredObject};
use crate::object::counts::RequestKind;
use crate::object::credentials::azure::AzureProof;
use crate::object::s3::spelling::encode_key;

const COPYING: &str = "copying the object inside the store";
const CHANGING: &str = "changing the metadata of the object";
const SOURCE: HeaderName = HeaderName::from_static("x-ms-copy-source");
const SOURCE_IF_MATCH: HeaderName = HeaderName::from_static("x-ms-source-if-match");
const SOURCE_RANGE: HeaderName = HeaderName::from_static("x-ms-source-range");
const SOURCE_AUTHORIZATION: HeaderName = HeaderName::from_static("x-ms-copy-source-authorization");
const STATUS: &str = "x-ms-copy-status";
/// The times between two looks at a copy that takes longer.
const LOOK_FIRST: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_secs(5);

impl AzureLane {
    pub(super) async fn copy(&self, copy: CopyObject<'_>) -> Result<StoredObject> {
        let CopyObject { source, key, properties, condition, renews: _ } = copy;
        let is_itself =
            source.bucket.is_none_or(|bucket| bucket == self.container.target.container) && source.key == key;
        if let (true, Some(properties)) = (is_itself, properties) {
            return self.set_metadata(source, properties).await;
        }
        let mut request = AzureRequest::new(RequestKind::Copy, Method::PUT, COPYING)
            .key(key)
            .condition(condition)?
            .header(SOURCE, &self.source_url(source).await?)?;
        if let Some(etag) = source.version.and_then(|version| version.etag.as_deref()) {
            request = request.header(SOURCE_IF_MATCH, etag)?;
        }
        if let Some(properties) = properties {
            // The content type is that of the source.
            request = request.metadata(&properties.metadata)?;
        }
        let answer =
            self.perform(&request).await.map_err(|failure| self.copy_failed(&request, source, failure))?;
        let mut headers = answer.headers;
        let mut wait = LOOK_FIRST;
        loop {
            let status = |headers: &HeaderMap| headers.get(STATUS)?.to_str().ok().map(str::to_owned);
            match status(&headers).as_deref() {
                Some("success") | None => break,
                Some("pending") => {}
                Some(other) => {
                    let cause = format!("the store has not copied it: {other}");
                    return Err(self.error_of(ErrorKind::Io, COPYING, key, &cause));
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LOOK_MAX);
            let vanished = || self.error_of(ErrorKind::Conflict, COPYING, key, "it was removed meanwhile");
            headers = self.blob_head(key, COPYING).await?.ok_or_else(vanished)?.1;
        }
        Ok(StoredObject { version: version_of(&headers), is_checked: true })
    }

    /// Gives an object other metadata. Its content type and its tier stay.
    pub(super) async fn set_metadata(
        &self,
        source: CopySource<'_>,
        properties: &ObjectProperties,
    ) -> Result<StoredObject> {
        let mut request = AzureRequest::new(RequestKind::Put, Method::PUT, CHANGING)
            .key(source.key)
            .query("comp", "metadata")
            .metadata(&properties.metadata)?;
        if let Some(etag) = source.version.and_then(|version| version.etag.as_deref()) {
            request = request.header(IF_MATCH, etag)?;
        }
        let answer =
            self.perform(&request).await.map_err(|failure| self.copy_failed(&request, source, failure))?;
        Ok(StoredObject { version: version_of(&answer.headers), is_checked: true })
    }

    pub(super) async fn copy_part(&self, part: CopyPart<'_>) -> Result<PartTag> {
        let CopyPart { source, range, key, upload: _, number } = part;
        // The store tells no checksum of what it copies, so the ID has none.
        let id = block_id(number, 0);
        let last = range.end().saturating_sub(1);
        let mut request = AzureRequest::new(RequestKind::Copy, Method::PUT, COPYING)
            .key(key)
            .query("blockid", id.as_str())
            .query("comp", "block")
            .header(SOURCE, &self.source_url(source).await?)?
            .header(SOURCE_RANGE, &format!("bytes={}-{last}", range.offset))?;
        match self.container.credentials.proof().await? {
            AzureProof::Token(token) => {
                request = request.header(SOURCE_AUTHORIZATION, &format!("Bearer {}", token.token))?;
            }
            AzureProof::Key(_) => {
                let cause = "the store copies ranges only with a token or a shared access signature";
                return Err(self.error_of(ErrorKind::Unsupported, COPYING, key, cause));
            }
            AzureProof::Sas(_) | AzureProof::Anonymous => {}
        }
        if let Some(etag) = source.version.and_then(|version| version.etag.as_deref()) {
            request = request.header(SOURCE_IF_MATCH, etag)?;
        }
        self.perform(&request).await.map_err(|failure| self.copy_failed(&request, source, failure))?;
        Ok(PartTag { number, size_bytes: range.length, etag: id, crc64: None })
    }

    /// Returns the URL of an object as the store reads it.
    async fn source_url(&self, source: CopySource<'_>) -> Result<String> {
        let target = &self.container.target;
        let container = source.bucket.unwrap_or(&target.container);
        check_key(source.key, COPYING).map_err(|error| error.at(self.container.location_of(source.key)))?;
        let blob = encode_key(blob_name(source.key));
        let url = format!("{}{}/{}/{blob}", target.origin, target.base, encode_key(container));
        Ok(match self.container.credentials.proof().await? {
            AzureProof::Sas(sas) => format!("{url}?{sas}"),
            _ => url,
        })
    }

    fn copy_failed(
        &self,
        request: &AzureRequest<'_>,
        source: CopySource<'_>,
        failure: AzureFailure,
    ) -> Error {
        if let AzureFailure::Refused { refusal, .. } = &failure {
            if refusal.is_missing_blob() || refusal.is(&["CannotVerifyCopySource"]) && refusal.status == 404 {
                let cause = "the object to copy does not exist any more";
                return self.error_of(ErrorKind::SourceVanished, COPYING, source.key, cause);
            }
            let is_source = refusal.is(&["SourceConditionNotMet"]) || refusal.is(&["ConditionNotMet"]);
            if is_source && source.version.is_some() {
                let cause = "another object was stored with this key in the meantime";
                return self.error_of(ErrorKind::SourceChanged, COPYING, source.key, cause);
            }
        }
        self.put_failed(request, failure)
    }
}
