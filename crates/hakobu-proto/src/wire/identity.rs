//! The wire format of a block device's identity.

use hakobu_core::disk::{ID_BYTES_MAX, PATH_BYTES_MAX, USES_MAX};

use super::bounded::{BoundedBytes, BoundedList, BoundedText};
use super::mirror::mirror;

mirror! {
    struct DeviceNumber of hakobu_core::disk::DeviceNumber {
        major: u32,
        minor: u32,
    }
}

mirror! {
    struct FileNumber of hakobu_core::disk::FileNumber {
        device: DeviceNumber,
        inode: u64,
        offset_bytes: u64,
    }
}

mirror! {
    enum IdKind of hakobu_core::disk::IdKind {
        WorldWideName,
        Volume,
        Serial,
        Made,
    }
}

mirror! {
    struct DeviceIdentity of hakobu_core::disk::DeviceIdentity {
        id: BoundedText<ID_BYTES_MAX>,
        kind: IdKind,
        place_id: BoundedText<ID_BYTES_MAX>,
        boot_id: BoundedText<ID_BYTES_MAX>,
        number: DeviceNumber,
        whole: Option<DeviceNumber>,
        whole_id: BoundedText<ID_BYTES_MAX>,
        below: BoundedList<DeviceNumber, USES_MAX>,
        backing: Option<FileNumber>,
        backing_path: BoundedBytes<PATH_BYTES_MAX>,
        size_bytes: u64,
    }
}
