//! Where the kernel tells about devices, and reading there with limits.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use hakobu_core::disk::DeviceNumber;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, statx};

/// A file of sysfs has a page at most; more is not read of any.
const ATTRIBUTE_BYTES_MAX: u64 = 4096;
/// Lists of mounts and the like can be long, but not longer than this.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// No directory of devices or processes has more entries that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// Where the kernel tells about devices. Tests have recorded trees in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Usually `/sys`.
    pub sys: PathBuf,
    /// Usually `/proc`.
    pub proc: PathBuf,
    /// Usually `/dev`.
    pub dev: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into(), dev: "/dev".into() }
    }
}

impl Places {
    /// The identity of the running kernel, or nothing.
    pub fn boot_id(&self) -> String {
        let id = attribute(&self.proc.join("sys/kernel/random/boot_id")).unwrap_or_default();
        String::from_utf8(id).unwrap_or_default()
    }
}

/// The contents of a small file of the kernel's, without blanks around them. `None` if it is not
/// there or empty.
pub fn attribute(path: &Path) -> Option<Vec<u8>> {
    let bytes = read_up_to(path, ATTRIBUTE_BYTES_MAX)?;
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' ' | b'\n' | b'\t'))? + 1;
    let begin = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
    bytes.get(begin..end).map(<[u8]>::to_vec)
}

/// A number in a small file of the kernel's.
pub fn number(path: &Path) -> Option<u64> {
    std::str::from_utf8(&attribute(path)?).ok()?.parse().ok()
}

/// A device's number in a small file of the kernel's.
pub fn device_number(path: &Path) -> Option<DeviceNumber> {
    parse_device_number(std::str::from_utf8(&attribute(path)?).ok()?)
}

/// A device's number as `major:minor`.
pub fn parse_device_number(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// A list of the kernel's, such as that of mounts; empty if it cannot be read.
pub fn list(path: &Path) -> Vec<u8> {
    read_up_to(path, LIST_BYTES_MAX).unwrap_or_default()
}

fn read_up_to(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The paths in a directory, in order of their names; empty if it cannot be read.
pub fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut entries: Vec<_> = entries.flatten().take(ENTRIES_MAX).map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// The number of the block device at a path, links followed. It asks no server: a path may lead to
/// a file system whose server is gone.
pub fn block_device_at(path: &Path) -> Option<DeviceNumber> {
    let found = look(path)?;
    let is_block = FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::BlockDevice;
    is_block.then_some(DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor })
}

/// Type, inode and numbers of what is at a path, links followed, without asking a server.
pub fn look(path: &Path) -> Option<Statx> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    statx(rustix::fs::CWD, path, flags, StatxFlags::BASIC_STATS).ok()
}

/// The number from what `stat` has.
pub fn from_raw(device: u64) -> DeviceNumber {
    DeviceNumber { major: rustix::fs::major(device), minor: rustix::fs::minor(device) }
}
