//! Containers, shared by the lanes of an endpoint.

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::key_spelling::KeySpelling;

use super::target::AzureTarget;
use crate::object::api::{ChecksumKind, StoreLimits};
use crate::object::credentials::azure::{AzureConfiguration, AzureCredentials, AzureEnvironment};
use crate::object::http::{HttpLimits, HttpShared};
use crate::object::metadata::MetadataConvention;

/// The limits of Azure.
pub(super) const LIMITS: StoreLimits = StoreLimits {
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

/// The properties that the user wants for all objects that are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureNewObjects {
    /// The content type of everything that is no directory; `None` follows the entry.
    pub content_type: Option<String>,
    /// The access tier.
    pub access_tier: Option<String>,
}

/// An opened container.
pub struct AzureContainer {
    /// The location as it was typed.
    pub(super) location: String,
    pub(super) target: AzureTarget,
    pub(super) new_objects: AzureNewObjects,
    pub(super) http: Arc<HttpShared>,
    pub(super) credentials: AzureCredentials,
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
        Ok(Arc::new(Self { location, target, new_objects, http, credentials }))
    }

    pub(super) fn location_of(&self, key: &str) -> String {
        format!("{}/{key}", self.location)
    }
}
