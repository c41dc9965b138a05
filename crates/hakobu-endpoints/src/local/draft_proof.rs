//! Proves that an entry is a draft or a journal of hakobu.
//!
//! A name alone is no proof, because a user's file may have any name. A file is a draft of hakobu only if its name has
//! the form and the checksum of [`draft_life`], and further evidence exists. A journal has its header. A large draft
//! has the attribute [`MARK`], or a journal that names its inode. If the file system has no such attributes, or the
//! draft is empty, its mode and owner must be those of a draft. A file that lives for only one operation has only the
//! name as evidence, for that long.

use hakobu_core::path::{DRAFT_NAME_BYTES, DraftLife, draft_life};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fgetxattr, fstat, openat, statat};
use rustix::io::Errno;

use super::draft_mark::MARK;
use super::draft_name::DraftName;
use super::journal;
use super::ownership::{has_mode_and_owner, is_private};
use super::run_mark::has_mark_name;

/// Returns true if the entry `name` in `directory` is a draft or journal of hakobu, of any job or process. It is not
/// copied, and may be removed if it is not in use. An entry without this proof belongs to the user.
pub(crate) fn is_ours(directory: impl AsFd, name: &[u8]) -> bool {
    // A run mark has a name of the same form, but other evidence.
    !has_mark_name(name)
        && draft_life(name).is_some_and(|life| proves(directory.as_fd(), name, life).unwrap_or(false))
}

fn proves(directory: BorrowedFd<'_>, name: &[u8], life: DraftLife) -> Result<bool, Errno> {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    match (kind, life) {
        (FileType::Directory, DraftLife::Short) => is_empty(directory, name),
        (FileType::Directory, DraftLife::Long) => Ok(false),
        (_, DraftLife::Short) => Ok(true),
        (FileType::RegularFile, DraftLife::Long) => is_long_draft(directory, name, &found),
        (_, DraftLife::Long) => Ok(false),
    }
}

/// The directory of a probe is empty; one that is not belongs to somebody else.
fn is_empty(directory: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for entry in Dir::read_from(openat(directory, name, flags, Mode::empty())?)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_long_draft(directory: BorrowedFd<'_>, name: &[u8], found: &Stat) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOATIME | OFlags::CLOEXEC;
    let opened = match openat(directory, name, flags, Mode::empty()) {
        // Only the owner may open with `O_NOATIME`.
        Err(Errno::PERM) => openat(directory, name, flags - OFlags::NOATIME, Mode::empty()),
        opened => opened,
    };
    let file = match opened {
        Ok(file) => file,
        // It belongs to another user and is private, as drafts are.
        Err(Errno::ACCESS) => return Ok(found.st_mode & 0o077 == 0),
        Err(errno) => return Err(errno),
    };
    let found = fstat(&file)?;
    if !FileType::from_raw_mode(found.st_mode).is_file() {
        return Ok(false);
    }
    if journal::has_header(&file) || journal_names(directory, name, &file) {
        return Ok(true);
    }
    match fgetxattr(&file, MARK, &mut [0u8; 8][..]) {
        Ok(_) => Ok(true),
        // A draft whose run was killed right after creating it has no mark yet, and contains nothing to lose.
        Err(Errno::NODATA | Errno::RANGE) => Ok(found.st_size == 0 && is_private(directory, &found)?),
        Err(_) => has_mode_and_owner(directory, &found),
    }
}

/// Returns true if the journal of a draft of that name exists and is about this file.
pub(crate) fn journal_names(directory: BorrowedFd<'_>, name: &[u8], file: &OwnedFd) -> bool {
    let Ok(name) = <[u8; DRAFT_NAME_BYTES]>::try_from(name) else { return false };
    let (journal, place) = (DraftName(name).journal(), journal::place_of_file(file));
    let named = journal::place_of(directory, journal.as_bytes());
    named.is_some() && named == place.ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::local::draft_file::create_draft;
    use crate::local::draft_mark::{mark, unmark};
    use crate::local::draft_name::DraftKey;

    fn long() -> DraftName {
        DraftName::new(&DraftKey::new(&[1; 32]), 0, b"a", b"b")
    }

    #[test]
    fn a_name_alone_proves_nothing_for_a_large_draft() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        let ours = |name: &DraftName| is_ours(&directory, name.as_bytes());
        let path = |name: &DraftName| folder.path().join(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let name = long();
        assert!(!ours(&name), "it is not there");
        fs::write(path(&name), "a user's file").unwrap();
        assert!(!ours(&name));
        fs::set_permissions(path(&name), fs::Permissions::from_mode(0o600)).unwrap();
        let file: OwnedFd = File::options().write(true).open(path(&name)).unwrap().into();
        mark(&file);
        assert!(ours(&name));
        unmark(&file).unwrap();
        unmark(&file).unwrap();
        assert!(!ours(&name) || fgetxattr(&file, MARK, &mut [0u8; 8][..]) == Err(Errno::OPNOTSUPP));
        fs::set_permissions(path(&name), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!ours(&name));
        fs::remove_file(path(&name)).unwrap();
        symlink("elsewhere", path(&name)).unwrap();
        assert!(!ours(&name));
        fs::remove_file(path(&name)).unwrap();
        fs::create_dir(path(&name)).unwrap();
        assert!(!ours(&name));
    }

    #[test]
    fn an_empty_draft_has_no_mark_yet() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        let name = long();
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let file = create_draft(directory.as_fd(), &name).unwrap();
        assert!(is_ours(&directory, name.as_bytes()), "its run was killed before it was marked");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(is_ours(&directory, name.as_bytes()), "a default access list left so much of its mode");
        fs::hard_link(&path, folder.path().join("other")).unwrap();
        assert!(is_ours(&directory, name.as_bytes()), "some file systems tell a wrong number of names");
        fs::remove_file(folder.path().join("other")).unwrap();
        rustix::io::pwrite(&file, b"x", 0).unwrap();
        let has_attributes = fgetxattr(&file, MARK, &mut [0u8; 8][..]) == Err(Errno::NODATA);
        assert!(!is_ours(&directory, name.as_bytes()) || !has_attributes);
        rustix::fs::ftruncate(&file, 0).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_ours(&directory, name.as_bytes()) || !has_attributes, "a user's");
    }

    #[test]
    fn what_lives_for_one_operation_has_the_name_and_a_directory_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        let name = DraftName::new(&DraftKey::new(&[1; 32]), 3, b"a", b"b");
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name.as_bytes()));
        fs::create_dir(&path).unwrap();
        assert!(is_ours(&directory, name.as_bytes()));
        fs::write(path.join("x"), "mine").unwrap();
        assert!(!is_ours(&directory, name.as_bytes()));
        fs::remove_dir_all(&path).unwrap();
        symlink("elsewhere", &path).unwrap();
        assert!(is_ours(&directory, name.as_bytes()));
        assert!(!is_ours(&directory, b".hakobu.abcdefghijklmnopqrstuvwxyz"));
    }
}
