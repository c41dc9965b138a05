//! Determines from owner and mode who may have created a file or written to it.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

/// Returns true if no other user can have created the file or written to it.
pub(crate) fn is_ours(file: &OwnedFd) -> bool {
    let Ok(found) = fstat(file) else { return false };
    let regular = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
    let own = found.st_uid == rustix::process::geteuid().as_raw();
    regular && own && found.st_mode & 0o077 == 0 && found.st_nlink == 1
}

/// The owner shown in a user namespace for users without a number in it. Not even root may act for that owner.
const OVERFLOW_UID: u32 = 65_534;

/// Returns true if this process may set times of this user's entries, so that a refusal is an error.
pub(crate) fn may_set_times(uid: u32) -> bool {
    let user = rustix::process::geteuid();
    user.as_raw() == uid || user.is_root() && uid != OVERFLOW_UID
}

/// Returns true if a file has the mode and owner of a draft, which is the evidence on file systems without attributes:
/// no other user can read it, it has no other name, and it belongs to this user or to the owner of its directory. A
/// file system that keeps no modes gives files those of directories.
pub(crate) fn has_mode_and_owner(directory: BorrowedFd<'_>, found: &Stat) -> Result<bool, Errno> {
    Ok(found.st_nlink == 1 && is_private(directory, found)?)
}

/// Returns true if a file has the mode and owner of a draft, with any number of names. This is sufficient for an empty
/// file, and some FUSE programs report a wrong number of names.
pub(crate) fn is_private(directory: BorrowedFd<'_>, found: &Stat) -> Result<bool, Errno> {
    let within = fstat(directory)?;
    // A default access list of the directory may remove rights of the owner.
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
