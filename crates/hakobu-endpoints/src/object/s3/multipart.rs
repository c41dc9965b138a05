//! Objects in parts: CreateMultipartUpload, UploadPart, CompleteMultipartUpload and what belongs to them.

use std::fmt::Write;

use bytes::Bytes;
use hakobu_core::{ErrorKind, Result};
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderName, Method};

use super::bucket::LIMITS;
use super::put::{is_checked, returned_crc64, version_of};
use super::request::{S3Failure, S3Lane, S3Request};
use super::spelling::{crc64_of, crc64_text, decode, time_of};
use super::xml::{XmlEvent, push_element, read_xml};
use crate::object::api::{
    CompleteUpload, ObjectHead, ObjectProperties, ObjectVersion, PartTag, PutPart, StoredChecksum,
    StoredObject, UnfinishedUpload, UploadId,
};
use crate::object::counts::RequestKind;

const BEGINNING: &str = "beginning the upload of";
const SENDING: &str = "sending a part of";
const COMPLETING: &str = "completing the upload of";
const ABORTING: &str = "aborting the upload of";
const LISTING_PARTS: &str = "listing the parts of";
const LISTING_UPLOADS: &str = "listing unfinished uploads";
const CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-checksum-algorithm");
const CHECKSUM_TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");
const FULL_OBJECT: &str = "FULL_OBJECT";
/// The most pages that a listing of parts or uploads may have.
const PAGES_MAX: usize = 1000;

impl S3Lane {
    pub(super) async fn begin_upload(&self, key: &str, properties: &ObjectProperties) -> Result<UploadId> {
        let request = S3Request::new(RequestKind::Put, Method::POST, BEGINNING)
            .key(key)
            .query("uploads", "")
            .properties(properties, &self.bucket.new_objects)?
            .header(CHECKSUM_ALGORITHM, "CRC64NVME")?
            .header(CHECKSUM_TYPE, FULL_OBJECT)?;
        let answer = self.perform(&request).await.map_err(|failure| self.error(&request, failure))?;
        let mut upload = String::new();
        let read = read_xml(&answer.body, "InitiateMultipartUploadResult", |event| {
            if let XmlEvent::Close { name: "UploadId", text, .. } = event {
                upload = text.to_owned();
            }
            Ok(())
        });
        read.map_err(|error| error.at(self.bucket.location_of(key)))?;
        match upload.is_empty() {
            true => {
                Err(self.error_of(ErrorKind::Protocol, BEGINNING, key, "the answer has no ID of an upload"))
            }
            false => Ok(UploadId(upload)),
        }
    }

    pub(super) async fn put_part(&self, part: PutPart<'_>) -> Result<PartTag> {
        let PutPart { key, upload, number, content, crc64 } = part;
        let size_bytes: u64 = content.iter().map(|piece| piece.len() as u64).sum();
        let request = S3Request::new(RequestKind::Put, Method::PUT, SENDING)
            .key(key)
            .query("partNumber", number.to_string())
            .query("uploadId", upload.0.as_str())
            .crc64(crc64)?
            .content(content);
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(S3Failure::Refused { refusal, .. }) if refusal.is(&["NoSuchUpload"]) => {
                return Err(self.error_of(
                    ErrorKind::SourceVanished,
                    SENDING,
                    key,
                    "the store does not know the upload any more",
                ));
            }
            Err(failure) => return Err(self.error(&request, failure)),
        };
        let missing = || self.error_of(ErrorKind::Protocol, SENDING, key, "the answer has no entity tag");
        let etag =
            answer.header(ETAG.as_str()).filter(|etag| !etag.is_empty()).ok_or_else(missing)?.to_owned();
        let returned = returned_crc64(&answer.headers);
        is_checked(returned, crc64)
            .map_err(|cause| self.error_of(ErrorKind::Corrupt, SENDING, key, cause))?;
        Ok(PartTag { number, size_bytes, etag, crc64: returned })
    }

    pub(super) async fn list_parts(&self, key: &str, upload: &UploadId) -> Result<Option<Vec<PartTag>>> {
        let wrong = |cause| self.error_of(ErrorKind::Protocol, LISTING_PARTS, key, cause);
        let mut parts: Vec<PartTag> = Vec::new();
        let mut marker = String::new();
        for _ in 0..PAGES_MAX {
            let mut request = S3Request::new(RequestKind::List, Method::GET, LISTING_PARTS)
                .key(key)
                .query("uploadId", upload.0.as_str());
            if !marker.is_empty() {
                request = request.query("part-number-marker", marker.as_str());
            }
            let answer = match self.perform(&request).await {
                Ok(answer) => answer,
                Err(S3Failure::Refused { refusal, .. }) if refusal.is(&["NoSuchUpload"]) => return Ok(None),
                Err(failure) => return Err(self.error(&request, failure)),
            };
            let mut page = PartPage::default();
            let read = read_xml(&answer.body, "ListPartsResult", |event| {
                page.take(event).ok_or_else(|| wrong("a part cannot be read"))
            });
            read.map_err(|error| error.at(self.bucket.location_of(key)))?;
            let PartPage { parts: some, next, is_truncated, .. } = page;
            parts.extend(some);
            if parts.len() > LIMITS.parts_max as usize {
                return Err(wrong("the store lists more parts than an object can have"));
            }
            if !is_truncated {
                parts.sort_unstable_by_key(|part| part.number);
                return Ok(Some(parts));
            }
            if next.is_empty() || next == marker {
                return Err(wrong("the store does not say where the list goes on"));
            }
            marker = next;
        }
        Err(wrong("the list does not end"))
    }

    pub(super) async fn complete_upload(&self, upload: CompleteUpload<'_>) -> Result<StoredObject> {
        let CompleteUpload { key, upload, parts, properties: _, crc64, condition } = upload;
        let mut document =
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
        for part in parts {
            // Writing to a string cannot fail.
            let _ = write!(document, "<Part><PartNumber>{}</PartNumber>", part.number);
            push_element(&mut document, "ETag", &part.etag);
            if let Some(crc64) = part.crc64 {
                push_element(&mut document, "ChecksumCRC64NVME", &crc64_text(crc64));
            }
            document.push_str("</Part>");
        }
        document.push_str("</CompleteMultipartUpload>");
        let mut request = S3Request::new(RequestKind::Put, Method::POST, COMPLETING)
            .key(key)
            .query("uploadId", upload.0.as_str())
            .header(CONTENT_TYPE, "application/xml")?
            .condition(condition)?
            .content(vec![Bytes::from(document)]);
        if let Some(crc64) = crc64 {
            request =
                request.header(super::put::CRC64, &crc64_text(crc64))?.header(CHECKSUM_TYPE, FULL_OBJECT)?;
        }
        let size_bytes: u64 = parts.iter().map(|part| part.size_bytes).sum();
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(failure) => {
                let suffix = format!("-{}\"", parts.len());
                let is_ours = |head: &ObjectHead| {
                    let is_equal = match (crc64, &head.checksum) {
                        (Some(ours), Some(StoredChecksum::Crc64(theirs))) => ours == *theirs,
                        _ => head.version.etag.as_ref().is_some_and(|etag| etag.ends_with(&suffix)),
                    };
                    is_equal && head.size_bytes == size_bytes
                };
                return self.own_success(&request, key, failure, crc64, is_ours).await;
            }
        };
        let (mut etag, mut returned, mut is_composite) = (None, None, false);
        let read = read_xml(&answer.body, "CompleteMultipartUploadResult", |event| {
            match event {
                XmlEvent::Close { name: "ETag", text, .. } => etag = Some(text.to_owned()),
                XmlEvent::Close { name: "ChecksumCRC64NVME", text, .. } => returned = crc64_of(text),
                XmlEvent::Close { name: "ChecksumType", text, .. } => is_composite = text == "COMPOSITE",
                _ => {}
            }
            Ok(())
        });
        read.map_err(|error| error.at(self.bucket.location_of(key)))?;
        let version = ObjectVersion { etag: etag.filter(|etag| !etag.is_empty()), generation: None };
        let version = if version.is_unknown() { version_of(&answer.headers) } else { version };
        let is_checked = is_checked(returned.filter(|_| !is_composite), crc64)
            .map_err(|cause| self.error_of(ErrorKind::Corrupt, COMPLETING, key, cause))?;
        Ok(StoredObject { version, is_checked })
    }

    pub(super) async fn abort_upload(&self, key: &str, upload: &UploadId) -> Result<()> {
        let request = S3Request::new(RequestKind::Delete, Method::DELETE, ABORTING)
            .key(key)
            .query("uploadId", upload.0.as_str());
        match self.perform(&request).await {
            Ok(_) => Ok(()),
            Err(S3Failure::Refused { refusal, .. }) if refusal.is(&["NoSuchUpload"]) => Ok(()),
            Err(failure) => Err(self.error(&request, failure)),
        }
    }

    pub(super) async fn list_uploads(&self, prefix: &str) -> Result<Vec<UnfinishedUpload>> {
        let wrong = |cause| self.error_of(ErrorKind::Protocol, LISTING_UPLOADS, prefix, cause);
        let mut uploads = Vec::new();
        let mut markers = (String::new(), String::new());
        for _ in 0..PAGES_MAX {
            let mut request = S3Request::new(RequestKind::List, Method::GET, LISTING_UPLOADS)
                .query("encoding-type", "url")
                .query("uploads", "");
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

/// A page of the parts of an upload that is being read.
#[derive(Default)]
pub(in crate::object) struct PartPage {
    pub(in crate::object) parts: Vec<PartTag>,
    part: Option<PartTag>,
    pub(in crate::object) is_truncated: bool,
    /// Where the next page begins.
    pub(in crate::object) next: String,
}

impl PartPage {
    /// Takes an event; `None` if it is none of a page.
    pub(in crate::object) fn take(&mut self, event: XmlEvent<'_>) -> Option<()> {
        match event {
            XmlEvent::Open { name: "Part", depth: 2 } => self.part = Some(PartTag::default()),
            XmlEvent::Close { name: "Part", depth: 2, .. } => {
                self.parts.push(self.part.take().filter(|part| part.number > 0)?);
            }
            XmlEvent::Close { name, depth: 2, text } => match name {
                "NextPartNumberMarker" => self.next = text.to_owned(),
                "IsTruncated" => self.is_truncated = text.trim() == "true",
                _ => {}
            },
            XmlEvent::Close { name, depth: 3, text } => {
                if let Some(part) = &mut self.part {
                    match name {
                        "PartNumber" => part.number = text.parse().ok()?,
                        "Size" => part.size_bytes = text.parse().ok()?,
                        "ETag" => part.etag = text.to_owned(),
                        "ChecksumCRC64NVME" => part.crc64 = crc64_of(text),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// A page of unfinished uploads that is being read.
#[derive(Default)]
pub(in crate::object) struct UploadPage {
    uploads: Vec<UnfinishedUpload>,
    upload: Option<UnfinishedUpload>,
    pub(in crate::object) is_truncated: bool,
    is_encoded: bool,
    next: (String, String),
}

impl UploadPage {
    /// Takes an event; `None` if it is none of a page.
    pub(in crate::object) fn take(&mut self, event: XmlEvent<'_>) -> Option<()> {
        match event {
            XmlEvent::Open { name: "Upload", depth: 2 } => self.upload = Some(UnfinishedUpload::default()),
            XmlEvent::Close { name, depth: 2, text } => match name {
                "Upload" => {
                    self.uploads.push(self.upload.take().filter(|upload| !upload.upload.0.is_empty())?);
                }
                "IsTruncated" => self.is_truncated = text.trim() == "true",
                "EncodingType" => self.is_encoded = text == "url",
                "NextKeyMarker" => self.next.0 = text.to_owned(),
                "NextUploadIdMarker" => self.next.1 = text.to_owned(),
                _ => {}
            },
            XmlEvent::Close { name, depth: 3, text } => {
                if let Some(upload) = &mut self.upload {
                    match name {
                        "Key" => upload.key = text.to_owned(),
                        "UploadId" => upload.upload = UploadId(text.to_owned()),
                        "Initiated" => upload.begun = time_of(text)?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Appends the uploads, and returns where the next page begins.
    pub(in crate::object) fn finish(
        mut self,
        uploads: &mut Vec<UnfinishedUpload>,
    ) -> Option<(String, String)> {
        if self.is_encoded {
            self.next.0 = decode(&self.next.0)?;
            for upload in &mut self.uploads {
                upload.key = decode(&upload.key)?;
            }
        }
        uploads.append(&mut self.uploads);
        Some(self.next)
    }
}
