//! The identity of a block device, and the test whether two devices are the same.
//!
//! A path is not an identity: `/dev/sda` may be another disk after a reboot, and one disk has many paths. The
//! [`DeviceIdentity::id`] is what users type and reports store. It is the first of these that is available:
//!
//! - `dm.…` and `md.…` for volumes, with the name from device mapper or md;
//! - the world-wide name from the firmware: `naa.5000c500a1b2c3d4`, `eui.0025385b71b0a1c2`;
//! - `serial.` with model and serial number: `serial.QEMU_HARDDISK_QM00001`;
//! - `made.` with 16 digits derived from size, place in the machine and the identifier of the partition table. It
//!   changes with the table.
//!
//! A partition has the ID of its disk, followed by `-part` and its number.

use std::fmt;

/// The number of a device in a running kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// The driver's number.
    pub major: u32,
    /// The device's number within the driver.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The identity of a file behind a device, in a running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileNumber {
    /// The device of the file system.
    pub device: DeviceNumber,
    /// The inode number.
    pub inode: u64,
    /// The offset in the file at which the device begins.
    pub offset_bytes: u64,
}

/// The origin of an ID, the most reliable first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdKind {
    /// The world-wide name.
    WorldWideName,
    /// The name of a volume in device mapper or md.
    Volume,
    /// Model and serial number.
    Serial,
    /// Derived from size, place and partition table.
    #[default]
    Made,
}

/// The identity of a block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// The stable ID, plain ASCII without spaces.
    pub id: String,
    /// The origin of the ID.
    pub kind: IdKind,
    /// The ID without the partition table, which stays the same when the device is written. Equal to `id` unless that
    /// is derived.
    pub place_id: String,
    /// The boot ID of the running kernel, for which the device numbers are valid; empty if unknown.
    pub boot_id: String,
    /// The device number.
    pub number: DeviceNumber,
    /// The number of the whole disk, for a partition.
    pub whole: Option<DeviceNumber>,
    /// The ID of the whole disk for a partition, otherwise empty.
    pub whole_id: String,
    /// Every device beneath this one: the disk of a partition, the members of a volume, the device behind a loop
    /// device, and so on downwards.
    pub below: Vec<DeviceNumber>,
    /// The file behind a loop device.
    pub backing: Option<FileNumber>,
    /// The path of the file or device behind a loop device, or empty.
    pub backing_path: Vec<u8>,
    /// The size in bytes. Devices of different sizes are never the same.
    pub size_bytes: u64,
}

impl DeviceIdentity {
    /// Returns true if both are overlapping parts of one file.
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

/// The relation between two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRelation {
    /// They are the same device.
    Same,
    /// The first is a partition of the second, or a volume on it.
    PartOf,
    /// The second is a partition of the first, or a volume on it.
    WholeOf,
    /// They have nothing in common that can be detected.
    Unrelated,
}

/// Returns the relation of `first` to `second`.
///
/// On one machine, device numbers decide. World-wide names, serial numbers and backing files detect several paths to
/// one device. Between machines only world-wide names count: a disk that two machines share has the same one on both,
/// while serial numbers of virtual disks repeat on every machine.
pub fn relation(first: &DeviceIdentity, second: &DeviceIdentity) -> DeviceRelation {
    let here = !first.boot_id.is_empty() && first.boot_id == second.boot_id;
    let by_id = first.kind == second.kind && (here || first.kind == IdKind::WorldWideName);
    let same_id = |one: &str, other: &str| by_id && !one.is_empty() && one == other;
    let same_size = first.size_bytes == second.size_bytes;
    if (here && first.number == second.number) || (same_size && same_id(&first.id, &second.id)) {
        DeviceRelation::Same
    } else if (here && first.lies_on(second)) || same_id(&first.whole_id, &second.id) {
        DeviceRelation::PartOf
    } else if (here && second.lies_on(first)) || same_id(&second.whole_id, &first.id) {
        DeviceRelation::WholeOf
    } else if here && first.shares_file_with(second) {
        DeviceRelation::Same
    } else {
        DeviceRelation::Unrelated
    }
}
