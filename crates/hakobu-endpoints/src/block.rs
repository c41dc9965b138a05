//! Block devices: what tells one from another.

use hakobu_core::Result;
use rustix::fd::OwnedFd;

/// What stands for a disk, whatever path names it.
///
/// # Errors
/// Those of the system.
pub fn stable_id(_device: &OwnedFd) -> Result<String> {
    Ok(String::new())
}

/// Has the kernel look at a disk's partitions anew. What is no whole disk has none.
pub fn read_partitions_again(_device: &OwnedFd) {}
