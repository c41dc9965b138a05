//! Metadata in Azure, by the names of AzCopy. AzCopy has two styles; hakobu reads both and writes the older one, which
//! keeps nanoseconds and types.

use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime};
use hakobu_core::times::from_rfc3339;

use super::fields::{MetadataFields, MetadataReader, MetadataWriter, packed_device, split_device};
use super::values::{decimal, from_st_mode, nanoseconds, octal, st_mode, text_time, time_in};

/// The names that mark a type, in an order in which the first one is right: AzCopy also marks symbolic links, sockets and
/// block devices as what has some of the bits of their type.
const TYPE_MARKS: [(&str, EntryKind); 6] = [
    ("is_symlink", EntryKind::Symlink),
    ("is_socket", EntryKind::Socket),
    ("is_block_dev", EntryKind::BlockDevice),
    ("hdi_isfolder", EntryKind::Directory),
    ("is_char_dev", EntryKind::CharDevice),
    ("is_fifo", EntryKind::Fifo),
];

pub(super) fn write(it: &EntryMetadata, owner: bool, out: &mut MetadataWriter) {
    out.push("mtime", text_time(it.mtime));
    out.push("modtime", nanoseconds(it.mtime).to_string());
    out.push("permissions", st_mode(it.kind, it.mode).to_string());
    if owner {
        out.push("posix_owner", it.uid.to_string());
        out.push("posix_group", it.gid.to_string());
    }
    if let Some((mark, _)) = TYPE_MARKS.into_iter().find(|(_, kind)| *kind == it.kind) {
        out.push(mark, "true".to_owned());
    }
    if matches!(it.kind, EntryKind::BlockDevice | EntryKind::CharDevice) {
        let (major, minor) = split_device(it.device);
        let (major, minor) = (u64::from(major), u64::from(minor));
        // As glibc packs it.
        out.push("posix_rdev", ((major << 8) | (minor & 0xff) | ((minor & !0xff) << 12)).to_string());
    }
}

pub(super) fn read(reader: &MetadataReader) -> MetadataFields {
    let is_newer_style = ["owner", "group"].into_iter().any(|name| reader.has(name));
    let permissions = |text: &str| {
        let is_octal = is_newer_style || text.starts_with('0');
        from_st_mode(if is_octal { octal(text)? } else { decimal(text)? })
    };
    let (kind, mode) =
        reader.read("permissions", permissions).map_or((None, None), |(kind, mode)| (kind, Some(mode)));
    let marked = || TYPE_MARKS.into_iter().find(|(mark, _)| is_true(reader, mark)).map(|(_, kind)| kind);
    MetadataFields {
        kind: kind.or_else(marked),
        mode,
        uid: reader.read("owner", decimal).or_else(|| reader.read("posix_owner", decimal)),
        gid: reader.read("group", decimal).or_else(|| reader.read("posix_group", decimal)),
        mtime: reader.read("modtime", |text| time_in(text, 1).or_else(|| newer_time(text))),
        device: reader.read("posix_rdev", device),
    }
}

/// Returns true if a blob without a slash at the end of its key is a directory.
pub(super) fn is_folder(reader: &MetadataReader) -> bool {
    is_true(reader, "hdi_isfolder") && !is_true(reader, "is_socket") && !is_true(reader, "is_block_dev")
}

fn is_true(reader: &MetadataReader, name: &str) -> bool {
    let truth = |text: &str| match text {
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    };
    reader.read(name, truth) == Some(true)
}

/// Reads a time of the newer style, `2026-01-02 03:04:05 +0000`.
fn newer_time(text: &str) -> Option<FileTime> {
    let (clock, zone) = text.rsplit_once(' ')?;
    let (hours, minutes) = zone.split_at_checked(3)?;
    from_rfc3339(&format!("{clock}{hours}:{minutes}"))
}

fn device(text: &str) -> Option<u32> {
    let number: u64 = decimal(text)?;
    let major = ((number >> 8) & 0xfff) | ((number >> 32) & !0xfff);
    let minor = (number & 0xff) | ((number >> 12) & 0xffff_ff00);
    packed_device(major, minor)
}
