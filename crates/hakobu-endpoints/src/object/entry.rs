//! Entries as objects: what an object says about its entry, and what an entry is stored with.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use hakobu_core::digest::Digest;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime, Inode};
use hakobu_core::extended::{Classes, Extended, ExtendedRef, UNREADABLE};
use hakobu_core::listing::Detail;

use super::api::{ListedObject, ObjectHead, ObjectProperties, StoreLimits, StoredChecksum};
use super::attributes::{mode_without_lists, of_classes};
use super::content_mark::{head_mark, listed_mark};
use super::metadata::content_type::content_type;
use super::metadata::sidecar::{Sidecar, SidecarName};
use super::metadata::{MetadataConvention, ObjectEntry, ObjectExtended};

/// An entry as its object describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DescribedObject {
    /// The metadata. The change time is that of the upload.
    pub(crate) metadata: EntryMetadata,
    /// The BLAKE3 of the content, if it was stored.
    pub(crate) digest: Option<Digest>,
    /// The checksum of the content from which that was computed.
    pub(crate) checksum: Option<StoredChecksum>,
    /// True if the store still has that checksum, so that the digest is that of the content.
    pub(crate) is_proven: bool,
    /// The extended attributes. The metadata has no hash of them yet.
    pub(crate) extended: ObjectExtended,
    /// The identity that all names of a file share, as it is stored. That in the metadata differs where names differ in
    /// anything else.
    pub(crate) stored_inode: Option<Inode>,
    /// The numbers of the owner and the group, if any were stored.
    pub(crate) owner: Option<(u32, u32)>,
    /// True for a device node whose number was not stored.
    pub(crate) lacks_number: bool,
}

/// Returns the metadata of an entry whose object says nothing about it.
pub(crate) fn plain(kind: EntryKind, size_bytes: u64, uploaded: FileTime) -> EntryMetadata {
    let mode = if kind == EntryKind::Directory { 0o755 } else { 0o644 };
    EntryMetadata { mode, size_bytes, mtime: uploaded, ctime: uploaded, ..EntryMetadata::new(kind) }
}

/// Returns the metadata of a directory that has no object of its own. Its time is that at which this process first asked for
/// one.
pub(crate) fn implied_directory() -> EntryMetadata {
    static NOW: LazyLock<FileTime> = LazyLock::new(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        FileTime { seconds: now.as_secs().cast_signed(), nanoseconds: now.subsec_nanos() }
    });
    EntryMetadata { ctime: FileTime::default(), links: 0, ..plain(EntryKind::Directory, 0, *NOW) }
}

/// Returns the entry of an object that was listed. Without metadata in listings, it is a file.
///
/// If the extended attributes that the listing is to show are in a sidecar, it is returned: only its content shows the hash of
/// some of them, that they are there, and the mode of an entry that loses its access control list.
pub(crate) fn listed(
    limits: &StoreLimits,
    object: &ListedObject,
    detail: Detail,
) -> (EntryMetadata, Option<SidecarName>) {
    let ListedObject { size_bytes, uploaded, .. } = *object;
    let content_mark = listed_mark(limits.convention, object);
    match &object.metadata {
        Some(metadata) => {
            let checksum = object.checksum;
            let is_marker = object.key.ends_with('/');
            let entry = describe(limits, metadata, (size_bytes, checksum), uploaded, is_marker);
            let loses_list = entry.extended.loses_list(detail);
            let (mut mode, mut extended) =
                (entry.metadata.mode, listed_hash(&entry.extended, detail.extended));
            let mut sidecar = None;
            match entry.extended {
                ObjectExtended::Inline(all) if loses_list => mode &= mode_without_lists(all.as_ref()),
                ObjectExtended::Malformed if loses_list => extended = UNREADABLE,
                ObjectExtended::Sidecar(name) if loses_list || !detail.extended.is_empty() => {
                    sidecar = Some(name);
                }
                _ => {}
            }
            (EntryMetadata { mode, extended, content_mark, ..entry.metadata }, sidecar)
        }
        None => (EntryMetadata { content_mark, ..plain(EntryKind::File, size_bytes, uploaded) }, None),
    }
}

/// Returns the hash of the stored attributes that are of some classes.
fn listed_hash(stored: &ObjectExtended, keep: Classes) -> u64 {
    match stored {
        _ if keep.is_empty() => 0,
        ObjectExtended::None => 0,
        ObjectExtended::Inline(all) => {
            of_classes(Some(all.as_ref()), keep).map_or(UNREADABLE, |some| some.as_ref().digest())
        }
        ObjectExtended::Sidecar(name) => name.listed_digest(),
        ObjectExtended::Malformed => UNREADABLE,
    }
}

/// Returns the entry of an object. `is_marker`: its key ends with a slash.
pub(crate) fn described(limits: &StoreLimits, head: &ObjectHead, is_marker: bool) -> DescribedObject {
    let sizes = (head.size_bytes, head.checksum);
    let mut described = describe(limits, &head.metadata, sizes, head.uploaded, is_marker);
    described.metadata.content_mark = head_mark(limits.convention, head);
    described.metadata.bulky = matches!(described.extended, ObjectExtended::Sidecar(_));
    described
}

fn describe(
    limits: &StoreLimits,
    metadata: &[(String, String)],
    (size_bytes, checksum): (u64, Option<StoredChecksum>),
    uploaded: FileTime,
    is_marker: bool,
) -> DescribedObject {
    let of_store = checksum;
    // Listings of GCS may have other checksums than single answers.
    let is_azure = limits.convention == MetadataConvention::Azure;
    let checksum = checksum.filter(|_| !limits.lists_metadata || is_azure);
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
    let stored_inode = told.inode.filter(|_| told.kind != EntryKind::Directory);
    let inode = stored_inode.map(|inode| identity(inode, &metadata, &told.extended, (told.digest, checksum)));
    // Other objects may have the same identity; nobody knows how many.
    let links = if inode.is_some() { u32::MAX } else { 1 };
    let metadata = EntryMetadata { inode, links, ..metadata };
    let owner = (told.uid.is_some() || told.gid.is_some()).then_some((metadata.uid, metadata.gid));
    let (digest, checksum) = (told.digest, told.checksum);
    let is_proven = digest.is_some() && checksum.is_some() && checksum == of_store;
    let is_device = matches!(told.kind, EntryKind::BlockDevice | EntryKind::CharDevice);
    let lacks_number = is_device && told.device.is_none();
    let extended = told.extended;
    DescribedObject { metadata, digest, checksum, is_proven, extended, stored_inode, owner, lacks_number }
}

/// Returns the identity of the file that an object is a name of. Names that somebody has changed since, so that their
/// attributes or contents differ, have different ones.
fn identity(
    stored: Inode,
    metadata: &EntryMetadata,
    extended: &ObjectExtended,
    (digest, checksum): (Option<Digest>, Option<StoredChecksum>),
) -> Inode {
    let mut hasher = blake3::Hasher::new_derive_key("hakobu names of one file 1");
    let EntryMetadata { kind, mode, uid, gid, size_bytes, mtime, device, .. } = *metadata;
    for number in [stored.file_system, stored.number, size_bytes, mtime.seconds.cast_unsigned()] {
        hasher.update(&number.to_le_bytes());
    }
    for number in [kind as u32, mode, uid, gid, device, mtime.nanoseconds] {
        hasher.update(&number.to_le_bytes());
    }
    match extended {
        ObjectExtended::None => hasher.update(&[0]),
        ObjectExtended::Inline(extended) => {
            hasher.update(&[1]).update(blake3::hash(extended.as_bytes()).as_bytes())
        }
        ObjectExtended::Sidecar(name) => hasher.update(&[1]).update(&name.digest),
        ObjectExtended::Malformed => hasher.update(&[2]),
    };
    match digest {
        None => hasher.update(&[0]),
        Some(digest) => hasher.update(&[1]).update(&digest),
    };
    match checksum {
        None => hasher.update(&[0]),
        Some(StoredChecksum::Crc64(sum)) => hasher.update(&[1]).update(&sum.to_le_bytes()),
        Some(StoredChecksum::Crc32c(sum)) => hasher.update(&[2]).update(&sum.to_le_bytes()),
        Some(StoredChecksum::Md5(sum)) => hasher.update(&[3]).update(&sum),
    };
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = *hasher.finalize().as_bytes();
    let (file_system, number) = ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]);
    Inode { file_system: u64::from_le_bytes(file_system), number: u64::from_le_bytes(number) }
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
    /// The numbers of the owner and the group that are stored, instead of those among the attributes; `None` if none are.
    pub(crate) owner: Option<(u32, u32)>,
    /// The BLAKE3 of its content, if it is known.
    pub(crate) digest: Option<&'a Digest>,
    /// The checksum of that content that the store keeps.
    pub(crate) checksum: Option<StoredChecksum>,
    pub(crate) extended: Option<ExtendedRef<'a>>,
    /// The identity that it shares with other names of its file.
    pub(crate) inode: Option<Inode>,
}

/// The extended attributes that an object keeps while others of its attributes change.
#[derive(Clone, Debug)]
pub(crate) enum KeptAttributes {
    /// None.
    None,
    /// These.
    Known(Extended),
    /// Those that this value in the metadata stands for.
    Value(String),
}

impl KeptAttributes {
    /// Returns the extended attributes of an object.
    pub(crate) fn of(limits: &StoreLimits, head: &ObjectHead) -> Self {
        let name = limits.convention.attributes_name();
        match described(limits, head, false).extended {
            ObjectExtended::None => Self::None,
            ObjectExtended::Inline(extended) => Self::Known(extended),
            ObjectExtended::Sidecar(_) | ObjectExtended::Malformed => {
                let value = head.metadata.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
                value.map_or(Self::None, |(_, value)| Self::Value(value.clone()))
            }
        }
    }

    /// Returns the attributes themselves, if they are known.
    pub(crate) fn known(&self) -> Option<ExtendedRef<'_>> {
        if let Self::Known(extended) = self { Some(extended.as_ref()) } else { None }
    }

    /// Adds the value that stands for the attributes, if it is all that is known.
    pub(crate) fn put(self, limits: &StoreLimits, properties: &mut ObjectProperties) {
        if let Self::Value(value) = self {
            properties.metadata.push((limits.convention.attributes_name(), value));
        }
    }
}

/// Returns true if the store keeps checksums by which digests are proven.
pub(crate) fn keeps_checksums(limits: &StoreLimits) -> bool {
    limits.convention != MetadataConvention::Azure
}

/// Returns the checksum that the store will keep of content, given its CRC-64/NVME; `None` if it keeps none that is
/// known here.
pub(crate) fn kept_checksum(limits: &StoreLimits, content: &[Bytes], crc64: u64) -> Option<StoredChecksum> {
    match limits.convention {
        MetadataConvention::S3 => Some(StoredChecksum::Crc64(crc64)),
        MetadataConvention::Gcs => {
            let mut sum = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
            content.iter().for_each(|piece| sum.update(piece));
            Some(StoredChecksum::Crc32c(sum.finalize() as u32))
        }
        MetadataConvention::Azure => None,
    }
}

/// Returns what an entry is stored with, and the sidecar that must exist first.
pub(crate) fn properties<'a>(
    limits: &StoreLimits,
    entry: &EntryToStore<'a>,
) -> (ObjectProperties, Option<Sidecar<'a>>) {
    let Attributes { mode, mtime, .. } = *entry.attributes;
    let (uid, gid) = entry.owner.unwrap_or_default();
    let (size_bytes, device) = (entry.size_bytes, entry.device);
    let metadata = EntryMetadata {
        mode,
        uid,
        gid,
        mtime,
        size_bytes,
        device,
        inode: entry.inode,
        links: if entry.inode.is_some() { 2 } else { 1 },
        ..EntryMetadata::new(entry.kind)
    };
    let described = ObjectEntry {
        metadata: &metadata,
        owner: entry.owner.is_some(),
        extended: entry.extended,
        digest: entry.digest,
        checksum: entry.checksum,
    };
    let encoded = limits.convention.encode(&described);
    let properties = ObjectProperties {
        content_type: Some(content_type(entry.name, entry.kind).to_owned()),
        metadata: encoded.pairs,
        storage_class: None,
    };
    (properties, encoded.sidecar)
}
