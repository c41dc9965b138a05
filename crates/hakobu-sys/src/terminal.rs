//! Creates pseudo-terminals, for programs that print some messages only if standard error is a terminal.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// `_IOW('T', 0x31, int)`: unlocks the other end.
const TIOCSPTLCK: c_ulong = 0x4004_5431;
/// `_IO('T', 0x41)`: opens the other end (Linux 4.13).
const TIOCGPTPEER: c_ulong = 0x5441;

unsafe extern "C" {
    fn ioctl(descriptor: c_int, request: c_ulong, ...) -> c_int;
}

/// Returns both ends of a new pseudo-terminal that is not a controlling terminal: the end to keep, and the one for a
/// program.
///
/// # Errors
/// If the system cannot create one.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let ours = rustix::fs::open("/dev/ptmx", flags, Mode::empty())?;
    let unlocked: c_int = 0;
    // SAFETY: the descriptor is open, and the call reads one `int` from a variable that outlives it.
    if unsafe { ioctl(ours.as_raw_fd(), TIOCSPTLCK, &raw const unlocked) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open; the call takes the flags as a number and returns a new descriptor, or an error.
    let theirs = unsafe { ioctl(ours.as_raw_fd(), TIOCGPTPEER, c_int::try_from(flags.bits()).unwrap_or(0)) };
    if theirs < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it, and it has no other owner.
    Ok((ours, unsafe { OwnedFd::from_raw_fd(theirs) }))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{IsTerminal, Read, Write};

    use super::*;

    #[test]
    fn what_is_written_at_one_end_is_read_at_the_other() {
        let (ours, theirs) = pair().unwrap();
        assert!(theirs.is_terminal());
        File::from(theirs).write_all(b"said\n").unwrap();
        let mut room = [0; 16];
        let read = File::from(ours).read(&mut room).unwrap();
        assert_eq!(&room[..read], b"said\r\n");
    }
}
