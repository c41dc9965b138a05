//! Buffers for direct I/O, aligned to the largest sector size.

use hakobu_core::endpoint::PIECE_ALIGNMENT;
use hakobu_sys::memory::{BufferPool, PooledBuffer};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::proc_path::proc_path;

/// The alignment of direct I/O in bytes: the largest logical sector size, and a page.
pub(crate) const ALIGNMENT: usize = PIECE_ALIGNMENT;
/// The number of bytes read or written at once by direct I/O. Larger steps gain little on a loop device, and every lane
/// has one step in flight.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// The pool of step buffers.
static STEP_ROOMS: BufferPool = BufferPool::new(STEP_BYTES);

/// A buffer of [`STEP_BYTES`] that begins at a multiple of [`ALIGNMENT`].
#[derive(Debug)]
pub(crate) struct AlignedBuffer(PooledBuffer);

impl AlignedBuffer {
    /// Takes a buffer from the pool, with its previous contents.
    pub(crate) fn new() -> Self {
        Self(STEP_ROOMS.take())
    }

    /// Returns its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns its bytes for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Opens an open file again for direct I/O. Returns `None` if that is not possible.
pub(crate) fn open_direct(file: impl AsFd, access: OFlags) -> Option<OwnedFd> {
    openat(CWD, proc_path(&file), access | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()).ok()
}
