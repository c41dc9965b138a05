//! Conversion of the system's metadata to hakobu's.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime, Inode};
use hakobu_core::error::ErrorStep;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::AsFd;
use rustix::fs::{
    AtFlags, CWD, FileType, SeekFrom, Statx, StatxAttributes, StatxFlags, StatxTimestamp, fstat, major,
    minor, seek, statx,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::errno::fault;

/// Describes `name` in `directory` without following a symbolic link.
pub(crate) fn of_name(directory: impl AsFd, name: impl rustix::path::Arg) -> Result<EntryMetadata, Errno> {
    describe(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Describes `name` in `directory` as [`of_name`] does, and returns the number of its file system.
pub(crate) fn of_name_on(
    directory: impl AsFd,
    name: impl rustix::path::Arg,
) -> Result<(EntryMetadata, u64), Errno> {
    let found = statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?;
    Ok((of_statx(&found)?, file_system(&found)))
}

/// Returns the number of the file system of an open directory.
pub(crate) fn file_system_of(directory: impl AsFd) -> Result<u64, Errno> {
    statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map(|found| file_system(&found))
}

fn file_system(found: &Statx) -> u64 {
    (u64::from(found.stx_dev_major) << 32) | u64::from(found.stx_dev_minor)
}

/// Describes the entry that `fd` refers to. `fd` may be opened with `O_PATH`.
pub(crate) fn of_path(fd: impl AsFd) -> Result<EntryMetadata, Errno> {
    describe(fd, c"", AtFlags::EMPTY_PATH)
}

/// Describes an entry of this machine, without following a symbolic link.
///
/// # Errors
/// Those of reading its metadata.
pub fn describe_entry(path: &Path) -> Result<EntryMetadata> {
    let failed = |errno| fault("looking at", errno).at(path.as_os_str().as_bytes());
    of_name(CWD, path).map_err(failed)
}

/// Returns the current time.
pub(crate) fn now() -> FileTime {
    let now = clock_gettime(ClockId::Realtime);
    FileTime { seconds: now.tv_sec, nanoseconds: now.tv_nsec as u32 }
}

fn describe(
    directory: impl AsFd,
    name: impl rustix::path::Arg,
    flags: AtFlags,
) -> Result<EntryMetadata, Errno> {
    of_statx(&statx(directory, name, flags, StatxFlags::BASIC_STATS)?)
}

fn of_statx(found: &Statx) -> Result<EntryMetadata, Errno> {
    let mode = u32::from(found.stx_mode);
    let kind = kind(FileType::from_raw_mode(mode))?;
    let others = kind != EntryKind::Directory && found.stx_nlink > 1;
    Ok(EntryMetadata {
        mode: mode & 0o7777,
        uid: found.stx_uid,
        gid: found.stx_gid,
        size_bytes: found.stx_size,
        mtime: time(&found.stx_mtime),
        ctime: time(&found.stx_ctime),
        links: if others { found.stx_nlink } else { 1 },
        sparse: is_sparse(mode, found.stx_blocks, found.stx_size),
        device: packed(found.stx_rdev_major, found.stx_rdev_minor),
        inode: others.then(|| Inode { file_system: file_system(found), number: found.stx_ino }),
        locked: found.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
        ..EntryMetadata::new(kind)
    })
}

/// Describes an open file. This is cheaper than [`of_path`] and leaves out what only listings need.
pub(crate) fn of_file(file: impl AsFd) -> Result<EntryMetadata, Errno> {
    let found = fstat(file)?;
    let mode = found.st_mode;
    Ok(EntryMetadata {
        mode: mode & 0o7777,
        uid: found.st_uid,
        gid: found.st_gid,
        size_bytes: u64::try_from(found.st_size).unwrap_or(0),
        mtime: FileTime { seconds: found.st_mtime as i64, nanoseconds: found.st_mtime_nsec as u32 },
        ctime: FileTime { seconds: found.st_ctime as i64, nanoseconds: found.st_ctime_nsec as u32 },
        links: u32::try_from(found.st_nlink).unwrap_or(u32::MAX),
        sparse: is_sparse(
            mode,
            u64::try_from(found.st_blocks).unwrap_or(0),
            u64::try_from(found.st_size).unwrap_or(0),
        ),
        device: packed(major(found.st_rdev), minor(found.st_rdev)),
        ..EntryMetadata::new(kind(FileType::from_raw_mode(mode))?)
    })
}

/// Describes an open file as [`of_file`] does, but a block device gets the size of its content.
pub(crate) fn of_content(file: impl AsFd) -> Result<EntryMetadata, Errno> {
    let mut found = of_file(&file)?;
    if found.kind == EntryKind::BlockDevice {
        found.size_bytes = seek(&file, SeekFrom::End(0))?;
    }
    Ok(found)
}

/// Packs a device number as the kernel does, so that it fits 32 bits.
fn packed(major: u32, minor: u32) -> u32 {
    (major << 20) | (minor & 0xf_ffff)
}

fn is_sparse(mode: u32, blocks: u64, size_bytes: u64) -> bool {
    FileType::from_raw_mode(mode).is_file() && blocks.saturating_mul(512) < size_bytes
}

fn time(stamp: &StatxTimestamp) -> FileTime {
    FileTime { seconds: stamp.tv_sec, nanoseconds: stamp.tv_nsec.min(999_999_999) }
}

/// Converts the file type to a kind. Fails if the file system does not report the type.
pub(crate) fn kind(file_type: FileType) -> Result<EntryKind, Errno> {
    Ok(match file_type {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::BlockDevice => EntryKind::BlockDevice,
        FileType::CharacterDevice => EntryKind::CharDevice,
        FileType::Unknown => return Err(Errno::OPNOTSUPP),
    })
}

/// Refuses devices if only files may be used.
///
/// # Errors
/// `PermissionDenied`.
pub(crate) fn check_kind(files_only: bool, kind: EntryKind, during: &'static str) -> Result<()> {
    if files_only && matches!(kind, EntryKind::BlockDevice | EntryKind::CharDevice) {
        let words = "it is a device, and this login may only use files";
        return Err(Error::new(ErrorKind::PermissionDenied, during, words).in_step(ErrorStep::Restriction));
    }
    Ok(())
}

/// Refuses to replace a device with a file or symbolic link.
///
/// # Errors
/// `Refused`.
pub(crate) fn keep_device(there: EntryKind) -> Result<()> {
    match there {
        EntryKind::CharDevice | EntryKind::BlockDevice => {
            let words = format!("{} is in its place, which is not replaced", there.words());
            Err(Error::new(ErrorKind::Refused, "making the file", words))
        }
        _ => Ok(()),
    }
}
