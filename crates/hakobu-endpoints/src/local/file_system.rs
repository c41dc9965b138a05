//! What follows from the kind of a file system: which names and times it can hold, and whether each operation is a
//! message to somebody else.

use std::path::Path;
use std::time::{Duration, Instant};

use hakobu_core::entry::Metadata;
use hakobu_core::names::NameRules;
use hakobu_core::path::draft_name;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, StatFs, StatxFlags, fstatfs, fstatvfs, ioctl_getflags, openat, statat,
    statfs, statx, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::metadata;
use super::ownership::may_set_times;
use super::proc_path::proc_path;
use super::times::modified;

// Numbers of file systems, from the kernel's `linux/magic.h` and the drivers' own.
const MSDOS: u64 = 0x4d44;
const EXFAT: u64 = 0x2011_bab0;
const NTFS3: u64 = 0x7366_746e;
const NTFS: u64 = 0x5346_544e;
const HFS_PLUS: u64 = 0x482b;
const CIFS: u64 = 0xff53_4d42;
const SMB2: u64 = 0xfe53_4d42;
pub(crate) const FUSE: u64 = 0x6573_5546;
const NFS: u64 = 0x6969;
const TMPFS: u64 = 0x0102_1994;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683e;
const OVERLAY: u64 = 0x794c_7630;
pub(crate) const EXT4: u64 = 0xef53;
const RAMFS: u64 = 0x8584_58f6;
/// File systems on which the time of an inode's last change is kept as it is, whatever other times are set.
const KEEPS_CHANGE_TIMES: [u64; 8] = [
    EXT4,
    XFS,
    BTRFS,
    NFS,
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    OVERLAY,
];
/// File systems of a network, and FUSE, of which that cannot be told.
const NETWORK: [u64; 14] = [
    CIFS,
    SMB2,
    FUSE,
    0x517b, // SMB, as it was
    NFS,
    0x00c3_6400, // Ceph
    0x0bd0_0bd0, // Lustre
    0x5346_414f, // AFS
    0x0102_1997, // 9P
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
    0xaad7_aaea, // PanFS
    0x7461_636f, // OCFS2
    0x0116_1970, // GFS2
];
/// `FS_CASEFOLD_FL`: the directory ignores case.
const CASEFOLD: u32 = 0x4000_0000;

/// How often a file server is asked to find out how long it takes, and after how long it is not asked again.
const ASKED_MAX: u32 = 5;
const ASKING_LIMIT: Duration = Duration::from_millis(100);
/// So many entries of a directory are looked at to see whether it ignores case.
const LOOKED_AT_MAX: usize = 64;

/// The rules of the file system that a directory is on. Where its kind does not tell whether it ignores case, and
/// `may_write` allows it, that is tried out with an empty file.
pub fn rules(directory: BorrowedFd<'_>, may_write: bool) -> NameRules {
    let longest = fstatvfs(directory).map_or(0, |figures| figures.f_namemax);
    let bytes_max = u32::try_from(longest).ok().filter(|max| *max > 0).unwrap_or(NameRules::ANY.bytes_max);
    let (text, windows, ignores_case) = match kind_of(directory) {
        MSDOS | EXFAT => (true, true, true),
        // Which of Windows' rules the driver keeps is an option of the mount; what it refuses is told one by one.
        NTFS3 | NTFS => (true, false, ignores_case(directory, may_write)),
        HFS_PLUS => (true, false, true),
        CIFS | SMB2 => (true, false, ignores_case(directory, may_write)),
        FUSE => (false, false, ignores_case(directory, may_write)),
        // Directories of ext4 and F2FS may ignore case one by one.
        _ => (false, false, ioctl_getflags(directory).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)),
    };
    NameRules { bytes_max, text, windows, ignores_case }
}

/// The least steps in which the file system that a directory is on keeps times, in nanoseconds, as far as its kind tells.
pub fn time_step_ns(directory: BorrowedFd<'_>) -> u32 {
    match kind_of(directory) {
        MSDOS => 2_000_000_000,
        // Inodes that have no room for when they were made have none for fractions of a second either.
        EXT4 if !tells_birth(directory) => 1_000_000_000,
        HFS_PLUS => 1_000_000_000,
        EXFAT => 10_000_000,
        NTFS3 | NTFS | CIFS | SMB2 => 100,
        _ => 1,
    }
}

/// Whether the file system's kind does not tell in which steps it keeps times: FUSE, file servers and what is not known
/// here may be anything.
pub(crate) fn keeps_unknown_steps(directory: BorrowedFd<'_>) -> bool {
    const KNOWN: [u64; 5] = [TMPFS, XFS, BTRFS, OVERLAY, EXT4];
    !KNOWN.contains(&kind_of(directory))
}

fn tells_birth(directory: BorrowedFd<'_>) -> bool {
    let asked = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    asked.is_ok_and(|found| StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME))
}

/// Whether what is at a path is on a network file system, or one of another program (FUSE).
pub fn is_on_network(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| NETWORK.contains(&number(&found)))
}

/// The same for an open directory.
pub(crate) fn is_network(directory: BorrowedFd<'_>) -> bool {
    NETWORK.contains(&kind_of(directory))
}

/// How content gets to stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// It lives in memory: nothing outlives the machine.
    Memory,
    /// Content that the device has is on stable storage before any name that was given later: ext4 and XFS, whose journals flush
    /// the device first.
    InOrder,
    /// Only a flush of the file itself says so.
    Flushed,
    /// The same, and whether content was kept is told file by file, by flushing and closing: networks, and other programs (FUSE).
    ToldByFile,
}

/// How content gets to stable storage on the file system that a directory is on.
pub(crate) fn stability(directory: BorrowedFd<'_>) -> Stability {
    match kind_of(directory) {
        TMPFS | RAMFS => Stability::Memory,
        EXT4 | XFS => Stability::InOrder,
        kind if NETWORK.contains(&kind) => Stability::ToldByFile,
        _ => Stability::Flushed,
    }
}

/// Whether the time of an inode's last change is kept by itself, and nobody can set it.
pub(crate) fn keeps_change_times(directory: BorrowedFd<'_>) -> bool {
    KEEPS_CHANGE_TIMES.contains(&kind_of(directory))
}

/// Whether files of this file system may share blocks with others of it. Of one that is not known here, they may.
pub(crate) fn may_share(directory: BorrowedFd<'_>) -> bool {
    const NEVER: [u64; 5] = [TMPFS, EXT4, MSDOS, EXFAT, HFS_PLUS];
    !NEVER.contains(&kind_of(directory))
}

/// How long it takes to get an answer from what is behind the file system that a directory is on, in nanoseconds, if
/// that is one of a network, or of another program: the least of a few. They are asked how much is free, as systems
/// keep most other answers.
pub fn answer_ns(directory: BorrowedFd<'_>) -> Option<u64> {
    let (began, mut least) = (Instant::now(), None);
    for _ in 0..ASKED_MAX {
        let asked = Instant::now();
        fstatfs(directory).ok().filter(|found| NETWORK.contains(&number(found)))?;
        let took = asked.elapsed();
        least = Some(least.map_or(took, |least: Duration| least.min(took)));
        if began.elapsed() >= ASKING_LIMIT {
            break;
        }
    }
    least.and_then(|least| u64::try_from(least.as_nanos()).ok())
}

/// Whether the NFS client of this machine gave a file this name because it was deleted while somebody has it open:
/// `.nfs`, the file's number and a count, in hexadecimal digits. It goes when the last one closes it.
///
/// The name is that of Linux, `fs/nfs/unlink.c`.
pub(crate) fn is_deleted_on_nfs(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    const DIGITS: usize = 16 + 8;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = name.strip_prefix(b".nfs");
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(is_digit))
        && kind_of(directory) == NFS
}

pub(crate) fn kind_of(directory: BorrowedFd<'_>) -> u64 {
    fstatfs(directory).map_or(0, |found| number(&found))
}

/// The number of the kind; some architectures keep it with a sign.
fn number(found: &StatFs) -> u64 {
    found.f_type as u64 & 0xffff_ffff
}

/// Sets the time of a directory in which something came and went to what it was before. Only its owner may, who alone can have
/// set it.
///
/// # Errors
/// The system's.
pub(crate) fn give_time_back(directory: BorrowedFd<'_>, before: &Metadata) -> Result<(), Errno> {
    match utimensat(CWD, proc_path(directory), &modified(before.mtime, true), AtFlags::empty()) {
        Err(Errno::PERM | Errno::ACCESS) if !may_set_times(before.uid) => Ok(()),
        other => other,
    }
}

/// The name of a file that is there for a moment. If this process ends meanwhile, the next run knows it for a draft.
fn probe_name(directory: BorrowedFd<'_>) -> Vec<u8> {
    draft_name(format!("does case count? {} {}", std::process::id(), directory.as_raw_fd()).as_bytes())
}

/// Whether a file is found under its name in capitals: a new one, or where nothing may be written, what is there.
fn ignores_case(directory: BorrowedFd<'_>, may_write: bool) -> bool {
    if !may_write {
        return ignores_case_by_looking(directory).unwrap_or(false);
    }
    let before = metadata::of_path(directory);
    let name = probe_name(directory);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if openat(directory, &*name, flags, Mode::from_raw_mode(0o600)).is_err() {
        return false;
    }
    let found = statat(directory, &*name.to_ascii_uppercase(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let _ = unlinkat(directory, &*name, AtFlags::empty());
    if let Ok(before) = before {
        // If this fails the directory is compared with the time that it has now.
        let _ = give_time_back(directory, &before);
    }
    found
}

/// `None` where nothing there tells.
fn ignores_case_by_looking(directory: BorrowedFd<'_>) -> Option<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = Dir::read_from(openat(directory, c".", flags, Mode::empty()).ok()?).ok()?;
    for entry in entries.take(LOOKED_AT_MAX).flatten() {
        let name = entry.file_name().to_bytes();
        let swap = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
        let other: Vec<u8> = name.iter().map(swap).collect();
        let Ok(found) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        // What has several names may have both.
        if other == name || found.st_nlink > 1 {
            continue;
        }
        match statat(directory, &*other, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(other) if other.st_ino == found.st_ino && other.st_dev == found.st_dev => return Some(true),
            Ok(_) => {}
            Err(_) => return Some(false),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::local::draft_proof::is_ours;

    #[test]
    fn what_is_tried_out_is_a_draft_if_it_stays() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        let name = probe_name(directory.as_fd());
        File::create(place.path().join(OsStr::from_bytes(&name))).unwrap();
        assert!(is_ours(&directory, &name));
    }

    #[test]
    fn this_machines_own_file_system_takes_any_name_and_minds_case() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        assert_eq!((time_step_ns(directory.as_fd()), answer_ns(directory.as_fd())), (1, None));
        assert_eq!(rules(directory.as_fd(), true), NameRules::ANY);
        assert!(!ignores_case(directory.as_fd(), true) && !ignores_case(directory.as_fd(), false));
        assert_eq!(place.path().read_dir().unwrap().count(), 0, "what was tried out is gone");
        assert_eq!(ignores_case_by_looking(directory.as_fd()), None);
        File::create(place.path().join("Name")).unwrap();
        assert_eq!(ignores_case_by_looking(directory.as_fd()), Some(false));
    }
}
