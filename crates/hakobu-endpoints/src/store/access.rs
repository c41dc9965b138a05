//! From what a location names to a store: one line for each scheme.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::entry::Metadata;
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

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

/// Opens the store that `scheme://name` stands for.
///
/// # Errors
/// `Usage` for a scheme that this build does not have.
pub fn open(scheme: &str, name: &[u8]) -> Result<Arc<dyn StoreAccess>> {
    match scheme {
        "null" => Ok(crate::null::open()),
        #[cfg(feature = "memory")]
        "memory" => Ok(crate::memory::open(name)),
        _ => {
            let words = format!("{scheme}:// is not in this build");
            Err(Error::new(ErrorKind::Usage, "opening the store", words).at(name))
        }
    }
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
