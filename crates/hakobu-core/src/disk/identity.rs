//! Which device it is, and whether two are one.
//!
//! A path says little: `/dev/sda` is another disk after the next start, and one disk has many
//! paths. The [`DeviceIdentity::id`] is what people type and reports keep. It is, in this order:
//!
//! - `dm.…` and `md.…` for volumes, by what device mapper and md call them;
//! - the world-wide name that the firmware has: `naa.5000c500a1b2c3d4`, `eui.0025385b71b0a1c2`;
//! - `serial.` with model and serial number: `serial.QEMU_HARDDISK_QM00001`;
//! - `made.` with 16 digits, made of size, place in the machine and the identity of the partition
//!   table, for what has neither. It changes with the table.
//!
//! A partition has its disk's, `-part` and its number.

use std::fmt;

/// The number by which a running kernel knows a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// The driver's part.
    pub major: u32,
    /// The device's part.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A file behind a device, as the running kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileNumber {
    /// The device of its file system.
    pub device: DeviceNumber,
    /// Its inode there.
    pub inode: u64,
    /// Where in the file the device begins.
    pub offset_bytes: u64,
}

/// Where an ID comes from, the most reliable first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdKind {
    /// The world-wide name.
    WorldWideName,
    /// What device mapper or md call a volume.
    Volume,
    /// Model and serial number.
    Serial,
    /// Made of size, place and partition table.
    #[default]
    Made,
}

/// Which device it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// The stable ID, plain ASCII without spaces.
    pub id: String,
    /// Where it comes from.
    pub kind: IdKind,
    /// The ID without the partition table in it, which stays when the device is written. Equal to
    /// `id` unless that is made.
    pub place_id: String,
    /// The running kernel, without which the numbers say nothing; empty if unknown.
    pub boot_id: String,
    /// Its number.
    pub number: DeviceNumber,
    /// The number of the whole disk, for a partition.
    pub whole: Option<DeviceNumber>,
    /// The ID of the whole disk, for a partition, else empty.
    pub whole_id: String,
    /// Every device on which this one lies: the disk of a partition, the parts of a volume, what
    /// is behind a loop device, and so on downwards.
    pub below: Vec<DeviceNumber>,
    /// The file behind a loop device.
    pub backing: Option<FileNumber>,
    /// The path of what is behind a loop device, or empty.
    pub backing_path: Vec<u8>,
    /// Its size in bytes: two that differ in it are not one.
    pub size_bytes: u64,
}

impl DeviceIdentity {
    /// Whether both are parts of one file that overlap.
    fn shares_file_with(&self, other: &DeviceIdentity) -> bool {
        let (Some(one), Some(two)) = (self.backing, other.backing) else { return false };
        let end = |file: FileNumber, size_bytes: u64| file.offset_bytes.saturating_add(size_bytes.max(1));
        (one.device, one.inode) == (two.device, two.inode)
            && one.offset_bytes < end(two, other.size_bytes)
            && two.offset_bytes < end(one, self.size_bytes)
    }

    fn lies_on(&self, other: &DeviceIdentity) -> bool {
        self.whole == Some(other.number) || self.below.contains(&other.number)
    }
}

/// How two devices are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// They are one.
    Same,
    /// The first is a partition of the second, or a volume that lies on it.
    PartOf,
    /// The second is a partition of the first, or a volume that lies on it.
    WholeOf,
    /// They have nothing in common that could be seen.
    Unrelated,
}

/// How `first` is related to `second`.
///
/// On one machine numbers decide, and world-wide names, serial numbers and backing files tell
/// the ways to one device. Between machines only world-wide names count: a disk that two machines
/// share has the same for both, while serial numbers of virtual disks repeat on every machine.
pub fn relation(first: &DeviceIdentity, second: &DeviceIdentity) -> Relation {
    let here = !first.boot_id.is_empty() && first.boot_id == second.boot_id;
    let by_id = first.kind == second.kind && (here || first.kind == IdKind::WorldWideName);
    let same_id = |one: &str, other: &str| by_id && !one.is_empty() && one == other;
    let same_size = first.size_bytes == second.size_bytes;
    if (here && first.number == second.number) || (same_size && same_id(&first.id, &second.id)) {
        Relation::Same
    } else if (here && first.lies_on(second)) || same_id(&first.whole_id, &second.id) {
        Relation::PartOf
    } else if (here && second.lies_on(first)) || same_id(&second.whole_id, &first.id) {
        Relation::WholeOf
    } else if here && first.shares_file_with(second) {
        Relation::Same
    } else {
        Relation::Unrelated
    }
}
