//! What uses a device.

/// A use of a device, of a partition of it, or of a volume that lies on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The kernel's name of what is used: the device itself, its partition, or a volume on it.
    pub device: Vec<u8>,
    /// How.
    pub kind: UseKind,
}

/// The ways to use a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UseKind {
    /// It is mounted.
    Mounted {
        /// Where.
        path: Vec<u8>,
        /// The kind of file system.
        file_system: String,
        /// Whether the file system takes no writes, at no place where it is mounted.
        read_only: bool,
    },
    /// It is swap space in use.
    Swap,
    /// A volume is made of it.
    Holder {
        /// The kernel's name of the volume: `dm-0`, `md127`.
        name: Vec<u8>,
        /// The name that people gave it, or empty.
        label: Vec<u8>,
        /// Its kind.
        kind: HolderKind,
    },
    /// It is behind a loop device.
    Loop {
        /// The kernel's name of the loop device.
        name: Vec<u8>,
    },
    /// It belongs to a ZFS pool.
    Zfs {
        /// The pool, or empty.
        pool: Vec<u8>,
        /// Whether the pool is imported here; unknown otherwise.
        imported: Option<bool>,
    },
    /// A process has it open for writing.
    OpenForWriting {
        /// The process.
        pid: u32,
        /// Its command's name.
        command: Vec<u8>,
    },
    /// The kernel holds it for something that cannot be seen from here, such as a mount in
    /// another container.
    Claimed,
}

/// Kinds of volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderKind {
    /// A software RAID.
    Md,
    /// A logical volume of LVM.
    Lvm,
    /// An opened encrypted volume.
    Crypt,
    /// One device over several paths.
    Multipath,
    /// Another volume of device mapper.
    OtherDm,
    /// bcache.
    Bcache,
    /// Something else.
    Other,
}
