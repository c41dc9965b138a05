//! The files that the kernel knows: one descriptor (`O_PATH`) for each inode, found by its number on the backing file
//! system. An open descriptor prevents that file system from reusing the number.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::lies::Lies;

/// The kernel's number of the root. It replaces the number of the backing directory.
pub const ROOT: u64 = 1;

struct FuseNode {
    handle: Arc<OwnedFd>,
    lookups: u64,
}

/// All nodes of one mount.
pub struct Nodes {
    map: Mutex<HashMap<u64, FuseNode>>,
    root_inode: u64,
    device: u64,
}

impl Nodes {
    /// Returns the nodes of the tree below a directory.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be opened.
    pub fn new(root: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(root, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&handle)?;
        let node = FuseNode { handle: Arc::new(handle), lookups: 1 };
        Ok(Self {
            map: Mutex::new(HashMap::from([(ROOT, node)])),
            root_inode: stat.st_ino,
            device: stat.st_dev,
        })
    }

    fn map(&self) -> MutexGuard<'_, HashMap<u64, FuseNode>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the descriptor of a node.
    ///
    /// # Errors
    /// Returns `ESTALE` if the kernel should not know the node any more.
    pub fn handle(&self, node: INodeNo) -> rustix::io::Result<Arc<OwnedFd>> {
        self.map().get(&node.0).map(|node| Arc::clone(&node.handle)).ok_or(Errno::STALE)
    }

    /// Looks up a name, and counts that the kernel knows it.
    ///
    /// # Errors
    /// Returns the error of the backing file system, or `EXDEV` if another file system is mounted there.
    pub fn look_up(&self, parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<(u64, Stat)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&handle)?;
        if stat.st_dev != self.device {
            return Err(Errno::XDEV);
        }
        let number = self.number(stat.st_ino);
        let mut map = self.map();
        map.entry(number).or_insert_with(|| FuseNode { handle: Arc::new(handle), lookups: 0 }).lookups += 1;
        Ok((number, stat))
    }

    /// Returns the kernel's number of a file, given its number on the backing file system.
    pub fn number(&self, inode: u64) -> u64 {
        if inode == self.root_inode { ROOT } else { inode }
    }

    /// Records that the kernel has forgotten this many look-ups of a node.
    pub fn forget(&self, node: INodeNo, lookups: u64) {
        let mut map = self.map();
        if let Some(known) = map.get_mut(&node.0).filter(|_| node.0 != ROOT) {
            known.lookups = known.lookups.saturating_sub(lookups);
            if known.lookups == 0 {
                map.remove(&node.0);
            }
        }
    }
}

/// Returns a path to reopen a descriptor's file, and to reach its attributes, even those of a symbolic link.
pub fn path_of(handle: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Returns the true metadata of a node.
pub fn stat(handle: &OwnedFd) -> rustix::io::Result<Stat> {
    rustix::fs::statat(handle, "", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the metadata of a node for the kernel, with the lies applied.
pub fn attributes(mut stat: Stat, number: Option<u64>, lies: &Lies) -> FileAttr {
    lies.told(&mut stat);
    let at = |seconds: i64, nanoseconds: u64| {
        let (seconds, nanoseconds) = lies.rounded(seconds, nanoseconds as u32);
        moment(seconds, nanoseconds)
    };
    let changed = at(stat.st_ctime, stat.st_ctime_nsec);
    FileAttr {
        ino: INodeNo(number.unwrap_or(stat.st_ino)),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: at(stat.st_atime, stat.st_atime_nsec),
        mtime: at(stat.st_mtime, stat.st_mtime_nsec),
        ctime: changed,
        crtime: changed,
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        // The device numbers of glibc and the kernel agree in their low 32 bits.
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// Converts a time for `fuser`.
fn moment(seconds: i64, nanoseconds: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    let moment = base.and_then(|base| base.checked_add(Duration::from_nanos(u64::from(nanoseconds))));
    moment.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns the seconds and nanoseconds that the kernel sent. For negative seconds `fuser` subtracts both from 1970,
/// although the nanoseconds count forward. This is undone here.
pub fn sent(time: SystemTime) -> (i64, u32) {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            ((before.as_secs() as i64).wrapping_neg(), before.subsec_nanos())
        }
    }
}

/// Converts the kind of a file for the kernel.
pub fn kind(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}
