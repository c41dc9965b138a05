//! Memory that direct I/O accepts: it begins at a multiple of the largest sector size.

use hakobu_core::endpoint::PIECE_ALIGNMENT;
use hakobu_sys::memory::{Room, Rooms};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::proc_path::proc_path;

/// What direct I/O is aligned to: the largest logical sector there is, and a page.
pub(crate) const ALIGNMENT: usize = PIECE_ALIGNMENT;
/// How much is read or written at once where the page cache is passed by: from here on, larger
/// steps gain little on a loop device, and every lane has one step under way.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// Room for steps.
static STEP_ROOMS: Rooms = Rooms::new(STEP_BYTES);

/// A buffer of [`STEP_BYTES`] that begins at a multiple of [`ALIGNMENT`].
#[derive(Debug)]
pub(crate) struct AlignedBuffer(Room);

impl AlignedBuffer {
    /// A buffer, with whatever was left in it.
    pub(crate) fn new() -> Self {
        Self(STEP_ROOMS.take())
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Opens what is open once more, past the page cache. `None` where that cannot be done.
pub(crate) fn open_direct(file: impl AsFd, access: OFlags) -> Option<OwnedFd> {
    openat(CWD, proc_path(&file), access | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()).ok()
}
