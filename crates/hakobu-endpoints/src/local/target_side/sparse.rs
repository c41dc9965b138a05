//! Content of a new file whose source has holes. Blocks of zeros are skipped, as fine as the holes of file systems.
//!
//! Pieces that lie entirely in a hole do not get here. This is about holes within pieces.

use std::sync::atomic::Ordering;

use hakobu_core::extent::Extent;
use hakobu_core::zeros::{BlockStretch, stretches};
use rustix::io::Errno;

use super::draft::LocalDraft;

impl LocalDraft {
    /// Writes content, except for blocks of zeros if the file is to have holes.
    pub(super) fn write_content(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        if !self.sparse {
            return self.write(offset, &[bytes]);
        }
        for BlockStretch { offset, bytes, is_zero } in stretches(offset, bytes) {
            if !is_zero {
                self.write(offset, &[bytes])?;
                continue;
            }
            self.holes.store(true, Ordering::Release);
            // An earlier run may have left data there.
            if self.stale.load(Ordering::Acquire) {
                self.punch(Extent { offset, length: bytes.len() as u64 })?;
            }
        }
        Ok(())
    }
}
