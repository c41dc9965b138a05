//! Opens stores by their location, with one line for each scheme that locations may have
//! ([`STORE_SCHEMES`](hakobu_core::location::STORE_SCHEMES)).

use std::sync::Arc;

use hakobu_core::store_settings::StoreSettings;
use hakobu_core::{Error, ErrorKind, Result};

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

/// Opens a bucket or container. Its identity has the server's address.
fn bucket(scheme: &str, _name: &[u8], _settings: &StoreSettings) -> Result<OpenedStore> {
    Err(refused(format!("{scheme}:// is not in this version; ssh://host/path is")))
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
