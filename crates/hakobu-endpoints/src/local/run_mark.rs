//! The run mark: its name, its content, and the proof that an entry is one. See `docs/design/0014-unclean-ends.md`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

use hakobu_core::checksum::crc64;
use hakobu_core::entry::FileTime;
use hakobu_core::path::{DRAFT_PREFIX, draft_name};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::{Errno, pread, pwrite};

use super::ownership;

/// The maximum number of runs per directory that are under way or have ended uncleanly.
const SLOTS: usize = 32;
const MAGIC: &[u8; 16] = b"hakobu run mark1";
/// The length of a mark in bytes.
pub(super) const MARK_BYTES: usize = 128;

/// The possible names of marks.
pub(super) static NAMES: LazyLock<[Vec<u8>; SLOTS]> =
    LazyLock::new(|| std::array::from_fn(|slot| draft_name(format!("run mark {slot}").as_bytes())));

/// Returns true if an entry of a directory is a mark. The name alone is no proof, because a user's file may have it.
pub(crate) fn is_mark(directory: impl AsFd, name: &[u8]) -> bool {
    has_mark_name(name) && examine(directory.as_fd(), name).is_some()
}

/// Returns true if a name is that of a mark.
pub(crate) fn has_mark_name(name: &[u8]) -> bool {
    name.starts_with(DRAFT_PREFIX) && NAMES.iter().any(|mark| mark == name)
}

/// The content of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunMark {
    /// The start of the run, or `None` if change times are not reliable.
    pub(super) since: Option<FileTime>,
    /// The key of the job.
    pub(super) job: [u8; 32],
    /// A value that identifies the machine's boot and the mount. As long as both last, so does data in memory.
    pub(super) life: [u8; 32],
}

/// Writes a mark into its file.
pub(super) fn write(file: &OwnedFd, mark: &RunMark) -> Result<(), Errno> {
    let mut bytes = [0; MARK_BYTES];
    bytes[..16].copy_from_slice(MAGIC);
    if let Some(since) = mark.since {
        bytes[16] = 1;
        bytes[24..32].copy_from_slice(&since.seconds.to_le_bytes());
        bytes[32..36].copy_from_slice(&since.nanoseconds.to_le_bytes());
    }
    bytes[40..72].copy_from_slice(&mark.job);
    bytes[72..104].copy_from_slice(&mark.life);
    let sum = crc64(&bytes[..MARK_BYTES - 8]);
    bytes[MARK_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    let mut written = 0;
    while written < MARK_BYTES {
        match pwrite(file, &bytes[written..], written as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(some) => written += some,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Examines an entry with the name of a mark. Returns `None` if it is no mark, and `Some(None)` if it is one without
/// valid content: the machine failed before the content was on the medium, it is damaged, or it belongs to another user
/// and is not readable.
pub(super) fn examine(directory: BorrowedFd<'_>, name: &[u8]) -> Option<Option<RunMark>> {
    let name = OsStr::from_bytes(name);
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(found.st_mode).is_file();
    let size_bytes = usize::try_from(found.st_size).ok().filter(|size| is_file && *size <= MARK_BYTES)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::ACCESS | Errno::PERM | Errno::IO) => {
            return (found.st_mode & 0o077 == 0 && [0, MARK_BYTES].contains(&size_bytes)).then_some(None);
        }
        Err(_) => return None,
    };
    let mut bytes = [0; MARK_BYTES];
    let is_private = || ownership::is_private(directory, &found).unwrap_or(false);
    let Ok(length) = read_some(&file, &mut bytes) else { return is_private().then_some(None) };
    if let Some(mark) = parse(&bytes[..length]) {
        return Some(Some(mark));
    }
    let bytes = &bytes[..length];
    // Nothing was written of it, or only a part of its magic number.
    let is_begun = bytes.iter().all(|byte| *byte == 0) || MAGIC.starts_with(bytes);
    (bytes.starts_with(MAGIC) || is_begun && is_private()).then_some(None)
}

/// Reads from the beginning until `bytes` is full or the file ends.
fn read_some(file: &OwnedFd, bytes: &mut [u8]) -> Result<usize, Errno> {
    let mut length = 0;
    while length < bytes.len() {
        match pread(file, &mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(some) => length += some,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(length)
}

/// Returns the content of a mark if it is intact.
pub(super) fn read(file: &OwnedFd) -> Option<RunMark> {
    let mut bytes = [0; MARK_BYTES];
    let is_file = fstat(file).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file());
    match is_file && read_some(file, &mut bytes) == Ok(MARK_BYTES) {
        true => parse(&bytes),
        false => None,
    }
}

fn parse(bytes: &[u8]) -> Option<RunMark> {
    let bytes: &[u8; MARK_BYTES] = bytes.try_into().ok()?;
    let sum = crc64(&bytes[..MARK_BYTES - 8]).to_le_bytes();
    if !bytes.starts_with(MAGIC) || bytes[MARK_BYTES - 8..] != sum {
        return None;
    }
    let since = (bytes[16] == 1).then_some(FileTime {
        seconds: i64::from_le_bytes(bytes[24..32].try_into().ok()?),
        nanoseconds: u32::from_le_bytes(bytes[32..36].try_into().ok()?),
    });
    Some(RunMark { since, job: bytes[40..72].try_into().ok()?, life: bytes[72..104].try_into().ok()? })
}
