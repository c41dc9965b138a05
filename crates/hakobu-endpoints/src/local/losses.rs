//! What must not be lost, and whether a file really has holes.

use hakobu_core::losses::LossKind;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::AsFd;
use rustix::fs::{SeekFrom, seek};

/// Fails if one of the kinds that are lost is among those that must not be.
pub(crate) fn check_required(require: &[LossKind], lost: &[LossKind]) -> Result<()> {
    let Some(kind) = lost.iter().find(|kind| require.contains(kind)) else { return Ok(()) };
    let words =
        format!("--require {} cannot be met: the target cannot hold it, or may not set it", kind.name());
    Err(Error::new(ErrorKind::Requirement, "copying", words))
}

/// Whether an open file really has a hole. Fewer blocks than its size needs can also come from
/// compression.
pub(crate) fn has_hole(file: impl AsFd, size_bytes: u64) -> bool {
    matches!(seek(file, SeekFrom::Hole(0)), Ok(offset) if offset < size_bytes)
}
