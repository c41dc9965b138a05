//! `memory://name`: object stores that are there as long as the process, for tests of whole transfers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::MemoryObjectStore;
use crate::store::{Store, StoreAccess};

/// The object stores of this process, by their names.
static STORES: Mutex<BTreeMap<Vec<u8>, Arc<MemoryObjectStore>>> = Mutex::new(BTreeMap::new());

/// Opens the object store of this name; it is there as long as the process.
pub fn open(name: &[u8]) -> Arc<dyn StoreAccess> {
    let store: Arc<dyn Store> = object_store(name);
    Arc::new(store)
}

/// Returns the object store of this name.
pub fn object_store(name: &[u8]) -> Arc<MemoryObjectStore> {
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(stores.entry(name.to_vec()).or_default())
}
