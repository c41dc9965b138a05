//! Azure Blob Storage, and servers with its interface.
//!
//! [`request`] signs requests, sends them and judges the answers; a module per kind of request is beside it. The object of
//! a directory, whose key ends with a slash, is a blob without that slash and with a mark in its metadata, as Azure's own
//! tools have it.

mod blocks;
mod copy;
mod delete;
mod get;
mod list;
mod put;
mod refusal;
mod request;
mod spelling;
mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hakobu_core::Result;
use hakobu_core::extent::Extent;
use hakobu_core::key_spelling::KeySpelling;

use super::api::{
    ApiReply, Bucket, ChecksumKind, ClockOffset, CompleteUpload, CopyObject, CopyPart, ListQuery, ObjectApi,
    ObjectBody, ObjectHead, ObjectPage, ObjectProperties, ObjectVersion, PartTag, PutObject, PutPart,
    RequestCounts, StoreLimits, StoredObject, UnfinishedUpload, UploadId,
};
pub use super::credentials::azure::AzureEnvironment;
use super::credentials::azure::{AzureConfiguration, AzureCredentials};
use super::http::{HttpClient, HttpLimits, HttpShared};
use super::metadata::MetadataConvention;
pub use put::AzureNewObjects;
use request::AzureLane;
use target::AzureTarget;

/// The limits of Azure.
const LIMITS: StoreLimits = StoreLimits {
    part_bytes_min: 1,
    part_bytes_max: 4000 << 20,
    parts_max: 50_000,
    object_bytes_max: 50_000 * (4000 << 20),
    put_bytes_max: 5000 << 20,
    copy_bytes_max: 50_000 * (4000 << 20),
    // They are counted in UTF-16 units, which take three bytes at most.
    key_bytes_max: 3072,
    metadata_bytes_max: 8192,
    delete_batch: 256,
    list_page: 5000,
    // Prefixes and blobs are in an order of their own.
    lists_bytewise: false,
    lists_metadata: true,
    conditional_put: true,
    checksum: Some(ChecksumKind::Crc64),
    convention: MetadataConvention::Azure,
    spelling: KeySpelling::Azure,
};

/// A container to open, and how.
#[derive(Clone, Debug, Default)]
pub struct AzureSettings {
    /// The name of the container.
    pub container: String,
    /// The storage account; `None` for that of the environment.
    pub account: Option<String>,
    /// The URL of the account's blobs; `None` for that of the environment, or else of Azure.
    pub endpoint: Option<String>,
    /// True to send no credentials at all, for public containers.
    pub is_anonymous: bool,
    /// The variables with account and credentials.
    pub environment: AzureEnvironment,
    /// The properties of objects that are written.
    pub new_objects: AzureNewObjects,
    /// Time limits.
    pub limits: HttpLimits,
}

/// An opened container.
pub struct AzureContainer {
    /// The location as it was typed.
    location: String,
    target: AzureTarget,
    new_objects: AzureNewObjects,
    http: Arc<HttpShared>,
    credentials: AzureCredentials,
    /// True since the store has answered anything.
    has_answered: AtomicBool,
}

impl AzureContainer {
    /// Reads credentials and configuration. Nothing is sent to the store. Do not call it on a runtime.
    ///
    /// # Errors
    /// `Unauthenticated` if there are no credentials, `Usage` if the account is not known or the endpoint cannot be one.
    pub fn open(settings: AzureSettings) -> Result<Arc<Self>> {
        let AzureSettings { container, account, endpoint, is_anonymous, environment, new_objects, limits } =
            settings;
        let configured = AzureConfiguration::of(&environment, account.as_deref())?;
        let target = match (&endpoint, &configured.endpoint) {
            (Some(typed), _) => match AzureTarget::new(&container, account.as_deref(), Some(typed))? {
                // It does not tell the account.
                target if target.account.is_empty() => {
                    AzureTarget::new(&container, configured.account.as_deref(), Some(typed))?
                }
                target => target,
            },
            (None, told) => AzureTarget::new(&container, configured.account.as_deref(), told.as_deref())?,
        };
        let credentials = match is_anonymous {
            true => AzureCredentials::none(),
            false => AzureCredentials::load(&environment, &target.account)?,
        };
        let location = match account {
            Some(account) => format!("az://{container}@{account}"),
            None => format!("az://{container}"),
        };
        let http = Arc::new(HttpShared { limits, ..HttpShared::default() });
        let has_answered = AtomicBool::new(false);
        Ok(Arc::new(Self { location, target, new_objects, http, credentials, has_answered }))
    }

    fn set_answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Returns the longest time from the first attempt of a request to the beginning of the last one.
    fn retries(&self) -> Duration {
        let HttpLimits { retries, first_answer, .. } = self.http.limits;
        if self.has_answered.load(Ordering::Relaxed) { retries } else { retries.min(first_answer) }
    }

    fn location_of(&self, key: &str) -> String {
        format!("{}/{key}", self.location)
    }
}

/// An opened container as lanes have it.
impl Bucket for Arc<AzureContainer> {
    fn location(&self, key: &str) -> String {
        self.location_of(key)
    }

    fn identity(&self) -> String {
        format!("{}{}", self.target.origin, self.target.path())
    }

    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn requests(&self) -> RequestCounts {
        self.http.counters.counts()
    }

    fn clock(&self) -> Option<ClockOffset> {
        self.http.clock.offset()
    }

    fn connect(&self) -> Result<Box<dyn ObjectApi>> {
        let http = HttpClient::new(Arc::clone(&self.http))?;
        Ok(Box::new(Arc::new(AzureLane { container: Arc::clone(self), http })))
    }
}

impl ObjectApi for Arc<AzureLane> {
    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> ApiReply<'a, ObjectPage> {
        Box::pin(AzureLane::list(self, query))
    }

    fn head<'a>(&'a self, key: &'a str) -> ApiReply<'a, Option<ObjectHead>> {
        Box::pin(AzureLane::head(self, key))
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        range: Option<Extent>,
        version: Option<&'a ObjectVersion>,
    ) -> ApiReply<'a, ObjectBody> {
        Box::pin(AzureLane::get(self, key, range, version))
    }

    fn put<'a>(&'a self, object: PutObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(AzureLane::put(self, object))
    }

    fn copy<'a>(&'a self, copy: CopyObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(AzureLane::copy(self, copy))
    }

    fn delete<'a>(&'a self, keys: &'a [String]) -> ApiReply<'a, Vec<Result<()>>> {
        Box::pin(AzureLane::delete(self, keys))
    }

    fn begin_upload<'a>(&'a self, key: &'a str, properties: &'a ObjectProperties) -> ApiReply<'a, UploadId> {
        Box::pin(async move { AzureLane::begin_upload(self, key, properties) })
    }

    fn put_part<'a>(&'a self, part: PutPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(AzureLane::put_part(self, part))
    }

    fn copy_part<'a>(&'a self, part: CopyPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(AzureLane::copy_part(self, part))
    }

    fn list_parts<'a>(&'a self, key: &'a str, _: &'a UploadId) -> ApiReply<'a, Option<Vec<PartTag>>> {
        Box::pin(AzureLane::list_parts(self, key))
    }

    fn complete_upload<'a>(&'a self, upload: CompleteUpload<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(AzureLane::complete_upload(self, upload))
    }

    /// Does nothing: the store removes blocks that no list has named after a week, and knows no request for it.
    fn abort_upload<'a>(&'a self, _: &'a str, _: &'a UploadId) -> ApiReply<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Returns none: there are only blocks that wait, and nothing to abort.
    fn list_uploads<'a>(&'a self, _: &'a str) -> ApiReply<'a, Vec<UnfinishedUpload>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
