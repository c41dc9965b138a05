//! Properties that follow from the type of a file system: the names and times it can hold, and whether each operation
//! is a request to a server or another program.

use std::path::Path;
use std::time::{Duration, Instant};

use hakobu_core::entry::EntryMetadata;
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

// File system type numbers, from the kernel's `linux/magic.h` and from drivers.
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
/// File systems that maintain the time of an inode's last change themselves, whatever other times are set.
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
/// File systems that show the modification time as that of the last change. Programs behind FUSE may.
const LACKS_CHANGE_TIMES: [u64; 9] = [
    MSDOS,
    EXFAT,
    FUSE,
    0x4244,      // HFS
    0x9660,      // ISO 9660
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // EROFS
    0x28cd_3d45, // cramfs
    0x7275,      // romfs
];
/// Network file systems, and FUSE, which may be one.
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

/// The maximum number of requests that measure a file server's response time, and the maximum total time.
const ASKED_MAX: u32 = 5;
const ASKING_LIMIT: Duration = Duration::from_millis(100);
/// The number of entries of a directory that are examined to see whether it ignores case.
const LOOKED_AT_MAX: usize = 64;

/// Returns the name rules of the file system of a directory. If its type does not tell whether it ignores case, and
/// `may_write` allows it, that is tested with an empty file.
pub fn rules(directory: BorrowedFd<'_>, may_write: bool) -> NameRules {
    let longest = fstatvfs(directory).map_or(0, |figures| figures.f_namemax);
    let bytes_max = u32::try_from(longest).ok().filter(|max| *max > 0).unwrap_or(NameRules::ANY.bytes_max);
    let (text, windows, ignores_case) = match kind_of(directory) {
        MSDOS | EXFAT => (true, true, true),
        // A mount option decides which of Windows' rules the driver enforces. Refusals are reported individually.
        NTFS3 | NTFS => (true, false, ignores_case(directory, may_write)),
        HFS_PLUS => (true, false, true),
        CIFS | SMB2 => (true, false, ignores_case(directory, may_write)),
        FUSE => (false, false, ignores_case(directory, may_write)),
        // ext4 and F2FS can ignore case in individual directories.
        _ => (false, false, ioctl_getflags(directory).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)),
    };
    NameRules { bytes_max, text, windows, ignores_case }
}

/// Returns the minimum granularity of file times on a directory's file system in nanoseconds, as far as its type tells.
pub fn time_step_ns(directory: BorrowedFd<'_>) -> u32 {
    match kind_of(directory) {
        MSDOS => 2_000_000_000,
        // Inodes without room for the creation time have no room for fractions of a second either.
        EXT4 if !tells_birth(directory) => 1_000_000_000,
        HFS_PLUS => 1_000_000_000,
        EXFAT => 10_000_000,
        NTFS3 | NTFS | CIFS | SMB2 => 100,
        _ => 1,
    }
}

/// Returns true if the file system's type does not tell its time granularity. FUSE, file servers and unknown types may
/// have any.
pub(crate) fn keeps_unknown_steps(directory: BorrowedFd<'_>) -> bool {
    const KNOWN: [u64; 5] = [TMPFS, XFS, BTRFS, OVERLAY, EXT4];
    !KNOWN.contains(&kind_of(directory))
}

fn tells_birth(directory: BorrowedFd<'_>) -> bool {
    let asked = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    asked.is_ok_and(|found| StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME))
}

/// Returns true if a path is on a network file system, or on one implemented by another program (FUSE).
pub fn is_on_network(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| NETWORK.contains(&number(&found)))
}

/// Returns true if an open directory is on a network file system or FUSE.
pub(crate) fn is_network(directory: BorrowedFd<'_>) -> bool {
    NETWORK.contains(&kind_of(directory))
}

/// The method by which content gets to stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// The file system is in memory, so nothing survives a restart.
    Memory,
    /// Content that the device has received is on stable storage before any name that is given later. This holds for
    /// ext4 and XFS, whose journals flush the device first.
    InOrder,
    /// Only a flush of the file itself guarantees stable storage.
    Flushed,
    /// Like `Flushed`, but write errors are reported for each file only on flushing and closing it: network file
    /// systems and other programs (FUSE).
    ToldByFile,
}

/// Returns how content gets to stable storage on the file system of a directory.
pub(crate) fn stability(directory: BorrowedFd<'_>) -> Stability {
    match kind_of(directory) {
        TMPFS | RAMFS => Stability::Memory,
        EXT4 | XFS => Stability::InOrder,
        kind if NETWORK.contains(&kind) => Stability::ToldByFile,
        _ => Stability::Flushed,
    }
}

/// Returns true if the file system maintains the time of an inode's last change itself, so that nobody can set it.
pub(crate) fn keeps_change_times(directory: BorrowedFd<'_>) -> bool {
    KEEPS_CHANGE_TIMES.contains(&kind_of(directory))
}

/// Returns false if the times of inodes' last changes are known or suspected to be those of other changes.
pub(crate) fn has_change_times(directory: BorrowedFd<'_>) -> bool {
    !LACKS_CHANGE_TIMES.contains(&kind_of(directory))
}

/// Returns true if files on this file system may share blocks with others. Unknown file systems count as sharing.
pub(crate) fn may_share(directory: BorrowedFd<'_>) -> bool {
    const NEVER: [u64; 5] = [TMPFS, EXT4, MSDOS, EXFAT, HFS_PLUS];
    !NEVER.contains(&kind_of(directory))
}

/// Returns the response time of a network file system or FUSE program in nanoseconds, as the minimum of a few requests.
/// Returns `None` for other file systems. The requests ask for the free space, because most other answers are cached.
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

/// Returns true if this machine's NFS client gave a file this name because it was deleted while it is open: `.nfs`, the
/// file's number and a counter, in hexadecimal digits. The file disappears when it is closed everywhere.
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

/// Returns the number of the file system type. Some architectures sign-extend it.
fn number(found: &StatFs) -> u64 {
    found.f_type as u64 & 0xffff_ffff
}

/// Restores the modification time of a directory in which a temporary entry was created and removed. Only the
/// directory's owner may do this, and only the owner can have set the time.
///
/// # Errors
/// The system's.
pub(crate) fn give_time_back(directory: BorrowedFd<'_>, before: &EntryMetadata) -> Result<(), Errno> {
    match utimensat(CWD, proc_path(directory), &modified(before.mtime, true), AtFlags::empty()) {
        Err(Errno::PERM | Errno::ACCESS) if !may_set_times(before.uid) => Ok(()),
        other => other,
    }
}

/// Returns the name of a short-lived test file. If this process ends meanwhile, the next run recognises it as a draft.
fn probe_name(directory: BorrowedFd<'_>) -> Vec<u8> {
    draft_name(format!("does case count? {} {}", std::process::id(), directory.as_raw_fd()).as_bytes())
}

/// Returns true if a file is found under its name in other case. It is a new file, or an existing one if `may_write` is
/// false.
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
        // If this fails, the directory keeps its current time.
        let _ = give_time_back(directory, &before);
    }
    found
}

/// Checks existing entries. Returns `None` if none of them is conclusive.
fn ignores_case_by_looking(directory: BorrowedFd<'_>) -> Option<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = Dir::read_from(openat(directory, c".", flags, Mode::empty()).ok()?).ok()?;
    for entry in entries.take(LOOKED_AT_MAX).flatten() {
        let name = entry.file_name().to_bytes();
        let swap = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
        let other: Vec<u8> = name.iter().map(swap).collect();
        let Ok(found) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        // A file with several names may have both.
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
