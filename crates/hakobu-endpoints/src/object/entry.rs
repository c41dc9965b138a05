//! Entries as objects: what an object's metadata says about its entry, and the metadata that an entry is stored with.

use hakobu_core::digest::Digest;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime};

use super::api::{ListedObject, ObjectHead, ObjectProperties};

/// The type bits of a mode, as in `st_mode`.
const TYPE: u32 = 0o170_000;
const KINDS: [(u32, EntryKind); 6] = [
    (0o100_000, EntryKind::File),
    (0o040_000, EntryKind::Directory),
    (0o120_000, EntryKind::Symlink),
    (0o010_000, EntryKind::Fifo),
    (0o060_000, EntryKind::BlockDevice),
    (0o020_000, EntryKind::CharDevice),
];

/// An entry as its object describes it.
#[derive(Clone, Debug)]
pub(crate) struct ObjectEntry {
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

/// Returns the entry of an object that was listed.
pub(crate) fn listed(object: &ListedObject) -> EntryMetadata {
    plain(EntryKind::File, object.size_bytes, object.uploaded)
}

/// Returns the entry of an object. `kind` is that of an object that does not say its kind.
pub(crate) fn described(head: &ObjectHead, kind: EntryKind) -> ObjectEntry {
    let value =
        |name: &str| head.metadata.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let number = |name: &str| value(name).and_then(|text| text.parse::<u32>().ok());
    let mut metadata = plain(kind, head.size_bytes, head.uploaded);
    if let Some(mode) = value("file-permissions").and_then(|text| u32::from_str_radix(text, 8).ok()) {
        if let Some((_, told)) = KINDS.iter().find(|(bits, _)| *bits == mode & TYPE)
            && (*told == EntryKind::Directory) == (kind == EntryKind::Directory)
        {
            metadata.kind = *told;
        }
        metadata.mode = mode & 0o7777;
    }
    if metadata.kind == EntryKind::Directory {
        metadata.size_bytes = 0;
    }
    metadata.uid = number("file-owner").unwrap_or(metadata.uid);
    metadata.gid = number("file-group").unwrap_or(metadata.gid);
    metadata.device = number("hakobu-device").unwrap_or(0);
    if let Some(time) = value("mtime").and_then(time_of) {
        metadata.mtime = time;
    }
    let digest = value("hakobu-blake3").and_then(|text| blake3::Hash::from_hex(text).ok());
    ObjectEntry { metadata, digest: digest.map(|hash| *hash.as_bytes()) }
}

/// Returns what an entry is stored with.
pub(crate) fn properties(
    (kind, device): (EntryKind, u32),
    attributes: &Attributes,
    digest: Option<&Digest>,
) -> ObjectProperties {
    let bits = KINDS.iter().find(|(_, known)| *known == kind).map_or(0, |(bits, _)| *bits);
    let mut metadata = vec![
        ("file-permissions".to_owned(), format!("{:07o}", bits | attributes.mode & 0o7777)),
        ("file-owner".to_owned(), attributes.uid.to_string()),
        ("file-group".to_owned(), attributes.gid.to_string()),
        ("mtime".to_owned(), time_text(attributes.mtime)),
        ("user-agent".to_owned(), "hakobu".to_owned()),
    ];
    if device != 0 {
        metadata.push(("hakobu-device".to_owned(), device.to_string()));
    }
    if let Some(digest) = digest {
        metadata.push(("hakobu-blake3".to_owned(), blake3::Hash::from_bytes(*digest).to_hex().to_string()));
    }
    ObjectProperties { metadata, ..ObjectProperties::default() }
}

/// Returns a time in seconds with up to nine decimals.
fn time_text(time: FileTime) -> String {
    // A time before 1970 is a larger number of seconds with a fraction that leads back to it.
    let nanoseconds = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let (sign, size) = if nanoseconds < 0 { ("-", -nanoseconds) } else { ("", nanoseconds) };
    let (seconds, fraction) = (size / 1_000_000_000, size % 1_000_000_000);
    let text = format!("{sign}{seconds}.{fraction:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn time_of(text: &str) -> Option<FileTime> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    let nanoseconds: i128 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let all = sign * (i128::from(seconds.parse::<i64>().ok()?) * 1_000_000_000 + nanoseconds);
    let seconds = i64::try_from(all.div_euclid(1_000_000_000)).ok()?;
    Some(FileTime { seconds, nanoseconds: u32::try_from(all.rem_euclid(1_000_000_000)).ok()? })
}
