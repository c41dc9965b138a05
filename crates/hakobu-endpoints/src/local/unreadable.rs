//! Reading around bad sectors.

use hakobu_core::extent::Extent;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, pread, retry_on_intr};

/// What is tried first: the sector of most disks, and the page that the system reads anyway.
const BLOCK_BYTES: usize = 4096;
/// What is tried where that fails: the smallest sector there is.
const SECTOR_BYTES: usize = 512;

/// Reads what can be read of a range, sector by sector, puts zeros in the place of the rest, and
/// says what that is.
///
/// # Errors
/// What is no error of the medium, such as a device that has gone.
pub(crate) fn read_around(medium: &Medium<'_>, begin: u64, room: &mut [u8]) -> Result<Vec<Extent>, Errno> {
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

/// What is read: past the page cache where that can be done, as a page there is lost as a whole.
pub(crate) struct Medium<'a> {
    /// The file.
    pub file: &'a OwnedFd,
    /// The same past the page cache.
    pub direct: Option<&'a OwnedFd>,
}

impl Medium<'_> {
    /// Whether all of it could be read.
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
