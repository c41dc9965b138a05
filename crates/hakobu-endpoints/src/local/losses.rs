//! Checks of forbidden losses and of actual holes.

use hakobu_core::losses::LossKind;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::AsFd;
use rustix::fs::{SeekFrom, seek};

/// Fails if a kind of loss is among those that `require` forbids.
pub(crate) fn check_required(require: &[LossKind], lost: &[LossKind]) -> Result<()> {
    let Some(kind) = lost.iter().find(|kind| require.contains(kind)) else { return Ok(()) };
    let words =
        format!("--require {} cannot be met: the target cannot hold it, or may not set it", kind.name());
    Err(Error::new(ErrorKind::Requirement, "copying", words))
}

/// Returns true if an open file really has a hole. Compression can also make a file take fewer blocks than its size.
pub(crate) fn has_hole(file: impl AsFd, size_bytes: u64) -> bool {
    matches!(seek(file, SeekFrom::Hole(0)), Ok(offset) if offset < size_bytes)
}
