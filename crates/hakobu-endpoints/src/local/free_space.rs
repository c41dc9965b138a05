//! The free space of a file system.

use std::path::Path;

use rustix::fs::StatVfs;

/// The bytes that this user may still write in the file system of a directory. `None` where it does not say, or there is
/// no such directory.
pub fn free_bytes_at(directory: &Path) -> Option<u64> {
    free_bytes(&rustix::fs::statvfs(directory).ok()?)
}

/// The bytes that this user may still write, where the file system counts its blocks.
pub(crate) fn free_bytes(figures: &StatVfs) -> Option<u64> {
    let blocks = if rustix::process::geteuid().is_root() { figures.f_bfree } else { figures.f_bavail };
    (figures.f_blocks > 0).then(|| blocks.saturating_mul(figures.f_frsize))
}
