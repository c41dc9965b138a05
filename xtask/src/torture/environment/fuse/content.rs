//! Open files of the lying file system, and operations on their content.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::FileHandle;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::lies::Lies;
use super::nodes;

/// An open file.
pub struct OpenFile {
    file: OwnedFd,
    inode: u64,
    /// True if something was written since the last `close`.
    written: AtomicBool,
}

/// An open directory: its entries at the time when it was opened or rewound.
pub type OpenDirectory = Vec<(u64, fuser::FileType, Vec<u8>)>;

/// A table of open files or directories, by the handles that the kernel uses.
pub struct HandleTable<T> {
    map: Mutex<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for HandleTable<T> {
    fn default() -> Self {
        Self { map: Mutex::default(), next: AtomicU64::new(1) }
    }
}

impl<T> HandleTable<T> {
    fn map(&self) -> MutexGuard<'_, HashMap<u64, Arc<T>>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an element under a new handle.
    pub fn add(&self, opened: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.map().insert(number, Arc::new(opened));
        FileHandle(number)
    }

    /// Returns the element of a handle.
    ///
    /// # Errors
    /// Returns `EBADF` if the handle is not open.
    pub fn get(&self, handle: FileHandle) -> rustix::io::Result<Arc<T>> {
        self.map().get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    /// Replaces the element of a handle.
    pub fn replace(&self, handle: FileHandle, opened: T) {
        self.map().insert(handle.0, Arc::new(opened));
    }

    /// Removes the element of a handle.
    pub fn remove(&self, handle: FileHandle) {
        self.map().remove(&handle.0);
    }
}

impl OpenFile {
    /// Returns an open file for a descriptor on the backing file system.
    ///
    /// # Errors
    /// Returns an error if its metadata cannot be read.
    pub fn new(file: OwnedFd) -> rustix::io::Result<Self> {
        let inode = rustix::fs::fstat(&file)?.st_ino;
        Ok(Self { file, inode, written: AtomicBool::new(false) })
    }

    /// Returns the descriptor on the backing file system.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    fn wanted<T>(&self, lies: &Lies, at: Option<T>) -> Option<T> {
        at.filter(|_| lies.holds_for(self.inode))
    }

    /// Reads up to `length` bytes at `offset`. Returns fewer at the end of the file, or if the lies require it.
    pub fn read(&self, lies: &Lies, offset: u64, length: usize) -> rustix::io::Result<Vec<u8>> {
        let size = rustix::fs::fstat(&self.file)?.st_size as u64;
        let left = lies.end_of(self.inode, size).saturating_sub(offset);
        let mut wanted = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        if lies.short_reads && lies.holds_for(self.inode) {
            wanted = Lies::short(offset, wanted);
        }
        if self.wanted(lies, lies.eio_at).is_some_and(|at| (offset..offset + wanted as u64).contains(&at)) {
            return Err(Errno::IO);
        }
        let mut content = vec![0; wanted];
        let mut have = 0;
        while have < wanted {
            match rustix::io::pread(&self.file, &mut content[have..], offset + have as u64) {
                Ok(0) => break,
                Ok(more) => have += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        content.truncate(have);
        Ok(content)
    }

    /// Writes at `offset`, and returns the number of bytes accepted.
    pub fn write(&self, lies: &Lies, offset: u64, content: &[u8]) -> rustix::io::Result<usize> {
        let mut take = content.len();
        if lies.short_writes && lies.holds_for(self.inode) {
            take = Lies::short(offset, take);
        }
        if let Some(full) = self.wanted(lies, lies.enospc_at)
            && offset + take as u64 > full
        {
            return Err(Errno::NOSPC);
        }
        self.written.store(true, Ordering::Relaxed);
        let mut done = 0;
        while done < take {
            match rustix::io::pwrite(&self.file, &content[done..take], offset + done as u64) {
                Ok(more) => done += more,
                Err(Errno::INTR) => {}
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Returns the result of `close`. After each write, one `close` fails if the lies require it.
    pub fn flush(&self, lies: &Lies) -> rustix::io::Result<()> {
        let written = self.written.swap(false, Ordering::Relaxed);
        if lies.fail_close && written && lies.holds_for(self.inode) { Err(Errno::IO) } else { Ok(()) }
    }

    /// Syncs the file to the backing file system's disk.
    pub fn fsync(&self, lies: &Lies, data_only: bool) -> rustix::io::Result<()> {
        if lies.fail_fsync && lies.holds_for(self.inode) {
            return Err(Errno::IO);
        }
        if data_only { rustix::fs::fdatasync(&self.file) } else { rustix::fs::fsync(&self.file) }
    }

    /// Allocates, punches or zeroes a range.
    pub fn allocate(&self, lies: &Lies, mode: i32, offset: u64, length: u64) -> rustix::io::Result<()> {
        if lies.no_fallocate {
            return Err(Errno::OPNOTSUPP);
        }
        if let Some(full) = self.wanted(lies, lies.enospc_at)
            && mode == 0
            && offset.saturating_add(length) > full
        {
            return Err(Errno::NOSPC);
        }
        self.written.store(true, Ordering::Relaxed);
        rustix::fs::fallocate(&self.file, FallocateFlags::from_bits_retain(mode as u32), offset, length)
    }

    /// Finds data (3) or a hole (4) from an offset on. Each call opens the file anew, for a position of its own.
    pub fn seek(&self, offset: i64, whence: i32) -> rustix::io::Result<u64> {
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let from = match whence {
            3 => SeekFrom::Data(offset),
            4 => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let anew = rustix::fs::open(nodes::path_of(&self.file), flags, rustix::fs::Mode::empty())?;
        rustix::fs::seek(&anew, from)
    }
}
