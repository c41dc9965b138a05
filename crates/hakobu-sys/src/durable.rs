//! Waits until content has reached its medium, and closes files with error reporting.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use rustix::io::Errno;

const WAIT_BEFORE: u32 = 1;
const WRITE: u32 = 2;
const WAIT_AFTER: u32 = 4;

unsafe extern "C" {
    fn sync_file_range(fd: c_int, offset: i64, bytes: i64, flags: u32) -> c_int;
    fn close(fd: c_int) -> c_int;
}

/// Starts writing all cached data of a file, without waiting.
///
/// # Errors
/// System errors; `SPIPE` and `NOSYS` if the file system does not support it.
pub fn begin_writing_out(file: impl AsFd) -> Result<(), Errno> {
    range(file, WRITE)
}

/// Writes all cached data of a file, and waits until the device has received it. Neither the file's metadata nor the
/// device's own cache is flushed.
///
/// # Errors
/// System errors, including those of earlier writes; `SPIPE` and `NOSYS` if the file system does not support it.
pub fn write_out(file: impl AsFd) -> Result<(), Errno> {
    range(file, WAIT_BEFORE | WRITE | WAIT_AFTER)
}

fn range(file: impl AsFd, flags: u32) -> Result<(), Errno> {
    // SAFETY: the descriptor is open while it is borrowed, and the call takes only numbers.
    let done = unsafe { sync_file_range(file.as_fd().as_raw_fd(), 0, 0, flags) };
    outcome(done)
}

/// Closes a file. Some file systems, such as FUSE and NFS, only report now that content could not be stored.
///
/// # Errors
/// System errors. The file is closed in any case.
pub fn close_checked(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the number is that of an open descriptor, which has no other owner from here on.
    match outcome(unsafe { close(file.into_raw_fd()) }) {
        // Linux has closed it nevertheless.
        Err(Errno::INTR) => Ok(()),
        closed => closed,
    }
}

fn outcome(returned: c_int) -> Result<(), Errno> {
    match returned {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_written_out_and_closed() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        begin_writing_out(&file).unwrap();
        write_out(&file).unwrap();
        close_checked(file.into()).unwrap();
    }

    #[test]
    fn what_has_no_content_to_write_out_says_so() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(write_out(&reader), Err(Errno::SPIPE));
        // Memory devices accept writes, and `/dev/full` does not; closing either succeeds.
        close_checked(File::open("/dev/null").unwrap().into()).unwrap();
    }
}
