//! Credentials, region and endpoint by the rules of AWS's tools: environment, profiles, single sign-on, instance
//! metadata, web identity.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_types::service_config::ServiceConfigKey;
use hakobu_core::{Error, ErrorKind, Result};

use super::SigningKeys;

/// The region of buckets for which none is configured. The store names the right one.
const DEFAULT_REGION: &str = "us-east-1";
/// The time before the end of credentials at which they are renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(180);
/// The step of errors. The location follows it.
const LOADING: &str = "reading the credentials for";
const HINT: &str =
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws/config";
const SSO_HINT: &str = "log in again with aws sso login";

/// A choice among what the configuration has.
#[derive(Clone, Debug, Default)]
pub struct AwsSettings {
    /// The profile; `None` for that of `AWS_PROFILE` or `default`.
    pub profile: Option<String>,
    /// True to send no credentials at all, for public buckets.
    pub is_anonymous: bool,
    /// Keys to use instead of those of the configuration.
    pub keys: Option<SigningKeys>,
}

/// The configuration as it is now.
pub(crate) struct AwsConfiguration {
    pub(crate) region: String,
    pub(crate) endpoint: Option<String>,
    keys: Option<Result<Arc<SigningKeys>>>,
}

/// The credentials of a bucket, renewed before they end.
pub(crate) struct AwsCredentials {
    settings: AwsSettings,
    keys: Mutex<Option<Arc<SigningKeys>>>,
    renewing: tokio::sync::Mutex<()>,
}

impl AwsCredentials {
    /// Reads the configuration, and the credentials for the first time. Do not call it on a runtime.
    ///
    /// # Errors
    /// `Unauthenticated` if there are no credentials.
    pub(crate) fn load(settings: AwsSettings) -> Result<(Self, AwsConfiguration)> {
        let loading = on_a_thread_of_its_own(settings.clone())?;
        let mut configuration = loading.blocking_recv().map_err(|_| lost())??;
        let keys = configuration.keys.take().transpose()?;
        Ok((Self { settings, keys: Mutex::new(keys), renewing: tokio::sync::Mutex::new(()) }, configuration))
    }

    /// Returns true if requests are signed.
    pub(crate) fn are_used(&self) -> bool {
        !self.settings.is_anonymous
    }

    /// Returns the keys, or `None` if requests are not signed.
    ///
    /// # Errors
    /// `Unauthenticated` if they have ended and cannot be renewed.
    pub(crate) async fn keys(&self) -> Result<Option<Arc<SigningKeys>>> {
        let known = self.known();
        match &known {
            Some(keys) if ends_within(keys, RENEW_BEFORE) => match self.renew(keys).await {
                Ok(keys) => Ok(Some(keys)),
                Err(_) if !ends_within(keys, Duration::ZERO) => Ok(known),
                Err(error) => Err(error),
            },
            _ => Ok(known),
        }
    }

    /// Reads the credentials again, unless somebody else has done so since `rejected` were in use.
    ///
    /// # Errors
    /// `Unauthenticated` if there are none now.
    pub(crate) async fn renew(&self, rejected: &Arc<SigningKeys>) -> Result<Arc<SigningKeys>> {
        let _renewing = self.renewing.lock().await;
        if let Some(known) = self.known().filter(|known| !Arc::ptr_eq(known, rejected)) {
            return Ok(known);
        }
        let loaded = on_a_thread_of_its_own(self.settings.clone())?.await.map_err(|_| lost())??;
        let keys = loaded.keys.unwrap_or_else(|| Err(lost()))?;
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&keys));
        Ok(keys)
    }

    fn known(&self) -> Option<Arc<SigningKeys>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Unauthenticated, LOADING, "nothing was returned").hint(HINT)
}

fn ends_within(keys: &SigningKeys, time: Duration) -> bool {
    keys.expires.is_some_and(|expires| expires <= SystemTime::now() + time)
}

type LoadReceiver = tokio::sync::oneshot::Receiver<Result<AwsConfiguration>>;

/// Loads the configuration on a thread and runtime of its own: the connections that this takes must not depend on the
/// runtime of a lane, which stands still while its lane does something else.
fn on_a_thread_of_its_own(settings: AwsSettings) -> Result<LoadReceiver> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let load = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let loaded = match runtime {
            Ok(runtime) => Ok(runtime.block_on(load(&settings))),
            Err(error) => Err(Error::io(LOADING, &error)),
        };
        // Nobody waits any more if the run was cancelled.
        drop(sender.send(loaded));
    };
    let started = std::thread::Builder::new().name("credentials".to_owned()).spawn(load);
    started.map_err(|error| Error::io(LOADING, &error))?;
    Ok(receiver)
}

async fn load(settings: &AwsSettings) -> AwsConfiguration {
    // Instance metadata would name the region of the machine, not of the bucket, and takes seconds to be missing.
    let mut profile_region = ProfileFileRegionProvider::builder();
    if let Some(name) = &settings.profile {
        profile_region = profile_region.profile_name(name);
    }
    let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(profile_region.build())
        .or_else(Region::from_static(DEFAULT_REGION));
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12()).region(region);
    if let Some(name) = &settings.profile {
        loader = loader.profile_name(name);
        // A profile that was named counts before keys in the environment, which may be those of another account.
        loader = loader.credentials_provider(
            ProfileFileCredentialsProvider::builder().profile_name(name.as_str()).build(),
        );
    }
    if settings.is_anonymous || settings.keys.is_some() {
        loader = loader.no_credentials();
    }
    let loaded = loader.load().await;
    let endpoint_key =
        ServiceConfigKey::builder().service_id("S3").env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
    let of_service = endpoint_key
        .ok()
        .and_then(|key| loaded.service_config().and_then(|service| service.load_config(key)));
    let endpoint = of_service.or_else(|| loaded.endpoint_url().map(str::to_owned));
    let region = loaded.region().map_or(DEFAULT_REGION, Region::as_ref).to_owned();
    let keys = match (&settings.keys, loaded.credentials_provider()) {
        (Some(given), _) => Some(Ok(Arc::new(given.clone()))),
        (None, Some(provider)) if !settings.is_anonymous => {
            Some(match provider.provide_credentials().await {
                Ok(keys) => Ok(Arc::new(SigningKeys {
                    access_key: keys.access_key_id().to_owned(),
                    secret_key: keys.secret_access_key().to_owned(),
                    session_token: keys.session_token().map(str::to_owned),
                    expires: keys.expiry(),
                })),
                Err(error) => Err(error_of(&error, settings.profile.as_deref())),
            })
        }
        _ => None,
    };
    AwsConfiguration { region, endpoint, keys }
}

fn error_of(error: &CredentialsError, profile: Option<&str>) -> Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let words = cause.to_string();
    let hint = if words.to_lowercase().contains("sso") { SSO_HINT } else { HINT };
    let words = match error {
        CredentialsError::CredentialsNotLoaded(_) => {
            let named = std::env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
            match profile.map(str::to_owned).or(named) {
                Some(profile) => format!("there are none in the profile {profile}, if it exists"),
                None => "there are none, neither in the environment nor in a profile".to_owned(),
            }
        }
        _ => words,
    };
    Error::new(ErrorKind::Unauthenticated, LOADING, words).hint(hint)
}
