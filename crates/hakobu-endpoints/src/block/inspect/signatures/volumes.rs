//! Recognises components of volumes: LVM, software RAID, encryption, caches, object stores.

use hakobu_core::disk::SignatureKind as Kind;

use super::findings::SignatureMatches;
use crate::block::inspect::medium::{View, be_u16, le_u32, text, uuid};

const LUKS_MAGIC: &[u8] = b"LUKS\xba\xbe";
/// The magic number of the second header of LUKS 2, whose offset depends on its size.
const LUKS_SECOND_MAGIC: &[u8] = b"SKUL\xba\xbe";
const LUKS_SECOND_AT: [u64; 9] =
    [0x4000, 0x8000, 0x10000, 0x20000, 0x40000, 0x80000, 0x10_0000, 0x20_0000, 0x40_0000];
const MD_MAGIC: u32 = 0xa92b_4efc;
const BCACHE_MAGIC: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS_MAGIC: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";

/// Adds the components of volumes that are recognised.
pub fn probe(view: &View<'_>, found: &mut SignatureMatches) {
    lvm(view, found);
    md(view, found);
    luks(view, found);
    bcache(view, found);
    if view.has(0, b"bluestore block device") {
        found.add(Kind::Bluestore, 0, String::new(), Vec::new());
    }
    if view.has(32, b"ORCLDISK") {
        let label = view.bytes(40, 24).map(|bytes| text(&bytes)).unwrap_or_default();
        found.add(Kind::OracleAsm, 32, String::new(), label);
    }
    if view.has(0x10_0000, b"\x0d\xd0\x01\xc0") {
        found.add(Kind::Vmfs, 0x10_0000, String::new(), Vec::new());
    }
}

/// Recognises LVM, whose label is in one of the first four sectors.
fn lvm(view: &View<'_>, found: &mut SignatureMatches) {
    for at in [0, 512, 1024, 1536] {
        let Some(sector) = view.bytes(at, 512) else { return };
        if !sector.starts_with(b"LABELONE") || sector[24..32] != *b"LVM2 001" {
            continue;
        }
        let header_at = le_u32(&sector, 20) as usize;
        let id = header_at.checked_add(32).and_then(|end| sector.get(header_at..end));
        return found.add(Kind::Lvm, at, id.map(lvm_id).unwrap_or_default(), Vec::new());
    }
}

/// Formats an LVM ID: 32 letters and digits in seven groups.
fn lvm_id(id: &[u8]) -> String {
    if !id.iter().all(u8::is_ascii_alphanumeric) {
        return String::new();
    }
    let mut words = String::new();
    for (index, &letter) in id.iter().enumerate() {
        if matches!(index, 6 | 10 | 14 | 18 | 22 | 26) {
            words.push('-');
        }
        words.push(char::from(letter));
    }
    words
}

/// Recognises software RAID. The versions of the superblock differ in their offset, and 0.90 also in its layout.
fn md(view: &View<'_>, found: &mut SignatureMatches) {
    let near_end = (view.size_bytes() / 512).checked_sub(16).map(|sector| (sector & !7) * 512);
    for at in [Some(0), Some(4096), near_end].into_iter().flatten() {
        let Some(superblock) = view.bytes(at, 64) else { continue };
        if le_u32(&superblock, 0) == MD_MAGIC && le_u32(&superblock, 4) == 1 {
            found.add(Kind::Md, at, uuid(&superblock[16..32]), text(&superblock[32..]));
        }
    }
    let Some(at) = (view.size_bytes() & !0xffff).checked_sub(0x1_0000) else { return };
    let Some(superblock) = view.bytes(at, 64) else { return };
    let foreign = le_u32(&superblock, 0) == MD_MAGIC.swap_bytes();
    if foreign || (le_u32(&superblock, 0) == MD_MAGIC && le_u32(&superblock, 4) == 0) {
        let parts = [20, 52, 56, 60].map(|field| le_u32(&superblock, field));
        let parts = parts.map(|part| if foreign { part.to_le_bytes() } else { part.to_be_bytes() });
        found.add(Kind::Md, at, uuid(parts.as_flattened()), Vec::new());
    }
}

fn luks(view: &View<'_>, found: &mut SignatureMatches) {
    if let Some(header) = view.bytes(0, 208)
        && header.starts_with(LUKS_MAGIC)
    {
        let second = be_u16(&header, 6) == 2;
        let (kind, label) =
            if second { (Kind::Luks2, text(&header[24..72])) } else { (Kind::Luks1, Vec::new()) };
        return found.add(kind, 0, luks_uuid(&header[168..208]), label);
    }
    if let Some(at) = LUKS_SECOND_AT.into_iter().find(|&at| view.has(at, LUKS_SECOND_MAGIC)) {
        let header = view.bytes(at, 208).unwrap_or_default();
        let uuid = header.get(168..).map(luks_uuid).unwrap_or_default();
        found.add(Kind::Luks2, at, uuid, header.get(24..72).map(text).unwrap_or_default());
    }
}

/// Returns the UUID of a LUKS volume, which is stored as text.
fn luks_uuid(field: &[u8]) -> String {
    String::from_utf8_lossy(&text(field)).into_owned()
}

fn bcache(view: &View<'_>, found: &mut SignatureMatches) {
    let Some(superblock) = view.bytes(4096, 104) else { return };
    let kind = match &superblock[24..40] {
        BCACHE_MAGIC => Kind::Bcache,
        BCACHEFS_MAGIC => Kind::Bcachefs,
        _ => return,
    };
    found.add(kind, 4096 + 24, uuid(&superblock[40..56]), text(&superblock[72..104]));
}
