//! Opens stores by their location, with one line for each scheme that locations may have
//! ([`STORE_SCHEMES`](hakobu_core::location::STORE_SCHEMES)).

use std::sync::Arc;

use hakobu_core::{Error, ErrorKind, Result};

use crate::store::StoreAccess;
use crate::{memory, null};

/// Opens the store at `scheme://name`.
///
/// # Errors
/// `Usage` for a scheme that this build does not have.
pub fn open(scheme: &str, name: &[u8]) -> Result<Arc<dyn StoreAccess>> {
    match scheme {
        "null" => null::open(name),
        "memory" => memory::open(name),
        _ => {
            let words = format!("{scheme}:// is not in this build");
            Err(Error::new(ErrorKind::Usage, "opening the store", words))
        }
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::location::STORE_SCHEMES;

    use super::*;

    #[test]
    fn every_scheme_has_its_line() {
        for scheme in STORE_SCHEMES {
            let refused = open(scheme, b"").err().map(|error| error.detail).unwrap_or_default();
            assert!(!refused.contains("is not in this build"), "{scheme}: {refused}");
        }
        assert!(open("another", b"").is_err());
    }
}
