//! Opens stores by their location, with one line for each scheme that locations may have
//! ([`STORE_SCHEMES`](hakobu_core::location::STORE_SCHEMES)).

use std::path::PathBuf;
use std::sync::Arc;

use hakobu_core::store_settings::StoreSettings;
use hakobu_core::{Error, ErrorKind, Result};

use crate::local::StateDirectory;
use crate::object::BucketAccess;
use crate::object::api::Bucket;
use crate::object::s3::{AwsSettings, S3Bucket, S3Settings};
use crate::store::StoreAccess;
use crate::{memory, null};

/// A store that was opened.
pub struct OpenedStore {
    /// The access to it.
    pub access: Arc<dyn StoreAccess>,
    /// The store's identity on its network: equal for two names of one store, different for equal names of two.
    pub identity: String,
}

/// Opens the store at `scheme://name`.
///
/// # Errors
/// `Usage` for a scheme that this build does not have.
pub fn open(scheme: &str, name: &[u8], settings: &StoreSettings) -> Result<OpenedStore> {
    let named =
        |access| OpenedStore { access, identity: format!("{scheme}://{}", String::from_utf8_lossy(name)) };
    match scheme {
        "null" => null::open(name).map(named),
        "memory" => memory::open(name).map(named),
        "s3" | "az" | "gs" => bucket(scheme, name, settings),
        _ => Err(refused(format!("{scheme}:// is not in this build"))),
    }
}

/// Opens a bucket or container. Its identity has the server's address. Nothing is asked of the store.
fn bucket(scheme: &str, name: &[u8], settings: &StoreSettings) -> Result<OpenedStore> {
    if scheme != "s3" {
        return Err(refused(format!("{scheme}:// is not in this version; ssh://host/path is")));
    }
    let name = std::str::from_utf8(name).map_err(|_| refused("the name of a bucket is ASCII".to_owned()))?;
    let settings = S3Settings {
        bucket: name.to_owned(),
        endpoint: settings.endpoint.clone(),
        region: settings.region.clone(),
        credentials: AwsSettings {
            profile: settings.profile.clone(),
            is_anonymous: settings.no_sign_request,
            keys: None,
        },
        pays_requests: settings.request_payer,
        ..S3Settings::default()
    };
    let bucket: Arc<dyn Bucket> = Arc::new(S3Bucket::open(settings)?);
    let identity = format!("s3 {}", bucket.identity());
    let journals = state_directory().map(|state| state.path().join("uploads"));
    Ok(OpenedStore { access: Arc::new(BucketAccess::new(bucket, journals)), identity })
}

/// Returns the state directory of this user.
fn state_directory() -> Option<StateDirectory> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let is_root = rustix::process::geteuid().is_root();
    StateDirectory::by_custom(is_root, variable("HOME").as_deref(), variable("XDG_STATE_HOME").as_deref())
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
            let opened = open(scheme, b"", &StoreSettings::default());
            let refused = opened.err().map(|error| error.detail).unwrap_or_default();
            assert!(!refused.contains("is not in this build"), "{scheme}: {refused}");
        }
        assert!(open("another", b"", &StoreSettings::default()).is_err());
    }
}
