//! Reads the extended attributes of an entry by its name in an open directory.
//!
//! Linux 6.13 has system calls for this, which neither rustix nor the C libraries support yet. On earlier kernels the
//! directory's path below `/proc` is used, at more than twice the cost.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{lgetxattr, llistxattr};
use rustix::io::Errno;

/// The number is the same on all architectures, as for all new system calls.
const GETXATTRAT: c_long = 464;
const LISTXATTRAT: c_long = 465;
const AT_SYMLINK_NOFOLLOW: c_int = 0x100;

/// True once this kernel, or its sandbox, was found to lack the calls.
static MISSING: AtomicBool = AtomicBool::new(false);

/// `struct xattr_args`.
#[repr(C, align(8))]
struct Arguments {
    value: u64,
    bytes: u32,
    flags: u32,
}

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Lists the names of the extended attributes of `name` in `directory`, each followed by a NUL, without following a
/// symbolic link. Returns their size in bytes.
///
/// # Errors
/// `RANGE` if `room` is too small; otherwise system errors.
pub fn list_at(directory: impl AsFd, name: &CStr, room: &mut [u8]) -> Result<usize, Errno> {
    let directory = directory.as_fd();
    if !MISSING.load(Relaxed) {
        let (list, bytes): (*mut c_char, usize) = (room.as_mut_ptr().cast(), room.len());
        // SAFETY: the descriptor is open while it is borrowed, the name ends with a NUL, and the kernel writes at
        // most `bytes` bytes, the size of `room`.
        let written = unsafe {
            syscall(LISTXATTRAT, directory.as_raw_fd(), name.as_ptr(), AT_SYMLINK_NOFOLLOW, list, bytes)
        };
        if let Some(result) = outcome(written) {
            return result;
        }
    }
    llistxattr(below_proc(directory, name), room)
}

/// Reads the value of one extended attribute of `name` in `directory`, without following a symbolic link. Returns its
/// size in bytes.
///
/// # Errors
/// `RANGE` if `room` is too small, `NODATA` if there is no such attribute; otherwise system errors.
pub fn get_at(directory: impl AsFd, name: &CStr, attribute: &CStr, room: &mut [u8]) -> Result<usize, Errno> {
    let directory = directory.as_fd();
    if !MISSING.load(Relaxed) {
        let value = room.as_mut_ptr();
        let bytes = u32::try_from(room.len()).unwrap_or(u32::MAX);
        let arguments = Arguments { value: value as u64, bytes, flags: 0 };
        let pointer: *const c_void = (&raw const arguments).cast();
        // SAFETY: as above; the arguments have the layout and size that are passed, and point to `room`.
        let written = unsafe {
            syscall(
                GETXATTRAT,
                directory.as_raw_fd(),
                name.as_ptr(),
                AT_SYMLINK_NOFOLLOW,
                attribute.as_ptr(),
                pointer,
                size_of::<Arguments>(),
            )
        };
        if let Some(result) = outcome(written) {
            return result;
        }
    }
    lgetxattr(below_proc(directory, name), attribute, room)
}

/// Converts the result of a call; `None` if the call does not exist.
fn outcome(written: c_long) -> Option<Result<usize, Errno>> {
    if let Ok(written) = usize::try_from(written) {
        return Some(Ok(written));
    }
    let errno = std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    if errno == Errno::NOSYS {
        MISSING.store(true, Relaxed);
        return None;
    }
    Some(Err(errno))
}

fn below_proc(directory: impl AsFd, name: &CStr) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    path
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use rustix::fs::{XattrFlags, setxattr};

    use super::*;

    #[test]
    fn attributes_are_read_with_and_without_the_calls() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        File::create(&path).unwrap();
        symlink("file", directory.path().join("link")).unwrap();
        setxattr(&path, c"user.hakobu", b"value", XattrFlags::empty()).unwrap();
        let opened = File::open(directory.path()).unwrap();
        let mut room = [0; 64];
        for missing in [false, true] {
            MISSING.store(missing, Relaxed);
            let listed = list_at(&opened, c"file", &mut room).unwrap();
            assert_eq!(&room[..listed], b"user.hakobu\0");
            let read = get_at(&opened, c"file", c"user.hakobu", &mut room).unwrap();
            assert_eq!(&room[..read], b"value");
            assert_eq!(list_at(&opened, c"link", &mut room), Ok(0));
            assert_eq!(list_at(&opened, c"none", &mut room), Err(Errno::NOENT));
            assert_eq!(get_at(&opened, c"file", c"user.none", &mut room), Err(Errno::NODATA));
            assert_eq!(list_at(&opened, c"file", &mut room[..4]), Err(Errno::RANGE));
        }
    }
}
