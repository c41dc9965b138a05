//! Removes entries that the source does not have.

use std::os::unix::ffi::OsStrExt;

use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::directories::{Directory, DirectoryCache};
use super::shared::LocalTargetState;
use crate::local::draft_proof::is_ours;
use crate::local::errno::fault;
use crate::local::run_mark::is_mark;

const REMOVING: &str = "removing";

/// Removes one entry. A directory must be empty except for drafts. A missing entry is no error.
pub(crate) fn remove(
    shared: &LocalTargetState,
    directories: &mut DirectoryCache,
    path: &EntryPath,
    directory: bool,
    kept_names: u16,
) -> Result<()> {
    shared.grant.check_remove(path)?;
    let Some((parent, name)) = path.split_last() else {
        return Err(Error::new(ErrorKind::Refused, REMOVING, "the target itself is never removed"));
    };
    let Some(parent) = parent_of(shared, directories, path, &parent, kept_names)? else { return Ok(()) };
    let removed = match directory {
        true => remove_directory(&parent.fd, name),
        false => unlinkat(&parent.fd, name, AtFlags::empty()),
    };
    if directory {
        directories.forget(path);
    }
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) if directory => {
            Err(Error::new(ErrorKind::Refused, REMOVING, "a file system is mounted on it"))
        }
        Err(Errno::ISDIR) => {
            Err(Error::new(ErrorKind::Conflict, REMOVING, "it has become a directory meanwhile"))
        }
        Err(Errno::NOTEMPTY) => {
            Err(Error::new(ErrorKind::Conflict, REMOVING, "something has been put into it meanwhile"))
        }
        Err(errno) => Err(fault(REMOVING, errno)),
    }
}

/// Returns the parent directory of an entry to be removed, if it exists. It must be on the file system of the directory
/// that stays, which is checked once for all removals.
fn parent_of<'a>(
    shared: &LocalTargetState,
    directories: &'a mut DirectoryCache,
    path: &EntryPath,
    parent: &EntryPath,
    kept_names: u16,
) -> Result<Option<&'a mut Directory>> {
    let Some(found) = directories.find(shared, parent)? else { return Ok(None) };
    if found.on_one_system_from != Some(kept_names) {
        let device = found.device;
        let mut kept = path.names().take(usize::from(kept_names));
        let kept = kept.try_fold(EntryPath::root(), |path, name| path.join(name))?;
        match directories.find(shared, &kept)? {
            None => return Ok(None),
            Some(kept) if kept.device != device => {
                let words = "another file system is mounted there, which is left alone";
                return Err(Error::new(ErrorKind::Refused, REMOVING, words));
            }
            Some(_) => {}
        }
    }
    let found = directories.find(shared, parent)?;
    Ok(found.map(|found| found.seen_on_one_system(kept_names)))
}

/// Removes a directory that may contain drafts, which are left out of listings.
fn remove_directory(parent: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        other => return other,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(parent, name, flags, Mode::empty())?;
    let drafts: Vec<Vec<u8>> = Dir::read_from(&directory)?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_bytes().to_vec()))
        .filter(|name| is_ours(&directory, name) || is_mark(&directory, name))
        .collect();
    for draft in drafts {
        let name = std::ffi::OsStr::from_bytes(&draft);
        match unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => unlinkat(&directory, name, AtFlags::REMOVEDIR)?,
            Err(errno) => return Err(errno),
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}
