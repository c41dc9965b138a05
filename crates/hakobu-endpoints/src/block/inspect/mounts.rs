//! Reads the lists of mounts and swap space.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hakobu_core::disk::{DeviceNumber, PATH_BYTES_MAX, TEXT_BYTES_MAX};

use super::kernel_directories::{
    KernelDirectories, block_device_at, device_number, entries, list, parse_device_number,
};
use super::writers::OpenedDevice;

/// The maximum number of mount namespaces, such as those of containers, that are read.
const NAMESPACES_MAX: usize = 1024;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMount {
    /// The devices of the file system, which may have several.
    pub devices: Vec<DeviceNumber>,
    /// The mount point.
    pub path: Vec<u8>,
    /// The type of the file system.
    pub file_system: String,
    /// The name of the mounted source, as the file system gives it.
    pub source: Vec<u8>,
    /// True if the file system as a whole is read-only.
    pub read_only: bool,
}

/// Returns all mounts that this process sees, and the mounts of further devices that only other namespaces see.
pub fn mounts(places: &KernelDirectories) -> Vec<DeviceMount> {
    let systems = FileSystems { places, btrfs: btrfs(places) };
    let mut mounts = systems.parse(&list(&places.proc.join("self/mountinfo")));
    let mut known: BTreeSet<_> = mounts.iter().flat_map(|mount| mount.devices.clone()).collect();
    for (pid, process) in other_namespaces(places) {
        for mut mount in systems.parse(&list(&process.join("mountinfo"))) {
            if mount.devices.iter().all(|device| known.contains(device)) {
                continue;
            }
            known.extend(&mount.devices);
            mount.path.extend(format!(" (as process {pid} sees it)").into_bytes());
            mounts.push(mount);
        }
    }
    mounts.iter_mut().for_each(|mount| mount.path.truncate(PATH_BYTES_MAX));
    mounts
}

/// Returns one process of each mount namespace other than this process's own.
fn other_namespaces(places: &KernelDirectories) -> Vec<(u32, PathBuf)> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let mut seen: BTreeSet<_> = namespace(&places.proc.join("self")).into_iter().collect();
    let mut others = Vec::new();
    for (pid, process) in processes(places) {
        if others.len() < NAMESPACES_MAX && namespace(&process).is_some_and(|name| seen.insert(name)) {
            others.push((pid, process));
        }
    }
    others
}

/// Returns all processes with their directories.
pub fn processes(places: &KernelDirectories) -> impl Iterator<Item = (u32, PathBuf)> {
    entries(&places.proc).into_iter().filter_map(|path| {
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        Some((pid, path))
    })
}

/// Returns the devices of each Btrfs in use. A mount names only one of them.
fn btrfs(places: &KernelDirectories) -> Vec<Vec<DeviceNumber>> {
    let systems = entries(&places.sys.join("fs/btrfs")).into_iter();
    let devices = systems.map(|system| {
        let links = entries(&system.join("devices")).into_iter();
        links.filter_map(|device| device_number(&device.join("dev"))).collect::<Vec<_>>()
    });
    devices.filter(|devices| !devices.is_empty()).collect()
}

/// The data needed to determine the devices of a mount.
struct FileSystems<'a> {
    places: &'a KernelDirectories,
    btrfs: Vec<Vec<DeviceNumber>>,
}

impl FileSystems<'_> {
    /// Parses lines of the form of `/proc/PID/mountinfo`. Mounts without a device are left out, except those of ZFS.
    fn parse(&self, text: &[u8]) -> Vec<DeviceMount> {
        let lines = text.split(|&byte| byte == b'\n');
        let mounts = lines.filter_map(|line| self.parse_line(line));
        mounts.filter(|mount| !mount.devices.is_empty() || mount.file_system == "zfs").collect()
    }

    fn parse_line(&self, line: &[u8]) -> Option<DeviceMount> {
        let mut fields = line.split(|&byte| byte == b' ');
        let number = parse_device_number(std::str::from_utf8(fields.nth(2)?).ok()?)?;
        let path = unescaped(fields.nth(1)?);
        let mut after = fields.skip_while(|field| *field != b"-").skip(1);
        let mut file_system = String::from_utf8_lossy(after.next()?).into_owned();
        file_system.truncate(file_system.floor_char_boundary(TEXT_BYTES_MAX));
        let source = unescaped(after.next()?);
        let read_only = after.next()?.split(|&byte| byte == b',').any(|option| option == b"ro");
        // A file system that is not on one device has a device number that belongs to no device.
        let devices = match file_system.as_str() {
            _ if number.major != 0 => vec![number],
            "btrfs" | "bcachefs" => self.several(&source),
            _ => Vec::new(),
        };
        Some(DeviceMount { devices, path, file_system, source, read_only })
    }

    /// Returns the devices of a file system that may have several, given the one or those that it names.
    fn several(&self, source: &[u8]) -> Vec<DeviceNumber> {
        let named = source.split(|&byte| byte == b':').filter(|name| name.starts_with(b"/"));
        let named: Vec<_> = named.filter_map(|name| device_named(self.places, name)).collect();
        let all = self.btrfs.iter().find(|devices| devices.iter().any(|device| named.contains(device)));
        all.cloned().unwrap_or(named)
    }
}

/// Returns the devices and files that are used as swap space.
pub fn swaps(places: &KernelDirectories) -> Vec<OpenedDevice> {
    let text = list(&places.proc.join("swaps"));
    let paths = text
        .split(|&byte| byte == b'\n')
        .skip(1)
        .filter_map(|line| line.split(u8::is_ascii_whitespace).next());
    let paths = paths.filter(|path| path.starts_with(b"/"));
    let opened = |path: Vec<u8>| match device_named(places, &path) {
        Some(device) => Some(OpenedDevice::Device(device)),
        // A swap file, which may also back a loop device.
        None => OpenedDevice::at(Path::new(OsStr::from_bytes(&path))),
    };
    paths.filter_map(|path| opened(unescaped(path))).collect()
}

/// Returns the device at a path that the kernel reported: from the node, or by the name in sysfs if the node is gone.
fn device_named(places: &KernelDirectories, path: &[u8]) -> Option<DeviceNumber> {
    let path = PathBuf::from(OsStr::from_bytes(path));
    let by_name = || device_number(&places.sys.join("class/block").join(path.file_name()?).join("dev"));
    match path.strip_prefix("/dev") {
        Ok(name) => block_device_at(&places.dev.join(name)).or_else(by_name),
        Err(_) => block_device_at(&path),
    }
}

/// Decodes a path of the kernel's lists, where whitespace and backslashes are octal escapes.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if byte == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        bytes.push(octal.unwrap_or(byte));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    std::ffi::OsString::from_vec(bytes).into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_read_with_their_blanks() {
        let text = b"21 1 8:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
            22 21 8:17 /sub /mnt/two\\040words ro - xfs /dev/sdb1 rw,attr2\n\
            23 21 0:5 / /proc rw - proc proc rw\n\
            24 21 8:33 / /mnt/ro ro,noatime - ext4 /dev/sdc1 ro,errors=continue\n\
            25 21 0:44 / /tank rw - zfs tank/data rw\n\
            broken line\n26 21 8:x / /bad rw - ext4 /dev/sdd rw\n27 21 8:48 / /short rw - ext4\n";
        let systems = FileSystems { places: &KernelDirectories::default(), btrfs: Vec::new() };
        let mounts = systems.parse(text);
        let seen: Vec<_> =
            mounts.iter().map(|mount| (&mount.path[..], mount.devices.len(), mount.read_only)).collect();
        let expected: [(&[u8], usize, bool); 4] =
            [(b"/", 1, false), (b"/mnt/two words", 1, false), (b"/mnt/ro", 1, true), (b"/tank", 0, false)];
        assert_eq!(seen, expected);
        assert_eq!(mounts[1].devices, [DeviceNumber { major: 8, minor: 17 }]);
    }

    #[test]
    fn escapes_are_octal_and_nothing_else_is_touched() {
        assert_eq!(unescaped(b"a\\040b\\134\\011"), b"a b\\\t");
        assert_eq!(unescaped(b"\\999\\04\\"), b"\\999\\04\\");
        assert_eq!(unescaped(b"\\777"), b"\\777");
    }
}
