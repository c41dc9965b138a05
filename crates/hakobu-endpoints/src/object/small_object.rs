//! The content of small objects, and digests of content.

use bytes::Bytes;
use futures_util::StreamExt;
use hakobu_core::checksum::{crc32c, crc64};
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{Pick, Picks};
use hakobu_core::entry::EntryMetadata;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TagKey, Tagger, content_value};
use hakobu_core::{Error, ErrorKind, Result};

use super::api::{ObjectApi, ObjectBody, ObjectHead, StoredChecksum};
use super::entry::{DescribedObject, described};
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

/// Returns the name and the metadata of a picked entry.
pub(crate) fn picked(picks: &Picks, index: u32) -> Result<(&[u8], &EntryMetadata)> {
    let pick = picks.entries.get(index as usize).map(|pick| pick.index as usize);
    let missing = || Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing");
    let pick = pick.filter(|pick| *pick < picks.listing.len()).ok_or_else(missing)?;
    Ok((picks.listing.name(pick), picks.listing.metadata(pick)))
}

/// Returns the digest or tag of an entry, which must have the listed size.
pub(crate) async fn listed_digest(
    api: &dyn ObjectApi,
    root: &KeyRoot,
    directory: &EntryPath,
    (picks, pick): (&Picks, Pick),
    key: Option<TagKey>,
) -> Result<Digest> {
    let missing = || Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing");
    let index = Some(pick.index as usize).filter(|index| *index < picks.listing.len()).ok_or_else(missing)?;
    let (name, listed) = (picks.listing.name(index), picks.listing.metadata(index));
    let digest = digest(api, root, directory, name, key).await;
    digest.and_then(|(size_bytes, digest)| match size_bytes == listed.size_bytes {
        true => Ok(digest),
        false => Err(changed("reading").at(place(directory, name))),
    })
}

/// Returns the size of an object, and its digest or tag.
pub(crate) async fn digest(
    api: &dyn ObjectApi,
    root: &KeyRoot,
    directory: &EntryPath,
    name: &[u8],
    key: Option<TagKey>,
) -> Result<(u64, Digest)> {
    let tagger = key.map(Tagger::new).transpose()?;
    let read = async {
        let key = root.key(&directory.join(name)?)?;
        let ObjectBody { head, mut chunks } = api.get(&key, None, None).await?;
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
    };
    read.await.map_err(|error: Error| error.at(place(directory, name)))
}
