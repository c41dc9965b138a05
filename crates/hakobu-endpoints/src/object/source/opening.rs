//! Opens objects for copies inside the store. No content is read.

use futures_util::future::join_all;
use hakobu_core::endpoint::{Picks, SourceFile};
use hakobu_core::handle::SharedFile;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::lane::ObjectReader;
use crate::local::errno::{place, vanished};
use crate::object::api::ObjectHead;
use crate::object::copy_place::OpenedObject;
use crate::object::entry::described;
use crate::object::keys::KeyRoot;
use crate::object::metadata::ObjectExtended;
use crate::object::small_object::picked;

impl ObjectReader {
    /// Opens a large object.
    ///
    /// # Errors
    /// `Unsupported` if it cannot be copied without being read.
    pub(super) async fn open_file(&self, file: &SourceFile) -> Result<SharedFile> {
        let key = self.root(file.root)?.key(&file.path)?;
        let head = self.api.head(&key).await?.ok_or_else(|| vanished("opening"))?;
        self.versions.pin(self.api.limits(), file, &head)?;
        let words = "its extended attributes are in an object of their own";
        let read = || Error::new(ErrorKind::Unsupported, "opening", words);
        self.opened(key, head)?.ok_or_else(read)
    }

    /// Opens small objects. `None` stands for one that has to be read.
    pub(super) async fn open_picks(
        &self,
        root: u16,
        directory: &EntryPath,
        picks: &Picks,
    ) -> Result<Vec<Result<Option<SharedFile>>>> {
        let root = self.root(root)?;
        let opened = (0..picks.entries.len() as u32).map(|index| async move {
            let (name, _) = picked(picks, index)?;
            let opened = self.open_pick(root, &directory.join(name)?).await;
            opened.map_err(|error| error.at(place(directory, name)))
        });
        Ok(join_all(opened).await)
    }

    async fn open_pick(&self, root: &KeyRoot, path: &EntryPath) -> Result<Option<SharedFile>> {
        let key = root.key(path)?;
        let head = self.api.head(&key).await?.ok_or_else(|| vanished("opening"))?;
        self.opened(key, head)
    }

    /// Returns an object as one to copy, or `None` if it has to be read: an archived one, for the error that comes of that, and
    /// one whose copy would refer to another object.
    fn opened(&self, key: String, head: ObjectHead) -> Result<Option<SharedFile>> {
        let words = "the store copies no objects";
        let bucket = self.bucket.clone();
        let bucket = bucket.ok_or_else(|| Error::new(ErrorKind::Unsupported, "opening", words))?;
        let extended = described(self.api.limits(), &head, false).extended;
        let is_read = head.is_archived || matches!(extended, ObjectExtended::Sidecar(_));
        Ok((!is_read).then(|| SharedFile::new(OpenedObject { bucket, key, head })))
    }
}
