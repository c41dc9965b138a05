//! Writes the entries of a pack, all of them at the same time.

use bytes::Bytes;
use futures_util::future::join_all;
use hakobu_core::checksum::Crc64;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::TargetOutcome;
use hakobu_core::entry::{Attributes, EntryKind, Inode};
use hakobu_core::extended::ExtendedRef;
use hakobu_core::losses::{LossKind, Losses};
use hakobu_core::pack::{PackContent, PackReader, PackRecord};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::lane::ObjectWriter;
use super::placed;
use crate::common::future_lane::LaneBuffers;
use crate::object::api::{PutCondition, PutObject};
use crate::object::entry::{EntryToStore, kept_checksum};

/// A pack, whose buffer returns to the lane when nobody holds its bytes any more.
struct PackBytes(Vec<u8>, LaneBuffers);

impl AsRef<[u8]> for PackBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for PackBytes {
    fn drop(&mut self) {
        self.1.buffers().return_pack(std::mem::take(&mut self.0));
    }
}

/// An entry of a pack as an object to store.
struct PackedObject {
    path: EntryPath,
    content: Bytes,
    crc64: u64,
    kind: (EntryKind, u32),
    attributes: Attributes,
    /// The extended attributes, encoded.
    extended: Option<Bytes>,
    digest: Option<Digest>,
    /// The identity that it shares with other names of its file.
    inode: Option<Inode>,
    /// True if there may be an object that it replaces.
    replaces: bool,
}

impl ObjectWriter {
    pub(super) async fn write_pack(&self, pack: Vec<u8>, inodes: &[(u32, Inode)]) -> Result<TargetOutcome> {
        let pack = Bytes::from_owner(PackBytes(pack, self.buffers.clone()));
        let mut objects = objects(&pack)?;
        for (record, inode) in inodes {
            if let Some(Ok(object)) = objects.get_mut(*record as usize) {
                object.inode = Some(self.links.identity(*inode));
            }
        }
        let written = join_all(objects.into_iter().map(|object| self.write_object(object))).await;
        let (mut failures, mut losses) = (Vec::new(), Losses::default());
        for (index, written) in (0_u32..).zip(written) {
            match written {
                Ok((path, lost)) => losses.merge(&lost, true, || path.as_bytes().to_vec()),
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => failures.push((index, error)),
            }
        }
        Ok(TargetOutcome::PackWritten { failures, losses: losses.finish() })
    }

    /// Stores an object. Returns its path and what it has lost.
    async fn write_object(&self, object: Result<PackedObject>) -> Result<(EntryPath, Vec<LossKind>)> {
        let PackedObject { path, content, crc64, kind, attributes, extended, digest, inode, replaces } =
            object?;
        let (_, name) = path.split_last().unwrap_or_default();
        let size_bytes = content.len() as u64;
        let (kind, device) = kind;
        let stored = async {
            self.rights.check(kind)?;
            let key = self.key_to_write(&path)?;
            let owner = if replaces { self.stored_owner(&key).await? } else { None };
            let (attributes, digest) = (&attributes, digest.as_ref());
            let content = vec![content];
            let checksum = digest.and_then(|_| kept_checksum(self.api.limits(), &content, crc64));
            let extended = extended.as_deref().map(ExtendedRef::decode).transpose()?;
            let entry = EntryToStore {
                name,
                kind,
                device,
                size_bytes,
                attributes,
                owner,
                digest,
                checksum,
                extended,
                inode,
            };
            let (properties, lost) = self.properties(&path, entry).await?;
            let put = PutObject {
                key: &key,
                content,
                properties: &properties,
                condition: &PutCondition::None,
                crc64: Some(crc64),
            };
            self.count_unchecked(&self.api.put(put).await?);
            if inode.is_some() {
                self.links.stored(&key, size_bytes);
            }
            Ok(lost)
        };
        let lost = stored.await.map_err(|error: Error| placed(error, &path))?;
        Ok((path, lost))
    }
}

/// Returns the objects of a pack. The outer error is that of a malformed pack, the inner one of an entry.
fn objects(pack: &Bytes) -> Result<Vec<Result<PackedObject>>> {
    let (mut reader, mut here, mut objects) = (PackReader::new(pack), None::<EntryPath>, Vec::new());
    while let Some(record) = reader.read()? {
        let (head, content) = match record {
            PackRecord::Directory { path } => {
                here = Some(path);
                continue;
            }
            PackRecord::Entry(head, content) => (head, content),
        };
        let malformed = || Error::new(ErrorKind::Protocol, "reading a pack", "a record before its directory");
        let path = here.as_ref().ok_or_else(malformed)?.join(head.name)?;
        let object = |bytes: &[u8], kind: (EntryKind, u32)| {
            let mut crc = Crc64::default();
            crc.update(bytes);
            PackedObject {
                path: path.clone(),
                content: pack.slice_ref(bytes),
                crc64: crc.value(),
                kind,
                attributes: head.attributes,
                extended: head.extended.map(|extended| pack.slice_ref(extended.as_bytes())),
                digest: (kind.0 == EntryKind::File).then(|| *blake3::hash(bytes).as_bytes()),
                inode: None,
                replaces: head.replaces,
            }
        };
        objects.push(match content {
            PackContent::File(file) => {
                let object = object(file.bytes, (EntryKind::File, 0));
                // The checksum of the record is that of the content followed by the length.
                let sum = hakobu_core::content::content_sum(file.bytes);
                match sum == file.sum {
                    true => Ok(object),
                    false => {
                        let words = "the content is not what was read; run the same command again, and if it happens \
                            again, check the memory of this machine";
                        Err(Error::new(ErrorKind::Corrupt, "writing", words).at(&path))
                    }
                }
            }
            PackContent::Symlink(text) => Ok(object(text, (EntryKind::Symlink, 0))),
            PackContent::Special(kind, device) => Ok(object(&[], (kind, device))),
        });
    }
    Ok(objects)
}
