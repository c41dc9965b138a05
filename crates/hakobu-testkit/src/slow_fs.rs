//! A file system on which each operation takes some time, like one that is mounted over a network: FUSE in front of a
//! directory on this machine. Requires root and /dev/fuse.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, mknodat, statvfs, utimensat};

/// The time for which the kernel caches names and attributes, as long as with NFS at least.
const REMEMBERED: Duration = Duration::from_secs(1);
/// The number of threads, and so of operations that can wait at the same time.
const THREADS: usize = 64;

/// The attribute of an entry that is shown as [`SHOWN_LIST`].
const BACKING_LIST: &str = "user.nfs4_acl";
const SHOWN_LIST: &str = "system.nfs4_acl";
/// The maximum size of a shown attribute in bytes.
const VALUE_BYTES_MAX: usize = 4096;

/// The file system, mounted until this is dropped.
#[derive(Debug)]
pub struct SlowFs {
    // Dropping it unmounts the file system.
    _session: BackgroundSession,
    waiting: Arc<WaitCount>,
}

/// The number of operations that are waiting, and its maximum so far.
#[derive(Debug, Default)]
struct WaitCount {
    now: AtomicU64,
    most: AtomicU64,
}

impl SlowFs {
    /// Mounts the content of `backing` on an empty directory. Each operation takes at least `delay`. If `backing` has an
    /// attribute `user.nfs4_acl`, this attribute of each entry is shown as `system.nfs4_acl`, as on NFSv4.
    ///
    /// # Errors
    /// If mounting fails.
    pub fn mount(at: &Path, backing: &Path, delay: Duration) -> io::Result<Self> {
        Self::mount_failing(at, backing, delay, None)
    }

    /// Mounts like [`SlowFs::mount`], with a call that always fails.
    ///
    /// # Errors
    /// The errors of [`SlowFs::mount`].
    pub fn mount_failing(
        at: &Path,
        backing: &Path,
        delay: Duration,
        fails: Option<FailingCall>,
    ) -> io::Result<Self> {
        let root = HashMap::from([(INodeNo::ROOT.0, backing.to_owned())]);
        let waiting = Arc::new(WaitCount::default());
        let paths = Mutex::new(root);
        let (files, next) = (Mutex::default(), AtomicU64::new(1));
        let has_lists = rustix::fs::getxattr(backing, BACKING_LIST, &mut [0; VALUE_BYTES_MAX][..]).is_ok();
        let slow = SlowFileSystem { delay, fails, has_lists, waiting: waiting.clone(), paths, files, next };
        let mut config = fuser::Config::default();
        (config.n_threads, config.clone_fd, config.acl) = (Some(THREADS), true, SessionACL::All);
        Ok(Self { _session: fuser::spawn_mount(slow, at, &config)?, waiting })
    }

    /// Returns the maximum number of operations that waited at the same time since the previous call.
    #[must_use]
    pub fn most_at_once(&self) -> u64 {
        self.waiting.most.swap(0, Ordering::Relaxed)
    }
}

/// A call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailingCall {
    /// Closing a file, with an I/O error, as the upload to an object store may.
    Close,
    /// Syncing a file, with an I/O error.
    Sync,
    /// Setting a mode with set-ID or sticky bits, as on exFAT through FUSE.
    SpecialBits,
    /// Reading everything at once: a read returns less, at an unaligned size, although the file continues. Files are
    /// opened with direct I/O, where the kernel does not take that for the end.
    WholeReads,
}

struct SlowFileSystem {
    delay: Duration,
    fails: Option<FailingCall>,
    /// True if entries have NFSv4 access control lists. Otherwise there are no extended attributes.
    has_lists: bool,
    waiting: Arc<WaitCount>,
    /// The latest known path of each inode.
    paths: Mutex<HashMap<u64, PathBuf>>,
    files: Mutex<HashMap<u64, Arc<File>>>,
    next: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kind_of(kind: fs::FileType) -> FileType {
    if kind.is_dir() {
        FileType::Directory
    } else if kind.is_symlink() {
        FileType::Symlink
    } else if kind.is_fifo() {
        FileType::NamedPipe
    } else if kind.is_socket() {
        FileType::Socket
    } else if kind.is_block_device() {
        FileType::BlockDevice
    } else if kind.is_char_device() {
        FileType::CharDevice
    } else {
        FileType::RegularFile
    }
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    UNIX_EPOCH + Duration::new(seconds, nanoseconds as u32)
}

impl SlowFileSystem {
    fn opened_with(&self) -> FopenFlags {
        match self.fails {
            Some(FailingCall::WholeReads) => FopenFlags::FOPEN_DIRECT_IO,
            _ => FopenFlags::empty(),
        }
    }

    fn wait(&self) {
        let waiting = self.waiting.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.waiting.most.fetch_max(waiting, Ordering::Relaxed);
        std::thread::sleep(self.delay);
        self.waiting.now.fetch_sub(1, Ordering::Relaxed);
    }

    fn path(&self, inode: INodeNo) -> io::Result<PathBuf> {
        lock(&self.paths).get(&inode.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn below(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    fn attributes(&self, path: &Path) -> io::Result<FileAttr> {
        let found = fs::symlink_metadata(path)?;
        let root = lock(&self.paths).get(&INodeNo::ROOT.0).is_some_and(|root| root == path);
        let inode = if root { INodeNo::ROOT } else { INodeNo(found.ino()) };
        lock(&self.paths).insert(inode.0, path.to_owned());
        Ok(FileAttr {
            ino: inode,
            size: found.len(),
            blocks: found.blocks(),
            atime: time(found.atime(), found.atime_nsec()),
            mtime: time(found.mtime(), found.mtime_nsec()),
            ctime: time(found.ctime(), found.ctime_nsec()),
            crtime: UNIX_EPOCH,
            kind: kind_of(found.file_type()),
            perm: (found.mode() & 0o7777) as u16,
            nlink: found.nlink() as u32,
            uid: found.uid(),
            gid: found.gid(),
            rdev: found.rdev() as u32,
            blksize: 4096,
            flags: 0,
        })
    }

    fn entry(&self, reply: ReplyEntry, made: io::Result<PathBuf>) {
        match made.and_then(|path| self.attributes(&path)) {
            Ok(found) => reply.entry(&REMEMBERED, &found, Generation(0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn empty(reply: ReplyEmpty, done: io::Result<()>) {
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn keep(&self, file: File) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.files).insert(number, Arc::new(file));
        FileHandle(number)
    }

    /// Answers with a value, or with its size if that is asked for.
    fn value(reply: ReplyXattr, size: u32, value: &[u8]) {
        match size as usize {
            0 => reply.size(value.len() as u32),
            room if room < value.len() => reply.error(Errno::ERANGE),
            _ => reply.data(value),
        }
    }

    /// Returns the NFSv4 access control list of an entry.
    fn list(&self, inode: INodeNo) -> io::Result<Vec<u8>> {
        let mut value = [0; VALUE_BYTES_MAX];
        let bytes = rustix::fs::lgetxattr(self.path(inode)?, BACKING_LIST, &mut value[..])?;
        Ok(value[..bytes].to_vec())
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        lock(&self.files).get(&handle.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn stamp(wanted: Option<TimeOrNow>) -> Timespec {
    const OMIT: i64 = 0x3fff_fffe;
    match wanted {
        None => Timespec { tv_sec: 0, tv_nsec: OMIT },
        Some(wanted) => {
            let at = match wanted {
                TimeOrNow::SpecificTime(at) => at,
                TimeOrNow::Now => SystemTime::now(),
            };
            let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            Timespec { tv_sec: since.as_secs() as i64, tv_nsec: i64::from(since.subsec_nanos()) }
        }
    }
}

impl Filesystem for SlowFileSystem {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.wait();
        self.entry(reply, self.below(parent, name));
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.wait();
        match self.path(inode).and_then(|path| self.attributes(&path)) {
            Ok(found) => reply.attr(&REMEMBERED, &found),
            Err(error) => reply.error(error.into()),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.wait();
        let set = || {
            let path = self.path(inode)?;
            if let Some(size) = size {
                OpenOptions::new().write(true).open(&path)?.set_len(size)?;
            }
            if uid.is_some() || gid.is_some() {
                lchown(&path, uid, gid)?;
            }
            if let Some(mode) = mode {
                if self.fails == Some(FailingCall::SpecialBits) && mode & 0o7000 != 0 {
                    return Err(rustix::io::Errno::PERM.into());
                }
                fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o7777))?;
            }
            if atime.is_some() || mtime.is_some() {
                let times = Timestamps { last_access: stamp(atime), last_modification: stamp(mtime) };
                utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            self.attributes(&path)
        };
        match set() {
            Ok(found) => reply.attr(&REMEMBERED, &found),
            Err(error) => reply.error(error.into()),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        self.wait();
        match self.path(inode).and_then(fs::read_link) {
            Ok(text) => reply.data(text.as_os_str().as_bytes()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.wait();
        let made = self.below(parent, name).and_then(|path| {
            let kind = rustix::fs::FileType::from_raw_mode(mode);
            mknodat(CWD, &path, kind, rustix::fs::Mode::from_raw_mode(mode), u64::from(rdev))?;
            Ok(path)
        });
        self.entry(reply, made);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.wait();
        let made = self.below(parent, name).and_then(|path| {
            fs::create_dir(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o7777))?;
            Ok(path)
        });
        self.entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.wait();
        Self::empty(reply, self.below(parent, name).and_then(fs::remove_file));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.wait();
        Self::empty(reply, self.below(parent, name).and_then(fs::remove_dir));
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, text: &Path, reply: ReplyEntry) {
        self.wait();
        let made = self.below(parent, name).and_then(|path| symlink(text, &path).map(|()| path));
        self.entry(reply, made);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.wait();
        let renamed = || {
            let to = self.below(new_parent, new_name)?;
            fs::rename(self.below(parent, name)?, &to)?;
            self.attributes(&to).map(drop)
        };
        Self::empty(reply, renamed());
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.wait();
        let linked = || {
            let to = self.below(parent, name)?;
            fs::hard_link(self.path(inode)?, &to)?;
            Ok(to)
        };
        self.entry(reply, linked());
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.wait();
        let opened = self.path(inode).and_then(|path| {
            let writes = flags.0 & 3 != 0;
            OpenOptions::new().read(true).write(writes).open(path)
        });
        match opened {
            Ok(file) => reply.opened(self.keep(file), self.opened_with()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.wait();
        let length = match self.fails {
            Some(FailingCall::WholeReads) => size - size / 3,
            _ => size,
        };
        let mut bytes = vec![0; length as usize];
        match self.file(handle).and_then(|file| file.read_at(&mut bytes, offset)) {
            Ok(length) => reply.data(&bytes[..length]),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.wait();
        match self.file(handle).and_then(|file| file.write_all_at(bytes, offset)) {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.wait();
        match self.fails {
            Some(FailingCall::Close) => reply.error(Errno::EIO),
            _ => reply.ok(),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.files).remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.wait();
        match self.fails {
            Some(FailingCall::Sync) => reply.error(Errno::EIO),
            _ => Self::empty(reply, self.file(handle).and_then(|file| file.sync_all())),
        }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.wait();
        let entries = self.path(inode).and_then(fs::read_dir);
        let entries = match entries {
            Ok(entries) => entries.flatten(),
            Err(error) => return reply.error(error.into()),
        };
        let mut found: Vec<_> = [".", ".."].map(|name| (inode.0, FileType::Directory, name.into())).to_vec();
        let of = |entry: fs::DirEntry| {
            Some((entry.metadata().ok()?.ino(), kind_of(entry.file_type().ok()?), entry.file_name()))
        };
        found.extend(entries.filter_map(of));
        for (index, (number, kind, name)) in found.into_iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(number), index as u64 + 1, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !self.has_lists {
            return reply.error(Errno::ENOSYS);
        }
        self.wait();
        if name != SHOWN_LIST {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match self.list(inode) {
            Ok(list) => Self::value(reply, size, &list),
            Err(error) => reply.error(error.into()),
        }
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        if !self.has_lists {
            return reply.error(Errno::ENOSYS);
        }
        self.wait();
        match self.list(inode) {
            Ok(_) => Self::value(reply, size, format!("{SHOWN_LIST}\0").as_bytes()),
            Err(_) => Self::value(reply, size, &[]),
        }
    }

    fn statfs(&self, _: &Request, inode: INodeNo, reply: ReplyStatfs) {
        self.wait();
        match self.path(inode).and_then(|path| Ok(statvfs(path)?)) {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                found.f_bsize as u32,
                255,
                found.f_frsize as u32,
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        const EXCL: i32 = 0o200;
        self.wait();
        let created = || {
            let path = self.below(parent, name)?;
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(mode & 0o7777);
            match flags & EXCL != 0 {
                true => options.create_new(true),
                false => options.create(true).truncate(false),
            };
            let file = options.open(&path)?;
            Ok((self.attributes(&path)?, file))
        };
        let done: io::Result<(FileAttr, File)> = created();
        match done {
            Ok((found, file)) => {
                reply.created(&REMEMBERED, &found, Generation(0), self.keep(file), self.opened_with());
            }
            Err(error) => reply.error(Errno::from(error)),
        }
    }
}
