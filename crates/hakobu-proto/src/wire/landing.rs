//! The wire format of the entry that exists at the target's path, and of the identities that show whether it is the
//! source.

use super::bounded::BoundedBytes;
use super::mirror::mirror;

mirror! {
    enum TargetFound of hakobu_core::landing::TargetFound {
        Absent { parent_exists: bool },
        Directory,
        File,
        Symlink,
        CharacterDevice { null: bool },
        BlockDevice,
        Special,
        Stream,
    }
}

mirror! {
    struct FileIdentity of hakobu_core::landing::FileIdentity {
        boot_id: String,
        device: u64,
        inode: u64,
    }
}

mirror! {
    struct Ancestry of hakobu_core::landing::Ancestry {
        exists: bool,
        upwards: Vec<FileIdentity>,
        volumes: Vec<VolumePath>,
    }
}

mirror! {
    struct VolumePath of hakobu_core::landing::VolumePath {
        volume: String,
        path: BoundedBytes,
        mounted_at: BoundedBytes,
        identity: Option<(u64, u64)>,
        only_read: bool,
    }
}
