//! Objects and their metadata.
//!
//! Metadata comes from the interface in JSON. Content comes from the one in XML, whose answers have the metadata as well.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use hakobu_core::entry::FileTime;
use hakobu_core::extent::Extent;
use hakobu_core::{Error, ErrorKind, Result};
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderName, Method};

use super::request::{GcsFailure, GcsLane, GcsRequest};
use super::resource::{FIELDS, ObjectResource, storage_class, uploaded};
use crate::object::answered_range::answered_range;
use crate::object::api::{ListQuery, ListStart, ObjectBody, ObjectHead, ObjectVersion, StoredChecksum};
use crate::object::counts::RequestKind;
use crate::object::exchange::ApiAnswer;
use crate::object::http::{AnswerBody, HttpFailure};
use crate::object::resumed_body::{BegunBody, REPLACED, RangeReader, resumed};
use crate::object::retry::RetryPlan;
use crate::object::s3::spelling::crc32c_of;

const READING: &str = "reading the object";
const INSPECTING: &str = "inspecting the object";
const METADATA_PREFIX: &str = "x-goog-meta-";
const GENERATION: &str = "x-goog-generation";
const IF_GENERATION: HeaderName = HeaderName::from_static("x-goog-if-generation-match");
const STORED_LENGTH: &str = "x-goog-stored-content-length";
const HASH: &str = "x-goog-hash";
/// The largest object that is read as a whole.
const WHOLE_BYTES_MAX: usize = 1 << 20;
const VANISHED: &str = "the object does not exist any more";

/// Returns the CRC-32C in the head of an answer.
pub(super) fn crc32c_in(headers: &HeaderMap) -> Option<u32> {
    let values = headers.get_all(HASH).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).find_map(|hash| crc32c_of(hash.trim().strip_prefix("crc32c=")?))
}

/// Returns the metadata in the head of an answer.
fn head_of(headers: &HeaderMap, size_bytes: u64) -> Option<ObjectHead> {
    let text =
        |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let modified = || {
        let date = httpdate::parse_http_date(headers.get(LAST_MODIFIED)?.to_str().ok()?).ok()?;
        let seconds = date.duration_since(UNIX_EPOCH).ok()?.as_secs() as i64;
        Some(FileTime { seconds, nanoseconds: 0 })
    };
    let metadata = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(METADATA_PREFIX)?;
        Some((name.to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    let generation = text(GENERATION).and_then(|text| text.parse().ok());
    Some(ObjectHead {
        size_bytes,
        uploaded: uploaded(generation, modified)?,
        version: ObjectVersion { etag: None, generation },
        metadata: metadata.collect(),
        content_type: text(CONTENT_TYPE.as_str()),
        checksum: crc32c_in(headers).map(StoredChecksum::Crc32c),
        md5: None,
        storage_class: storage_class(&text("x-goog-storage-class").unwrap_or_default()),
        is_archived: false,
    })
}

impl RangeReader for Arc<GcsLane> {
    fn retry_plan(&self) -> RetryPlan {
        self.bucket.http.retry_plan()
    }

    fn reading_error(&self, kind: ErrorKind, key: &str, cause: &str) -> Error {
        self.error_of(kind, READING, key, cause)
    }

    async fn read_rest(&self, key: &str, rest: Extent, head: &ObjectHead) -> Result<BegunBody> {
        self.open_object(key, Some(rest), Some(&head.version)).await
    }
}

impl GcsLane {
    pub(super) async fn head(&self, key: &str) -> Result<Option<ObjectHead>> {
        let request =
            GcsRequest::new(RequestKind::Head, Method::GET, INSPECTING, self.bucket.target.resource(key))
                .key(key)
                .query("fields", FIELDS);
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(failure) => {
                return match self.missing(&failure, INSPECTING).await? {
                    true => Ok(None),
                    false => Err(self.error(&request, failure)),
                };
            }
        };
        let resource = serde_json::from_slice::<ObjectResource>(&answer.body).ok();
        let head = resource.and_then(ObjectResource::head);
        let wrong = || self.error_of(ErrorKind::Protocol, INSPECTING, key, "the answer is no object");
        head.map(Some).ok_or_else(wrong)
    }

    /// Returns true if a request failed because its object does not exist, as opposed to the bucket.
    ///
    /// # Errors
    /// If the bucket does not exist, or is none.
    pub(super) async fn missing(&self, failure: &GcsFailure, during: &'static str) -> Result<bool> {
        let GcsFailure::Refused { refusal, .. } = failure else { return Ok(false) };
        if refusal.is_missing_object() {
            self.bucket.set_known();
            return Ok(true);
        }
        if refusal.status != 404 {
            return Ok(false);
        }
        if self.bucket.is_known() {
            return Ok(true);
        }
        // Servers that are not Google's say of both that they are not found.
        let query =
            ListQuery { prefix: "", delimiter: false, start: ListStart::First, until: None, entries: 1 };
        match self.list(query).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ErrorKind::PermissionDenied => Ok(true),
            Err(error) => Err(Error { during: during.into(), ..error }),
        }
    }

    pub(super) async fn get(
        self: &Arc<Self>,
        key: &str,
        range: Option<Extent>,
        version: Option<&ObjectVersion>,
    ) -> Result<ObjectBody> {
        let begun = self.open_object(key, range, version).await?;
        Ok(resumed(Arc::clone(self), key, begun))
    }

    /// Asks for an object or a range of it.
    async fn open_object(
        &self,
        key: &str,
        range: Option<Extent>,
        version: Option<&ObjectVersion>,
    ) -> Result<BegunBody> {
        let lacks_xml = self.bucket.lacks_xml.load(Ordering::Relaxed);
        let target = &self.bucket.target;
        let url = if lacks_xml { target.resource(key) } else { target.xml_object(key) };
        // Objects that are stored compressed come as they are stored.
        let mut request = GcsRequest::new(RequestKind::Get, Method::GET, READING, url)
            .key(key)
            .header(ACCEPT_ENCODING, "gzip")?;
        if let Some(range) = range {
            let last = range.end().saturating_sub(1);
            request = request.header(RANGE, &format!("bytes={}-{last}", range.offset))?;
        }
        let generation = version.and_then(|version| version.generation);
        let condition = generation.map(|generation| generation.to_string());
        request = match (condition, lacks_xml) {
            (Some(generation), true) => request.query("ifGenerationMatch", generation),
            (Some(generation), false) => request.header(IF_GENERATION, &generation)?,
            (None, _) => request,
        };
        if lacks_xml {
            request = request.query("alt", "media");
        }
        let answer = match self.open(&request).await {
            Ok(answer) => answer,
            Err(failure) if !lacks_xml && self.shows_no_xml(key, &failure).await? => {
                self.bucket.lacks_xml.store(true, Ordering::Relaxed);
                return Box::pin(self.open_object(key, range, version)).await;
            }
            Err(failure) => return Err(self.get_failed(&request, key, failure, version.is_some()).await),
        };
        let wrong = |cause| self.error_of(ErrorKind::Protocol, READING, key, cause);
        let (range, size_bytes) = placed(&answer, range).map_err(wrong)?;
        let mut head = head_of(&answer.headers, size_bytes).ok_or_else(|| wrong("the answer has no time"))?;
        let replaced = || self.error_of(ErrorKind::SourceChanged, READING, key, REPLACED);
        // Some servers ignore the condition.
        if generation.is_some() && head.version.generation.is_some() && head.version.generation != generation
        {
            return Err(replaced());
        }
        if lacks_xml {
            let known = self.head(key).await?.filter(|known| known.version == head.version);
            head = known.ok_or_else(replaced)?;
        }
        Ok(BegunBody { head, body: answer.body, range })
    }

    /// Returns true if a server that is not Google's does not know an object in its interface in XML, and knows it in that
    /// in JSON: an emulator that is reached by another name than its own.
    async fn shows_no_xml(&self, key: &str, failure: &GcsFailure) -> Result<bool> {
        match failure {
            GcsFailure::Refused { refusal, .. }
                if refusal.status == 404 && !refusal.is_missing_object() && !self.bucket.target.is_google =>
            {
                Ok(self.head(key).await?.is_some())
            }
            _ => Ok(false),
        }
    }

    /// Returns the content of a small object; `None` if it does not exist.
    pub(super) async fn read_whole(&self, key: &str) -> Result<Option<Bytes>> {
        let begun = match self.open_object(key, None, None).await {
            Ok(begun) => begun,
            Err(error) if error.kind == ErrorKind::SourceVanished => return Ok(None),
            Err(error) => return Err(error),
        };
        let body = begun.body.read_all(WHOLE_BYTES_MAX).await;
        let failed = |failure: HttpFailure| failure.into_error(READING).at(self.bucket.location_of(key));
        body.map(Some).map_err(failed)
    }

    async fn get_failed(
        &self,
        request: &GcsRequest<'_>,
        key: &str,
        failure: GcsFailure,
        is_versioned: bool,
    ) -> Error {
        if let GcsFailure::Refused { refusal, .. } = &failure {
            match refusal.status {
                412 => return self.error_of(ErrorKind::SourceChanged, READING, key, REPLACED),
                416 if is_versioned => {
                    let cause = "the object is shorter now";
                    return self.error_of(ErrorKind::SourceChanged, READING, key, cause);
                }
                _ => {}
            }
        }
        match self.missing(&failure, READING).await {
            Ok(true) => self.error_of(ErrorKind::SourceVanished, READING, key, VANISHED),
            Ok(false) => self.error(request, failure),
            Err(error) => error,
        }
    }
}

/// Returns what [`answered_range`] does, for content that is not unpacked on the way.
fn placed(answer: &ApiAnswer<AnswerBody>, range: Option<Extent>) -> Result<(Extent, u64), &'static str> {
    let (found, size_bytes) = answered_range((answer.status, &answer.headers), answer.length, range)?;
    let stored = answer.header(STORED_LENGTH).filter(|_| range.is_none());
    match stored.is_some_and(|stored| stored.parse() != Ok(found.length)) {
        true => Err("the content does not come as it is stored"),
        false => Ok((found, size_bytes)),
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
        let mut all = headers(&[
            ("last-modified", "Fri, 27 Nov 2026 10:00:00 GMT"),
            ("x-goog-generation", "1795788191531093"),
            ("x-goog-meta-mtime", "1.5"),
            ("x-goog-hash", "md5=JfnnlDI7RTiF9RgfG2JNCw==, crc32c=4waSgw=="),
        ]);
        let head = head_of(&all, 9).unwrap();
        assert_eq!(head.metadata, [("mtime".to_owned(), "1.5".to_owned())]);
        assert_eq!(head.checksum, Some(StoredChecksum::Crc32c(0xe306_9283)));
        assert_eq!(
            (head.uploaded.seconds, head.version.generation),
            (1_795_788_191, Some(1_795_788_191_531_093))
        );
        all.remove("x-goog-generation");
        assert_eq!(head_of(&all, 9).unwrap().uploaded.seconds, 1_795_773_600);
        // Each in a header of its own, as Google sends them.
        let mut two = headers(&[("x-goog-hash", "md5=JfnnlDI7RTiF9RgfG2JNCw==")]);
        two.append("x-goog-hash", "crc32c=4waSgw==".parse().unwrap());
        assert_eq!(crc32c_in(&two), Some(0xe306_9283));
        assert_eq!(head_of(&HeaderMap::new(), 9), None);
    }
}
