//! The location `null://`, which discards everything and lists nothing. A copy to it shows how fast a tree can be read.
//!
//! This is the smallest possible endpoint, and the example in CONTRIBUTING.md.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata};
use hakobu_core::grant::Grant;
use hakobu_core::listing::Listing;
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use crate::store::{
    EntryContent, ObjectPlace, Position, StoreAccess, StorePage, StoredEntry, access, missing,
};

/// A store that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullStore;

/// Opens the store. There is only one, without a name.
///
/// # Errors
/// `Usage` for a name, because `null://directory` is more likely a mistake than a path.
pub fn open(name: &[u8]) -> Result<Arc<dyn StoreAccess>> {
    if !name.is_empty() {
        let words = "what keeps nothing has no name; write null:// or null:///path";
        return Err(Error::new(ErrorKind::Usage, "opening the store", words));
    }
    Ok(access(Arc::new(NullStore)))
}

impl ObjectPlace for NullStore {
    /// Accepts everything and reports no metadata.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            account_names: false,
            compresses: false,
            hashes: false,
            reads_medium: false,
            tells_file_systems: false,
            tells_room: true,
            writes_in_place: false,
            ..Capabilities::unlimited()
        }
    }

    fn keeps(&self) -> bool {
        false
    }

    fn inspect(&self, path: &EntryPath) -> Option<EntryMetadata> {
        path.is_root().then(|| EntryMetadata::new(EntryKind::Directory))
    }

    fn page(&self, directory: &EntryPath, _after: Option<&Position>, _most: usize) -> Result<StorePage> {
        match directory.is_root() {
            true => Ok(StorePage { listing: Listing::default(), next: None, below: Vec::new() }),
            false => Err(missing("listing")),
        }
    }

    fn get(&self, _path: &EntryPath) -> Result<StoredEntry> {
        Err(missing("reading"))
    }

    fn put(
        &self,
        _path: &EntryPath,
        _content: EntryContent,
        _attributes: &Attributes,
        _grant: &Grant,
    ) -> Result<Vec<LossKind>> {
        Ok(Vec::new())
    }

    fn apply(&self, _change: &Change, _grant: &Grant) -> Result<Vec<LossKind>> {
        Ok(Vec::new())
    }
}
