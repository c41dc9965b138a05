//! Objects in parts, as S3 has them: the multipart uploads of the interface in XML.

use std::fmt::Write;

use bytes::Bytes;
use hakobu_core::{Error, ErrorKind, Result};
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderName, Method};

use super::bucket::LIMITS;
use super::get::crc32c_in;
use super::refusal::GcsRefusal;
use super::request::{GcsFailure, GcsLane, GcsRequest};
use super::resource::{content_type, crc32c, crc32c_text};
use super::upload::{ABORTING, BEGINNING, COMPLETING, GONE, SENDING};
use crate::object::api::{
    CompleteUpload, CopySource, ObjectHead, ObjectProperties, ObjectVersion, PartTag, PutCondition, PutPart,
    StoredChecksum, StoredObject, UnfinishedUpload, UploadId,
};
use crate::object::counts::RequestKind;
use crate::object::s3::multipart::{PartPage, UploadPage};
use crate::object::s3::xml::{XmlEvent, push_element, read_xml};

const LISTING_PARTS: &str = "listing the parts of";
const LISTING_UPLOADS: &str = "listing unfinished uploads";
const OTHER_CHECKSUM: &str = "the store has another checksum of it than was sent";
const HASH: HeaderName = HeaderName::from_static("x-goog-hash");
const STORAGE_CLASS: HeaderName = HeaderName::from_static("x-goog-storage-class");
const ACL: HeaderName = HeaderName::from_static("x-goog-acl");
const METADATA_PREFIX: &str = "x-goog-meta-";
const DIGEST: &str = "hakobu-blake3";
/// The most pages that a listing of parts or uploads may have.
const PAGES_MAX: usize = 1000;

/// Returns true if properties have what is known only at the end of an upload.
fn has_digest(properties: &ObjectProperties) -> bool {
    properties.metadata.iter().any(|(name, _)| name == DIGEST)
}

impl GcsLane {
    /// Begins an upload; `None` if the server knows none.
    pub(super) async fn begin_multipart(
        &self,
        key: &str,
        properties: &ObjectProperties,
    ) -> Result<Option<UploadId>> {
        let url = self.bucket.target.xml_object(key);
        let request =
            GcsRequest::new(RequestKind::Put, Method::POST, BEGINNING, url).key(key).query("uploads", "");
        let request = self.with_properties(request, key, properties)?;
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(GcsFailure::Refused { refusal, .. })
                if !self.bucket.target.is_google
                    && !refusal.is(&["NoSuchBucket"])
                    && matches!(refusal.status, 400 | 404 | 405 | 501) =>
            {
                return Ok(None);
            }
            Err(failure) => return Err(self.put_failed(&request, failure)),
        };
        let mut upload = String::new();
        let read = read_xml(&answer.body, "InitiateMultipartUploadResult", |event| {
            if let XmlEvent::Close { name: "UploadId", text, .. } = event {
                upload = text.to_owned();
            }
            Ok(())
        });
        read.map_err(|error| error.at(self.bucket.location_of(key)))?;
        let upload = UploadId(upload);
        match upload.0.is_empty() || Self::temporary_id(&upload).is_some() {
            true => {
                Err(self.error_of(ErrorKind::Protocol, BEGINNING, key, "the answer has no ID of an upload"))
            }
            false => Ok(Some(upload)),
        }
    }

    fn with_properties<'a>(
        &self,
        mut request: GcsRequest<'a>,
        key: &str,
        properties: &ObjectProperties,
    ) -> Result<GcsRequest<'a>> {
        let usual = &self.bucket.new_objects;
        if let Some(content_type) = content_type(key, properties, usual) {
            request = request.header(CONTENT_TYPE, content_type)?;
        }
        if let Some(class) = usual.storage_class.as_ref().or(properties.storage_class.as_ref()) {
            request = request.header(STORAGE_CLASS, class)?;
        }
        if let Some(acl) = usual.acl {
            request = request.header(ACL, acl.xml)?;
        }
        for (name, value) in &properties.metadata {
            let unsupported = || {
                let cause = format!("{} cannot be the name of metadata", name.escape_debug());
                Error::new(ErrorKind::Unsupported, BEGINNING, cause)
            };
            let name = HeaderName::try_from(format!("{METADATA_PREFIX}{name}")).map_err(|_| unsupported())?;
            request = request.header(name, value)?;
        }
        Ok(request)
    }

    fn of_upload<'a>(
        &self,
        (kind, method, during): (RequestKind, Method, &'static str),
        key: &'a str,
        upload: &UploadId,
    ) -> GcsRequest<'a> {
        let url = self.bucket.target.xml_object(key);
        GcsRequest::new(kind, method, during, url).key(key).query("uploadId", upload.0.as_str())
    }

    pub(super) async fn put_multipart(&self, part: PutPart<'_>) -> Result<PartTag> {
        let PutPart { key, upload, number, content, crc64: _ } = part;
        let size_bytes = content.iter().map(|piece| piece.len() as u64).sum();
        let sum = crc32c(&content);
        let request = self
            .of_upload((RequestKind::Put, Method::PUT, SENDING), key, upload)
            .query("partNumber", number.to_string())
            .header(HASH, &format!("crc32c={}", crc32c_text(sum)))?
            .content(content);
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(GcsFailure::Refused { refusal, .. }) if refusal.is_missing_upload() => {
                return Err(self.error_of(ErrorKind::SourceVanished, SENDING, key, GONE));
            }
            Err(failure) => return Err(self.error(&request, failure)),
        };
        let missing = || self.error_of(ErrorKind::Protocol, SENDING, key, "the answer has no entity tag");
        let etag =
            answer.header(ETAG.as_str()).filter(|etag| !etag.is_empty()).ok_or_else(missing)?.to_owned();
        if crc32c_in(&answer.headers).is_some_and(|there| there != sum) {
            return Err(self.error_of(ErrorKind::Corrupt, SENDING, key, OTHER_CHECKSUM));
        }
        self.note_sum(upload, number, (sum, size_bytes));
        Ok(PartTag { number, size_bytes, etag, crc64: None })
    }

    pub(super) async fn list_multipart(&self, key: &str, upload: &UploadId) -> Result<Option<Vec<PartTag>>> {
        let wrong = |cause| self.error_of(ErrorKind::Protocol, LISTING_PARTS, key, cause);
        let mut parts: Vec<PartTag> = Vec::new();
        let mut marker = String::new();
        for _ in 0..PAGES_MAX {
            let mut request = self.of_upload((RequestKind::List, Method::GET, LISTING_PARTS), key, upload);
            if !marker.is_empty() {
                request = request.query("part-number-marker", marker.as_str());
            }
            let answer = match self.perform(&request).await {
                Ok(answer) => answer,
                Err(GcsFailure::Refused { refusal, .. }) if refusal.is_missing_upload() => return Ok(None),
                Err(failure) => return Err(self.error(&request, failure)),
            };
            let mut page = PartPage::default();
            let read = read_xml(&answer.body, "ListPartsResult", |event| {
                page.take(event).ok_or_else(|| wrong("a part cannot be read"))
            });
            read.map_err(|error| error.at(self.bucket.location_of(key)))?;
            parts.extend(page.parts);
            if parts.len() > LIMITS.parts_max as usize {
                return Err(wrong("the store lists more parts than an object can have"));
            }
            if !page.is_truncated {
                parts.sort_unstable_by_key(|part| part.number);
                return Ok(Some(parts));
            }
            if page.next.is_empty() || page.next == marker {
                return Err(wrong("the store does not say where the list goes on"));
            }
            marker = page.next;
        }
        Err(wrong("the list does not end"))
    }

    pub(super) async fn complete_multipart(
        &self,
        upload: CompleteUpload<'_>,
        sum: Option<u32>,
    ) -> Result<StoredObject> {
        let CompleteUpload { key, upload, parts, properties, crc64: _, condition } = upload;
        self.check_condition(key, condition).await?;
        let mut document = "<CompleteMultipartUpload>".to_owned();
        for part in parts {
            // Writing to a string cannot fail.
            let _ = write!(document, "<Part><PartNumber>{}</PartNumber>", part.number);
            push_element(&mut document, "ETag", &part.etag);
            document.push_str("</Part>");
        }
        document.push_str("</CompleteMultipartUpload>");
        let request = self
            .of_upload((RequestKind::Put, Method::POST, COMPLETING), key, upload)
            .header(CONTENT_TYPE, "application/xml")?
            .content(vec![Bytes::from(document)]);
        let size_bytes: u64 = parts.iter().map(|part| part.size_bytes).sum();
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(failure) => {
                let is_ours = |head: &ObjectHead| {
                    let is_equal = sum.is_none_or(|sum| head.checksum == Some(StoredChecksum::Crc32c(sum)));
                    is_equal && head.size_bytes == size_bytes
                };
                return self.own_success(&request, key, failure, is_ours).await;
            }
        };
        if answer.body.trim_ascii_start().starts_with(b"<Error") {
            // The answer began before the outcome was known.
            let refusal = GcsRefusal::new(500, &answer.body);
            return Err(self.error(&request, GcsFailure::Refused { refusal, may_be_done: true }));
        }
        read_xml(&answer.body, "CompleteMultipartUploadResult", |_| Ok(()))
            .map_err(|error| error.at(self.bucket.location_of(key)))?;
        let generation = answer.header("x-goog-generation").and_then(|text| text.parse().ok());
        let there = crc32c_in(&answer.headers);
        match (there, sum) {
            (Some(there), Some(here)) if there != here => {
                Err(self.error_of(ErrorKind::Corrupt, COMPLETING, key, OTHER_CHECKSUM))
            }
            (there, here) => {
                let version = ObjectVersion { etag: None, generation };
                if let Some(properties) = properties.filter(|properties| has_digest(properties)) {
                    let source =
                        CopySource { bucket: None, key, version: Some(&version), unmodified_since: None };
                    // Without the digest, the object is complete all the same.
                    drop(self.patch(key, source, properties, &PutCondition::None).await);
                }
                Ok(StoredObject { version, is_checked: there.is_some() && here.is_some() })
            }
        }
    }

    pub(super) async fn abort_multipart(&self, key: &str, upload: &UploadId) -> Result<()> {
        let request = self.of_upload((RequestKind::Delete, Method::DELETE, ABORTING), key, upload);
        match self.perform(&request).await {
            Ok(_) => Ok(()),
            Err(GcsFailure::Refused { refusal, .. }) if refusal.is_missing_upload() => Ok(()),
            Err(failure) => Err(self.error(&request, failure)),
        }
    }

    pub(super) async fn multipart_uploads(&self, prefix: &str) -> Result<Vec<UnfinishedUpload>> {
        let wrong = |cause| self.error_of(ErrorKind::Protocol, LISTING_UPLOADS, prefix, cause);
        let mut uploads = Vec::new();
        let mut markers = (String::new(), String::new());
        for _ in 0..PAGES_MAX {
            let url = self.bucket.target.xml();
            let mut request = GcsRequest::new(RequestKind::List, Method::GET, LISTING_UPLOADS, url)
                .query("uploads", "")
                .query("encoding-type", "url");
            if !prefix.is_empty() {
                request = request.query("prefix", prefix);
            }
            if !markers.0.is_empty() {
                request = request.query("key-marker", markers.0.as_str());
                request = request.query("upload-id-marker", markers.1.as_str());
            }
            let answer = self.perform(&request).await.map_err(|failure| self.error(&request, failure))?;
            let mut page = UploadPage::default();
            let read = read_xml(&answer.body, "ListMultipartUploadsResult", |event| {
                page.take(event).ok_or_else(|| wrong("an entry cannot be read"))
            });
            read.map_err(|error| error.at(self.bucket.location_of(prefix)))?;
            let is_truncated = page.is_truncated;
            let next = page.finish(&mut uploads).ok_or_else(|| wrong("a key is encoded wrongly"))?;
            if uploads.iter().any(|upload| !upload.key.starts_with(prefix)) {
                return Err(wrong("a key does not begin with the prefix that was asked for"));
            }
            if !is_truncated {
                return Ok(uploads);
            }
            if next.0.is_empty() || next == markers {
                return Err(wrong("the store does not say where the list goes on"));
            }
            markers = next;
        }
        Err(wrong("the list does not end"))
    }
}
