//! Reads the GUID partition table (UEFI specification, chapter 5).

use crc_fast::CrcAlgorithm;
use hakobu_core::disk::{
    BackupTable, PARTITIONS_MAX, Partition, PartitionTable, TableFault, TableKind, shortened,
};

use super::medium::{READ_BYTES_MAX, View, guid, le_u32, le_u64, utf16_text};

const MAGIC: &[u8] = b"EFI PART";
const HEADER_BYTES_MIN: usize = 92;
/// The maximum number of entries accepted. The usual number is 128, and no real table has more than a few times that.
const ENTRIES_MAX: u32 = 4096;

/// An intact copy of the header.
struct Header {
    sector_bytes: u32,
    own_sector: u64,
    other_sector: u64,
    disk: String,
    entries_sector: u64,
    entries: u32,
    entry_bytes: u32,
    entries_crc: u32,
}

/// Reads a table that counts in the device's sectors, or in another common sector size. If only one copy is intact, the
/// table is returned with faults. Returns `None` if the device has no trace of a GPT.
pub fn read(view: &View<'_>, sector_bytes: u32) -> Option<(PartitionTable, Vec<Partition>)> {
    let mut sizes = vec![sector_bytes];
    sizes.extend([512, 4096].iter().filter(|&&size| size != sector_bytes));
    sizes.retain(|&size| size >= 512);
    let whole = sizes.iter().find_map(|&size| read_in(view, size));
    whole.or_else(|| sizes.iter().find_map(|&size| trace(view, size)))
}

/// Returns an empty table with faults if only the magic number of its header is left.
fn trace(view: &View<'_>, sector_bytes: u32) -> Option<(PartitionTable, Vec<Partition>)> {
    view.has(u64::from(sector_bytes), MAGIC).then(|| {
        let faults = vec![TableFault::PrimaryDamaged, TableFault::BackupDamaged];
        let uuid = String::new();
        (PartitionTable { kind: TableKind::Gpt, uuid, sector_bytes, backup: None, faults }, Vec::new())
    })
}

fn read_in(view: &View<'_>, sector_bytes: u32) -> Option<(PartitionTable, Vec<Partition>)> {
    let last_sector = (view.size_bytes() / u64::from(sector_bytes)).checked_sub(1)?;
    let with_entries = |header: Header| {
        let entries = entries(view, &header)?;
        Some((header, entries))
    };
    let first = header(view, 1, sector_bytes).and_then(with_entries);
    let second_sector = first.as_ref().map_or(last_sector, |(header, _)| header.other_sector);
    let second = header(view, second_sector, sector_bytes).and_then(with_entries);
    let mut faults = Vec::new();
    if first.is_none() {
        faults.push(TableFault::PrimaryDamaged);
    }
    if second.is_none() {
        faults.push(TableFault::BackupDamaged);
    }
    let (header, entries) = first.or(second)?;
    let partitions = partitions(view, &header, &entries, &mut faults);
    let offset_bytes = second_sector.saturating_mul(u64::from(sector_bytes));
    let backup = Some(BackupTable { offset_bytes, at_end: second_sector == last_sector });
    Some((
        PartitionTable { kind: TableKind::Gpt, uuid: header.disk, sector_bytes, backup, faults },
        partitions,
    ))
}

/// Reads a copy of the header. Returns `None` unless it is intact and belongs at this sector.
fn header(view: &View<'_>, sector: u64, sector_bytes: u32) -> Option<Header> {
    let mut bytes = view.bytes(sector.checked_mul(u64::from(sector_bytes))?, sector_bytes as usize)?;
    let length = le_u32(&bytes, 12) as usize;
    if !bytes.starts_with(MAGIC) || length < HEADER_BYTES_MIN || length > bytes.len() {
        return None;
    }
    let expected = le_u32(&bytes, 16);
    bytes.get_mut(16..20)?.fill(0);
    let header = Header {
        sector_bytes,
        own_sector: le_u64(&bytes, 24),
        other_sector: le_u64(&bytes, 32),
        disk: guid(bytes.get(56..72)?),
        entries_sector: le_u64(&bytes, 72),
        entries: le_u32(&bytes, 80),
        entry_bytes: le_u32(&bytes, 84),
        entries_crc: le_u32(&bytes, 88),
    };
    (crc32(bytes.get(..length)?) == expected && header.own_sector == sector).then_some(header)
}

/// Reads the entries. Returns `None` unless they are intact.
fn entries(view: &View<'_>, header: &Header) -> Option<Vec<u8>> {
    let plausible =
        header.entries <= ENTRIES_MAX && header.entry_bytes >= 128 && header.entry_bytes.is_multiple_of(8);
    let length = u64::from(header.entries) * u64::from(header.entry_bytes);
    if !plausible || length > READ_BYTES_MAX as u64 {
        return None;
    }
    let offset_bytes = header.entries_sector.checked_mul(u64::from(header.sector_bytes))?;
    let entries = view.bytes(offset_bytes, length as usize)?;
    (crc32(&entries) == header.entries_crc).then_some(entries)
}

fn partitions(
    view: &View<'_>,
    header: &Header,
    entries: &[u8],
    faults: &mut Vec<TableFault>,
) -> Vec<Partition> {
    let sector_bytes = u64::from(header.sector_bytes);
    let mut partitions = Vec::new();
    for (index, entry) in entries.chunks_exact(header.entry_bytes as usize).enumerate() {
        if entry[..16] == [0; 16] {
            continue;
        }
        if partitions.len() == PARTITIONS_MAX {
            note(faults, TableFault::TooMany);
            break;
        }
        let (first, last) = (le_u64(entry, 32), le_u64(entry, 40));
        let start_bytes = first.checked_mul(sector_bytes);
        let end_bytes = last.checked_add(1).and_then(|end| end.checked_mul(sector_bytes));
        let (Some(start_bytes), Some(end_bytes)) = (start_bytes, end_bytes) else {
            note(faults, TableFault::BeyondEnd);
            continue;
        };
        if last < first || end_bytes > view.size_bytes() {
            note(faults, TableFault::BeyondEnd);
        }
        partitions.push(Partition {
            number: index as u32 + 1,
            start_bytes,
            size_bytes: end_bytes.saturating_sub(start_bytes),
            type_id: guid(entry),
            uuid: guid(&entry[16..]),
            label: shortened(utf16_text(&entry[56..128])),
            ..Partition::default()
        });
    }
    partitions
}

fn note(faults: &mut Vec<TableFault>, fault: TableFault) {
    if !faults.contains(&fault) {
        faults.push(fault);
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}
