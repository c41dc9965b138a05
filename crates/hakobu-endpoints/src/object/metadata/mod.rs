//! Attributes of entries as metadata of objects: names and values, by the convention of each provider's own tools.
//!
//! [`MetadataConvention::encode`] writes one set of names: the convention's, rclone's time, and hakobu's own for the rest.
//! [`MetadataConvention::decode`] also reads what other tools wrote. If names disagree, the one wins that somebody else
//! has changed later: tools rewrite their own names and keep those of others, so
//!
//! - gcsfuse's time comes before rclone's, and rclone's before the convention's, although hakobu writes both of these;
//! - `mode`, `uid` and `gid`, which hakobu does not write, come before the convention's;
//! - the convention's permissions come before hakobu's own, which only add what the convention lacks;
//! - a digest counts only if the times agree and the size is the one that it was written with.
//!
//! A slash at the end of a key makes a directory, whatever the metadata says. A malformed value is counted and otherwise
//! treated as missing. Only malformed extended attributes make an entry unreadable, because taking them for missing would
//! remove access lists.

pub mod content_type;
pub mod sidecar;

mod azure;
mod convention;
mod fields;
mod gcs;
mod others;
mod own;
mod s3;
mod values;

#[cfg(test)]
mod tests;

use hakobu_core::digest::Digest;
use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime, Inode};
use hakobu_core::extended::ExtendedRef;

use super::stored_checksum::StoredChecksum;
pub use convention::MetadataConvention;
use fields::{MetadataFields, MetadataReader, MetadataWriter};
pub use own::ObjectExtended;
use sidecar::Sidecar;

/// An entry to be described in the metadata of its object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectEntry<'m, 'a> {
    /// The attributes.
    pub metadata: &'m EntryMetadata,
    /// True if the owner and the group are part of the metadata.
    pub owner: bool,
    /// The extended attributes, if they are preserved.
    pub extended: Option<ExtendedRef<'a>>,
    /// The BLAKE3 of the content, if it is known before the metadata is sent.
    pub digest: Option<&'m Digest>,
    /// The checksum of that content that the store will keep. By it, the digest is known later to be that of the content.
    pub checksum: Option<StoredChecksum>,
}

/// The metadata of an object to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataPairs<'a> {
    /// Names and values, in ASCII. A request has the provider's prefix before each name.
    pub pairs: Vec<(String, String)>,
    /// An object that must exist before the metadata refers to it.
    pub sidecar: Option<Sidecar<'a>>,
}

/// An entry as the metadata of its object describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMetadata {
    /// The kind; a file if nothing says otherwise.
    pub kind: EntryKind,
    /// Permissions with set-ID and sticky bits.
    pub mode: Option<u32>,
    /// The owner's number.
    pub uid: Option<u32>,
    /// The group's number.
    pub gid: Option<u32>,
    /// The time of the last content change.
    pub mtime: Option<FileTime>,
    /// The number of a device node, packed as in [`EntryMetadata::device`].
    pub device: Option<u32>,
    /// The identity that all names of a hard-linked file share.
    pub inode: Option<Inode>,
    /// The extended attributes.
    pub extended: ObjectExtended,
    /// The BLAKE3 of the content, if the metadata shows no change since it was written.
    pub digest: Option<Digest>,
    /// The store's checksum of the content that the digest was computed from.
    pub checksum: Option<StoredChecksum>,
    /// The number of values that are malformed or contradict the key.
    pub malformed: u32,
}

impl MetadataConvention {
    /// Returns the metadata for the object of an entry.
    pub fn encode<'a>(self, entry: &ObjectEntry<'_, 'a>) -> MetadataPairs<'a> {
        let mut out = MetadataWriter::new(self.prefix());
        match self {
            Self::S3 => s3::write(entry.metadata, entry.owner, &mut out),
            Self::Azure => azure::write(entry.metadata, entry.owner, &mut out),
            Self::Gcs => gcs::write(entry.metadata, entry.owner, &mut out),
        }
        own::write(self, entry.metadata, (entry.digest, entry.checksum), &mut out);
        let extended = entry.extended.filter(|extended| !extended.is_empty());
        let sidecar = extended.and_then(|extended| own::write_extended(self, extended, &mut out));
        MetadataPairs { pairs: out.pairs, sidecar }
    }

    /// Returns what the metadata of an object says about an entry. `is_marker`: its key ends with a slash. The names have
    /// no prefix.
    pub fn decode<'a>(
        self,
        is_marker: bool,
        size_bytes: u64,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> ObjectMetadata {
        // fake-gcs-server keeps names that were removed, with empty values.
        let states = |(_, value): &(&str, &str)| self != Self::Gcs || !value.is_empty();
        let reader = MetadataReader::new(pairs.into_iter().filter(states));
        let is_directory = is_marker || self == Self::Azure && azure::is_folder(&reader);
        let convention = match self {
            Self::S3 => s3::read(&reader),
            Self::Azure => azure::read(&reader),
            Self::Gcs => gcs::read(&reader),
        };
        let others = others::read(self, is_directory, &reader);
        let own = own::read(self, &reader);
        let unchanged = others.gcsfuse_mtime.is_none() && self.times_agree(others.mtime, &convention);
        let digest = own.digest.filter(|digest| unchanged && digest.size_bytes == size_bytes);
        let kind = others.mode.or(own.mode).map(|(kind, _)| kind).or(convention.kind);
        ObjectMetadata {
            kind: fitting_kind(kind, is_directory, &reader),
            mode: others.mode.map(|(_, mode)| mode).or_else(|| merged_mode(&convention, own.mode)),
            uid: others.uid.or(convention.uid),
            gid: others.gid.or(convention.gid),
            mtime: others.gcsfuse_mtime.or(others.mtime).or(convention.mtime),
            device: convention.device.or(own.device),
            inode: own.inode,
            extended: own.extended,
            digest: digest.map(|digest| digest.blake3),
            checksum: digest.and_then(|digest| digest.checksum),
            malformed: reader.malformed(),
        }
    }

    /// Returns true if rclone's time and the convention's are both there and equal, as hakobu wrote them.
    fn times_agree(self, rclone: Option<FileTime>, convention: &MetadataFields) -> bool {
        match (rclone, convention.mtime, self) {
            (Some(rclone), Some(other), Self::Gcs) => rclone.seconds == other.seconds,
            (Some(rclone), Some(other), _) => rclone == other,
            _ => false,
        }
    }
}

/// Returns the kind of the entry. A key decides what is a directory.
fn fitting_kind(kind: Option<EntryKind>, is_directory: bool, reader: &MetadataReader) -> EntryKind {
    let by_key = if is_directory { EntryKind::Directory } else { EntryKind::File };
    match kind {
        Some(kind) if (kind == EntryKind::Directory) == is_directory => kind,
        Some(_) => {
            reader.count_malformed();
            by_key
        }
        None => by_key,
    }
}

/// Returns the mode: hakobu's own if the bits that the convention holds are equal, because a tool that changed the
/// convention's knows nothing of the other.
fn merged_mode(convention: &MetadataFields, own: Option<(EntryKind, u32)>) -> Option<u32> {
    match (convention.mode, own) {
        (Some(mode), Some((_, own))) if mode & gcs::MODE_BITS != own & gcs::MODE_BITS => Some(mode),
        (mode, own) => own.map(|(_, own)| own).or(mode),
    }
}
