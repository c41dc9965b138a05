//! Recognises file systems and swap space.

use hakobu_core::disk::SignatureKind as Kind;

use super::findings::SignatureMatches;
use crate::block::inspect::medium::{View, be_u16, le_u16, le_u32, le_u64, text, utf16_text, uuid};

/// A magic number at a fixed offset, with the offsets of a UUID and a label.
struct MagicNumber {
    kind: Kind,
    offset_bytes: u64,
    magic: &'static [u8],
    uuid_at: Option<u64>,
    label: Option<(u64, usize)>,
}

const fn mark(kind: Kind, offset_bytes: u64, magic: &'static [u8]) -> MagicNumber {
    MagicNumber { kind, offset_bytes, magic, uuid_at: None, label: None }
}

const MARKS: &[MagicNumber] = &[
    MagicNumber { uuid_at: Some(32), label: Some((108, 12)), ..mark(Kind::Xfs, 0, b"XFSB") },
    MagicNumber {
        uuid_at: Some(0x10020),
        label: Some((0x1012b, 256)),
        ..mark(Kind::Btrfs, 0x10040, b"_BHRfS_M")
    },
    MagicNumber { uuid_at: Some(72), ..mark(Kind::Apfs, 32, b"NXSB") },
    MagicNumber { label: Some((0x8028, 32)), ..mark(Kind::Iso9660, 0x8001, b"CD001") },
    mark(Kind::Squashfs, 0, b"hsqs"),
    MagicNumber {
        uuid_at: Some(1072),
        label: Some((1088, 16)),
        ..mark(Kind::Erofs, 1024, b"\xe2\xe1\xf5\xe0")
    },
    mark(Kind::Bitlocker, 3, b"-FVE-FS-"),
    mark(Kind::Refs, 0, b"\0\0\0ReFS\0"),
];

/// The page sizes in bytes. Swap space has its magic number at the end of its first page.
const PAGES: [u64; 5] = [4096, 8192, 16384, 32768, 65536];
const SWAP_MAGICS: [&[u8]; 5] = [b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"ULSUSPEND\0", b"LINHIB0001"];

/// Adds the file systems and swap space that are recognised.
pub fn probe(view: &View<'_>, found: &mut SignatureMatches) {
    for mark in MARKS.iter().filter(|mark| view.has(mark.offset_bytes, mark.magic)) {
        let uuid = mark.uuid_at.and_then(|at| view.bytes(at, 16)).map(|bytes| uuid(&bytes));
        let label = mark.label.and_then(|(at, length)| view.bytes(at, length)).map(|bytes| text(&bytes));
        found.add(mark.kind, mark.offset_bytes, uuid.unwrap_or_default(), label.unwrap_or_default());
    }
    ext(view, found);
    f2fs(view, found);
    hfs_plus(view, found);
    swap(view, found);
    if let Some(sector) = view.bytes(0, 512) {
        boot_sector(&sector, found);
    }
}

/// Recognises ext2, ext3 and ext4, which differ only in their features.
fn ext(view: &View<'_>, found: &mut SignatureMatches) {
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    const EXT3_INCOMPATIBLE: u32 = 0x2 | 0x4 | 0x10;
    const EXT3_READ_ONLY: u32 = 0x1 | 0x2 | 0x4;
    let Some(superblock) = view.bytes(1024, 256) else { return };
    // The magic number has only two bytes, so the block size and the revision must be plausible as well.
    if le_u16(&superblock, 56) != 0xef53 || le_u32(&superblock, 24) > 6 || le_u32(&superblock, 76) > 1 {
        return;
    }
    let (compatible, incompatible) = (le_u32(&superblock, 92), le_u32(&superblock, 96));
    let newer = incompatible & !EXT3_INCOMPATIBLE != 0 || le_u32(&superblock, 100) & !EXT3_READ_ONLY != 0;
    let kind = match () {
        () if incompatible & JOURNAL_DEVICE != 0 => Kind::ExtJournal,
        () if newer => Kind::Ext4,
        () if compatible & HAS_JOURNAL != 0 => Kind::Ext3,
        () => Kind::Ext2,
    };
    found.add(kind, 1024 + 56, uuid(&superblock[104..120]), text(&superblock[120..136]));
}

fn f2fs(view: &View<'_>, found: &mut SignatureMatches) {
    let Some(superblock) = view.bytes(1024, 124 + 512) else { return };
    if le_u32(&superblock, 0) == 0xf2f5_2010 {
        let label = utf16_text(&superblock[124..]).into_bytes();
        found.add(Kind::F2fs, 1024, uuid(&superblock[108..124]), label);
    }
}

fn hfs_plus(view: &View<'_>, found: &mut SignatureMatches) {
    let Some(header) = view.bytes(1024, 4) else { return };
    if matches!((&header[..2], be_u16(&header, 2)), (b"H+", 4) | (b"HX", 5)) {
        found.add(Kind::HfsPlus, 1024, String::new(), Vec::new());
    }
}

fn swap(view: &View<'_>, found: &mut SignatureMatches) {
    for page_bytes in PAGES {
        let at = page_bytes - 10;
        if SWAP_MAGICS.iter().any(|magic| view.has(at, magic)) {
            let header = view.bytes(1024, 44).unwrap_or_default();
            let label = header.get(28..).map(text).unwrap_or_default();
            return found.add(Kind::Swap, at, uuid(header.get(12..).unwrap_or_default()), label);
        }
    }
}

/// Recognises the file systems that begin with a boot sector.
fn boot_sector(sector: &[u8], found: &mut SignatureMatches) {
    match sector.get(3..11) {
        Some(b"EXFAT   ") => {
            let serial = le_u32(sector, 100);
            found.add(Kind::Exfat, 3, fat_serial(serial), Vec::new());
        }
        Some(b"NTFS    ") => {
            found.add(Kind::Ntfs, 3, format!("{:016X}", le_u64(sector, 72)), Vec::new());
        }
        _ => fat(sector, found),
    }
}

/// Recognises FAT. It has no reliable magic number, so all parameters that a reader needs must be plausible.
fn fat(sector: &[u8], found: &mut SignatureMatches) {
    let (sector_bytes, cluster, reserved) = (le_u16(sector, 11), sector[13], le_u16(sector, 14));
    let (copies, media, fat_sectors) = (sector[16], sector[21], le_u16(sector, 22));
    let plausible = [512, 1024, 2048, 4096].contains(&sector_bytes)
        && cluster.is_power_of_two()
        && reserved != 0
        && matches!(copies, 1 | 2)
        && (media == 0xf0 || media >= 0xf8)
        && sector[510..] == [0x55, 0xaa];
    if !plausible {
        return;
    }
    let (serial_at, label_at) = if fat_sectors == 0 { (67, 71) } else { (39, 43) };
    let mut label = text(&sector[label_at..label_at + 11]);
    if label == b"NO NAME" {
        label.clear();
    }
    found.add(Kind::Fat, 0, fat_serial(le_u32(sector, serial_at)), label);
}

fn fat_serial(serial: u32) -> String {
    format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)
}
