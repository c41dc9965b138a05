//! Sets the mode of an entry that is opened with `O_PATH` (`fchmodat2`, Linux 6.6). rustix and the C libraries do not
//! offer this with an empty path.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_uint};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

/// The number is the same on all architectures, as for all new system calls.
const FCHMODAT2: c_long = 452;
const AT_EMPTY_PATH: c_int = 0x1000;

/// True once this kernel, or its sandbox, was found to lack the call.
static MISSING: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Sets the permission bits of the entry that a descriptor refers to, which may be opened with `O_PATH`.
///
/// # Errors
/// `NOSYS` if the call does not exist; otherwise system errors.
pub fn set_mode_of(entry: impl AsFd, mode: u32) -> Result<(), Errno> {
    if MISSING.load(Relaxed) {
        return Err(Errno::NOSYS);
    }
    let (fd, mode) = (entry.as_fd().as_raw_fd(), c_uint::from(mode & 0o7777));
    // SAFETY: the descriptor is open while it is borrowed, the path is an empty string that ends with a NUL, and the
    // other arguments are numbers.
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
            // The kernel is too old.
            Err(Errno::NOSYS) => return,
            done => done.unwrap(),
        }
        assert_eq!(std::fs::metadata(&moved).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode(), before);
    }
}
