//! Emulates a disk that corrupts writes, or stops responding: a FUSE file system with one file, for use with a loop
//! device. Requires root and /dev/fuse.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};

/// The time for which the kernel caches names and attributes, which never change here.
const REMEMBERED: Duration = Duration::from_secs(3600);
const NAME: &str = "disk";
const DISK: INodeNo = INodeNo(2);

/// A bit that is corrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitFlip {
    /// The offset of the byte whose lowest bit is flipped.
    pub offset: u64,
    /// The number of writes of this byte in which the bit is flipped.
    pub times: u32,
}

/// The file system, mounted until this is dropped.
#[derive(Debug)]
pub struct BadMedium {
    file: PathBuf,
    silent: Arc<AtomicBool>,
    // Dropping it unmounts the file system.
    _session: BackgroundSession,
}

impl BadMedium {
    /// Mounts the file system on an empty directory, with a file of zeros.
    ///
    /// # Errors
    /// If mounting or creating the file fails.
    pub fn mount(at: &Path, size_bytes: u64, flips: &[BitFlip]) -> io::Result<Self> {
        let content = tempfile::tempfile_in("/dev/shm")?;
        content.set_len(size_bytes)?;
        let silent = Arc::new(AtomicBool::new(false));
        let disk = OneFile { content, size_bytes, flips: Mutex::new(flips.to_vec()), silent: silent.clone() };
        let session = fuser::spawn_mount(disk, at, &fuser::Config::default())?;
        Ok(Self { file: at.join(NAME), silent, _session: session })
    }

    /// Sets whether reads block, until this is reset.
    pub fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Release);
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

struct OneFile {
    content: File,
    size_bytes: u64,
    flips: Mutex<Vec<BitFlip>>,
    silent: Arc<AtomicBool>,
}

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_disk = inode == DISK;
        FileAttr {
            ino: inode,
            size: if is_disk { self.size_bytes } else { 0 },
            blocks: self.size_bytes / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: if is_disk { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Writes the bytes, with the pending flips applied.
    fn store(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut flips = self.flips.lock().map_err(|_| io::Error::other("a write failed before"))?;
        let mut kept = bytes.to_vec();
        for flip in flips.iter_mut().filter(|flip| flip.times > 0) {
            let index = flip.offset.checked_sub(offset).and_then(|index| usize::try_from(index).ok());
            if let Some(byte) = index.and_then(|index| kept.get_mut(index)) {
                *byte ^= 1;
                flip.times -= 1;
            }
        }
        self.content.write_all_at(&kept, offset)
    }
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == NAME {
            reply.entry(&REMEMBERED, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&REMEMBERED, &self.attributes(inode));
    }

    /// Accepts times, but does not store them.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&REMEMBERED, &self.attributes(inode));
    }

    /// Bypasses the kernel's page cache, so that all reads are served from here.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        while self.silent.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let left = self.size_bytes.saturating_sub(offset).min(u64::from(size));
        let mut bytes = vec![0; left as usize];
        match self.content.read_exact_at(&mut bytes, offset) {
            Ok(()) => reply.data(&bytes),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if offset + bytes.len() as u64 > self.size_bytes {
            return reply.error(Errno::ENOSPC);
        }
        match self.store(offset, bytes) {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}
