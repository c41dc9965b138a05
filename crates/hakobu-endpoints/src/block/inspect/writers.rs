//! Finds the processes that have block devices, or the files behind loop devices, open for writing.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use hakobu_core::disk::{DeviceNumber, TEXT_BYTES_MAX};
use rustix::fs::FileType;

use super::kernel_directories::{KernelDirectories, attribute, entries, look};
use super::mounts::processes;

/// The number of checks whether a child keeps a descriptor from its parent, and the time between them.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A device or file that a process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedDevice {
    /// A block device.
    Device(DeviceNumber),
    /// A file, identified by its file system's device and its inode, under whatever name it was opened.
    File(DeviceNumber, u64),
}

impl OpenedDevice {
    /// Returns the device or file at a path, following symbolic links.
    pub fn at(path: &Path) -> Option<Self> {
        let found = look(path)?;
        match FileType::from_raw_mode(u32::from(found.stx_mode)) {
            FileType::BlockDevice => {
                Some(Self::Device(DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor }))
            }
            FileType::RegularFile => {
                let device = DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
                Some(Self::File(device, found.stx_ino))
            }
            _ => None,
        }
    }
}

/// A process that has a device, or the file behind one, open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceWriter {
    /// The open device or file.
    pub opened: OpenedDevice,
    /// The process ID.
    pub pid: u32,
    /// The name of its command.
    pub command: Vec<u8>,
}

/// Searches the descriptors of all other processes for block devices and these `files`. The flag is true if all
/// descriptors could be read.
pub fn writers(places: &KernelDirectories, files: &[OpenedDevice]) -> (Vec<DeviceWriter>, bool) {
    let (mut writers, mut all_seen) = (Vec::new(), true);
    for (pid, process) in processes(places) {
        if pid == std::process::id() {
            continue;
        }
        let descriptors = process.join("fd");
        match std::fs::read_dir(&descriptors) {
            Ok(_) => find(pid, &process, files, &mut writers),
            Err(error) => all_seen &= error.kind() != ErrorKind::PermissionDenied,
        }
    }
    (writers, all_seen)
}

fn find(pid: u32, process: &Path, files: &[OpenedDevice], writers: &mut Vec<DeviceWriter>) {
    for descriptor in entries(&process.join("fd")) {
        let counts =
            |opened: &OpenedDevice| matches!(opened, OpenedDevice::Device(_)) || files.contains(opened);
        let Some(opened) = OpenedDevice::at(&descriptor).filter(counts) else { continue };
        let known = writers.iter().any(|writer| (writer.opened, writer.pid) == (opened, pid));
        if known || !is_for_writing(process, &descriptor) {
            continue;
        }
        let parent = parent(process);
        if parent == Some(std::process::id()) && runs_program_of(process, std::process::id())
            || parent.is_some_and(|parent| runs_program_of(process, parent)) && !stays(&descriptor, opened)
        {
            continue;
        }
        let mut command = attribute(&process.join("comm")).unwrap_or_default();
        command.truncate(TEXT_BYTES_MAX);
        writers.push(DeviceWriter { opened, pid, command });
    }
}

/// Returns true if a descriptor was opened for writing.
fn is_for_writing(process: &Path, descriptor: &Path) -> bool {
    let Some(number) = descriptor.file_name() else { return false };
    let Some(info) = attribute(&process.join("fdinfo").join(number)) else { return false };
    flags(&info).is_some_and(|flags| matches!(flags & 3, 1 | 2))
}

/// Returns the ID of the parent process.
fn parent(process: &Path) -> Option<u32> {
    let status = attribute(&process.join("status")).unwrap_or_default();
    let parent = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"PPid:"))?;
    std::str::from_utf8(parent).ok()?.trim().parse().ok()
}

/// Returns true for a child that may not have executed another program yet. Until then it has its parent's descriptors.
fn runs_program_of(process: &Path, parent: u32) -> bool {
    let program = |of: &Path| std::fs::read_link(of.join("exe")).ok();
    let parents = process.parent().map(|processes| processes.join(parent.to_string()));
    program(process).is_some() && program(process) == parents.and_then(|parent| program(&parent))
}

/// Returns true if a descriptor stays open for a moment. It closes if a child executes another program.
fn stays(descriptor: &Path, opened: OpenedDevice) -> bool {
    (0..LOOKS).all(|_| {
        std::thread::sleep(BETWEEN_LOOKS);
        OpenedDevice::at(descriptor) == Some(opened)
    })
}

/// Parses the flags of `open` in a file of `fdinfo`, where they are octal.
fn flags(info: &[u8]) -> Option<u32> {
    let line = info.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"flags:"))?;
    u32::from_str_radix(std::str::from_utf8(line).ok()?.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::flags;

    #[test]
    fn flags_are_octal() {
        assert_eq!(flags(b"pos:\t0\nflags:\t0100002\nmnt_id:\t9"), Some(0o100_002));
        assert_eq!(flags(b"pos:\t0"), None);
        assert_eq!(flags(b"flags:\t9"), None);
    }
}
