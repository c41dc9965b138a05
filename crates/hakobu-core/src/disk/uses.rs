//! What uses a device.

use serde::{Deserialize, Serialize};

use super::limits::{BoundedBytes, PATH_BYTES_MAX, TEXT_BYTES_MAX, bounded_text};

/// A use of a device, of a partition of it, or of a volume that lies on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// The kernel's name of what is used: the device itself, its partition, or a volume on it.
    #[serde(with = "BoundedBytes::<TEXT_BYTES_MAX>")]
    pub device: Vec<u8>,
    /// How.
    pub kind: UseKind,
}

/// The ways to use a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UseKind {
    /// It is mounted.
    Mounted {
        /// Where.
        #[serde(with = "BoundedBytes::<PATH_BYTES_MAX>")]
        path: Vec<u8>,
        /// The kind of file system.
        #[serde(deserialize_with = "bounded_text::<_, TEXT_BYTES_MAX>")]
        file_system: String,
        /// Whether the file system takes no writes, at no place where it is mounted.
        read_only: bool,
    },
    /// It is swap space in use.
    Swap,
    /// A volume is made of it.
    Holder {
        /// The kernel's name of the volume: `dm-0`, `md127`.
        #[serde(with = "BoundedBytes::<TEXT_BYTES_MAX>")]
        name: Vec<u8>,
        /// The name that people gave it, or empty.
        #[serde(with = "BoundedBytes::<TEXT_BYTES_MAX>")]
        label: Vec<u8>,
        /// Its kind.
        kind: HolderKind,
    },
    /// It is behind a loop device.
    Loop {
        /// The kernel's name of the loop device.
        #[serde(with = "BoundedBytes::<TEXT_BYTES_MAX>")]
        name: Vec<u8>,
    },
    /// It belongs to a ZFS pool.
    Zfs {
        /// The pool, or empty.
        #[serde(with = "BoundedBytes::<TEXT_BYTES_MAX>")]
        pool: Vec<u8>,
        /// Whether the pool is imported here; unknown otherwise.
        imported: Option<bool>,
    },
    /// A process has it open for writing.
    OpenForWriting {
        /// The process.
        pid: u32,
        /// Its command's name.
        #[serde(with = "BoundedBytes::<TEXT_BYTES_MAX>")]
        command: Vec<u8>,
    },
    /// The kernel holds it for something that cannot be seen from here, such as a mount in
    /// another container.
    Claimed,
}

/// Kinds of volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
