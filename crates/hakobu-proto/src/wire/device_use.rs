//! The wire format of a block device's uses.

use hakobu_core::disk::{PATH_BYTES_MAX, TEXT_BYTES_MAX};

use super::bounded::{Bytes, Text};
use super::mirror::mirror;

mirror! {
    struct Use of hakobu_core::disk::Use {
        device: Bytes<TEXT_BYTES_MAX>,
        kind: UseKind,
    }
}

mirror! {
    enum UseKind of hakobu_core::disk::UseKind {
        Mounted { path: Bytes<PATH_BYTES_MAX>, file_system: Text<TEXT_BYTES_MAX>, read_only: bool },
        Swap,
        Holder { name: Bytes<TEXT_BYTES_MAX>, label: Bytes<TEXT_BYTES_MAX>, kind: HolderKind },
        Loop { name: Bytes<TEXT_BYTES_MAX> },
        Zfs { pool: Bytes<TEXT_BYTES_MAX>, imported: Option<bool> },
        OpenForWriting { pid: u32, command: Bytes<TEXT_BYTES_MAX> },
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
