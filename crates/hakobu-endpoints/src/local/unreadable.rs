//! Reading around bad sectors.

use hakobu_core::extent::Extent;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, pread, retry_on_intr};

/// The block size tried first in bytes: the sector of most disks, and the page that the system reads anyway.
const BLOCK_BYTES: usize = 4096;
/// The block size tried after a failure in bytes: the smallest sector size.
const SECTOR_BYTES: usize = 512;

/// Reads a range sector by sector, fills unreadable sectors with zeros, and returns their ranges.
///
/// # Errors
/// Errors that do not concern the medium, such as a device that was removed.
pub(crate) fn read_around(
    medium: &DamagedMedium<'_>,
    begin: u64,
    room: &mut [u8],
) -> Result<Vec<Extent>, Errno> {
    let mut unreadable: Vec<Extent> = Vec::new();
    let mut offset = begin;
    for block in room.chunks_mut(BLOCK_BYTES) {
        if medium.try_read(offset, block)? {
            offset += block.len() as u64;
            continue;
        }
        for sector in block.chunks_mut(SECTOR_BYTES) {
            if !medium.try_read(offset, sector)? {
                sector.fill(0);
                let length = sector.len() as u64;
                match unreadable.last_mut() {
                    Some(last) if last.end() == offset => last.length += length,
                    _ => unreadable.push(Extent { offset, length }),
                }
            }
            offset += sector.len() as u64;
        }
    }
    Ok(unreadable)
}

/// A file or device being read. Direct I/O is preferred, because the page cache loses a whole page for one bad sector.
pub(crate) struct DamagedMedium<'a> {
    /// The descriptor of the file.
    pub file: &'a OwnedFd,
    /// A descriptor of the same file for direct I/O.
    pub direct: Option<&'a OwnedFd>,
}

impl DamagedMedium<'_> {
    /// Returns true if the whole block could be read.
    fn try_read(&self, offset: u64, room: &mut [u8]) -> Result<bool, Errno> {
        match self.direct.map(|direct| fill(direct, offset, room)) {
            // `EINVAL`: less than a sector of this device.
            None | Some(Err(Errno::INVAL)) => fill(self.file, offset, room),
            Some(read) => read,
        }
    }
}

fn fill(file: &OwnedFd, offset: u64, room: &mut [u8]) -> Result<bool, Errno> {
    let mut filled = 0;
    while filled < room.len() {
        match retry_on_intr(|| pread(file, &mut room[filled..], offset + filled as u64)) {
            Ok(0) | Err(Errno::IO | Errno::NODATA | Errno::ILSEQ) => return Ok(false),
            Ok(read) => filled += read,
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}
