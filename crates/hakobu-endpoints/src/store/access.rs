//! A store as this machine reaches it.

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::entry::Metadata;
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;

use super::{Below, Store, StoreSource, StoreTarget};

/// A store that this machine reaches by itself, with nothing of ours at the other end.
pub trait StoreAccess: Send + Sync {
    /// Returns what any place in it can do at best.
    fn capabilities(&self) -> Capabilities;

    /// Returns the description of an entry; nothing if there is no such entry.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn inspect(&self, path: &EntryPath) -> Result<Option<Metadata>>;

    /// Opens directories of it to read them.
    ///
    /// # Errors
    /// When they cannot be opened.
    fn source(&self, roots: &[EntryPath]) -> Result<Box<dyn SourceEndpoint>>;

    /// Opens a directory of it to write it within a grant.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn target(&self, root: &EntryPath, grant: &Grant) -> Result<Box<dyn TargetEndpoint>>;
}

/// Returns a store as one that this machine reaches.
pub fn access(store: Arc<dyn Store>) -> Arc<dyn StoreAccess> {
    Arc::new(store)
}

impl StoreAccess for Arc<dyn Store> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn inspect(&self, path: &EntryPath) -> Result<Option<Metadata>> {
        Ok((**self).inspect(path))
    }

    fn source(&self, roots: &[EntryPath]) -> Result<Box<dyn SourceEndpoint>> {
        let roots = roots.iter().map(|root| Below::of(Arc::clone(self), root));
        Ok(Box::new(StoreSource::of(roots.collect())))
    }

    fn target(&self, root: &EntryPath, grant: &Grant) -> Result<Box<dyn TargetEndpoint>> {
        Ok(Box::new(StoreTarget::open(Arc::clone(self), root, grant)?))
    }
}
