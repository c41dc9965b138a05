//! Determines what a block device is, what is on it, and what uses it.
//!
//! Facts come from three sources: the open descriptor (size, sectors, contents), so that they describe the very device
//! that is read or written; sysfs (model, serial number, partitions, volumes); and procfs (mounts, swap, processes).
//! Nothing is written, and all reads are bounded.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use hakobu_core::disk::{
    DISKS_MAX, DeviceFacts, DeviceIdentity, DeviceNumber, DeviceUse, PATH_BYTES_MAX, SIGNATURES_MAX,
    Signature, SignatureKind, TableKind, UseKind,
};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_sys::block;
use rustix::fs::OFlags;

mod blank;
mod boot;
mod gpt;
mod identity;
mod kernel_directories;
mod mbr;
mod medium;
mod mounts;
mod node;
mod not_a_device;
mod signatures;
mod timeouts;
mod uses;
mod writers;

#[cfg(test)]
mod tests;

pub use kernel_directories::KernelDirectories;
pub use medium::ReadableMedium;
pub use not_a_device::is_stray;

use identity::Firmware;
use medium::{OpenMedium, View};
use node::BlockDevice;
use timeouts::PATIENCE;
use uses::SystemUses;

const INSPECTING: &str = "inspecting the device";
/// The major number of floppy drives. Opening one without a disk takes seconds.
const FLOPPY_MAJOR: u32 = 2;

/// Inspects the device at a path, following symbolic links. In addition to the checks of [`inspect_open`], it asks the
/// kernel whether an unseen use holds the device.
///
/// # Errors
/// `NotFound`, `PermissionDenied` and other errors of opening it; `Unsupported` if it is not a block device; `Io` if
/// the disk does not answer.
pub fn inspect_device(path: &Path) -> Result<DeviceFacts> {
    let owned = path.to_owned();
    let looked = timeouts::all_within(PATIENCE, vec![move || inspect_patiently(&owned)]).pop().flatten();
    let late = || Error::new(ErrorKind::Io, INSPECTING, no_answer() + "; look at the kernel's log (dmesg)");
    looked.unwrap_or_else(|| Err(late().at(path.as_os_str().as_bytes())))
}

fn inspect_patiently(path: &Path) -> Result<DeviceFacts> {
    let place = path.as_os_str().as_bytes();
    let fail = |error: std::io::Error| Error::io(INSPECTING, &error).at(place);
    let metadata = std::fs::metadata(path).map_err(fail)?;
    if !metadata.file_type().is_block_device() {
        return Err(no_device().at(place));
    }
    let device = open(path, OFlags::empty()).map_err(fail)?;
    let mut facts = inspect_open(&KernelDirectories::default(), device.as_fd(), path)?;
    let visible = facts.uses.iter().any(|used| !matches!(used.kind, UseKind::OpenForWriting { .. }));
    if !visible && is_claimed(device.as_fd()) {
        facts.uses.push(DeviceUse { device: facts.name.clone(), kind: UseKind::Claimed });
    }
    Ok(facts)
}

/// Inspects an open device. `path` is its name in messages. The descriptor's position does not change, and this process
/// does not count among those that use the device.
///
/// # Errors
/// `Unsupported` if it is not a block device; otherwise errors of the system.
pub fn inspect_open(places: &KernelDirectories, device: BorrowedFd<'_>, path: &Path) -> Result<DeviceFacts> {
    let place = path.as_os_str().as_bytes();
    let number = number_of(device).map_err(|error| error.at(place))?;
    let node = BlockDevice::of_number(places, number);
    let mut facts = facts_of(places, number, node.as_ref(), Some(device)).map_err(|error| error.at(place))?;
    facts.path = place.to_vec();
    facts.path.truncate(PATH_BYTES_MAX);
    match &node {
        Some(node) => SystemUses::look(places).uses_of(places, node, &mut facts),
        None => facts.note("sysfs does not show it, so that what uses it cannot be seen"),
    }
    Ok(facts)
}

/// Returns the identity of an open device, without checking what uses it.
///
/// # Errors
/// As for [`inspect_open`].
pub fn identity_of(device: BorrowedFd<'_>) -> Result<DeviceIdentity> {
    let places = KernelDirectories::default();
    let number = number_of(device)?;
    let node = BlockDevice::of_number(&places, number);
    Ok(facts_of(&places, number, node.as_ref(), Some(device))?.identity)
}

/// Returns the kernel's name of a loop device that is backed by this file.
pub fn loop_device_of(places: &KernelDirectories, file: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let found = rustix::fs::fstat(file).ok()?;
    let device = kernel_directories::from_raw(found.st_dev);
    let nodes = kernel_directories::entries(&places.sys.join("block"))
        .into_iter()
        .filter_map(|path| BlockDevice::at(&path));
    let mut loops =
        nodes.filter_map(|node| Some((identity::file_number(&node, &node.backing_path()?)?, node.name)));
    loops.find(|(behind, _)| (behind.device, behind.inode) == (device, found.st_ino)).map(|(_, name)| name)
}

/// Returns all disks of this machine that have a medium. RAM disks are left out, and loop devices that are not in use.
///
/// # Errors
/// `NotFound` if sysfs is not mounted.
pub fn all_disks(places: &KernelDirectories) -> Result<Vec<DeviceFacts>> {
    let directory = places.sys.join("block");
    if !directory.is_dir() {
        let words = "sysfs is not mounted there: mount -t sysfs sysfs /sys";
        let place = directory.as_os_str().as_bytes();
        return Err(Error::new(ErrorKind::NotFound, "listing the disks in", words).at(place));
    }
    let nodes = kernel_directories::entries(&directory).into_iter().filter_map(|path| BlockDevice::at(&path));
    let mut nodes: Vec<_> = nodes.filter(is_listed).take(DISKS_MAX).collect();
    // The order of drivers, and sdz before sdaa.
    nodes.sort_by_key(|node| (node.name.get(..2).map(<[u8]>::to_vec), node.name.len(), node.name.clone()));
    let machine = SystemUses::look(places);
    let look = |node: &BlockDevice| {
        let (places, node) = (places.clone(), node.clone());
        move || disk(&places, &node)
    };
    let looked = timeouts::all_within(PATIENCE, nodes.iter().map(look).collect());
    let mut disks = Vec::new();
    for (node, facts) in nodes.iter().zip(looked) {
        let mut facts = match facts {
            Some(facts) => facts?,
            None => unseen(places, node, &no_answer())?,
        };
        // A device may be removed during the inspection.
        if facts.size_bytes > 0 {
            machine.uses_of(places, node, &mut facts);
            disks.push(facts);
        }
    }
    boot::find_doubles(&mut disks);
    Ok(disks)
}

fn is_listed(node: &BlockDevice) -> bool {
    let is_ram_disk = node.name.strip_prefix(b"ram").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit));
    let is_idle_loop = node.name.starts_with(b"loop") && node.backing_path().is_none();
    let is_hidden = node.value("hidden") == Some(1);
    !is_ram_disk && !is_idle_loop && !is_hidden && node.size_bytes() > 0
}

/// Returns the facts about one listed disk. A disk that cannot be opened is listed too.
fn disk(places: &KernelDirectories, node: &BlockDevice) -> Result<DeviceFacts> {
    let name = slashed(node);
    let opened = match node.number.major {
        FLOPPY_MAJOR => Err("it is a floppy drive, which is left alone".to_owned()),
        _ => open_numbered(&places.dev.join(OsStr::from_bytes(&name)), node.number),
    };
    let looked = opened.and_then(|device| {
        let facts = facts_of(places, node.number, Some(node), Some(device.as_fd()));
        facts.map_err(|error| error.reason())
    });
    match looked {
        Ok(facts) => Ok(DeviceFacts { path: path_of(node), ..facts }),
        Err(words) => unseen(places, node, &words),
    }
}

/// Returns the facts that sysfs alone provides about a disk.
fn unseen(places: &KernelDirectories, node: &BlockDevice, why: &str) -> Result<DeviceFacts> {
    let mut facts = facts_of(places, node.number, Some(node), None)?;
    facts.path = path_of(node);
    facts.contents_hidden = true;
    facts.note(format!("what is on it cannot be seen: {why}"));
    Ok(facts)
}

/// Returns the reason why a device could not be opened. The advice for files does not fit.
fn not_opened(error: &std::io::Error, is_root: bool) -> String {
    if error.kind() != std::io::ErrorKind::PermissionDenied {
        return Error::io("opening", error).reason();
    }
    match is_root {
        true => "root may not open it here; allow this container or service the device (docker run --device, DeviceAllow= of \
                 systemd), or run hakobu outside of it"
            .to_owned(),
        false => "permission denied; run hakobu as root".to_owned(),
    }
}

fn no_answer() -> String {
    format!("it has not answered within {} s", PATIENCE.as_secs())
}

/// Returns the path of a listed disk.
fn path_of(node: &BlockDevice) -> Vec<u8> {
    [b"/dev/", &*slashed(node)].concat()
}

/// Returns a disk's name below `/dev`. An exclamation mark in a sysfs name stands for a slash.
fn slashed(node: &BlockDevice) -> Vec<u8> {
    node.name.iter().map(|byte| if *byte == b'!' { b'/' } else { *byte }).collect()
}

/// Opens a device node and checks that it has this device number.
fn open_numbered(path: &Path, number: DeviceNumber) -> Result<File, String> {
    let is_root = rustix::process::geteuid().is_root();
    let device = open(path, OFlags::empty()).map_err(|error| not_opened(&error, is_root))?;
    match number_of(device.as_fd()) {
        Ok(own) if own == number => Ok(device),
        _ => Err(format!("the node is another device than {number}")),
    }
}

fn open(path: &Path, more: OFlags) -> std::io::Result<File> {
    // Non-blocking, so that a drive without a medium does not delay the open.
    let flags = (OFlags::NONBLOCK | more).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

fn number_of(device: BorrowedFd<'_>) -> Result<DeviceNumber> {
    let fail = |error: std::io::Error| Error::io(INSPECTING, &error);
    let file = File::from(device.try_clone_to_owned().map_err(fail)?);
    let metadata = file.metadata().map_err(fail)?;
    match metadata.file_type().is_block_device() {
        true => Ok(kernel_directories::from_raw(metadata.rdev())),
        false => Err(no_device()),
    }
}

fn no_device() -> Error {
    Error::new(ErrorKind::Unsupported, INSPECTING, "it is no block device")
}

/// Returns true if the kernel holds the device for a mount, a volume or the like.
fn is_claimed(device: BorrowedFd<'_>) -> bool {
    use std::os::fd::AsRawFd;
    let again = format!("/proc/self/fd/{}", device.as_raw_fd());
    let opened = open(Path::new(&again), OFlags::EXCL);
    opened.is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy)
}

/// Returns all facts except what uses the device.
fn facts_of(
    places: &KernelDirectories,
    number: DeviceNumber,
    node: Option<&BlockDevice>,
    device: Option<BorrowedFd<'_>>,
) -> Result<DeviceFacts> {
    let mut facts = DeviceFacts::default();
    if let Some(node) = node {
        of_sysfs(node, &mut facts);
    }
    if let Some(device) = device {
        let fail = |error: std::io::Error| Error::io(INSPECTING, &error);
        facts.size_bytes = block::size_bytes(device).map_err(fail)?;
        facts.logical_sector_bytes = block::logical_sector_bytes(device).map_err(fail)?;
        facts.physical_sector_bytes = block::physical_sector_bytes(device).map_err(fail)?;
        facts.read_only = block::is_read_only(device).map_err(fail)?;
        let medium = OpenMedium::new(device, facts.size_bytes);
        of_contents(&medium, &mut facts);
        of_the_unknown(&medium, &mut facts);
        if medium.was_unreadable() {
            facts.contents_hidden = true;
            facts.note("some of what is looked at on it cannot be read");
        }
    }
    if let Some(node) = node {
        name_partitions(node, &mut facts);
        let firmware =
            Firmware { model: facts.model.clone(), serial: facts.serial.clone(), wwn: facts.wwn.clone() };
        let table = facts.table.as_ref().map(|table| table.uuid.clone()).unwrap_or_default();
        facts.identity = identity::identity(places, node, &firmware, facts.size_bytes, &table);
    }
    facts.identity.number = number;
    facts.identity.boot_id = places.boot_id();
    facts.identity.size_bytes = facts.size_bytes;
    Ok(facts)
}

/// Adds the facts from sysfs.
fn of_sysfs(node: &BlockDevice, facts: &mut DeviceFacts) {
    let whole = node.whole();
    let disk = whole.as_ref().unwrap_or(node);
    let sector_bytes =
        |name: &str| disk.value(name).and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(512);
    let firmware = Firmware::of(disk);
    facts.name.clone_from(&node.name);
    facts.size_bytes = node.size_bytes();
    facts.logical_sector_bytes = sector_bytes("queue/logical_block_size");
    facts.physical_sector_bytes = sector_bytes("queue/physical_block_size");
    facts.read_only = node.value("ro") == Some(1);
    facts.removable = disk.value("removable") == Some(1);
    facts.rotational = disk.value("queue/rotational") == Some(1);
    (facts.model, facts.serial, facts.wwn) = (firmware.model, firmware.serial, firmware.wwn);
}

/// Returns the contents of a disk image: all facts that do not require a device.
pub fn inspect_image(image: BorrowedFd<'_>, size_bytes: u64) -> DeviceFacts {
    // The image does not tell its disk's sector size, unless its table does.
    let mut facts = DeviceFacts { size_bytes, logical_sector_bytes: 512, ..DeviceFacts::default() };
    of_contents(&OpenMedium::new(image, size_bytes), &mut facts);
    if let Some(table) = facts.table.as_ref().filter(|table| table.kind == TableKind::Gpt) {
        facts.logical_sector_bytes = table.sector_bytes;
    }
    facts
}

/// Adds the contents of the device: its table, its partitions, and their signatures.
pub fn of_contents(medium: &dyn ReadableMedium, facts: &mut DeviceFacts) {
    let view = View::whole(medium);
    let sector_bytes = facts.logical_sector_bytes;
    let mut contents = signatures::probe(&view);
    let is_file_system = contents.iter().any(signatures::has_boot_sector);
    let mbr = mbr::read(&view, sector_bytes, is_file_system);
    let gpt = gpt::read(&view, sector_bytes);
    let mut add_table = |kind: SignatureKind, offset_bytes: u64, uuid: &str| {
        contents.insert(0, Signature { kind, offset_bytes, uuid: uuid.to_owned(), label: Vec::new() });
    };
    let has_code = mbr.as_ref().is_some_and(|mbr| mbr.has_code);
    // A protective MBR is part of its GPT. Without one, the GPT is a remnant.
    match (mbr, gpt) {
        (Some(mbr), Some((table, partitions))) if mbr.protective => {
            add_table(SignatureKind::Gpt, u64::from(table.sector_bytes), &table.uuid);
            (facts.table, facts.partitions) = (Some(table), partitions);
        }
        (mbr, gpt) => {
            if let Some((table, _)) = gpt {
                add_table(SignatureKind::Gpt, u64::from(table.sector_bytes), &table.uuid);
            }
            if let Some(mbr) = mbr {
                add_table(SignatureKind::Mbr, 510, &mbr.table.uuid);
                (facts.table, facts.partitions) = (Some(mbr.table), mbr.partitions);
            }
        }
    }
    contents.truncate(SIGNATURES_MAX);
    facts.contents = contents;
    for partition in &mut facts.partitions {
        if !mbr::is_container(&partition.type_id) {
            let view = View::part(medium, partition.start_bytes, partition.size_bytes);
            partition.contents = signatures::probe(&view);
        }
    }
    facts.boot = boot::of(facts, has_code);
}

/// Adds contents without a known signature, on the device and in its partitions. This takes dozens of reads, so it is
/// done only for devices that may be overwritten.
pub fn of_the_unknown(medium: &dyn ReadableMedium, facts: &mut DeviceFacts) {
    facts.contents.extend(unknown(medium, &facts.contents, (0, medium.size_bytes())));
    for partition in &mut facts.partitions {
        if !mbr::is_container(&partition.type_id) {
            let place = (partition.start_bytes, partition.size_bytes);
            partition.contents.extend(unknown(medium, &partition.contents, place));
        }
    }
}

/// Returns an `Unknown` signature for a range where nothing was recognised and that is not blank.
fn unknown(medium: &dyn ReadableMedium, known: &[Signature], (start, size): (u64, u64)) -> Option<Signature> {
    let offset_bytes =
        if known.is_empty() { blank::first_content(medium, start, size)? } else { return None };
    Some(Signature { kind: SignatureKind::Unknown, offset_bytes, uuid: String::new(), label: Vec::new() })
}

/// Sets the kernel's names of the partitions.
fn name_partitions(node: &BlockDevice, facts: &mut DeviceFacts) {
    for known in node.partitions() {
        let Some(number) = known.partition_number() else { continue };
        if let Some(partition) = facts.partitions.iter_mut().find(|partition| partition.number == number) {
            partition.name = known.name;
        }
    }
}
