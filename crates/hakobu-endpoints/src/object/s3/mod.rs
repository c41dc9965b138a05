//! S3, and stores with its interface.
//!
//! [`request`] signs requests, sends them and judges the answers; a module per kind of request is beside it.

mod copy;
mod delete;
mod get;
mod list;
mod multipart;
mod put;
mod refusal;
mod request;
mod sign;
mod spelling;
mod target;
mod xml;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hakobu_core::Result;
use hakobu_core::extent::Extent;
use hakobu_core::key_spelling::KeySpelling;

use super::api::{
    ApiReply, Bucket, ChecksumKind, ClockOffset, CompleteUpload, CopyObject, CopyPart, ListQuery, ObjectApi,
    ObjectBody, ObjectHead, ObjectPage, ObjectProperties, ObjectVersion, PartTag, PutObject, PutPart,
    RequestCounts, StoreLimits, StoredObject, UnfinishedUpload, UploadId,
};
use super::credentials::aws::AwsCredentials;
pub use super::credentials::aws::AwsSettings;
use super::http::{HttpClient, HttpLimits, HttpShared};
use super::metadata::MetadataConvention;
pub use put::S3NewObjects;
use request::S3Lane;
use sign::Signer;
use target::S3Target;

/// The limits of S3. Stores with its interface have the same or wider ones.
const LIMITS: StoreLimits = StoreLimits {
    part_bytes_min: 5 << 20,
    part_bytes_max: 5 << 30,
    parts_max: 10_000,
    object_bytes_max: 10_000 * (5 << 30),
    put_bytes_max: 5 << 30,
    copy_bytes_max: 5 << 30,
    key_bytes_max: 1024,
    metadata_bytes_max: 2048,
    delete_batch: 1000,
    list_page: 1000,
    lists_bytewise: true,
    lists_metadata: false,
    conditional_put: true,
    checksum: Some(ChecksumKind::Crc64),
    convention: MetadataConvention::S3,
    spelling: KeySpelling::S3,
};

/// A bucket to open, and how.
#[derive(Clone, Debug, Default)]
pub struct S3Settings {
    /// The name of the bucket.
    pub bucket: String,
    /// The URL of the endpoint; `None` for that of the configuration, or else of AWS.
    pub endpoint: Option<String>,
    /// The region; `None` for that of the configuration.
    pub region: Option<String>,
    /// The credentials.
    pub credentials: AwsSettings,
    /// True to agree to pay for requests to somebody else's bucket.
    pub pays_requests: bool,
    /// The properties of objects that are written.
    pub new_objects: S3NewObjects,
    /// Time limits.
    pub limits: HttpLimits,
}

/// An opened bucket.
pub struct S3Bucket {
    name: String,
    /// What tells it from all other buckets.
    identity: String,
    pays_requests: bool,
    new_objects: S3NewObjects,
    http: Arc<HttpShared>,
    credentials: AwsCredentials,
    /// Where requests go. The store may name another region once.
    target: Mutex<Arc<S3Target>>,
    /// True since a request for it or something in it succeeded: from then on, a missing object is only that.
    exists: AtomicBool,
    /// True since the store has answered anything.
    has_answered: AtomicBool,
}

impl S3Bucket {
    /// Reads credentials and configuration. Nothing is sent to the store. Do not call it on a runtime.
    ///
    /// # Errors
    /// `Unauthenticated` if there are no credentials, `Usage` if the endpoint or the name of the bucket cannot be one.
    pub fn open(settings: S3Settings) -> Result<Arc<Self>> {
        let (credentials, configured) = AwsCredentials::load(settings.credentials)?;
        let endpoint = settings.endpoint.or(configured.endpoint);
        let region = settings.region.unwrap_or(configured.region);
        let target = S3Target::new(&settings.bucket, endpoint.as_deref(), &region)?;
        let identity = format!("{} {}", endpoint.as_deref().unwrap_or("aws"), settings.bucket);
        let http = HttpShared { limits: settings.limits, ..HttpShared::default() };
        Ok(Arc::new(Self {
            name: settings.bucket,
            identity,
            pays_requests: settings.pays_requests,
            new_objects: settings.new_objects,
            http: Arc::new(http),
            credentials,
            target: Mutex::new(Arc::new(target)),
            exists: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
        }))
    }

    fn target(&self) -> Arc<S3Target> {
        Arc::clone(&self.target.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_known(&self) -> bool {
        self.exists.load(Ordering::Relaxed)
    }

    fn set_answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Returns the longest time from the first attempt of a request to the beginning of the last one.
    fn retries(&self) -> Duration {
        let HttpLimits { retries, first_answer, .. } = self.http.limits;
        if self.has_answered.load(Ordering::Relaxed) { retries } else { retries.min(first_answer) }
    }

    fn set_known(&self) {
        self.exists.store(true, Ordering::Relaxed);
    }

    fn set_target(&self, target: S3Target) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(target);
    }

    fn location_of(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }
}

/// An opened bucket as lanes have it.
impl Bucket for Arc<S3Bucket> {
    fn location(&self, key: &str) -> String {
        self.location_of(key)
    }

    fn identity(&self) -> String {
        self.identity.clone()
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

    fn answer_time(&self) -> Option<Duration> {
        self.http.answer_time.least()
    }

    fn connect(&self) -> Result<Box<dyn ObjectApi>> {
        let http = HttpClient::new(Arc::clone(&self.http))?;
        let lane = S3Lane { bucket: Arc::clone(self), http, signer: Signer::default() };
        Ok(Box::new(Arc::new(lane)))
    }
}

impl ObjectApi for Arc<S3Lane> {
    fn limits(&self) -> &StoreLimits {
        &LIMITS
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> ApiReply<'a, ObjectPage> {
        Box::pin(S3Lane::list(self, query))
    }

    fn head<'a>(&'a self, key: &'a str) -> ApiReply<'a, Option<ObjectHead>> {
        Box::pin(S3Lane::head(self, key))
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        range: Option<Extent>,
        version: Option<&'a ObjectVersion>,
    ) -> ApiReply<'a, ObjectBody> {
        Box::pin(S3Lane::get(self, key, range, version))
    }

    fn put<'a>(&'a self, object: PutObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(S3Lane::put(self, object))
    }

    fn copy<'a>(&'a self, copy: CopyObject<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(S3Lane::copy(self, copy))
    }

    fn delete<'a>(&'a self, keys: &'a [String]) -> ApiReply<'a, Vec<Result<()>>> {
        Box::pin(S3Lane::delete(self, keys))
    }

    fn begin_upload<'a>(&'a self, key: &'a str, properties: &'a ObjectProperties) -> ApiReply<'a, UploadId> {
        Box::pin(S3Lane::begin_upload(self, key, properties))
    }

    fn put_part<'a>(&'a self, part: PutPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(S3Lane::put_part(self, part))
    }

    fn copy_part<'a>(&'a self, part: CopyPart<'a>) -> ApiReply<'a, PartTag> {
        Box::pin(S3Lane::copy_part(self, part))
    }

    fn list_parts<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, Option<Vec<PartTag>>> {
        Box::pin(S3Lane::list_parts(self, key, upload))
    }

    fn complete_upload<'a>(&'a self, upload: CompleteUpload<'a>) -> ApiReply<'a, StoredObject> {
        Box::pin(S3Lane::complete_upload(self, upload))
    }

    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> ApiReply<'a, ()> {
        Box::pin(S3Lane::abort_upload(self, key, upload))
    }

    fn list_uploads<'a>(&'a self, prefix: &'a str) -> ApiReply<'a, Vec<UnfinishedUpload>> {
        Box::pin(S3Lane::list_uploads(self, prefix))
    }
}
