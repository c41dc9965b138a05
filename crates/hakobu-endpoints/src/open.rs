//! Opens stores by their location, with one line for each scheme that locations may have
//! ([`STORE_SCHEMES`](hakobu_core::location::STORE_SCHEMES)).

use std::path::PathBuf;
use std::sync::Arc;

use hakobu_core::store_settings::{BucketAddressing, StoreSettings};
use hakobu_core::{Error, ErrorKind, Result};

use crate::object::BucketAccess;
use crate::object::api::Bucket;
use crate::object::azure::{AzureContainer, AzureEnvironment, AzureNewObjects, AzureSettings};
use crate::object::credentials::aws::AwsSettings;
use crate::object::gcs::{GcsBucket, GcsCredentialSettings, GcsNewObjects, GcsSettings, PredefinedAcl};
use crate::object::http::HttpLimits;
use crate::object::s3::{S3Bucket, S3NewObjects, S3Settings};
use crate::store::StoreAccess;
use crate::{memory, null};

/// A store that was opened.
pub struct OpenedStore {
    /// The access to it.
    pub access: Arc<dyn StoreAccess>,
    /// The store's identity on its network: equal for two names of one store, different for equal names of two.
    pub identity: String,
}

/// Opens the store at `scheme://name`. `journals` is the folder for journals of large objects that are sent; without it, an
/// interrupted one is sent again from its beginning.
///
/// # Errors
/// `Usage` for a scheme or setting that this build does not have, and other reasons why the store cannot be opened.
pub fn open(
    scheme: &str,
    name: &[u8],
    settings: &StoreSettings,
    journals: Option<PathBuf>,
) -> Result<OpenedStore> {
    let named =
        |access| OpenedStore { access, identity: format!("{scheme}://{}", String::from_utf8_lossy(name)) };
    match scheme {
        "null" => null::open(name).map(named),
        "memory" => memory::open(name).map(named),
        "s3" => s3(name, settings, journals),
        "az" => azure(name, settings, journals),
        "gs" => gcs(name, settings, journals),
        _ => Err(refused(format!("{scheme}:// is not in this build"))),
    }
}

/// Opens a bucket of S3. Its identity has the server's address.
fn s3(name: &[u8], settings: &StoreSettings, journals: Option<PathBuf>) -> Result<OpenedStore> {
    let bucket: Arc<dyn Bucket> = Arc::new(S3Bucket::open(S3Settings {
        bucket: String::from_utf8_lossy(name).into_owned(),
        endpoint: settings.endpoint.clone(),
        region: settings.region.clone(),
        addressing: settings.addressing,
        credentials: AwsSettings {
            profile: settings.profile.clone(),
            is_anonymous: settings.no_sign_request,
            keys: None,
        },
        pays_requests: settings.request_payer,
        new_objects: S3NewObjects {
            content_type: settings.content_type.clone(),
            storage_class: settings.storage_class.clone(),
            encryption: settings.encryption.clone(),
            acl: settings.acl.clone(),
        },
        limits: limits(settings),
    })?);
    let identity = bucket.identity();
    Ok(OpenedStore { access: Arc::new(BucketAccess::new(bucket, journals)), identity })
}

/// Opens a container of Azure: its name, or with `@` and the storage account behind it.
fn azure(name: &[u8], settings: &StoreSettings, journals: Option<PathBuf>) -> Result<OpenedStore> {
    let of_s3 = [
        ("--region", settings.region.is_some()),
        ("--profile", settings.profile.is_some()),
        ("--request-payer", settings.request_payer),
        ("--addressing", settings.addressing != BucketAddressing::Auto),
        ("--sse", settings.encryption.is_some()),
        ("--acl", settings.acl.is_some()),
    ];
    if let Some((option, _)) = of_s3.into_iter().find(|(_, is_set)| *is_set) {
        return Err(refused(format!("Azure has no {option}; leave it out")));
    }
    let name = String::from_utf8_lossy(name);
    let (container, account) =
        name.split_once('@').map_or((&*name, None), |(name, account)| (name, Some(account)));
    let container: Arc<dyn Bucket> = Arc::new(AzureContainer::open(AzureSettings {
        container: container.to_owned(),
        account: account.map(str::to_owned),
        endpoint: settings.endpoint.clone(),
        is_anonymous: settings.no_sign_request,
        environment: AzureEnvironment::of_process(),
        new_objects: AzureNewObjects {
            content_type: settings.content_type.clone(),
            access_tier: settings.storage_class.clone(),
        },
        limits: limits(settings),
    })?);
    let identity = container.identity();
    Ok(OpenedStore { access: Arc::new(BucketAccess::new(container, journals)), identity })
}

/// Opens a bucket of Google Cloud Storage. Its identity has the server's address.
fn gcs(name: &[u8], settings: &StoreSettings, journals: Option<PathBuf>) -> Result<OpenedStore> {
    let wrong = [
        (
            settings.addressing != BucketAddressing::Auto,
            "addressing",
            "Google has one form of URLs; leave it out",
        ),
        (settings.region.is_some(), "region", "the name of a bucket suffices for Google; leave it out"),
        (
            settings.profile.is_some(),
            "profile",
            "Google has no profiles; name a file of credentials in GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            settings.encryption.is_some(),
            "sse",
            "Google encrypts all objects; another key is set for the bucket, with gcloud storage buckets update",
        ),
    ];
    if let Some((_, option, words)) = wrong.into_iter().find(|(is_set, ..)| *is_set) {
        let hint = format!(
            "if it is for the other store, set it in a settings file: match = \"s3://…\", {option} = …"
        );
        return Err(refused(format!("gs:// takes no --{option}: {words}")).hint(hint));
    }
    let acl = settings.acl.as_deref().map(PredefinedAcl::named).transpose()?;
    let bucket: Arc<dyn Bucket> = Arc::new(GcsBucket::open(GcsSettings {
        bucket: String::from_utf8_lossy(name).into_owned(),
        endpoint: settings.endpoint.clone(),
        credentials: GcsCredentialSettings { is_anonymous: settings.no_sign_request, file: None },
        pays_requests: settings.request_payer,
        new_objects: GcsNewObjects {
            content_type: settings.content_type.clone(),
            storage_class: settings.storage_class.as_ref().map(|class| class.to_uppercase()),
            acl,
        },
        limits: limits(settings),
    })?);
    let identity = bucket.identity();
    Ok(OpenedStore { access: Arc::new(BucketAccess::new(bucket, journals)), identity })
}

/// Returns the time limits of requests. `--retry-for 0s` repeats none.
fn limits(settings: &StoreSettings) -> HttpLimits {
    let limits = HttpLimits::default();
    HttpLimits { outage: settings.retry_for.unwrap_or(limits.outage), ..limits }
}

fn refused(words: String) -> Error {
    Error::new(ErrorKind::Usage, "opening the store", words)
}

#[cfg(test)]
mod tests {
    use hakobu_core::location::STORE_SCHEMES;

    use super::*;

    #[test]
    fn every_scheme_has_its_line() {
        for scheme in STORE_SCHEMES {
            // No credentials are looked for.
            let settings = StoreSettings { no_sign_request: true, ..StoreSettings::default() };
            let opened = open(scheme, b"", &settings, None);
            let refused = opened.err().map(|error| error.detail).unwrap_or_default();
            assert!(!refused.contains("is not in this build"), "{scheme}: {refused}");
        }
        assert!(open("another", b"", &StoreSettings::default(), None).is_err());
    }
}
