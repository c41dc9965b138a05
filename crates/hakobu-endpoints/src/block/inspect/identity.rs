//! Determines a device's identity: a lasting ID from the firmware, volume managers and sysfs.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hakobu_core::disk::{
    DeviceIdentity, DeviceNumber, FileNumber, ID_BYTES_MAX, IdKind, PATH_BYTES_MAX, TEXT_BYTES_MAX,
};

use super::kernel_directories::{KernelDirectories, attribute, look};
use super::node::BlockDevice;
use rustix::fs::FileType;

/// The SCSI page that holds the serial number, behind a header of four bytes.
const SERIAL_PAGE: &str = "device/vpd_pg80";
/// The maximum number of directory levels between a disk and its USB device.
const USB_LEVELS_MAX: usize = 8;
/// The maximum length of an ID in bytes without `-part` and a number.
const BASE_ID_BYTES_MAX: usize = ID_BYTES_MAX - 24;

/// The identification that the firmware reports. Each field may be empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Firmware {
    /// The vendor and model.
    pub model: Vec<u8>,
    /// The serial number.
    pub serial: Vec<u8>,
    /// The world-wide name.
    pub wwn: Vec<u8>,
}

impl Firmware {
    /// Returns the identification reported by the firmware of a whole disk.
    pub fn of(disk: &BlockDevice) -> Self {
        let wwid = disk.attribute("wwid").or_else(|| disk.attribute("device/wwid")).unwrap_or_default();
        let cut = |mut text: Vec<u8>| {
            text.truncate(TEXT_BYTES_MAX);
            text
        };
        Self {
            model: cut(model(disk)),
            serial: cut(serial(disk).unwrap_or_default()),
            wwn: cut(if is_world_wide(&wwid) { wwid } else { Vec::new() }),
        }
    }
}

fn model(disk: &BlockDevice) -> Vec<u8> {
    let model = disk.attribute("device/model").or_else(|| disk.attribute("device/name")).unwrap_or_default();
    // `ATA` is not a vendor, and virtual disks report a number here.
    let maker = disk.attribute("device/vendor").filter(|maker| maker != b"ATA" && !maker.starts_with(b"0x"));
    match maker {
        Some(maker) if !model.is_empty() && !model.starts_with(&maker) => [&maker[..], b" ", &model].concat(),
        _ => model,
    }
}

fn serial(disk: &BlockDevice) -> Option<Vec<u8>> {
    let page = || {
        let page = attribute(&disk.directory.join(SERIAL_PAGE))?;
        page.get(4..).map(|serial| serial.trim_ascii().to_vec())
    };
    let own = disk.attribute("serial").or_else(|| disk.attribute("device/serial"));
    own.or_else(page).or_else(|| usb_serial(disk)).filter(|serial| is_serial(serial))
}

/// Returns the serial number of the USB device that contains the disk.
fn usb_serial(disk: &BlockDevice) -> Option<Vec<u8>> {
    let hardware = disk.hardware()?;
    let usb = hardware.ancestors().take(USB_LEVELS_MAX).find(|path| path.join("idVendor").is_file())?;
    attribute(&usb.join("serial"))
}

/// Returns true for a real serial number. Firmware without one reports zeros or spaces.
fn is_serial(serial: &[u8]) -> bool {
    serial.iter().any(|byte| byte.is_ascii_alphanumeric() && *byte != b'0')
}

/// Returns true for a name that an authority assigned. Names that begin with `t10.` or `nvme.` consist of model and
/// serial number, which repeat on every virtual machine.
fn is_world_wide(wwid: &[u8]) -> bool {
    let given = [&b"naa."[..], b"eui.", b"uuid."].iter().find_map(|prefix| wwid.strip_prefix(*prefix));
    given.is_some_and(is_serial)
}

/// Returns the identity of a device. `table_uuid` is that of the whole disk's partition table, if known.
pub fn identity(
    places: &KernelDirectories,
    node: &BlockDevice,
    firmware: &Firmware,
    size_bytes: u64,
    table_uuid: &str,
) -> DeviceIdentity {
    let whole = node.whole();
    let disk = whole.as_ref().unwrap_or(node);
    let disk_bytes = if whole.is_some() { disk.size_bytes() } else { size_bytes };
    let (kind, place_id, id) = disk_id(places, disk, firmware, disk_bytes, table_uuid);
    let mut identity = DeviceIdentity {
        kind,
        boot_id: places.boot_id(),
        number: node.number,
        below: node.below(places).iter().map(|lower| lower.number).collect(),
        size_bytes,
        ..DeviceIdentity::default()
    };
    match (&whole, node.partition_number()) {
        (Some(whole), Some(number)) => {
            // The disk's table cannot be read through a descriptor of the partition.
            identity.id = format!("{place_id}-part{number}");
            identity.place_id.clone_from(&identity.id);
            identity.whole = Some(whole.number);
            identity.whole_id = place_id;
        }
        _ => (identity.id, identity.place_id) = (id, place_id),
    }
    if let Some(path) = disk.backing_path() {
        identity.backing = file_number(disk, &path).map(|file| {
            let start_bytes = node.value("start").unwrap_or(0).saturating_mul(512);
            FileNumber { offset_bytes: file.offset_bytes.saturating_add(start_bytes), ..file }
        });
        identity.backing_path = path.as_os_str().as_bytes().to_vec();
        identity.backing_path.truncate(PATH_BYTES_MAX);
    }
    identity
}

/// Returns the kind, the ID without partition table, and the ID of a whole disk or volume.
fn disk_id(
    places: &KernelDirectories,
    disk: &BlockDevice,
    firmware: &Firmware,
    size_bytes: u64,
    table_uuid: &str,
) -> (IdKind, String, String) {
    let sure = |kind: IdKind, id: String| (kind, id.clone(), id);
    if let Some(uuid) = disk.attribute("dm/uuid") {
        return sure(IdKind::Volume, legible(b"dm.", &uuid));
    }
    if let Some(uuid) = disk.attribute("md/uuid") {
        return sure(IdKind::Volume, legible(b"md.", &uuid));
    }
    if !firmware.wwn.is_empty() {
        return sure(IdKind::WorldWideName, legible(b"", &firmware.wwn));
    }
    if !firmware.serial.is_empty() {
        let mut parts = vec![&firmware.model[..], &firmware.serial];
        parts.retain(|part| !part.is_empty());
        let mut words = parts.join(&b'_');
        if let Some(unit) = unit(disk) {
            words.extend([b"-", &unit[..]].concat());
        }
        return sure(IdKind::Serial, legible(b"serial.", &words));
    }
    let place = place(places, disk);
    let made = |table: &str| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"hakobu disk 1\0").update(&size_bytes.to_le_bytes()).update(&place);
        hasher.update(b"\0").update(table.as_bytes());
        format!("made.{}", &hasher.finalize().to_hex()[..16])
    };
    (IdKind::Made, made(""), made(table_uuid))
}

/// Returns the identifier that distinguishes several disks of one device: an NVMe namespace, or a boot area of a card.
fn unit(disk: &BlockDevice) -> Option<Vec<u8>> {
    if let Some(namespace) = disk.attribute("nsid") {
        return Some([b"ns", &namespace[..]].concat());
    }
    let card = disk.name.strip_prefix(b"mmcblk")?;
    let area = card.iter().position(|byte| !byte.is_ascii_digit())?;
    Some(card[area..].to_vec())
}

/// Returns the location of the device in a form that is stable across reboots.
fn place(places: &KernelDirectories, disk: &BlockDevice) -> Vec<u8> {
    if let Some(path) = disk.backing_path() {
        let offset_bytes = disk.value("loop/offset").unwrap_or(0);
        let path = path.as_os_str().as_bytes();
        return [b"loop ", path, b" ", offset_bytes.to_string().as_bytes()].concat();
    }
    let directory = disk.hardware().unwrap_or_else(|| disk.directory.clone());
    let root = places.sys.canonicalize().unwrap_or_else(|_| places.sys.clone());
    let inside: PathBuf = directory.strip_prefix(&root).map(Path::to_path_buf).unwrap_or(directory);
    inside.as_os_str().as_bytes().to_vec()
}

/// Returns the file behind a loop device. A block device behind it is not reported here, but among the devices below.
pub(super) fn file_number(disk: &BlockDevice, path: &Path) -> Option<FileNumber> {
    let found = look(path)?;
    let device = DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
    let is_file = FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::RegularFile;
    let offset_bytes = disk.value("loop/offset").unwrap_or(0);
    is_file.then_some(FileNumber { device, inode: found.stx_ino, offset_bytes })
}

/// Converts an ID to letters, digits and a few punctuation marks. Each run of other bytes becomes one `_`.
fn legible(prefix: &[u8], words: &[u8]) -> String {
    let mut id = String::from_utf8_lossy(prefix).into_owned();
    for &byte in words.trim_ascii() {
        let plain = byte.is_ascii_alphanumeric() || b".:-".contains(&byte);
        match plain {
            true => id.push(char::from(byte)),
            false if id.ends_with('_') => {}
            false => id.push('_'),
        }
    }
    if id.len() > BASE_ID_BYTES_MAX {
        let digest = blake3::hash(words).to_hex();
        id.truncate(BASE_ID_BYTES_MAX - 17);
        id += &format!(".{}", &digest[..16]);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_plain_and_never_too_long() {
        assert_eq!(legible(b"serial.", b" QEMU  HARDDISK_\xff\x1b[2J1 "), "serial.QEMU_HARDDISK_2J1");
        let long = legible(b"serial.", &[b'x'; 600]);
        let other = legible(b"serial.", &[b'x'; 601]);
        assert!(long.len() <= BASE_ID_BYTES_MAX && long != other);
        assert!(long.len() + "-part4294967295".len() <= ID_BYTES_MAX);
    }

    #[test]
    fn names_of_no_authority_and_zeros_are_no_world_wide_names() {
        assert!(is_world_wide(b"naa.5000c500a1b2c3d4"));
        assert!(is_world_wide(b"eui.0025385b71b0a1c2"));
        for wwid in
            [&b"t10.ATA     QEMU HARDDISK"[..], b"nvme.1b36-31", b"naa.0000000000000000", b"eui.", b""]
        {
            assert!(!is_world_wide(wwid), "{wwid:?}");
        }
        assert!(!is_serial(b"0000 0000") && is_serial(b"00A0"));
    }
}
