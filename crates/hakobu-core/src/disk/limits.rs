//! Limits of the facts about block devices.

/// The maximum number of disks reported per machine.
pub const DISKS_MAX: usize = 1024;
/// The maximum number of partitions reported per disk.
pub const PARTITIONS_MAX: usize = 256;
/// The maximum number of signatures reported per device or partition.
pub const SIGNATURES_MAX: usize = 32;
/// The maximum number of uses reported per device.
pub const USES_MAX: usize = 256;
/// The maximum number of notes per device.
pub const NOTES_MAX: usize = 32;
/// The maximum length of a name, label or note in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// The maximum length of a device ID in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// The maximum length of a path in bytes.
pub const PATH_BYTES_MAX: usize = 4095;

/// Truncates a text to [`TEXT_BYTES_MAX`] bytes, at a character boundary.
pub fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    }
    text
}
