//! Hard links: additional names of existing files.

use hakobu_core::entry::EntryKind;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, linkat, renameat, unlinkat};
use rustix::io::Errno;

use super::directories::DirectoryCache;
use super::shared::LocalTargetState;
use crate::local::draft_file::make_draft;
use crate::local::errno::{creation_fault, fault};
use crate::local::metadata::{self, keep_device};

/// The pseudo lane number in the draft names of hard links, which no lane has.
const FURTHER_NAME: u32 = u32::MAX - 1;

/// Creates the hard link `path` to the entry at `to`, and replaces an existing entry.
pub(crate) fn link(
    shared: &LocalTargetState,
    directories: &mut DirectoryCache,
    path: &EntryPath,
    to: &EntryPath,
    replaces: bool,
) -> Result<()> {
    let during = "making the hard link";
    // A later write to one name also writes to the other, so both must be granted.
    shared.grant.check_write(to)?;
    let no_name = || Error::new(ErrorKind::Conflict, during, "the target itself is a directory");
    let (from_parent, from_name) = to.split_last().ok_or_else(no_name)?;
    let (parent, name) = path.split_last().ok_or_else(no_name)?;
    let from = directories.enter(shared, &from_parent)?.fd.clone();
    let found = metadata::of_name(&from, from_name).map_err(|errno| fault(during, errno))?;
    if !(found.kind == EntryKind::File || shared.grant.is_in_tree(to)) {
        keep_device(found.kind)?;
    }
    let directory = directories.enter(shared, &parent)?.fd.clone();
    let make = |name: &[u8]| linkat(&from, from_name, &directory, name, AtFlags::empty());
    if !replaces {
        shared.makes_entry();
        match make(name) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(link_fault(errno, &directory)),
        }
    }
    if !shared.grant.is_in_tree(path)
        && let Ok(there) = metadata::of_name(&directory, name)
    {
        keep_device(there.kind)?;
    }
    let draft = shared.draft_name(FURTHER_NAME, &parent, name);
    make_draft(&directory, &draft, make).map_err(|errno| link_fault(errno, &directory))?;
    let draft = draft.as_bytes();
    let renamed = renameat(&directory, draft, &directory, name);
    // If both names already refer to one inode, renaming does nothing and the draft remains.
    let _ = unlinkat(&directory, draft, AtFlags::empty());
    renamed.map_err(|errno| creation_fault("renaming into place", errno, &directory))
}

fn link_fault(errno: Errno, directory: &OwnedFd) -> Error {
    let words = match errno {
        Errno::XDEV => "the other name is on another file system",
        Errno::MLINK => "the file system allows no more names of one file",
        Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS => {
            "the file system has no hard links, or not for this user"
        }
        _ => return creation_fault("making the hard link", errno, directory),
    };
    Error::new(ErrorKind::Unsupported, "making the hard link", words)
}
