//! Users of a block device.

/// A use of a device, of a partition of it, or of a volume on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// The kernel's name of the used object: the device itself, its partition, or a volume on it.
    pub device: Vec<u8>,
    /// The kind of use.
    pub kind: UseKind,
}

/// The kinds of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UseKind {
    /// It is mounted.
    Mounted {
        /// The mount point.
        path: Vec<u8>,
        /// The file system type.
        file_system: String,
        /// True if the file system is read-only at every mount point.
        read_only: bool,
    },
    /// It is active swap space.
    Swap,
    /// It is a member of a volume.
    Holder {
        /// The kernel's name of the volume, such as `dm-0` or `md127`.
        name: Vec<u8>,
        /// The volume's name, or empty.
        label: Vec<u8>,
        /// The kind of volume.
        kind: HolderKind,
    },
    /// It is behind a loop device.
    Loop {
        /// The kernel's name of the loop device.
        name: Vec<u8>,
    },
    /// It belongs to a ZFS pool.
    Zfs {
        /// The name of the pool, or empty.
        pool: Vec<u8>,
        /// True if the pool is imported here; `None` if unknown.
        imported: Option<bool>,
    },
    /// A process has it open for writing.
    OpenForWriting {
        /// The process ID.
        pid: u32,
        /// The command name.
        command: Vec<u8>,
    },
    /// The kernel has claimed it for something that is not visible here, such as a mount in another container.
    Claimed,
}

/// The kinds of volumes.
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
    /// Another kind of device-mapper volume.
    OtherDm,
    /// bcache.
    Bcache,
    /// Another kind of volume.
    Other,
}
