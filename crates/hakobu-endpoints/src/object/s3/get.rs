//! Objects and their metadata: GetObject and HeadObject.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use hakobu_core::entry::FileTime;
use hakobu_core::extent::Extent;
use hakobu_core::{Error, ErrorKind, Result};
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderName, Method};

use super::list::storage_class;
use super::request::{S3Failure, S3Lane, S3Request};
use super::spelling::{crc32c_of, crc64_of};
use crate::object::answered_range::answered_range;
use crate::object::api::{ListQuery, ListStart, ObjectBody, ObjectHead, ObjectVersion, StoredChecksum};
use crate::object::content_mark::md5_of;
use crate::object::counts::RequestKind;
use crate::object::resumed_body::{BegunBody, REPLACED, RangeReader, resumed};
use crate::object::retry::RetryPlan;

const READING: &str = "reading the object";
const INSPECTING: &str = "inspecting the object";
pub(super) const METADATA_PREFIX: &str = "x-amz-meta-";
const CHECKSUM_MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");

/// Returns the metadata in the head of an answer.
fn head_of(headers: &HeaderMap, size_bytes: u64) -> Option<ObjectHead> {
    let text =
        |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let date = httpdate::parse_http_date(headers.get(LAST_MODIFIED)?.to_str().ok()?).ok()?;
    let seconds = date.duration_since(UNIX_EPOCH).ok()?.as_secs() as i64;
    let metadata = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(METADATA_PREFIX)?;
        Some((name.to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    let (storage_class, is_archive) = storage_class(&text("x-amz-storage-class").unwrap_or_default());
    let is_restored = text("x-amz-restore").is_some_and(|state| state.contains("ongoing-request=\"false\""));
    // A checksum of the parts' checksums says nothing about the content.
    let is_composite = text("x-amz-checksum-type").is_some_and(|kind| kind == "COMPOSITE");
    let crc64 =
        || text("x-amz-checksum-crc64nvme").and_then(|text| crc64_of(&text)).map(StoredChecksum::Crc64);
    let crc32c =
        || text("x-amz-checksum-crc32c").and_then(|text| crc32c_of(&text)).map(StoredChecksum::Crc32c);
    let etag = text(ETAG.as_str()).filter(|etag| !etag.is_empty());
    // With keys that S3 does not manage alone, the entity tag is none.
    let is_md5 = text("x-amz-server-side-encryption").is_none_or(|kind| kind == "AES256")
        && text("x-amz-server-side-encryption-customer-algorithm").is_none();
    let md5 = etag.as_deref().filter(|_| is_md5).and_then(md5_of);
    Some(ObjectHead {
        size_bytes,
        uploaded: FileTime { seconds, nanoseconds: 0 },
        md5,
        version: ObjectVersion { etag, generation: None },
        metadata: metadata.collect(),
        content_type: text(CONTENT_TYPE.as_str()),
        checksum: if is_composite { None } else { crc64().or_else(crc32c) },
        storage_class,
        is_archived: is_archive && !is_restored,
    })
}

/// Returns true if an object may be of a version, as far as both are known.
fn may_be(version: &ObjectVersion, head: &ObjectHead) -> bool {
    match (&version.etag, &head.version.etag) {
        (Some(one), Some(other)) => strong(one) == strong(other),
        _ => true,
    }
}

/// Returns an entity tag without the mark that a proxy may put there.
fn strong(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

impl RangeReader for Arc<S3Lane> {
    fn retry_plan(&self) -> RetryPlan {
        self.bucket.http.retry_plan()
    }

    fn reading_error(&self, kind: ErrorKind, key: &str, cause: &str) -> Error {
        self.error_of(kind, READING, key, cause)
    }

    async fn read_rest(&self, key: &str, rest: Extent, head: &ObjectHead) -> Result<BegunBody> {
        self.open_object(key, Some(rest), Some(&head.version), true).await
    }
}

impl S3Lane {
    pub(super) async fn head(&self, key: &str) -> Result<Option<ObjectHead>> {
        let request = S3Request::new(RequestKind::Head, Method::HEAD, INSPECTING)
            .key(key)
            .header(CHECKSUM_MODE, "ENABLED")?;
        let region = self.bucket.target();
        let mut answer = self.perform(&request).await;
        if let Err(failure) = answer {
            let known = self.head_failed(&request, key, failure).await;
            // A HEAD does not tell the region of the bucket, and the listing does.
            if Arc::ptr_eq(&region, &self.bucket.target()) || known.is_ok() {
                return known;
            }
            answer = self.perform(&request).await;
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => return self.head_failed(&request, key, failure).await,
        };
        let head = answer.length.and_then(|size_bytes| head_of(&answer.headers, size_bytes));
        let wrong =
            || self.error_of(ErrorKind::Protocol, INSPECTING, key, "the answer has no size or no time");
        head.map(Some).ok_or_else(wrong)
    }

    /// Finds out what a failed HEAD means: its answer has a status only. A listing of the same key has the reason.
    async fn head_failed(
        &self,
        request: &S3Request<'_>,
        key: &str,
        failure: S3Failure,
    ) -> Result<Option<ObjectHead>> {
        let status = match &failure {
            S3Failure::Refused { refusal, .. } => refusal.status,
            S3Failure::Failed(_) => return Err(self.error(request, failure)),
        };
        if !matches!(status, 301 | 400 | 401 | 403 | 404) {
            return Err(self.error(request, failure));
        }
        if status == 404 && self.bucket.is_known() {
            return Ok(None);
        }
        let query =
            ListQuery { prefix: key, delimiter: false, start: ListStart::First, until: None, entries: 1 };
        match self.list(query).await {
            Ok(_) if status == 404 => Ok(None),
            Ok(_) => Err(self.error(request, failure)),
            // Without the right to list, a store says of each object that is missing that it is denied.
            Err(error) if error.kind == ErrorKind::PermissionDenied && status == 404 => Ok(None),
            Err(error) => Err(Error { during: INSPECTING.into(), ..error }),
        }
    }

    pub(super) async fn get(
        self: &Arc<Self>,
        key: &str,
        range: Option<Extent>,
        version: Option<&ObjectVersion>,
    ) -> Result<ObjectBody> {
        let begun = self.open_object(key, range, version, false).await?;
        Ok(resumed(Arc::clone(self), key, begun))
    }

    /// Asks for an object or a range of it. Returns the range that its body has.
    async fn open_object(
        &self,
        key: &str,
        range: Option<Extent>,
        version: Option<&ObjectVersion>,
        is_same: bool,
    ) -> Result<BegunBody> {
        let mut request = S3Request::new(RequestKind::Get, Method::GET, READING).key(key);
        if let Some(range) = range {
            let last = range.end().saturating_sub(1);
            request = request.header(RANGE, &format!("bytes={}-{last}", range.offset))?;
        } else {
            request = request.header(CHECKSUM_MODE, "ENABLED")?;
        }
        if let Some(etag) = version.and_then(|version| version.etag.as_deref()) {
            request = request.header(IF_MATCH, etag)?;
        }
        let failed = |failure| self.get_failed(&request, key, failure, version.is_some() || is_same);
        let answer = self.open(&request).await.map_err(failed)?;
        let wrong = |cause| self.error_of(ErrorKind::Protocol, READING, key, cause);
        let (found, size_bytes) =
            answered_range((answer.status, &answer.headers), answer.length, range).map_err(wrong)?;
        let head = head_of(&answer.headers, size_bytes).ok_or_else(|| wrong("the answer has no time"))?;
        if version.is_some_and(|version| !may_be(version, &head)) {
            return Err(self.error_of(ErrorKind::SourceChanged, READING, key, REPLACED));
        }
        Ok(BegunBody { head, body: answer.body, range: found })
    }

    fn get_failed(
        &self,
        request: &S3Request<'_>,
        key: &str,
        failure: S3Failure,
        is_versioned: bool,
    ) -> Error {
        if let S3Failure::Refused { refusal, .. } = &failure {
            match refusal.status {
                412 => return self.error_of(ErrorKind::SourceChanged, READING, key, REPLACED),
                416 if is_versioned => {
                    return self.error_of(
                        ErrorKind::SourceChanged,
                        READING,
                        key,
                        "the object is shorter now",
                    );
                }
                404 if refusal.is(&["NoSuchKey"]) => {
                    return self.error_of(
                        ErrorKind::SourceVanished,
                        READING,
                        key,
                        "the object does not exist any more",
                    );
                }
                _ => {}
            }
        }
        self.error(request, failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn heads_have_what_the_store_keeps() {
        let all = headers(&[
            ("last-modified", "Fri, 27 Nov 2026 10:00:00 GMT"),
            ("etag", "\"e\""),
            ("x-amz-meta-mtime", "1.5"),
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
            ("x-amz-storage-class", "GLACIER"),
        ]);
        let head = head_of(&all, 9).unwrap();
        assert_eq!(head.metadata, [("mtime".to_owned(), "1.5".to_owned())]);
        assert_eq!(head.checksum, Some(StoredChecksum::Crc64(0xae8b_1486_0a79_9888)));
        assert!(head.is_archived && head.uploaded.seconds == 1_795_773_600);
        let mut restored = all.clone();
        restored.insert("x-amz-restore", "ongoing-request=\"false\", expiry-date=\"x\"".parse().unwrap());
        restored.insert("x-amz-checksum-type", "COMPOSITE".parse().unwrap());
        let head = head_of(&restored, 9).unwrap();
        assert!(!head.is_archived && head.checksum.is_none());
        assert_eq!(head_of(&HeaderMap::new(), 9), None);
    }
}
