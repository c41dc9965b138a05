//! The free space of a file system.

use std::path::Path;

use rustix::fs::StatVfs;

/// Returns the bytes that this user may still write on the file system of a directory. Returns `None` if the file
/// system does not report it, or the directory does not exist.
pub fn free_bytes_at(directory: &Path) -> Option<u64> {
    free_bytes(&rustix::fs::statvfs(directory).ok()?)
}

/// Returns the bytes that this user may still write, or `None` if the file system does not count its blocks.
pub(crate) fn free_bytes(figures: &StatVfs) -> Option<u64> {
    let blocks = if rustix::process::geteuid().is_root() { figures.f_bfree } else { figures.f_bavail };
    (figures.f_blocks > 0).then(|| blocks.saturating_mul(figures.f_frsize))
}
