//! Renames that change only the case of a name, in directories that ignore case.

use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, RenameFlags, renameat, renameat_with, statat};
use rustix::io::Errno;

use super::directories::DirectoryCache;
use super::shared::LocalTargetState;
use crate::local::errno::fault;

const RENAMING: &str = "renaming";
/// The suffix of a name during the rename. After a crash, an entry with a draft name would pass for a leftover.
const ON_THE_WAY: &str = ".renamed-by-hakobu";
/// The maximum number of bytes of the old name before the suffix.
const KEPT_BYTES: usize = 200;

/// Changes the case of an entry's name. Both names must already refer to the entry.
pub(crate) fn rename(
    shared: &LocalTargetState,
    directories: &mut DirectoryCache,
    path: &EntryPath,
    from: &EntryPath,
) -> Result<()> {
    shared.grant.check_write(from)?;
    let no_name = || Error::new(ErrorKind::Conflict, RENAMING, "the target itself is a directory");
    let (parent, name) = path.split_last().ok_or_else(no_name)?;
    let (from_parent, from_name) = from.split_last().ok_or_else(no_name)?;
    let refused = |words| Err(Error::new(ErrorKind::Conflict, RENAMING, words));
    if parent != from_parent {
        return refused("the names are in different directories");
    }
    let directory = directories.enter(shared, &parent)?.fd.clone();
    let failed = |errno| fault(RENAMING, errno);
    let seen = |name: &[u8]| statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed);
    let (is, will_be) = (seen(from_name)?, seen(name)?);
    // A directory that ignores case lists the entry under its own name only. Inode numbers are no evidence, because a
    // FUSE program may assign one to each name.
    let is_one = (is.st_dev, is.st_mode, is.st_size) == (will_be.st_dev, will_be.st_mode, will_be.st_size)
        && !has_name(&directory, name).map_err(failed)?;
    if !is_one {
        return refused("there are two entries, and the target does not ignore the case of this name");
    }
    directories.forget(from);
    renameat(&directory, from_name, &directory, name).map_err(failed)?;
    if has_name(&directory, name).map_err(failed)? {
        return Ok(());
    }
    // To the kernel both names are the same, so it did nothing.
    let kept = from_name.len().min(KEPT_BYTES);
    let kept = (0..=kept).rev().find(|end| from_name.get(*end).is_none_or(|byte| byte & 0xc0 != 0x80));
    let on_the_way = [&from_name[..kept.unwrap_or(0)], ON_THE_WAY.as_bytes()].concat();
    move_to(&directory, from_name, &on_the_way).map_err(failed)?;
    move_to(&directory, &on_the_way, name).map_err(|errno| {
        let _ = move_to(&directory, &on_the_way, from_name);
        failed(errno)
    })
}

/// Renames an entry to a name that does not exist.
fn move_to(directory: &OwnedFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // Not supported by this file system.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        other => return other,
    }
    match statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => renameat(directory, from, directory, to),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}

/// Returns true if a directory lists an entry with exactly this name.
fn has_name(directory: &OwnedFd, name: &[u8]) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory.as_fd())? {
        if entry?.file_name().to_bytes() == name {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn a_name_is_there_only_as_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Name"), "x").unwrap();
        let directory = File::open(folder.path()).unwrap().into();
        for (name, there) in [(&b"Name"[..], true), (b"name", false), (b"Nam", false), (b"Name2", false)] {
            assert_eq!(has_name(&directory, name).unwrap(), there, "{name:?}");
        }
    }

    #[test]
    fn nothing_is_moved_to_a_name_that_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["one", "other"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let directory = File::open(folder.path()).unwrap().into();
        assert_eq!(move_to(&directory, b"one", b"other"), Err(Errno::EXIST));
        move_to(&directory, b"one", b"free").unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("free"), read("other")), ("one".to_owned(), "other".to_owned()));
        assert!(!folder.path().join("one").exists());
    }
}
