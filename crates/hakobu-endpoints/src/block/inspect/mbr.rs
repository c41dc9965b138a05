//! Reads the PC partition table in the first sector (MBR), with its chain of extended partitions.

use hakobu_core::disk::{PARTITIONS_MAX, Partition, PartitionTable, TableFault, TableKind};

use super::medium::{View, le_u32};

const SECTOR_BYTES: usize = 512;
const CODE_BYTES: usize = 440;
const ENTRIES_AT: usize = 446;
/// The type of the single entry that protects a GPT.
const PROTECTIVE: u8 = 0xee;

/// The contents of the first sector.
pub struct Mbr {
    /// The table. It is empty if there is only boot code.
    pub table: PartitionTable,
    /// The partitions, logical ones included.
    pub partitions: Vec<Partition>,
    /// True if the table protects a GPT.
    pub protective: bool,
    /// True if there is boot code.
    pub has_code: bool,
}

/// Reads the first sector. `is_file_system` marks a recognised file system, whose first sector ends in the same bytes.
pub fn read(view: &View<'_>, sector_bytes: u32, is_file_system: bool) -> Option<Mbr> {
    let sector = view.bytes(0, SECTOR_BYTES)?;
    let entries = entries(&sector)?;
    let is_table = entries.iter().any(|entry| entry.kind != 0 && entry.sectors != 0);
    let has_code = sector[..CODE_BYTES].iter().any(|&byte| byte != 0);
    if !is_table && (is_file_system || !has_code) {
        return None;
    }
    let disk = le_u32(&sector, 440);
    let mut reading = MbrReader { view, sector_bytes, disk, partitions: Vec::new(), faults: Vec::new() };
    for (number, entry) in (1..).zip(&entries) {
        reading.take(number, 0, entry);
    }
    for entry in entries.iter().filter(|entry| entry.is_extended()) {
        reading.follow(u64::from(entry.first));
    }
    let uuid = if disk == 0 { String::new() } else { format!("{disk:08x}") };
    let (partitions, faults) = (reading.partitions, reading.faults);
    Some(Mbr {
        table: PartitionTable { kind: TableKind::Mbr, uuid, sector_bytes, backup: None, faults },
        protective: entries.iter().any(|entry| entry.kind == PROTECTIVE),
        partitions,
        // The boot sector of a file system has code as well, but firmware does not start it directly.
        has_code: has_code && !is_file_system,
    })
}

struct Entry {
    kind: u8,
    first: u32,
    sectors: u32,
}

impl Entry {
    fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85) && self.sectors != 0
    }
}

/// Returns the four entries of a sector if it can be a partition table.
fn entries(sector: &[u8]) -> Option<Vec<Entry>> {
    if sector.get(510..512)? != [0x55, 0xaa] {
        return None;
    }
    let (entries, _) = sector.get(ENTRIES_AT..510)?.as_chunks::<16>();
    if entries.iter().any(|entry| entry[0] & 0x7f != 0) {
        return None;
    }
    let entry =
        |entry: &[u8; 16]| Entry { kind: entry[4], first: le_u32(entry, 8), sectors: le_u32(entry, 12) };
    Some(entries.iter().map(entry).collect())
}

struct MbrReader<'a> {
    view: &'a View<'a>,
    sector_bytes: u32,
    disk: u32,
    partitions: Vec<Partition>,
    faults: Vec<TableFault>,
}

impl MbrReader<'_> {
    fn take(&mut self, number: u32, base: u64, entry: &Entry) {
        if entry.kind == 0 || entry.sectors == 0 {
            return;
        }
        if self.partitions.len() == PARTITIONS_MAX {
            return self.note(TableFault::TooMany);
        }
        let in_bytes = |sectors: u64| sectors.saturating_mul(u64::from(self.sector_bytes));
        let start_bytes = in_bytes(base + u64::from(entry.first));
        let size_bytes = in_bytes(u64::from(entry.sectors));
        if entry.kind != PROTECTIVE && start_bytes.saturating_add(size_bytes) > self.view.size_bytes() {
            self.note(TableFault::BeyondEnd);
        }
        self.partitions.push(Partition {
            number,
            start_bytes,
            size_bytes,
            type_id: format!("0x{:02x}", entry.kind),
            uuid: if self.disk == 0 { String::new() } else { format!("{:08x}-{number:02x}", self.disk) },
            ..Partition::default()
        });
    }

    /// Follows the chain of logical partitions in an extended partition that begins at sector `base`.
    fn follow(&mut self, base: u64) {
        let mut seen = Vec::new();
        let mut at = base;
        let mut number =
            1 + self.partitions.iter().map(|partition| partition.number).max().unwrap_or(0).max(4);
        loop {
            if seen.contains(&at) {
                return self.note(TableFault::ChainBroken);
            }
            if seen.len() == PARTITIONS_MAX {
                return self.note(TableFault::TooMany);
            }
            seen.push(at);
            let sector = self.view.bytes(at.saturating_mul(u64::from(self.sector_bytes)), SECTOR_BYTES);
            let Some(entries) = sector.as_deref().and_then(entries) else {
                return self.note(TableFault::ChainBroken);
            };
            let Some(next) = self.take_logical(&entries, at, &mut number) else { return };
            at = base + u64::from(next);
        }
    }

    /// Adds the logical partitions of one link of the chain. Returns the location of the next link.
    fn take_logical(&mut self, entries: &[Entry], at: u64, number: &mut u32) -> Option<u32> {
        for entry in entries.iter().filter(|entry| !entry.is_extended()) {
            if entry.kind != 0 && entry.sectors != 0 {
                self.take(*number, at, entry);
                *number += 1;
            }
        }
        entries.iter().find(|entry| entry.is_extended()).map(|entry| entry.first)
    }

    fn note(&mut self, fault: TableFault) {
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }
}

/// Returns true for a type of partition that holds only partitions.
pub fn is_container(type_id: &str) -> bool {
    matches!(type_id, "0x05" | "0x0f" | "0x85")
}
