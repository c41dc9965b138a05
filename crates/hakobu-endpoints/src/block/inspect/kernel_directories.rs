//! The directories where the kernel describes devices, and bounded reading of their files.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use hakobu_core::disk::DeviceNumber;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, statx};

/// The maximum number of bytes read of an attribute. A sysfs file has one page at most.
const ATTRIBUTE_BYTES_MAX: u64 = 4096;
/// The maximum number of bytes read of a list, such as that of mounts.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of entries read of a directory of devices or processes.
const ENTRIES_MAX: usize = 100_000;

/// The directories where the kernel describes devices. Tests replace them with recorded trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDirectories {
    /// The sysfs directory, usually `/sys`.
    pub sys: PathBuf,
    /// The procfs directory, usually `/proc`.
    pub proc: PathBuf,
    /// The directory of device nodes, usually `/dev`.
    pub dev: PathBuf,
}

impl Default for KernelDirectories {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into(), dev: "/dev".into() }
    }
}

impl KernelDirectories {
    /// Returns the boot ID of the running kernel, or an empty string.
    pub fn boot_id(&self) -> String {
        let id = attribute(&self.proc.join("sys/kernel/random/boot_id")).unwrap_or_default();
        String::from_utf8(id).unwrap_or_default()
    }
}

/// Returns the contents of a small kernel file without surrounding whitespace, or `None` if it is missing or empty.
pub fn attribute(path: &Path) -> Option<Vec<u8>> {
    let bytes = read_up_to(path, ATTRIBUTE_BYTES_MAX)?;
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' ' | b'\n' | b'\t'))? + 1;
    let begin = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
    bytes.get(begin..end).map(<[u8]>::to_vec)
}

/// Returns the number in a small kernel file.
pub fn number(path: &Path) -> Option<u64> {
    std::str::from_utf8(&attribute(path)?).ok()?.parse().ok()
}

/// Returns the device number in a small kernel file.
pub fn device_number(path: &Path) -> Option<DeviceNumber> {
    parse_device_number(std::str::from_utf8(&attribute(path)?).ok()?)
}

/// Parses a device number of the form `major:minor`.
pub fn parse_device_number(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Reads a kernel list, such as that of mounts. Returns an empty list if it cannot be read.
pub fn list(path: &Path) -> Vec<u8> {
    read_up_to(path, LIST_BYTES_MAX).unwrap_or_default()
}

fn read_up_to(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the paths in a directory, sorted by name. Returns an empty list if it cannot be read.
pub fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut entries: Vec<_> = entries.flatten().take(ENTRIES_MAX).map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// Returns the number of the block device at a path, following symbolic links. It never queries a file server, because
/// the path may be on a file system whose server is gone.
pub fn block_device_at(path: &Path) -> Option<DeviceNumber> {
    let found = look(path)?;
    let is_block = FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::BlockDevice;
    is_block.then_some(DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor })
}

/// Returns type, inode and numbers of the entry at a path, following symbolic links, without querying a file server.
pub fn look(path: &Path) -> Option<Statx> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    statx(rustix::fs::CWD, path, flags, StatxFlags::BASIC_STATS).ok()
}

/// Splits a raw device number, as returned by `stat`.
pub fn from_raw(device: u64) -> DeviceNumber {
    DeviceNumber { major: rustix::fs::major(device), minor: rustix::fs::minor(device) }
}
