//! The path of an open entry below `/proc`.

use rustix::fd::{AsFd, AsRawFd};

/// Returns the path of an open entry for system calls that take no descriptor.
pub(crate) fn proc_path(entry: impl AsFd) -> String {
    format!("/proc/self/fd/{}", entry.as_fd().as_raw_fd())
}
