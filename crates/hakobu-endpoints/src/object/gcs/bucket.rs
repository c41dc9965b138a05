//! Buckets, shared by the lanes of an endpoint.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hakobu_core::key_spelling::KeySpelling;
use hakobu_core::{Error, ErrorKind, Result};
use http::HeaderValue;

use super::target::GcsTarget;
use crate::object::api::{ChecksumKind, StoreLimits};
use crate::object::credentials::gcs::{GcsCredentialSettings, GcsCredentials};
use crate::object::http::{HttpLimits, HttpShared};
use crate::object::metadata::MetadataConvention;

/// The limits of the store.
pub(crate) const LIMITS: StoreLimits = StoreLimits {
    part_bytes_min: 5 << 20,
    part_bytes_max: 5 << 30,
    parts_max: 10_000,
    object_bytes_max: 5 << 40,
    put_bytes_max: 5 << 30,
    copy_bytes_max: 5 << 40,
    key_bytes_max: 1024,
    metadata_bytes_max: 8192,
    delete_batch: 1000,
    list_page: 1000,
    lists_bytewise: true,
    lists_metadata: true,
    conditional_put: true,
    checksum: Some(ChecksumKind::Crc32c),
    convention: MetadataConvention::Gcs,
    spelling: KeySpelling::Gcs,
};
/// The variable with the address of an emulator, as Google's libraries know it.
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";

/// The CRC-32C and the size of the parts that this process has sent, by upload and number.
pub(super) type PartSums = BTreeMap<(String, u32), (u32, u64)>;

/// A bucket to open, and how.
#[derive(Clone, Debug, Default)]
pub struct GcsSettings {
    /// The name of the bucket.
    pub bucket: String,
    /// The URL of the endpoint; `None` for that of the environment, or else of Google.
    pub endpoint: Option<String>,
    /// The credentials.
    pub credentials: GcsCredentialSettings,
    /// True to agree to pay for requests to somebody else's bucket.
    pub pays_requests: bool,
    /// The properties of objects that are written.
    pub new_objects: GcsNewObjects,
    /// Time limits.
    pub limits: HttpLimits,
}

/// The properties that the user wants for all objects that are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcsNewObjects {
    /// The content type of everything that is no directory; `None` follows the entry.
    pub content_type: Option<String>,
    /// The storage class.
    pub storage_class: Option<String>,
    /// The predefined access list.
    pub acl: Option<PredefinedAcl>,
}

/// A predefined access list, whose name each of the two interfaces spells in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredefinedAcl {
    /// The name in JSON.
    pub json: &'static str,
    /// The name in XML.
    pub xml: &'static str,
}

impl PredefinedAcl {
    const ALL: [Self; 5] = [
        Self { json: "authenticatedRead", xml: "authenticated-read" },
        Self { json: "bucketOwnerFullControl", xml: "bucket-owner-full-control" },
        Self { json: "bucketOwnerRead", xml: "bucket-owner-read" },
        Self { json: "private", xml: "private" },
        Self { json: "publicRead", xml: "public-read" },
    ];

    /// Returns the access list with this name in either spelling.
    ///
    /// # Errors
    /// `Usage` with the names that there are.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|acl| acl.json == name || acl.xml == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|acl| acl.xml).join(", ");
            let words = format!("Google has no access list {name}; --acl is one of {names}");
            Error::new(ErrorKind::Usage, "opening the store", words)
        })
    }
}

/// An opened bucket.
pub struct GcsBucket {
    pub(super) name: String,
    pub(super) target: GcsTarget,
    pub(super) new_objects: GcsNewObjects,
    pub(super) http: Arc<HttpShared>,
    pub(super) credentials: GcsCredentials,
    /// The project that pays for requests.
    pub(super) paying_project: Option<HeaderValue>,
    pub(super) part_sums: Mutex<PartSums>,
    /// True since a request for it or something in it succeeded: from then on, a missing object is only that.
    exists: AtomicBool,
    /// True since the server has shown that it has objects in the interface in JSON only.
    pub(super) lacks_xml: AtomicBool,
    /// True since the server has shown that it knows no uploads in parts.
    pub(super) lacks_multipart: AtomicBool,
}

impl GcsBucket {
    /// Reads credentials and configuration, and gets a token. Nothing is sent to the store. Do not call it on a runtime.
    ///
    /// # Errors
    /// `Unauthenticated` if there are no credentials or they do not work, `Usage` if the endpoint or the name of the bucket
    /// cannot be one, or no project is known that pays.
    pub fn open(settings: GcsSettings) -> Result<Arc<Self>> {
        let mut credentials = settings.credentials;
        let emulator = std::env::var(EMULATOR).ok().filter(|value| !value.is_empty());
        let endpoint = match (settings.endpoint, emulator) {
            (Some(endpoint), _) => Some(endpoint),
            (None, Some(emulator)) => {
                credentials.is_anonymous = true;
                Some(if emulator.contains("://") { emulator } else { format!("http://{emulator}") })
            }
            (None, None) => None,
        };
        let target = GcsTarget::new(&settings.bucket, endpoint.as_deref())?;
        let credentials = GcsCredentials::load(&credentials, target.receiver())?;
        let paying_project = match settings.pays_requests {
            true => Some(paying_project(credentials.project.as_deref())?),
            false => None,
        };
        let http = HttpShared { limits: settings.limits, ..HttpShared::default() };
        Ok(Arc::new(Self {
            name: settings.bucket,
            target,
            new_objects: settings.new_objects,
            http: Arc::new(http),
            credentials,
            paying_project,
            part_sums: Mutex::default(),
            exists: AtomicBool::new(false),
            lacks_xml: AtomicBool::new(false),
            lacks_multipart: AtomicBool::new(false),
        }))
    }

    pub(super) fn is_known(&self) -> bool {
        self.exists.load(Ordering::Relaxed)
    }

    pub(super) fn set_known(&self) {
        self.exists.store(true, Ordering::Relaxed);
    }

    pub(super) fn location_of(&self, key: &str) -> String {
        format!("gs://{}/{key}", self.name)
    }
}

/// Returns the project that pays, as a header has it.
fn paying_project(project: Option<&str>) -> Result<HeaderValue> {
    let usage = |words| Error::new(ErrorKind::Usage, "opening the bucket", words);
    let hint = "name it in GOOGLE_CLOUD_QUOTA_PROJECT";
    let project = project.ok_or_else(|| usage("--request-payer needs a project that pays").hint(hint))?;
    HeaderValue::from_str(project).map_err(|_| usage("no project has this name").at(project).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_lists_are_known_by_both_of_their_names() {
        assert_eq!(PredefinedAcl::named("public-read").unwrap(), PredefinedAcl::named("publicRead").unwrap());
        let refused = PredefinedAcl::named("aws-exec-read").unwrap_err();
        assert!(
            refused.kind == ErrorKind::Usage && refused.to_string().contains("bucket-owner-read"),
            "{refused}"
        );
    }
}
