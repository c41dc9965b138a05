//! Copies inside the store: CopyObject and UploadPartCopy.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hakobu_core::entry::FileTime;
use hakobu_core::{Error, ErrorKind, Result};
use http::{HeaderName, Method};

use super::put::version_of;
use super::refusal::too_long_to_replace;
use super::request::{S3Failure, S3Lane, S3Request, check_key};
use super::spelling::{crc64_of, encode_key, time_of};
use super::xml::{XmlEvent, read_xml};
use crate::object::api::{CopyObject, CopyPart, CopySource, ObjectVersion, PartTag, StoredObject};
use crate::object::counts::RequestKind;
use crate::object::http::date_of;

pub(super) const COPYING: &str = "copying the object inside the store";
const SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
const SOURCE_IF_MATCH: HeaderName = HeaderName::from_static("x-amz-copy-source-if-match");
const SOURCE_IF_UNMODIFIED_SINCE: HeaderName =
    HeaderName::from_static("x-amz-copy-source-if-unmodified-since");
const SOURCE_RANGE: HeaderName = HeaderName::from_static("x-amz-copy-source-range");
const DIRECTIVE: HeaderName = HeaderName::from_static("x-amz-metadata-directive");

impl S3Lane {
    pub(super) async fn copy(&self, copy: CopyObject<'_>) -> Result<StoredObject> {
        let CopyObject { source, key, properties, condition, renews } = copy;
        let mut request =
            S3Request::new(RequestKind::Copy, Method::PUT, COPYING).key(key).condition(condition)?;
        request = self.copy_source(request, source)?;
        request = match properties {
            Some(properties) => {
                request.header(DIRECTIVE, "REPLACE")?.properties(properties, &self.bucket.new_objects)?
            }
            None => request.usual_properties(&self.bucket.new_objects)?,
        };
        let answer =
            self.perform(&request).await.map_err(|failure| self.copy_failed(&request, source, failure))?;
        let CopyAnswer { etag, uploaded, .. } = self.copied(&answer.body, "CopyObjectResult", key)?;
        if is_kept(renews, uploaded, date_of(&answer.headers)) {
            // versitygw keeps it. If parts were to replace an object with so long a name, it would answer "InternalError", which
            // ends the run after its retries.
            if let Some((cause, remedy)) = too_long_to_replace(key) {
                return Err(self.error_of(ErrorKind::Conflict, COPYING, key, cause).hint(remedy));
            }
            let cause = "the store keeps the time of upload, which would hide the change from later runs";
            return Err(self.error_of(ErrorKind::Unsupported, COPYING, key, cause));
        }
        let version = ObjectVersion { etag, generation: None };
        let version = if version.is_unknown() { version_of(&answer.headers) } else { version };
        Ok(StoredObject { version, is_checked: true })
    }

    pub(super) async fn copy_part(&self, part: CopyPart<'_>) -> Result<PartTag> {
        let CopyPart { source, range, key, upload, number } = part;
        let mut request = S3Request::new(RequestKind::Copy, Method::PUT, COPYING)
            .key(key)
            .query("partNumber", number.to_string())
            .query("uploadId", upload.0.as_str());
        request = self.copy_source(request, source)?;
        let last = range.end().saturating_sub(1);
        request = request.header(SOURCE_RANGE, &format!("bytes={}-{last}", range.offset))?;
        let answer =
            self.perform(&request).await.map_err(|failure| self.copy_failed(&request, source, failure))?;
        let CopyAnswer { etag, crc64, .. } = self.copied(&answer.body, "CopyPartResult", key)?;
        let missing = || self.error_of(ErrorKind::Protocol, COPYING, key, "the answer has no entity tag");
        Ok(PartTag { number, size_bytes: range.length, etag: etag.ok_or_else(missing)?, crc64 })
    }

    fn copy_source<'a>(&self, request: S3Request<'a>, source: CopySource<'_>) -> Result<S3Request<'a>> {
        let bucket = source.bucket.unwrap_or(&self.bucket.name);
        check_key(source.key, COPYING).map_err(|error| error.at(format!("s3://{bucket}/{}", source.key)))?;
        let request =
            request.header(SOURCE, &format!("/{}/{}", encode_key(bucket), encode_key(source.key)))?;
        let request = match source.unmodified_since.and_then(http_date) {
            Some(date) => request.header(SOURCE_IF_UNMODIFIED_SINCE, &date)?,
            None => request,
        };
        match source.version.and_then(|version| version.etag.as_deref()) {
            Some(etag) => request.header(SOURCE_IF_MATCH, etag),
            None => Ok(request),
        }
    }

    fn copied(&self, body: &[u8], root: &str, key: &str) -> Result<CopyAnswer> {
        let mut copied = CopyAnswer::default();
        let read = read_xml(body, root, |event| {
            match event {
                XmlEvent::Close { name: "ETag", text: "", .. } => {}
                XmlEvent::Close { name: "ETag", text, .. } => copied.etag = Some(text.to_owned()),
                XmlEvent::Close { name: "ChecksumCRC64NVME", text, .. } => copied.crc64 = crc64_of(text),
                XmlEvent::Close { name: "LastModified", text, .. } => copied.uploaded = time_of(text),
                _ => {}
            }
            Ok(())
        });
        read.map_err(|error| error.at(self.bucket.location_of(key)))?;
        Ok(copied)
    }

    fn copy_failed(&self, request: &S3Request<'_>, source: CopySource<'_>, failure: S3Failure) -> Error {
        if let S3Failure::Refused { refusal, .. } = &failure {
            if refusal.is(&["NoSuchKey"]) {
                let cause = "the object to copy does not exist any more";
                return self.error_of(ErrorKind::SourceVanished, COPYING, source.key, cause);
            }
            let is_conditional = source.version.is_some() || source.unmodified_since.is_some();
            if refusal.status == 412 && is_conditional {
                let cause = "another object was stored with this key in the meantime";
                return self.error_of(ErrorKind::SourceChanged, COPYING, source.key, cause);
            }
        }
        self.put_failed(request, failure)
    }
}

/// The answer to a copy.
#[derive(Default)]
struct CopyAnswer {
    etag: Option<String>,
    crc64: Option<u64>,
    uploaded: Option<FileTime>,
}

/// Returns true if an object still has the time of upload `before`, in whole seconds, and the answer is later.
fn is_kept(before: Option<FileTime>, uploaded: Option<FileTime>, answered: Option<SystemTime>) -> bool {
    let answered = answered.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let seconds = answered.and_then(|since| i64::try_from(since.as_secs()).ok());
    let later = uploaded.zip(seconds).filter(|(uploaded, answered)| uploaded.seconds < *answered);
    before.zip(later).is_some_and(|(before, (uploaded, _))| before.seconds == uploaded.seconds)
}

/// Returns a time as headers spell it, in whole seconds; `None` for one before 1970 or after 9999.
fn http_date(time: FileTime) -> Option<String> {
    let seconds = u64::try_from(time.seconds).ok().filter(|seconds| *seconds < 253_402_300_800)?;
    Some(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds)))
}
