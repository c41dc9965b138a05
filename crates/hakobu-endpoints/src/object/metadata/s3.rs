//! Metadata in S3, by the names of DataSync, FSx for Lustre and File Gateway.

use hakobu_core::entry::{EntryMetadata, FileTime};

use super::fields::{MetadataFields, MetadataReader, MetadataWriter};
use super::values::{decimal, decimal_time, from_st_mode, nanoseconds, octal, st_mode, time_in};

const MILLISECOND_NS: i128 = 1_000_000;

pub(super) fn write(it: &EntryMetadata, owner: bool, out: &mut MetadataWriter) {
    out.push("mtime", decimal_time(it.mtime));
    out.push("file-mtime", format!("{}ns", nanoseconds(it.mtime)));
    out.push("file-permissions", format!("{:07o}", st_mode(it.kind, it.mode)));
    if owner {
        out.push("file-owner", it.uid.to_string());
        out.push("file-group", it.gid.to_string());
    }
}

pub(super) fn read(reader: &MetadataReader) -> MetadataFields {
    // File Gateway writes no type.
    let (kind, mode) = reader
        .read("file-permissions", |text| from_st_mode(octal(text)?))
        .map_or((None, None), |(kind, mode)| (kind, Some(mode)));
    MetadataFields {
        kind,
        mode,
        uid: reader.read("file-owner", decimal),
        gid: reader.read("file-group", decimal),
        mtime: reader.read("file-mtime", file_time),
        device: None,
    }
}

/// Reads nanoseconds with their unit, or milliseconds without one.
fn file_time(text: &str) -> Option<FileTime> {
    match text.strip_suffix("ns") {
        Some(number) => time_in(number, 1),
        None => time_in(text, MILLISECOND_NS),
    }
}
