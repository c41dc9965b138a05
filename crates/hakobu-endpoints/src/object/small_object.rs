//! The content of small objects, and digests of content.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use hakobu_core::checksum::{crc32c, crc64};
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{Pick, Picks};
use hakobu_core::entry::EntryMetadata;
use hakobu_core::pack::PACKED_FILE_BYTES_MAX;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TagKey, Tagger, content_value};
use hakobu_core::{Error, ErrorKind, Result};

use super::api::{ObjectApi, ObjectBody, ObjectHead, StoredChecksum};
use super::entry::{DescribedObject, described, keeps_checksums};
use super::keys::KeyRoot;
use crate::local::errno::{changed, place};

/// A small object with what it says about itself.
pub(crate) struct SmallObject {
    pub(crate) entry: DescribedObject,
    pub(crate) bytes: Vec<u8>,
}

/// Reads an object of at most `bytes_max` bytes.
///
/// # Errors
/// `SourceChanged` if it is larger, `Corrupt` if the bytes are not those that the store has a checksum of.
pub(crate) async fn read_small(api: &dyn ObjectApi, key: &str, bytes_max: u64) -> Result<SmallObject> {
    let ObjectBody { head, mut chunks } = api.get(key, None, None).await?;
    if head.size_bytes > bytes_max {
        return Err(changed("reading"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(head.size_bytes).unwrap_or(0));
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    check(&head, &bytes)?;
    let mut entry = described(api.limits(), &head, false);
    let is_other = |digest: &Digest| blake3::hash(&bytes) != *digest;
    if entry.metadata.inode.is_some() && entry.digest.as_ref().is_some_and(is_other) {
        // Somebody replaced the content and kept the metadata, so it is the name of another file now.
        (entry.metadata.inode, entry.metadata.links) = (None, 1);
    }
    Ok(SmallObject { entry, bytes })
}

/// Compares content with the checksum that the store has of it, if it is one that this program computes.
fn check(head: &ObjectHead, bytes: &[u8]) -> Result<()> {
    match head.checksum {
        Some(StoredChecksum::Crc64(stored)) if stored != crc64(bytes) => Err(corrupt()),
        Some(StoredChecksum::Crc32c(stored)) if stored != crc32c(bytes) => Err(corrupt()),
        _ => Ok(()),
    }
}

/// Returns the error for content that does not have the store's checksum.
pub(crate) fn corrupt() -> Error {
    let words = "the bytes that arrived do not have the checksum that the store keeps; run the same command again, \
        and if it happens again, the object is damaged";
    Error::new(ErrorKind::Corrupt, "reading", words)
}

/// Returns the error for a large object whose digest is not known without reading it.
fn none_kept() -> Error {
    let words = "no digest is kept with the object that is proven to be that of its content";
    Error::new(ErrorKind::Unsupported, "reading", words)
}

/// Returns the name and the metadata of a picked entry.
pub(crate) fn picked(picks: &Picks, index: u32) -> Result<(&[u8], &EntryMetadata)> {
    let pick = picks.entries.get(index as usize).map(|pick| pick.index as usize);
    let missing = || Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing");
    let pick = pick.filter(|pick| *pick < picks.listing.len()).ok_or_else(missing)?;
    Ok((picks.listing.name(pick), picks.listing.metadata(pick)))
}

/// Reads the digests or tags of objects below a root.
#[derive(Clone, Copy)]
pub(crate) struct DigestReader<'a> {
    pub(crate) api: &'a dyn ObjectApi,
    pub(crate) root: &'a KeyRoot,
    /// The key of the tags that replace digests.
    pub(crate) key: Option<TagKey>,
    /// Counts the digests that are kept with objects and take the place of reading these; `None` if all are read.
    pub(crate) kept: Option<&'a AtomicU64>,
}

impl DigestReader<'_> {
    /// Returns the digest or tag of an entry, which must have the listed size.
    ///
    /// # Errors
    /// `Unsupported` for a large object that would have to be read.
    pub(crate) async fn listed(
        &self,
        directory: &EntryPath,
        (picks, pick): (&Picks, Pick),
    ) -> Result<Digest> {
        let missing = || Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing");
        let index =
            Some(pick.index as usize).filter(|index| *index < picks.listing.len()).ok_or_else(missing)?;
        let (name, listed) = (picks.listing.name(index), picks.listing.metadata(index));
        let is_large = listed.size_bytes > PACKED_FILE_BYTES_MAX;
        let digest = match self.kept.is_some() && is_large && !keeps_checksums(self.api.limits()) {
            true => Err(none_kept()),
            false => self.digest(directory, name).await,
        };
        digest.and_then(|(size_bytes, digest)| match size_bytes == listed.size_bytes {
            true => Ok(digest),
            false => Err(changed("reading").at(place(directory, name))),
        })
    }

    /// Returns the size of an object, and its digest or tag.
    ///
    /// # Errors
    /// As [`DigestReader::listed`].
    pub(crate) async fn digest(&self, directory: &EntryPath, name: &[u8]) -> Result<(u64, Digest)> {
        let read = async {
            let key = self.root.key(&directory.join(name)?)?;
            match self.kept(&key).await? {
                Some(kept) => Ok(kept),
                None => self.read(&key).await,
            }
        };
        read.await.map_err(|error: Error| error.at(place(directory, name)))
    }

    /// Returns the size and the digest that is kept with an object, if the store's checksum proves that it is that of the
    /// content.
    async fn kept(&self, key: &str) -> Result<Option<(u64, Digest)>> {
        let limits = self.api.limits();
        let (Some(count), None, true) = (self.kept, self.key, keeps_checksums(limits)) else {
            return Ok(None);
        };
        let Some(head) = self.api.head(key).await? else { return Ok(None) };
        let entry = described(limits, &head, false);
        match entry.digest.filter(|_| entry.is_proven) {
            Some(digest) => {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(Some((head.size_bytes, digest)))
            }
            None if head.size_bytes > PACKED_FILE_BYTES_MAX => Err(none_kept()),
            None => Ok(None),
        }
    }

    async fn read(&self, key: &str) -> Result<(u64, Digest)> {
        let tagger = self.key.map(Tagger::new).transpose()?;
        let ObjectBody { head, mut chunks } = self.api.get(key, None, None).await?;
        let (mut hasher, mut held) = (blake3::Hasher::new(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk: Bytes = chunk?;
            match tagger {
                // Only small entries have tags.
                Some(_) => held.extend_from_slice(&chunk),
                None => drop(hasher.update(&chunk)),
            }
        }
        let digest = match &tagger {
            Some(tagger) => content_value(&held, Some(tagger))?,
            None => *hasher.finalize().as_bytes(),
        };
        Ok((head.size_bytes, digest))
    }
}
