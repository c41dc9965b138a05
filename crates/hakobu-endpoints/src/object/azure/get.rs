//! Objects and their metadata: Get Blob and Get Blob Properties.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use hakobu_core::entry::FileTime;
use hakobu_core::extent::Extent;
use hakobu_core::{Error, ErrorKind, Result};
use http::header::{CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MATCH, LAST_MODIFIED, RANGE};
use http::{HeaderMap, Method};

use super::list::tier;
use super::refusal::AzureRefusal;
use super::request::{AzureFailure, AzureLane, AzureRequest, blob_name};
use super::spelling::{etag_of, md5_of};
use crate::object::answered_range::answered_range;
use crate::object::api::{ObjectBody, ObjectHead, ObjectVersion, StoredChecksum};
use crate::object::counts::RequestKind;
use crate::object::resumed_body::{BegunBody, REPLACED, RangeReader, resumed};
use crate::object::retry::RetryPlan;

const READING: &str = "reading the object";
pub(super) const INSPECTING: &str = "inspecting the object";
pub(super) const METADATA_PREFIX: &str = "x-ms-meta-";
/// The name that marks a directory's own object.
const FOLDER: &str = "hdi_isfolder";
/// The names that AzCopy adds to it for what is no directory.
const NO_FOLDERS: [&str; 2] = ["is_socket", "is_block_dev"];

/// Returns true if metadata is that of a directory's own object.
pub(super) fn is_folder(metadata: &[(String, String)]) -> bool {
    let is_true = |names: &[&str]| {
        metadata
            .iter()
            .any(|(name, value)| names.contains(&name.as_str()) && value.eq_ignore_ascii_case("true"))
    };
    is_true(&[FOLDER]) && !is_true(&NO_FOLDERS)
}

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
    let is_inferred = text("x-ms-access-tier-inferred").is_some_and(|inferred| inferred == "true");
    let (storage_class, is_archived) = tier(&text("x-ms-access-tier").unwrap_or_default(), is_inferred);
    // The answer to a range has the digest of that range, and this one of the whole.
    let md5 = match headers.contains_key(CONTENT_RANGE) {
        true => text("x-ms-blob-content-md5"),
        false => text("content-md5"),
    };
    Some(ObjectHead {
        size_bytes,
        uploaded: FileTime { seconds, nanoseconds: 0 },
        version: ObjectVersion {
            etag: text(ETAG.as_str()).and_then(|etag| etag_of(&etag)),
            generation: None,
        },
        metadata: metadata.collect(),
        content_type: text(CONTENT_TYPE.as_str()),
        checksum: md5.and_then(|text| md5_of(&text)).map(StoredChecksum::Md5),
        md5: None,
        storage_class,
        is_archived,
    })
}

impl RangeReader for Arc<AzureLane> {
    fn retry_plan(&self) -> RetryPlan {
        self.container.http.retry_plan()
    }

    fn reading_error(&self, kind: ErrorKind, key: &str, cause: &str) -> Error {
        self.error_of(kind, READING, key, cause)
    }

    async fn read_rest(&self, key: &str, rest: Extent, head: &ObjectHead) -> Result<BegunBody> {
        self.open_object(key, Some(rest), Some(&head.version)).await
    }
}

impl AzureLane {
    /// Returns the metadata of an object. A key with a slash at its end is that of a directory's own object.
    pub(super) async fn head(&self, key: &str) -> Result<Option<ObjectHead>> {
        let head = self.blob_head(key, INSPECTING).await?;
        let is_marker = key.ends_with('/');
        Ok(head.map(|(head, _)| head).filter(|head| !is_marker || is_folder(&head.metadata)))
    }

    /// Returns the metadata of the blob with a key, and the head that it came from.
    pub(super) async fn blob_head(
        &self,
        key: &str,
        during: &'static str,
    ) -> Result<Option<(ObjectHead, HeaderMap)>> {
        let request = AzureRequest::new(RequestKind::Head, Method::HEAD, during).key(key);
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(AzureFailure::Refused { refusal, .. }) if refusal.is_missing_blob() => return Ok(None),
            Err(failure) => return Err(self.head_failed(&request, key, failure).await),
        };
        let head = answer.length.and_then(|size_bytes| head_of(&answer.headers, size_bytes));
        let wrong = || self.error_of(ErrorKind::Protocol, during, key, "the answer has no size or no time");
        Ok(Some((head.ok_or_else(wrong)?, answer.headers)))
    }

    /// Finds out what a failed HEAD means: its answer has a code at most. That of a GET has the reason.
    async fn head_failed(&self, request: &AzureRequest<'_>, key: &str, failure: AzureFailure) -> Error {
        let lacks_words = matches!(
            &failure,
            AzureFailure::Refused { refusal, .. }
                if refusal.needs_words() && matches!(refusal.status, 400 | 401 | 403 | 404)
        );
        let byte = Extent { offset: 0, length: 1 };
        match lacks_words {
            true => match self.open_object(key, Some(byte), None).await {
                Err(error) if error.kind != ErrorKind::SourceVanished => {
                    Error { during: INSPECTING.into(), ..error }
                }
                _ => self.error(request, failure),
            },
            false => self.error(request, failure),
        }
    }

    pub(super) async fn get(
        self: &Arc<Self>,
        key: &str,
        range: Option<Extent>,
        version: Option<&ObjectVersion>,
    ) -> Result<ObjectBody> {
        let begun = self.open_object(key, range, version).await?;
        if is_folder(&begun.head.metadata) && !key.ends_with('/') {
            let cause = "a directory has taken the place of the object";
            return Err(self.error_of(ErrorKind::SourceVanished, READING, key, cause));
        }
        Ok(resumed(Arc::clone(self), key, begun))
    }

    /// Asks for an object or a range of it.
    async fn open_object(
        &self,
        key: &str,
        range: Option<Extent>,
        version: Option<&ObjectVersion>,
    ) -> Result<BegunBody> {
        let mut request = AzureRequest::new(RequestKind::Get, Method::GET, READING).key(key);
        if let Some(range) = range {
            let last = range.end().saturating_sub(1);
            request = request.header(RANGE, &format!("bytes={}-{last}", range.offset))?;
        }
        if let Some(etag) = version.and_then(|version| version.etag.as_deref()) {
            request = request.header(IF_MATCH, etag)?;
        }
        let failed = |failure| self.get_failed(&request, key, failure, version.is_some());
        let answer = self.open(&request).await.map_err(failed)?;
        let wrong = |cause| self.error_of(ErrorKind::Protocol, READING, key, cause);
        let (range, size_bytes) =
            answered_range((answer.status, &answer.headers), answer.length, range).map_err(wrong)?;
        let head = head_of(&answer.headers, size_bytes).ok_or_else(|| wrong("the answer has no time"))?;
        if head.is_archived {
            // Azure itself refuses to read it. Emulators do not, and what works there should not fail with Azure.
            let refusal = AzureRefusal::archived();
            return Err(self.error(&request, AzureFailure::Refused { refusal, may_be_done: false }));
        }
        // Something between here and there may ignore conditions.
        let is_other = version.is_some_and(|version| {
            version.etag.is_some() && version.etag != head.version.etag && head.version.etag.is_some()
        });
        if is_other {
            return Err(self.error_of(ErrorKind::SourceChanged, READING, key, REPLACED));
        }
        Ok(BegunBody { head, body: answer.body, range })
    }

    fn get_failed(
        &self,
        request: &AzureRequest<'_>,
        key: &str,
        failure: AzureFailure,
        is_versioned: bool,
    ) -> Error {
        let told = |kind, cause| self.error_of(kind, READING, blob_name(key), cause);
        if let AzureFailure::Refused { refusal, .. } = &failure {
            if refusal.is_condition() {
                return told(ErrorKind::SourceChanged, REPLACED);
            }
            if refusal.status == 416 && is_versioned {
                return told(ErrorKind::SourceChanged, "the object is shorter now");
            }
            if refusal.is_missing_blob() {
                return told(ErrorKind::SourceVanished, "the object does not exist any more");
            }
        }
        self.error(request, failure)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn heads_have_what_the_store_keeps() {
        let all = [
            ("last-modified", "Fri, 27 Nov 2026 10:00:00 GMT"),
            ("etag", "\"0x8DC\""),
            ("x-ms-meta-mtime", "1.5"),
            ("x-ms-meta-hdi_isfolder", "True"),
            ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
            ("x-ms-access-tier", "Archive"),
        ];
        let pairs = all.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut all: HeaderMap = pairs.into_iter().collect();
        let head = head_of(&all, 9).unwrap();
        assert!(head.metadata.contains(&("mtime".to_owned(), "1.5".to_owned())) && is_folder(&head.metadata));
        assert!(matches!(head.checksum, Some(StoredChecksum::Md5([0xd4, 0x1d, ..]))));
        assert!(head.is_archived && head.uploaded.seconds == 1_795_773_600);
        assert_eq!(head.version.etag.as_deref(), Some("\"0x8DC\""));
        all.insert(CONTENT_RANGE, "bytes 0-1/9".parse().unwrap());
        assert!(head_of(&all, 9).unwrap().checksum.is_none(), "it is that of the range");
        assert_eq!(head_of(&HeaderMap::new(), 9), None);
    }
}
