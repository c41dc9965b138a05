//! Facts about block devices: identity, contents and users.
//!
//! Facts are gathered on the machine that has the device and judged on the user's machine, so they are sent over the
//! wire. They are untrusted, because firmware, a peer, or the person who formatted the disk wrote them. Lists and texts
//! have limits, which are enforced when facts are created and again when they are decoded.

use std::fmt;

mod identity;
mod limits;
mod signature;
mod uses;

pub use identity::{DeviceIdentity, DeviceNumber, DeviceRelation, FileNumber, IdKind, relation};
pub use limits::{
    DISKS_MAX, ID_BYTES_MAX, NOTES_MAX, PARTITIONS_MAX, PATH_BYTES_MAX, SIGNATURES_MAX, TEXT_BYTES_MAX,
    USES_MAX, shortened,
};
pub use signature::{BackupTable, PartitionTable, Signature, SignatureKind, TableFault, TableKind};
pub use uses::{DeviceUse, HolderKind, UseKind};

/// Everything that is known about one block device: a whole disk, a partition or a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The kernel's name, such as `sda` or `nvme0n1p2`.
    pub name: Vec<u8>,
    /// The path by which it was opened, or `/dev/` and the name.
    pub path: Vec<u8>,
    /// The identity of the device.
    pub identity: DeviceIdentity,
    /// The size in bytes; 0 if there is no medium.
    pub size_bytes: u64,
    /// The unit of direct I/O and of the partition table, in bytes.
    pub logical_sector_bytes: u32,
    /// The unit that the device writes without reading first, in bytes.
    pub physical_sector_bytes: u32,
    /// True if the kernel refuses writes.
    pub read_only: bool,
    /// True if the medium or the device is removable.
    pub removable: bool,
    /// True if it is a rotating disk.
    pub rotational: bool,
    /// The model as reported by the firmware, or empty.
    pub model: Vec<u8>,
    /// The serial number as reported by the firmware, or empty.
    pub serial: Vec<u8>,
    /// The world-wide name as reported by the firmware, or empty.
    pub wwn: Vec<u8>,
    /// The partition table on the device itself.
    pub table: Option<PartitionTable>,
    /// The partitions in the order of the table.
    pub partitions: Vec<Partition>,
    /// The signatures on the device itself, partition tables included.
    pub contents: Vec<Signature>,
    /// The users of the device or of a part of it.
    pub uses: Vec<DeviceUse>,
    /// The boot loaders on it, and obstacles to booting.
    pub boot: Boot,
    /// Things that could not be determined, with the reasons. In a list of disks also a copy onto the device that has
    /// not finished.
    pub notes: Vec<String>,
    /// True if some or all of the areas that are searched for signatures could not be read, so the device may hold
    /// anything.
    pub contents_hidden: bool,
}

impl DeviceFacts {
    /// Returns all signatures known to be on it, each with the number of its partition if it is in one.
    pub fn all_contents(&self) -> impl Iterator<Item = (Option<u32>, &Signature)> {
        let inside = |partition: &'_ Partition| Some(partition.number);
        let own = self.contents.iter().map(|signature| (None, signature));
        own.chain(self.partitions.iter().flat_map(move |partition| {
            partition.contents.iter().map(move |signature| (inside(partition), signature))
        }))
    }

    /// Adds to [`notes`](Self::notes), unless the note is a repetition or the list is full.
    pub fn note(&mut self, words: impl Into<String>) {
        let words = shortened(words.into());
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&words) {
            self.notes.push(words);
        }
    }
}

/// The disks of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskList(pub Vec<DeviceFacts>);

/// A partition as described by the table on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The number, from 1.
    pub number: u32,
    /// The kernel's name for it; empty if the kernel does not know the partition.
    pub name: Vec<u8>,
    /// The offset of its first byte.
    pub start_bytes: u64,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The partition type: a GUID, or `0x` and two digits.
    pub type_id: String,
    /// The partition's own identifier in the table, or empty.
    pub uuid: String,
    /// The name in the table, or empty.
    pub label: String,
    /// The signatures in the partition.
    pub contents: Vec<Signature>,
}

/// The boot loaders on a disk, and obstacles to booting it elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// True if there is an EFI system partition.
    pub efi: bool,
    /// True if there is code in the first sector.
    pub bios: bool,
    /// True if there is a partition for the second stage of a boot loader, as GRUB needs on GPT.
    pub bios_partition: bool,
    /// The obstacles to booting it, here or in another machine.
    pub obstacles: Vec<BootObstacle>,
}

/// A reason why a disk would not boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootObstacle {
    /// The table uses a different sector size than the device.
    SectorSize {
        /// The table's sector size.
        table_bytes: u32,
        /// The device's sector size.
        device_bytes: u32,
    },
    /// The backup table is not at the end of the disk, as after a copy to a larger disk.
    BackupNotAtEnd,
    /// One of the two copies of the table is damaged or missing.
    TableDamaged,
    /// Another disk of this machine has something with the same identifier, so which one is used is undefined.
    SameUuid {
        /// The identifier.
        uuid: String,
        /// The kernel's name of the other disk.
        disk: Vec<u8>,
    },
}

impl fmt::Display for BootObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SectorSize { table_bytes, device_bytes } => write!(
                f,
                "its partition table counts in sectors of {table_bytes} bytes, the device has {device_bytes}"
            ),
            Self::BackupNotAtEnd => {
                f.write_str("the second copy of the GPT is not at the end of the disk (sgdisk -e mends it)")
            }
            Self::TableDamaged => f.write_str("one copy of the partition table is damaged or missing"),
            Self::SameUuid { uuid, disk } => {
                let disk = crate::path::lossy(disk);
                write!(f, "{} is on {disk} as well", crate::path::lossy(uuid.as_bytes()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
