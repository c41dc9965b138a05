//! A block device in sysfs and its relations there: partitions, holders and the devices below it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hakobu_core::disk::{DeviceNumber, HolderKind, PARTITIONS_MAX, USES_MAX};

use super::kernel_directories::{
    KernelDirectories, attribute, block_device_at, device_number, entries, number,
};

/// A block device in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// The directory of the device, with symbolic links resolved.
    pub directory: PathBuf,
    /// The kernel's name as in sysfs.
    pub name: Vec<u8>,
    /// The device number.
    pub number: DeviceNumber,
}

impl BlockDevice {
    /// Returns the device with this number.
    pub fn of_number(places: &KernelDirectories, number: DeviceNumber) -> Option<Self> {
        Self::at(&places.sys.join("dev/block").join(number.to_string()))
    }

    /// Returns the device whose sysfs directory, or a symbolic link to it, is at `path`.
    pub fn at(path: &Path) -> Option<Self> {
        let directory = path.canonicalize().ok()?;
        let name = directory.file_name()?.as_bytes().to_vec();
        let number = device_number(&directory.join("dev"))?;
        Some(Self { directory, name, number })
    }

    /// Returns an attribute as bytes, without surrounding whitespace.
    pub fn attribute(&self, name: &str) -> Option<Vec<u8>> {
        attribute(&self.directory.join(name))
    }

    /// Returns an attribute that is a number.
    pub fn value(&self, name: &str) -> Option<u64> {
        number(&self.directory.join(name))
    }

    /// Returns the partition number, if the device is a partition.
    pub fn partition_number(&self) -> Option<u32> {
        self.value("partition").and_then(|number| u32::try_from(number).ok())
    }

    /// Returns the disk that contains this partition.
    pub fn whole(&self) -> Option<Self> {
        self.partition_number()?;
        Self::at(self.directory.parent()?)
    }

    /// Returns the size in bytes. The kernel always counts in units of 512 bytes here.
    pub fn size_bytes(&self) -> u64 {
        self.value("size").unwrap_or(0).saturating_mul(512)
    }

    /// Returns the partitions that the kernel knows.
    pub fn partitions(&self) -> Vec<Self> {
        let directories = entries(&self.directory).into_iter();
        let partitions = directories.filter(|path| path.join("partition").is_file());
        partitions.filter_map(|path| Self::at(&path)).take(PARTITIONS_MAX).collect()
    }

    /// Returns the volumes that are built on this device.
    pub fn holders(&self) -> Vec<Self> {
        self.linked("holders")
    }

    /// Returns the devices that a volume consists of.
    fn slaves(&self) -> Vec<Self> {
        self.linked("slaves")
    }

    fn linked(&self, directory: &str) -> Vec<Self> {
        let links = entries(&self.directory.join(directory)).into_iter();
        links.filter_map(|path| Self::at(&path)).take(USES_MAX).collect()
    }

    /// Returns the path of the file or device behind a loop device.
    pub fn backing_path(&self) -> Option<PathBuf> {
        let path = self.attribute("loop/backing_file")?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(&path)))
    }

    /// Returns everything that this device lies on, from top to bottom: the disk of a partition, the components of a
    /// volume, the device behind a loop device.
    pub fn below(&self, places: &KernelDirectories) -> Vec<Self> {
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

    /// Returns the kind of volume and its human-readable name.
    pub fn as_holder(&self) -> (HolderKind, Vec<u8>) {
        let label = self.attribute("dm/name").unwrap_or_default();
        let uuid = self.attribute("dm/uuid");
        let kind = match uuid.as_deref() {
            Some(uuid) if uuid.starts_with(b"LVM-") => HolderKind::Lvm,
            Some(uuid) if uuid.starts_with(b"CRYPT-") => HolderKind::Crypt,
            Some(uuid) if uuid.starts_with(b"mpath-") => HolderKind::Multipath,
            // Without a UUID: created by hand.
            _ if self.name.starts_with(b"dm-") => HolderKind::OtherDm,
            _ if self.directory.join("md").is_dir() => HolderKind::Md,
            _ if self.name.starts_with(b"bcache") => HolderKind::Bcache,
            _ => HolderKind::Other,
        };
        (kind, label)
    }

    /// Returns the directory of the hardware, if there is any.
    pub fn hardware(&self) -> Option<PathBuf> {
        self.directory.join("device").canonicalize().ok()
    }
}
