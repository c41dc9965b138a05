//! Conversion of operating system errors to hakobu's errors.

use hakobu_core::error::ErrorStep;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind};
use rustix::fd::AsFd;
use rustix::fs::{fstat, fstatvfs};
use rustix::io::Errno;

/// Converts an error number to an error. Some numbers have different meanings at the source and at the target.
pub(crate) type ErrnoContext = fn(&'static str, Errno) -> Error;

/// Returns the error for a failed system call.
pub(crate) fn fault(during: &'static str, errno: Errno) -> Error {
    match errno {
        Errno::DQUOT => Error::new(ErrorKind::NoSpace, during, "over quota"),
        Errno::LOOP => Error::new(ErrorKind::Conflict, during, "a symbolic link is in the way"),
        Errno::NOTDIR => {
            Error::new(ErrorKind::Conflict, during, "something that is no directory is in the way")
        }
        Errno::ISDIR => Error::new(ErrorKind::Conflict, during, "a directory is in the way"),
        _ => Error::io(during, &errno.into()),
    }
}

/// Returns the error for content that could not be written.
pub(crate) fn write_fault(errno: Errno) -> Error {
    fault("writing", errno).in_step(ErrorStep::Write)
}

/// Returns the error for a failed system call on a listed entry of the source.
pub(crate) fn source_fault(during: &'static str, errno: Errno) -> Error {
    match errno {
        Errno::NOENT => vanished(during),
        Errno::STALE => Error { kind: ErrorKind::SourceVanished, ..fault(during, errno) },
        // The listed entry was replaced by a symbolic link or another kind of entry.
        Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => changed(during),
        _ => fault(during, errno),
    }
}

/// Returns the error for a listed entry of the source that no longer exists.
pub(crate) fn vanished(during: &'static str) -> Error {
    Error::new(ErrorKind::SourceVanished, during, "it has vanished since it was listed")
}

/// Returns the error for an entry of the source that differs from the listing.
pub(crate) fn changed(during: &'static str) -> Error {
    Error::new(ErrorKind::SourceChanged, during, "it has changed since it was listed")
}

/// Returns the error for an entry that could not be created in `directory`. `ENOSPC` may mean that no inodes are left
/// though there is space for data, and ext4 refuses to create entries in a removed directory.
pub(crate) fn creation_fault(during: &'static str, errno: Errno, directory: impl AsFd) -> Error {
    if errno == Errno::NOSPC
        && let Ok(figures) = fstatvfs(&directory)
        && figures.f_files > 0
        && figures.f_favail == 0
    {
        return Error::new(ErrorKind::NoInodes, during, "the file system has no inode left");
    }
    if errno == Errno::PERM && matches!(fstat(&directory), Ok(found) if found.st_nlink == 0) {
        return fault(during, Errno::NOENT);
    }
    fault(during, errno)
}

/// Returns the path of `name` in `directory` for error messages.
pub(crate) fn place(directory: &EntryPath, name: &[u8]) -> Vec<u8> {
    match directory.is_root() {
        true => name.to_vec(),
        false => [directory.as_bytes(), b"/", name].concat(),
    }
}

/// Returns the error for a handle of another kind of endpoint.
pub(crate) fn foreign() -> Error {
    Error::new(ErrorKind::Unsupported, "using a handle", "it is of another kind of endpoint")
}
