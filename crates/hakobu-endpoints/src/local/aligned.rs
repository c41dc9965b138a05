//! Memory that direct I/O accepts: it begins at a multiple of the largest sector size.

use hakobu_core::endpoint::PIECE_ALIGNMENT;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::target::proc_path;

/// What direct I/O is aligned to: the largest logical sector there is, and a page.
pub(crate) const ALIGNMENT: usize = PIECE_ALIGNMENT;
/// How much is read or written at once where the page cache is passed by: from here on, larger
/// steps gain little on a loop device, and every lane has one step under way.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// A buffer of [`STEP_BYTES`] that begins at a multiple of [`ALIGNMENT`].
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    bytes: Box<[u8]>,
    begin: usize,
}

impl AlignedBuffer {
    /// A new buffer of zeros.
    pub(crate) fn new() -> Self {
        let bytes = vec![0; STEP_BYTES + ALIGNMENT].into_boxed_slice();
        let begin = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, begin }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..self.begin + STEP_BYTES]
    }

    /// Its bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + STEP_BYTES]
    }
}

/// Opens what is open once more, past the page cache. `None` where that cannot be done.
pub(crate) fn open_direct(file: impl AsFd, access: OFlags) -> Option<OwnedFd> {
    openat(CWD, proc_path(&file), access | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()).ok()
}
