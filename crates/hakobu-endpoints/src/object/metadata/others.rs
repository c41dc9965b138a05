//! Metadata that tools add to objects of others: rclone its `mtime`, s3fs and `rclone --metadata` also `mode`, `uid` and
//! `gid`, gcsfuse a time of its own.

use hakobu_core::entry::{EntryKind, FileTime};

use super::convention::MetadataConvention;
use super::fields::MetadataReader;
use super::values::{any_time, decimal, from_st_mode, octal};

/// The attributes under names that have no prefix of a vendor.
#[derive(Debug, Default)]
pub(super) struct OtherFields {
    /// The type and the mode.
    pub mode: Option<(EntryKind, u32)>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// rclone's time, which hakobu writes as well.
    pub mtime: Option<FileTime>,
    /// gcsfuse's time.
    pub gcsfuse_mtime: Option<FileTime>,
}

pub(super) fn read(
    convention: MetadataConvention,
    is_directory: bool,
    reader: &MetadataReader,
) -> OtherFields {
    // Anything else under these names is somebody's own metadata.
    let mode = reader.get("mode").and_then(|text| mode(text, is_directory));
    let id = |name| mode.and_then(|_| reader.read(name, decimal));
    let gcsfuse = (convention == MetadataConvention::Gcs).then_some("gcsfuse_mtime");
    OtherFields {
        mode,
        uid: id("uid"),
        gid: id("gid"),
        mtime: reader.read("mtime", any_time),
        gcsfuse_mtime: gcsfuse.and_then(|name| reader.read(name, any_time)),
    }
}

/// Reads an `st_mode` with a type: s3fs writes it in decimal, rclone in octal. Only one of the readings has a type that
/// fits the key.
fn mode(text: &str, is_directory: bool) -> Option<(EntryKind, u32)> {
    let fits = |st_mode: u32| {
        let (kind, mode) = from_st_mode(st_mode)?;
        kind.filter(|kind| (*kind == EntryKind::Directory) == is_directory).map(|kind| (kind, mode))
    };
    decimal(text).and_then(fits).or_else(|| octal(text).and_then(fits))
}
