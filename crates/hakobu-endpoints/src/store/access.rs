//! Access to a store from this machine.

use std::sync::Arc;
use std::time::Duration;

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::entry::EntryMetadata;
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;

use super::{ObjectPlace, StoreSource, StoreSubtree, StoreTarget};

/// A store that this machine accesses directly, without a hakobu process at the other end.
pub trait StoreAccess: Send + Sync {
    /// Returns the best capabilities that any directory in it can have.
    fn capabilities(&self) -> Capabilities;

    /// Returns the metadata of an entry, or `None` if it does not exist.
    ///
    /// # Errors
    /// If the store cannot be queried.
    fn inspect(&self, path: &EntryPath) -> Result<Option<EntryMetadata>>;

    /// Returns the time that the store took for an answer, or zero if it has not been asked or answers at once.
    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns true if it is reached through TLS, or `None` if that is not known.
    fn uses_tls(&self) -> Option<bool> {
        None
    }

    /// Opens directories of the store for reading.
    ///
    /// # Errors
    /// If they cannot be opened.
    fn source(&self, roots: &[EntryPath]) -> Result<Box<dyn SourceEndpoint>>;

    /// Opens a directory of the store for writing within a grant.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn target(&self, root: &EntryPath, grant: &Grant) -> Result<Box<dyn TargetEndpoint>>;

    /// Removes what runs from this machine have left of unfinished files at a path or below it, where that is not seen in
    /// listings. Files that a run is writing are left alone. Returns the number of files.
    ///
    /// # Errors
    /// If the store refuses.
    fn remove_unfinished(&self, _path: &EntryPath) -> Result<u64> {
        Ok(0)
    }
}

/// Wraps a store for direct access.
pub fn access(store: Arc<dyn ObjectPlace>) -> Arc<dyn StoreAccess> {
    Arc::new(store)
}

impl StoreAccess for Arc<dyn ObjectPlace> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn inspect(&self, path: &EntryPath) -> Result<Option<EntryMetadata>> {
        Ok((**self).inspect(path))
    }

    fn source(&self, roots: &[EntryPath]) -> Result<Box<dyn SourceEndpoint>> {
        let roots = roots.iter().map(|root| StoreSubtree::of(Arc::clone(self), root));
        Ok(Box::new(StoreSource::of(roots.collect())))
    }

    fn target(&self, root: &EntryPath, grant: &Grant) -> Result<Box<dyn TargetEndpoint>> {
        Ok(Box::new(StoreTarget::open(Arc::clone(self), root, grant)?))
    }
}
