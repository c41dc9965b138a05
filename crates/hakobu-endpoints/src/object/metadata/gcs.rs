//! Metadata in Google Cloud Storage, by the names of gcloud, gsutil and Storage Transfer Service.

use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime};

use super::fields::{MetadataFields, MetadataReader, MetadataWriter};
use super::values::{decimal, octal, text_time, time_in};

const SECOND_NS: i128 = 1_000_000_000;
const IS_SYMLINK: &str = "goog-reserved-file-is-symlink";
/// The bits of a mode that fit the convention's three digits.
pub(super) const MODE_BITS: u32 = 0o777;

pub(super) fn write(it: &EntryMetadata, owner: bool, out: &mut MetadataWriter) {
    out.push("mtime", text_time(it.mtime));
    out.push("goog-reserved-file-mtime", it.mtime.seconds.to_string());
    out.push("goog-reserved-posix-mode", format!("{:03o}", it.mode & MODE_BITS));
    if owner {
        out.push("goog-reserved-posix-uid", it.uid.to_string());
        out.push("goog-reserved-posix-gid", it.gid.to_string());
    }
    if it.kind == EntryKind::Symlink {
        out.push(IS_SYMLINK, "true".to_owned());
    }
}

pub(super) fn read(reader: &MetadataReader) -> MetadataFields {
    let is_symlink = reader.read(IS_SYMLINK, |text| match text {
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    });
    MetadataFields {
        kind: (is_symlink == Some(true)).then_some(EntryKind::Symlink),
        mode: reader.read("goog-reserved-posix-mode", |text| octal(text).filter(|mode| *mode <= 0o7777)),
        uid: reader.read("goog-reserved-posix-uid", decimal),
        gid: reader.read("goog-reserved-posix-gid", decimal),
        mtime: reader.read("goog-reserved-file-mtime", whole_seconds),
        device: None,
    }
}

fn whole_seconds(text: &str) -> Option<FileTime> {
    time_in(text, SECOND_NS)
}
