//! Buckets, shared by the lanes of an endpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hakobu_core::Result;
use hakobu_core::key_spelling::KeySpelling;
use hakobu_core::store_settings::{BucketAddressing, ServerEncryption};

use super::target::S3Target;
use crate::object::api::{ChecksumKind, StoreLimits};
use crate::object::credentials::aws::{AwsCredentials, AwsSettings};
use crate::object::http::{HttpLimits, HttpShared};
use crate::object::metadata::MetadataConvention;

/// The limits of S3. Stores with its interface have the same or wider ones.
pub(crate) const LIMITS: StoreLimits = StoreLimits {
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
    /// The form of the bucket's URL.
    pub addressing: BucketAddressing,
    /// The credentials.
    pub credentials: AwsSettings,
    /// True to agree to pay for requests to somebody else's bucket.
    pub pays_requests: bool,
    /// The properties of objects that are written.
    pub new_objects: S3NewObjects,
    /// Time limits.
    pub limits: HttpLimits,
}

/// The properties that the user wants for all objects that are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3NewObjects {
    /// The content type of everything that is no directory; `None` follows the entry.
    pub content_type: Option<String>,
    /// The storage class.
    pub storage_class: Option<String>,
    /// The encryption by the store.
    pub encryption: Option<ServerEncryption>,
    /// The canned access list.
    pub acl: Option<String>,
}

/// An opened bucket.
pub struct S3Bucket {
    pub(super) name: String,
    /// The identity of the store among all stores.
    pub(super) store: String,
    /// The identity among all buckets.
    pub(super) identity: String,
    pub(super) pays_requests: bool,
    pub(super) new_objects: S3NewObjects,
    pub(super) http: Arc<HttpShared>,
    pub(super) credentials: AwsCredentials,
    /// Where requests go. The store may name another region once.
    target: Mutex<Arc<S3Target>>,
    /// True since a request for it or something in it succeeded: from then on, a missing object is only that.
    exists: AtomicBool,
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
        let target = S3Target::new(&settings.bucket, endpoint.as_deref(), &region, settings.addressing)?;
        let store = match endpoint.as_deref() {
            Some(endpoint) => endpoint.to_owned(),
            // The regions of a partition copy from each other.
            None => partition_of(&region).to_owned(),
        };
        let identity = format!("{} {}", endpoint.as_deref().unwrap_or("aws"), settings.bucket);
        let http = HttpShared { limits: settings.limits, ..HttpShared::default() };
        Ok(Arc::new(Self {
            name: settings.bucket,
            store,
            identity,
            pays_requests: settings.pays_requests,
            new_objects: settings.new_objects,
            http: Arc::new(http),
            credentials,
            target: Mutex::new(Arc::new(target)),
            exists: AtomicBool::new(false),
        }))
    }

    pub(super) fn target(&self) -> Arc<S3Target> {
        Arc::clone(&self.target.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_known(&self) -> bool {
        self.exists.load(Ordering::Relaxed)
    }

    pub(super) fn set_known(&self) {
        self.exists.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_target(&self, target: S3Target) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(target);
    }

    pub(super) fn location_of(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }
}

/// Returns the partition of AWS that a region is in.
fn partition_of(region: &str) -> &'static str {
    let begins = |word: &str| region.starts_with(word);
    match () {
        () if begins("cn-") => "aws-cn",
        () if begins("us-gov-") => "aws-us-gov",
        () if begins("us-iso") || begins("eu-iso") => "aws-iso",
        () => "aws",
    }
}
