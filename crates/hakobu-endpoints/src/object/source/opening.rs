//! Opens objects for copies inside the store. No content is read.

use futures_util::future::join_all;
use hakobu_core::endpoint::{Picks, SourceFile};
use hakobu_core::entry::{EntryMetadata, FileTime};
use hakobu_core::handle::SharedFile;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::lane::ObjectReader;
use crate::local::errno::{place, vanished};
use crate::object::api::ObjectHead;
use crate::object::copy_place::{OpenedObject, SeenObject};
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
        let objects = picks.entries.len();
        let before = match self.api.limits().lists_metadata {
            true => None,
            false => self.search.none_before(&*self.api, &root.directory(directory)?, objects).await?,
        };
        let opened = (0..objects as u32).map(|index| async move {
            let (name, listed) = picked(picks, index)?;
            let opened = self.open_pick(root, &directory.join(name)?, (listed, before)).await;
            opened.map_err(|error| error.at(place(directory, name)))
        });
        Ok(join_all(opened).await)
    }

    /// Opens an object. With `before`, those uploaded before that time have no sidecar.
    async fn open_pick(
        &self,
        root: &KeyRoot,
        path: &EntryPath,
        (listed, before): (&EntryMetadata, Option<FileTime>),
    ) -> Result<Option<SharedFile>> {
        let key = root.key(path)?;
        // The listing may lack the fraction of the second.
        let uploaded = FileTime { seconds: listed.ctime.seconds.saturating_add(1), ..listed.ctime };
        if before.is_some_and(|before| uploaded < before) {
            return Ok(Some(self.shared(key, SeenObject::Listed(uploaded))?));
        }
        let head = self.api.head(&key).await?.ok_or_else(|| vanished("opening"))?;
        self.opened(key, head)
    }

    /// Returns an object as one to copy, or `None` if it has to be read: an archived one, for the error that comes of that, and
    /// one whose copy would refer to another object.
    fn opened(&self, key: String, head: ObjectHead) -> Result<Option<SharedFile>> {
        let extended = described(self.api.limits(), &head, false).extended;
        let is_read = head.is_archived || matches!(extended, ObjectExtended::Sidecar(_));
        (!is_read).then(|| self.shared(key, SeenObject::Head(head))).transpose()
    }

    fn shared(&self, key: String, seen: SeenObject) -> Result<SharedFile> {
        let words = "the store copies no objects";
        let bucket = self.bucket.clone();
        let bucket = bucket.ok_or_else(|| Error::new(ErrorKind::Unsupported, "opening", words))?;
        Ok(SharedFile::new(OpenedObject { bucket, key, seen }))
    }
}
