//! The standard streams as this process inherited them, and other inherited descriptors.
//!
//! Rust's runtime opens `/dev/null` in place of a closed standard stream. Later code then cannot see that it was
//! closed, and output to it is silently lost. So the state of the streams is recorded before that.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustix::io::{Errno, fcntl_dupfd_cloexec};

const F_GETFL: c_int = 3;

// std already links the C library, so one function needs no crate.
unsafe extern "C" {
    fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
}

/// A bit for each standard stream that was closed at the start of the process.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the loader before `main`, and so before Rust's runtime checks the descriptors.
// SAFETY: functions in this section take the arguments of `main` or fewer, return nothing, and are called once, on
// the only thread. This one calls `fcntl`, which needs no initialisation, and sets an atomic; it cannot panic.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for number in 0..3 {
        // SAFETY: reading the flags of a descriptor changes nothing, and fails if there is none.
        if unsafe { fcntl(number, F_GETFL) } < 0 {
            CLOSED.fetch_or(1 << number, Relaxed);
        }
    }
}

/// Returns true if standard stream `number` (0 to 2) was closed at the start of the process.
pub fn was_closed(number: u8) -> bool {
    number < 3 && CLOSED.load(Relaxed) & (1 << number) != 0
}

/// Duplicates a descriptor of this process.
///
/// # Errors
/// `BADF` if there is no descriptor with this number.
pub fn duplicate(number: u32) -> Result<OwnedFd, Errno> {
    let number = c_int::try_from(number).map_err(|_| Errno::BADF)?;
    // SAFETY: the descriptor is borrowed only for this call, which fails if it does not exist.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_dupfd_cloexec(borrowed, 3)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_descriptor_that_is_not_there_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(duplicate(u32::try_from(file.as_raw_fd()).unwrap()).is_ok());
        assert_eq!(duplicate(999_999).unwrap_err(), Errno::BADF);
        assert_eq!(duplicate(u32::MAX).unwrap_err(), Errno::BADF);
        assert!(!was_closed(3));
    }
}
