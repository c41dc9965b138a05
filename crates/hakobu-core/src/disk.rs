//! Block devices as facts: what one is, what is on it and what uses it.
//!
//! Facts are gathered on the machine that has the device and judged where the user is, so they
//! cross the wire. All of it was written by others (firmware, whoever formatted the disk, a peer):
//! lists and texts have limits, which hold when facts are made and again when they are decoded.

use std::fmt;

mod identity;
mod limits;
mod signature;
mod uses;

pub use identity::{DeviceIdentity, DeviceNumber, FileNumber, IdKind, Relation, relation};
pub use limits::{
    DISKS_MAX, ID_BYTES_MAX, NOTES_MAX, PARTITIONS_MAX, PATH_BYTES_MAX, SIGNATURES_MAX, TEXT_BYTES_MAX,
    USES_MAX, shortened,
};
pub use signature::{BackupTable, PartitionTable, Signature, SignatureKind, TableFault, TableKind};
pub use uses::{HolderKind, Use, UseKind};

/// Everything that is known of one block device, be it a whole disk, a partition or a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The kernel's name: `sda`, `nvme0n1p2`.
    pub name: Vec<u8>,
    /// The path by which it was opened, or `/dev/` and the name.
    pub path: Vec<u8>,
    /// Which device it is.
    pub identity: DeviceIdentity,
    /// The size in bytes; 0 when there is no medium.
    pub size_bytes: u64,
    /// The unit of direct I/O and of the partition table.
    pub logical_sector_bytes: u32,
    /// What the device writes without reading first.
    pub physical_sector_bytes: u32,
    /// Whether the kernel refuses writes.
    pub read_only: bool,
    /// Whether the medium, or the device, is made to be taken out.
    pub removable: bool,
    /// Whether it has a head that moves.
    pub rotational: bool,
    /// The model as the firmware says it, or empty.
    pub model: Vec<u8>,
    /// The serial number as the firmware says it, or empty.
    pub serial: Vec<u8>,
    /// The world-wide name as the firmware says it, or empty.
    pub wwn: Vec<u8>,
    /// The partition table on the device itself.
    pub table: Option<PartitionTable>,
    /// The partitions that the table has, in its order.
    pub partitions: Vec<Partition>,
    /// What is on the device itself, partition tables included.
    pub contents: Vec<Signature>,
    /// What uses the device or a part of it.
    pub uses: Vec<Use>,
    /// What could start from it.
    pub boot: Boot,
    /// What could not be found out, and why; in a list of disks, also whether a copy onto it has not ended.
    pub notes: Vec<String>,
    /// Some or all of what is looked at on it could not be read, so that it may hold anything.
    pub contents_hidden: bool,
}

impl DeviceFacts {
    /// Whether it is a partition.
    pub fn is_partition(&self) -> bool {
        self.identity.whole.is_some()
    }

    /// All that is known to be on it, with the partition's number where it is in one.
    pub fn all_contents(&self) -> impl Iterator<Item = (Option<u32>, &Signature)> {
        let inside = |partition: &'_ Partition| Some(partition.number);
        let own = self.contents.iter().map(|signature| (None, signature));
        own.chain(self.partitions.iter().flat_map(move |partition| {
            partition.contents.iter().map(move |signature| (inside(partition), signature))
        }))
    }

    /// Adds to [`notes`](Self::notes).
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

/// A partition, as the table on the device has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1.
    pub number: u32,
    /// The kernel's name for it; empty if the kernel does not know it.
    pub name: Vec<u8>,
    /// Where it begins.
    pub start_bytes: u64,
    /// How long it is.
    pub size_bytes: u64,
    /// What it is for: a GUID, or `0x` and two digits.
    pub type_id: String,
    /// Its own identity in the table, or empty.
    pub uuid: String,
    /// The name that its table gives it, or empty.
    pub label: String,
    /// What is in it.
    pub contents: Vec<Signature>,
}

/// What could start from a disk, and what would keep it from starting elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// There is an EFI system partition.
    pub efi: bool,
    /// There is code in the first sector.
    pub bios: bool,
    /// There is a partition for the second part of a boot loader, as GRUB needs it on GPT.
    pub bios_partition: bool,
    /// What would keep it from starting, here or in another machine.
    pub obstacles: Vec<Obstacle>,
}

/// What would keep a disk from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The table counts in other sectors than the device.
    SectorSize {
        /// The table's unit.
        table_bytes: u32,
        /// The device's unit.
        device_bytes: u32,
    },
    /// The second copy of the table is not at the end, as after a copy to a larger disk.
    BackupNotAtEnd,
    /// One of the two copies of the table is damaged or missing.
    TableDamaged,
    /// Another disk of this machine has something with the same identity, so that it is chance
    /// which one is used.
    SameUuid {
        /// The identity.
        uuid: String,
        /// The kernel's name of the other disk.
        disk: Vec<u8>,
    },
}

impl fmt::Display for Obstacle {
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
