//! Partition tables for tests, written byte by byte. No tool needs to be installed, and every field can be set to a
//! wrong value.

use std::io;
use std::os::unix::fs::FileExt;

/// A GUID partition table to be written.
#[derive(Clone, Debug)]
pub struct Gpt {
    /// The sector size in bytes, the unit of the table.
    pub sector_bytes: u64,
    /// The size of the disk in bytes.
    pub disk_bytes: u64,
    /// The GUID of the disk, in its on-disk byte order.
    pub disk: [u8; 16],
    /// The partitions.
    pub partitions: Vec<GptPartition>,
}

/// A partition of a [`Gpt`].
#[derive(Clone, Debug)]
pub struct GptPartition {
    /// The GUID of its type, in its on-disk byte order.
    pub kind: [u8; 16],
    /// The GUID of the partition, in its on-disk byte order.
    pub guid: [u8; 16],
    /// The first sector.
    pub first: u64,
    /// The last sector.
    pub last: u64,
    /// The name.
    pub name: String,
}

/// The type of an EFI system partition, in its on-disk byte order.
pub const EFI_TYPE: [u8; 16] =
    guid(0xc12a_7328, 0xf81f, 0x11d2, [0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b]);
/// The type of a Linux data partition, in its on-disk byte order.
pub const LINUX_TYPE: [u8; 16] =
    guid(0x0fc6_3daf, 0x8483, 0x4772, [0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4]);

const ENTRIES: usize = 128;
const ENTRY_BYTES: usize = 128;

/// Returns a GUID from its parts, in its on-disk byte order.
pub const fn guid(a: u32, b: u16, c: u16, d: [u8; 8]) -> [u8; 16] {
    let (a, b, c) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
    [a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]]
}

impl Gpt {
    /// Writes both copies of the table and the protective MBR.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, to: &impl FileExt) -> io::Result<()> {
        for (offset_bytes, bytes) in self.pieces() {
            to.write_all_at(&bytes, offset_bytes)?;
        }
        Ok(())
    }

    /// Returns the pieces to write, with their offsets.
    pub fn pieces(&self) -> Vec<(u64, Vec<u8>)> {
        let last = self.disk_bytes / self.sector_bytes - 1;
        let entries = self.entries();
        let entry_sectors = (entries.len() as u64).div_ceil(self.sector_bytes);
        let at = |sector: u64| sector * self.sector_bytes;
        vec![
            (0, protective_mbr(last)),
            (at(1), self.header(1, last, 2)),
            (at(2), entries.clone()),
            (at(last - entry_sectors), entries),
            (at(last), self.header(last, 1, last - entry_sectors)),
        ]
    }

    fn header(&self, own: u64, other: u64, entries_at: u64) -> Vec<u8> {
        let entries = self.entries();
        let entry_sectors = (entries.len() as u64).div_ceil(self.sector_bytes);
        let last = self.disk_bytes / self.sector_bytes - 1;
        let mut header = b"EFI PART\0\0\x01\0\x5c\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        for number in [own, other, 2 + entry_sectors, last - entry_sectors - 1] {
            header.extend(number.to_le_bytes());
        }
        header.extend(self.disk);
        header.extend(entries_at.to_le_bytes());
        for number in [ENTRIES as u32, ENTRY_BYTES as u32, crc32(&entries)] {
            header.extend(number.to_le_bytes());
        }
        let crc = crc32(&header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        header
    }

    fn entries(&self) -> Vec<u8> {
        let mut entries = vec![0; ENTRIES * ENTRY_BYTES];
        for (entry, partition) in entries.chunks_exact_mut(ENTRY_BYTES).zip(&self.partitions) {
            entry[..16].copy_from_slice(&partition.kind);
            entry[16..32].copy_from_slice(&partition.guid);
            entry[32..40].copy_from_slice(&partition.first.to_le_bytes());
            entry[40..48].copy_from_slice(&partition.last.to_le_bytes());
            for (place, unit) in entry[56..].chunks_exact_mut(2).zip(partition.name.encode_utf16()) {
                place.copy_from_slice(&unit.to_le_bytes());
            }
        }
        entries
    }
}

fn protective_mbr(last: u64) -> Vec<u8> {
    mbr(0, &[(0xee, 1, u32::try_from(last).unwrap_or(u32::MAX))])
}

/// Returns a first sector with up to four entries of type, first sector and number of sectors. Links in the chain of
/// extended partitions have the same format.
pub fn mbr(disk: u32, entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut sector = vec![0; 512];
    sector[440..444].copy_from_slice(&disk.to_le_bytes());
    for (place, (kind, first, sectors)) in sector[446..510].chunks_exact_mut(16).zip(entries) {
        place[4] = *kind;
        place[8..12].copy_from_slice(&first.to_le_bytes());
        place[12..16].copy_from_slice(&sectors.to_le_bytes());
    }
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// Returns the checksum of these tables, computed bit by bit, since it need not be fast.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
