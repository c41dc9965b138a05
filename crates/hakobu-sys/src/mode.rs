//! The mode of an entry that is open as a path only (`fchmodat2`, Linux 6.6), which rustix and the C libraries do not offer
//! with an empty path.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_uint};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

/// The same on every architecture, as all new system calls are.
const FCHMODAT2: c_long = 452;
const AT_EMPTY_PATH: c_int = 0x1000;

/// Whether this kernel, or its sandbox, was found to lack the call.
static MISSING: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Sets the permission bits of what a descriptor, which may be opened with `O_PATH`, refers to.
///
/// # Errors
/// `NOSYS` where there is no such call; otherwise the system's.
pub fn set_mode_of(entry: impl AsFd, mode: u32) -> Result<(), Errno> {
    if MISSING.load(Relaxed) {
        return Err(Errno::NOSYS);
    }
    let (fd, mode) = (entry.as_fd().as_raw_fd(), c_uint::from(mode & 0o7777));
    // SAFETY: the descriptor is open while it is borrowed, the path is an empty string that ends in NUL, and the other
    // arguments are numbers.
    let done = unsafe { syscall(FCHMODAT2, fd, c"".as_ptr(), mode, AT_EMPTY_PATH) };
    if done == 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    if errno == Errno::NOSYS {
        MISSING.store(true, Relaxed);
    }
    Err(errno)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{Mode, OFlags, open};

    use super::*;

    #[test]
    fn the_mode_of_what_is_open_is_set_whatever_has_its_name() {
        let place = tempfile::tempdir().unwrap();
        let (file, moved) = (place.path().join("file"), place.path().join("moved"));
        std::fs::write(&file, "").unwrap();
        let entry = open(&file, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
        std::fs::rename(&file, &moved).unwrap();
        std::fs::write(&file, "").unwrap();
        let before = std::fs::metadata(&file).unwrap().permissions().mode();
        match set_mode_of(&entry, 0o640) {
            // An older kernel.
            Err(Errno::NOSYS) => return,
            done => done.unwrap(),
        }
        assert_eq!(std::fs::metadata(&moved).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode(), before);
    }
}
