//! A block device as sysfs has it, and its relatives there: partitions, holders, what lies below.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hakobu_core::disk::{DeviceNumber, HolderKind, PARTITIONS_MAX, USES_MAX};

use super::places::{Places, attribute, block_device_at, device_number, entries, number};

/// A block device in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its directory, links resolved.
    pub directory: PathBuf,
    /// The kernel's name, as it is in sysfs.
    pub name: Vec<u8>,
    /// Its number.
    pub number: DeviceNumber,
}

impl Node {
    /// The device with this number.
    pub fn of_number(places: &Places, number: DeviceNumber) -> Option<Self> {
        Self::at(&places.sys.join("dev/block").join(number.to_string()))
    }

    /// The device of which this is the directory, or a link to it.
    pub fn at(path: &Path) -> Option<Self> {
        let directory = path.canonicalize().ok()?;
        let name = directory.file_name()?.as_bytes().to_vec();
        let number = device_number(&directory.join("dev"))?;
        Some(Self { directory, name, number })
    }

    /// A property, as bytes without blanks around them.
    pub fn attribute(&self, name: &str) -> Option<Vec<u8>> {
        attribute(&self.directory.join(name))
    }

    /// A property that is a number.
    pub fn value(&self, name: &str) -> Option<u64> {
        number(&self.directory.join(name))
    }

    /// Its number among the partitions of its disk, if it is one.
    pub fn partition_number(&self) -> Option<u32> {
        self.value("partition").and_then(|number| u32::try_from(number).ok())
    }

    /// The disk whose partition it is.
    pub fn whole(&self) -> Option<Self> {
        self.partition_number()?;
        Self::at(self.directory.parent()?)
    }

    /// The size in bytes. The kernel counts in 512 here whatever the device does.
    pub fn size_bytes(&self) -> u64 {
        self.value("size").unwrap_or(0).saturating_mul(512)
    }

    /// The partitions that the kernel knows.
    pub fn partitions(&self) -> Vec<Self> {
        let directories = entries(&self.directory).into_iter();
        let partitions = directories.filter(|path| path.join("partition").is_file());
        partitions.filter_map(|path| Self::at(&path)).take(PARTITIONS_MAX).collect()
    }

    /// The volumes that are made of it.
    pub fn holders(&self) -> Vec<Self> {
        self.linked("holders")
    }

    /// What it is made of, for a volume.
    fn slaves(&self) -> Vec<Self> {
        self.linked("slaves")
    }

    fn linked(&self, directory: &str) -> Vec<Self> {
        let links = entries(&self.directory.join(directory)).into_iter();
        links.filter_map(|path| Self::at(&path)).take(USES_MAX).collect()
    }

    /// The path of what is behind a loop device.
    pub fn backing_path(&self) -> Option<PathBuf> {
        let path = self.attribute("loop/backing_file")?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(&path)))
    }

    /// Everything that this device lies on, downwards: the disk of a partition, the parts of a
    /// volume, the device behind a loop device.
    pub fn below(&self, places: &Places) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut open = vec![self.clone()];
        while let Some(node) = open.pop() {
            let behind = node.backing_path().and_then(|path| block_device_at(&path));
            let behind = behind.and_then(|number| Self::of_number(places, number));
            for lower in node.whole().into_iter().chain(node.slaves()).chain(behind) {
                if found.len() < USES_MAX && lower != *self && !found.contains(&lower) {
                    found.push(lower.clone());
                    open.push(lower);
                }
            }
        }
        found
    }

    /// What kind of volume it is, and its name for people.
    pub fn as_holder(&self) -> (HolderKind, Vec<u8>) {
        let label = self.attribute("dm/name").unwrap_or_default();
        let uuid = self.attribute("dm/uuid");
        let kind = match uuid.as_deref() {
            Some(uuid) if uuid.starts_with(b"LVM-") => HolderKind::Lvm,
            Some(uuid) if uuid.starts_with(b"CRYPT-") => HolderKind::Crypt,
            Some(uuid) if uuid.starts_with(b"mpath-") => HolderKind::Multipath,
            // Without an ID: made by hand.
            _ if self.name.starts_with(b"dm-") => HolderKind::OtherDm,
            _ if self.directory.join("md").is_dir() => HolderKind::Md,
            _ if self.name.starts_with(b"bcache") => HolderKind::Bcache,
            _ => HolderKind::Other,
        };
        (kind, label)
    }

    /// The directory of the hardware, if there is hardware.
    pub fn hardware(&self) -> Option<PathBuf> {
        self.directory.join("device").canonicalize().ok()
    }
}
