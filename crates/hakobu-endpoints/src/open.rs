//! From what a location names to a store: one line for each scheme.

use std::sync::Arc;

use hakobu_core::{Error, ErrorKind, Result};

use crate::store::StoreAccess;
use crate::{memory, null};

/// Opens the store that `scheme://name` stands for.
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
