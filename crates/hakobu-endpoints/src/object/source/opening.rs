//! Opens objects for copies inside the store. No content is read.

use std::sync::Arc;

use hakobu_core::endpoint::{Picks, SourceFile};
use hakobu_core::handle::SharedFile;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::lane::ObjectReader;
use crate::local::errno::vanished;
use crate::object::api::ListStart;
use crate::object::copy_place::{OpenedObject, SourceSidecars};
use crate::object::key_pages::KeyPages;
use crate::object::keys::KeyRoot;
use crate::object::small_object::picked;

impl ObjectReader {
    pub(super) async fn open_file(&self, file: &SourceFile) -> Result<SharedFile> {
        let key = self.root(file.root)?.key(&file.path)?;
        let head = match file.metadata.size_bytes > self.api.limits().copy_bytes_max {
            true => {
                let head = self.api.head(&key).await?.ok_or_else(|| vanished("opening"))?;
                self.versions.pin(file, &head)?;
                Some(head)
            }
            false => None,
        };
        let (bucket, sidecars) = (self.copy_bucket()?.to_owned(), self.sidecars(file.root).await?);
        Ok(SharedFile::new(OpenedObject { bucket, key, head, sidecars }))
    }

    pub(super) async fn open_picks(
        &self,
        root: u16,
        directory: &EntryPath,
        picks: &Picks,
    ) -> Result<Vec<Result<SharedFile>>> {
        let (bucket, sidecars, root) = (self.copy_bucket()?, self.sidecars(root).await?, self.root(root)?);
        let open = |index| {
            let key = key_of_pick(root, directory, (picks, index))?;
            let (bucket, sidecars) = (bucket.to_owned(), Arc::clone(&sidecars));
            Ok(SharedFile::new(OpenedObject { bucket, key, head: None, sidecars }))
        };
        Ok((0..picks.entries.len() as u32).map(open).collect())
    }

    /// Returns the first page of a root's sidecars.
    async fn sidecars(&self, root: u16) -> Result<Arc<SourceSidecars>> {
        let mut listed = self.sidecars.lock().await;
        if let Some(known) = listed.get(&root) {
            return Ok(Arc::clone(known));
        }
        let prefix = self.root(root)?.sidecars();
        let mut pages = KeyPages::new(&*self.api, &prefix, ListStart::First);
        let page = pages.next(self.api.limits().list_page).await?;
        let is_partial = !pages.is_over;
        let names =
            page.iter().filter_map(|object| object.key.strip_prefix(&prefix)).map(str::to_owned).collect();
        let found = Arc::new(SourceSidecars { prefix, names, is_partial });
        listed.insert(root, Arc::clone(&found));
        Ok(found)
    }

    fn copy_bucket(&self) -> Result<&str> {
        let words = "the store copies no objects";
        self.bucket.as_deref().ok_or_else(|| Error::new(ErrorKind::Unsupported, "opening", words))
    }
}

fn key_of_pick(root: &KeyRoot, directory: &EntryPath, (picks, index): (&Picks, u32)) -> Result<String> {
    let (name, _) = picked(picks, index)?;
    root.key(&directory.join(name)?)
}
