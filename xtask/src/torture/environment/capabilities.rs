//! The capabilities of each kind of file system, written by hand and checked against the results of plain calls.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::Context;
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, Timespec, Timestamps, XattrFlags};

use super::file_system::{FileSystemKind, MountedFileSystem};

/// The capabilities of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystemCapabilities {
    /// Owners and groups.
    pub owners: bool,
    /// All bits of the mode.
    pub modes: bool,
    /// Symbolic links.
    pub symlinks: bool,
    /// Hard links.
    pub hard_links: bool,
    /// Pipes, sockets and devices.
    pub special_files: bool,
    /// Holes: a sparse file takes less space than its size.
    pub holes: bool,
    /// Extended attributes `user.*`.
    pub user_xattrs: bool,
    /// Extended attributes `trusted.*`.
    pub trusted_xattrs: bool,
    /// POSIX ACLs.
    pub acls: bool,
    /// True if names that differ only in case are different.
    pub case_sensitive: bool,
    /// Names that are not UTF-8.
    pub any_names: bool,
    /// True if content and attributes can be changed.
    pub writable: bool,
    /// The resolution of times in nanoseconds.
    pub mtime_step_ns: u64,
    /// The first and the last second of the range of times.
    pub mtime_range_s: (i64, i64),
    /// The maximum length of a name in bytes.
    pub name_bytes_max: usize,
    /// The maximum length of a symbolic link's target in bytes.
    pub link_bytes_max: usize,
    /// The maximum size in bytes of an extended attribute's value. The total of a file may be limited too: ext4 keeps
    /// them in one block.
    pub xattr_bytes_max: usize,
    /// The maximum number of hard links to one file; `None` if it is out of reach.
    pub links_max: Option<u64>,
}

/// A file system that keeps everything exactly.
const FULL: FileSystemCapabilities = FileSystemCapabilities {
    owners: true,
    modes: true,
    symlinks: true,
    hard_links: true,
    special_files: true,
    holes: true,
    user_xattrs: true,
    trusted_xattrs: true,
    acls: true,
    case_sensitive: true,
    any_names: true,
    writable: true,
    mtime_step_ns: 1,
    mtime_range_s: (i64::MIN, i64::MAX),
    name_bytes_max: 255,
    link_bytes_max: 4_095,
    xattr_bytes_max: 65_536,
    links_max: None,
};

/// Two bits above the 32 of the seconds, counted from 1901.
const EXT4_RANGE_S: (i64, i64) = (i32::MIN as i64, (1 << 34) - 1 + i32::MIN as i64);
/// Unsigned nanoseconds since 1901, in 64 bits.
const XFS_RANGE_S: (i64, i64) = (i32::MIN as i64, (u64::MAX / 1_000_000_000) as i64 + i32::MIN as i64);
const EXT4: FileSystemCapabilities = FileSystemCapabilities {
    mtime_range_s: EXT4_RANGE_S,
    xattr_bytes_max: 3_900,
    links_max: Some(65_000),
    ..FULL
};

/// Returns the capabilities of a kind of file system.
#[must_use]
pub fn of(kind: &FileSystemKind) -> FileSystemCapabilities {
    match kind {
        FileSystemKind::Ext4 => EXT4,
        // The image is small, so blocks have 1 KiB.
        FileSystemKind::FullBytes => {
            FileSystemCapabilities { xattr_bytes_max: 900, link_bytes_max: 1_023, ..EXT4 }
        }
        FileSystemKind::Ext4Small => FileSystemCapabilities {
            mtime_step_ns: 1_000_000_000,
            mtime_range_s: (i64::from(i32::MIN), i64::from(i32::MAX)),
            xattr_bytes_max: 900,
            link_bytes_max: 1_023,
            ..EXT4
        },
        FileSystemKind::Xfs | FileSystemKind::SmallXfs => {
            FileSystemCapabilities { mtime_range_s: XFS_RANGE_S, link_bytes_max: 1_023, ..FULL }
        }
        FileSystemKind::Btrfs => {
            FileSystemCapabilities { xattr_bytes_max: 16_000, links_max: Some(65_535), ..FULL }
        }
        FileSystemKind::Tmpfs
        | FileSystemKind::FullInodes
        | FileSystemKind::SmallTmpfs
        | FileSystemKind::Overlay => FULL,
        FileSystemKind::Erofs => FileSystemCapabilities { writable: false, ..FULL },
        FileSystemKind::Squashfs => FileSystemCapabilities {
            writable: false,
            acls: false,
            mtime_step_ns: 1_000_000_000,
            mtime_range_s: (0, u32::MAX as i64),
            ..FULL
        },
        FileSystemKind::Fuse(lies) => FileSystemCapabilities {
            owners: !lies.no_owners,
            modes: !lies.no_owners,
            hard_links: !lies.no_hard_links,
            user_xattrs: !lies.no_xattrs,
            trusted_xattrs: !lies.no_xattrs,
            acls: !lies.no_xattrs,
            case_sensitive: !lies.case_insensitive,
            mtime_step_ns: lies.time_step_ns(),
            // The rest depends on the file system below, which is assumed to be ext4.
            ..EXT4
        },
        FileSystemKind::Ntfs3g => FileSystemCapabilities {
            acls: false,
            any_names: false,
            mtime_step_ns: 100,
            // Steps of 100 ns since 1601, which ntfs-3g takes for a signed number.
            mtime_range_s: (i64::MIN / 10_000_000 - 11_644_473_600, i64::MAX / 10_000_000 - 11_644_473_600),
            links_max: Some(1_024),
            ..FULL
        },
        FileSystemKind::ExfatFuse => FileSystemCapabilities {
            owners: false,
            modes: false,
            symlinks: false,
            hard_links: false,
            special_files: false,
            holes: false,
            user_xattrs: false,
            trusted_xattrs: false,
            acls: false,
            case_sensitive: false,
            any_names: false,
            mtime_step_ns: 1_000_000_000,
            // 128 years from 1980, with one leap year too many.
            mtime_range_s: (315_532_800, 4_354_905_599),
            xattr_bytes_max: 0,
            links_max: Some(1),
            ..FULL
        },
    }
}

/// Tested times in seconds, around every known limit.
const TRIED_S: [i64; 19] = [
    -20_000_000_000,
    -11_644_473_601,
    -11_644_473_600,
    i32::MIN as i64 - 1,
    i32::MIN as i64,
    -1,
    0,
    315_532_799,
    315_532_800,
    1_700_000_000,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    4_354_905_599,
    4_354_905_600,
    u32::MAX as i64,
    u32::MAX as i64 + 1,
    EXT4_RANGE_S.1 + 1,
    XFS_RANGE_S.1 + 1,
    900_000_000_000,
];

/// Compares the known capabilities of a mounted file system with the results of plain calls. Returns one line for each
/// difference. Remounts the file system in between if possible, and leaves nothing behind.
///
/// # Errors
/// Returns an error if not even a file can be created.
pub fn differences(mounted: &mut MountedFileSystem) -> anyhow::Result<Vec<String>> {
    let at = mounted.path().join(".environment-try");
    fs::create_dir(&at).with_context(|| format!("make {}", at.display()))?;
    let capabilities = mounted.capabilities().clone();
    let mut wrong = tried(&capabilities, &at)?;
    set_times(&at)?;
    if mounted.can_remount() {
        // The cache may hold more than the file system keeps.
        mounted.remount()?;
    }
    wrong.extend(kept_times(&capabilities, &at)?);
    fs::remove_dir_all(&at)?;
    Ok(wrong)
}

fn tried(capabilities: &FileSystemCapabilities, at: &Path) -> anyhow::Result<Vec<String>> {
    let file = at.join("file");
    fs::write(&file, b"content")?;
    let mut wrong = Vec::new();
    let mut check = |what: &str, known: bool, found: bool| {
        if known != found {
            wrong.push(format!("{what}: known {known}, found {found}"));
        }
    };
    let owner = std::os::unix::fs::chown(&file, Some(12_345), Some(54_321)).is_ok();
    let seen = fs::metadata(&file)?;
    check("owners", capabilities.owners, owner && (seen.uid(), seen.gid()) == (12_345, 54_321));
    let modes = [0o4751, 0o2640, 0o1000, 0o007].into_iter().all(|mode| {
        let set = fs::set_permissions(&file, fs::Permissions::from_mode(mode));
        set.is_ok() && fs::metadata(&file).is_ok_and(|seen| seen.mode() & 0o7777 == mode)
    });
    check("modes", capabilities.modes, modes);
    check("symlinks", capabilities.symlinks, std::os::unix::fs::symlink("nowhere", at.join("link")).is_ok());
    check("hard_links", capabilities.hard_links, fs::hard_link(&file, at.join("name")).is_ok());
    let pipe = rustix::fs::mknodat(CWD, at.join("pipe"), FileType::Fifo, Mode::RWXU, 0);
    let device = rustix::fs::mknodat(CWD, at.join("device"), FileType::CharacterDevice, Mode::RWXU, 0x103);
    check("special_files", capabilities.special_files, pipe.is_ok() && device.is_ok());
    let sparse = File::create(at.join("sparse"))?;
    sparse.set_len(8 << 20)?;
    let _ = rustix::fs::fallocate(&sparse, FallocateFlags::KEEP_SIZE, 4 << 20, 4_096);
    check("holes", capabilities.holes, sparse.metadata()?.blocks() < 8 << 11);
    drop(sparse);
    let set = |name: &str, value: &[u8]| rustix::fs::setxattr(&file, name, value, XattrFlags::empty());
    check("user_xattrs", capabilities.user_xattrs, set("user.a", b"1").is_ok());
    check("trusted_xattrs", capabilities.trusted_xattrs, set("trusted.a", b"1").is_ok());
    let _ = rustix::fs::removexattr(&file, "trusted.a");
    check("acls", capabilities.acls, set("system.posix_acl_access", &acl()).is_ok());
    if capabilities.user_xattrs {
        check("xattr_bytes_max", true, set("user.a", &vec![7; capabilities.xattr_bytes_max]).is_ok());
        check(
            "xattr_bytes_max + 8 KiB",
            false,
            set("user.a", &vec![7; capabilities.xattr_bytes_max + 8_192]).is_ok(),
        );
    }
    fs::write(at.join("Case"), b"")?;
    check("case_sensitive", capabilities.case_sensitive, fs::symlink_metadata(at.join("cASE")).is_err());
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe\n");
    check("any_names", capabilities.any_names, fs::write(at.join(odd), b"").is_ok());
    check("name_bytes_max", true, fs::write(at.join("n".repeat(capabilities.name_bytes_max)), b"").is_ok());
    if capabilities.symlinks {
        let link =
            |length: usize| std::os::unix::fs::symlink("t".repeat(length), at.join(format!("link {length}")));
        check("link_bytes_max", true, link(capabilities.link_bytes_max).is_ok());
        check("link_bytes_max + 1", false, link(capabilities.link_bytes_max + 1).is_ok());
    }
    check(
        "name_bytes_max + 1",
        false,
        fs::write(at.join("n".repeat(capabilities.name_bytes_max + 1)), b"").is_ok(),
    );
    Ok(wrong)
}

/// The time that shows the resolution.
const STEP_TRIED: (i64, i64) = (1_700_000_001, 123_456_789);

/// Creates a file for each tested time.
fn set_times(at: &Path) -> anyhow::Result<()> {
    let exact = TRIED_S.into_iter().map(|second| (second, 0));
    for (second, nanosecond) in exact.chain([STEP_TRIED]) {
        let file = at.join(format!("time{second}"));
        fs::write(&file, b"")?;
        let want = Timespec { tv_sec: second, tv_nsec: nanosecond };
        let times = Timestamps { last_access: want, last_modification: want };
        // A time that is refused is not kept.
        let _ = rustix::fs::utimensat(CWD, &file, &times, AtFlags::empty());
    }
    Ok(())
}

/// Checks that each tested time is kept exactly if it is within the range, and not otherwise.
fn kept_times(capabilities: &FileSystemCapabilities, at: &Path) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    let (first, last) = capabilities.mtime_range_s;
    let step_s = (capabilities.mtime_step_ns / 1_000_000_000).max(1) as i64;
    for second in TRIED_S.into_iter().filter(|second| second % step_s == 0) {
        let kept = fs::metadata(at.join(format!("time{second}")))?.mtime() == second;
        if kept != (first..=last).contains(&second) {
            wrong.push(format!("mtime_range_s: {second} is {}", if kept { "kept" } else { "not kept" }));
        }
    }
    let (second, nanosecond) = STEP_TRIED;
    let seen = fs::metadata(at.join(format!("time{second}")))?;
    let all = i128::from(second) * 1_000_000_000 + i128::from(nanosecond);
    let step = i128::from(capabilities.mtime_step_ns);
    let (expected, found) =
        (all / step * step, i128::from(seen.mtime()) * 1_000_000_000 + i128::from(seen.mtime_nsec()));
    if expected != found {
        wrong.push(format!("mtime_step_ns: expected {expected}, found {found}"));
    }
    Ok(wrong)
}

/// Returns an access ACL with one named user, in the kernel's format.
fn acl() -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let nobody = u32::MAX;
    for (tag, rights, who) in
        [(0x01_u16, 6_u16, nobody), (0x02, 4, 1_234), (0x04, 4, nobody), (0x10, 4, nobody), (0x20, 0, nobody)]
    {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(who.to_le_bytes());
    }
    bytes
}
