//! Who may have made a file, or written to it, by its owner and its mode.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

/// Whether nobody else can have put a file there or written to it.
pub(crate) fn is_ours(file: &OwnedFd) -> bool {
    let Ok(found) = fstat(file) else { return false };
    let regular = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
    let own = found.st_uid == rustix::process::geteuid().as_raw();
    regular && own && found.st_mode & 0o077 == 0 && found.st_nlink == 1
}

/// The owner that a process in a user namespace sees where the real one has no number in it. Not even root may act for that one.
const OVERFLOW_UID: u32 = 65_534;

/// Returns true if this process may set times of what belongs to this user, so that being refused is an error.
pub(crate) fn may_set_times(uid: u32) -> bool {
    let user = rustix::process::geteuid();
    user.as_raw() == uid || user.is_root() && uid != OVERFLOW_UID
}

/// What is left as a proof where files have no attributes: nobody else can read it, it has no other name, and it is the user's own
/// or is in a directory of its owner. A file system that keeps no modes gives files that of directories.
pub(crate) fn has_mode_and_owner(directory: BorrowedFd<'_>, found: &Stat) -> Result<bool, Errno> {
    Ok(found.st_nlink == 1 && is_private(directory, found)?)
}

/// The same of a file with nothing in it, of which nobody can miss a name. Some file systems of programs tell a wrong number of names.
pub(crate) fn is_private(directory: BorrowedFd<'_>, found: &Stat) -> Result<bool, Errno> {
    let within = fstat(directory)?;
    // A default access list of the directory may take rights of the owner's away.
    let is_private = found.st_mode & 0o7777 & !0o600 == 0;
    let keeps_no_modes = found.st_mode & 0o7777 == within.st_mode & 0o7777;
    let is_own = [rustix::process::geteuid().as_raw(), within.st_uid].contains(&found.st_uid);
    Ok((is_private || keeps_no_modes) && is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_had_may_be_set() {
        let own = rustix::process::geteuid();
        assert!(may_set_times(own.as_raw()));
        assert_eq!(may_set_times(1_234_567), own.is_root());
        assert!(own.as_raw() == OVERFLOW_UID || !may_set_times(OVERFLOW_UID));
    }
}
