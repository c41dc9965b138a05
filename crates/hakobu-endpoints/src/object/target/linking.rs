//! Hard links: objects with one identity, each of which has the whole content.

use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::lane::ObjectWriter;
use crate::object::api::{CopyObject, CopySource, ObjectHead, PutCondition};
use crate::object::entry::described;
use crate::store::missing;

const LINKING: &str = "making a hard link";

impl ObjectWriter {
    /// Makes an object another name of an existing one, by a copy inside the store.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot copy it.
    pub(super) async fn link(&self, path: &EntryPath, to: &EntryPath) -> Result<()> {
        let (key, from) = (self.key_to_write(path)?, self.root.key(to)?);
        let cell = self.links.cell(&from);
        let size_bytes = *cell.get_or_try_init(|| self.identified(to, &from)).await?;
        self.check_copy(size_bytes)?;
        if let Some(owner) = self.stored_owner(&key).await? {
            self.give_owner((to, &from), owner).await?;
        }
        let copy = CopyObject {
            source: CopySource { bucket: None, key: &from, version: None, unmodified_since: None },
            key: &key,
            properties: None,
            condition: &PutCondition::None,
            renews: None,
        };
        self.api.copy(copy).await.map(drop)
    }

    /// Gives an object without an owner that of the name which is to become another one of it.
    async fn give_owner(&self, (path, key): (&EntryPath, &str), owner: (u32, u32)) -> Result<()> {
        let head = self.api.head(key).await?.ok_or_else(|| missing(LINKING))?;
        let there = described(self.api.limits(), &head, false);
        if there.owner.is_some() {
            return Ok(());
        }
        let attributes = there.metadata.attributes();
        self.copy_onto_itself((path, key, &head), (&attributes, None), (None, Some(owner))).await.map(drop)
    }

    /// Gives an object an identity, unless it has one. Returns its size.
    async fn identified(&self, path: &EntryPath, key: &str) -> Result<u64> {
        let head = self.api.head(key).await?.ok_or_else(|| missing(LINKING))?;
        if described(self.api.limits(), &head, false).stored_inode.is_none() {
            self.check_copy(head.size_bytes)?;
            self.give_identity((path, key), &head).await?;
        }
        Ok(head.size_bytes)
    }

    async fn give_identity(&self, (path, key): (&EntryPath, &str), head: &ObjectHead) -> Result<()> {
        let there = described(self.api.limits(), head, false);
        let attributes = there.metadata.attributes();
        let inode = Some(self.links.new_identity(key));
        self.copy_onto_itself((path, key, head), (&attributes, None), (inode, None)).await.map(drop)
    }

    fn check_copy(&self, size_bytes: u64) -> Result<()> {
        match size_bytes <= self.api.limits().copy_bytes_max {
            true => Ok(()),
            false => {
                let words = "the store copies no object of this size in one request";
                Err(Error::new(ErrorKind::Unsupported, LINKING, words))
            }
        }
    }
}
