//! Content of a new file whose source has holes: blocks of zeros are left out, as fine as the holes of a file system are.
//!
//! Pieces that lie in a hole do not get here; these are the holes within pieces.

use std::sync::atomic::Ordering;

use hakobu_core::extent::Extent;
use hakobu_core::zeros::{Stretch, stretches};
use rustix::io::Errno;

use super::draft::Draft;

impl Draft {
    /// Writes content, but for blocks of zeros where the file is to have holes.
    pub(super) fn write_content(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        if !self.sparse {
            return self.write(offset, &[bytes]);
        }
        for Stretch { offset, bytes, is_zero } in stretches(offset, bytes) {
            if !is_zero {
                self.write(offset, &[bytes])?;
                continue;
            }
            self.holes.store(true, Ordering::Release);
            // Something may be there that an earlier run has left.
            if self.stale.load(Ordering::Acquire) {
                self.punch(Extent { offset, length: bytes.len() as u64 })?;
            }
        }
        Ok(())
    }
}
