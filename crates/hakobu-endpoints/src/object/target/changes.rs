//! Changes without content: directories' own objects, attributes, removals.

use futures_util::future::join_all;
use hakobu_core::endpoint::{Change, TargetOutcome};
use hakobu_core::entry::{Attributes, EntryKind, FileTime, Inode};
use hakobu_core::extended::{Classes, Extended};
use hakobu_core::losses::{LossKind, Losses};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::lane::ObjectWriter;
use super::placed;
use crate::object::api::{
    CopyObject, CopySource, ListStart, ListedObject, ObjectHead, ObjectProperties, PutCondition, PutObject,
};
use crate::object::attributes::with_mode;
use crate::object::entry::{EntryToStore, KeptAttributes, described};
use crate::object::key_pages::KeyPages;
use crate::object::metadata::ObjectExtended;
use crate::object::metadata::sidecar::SIDECAR_DIRECTORY;

impl ObjectWriter {
    /// Applies changes: those that do not depend on each other at the same time.
    pub(super) async fn apply(&self, changes: &[Change]) -> Result<TargetOutcome> {
        let (mut failures, mut losses) = (Vec::new(), Losses::default());
        let mut index = 0;
        // Changes of directories depend on earlier removals.
        for some in changes.chunk_by(|one, next| is_file_removal(one) == is_file_removal(next)) {
            let done = match some.first().is_some_and(is_file_removal) {
                true => self.remove_files(some).await?,
                false if some.iter().any(is_removal) => {
                    let mut done = Vec::with_capacity(some.len());
                    for change in some {
                        done.push(self.change(change).await);
                    }
                    done
                }
                false => join_all(some.iter().map(|change| self.change(change))).await,
            };
            for (change, done) in some.iter().zip(done) {
                match done.map_err(|error| placed(error, change.path())) {
                    Ok(lost) => losses.merge(&lost, true, || change.path().as_bytes().to_vec()),
                    Err(error) if error.is_fatal() => return Err(error),
                    Err(error) => failures.push((index, error)),
                }
                index += 1;
            }
        }
        Ok(TargetOutcome::PackWritten { failures, losses: losses.finish() })
    }

    /// Makes a change, and returns what the entry has lost.
    async fn change(&self, change: &Change) -> Result<Vec<LossKind>> {
        match change {
            Change::MakeDirectory { path, .. } => self.clear_place(path).await.map(|()| Vec::new()),
            Change::Directory { path, attributes, extended } => {
                self.set_directory(path, attributes, extended.as_ref()).await
            }
            Change::Attributes { path, attributes, extended } => {
                self.set_attributes(path, attributes, extended.as_ref()).await
            }
            Change::Remove { path, directory: true, .. } => {
                self.remove_directory(path).await.map(|()| Vec::new())
            }
            Change::Remove { path, .. } => {
                let key = self.root.key(path)?;
                self.api.delete(&[key]).await?.into_iter().collect::<Result<()>>().map(|()| Vec::new())
            }
            Change::Link { path, to, replaces: _ } => self.link(path, to).await.map(|()| Vec::new()),
            Change::Rename { .. } => {
                Err(Error::new(ErrorKind::Unsupported, "renaming", "an object keeps its key"))
            }
        }
    }

    /// Removes an object with the name of a directory, beside which it would stay. The directory exists as soon as
    /// something is in it, or when its attributes are set.
    async fn clear_place(&self, path: &EntryPath) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let key = self.root.key(path)?;
        match self.api.head(&key).await? {
            Some(_) => self.api.delete(&[key]).await?.into_iter().collect(),
            None => Ok(()),
        }
    }

    /// Stores the object that has a directory's attributes.
    async fn set_directory(
        &self,
        path: &EntryPath,
        attributes: &Attributes,
        extended: Option<&Extended>,
    ) -> Result<Vec<LossKind>> {
        let key = self.root.directory(path)?;
        // Nothing can have the attributes of the bucket itself.
        if key.is_empty() {
            return Ok(Vec::new());
        }
        let (_, name) = path.split_last().unwrap_or_default();
        let (kind, device, size_bytes) = (EntryKind::Directory, 0, 0);
        let (digest, limits) = (None, self.api.limits());
        let there = match extended {
            Some(_) if self.rights.owners => None,
            _ => self.api.head(&key).await?,
        };
        let owner = there.as_ref().and_then(|head| described(limits, head, true).owner);
        let kept = match (extended, there) {
            (None, Some(head)) => self.kept((&key, &head), attributes.mode).await,
            _ => KeptAttributes::None,
        };
        let extended = extended.map(Extended::as_ref).or(kept.known());
        let inode = None;
        let entry = EntryToStore {
            name,
            kind,
            device,
            size_bytes,
            attributes,
            owner,
            digest,
            checksum: None,
            extended,
            inode,
        };
        let (mut properties, lost) = self.properties(path, entry).await?;
        kept.put(limits, &mut properties);
        let put = PutObject {
            key: &key,
            content: Vec::new(),
            properties: &properties,
            condition: &PutCondition::None,
            crc64: Some(0),
        };
        match self.api.put(put).await {
            // A file has the name. Without an object of its own, the directory has these attributes.
            Err(error)
                if error.kind == ErrorKind::Conflict
                    && attributes.mode == 0o755
                    && attributes.mtime == FileTime::default() =>
            {
                Ok(lost)
            }
            stored => stored.map(|_| lost),
        }
    }

    /// Gives an object other attributes, by a copy onto itself.
    async fn set_attributes(
        &self,
        path: &EntryPath,
        attributes: &Attributes,
        extended: Option<&Extended>,
    ) -> Result<Vec<LossKind>> {
        let key = self.root.key(path)?;
        let missing =
            || Error::new(ErrorKind::NotFound, "setting the attributes", "the object does not exist");
        let head = self.api.head(&key).await?.ok_or_else(missing)?;
        self.copy_onto_itself((path, &key, &head), (attributes, extended), (None, None)).await
    }

    /// Copies an object onto itself with other attributes. Without an identity, it keeps that which it has, and as well the
    /// owner if the job sets none. Returns what it loses.
    pub(super) async fn copy_onto_itself(
        &self,
        (path, key, head): (&EntryPath, &str, &ObjectHead),
        (attributes, extended): (&Attributes, Option<&Extended>),
        (inode, owner): (Option<Inode>, Option<(u32, u32)>),
    ) -> Result<Vec<LossKind>> {
        let limits = self.api.limits();
        let there = described(limits, head, false);
        let kept = match extended {
            Some(_) => KeptAttributes::None,
            None => self.kept((key, head), attributes.mode).await,
        };
        let entry = EntryToStore {
            // The content type, which follows from the name, stays.
            name: b"",
            kind: there.metadata.kind,
            device: there.metadata.device,
            size_bytes: head.size_bytes,
            attributes,
            owner: there.owner.or(owner),
            digest: there.digest.as_ref(),
            checksum: there.checksum,
            extended: extended.map(Extended::as_ref).or(kept.known()),
            inode: inode.or(there.stored_inode),
        };
        let (stored, lost) = self.properties(path, entry).await?;
        let mut properties = ObjectProperties {
            content_type: head.content_type.clone(),
            storage_class: head.storage_class.clone(),
            ..stored
        };
        kept.put(limits, &mut properties);
        // Only the sidecar was missing.
        if described(limits, &ObjectHead { metadata: properties.metadata.clone(), ..head.clone() }, false)
            == there
        {
            return Ok(lost);
        }
        let source = CopySource { bucket: None, key, version: Some(&head.version), unmodified_since: None };
        if head.size_bytes <= limits.copy_bytes_max {
            let (properties, condition, renews) =
                (Some(&properties), &PutCondition::None, Some(head.uploaded));
            match self.api.copy(CopyObject { source, key, properties, condition, renews }).await {
                Err(error) if error.kind == ErrorKind::Unsupported => {}
                copied => return copied.map(|_| lost),
            }
        }
        self.copy_in_parts(key, (source, head.size_bytes), &properties).await.map(|()| lost)
    }

    /// Returns the extended attributes that an object keeps while its mode changes. An access control list follows the mode,
    /// as on a file system; one that cannot be read stays as it is.
    async fn kept(&self, (key, head): (&str, &ObjectHead), mode: u32) -> KeptAttributes {
        let limits = self.api.limits();
        let kept = KeptAttributes::of(limits, head);
        let there = described(limits, head, key.ends_with('/'));
        if there.metadata.mode & 0o777 == mode & 0o777 {
            return kept;
        }
        let changed = match &there.extended {
            ObjectExtended::Inline(all) => with_mode(all.as_ref(), mode),
            ObjectExtended::Sidecar(name) if name.classes.contains(Classes::ACL) => {
                let all = self.sidecars.read(&*self.api, &self.root, key, name).await;
                all.ok().and_then(|all| with_mode(all.as_ref().as_ref(), mode))
            }
            _ => None,
        };
        changed.map_or(kept, KeptAttributes::Known)
    }

    async fn remove_files(&self, changes: &[Change]) -> Result<Vec<Result<Vec<LossKind>>>> {
        let mut done = Vec::with_capacity(changes.len());
        for some in changes.chunks(self.api.limits().delete_batch.max(1)) {
            let keys: Vec<String> =
                some.iter().map(|change| self.root.key(change.path())).collect::<Result<_>>()?;
            done.extend(
                self.api.delete(&keys).await?.into_iter().map(|removed| removed.map(|()| Vec::new())),
            );
        }
        Ok(done)
    }

    /// Removes a directory's own object, if nothing else is in the directory. Extended attributes that no entry needs any
    /// more go with it.
    async fn remove_directory(&self, path: &EntryPath) -> Result<()> {
        let prefix = self.root.directory(path)?;
        let limits = self.api.limits();
        // Its attributes are those of the entries beside it.
        let serves_others = path.split_last().is_some_and(|(_, name)| name == SIDECAR_DIRECTORY.as_bytes());
        let (mut pages, mut keys) = (KeyPages::new(&*self.api, &prefix, ListStart::First), Vec::new());
        while !pages.is_over {
            for ListedObject { key, .. } in pages.next(limits.list_page).await? {
                if key != prefix && !self.root.is_sidecar(&key) {
                    return Err(Error::new(ErrorKind::Conflict, "removing", "the directory is not empty"));
                }
                if key == prefix || !serves_others {
                    keys.push(key);
                }
            }
        }
        if !keys.is_empty() && !serves_others && !keys.contains(&prefix) {
            // A store may list the directory's own object elsewhere.
            keys.push(prefix.clone());
        }
        for some in keys.chunks(limits.delete_batch.max(1)) {
            self.api.delete(some).await?.into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }
}

fn is_file_removal(change: &Change) -> bool {
    matches!(change, Change::Remove { directory: false, .. })
}

fn is_removal(change: &Change) -> bool {
    matches!(change, Change::Remove { .. })
}
