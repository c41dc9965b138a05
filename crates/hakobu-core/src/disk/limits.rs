//! Limits of facts about devices.

/// The most disks of one machine that are told.
pub const DISKS_MAX: usize = 1024;
/// The most partitions of one disk that are told.
pub const PARTITIONS_MAX: usize = 256;
/// The most signatures that are told of one device or partition.
pub const SIGNATURES_MAX: usize = 32;
/// The most uses of one device that are told.
pub const USES_MAX: usize = 256;
/// The most remarks on one device.
pub const NOTES_MAX: usize = 32;
/// The longest name, label or remark, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// The longest ID of a device, in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// The longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 4095;

/// A text cut to [`TEXT_BYTES_MAX`] bytes, at a character's edge.
pub fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    }
    text
}
