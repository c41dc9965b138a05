//! The locations `memory://name`: object stores that exist as long as their process, for tests of whole transfers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hakobu_core::{Error, ErrorKind, Result};

use super::MemoryObjectStore;
use crate::store::{StoreAccess, access};

/// The object stores of this process by name.
static STORES: Mutex<BTreeMap<Vec<u8>, Arc<MemoryObjectStore>>> = Mutex::new(BTreeMap::new());

/// Returns the object store of this name, and creates it if it does not exist.
pub fn object_store(name: &[u8]) -> Arc<MemoryObjectStore> {
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(stores.entry(name.to_vec()).or_default())
}

/// Opens the object store of this name.
///
/// # Errors
/// `Usage` if this process has not created it, because data copied to it would be lost with the process.
pub fn open(name: &[u8]) -> Result<Arc<dyn StoreAccess>> {
    let stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let missing =
        || Error::new(ErrorKind::Usage, "opening the store", "there are stores in memory in tests alone");
    let store = Arc::clone(stores.get(name).ok_or_else(missing)?);
    Ok(access(store))
}
