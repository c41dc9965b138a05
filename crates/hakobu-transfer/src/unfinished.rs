//! Removes what is left in a store of files whose copy was given up.

use hakobu_core::error::Result;
use hakobu_core::request::CopyRequest;

use crate::store::StoreHost;

/// Removes unfinished uploads to the targets of a request that are in stores. Returns their number.
///
/// # Errors
/// If a store cannot be opened, or refuses.
pub fn remove_unfinished(request: &CopyRequest) -> Result<u64> {
    let targets = request.pairs.iter().map(|pair| &pair.1).chain([&request.target]);
    let mut removed = 0;
    for target in targets {
        if let Some(store) = target.store() {
            removed += StoreHost::open(store, &request.target_store)?.remove_unfinished(target.path())?;
        }
    }
    Ok(removed)
}
