//! Metadata under hakobu's own names, for what no convention expresses.

use hakobu_core::digest::{Digest, hex};
use hakobu_core::entry::{EntryKind, EntryMetadata, Inode};
use hakobu_core::extended::{Extended, ExtendedRef};
use hakobu_core::report::{base64, from_base64};

use super::convention::MetadataConvention;
use super::fields::{MetadataReader, MetadataWriter, packed_device, split_device};
use super::gcs;
use super::sidecar::{Sidecar, SidecarName};
use super::values::{decimal, from_st_mode, hex_bytes, hexadecimal, octal, st_mode};
use crate::object::stored_checksum::StoredChecksum;

const WRITER: &str = "hakobu";

/// The extended attributes that the metadata of an object states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ObjectExtended {
    /// None.
    #[default]
    None,
    /// These.
    Inline(Extended),
    /// Those in an object of their own.
    Sidecar(SidecarName),
    /// Some that cannot be read.
    Malformed,
}

/// The attributes under hakobu's own names.
#[derive(Debug, Default)]
pub(super) struct OwnFields {
    /// The type and the mode.
    pub mode: Option<(EntryKind, u32)>,
    pub device: Option<u32>,
    pub inode: Option<Inode>,
    pub digest: Option<ContentDigest>,
    pub extended: ObjectExtended,
}

/// The content that the metadata was written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentDigest {
    pub blake3: Digest,
    pub size_bytes: u64,
    /// The checksum that the store kept of it.
    pub checksum: Option<StoredChecksum>,
}

pub(super) fn write(
    convention: MetadataConvention,
    it: &EntryMetadata,
    (digest, checksum): (Option<&Digest>, Option<StoredChecksum>),
    out: &mut MetadataWriter,
) {
    let mut push = |name: &str, value: String| out.push(convention.own_name(name), value);
    push("user-agent", WRITER.to_owned());
    let has_type = matches!(it.kind, EntryKind::File | EntryKind::Directory | EntryKind::Symlink);
    if convention == MetadataConvention::Gcs && (!has_type || it.mode & !gcs::MODE_BITS != 0) {
        push("hakobu-mode", format!("{:07o}", st_mode(it.kind, it.mode)));
    }
    let is_device = matches!(it.kind, EntryKind::BlockDevice | EntryKind::CharDevice);
    if is_device && convention != MetadataConvention::Azure {
        let (major, minor) = split_device(it.device);
        push("hakobu-device", format!("{major}:{minor}"));
    }
    if let Some(inode) = it.inode.filter(|_| it.links > 1) {
        push("hakobu-inode", format!("{:x}-{:x}", inode.file_system, inode.number));
    }
    if let Some(digest) = digest {
        let checksum = checksum.map_or_else(String::new, |checksum| format!("/{}", checksum.text()));
        push("hakobu-blake3", format!("{}/{}{checksum}", hex(digest), it.size_bytes));
    }
}

/// Adds extended attributes: in the metadata if they fit, else as the name of a sidecar, which is returned.
pub(super) fn write_extended<'a>(
    convention: MetadataConvention,
    extended: ExtendedRef<'a>,
    out: &mut MetadataWriter,
) -> Option<Sidecar<'a>> {
    let name = convention.attributes_name();
    let value_bytes = extended.as_bytes().len().div_ceil(3) * 4;
    let size_bytes = out.size_bytes + out.bytes_of(&name, value_bytes);
    if size_bytes <= convention.bytes_max() && value_bytes <= convention.value_bytes_max() {
        out.push(name, base64(extended.as_bytes()));
        return None;
    }
    let sidecar = Sidecar::new(extended);
    out.push(name, sidecar.name.value());
    Some(sidecar)
}

pub(super) fn read(convention: MetadataConvention, reader: &MetadataReader) -> OwnFields {
    let name = |words| convention.own_name(words);
    let attributes = convention.attributes_name();
    OwnFields {
        mode: reader.read(&name("hakobu-mode"), |text| {
            let (kind, mode) = from_st_mode(octal(text)?)?;
            Some((kind?, mode))
        }),
        device: reader.read(&name("hakobu-device"), |text| {
            let (major, minor) = text.split_once(':')?;
            packed_device(decimal(major)?, decimal(minor)?)
        }),
        inode: reader.read(&name("hakobu-inode"), |text| {
            let (file_system, number) = text.split_once('-')?;
            Some(Inode { file_system: hexadecimal(file_system)?, number: hexadecimal(number)? })
        }),
        digest: reader.read(&name("hakobu-blake3"), |text| {
            let (digest, rest) = text.split_once('/')?;
            let (size_bytes, checksum) = match rest.split_once('/') {
                Some((size_bytes, checksum)) => (size_bytes, Some(StoredChecksum::from_text(checksum)?)),
                None => (rest, None),
            };
            Some(ContentDigest { blake3: hex_bytes(digest)?, size_bytes: decimal(size_bytes)?, checksum })
        }),
        extended: match reader.read(&attributes, extended) {
            Some(extended) => extended,
            None if reader.has(&attributes) => ObjectExtended::Malformed,
            None => ObjectExtended::None,
        },
    }
}

fn extended(text: &str) -> Option<ObjectExtended> {
    if let Some(name) = SidecarName::from_value(text) {
        return Some(ObjectExtended::Sidecar(name));
    }
    Extended::decode(from_base64(text)?).ok().map(ObjectExtended::Inline)
}
