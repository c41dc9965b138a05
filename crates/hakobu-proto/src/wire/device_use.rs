//! The wire format of a block device's uses.

use hakobu_core::disk::{PATH_BYTES_MAX, TEXT_BYTES_MAX};

use super::bounded::{BoundedBytes, BoundedText};
use super::mirror::mirror;

mirror! {
    struct DeviceUse of hakobu_core::disk::DeviceUse {
        device: BoundedBytes<TEXT_BYTES_MAX>,
        kind: UseKind,
    }
}

mirror! {
    enum UseKind of hakobu_core::disk::UseKind {
        Mounted { path: BoundedBytes<PATH_BYTES_MAX>, file_system: BoundedText<TEXT_BYTES_MAX>, read_only: bool },
        Swap,
        Holder { name: BoundedBytes<TEXT_BYTES_MAX>, label: BoundedBytes<TEXT_BYTES_MAX>, kind: HolderKind },
        Loop { name: BoundedBytes<TEXT_BYTES_MAX> },
        Zfs { pool: BoundedBytes<TEXT_BYTES_MAX>, imported: Option<bool> },
        OpenForWriting { pid: u32, command: BoundedBytes<TEXT_BYTES_MAX> },
        Claimed,
    }
}

mirror! {
    enum HolderKind of hakobu_core::disk::HolderKind {
        Md,
        Lvm,
        Crypt,
        Multipath,
        OtherDm,
        Bcache,
        Other,
    }
}
