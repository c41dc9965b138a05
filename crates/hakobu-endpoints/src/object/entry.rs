//! Entries as objects: what an object says about its entry, and what an entry is stored with.

use hakobu_core::digest::Digest;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime};

use super::api::{ListedObject, ObjectHead, ObjectProperties, StoreLimits};
use super::metadata::ObjectEntry;
use super::metadata::content_type::content_type;

/// An entry as its object describes it.
#[derive(Clone, Debug)]
pub(crate) struct DescribedObject {
    /// The metadata. The change time is that of the upload.
    pub(crate) metadata: EntryMetadata,
    /// The BLAKE3 of the content, if it was stored.
    pub(crate) digest: Option<Digest>,
}

/// Returns the metadata of an entry whose object says nothing about it.
pub(crate) fn plain(kind: EntryKind, size_bytes: u64, uploaded: FileTime) -> EntryMetadata {
    let mode = if kind == EntryKind::Directory { 0o755 } else { 0o644 };
    EntryMetadata { mode, size_bytes, mtime: uploaded, ctime: uploaded, ..EntryMetadata::new(kind) }
}

/// Returns the entry of an object that was listed, as far as the listing shows it. `is_marker`: its key ends with a slash.
pub(crate) fn listed(limits: &StoreLimits, object: &ListedObject, is_marker: bool) -> EntryMetadata {
    let (size_bytes, uploaded) = (object.size_bytes, object.uploaded);
    match &object.metadata {
        Some(metadata) => of_metadata(limits, (size_bytes, uploaded), metadata, is_marker).metadata,
        None if is_marker => plain(EntryKind::Directory, 0, FileTime::default()),
        None => plain(EntryKind::File, size_bytes, uploaded),
    }
}

/// Returns the entry of an object. `is_marker`: its key ends with a slash.
pub(crate) fn described(limits: &StoreLimits, head: &ObjectHead, is_marker: bool) -> DescribedObject {
    of_metadata(limits, (head.size_bytes, head.uploaded), &head.metadata, is_marker)
}

fn of_metadata(
    limits: &StoreLimits,
    (size_bytes, uploaded): (u64, FileTime),
    metadata: &[(String, String)],
    is_marker: bool,
) -> DescribedObject {
    let pairs = metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let told = limits.convention.decode(is_marker, size_bytes, pairs);
    let of_file = plain(told.kind, size_bytes, uploaded);
    let metadata = EntryMetadata {
        mode: told.mode.unwrap_or(of_file.mode),
        uid: told.uid.unwrap_or(of_file.uid),
        gid: told.gid.unwrap_or(of_file.gid),
        mtime: told.mtime.unwrap_or(of_file.mtime),
        device: told.device.unwrap_or(0),
        size_bytes: if told.kind == EntryKind::Directory { 0 } else { size_bytes },
        ..of_file
    };
    DescribedObject { metadata, digest: told.digest }
}

/// An entry to be stored as an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryToStore<'a> {
    /// The last name of its path.
    pub(crate) name: &'a [u8],
    pub(crate) kind: EntryKind,
    pub(crate) device: u32,
    /// The size of its content in bytes.
    pub(crate) size_bytes: u64,
    pub(crate) attributes: &'a Attributes,
    /// True if the owner and the group are stored.
    pub(crate) owner: bool,
    /// The BLAKE3 of its content, if it is known.
    pub(crate) digest: Option<&'a Digest>,
}

/// Returns what an entry is stored with.
pub(crate) fn properties(limits: &StoreLimits, entry: &EntryToStore<'_>) -> ObjectProperties {
    let Attributes { mode, uid, gid, mtime } = *entry.attributes;
    let (size_bytes, device) = (entry.size_bytes, entry.device);
    let metadata =
        EntryMetadata { mode, uid, gid, mtime, size_bytes, device, ..EntryMetadata::new(entry.kind) };
    let described =
        ObjectEntry { metadata: &metadata, owner: entry.owner, extended: None, digest: entry.digest };
    ObjectProperties {
        content_type: Some(content_type(entry.name, entry.kind).to_owned()),
        metadata: limits.convention.encode(&described).pairs,
        storage_class: None,
    }
}
