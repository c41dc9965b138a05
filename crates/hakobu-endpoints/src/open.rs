//! Opens stores by their location, with one line for each scheme that locations may have
//! ([`STORE_SCHEMES`](hakobu_core::location::STORE_SCHEMES)).

use std::path::PathBuf;
use std::sync::Arc;

use hakobu_core::store_credentials::StoreCredentials;
use hakobu_core::store_settings::{BucketAddressing, StoreSettings};
use hakobu_core::{Error, ErrorKind, Result};

use crate::object::BucketAccess;
use crate::object::api::Bucket;
use crate::object::azure::{AzureContainer, AzureEnvironment, AzureNewObjects, AzureSettings};
use crate::object::credentials::SigningKeys;
use crate::object::credentials::aws::AwsSettings;
use crate::object::gcs::{
    GOOGLE_CREDENTIALS, GcsBucket, GcsCredentialSettings, GcsNewObjects, GcsSettings, PredefinedAcl,
};
use crate::object::http::HttpLimits;
use crate::object::s3::{S3Bucket, S3NewObjects, S3Settings};
use crate::store::StoreAccess;
use crate::{memory, null};

/// The names of credentials of S3: the key, its secret, and the token of temporary ones.
const AWS_CREDENTIALS: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
const AZURE_CREDENTIALS: [&str; 7] = [
    "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
];

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
    check_credentials(scheme, settings)?;
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
            keys: signing_keys(&settings.credentials)?,
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
        environment: match settings.credentials.is_empty() {
            true => AzureEnvironment::of_process(),
            false => owned(&settings.credentials).collect(),
        },
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
        credentials: GcsCredentialSettings {
            is_anonymous: settings.no_sign_request,
            file: None,
            given: settings.credentials.clone(),
        },
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

/// Checks that the credentials of this run have names that the store knows.
fn check_credentials(scheme: &str, settings: &StoreSettings) -> Result<()> {
    let known: &[&str] = match scheme {
        "s3" => &AWS_CREDENTIALS,
        "az" => &AZURE_CREDENTIALS,
        "gs" => &GOOGLE_CREDENTIALS,
        _ => &[],
    };
    if settings.no_sign_request && !settings.credentials.is_empty() {
        return Err(refused("there are credentials, and none are to be sent (--no-sign-request)".to_owned()));
    }
    match settings.credentials.names().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(_) if known.is_empty() => Err(refused(format!("{scheme}:// takes no credentials"))),
        Some(name) => {
            let words = format!("{name} is no credential of {scheme}://; there are {}", known.join(", "));
            Err(refused(words))
        }
    }
}

/// Returns the keys of S3 among the credentials of this run.
fn signing_keys(given: &StoreCredentials) -> Result<Option<SigningKeys>> {
    let [access_key, secret_key, session_token] =
        AWS_CREDENTIALS.map(|name| given.get(name).map(str::to_owned));
    match (access_key, secret_key) {
        (Some(access_key), Some(secret_key)) => {
            Ok(Some(SigningKeys { access_key, secret_key, session_token, expires: None }))
        }
        _ if given.is_empty() => Ok(None),
        _ => {
            let words = format!("{} and {} belong together", AWS_CREDENTIALS[0], AWS_CREDENTIALS[1]);
            Err(refused(words))
        }
    }
}

fn owned(given: &StoreCredentials) -> impl Iterator<Item = (String, String)> {
    given.expose().map(|(name, value)| (name.to_owned(), value.to_owned()))
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

    #[test]
    fn credentials_of_a_run_have_the_names_of_their_store() {
        let refusal = |scheme: &str, names: &[&str], no_sign_request| {
            let value = |name: &&str| ((*name).to_owned(), "sesame".to_owned());
            let credentials = names.iter().map(value).collect();
            let settings = StoreSettings { credentials, no_sign_request, ..StoreSettings::default() };
            let error = open(scheme, b"bucket", &settings, None).err().unwrap().to_string();
            assert!(!error.contains("sesame"), "{error}");
            error
        };
        assert!(refusal("s3", &["AWS_ACCESS_KEY_ID"], false).contains("belong together"));
        assert!(refusal("s3", &["AZURE_STORAGE_KEY"], false).contains("no credential of s3://"));
        assert!(refusal("gs", &["GOOGLE_APPLICATION_CREDENTIALS"], false).contains("no credential of gs://"));
        assert!(refusal("gs", &["GOOGLE_CREDENTIALS"], false).contains("no JSON"));
        assert!(refusal("memory", &["AWS_ACCESS_KEY_ID"], false).contains("takes no credentials"));
        assert!(refusal("az", &["AZURE_STORAGE_KEY"], true).contains("--no-sign-request"));
    }

    #[test]
    fn keys_of_a_run_sign() {
        let given = |names: &[(&str, &str)]| {
            let values = names.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            signing_keys(&values.collect())
        };
        let [key, secret, token] = AWS_CREDENTIALS;
        let keys = given(&[(key, "k"), (secret, "s"), (token, "t")]).unwrap().unwrap();
        assert_eq!((&keys.access_key[..], &keys.secret_key[..]), ("k", "s"));
        assert_eq!(keys.session_token.as_deref(), Some("t"));
        assert_eq!(given(&[(key, "k"), (secret, "s")]).unwrap().unwrap().session_token, None);
        assert!(given(&[]).unwrap().is_none());
        assert!(given(&[(token, "t")]).is_err());
    }
}
