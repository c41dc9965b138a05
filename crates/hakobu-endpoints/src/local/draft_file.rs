//! Draft files: creation, locking while they are in use, and renaming to their final names.

use hakobu_core::Result;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::draft_name::DraftName;
use super::errno::{creation_fault, fault};

/// Creates a draft that only this user can open. A draft of the same name, left by an earlier run, is replaced.
pub(crate) fn create_draft(directory: BorrowedFd<'_>, name: &DraftName) -> Result<OwnedFd> {
    // Reading is needed to verify what the medium kept.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    let mut created = openat(directory, name.as_bytes(), flags, mode);
    if matches!(created, Err(Errno::EXIST)) {
        unlinkat(directory, name.as_bytes(), AtFlags::empty())
            .map_err(|errno| fault("removing an old draft", errno))?;
        created = openat(directory, name.as_bytes(), flags, mode);
    }
    created.map_err(|errno| creation_fault("making the file", errno, directory))
}

/// Creates a draft with `make`. A draft of the same name, left by an earlier run, is replaced. If that fails, nothing
/// is left behind: some FUSE programs create a file of another kind and then report a failure.
pub(super) fn make_draft(
    directory: impl AsFd,
    draft: &DraftName,
    make: impl Fn(&[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let remove = || {
        let _ = unlinkat(&directory, draft.as_bytes(), AtFlags::empty());
    };
    let mut made = make(draft.as_bytes());
    if made == Err(Errno::EXIST) {
        remove();
        made = make(draft.as_bytes());
    }
    if made.is_err() {
        remove();
    }
    made
}

/// Renames a draft to its final name.
pub(crate) fn rename_at(directory: &OwnedFd, draft: &DraftName, name: &[u8]) -> Result<()> {
    renameat(directory, draft.as_bytes(), directory, name)
        .map_err(|errno| creation_fault("renaming into place", errno, directory))
}

/// Locks a draft or journal as in use for as long as it is open. If locking is not supported, its age shows it.
pub(crate) fn hold(file: &OwnedFd) {
    let _ = flock(file, FlockOperation::NonBlockingLockExclusive);
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::ffi::OsStrExt;

    use rustix::fs::symlinkat;

    use super::*;
    use crate::local::draft_name::DraftKey;

    #[test]
    fn a_draft_that_was_made_and_is_said_to_be_none_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        let draft = DraftName::new(&DraftKey::new(&[1; 32]), 1, b"a", b"b");
        let place = folder.path().join(std::ffi::OsStr::from_bytes(draft.as_bytes()));
        let make_and_fail = |name: &[u8]| {
            fs::write(folder.path().join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
            Err(Errno::IO)
        };
        assert_eq!(make_draft(&directory, &draft, make_and_fail), Err(Errno::IO));
        assert!(!place.exists());
        // A leftover of an earlier run is replaced.
        fs::write(&place, "old").unwrap();
        let make = |name: &[u8]| symlinkat("new", &directory, name);
        make_draft(&directory, &draft, make).unwrap();
        assert_eq!(fs::read_link(&place).unwrap().as_os_str(), "new");
    }
}
