//! One directory of a store, presented as a store.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata};
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::listing::Listing;
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::requests::RequestCounts;
use hakobu_core::{ErrorKind, Result};

use super::{EntryContent, ObjectPlace, Position, StorePage, StoredEntry};

/// The entries below a directory of a store.
pub struct StoreSubtree {
    store: Arc<dyn ObjectPlace>,
    root: EntryPath,
}

impl StoreSubtree {
    /// Returns the entries below `root`, which need not exist.
    pub fn of(store: Arc<dyn ObjectPlace>, root: &EntryPath) -> Arc<dyn ObjectPlace> {
        match root.is_root() {
            true => store,
            false => Arc::new(Self { store, root: root.clone() }),
        }
    }

    /// Converts a grant below `root` to one for the whole store.
    ///
    /// # Errors
    /// `Unsupported` for paths that become too long.
    pub(crate) fn grant(grant: &Grant, root: &EntryPath) -> Result<Grant> {
        let place =
            |place: &GrantedPlace| Ok(GrantedPlace { path: within(root, &place.path)?, ..place.clone() });
        Ok(Grant { places: grant.places.iter().map(place).collect::<Result<_>>()?, ..grant.clone() })
    }

    /// Returns true for the directory itself in a store without directories: it counts as empty, not as missing.
    fn is_implied(&self, path: &EntryPath) -> bool {
        path.is_root() && !self.store.capabilities().directories
    }

    fn whole(&self, path: &EntryPath) -> Result<EntryPath> {
        within(&self.root, path)
    }
}

/// Returns the path of an entry below a directory.
fn within(directory: &EntryPath, path: &EntryPath) -> Result<EntryPath> {
    match (directory.is_root(), path.is_root()) {
        (true, _) => Ok(path.clone()),
        (_, true) => Ok(directory.clone()),
        _ => EntryPath::new([directory.as_bytes(), b"/", path.as_bytes()].concat()),
    }
}

impl ObjectPlace for StoreSubtree {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn requests(&self) -> RequestCounts {
        self.store.requests()
    }

    fn keeps(&self) -> bool {
        self.store.keeps()
    }

    fn inspect(&self, path: &EntryPath) -> Option<EntryMetadata> {
        let found = self.store.inspect(&self.whole(path).ok()?);
        found.or_else(|| {
            self.is_implied(path)
                .then(|| EntryMetadata { mode: 0o755, ..EntryMetadata::new(EntryKind::Directory) })
        })
    }

    fn page(&self, directory: &EntryPath, after: Option<&Position>, most: usize) -> Result<StorePage> {
        match self.store.page(&self.whole(directory)?, after, most) {
            Err(error) if error.kind == ErrorKind::NotFound && self.is_implied(directory) => {
                Ok(StorePage { listing: Listing::default(), next: None, below: Vec::new() })
            }
            page => page,
        }
    }

    fn flat_page(
        &self,
        directory: &EntryPath,
        after: Option<&Position>,
        most: usize,
    ) -> Result<Option<StorePage>> {
        let Some(mut page) = self.store.flat_page(&self.whole(directory)?, after, most)? else {
            return Ok(None);
        };
        let root_names = self.root.names().count();
        for listing in &mut page.below {
            let names: Vec<&[u8]> = listing.path.names().skip(root_names).collect();
            listing.path = EntryPath::new(names.join(&b'/'))?;
        }
        Ok(Some(page))
    }

    fn get(&self, path: &EntryPath) -> Result<StoredEntry> {
        self.store.get(&self.whole(path)?)
    }

    fn put(
        &self,
        path: &EntryPath,
        content: EntryContent,
        attributes: &Attributes,
        grant: &Grant,
    ) -> Result<Vec<LossKind>> {
        self.store.put(&self.whole(path)?, content, attributes, grant)
    }

    fn apply(&self, change: &Change, grant: &Grant) -> Result<Vec<LossKind>> {
        let mut change = change.clone();
        match &mut change {
            Change::MakeDirectory { path, .. }
            | Change::Directory { path, .. }
            | Change::Attributes { path, .. }
            | Change::Remove { path, .. } => *path = self.whole(path)?,
            Change::Link { path, to, .. } => (*path, *to) = (self.whole(path)?, self.whole(to)?),
            Change::Rename { path, from } => (*path, *from) = (self.whole(path)?, self.whole(from)?),
        }
        self.store.apply(&change, grant)
    }
}
