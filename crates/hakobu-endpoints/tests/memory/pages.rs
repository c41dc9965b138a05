//! A store that returns few entries at a time.

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, EntryMetadata};
use hakobu_core::grant::Grant;
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_endpoints::store::{EntryContent, ObjectPlace, Position, StorePage, StoredEntry};

/// A store with at most `most` entries per page.
pub struct Pages {
    pub store: Arc<dyn ObjectPlace>,
    pub most: usize,
}

impl ObjectPlace for Pages {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn inspect(&self, path: &EntryPath) -> Option<EntryMetadata> {
        self.store.inspect(path)
    }

    fn page(&self, directory: &EntryPath, after: Option<&Position>, most: usize) -> Result<StorePage> {
        self.store.page(directory, after, most.min(self.most))
    }

    fn flat_page(
        &self,
        directory: &EntryPath,
        after: Option<&Position>,
        most: usize,
    ) -> Result<Option<StorePage>> {
        self.store.flat_page(directory, after, most.min(self.most))
    }

    fn get(&self, path: &EntryPath) -> Result<StoredEntry> {
        self.store.get(path)
    }

    fn put(
        &self,
        path: &EntryPath,
        content: EntryContent,
        attributes: &Attributes,
        grant: &Grant,
    ) -> Result<Vec<LossKind>> {
        self.store.put(path, content, attributes, grant)
    }

    fn apply(&self, change: &Change, grant: &Grant) -> Result<Vec<LossKind>> {
        self.store.apply(change, grant)
    }
}
