//! One draft: a big file being written by several lanes, not yet visible.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::entry::{Attributes, Kind};
use hakobu_core::extent::CHUNK_BYTES;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, fallocate, fstat, fstatfs, fstatvfs, ioctl_ficlone, major, minor,
    openat, renameat, unlinkat,
};
use rustix::io::{Errno, pwritev, retry_on_intr};

use super::attributes::{Lost, Owner};
use super::cover::Cover;
use super::directories::Directory;
use super::new_file::create_draft;
use super::store::keep_device;
use super::{Shared, free_bytes};
use crate::local::draft_name::DraftName;
use crate::local::fault::{creation_fault, fault};
use crate::local::metadata;

/// The devices that take content without keeping it: null, zero and full.
const SINKS: [(u32, u32); 3] = [(1, 3), (1, 5), (1, 7)];
/// How many slices go into one system call.
const SLICES: usize = 16;

/// A file that is being written and cannot be seen under its name yet. Any number of lanes may
/// write to it at the same time, each byte once.
#[derive(Debug)]
pub struct Draft {
    path: EntryPath,
    name: Vec<u8>,
    directory: Arc<OwnedFd>,
    /// The name it has until it is finished; none for a device.
    draft_name: Option<DraftName>,
    /// Whether the room for all of it has been taken.
    allocated: bool,
    /// Whether there still is a file of that name to remove.
    pending: AtomicBool,
    file: OwnedFd,
    owner: Owner,
    size_bytes: u64,
    written_bytes: AtomicU64,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    taken: Cover,
    open: bool,
    failed: Option<Error>,
}

impl Draft {
    /// Begins a file. `outstanding_bytes` is what other drafts of this target still have to write.
    pub(crate) fn file(
        shared: &Shared,
        directory: &mut Directory,
        path: &EntryPath,
        name: &[u8],
        size_bytes: u64,
        outstanding_bytes: u64,
    ) -> Result<Self> {
        match metadata::of_name(&directory.fd, name) {
            Ok(found) if found.kind == Kind::Directory => {
                return Err(fault("making the file", Errno::ISDIR));
            }
            Ok(found) if !shared.grant.is_in_tree(path) => keep_device(found.kind)?,
            _ => {}
        }
        check_room(directory, size_bytes, outstanding_bytes)?;
        let draft_name = shared.draft_name(0, &directory.path, name);
        let file = create_draft(directory.fd.as_fd(), &draft_name)?;
        let owner = directory.owner_of_new(&file, 0o600).map_err(|errno| fault("making the file", errno))?;
        // From here on the draft removes its file when it is dropped.
        let mut draft = Self::new(path, name, &directory.fd, Some(draft_name), file, owner, size_bytes);
        draft.allocated = draft.preallocate()?;
        Ok(draft)
    }

    /// Takes the room for the whole file where that is known to pay: on ext4 writing then costs
    /// 40 % less CPU; tmpfs gains nothing and others were not measured.
    fn preallocate(&self) -> Result<bool> {
        const EXT4: u64 = 0xef53;
        if self.size_bytes < CHUNK_BYTES
            || !matches!(fstatfs(&self.file), Ok(found) if found.f_type as u64 == EXT4)
        {
            return Ok(false);
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, self.size_bytes) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(fault("making the file", errno)),
            allocated => Ok(allocated.is_ok()),
        }
    }

    /// Opens a device that swallows what is written to it. No other device is ever written to.
    pub(crate) fn device(
        directory: &Directory,
        path: &EntryPath,
        name: &[u8],
        size_bytes: u64,
    ) -> Result<Self> {
        let during = "opening the device";
        let failed = |errno| fault(during, errno);
        let refused = || Error::new(ErrorKind::Refused, during, "only null, zero and full are written to");
        let found = metadata::of_name(&directory.fd, name).map_err(failed)?;
        if found.kind != Kind::CharDevice {
            return Err(refused());
        }
        // Opening a device may do something to it, so its number is looked at first.
        let entry =
            openat(&directory.fd, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        check_sink(&entry.map_err(failed)?).map_err(failed)?.then_some(()).ok_or_else(refused)?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&directory.fd, name, flags, Mode::empty()).map_err(failed)?;
        check_sink(&file).map_err(failed)?.then_some(()).ok_or_else(refused)?;
        let owner = Owner { uid: found.uid, gid: found.gid };
        Ok(Self::new(path, name, &directory.fd, None, file, owner, size_bytes))
    }

    fn new(
        path: &EntryPath,
        name: &[u8],
        directory: &Arc<OwnedFd>,
        draft_name: Option<DraftName>,
        file: OwnedFd,
        owner: Owner,
        size_bytes: u64,
    ) -> Self {
        Self {
            path: path.clone(),
            name: name.to_vec(),
            directory: Arc::clone(directory),
            draft_name,
            allocated: false,
            pending: AtomicBool::new(draft_name.is_some()),
            file,
            owner,
            size_bytes,
            written_bytes: AtomicU64::new(0),
            progress: Mutex::new(Progress { taken: Cover::default(), open: true, failed: None }),
        }
    }

    /// Where it will be visible.
    pub fn path(&self) -> &EntryPath {
        &self.path
    }

    /// How many bytes it will have.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// How many bytes have not been written yet.
    pub fn missing_bytes(&self) -> u64 {
        self.size_bytes - self.written_bytes.load(Ordering::Acquire).min(self.size_bytes)
    }

    /// How many bytes of room it still needs.
    pub(crate) fn needed_bytes(&self) -> u64 {
        if self.allocated { 0 } else { self.missing_bytes() }
    }

    /// Whether it can still be written to.
    pub(crate) fn is_open(&self) -> bool {
        self.progress().open
    }

    /// Writes slices one after another, beginning at `offset`. When the system cannot write, the
    /// draft can no longer be finished.
    ///
    /// # Errors
    /// `Protocol` for bytes beyond the size, or bytes that were written before; otherwise those of
    /// the system, `NoSpace` among them.
    pub fn write_all_at(&self, offset: u64, slices: &[&[u8]]) -> Result<()> {
        let length: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        if length == 0 {
            return Ok(());
        }
        self.take(offset, length).map_err(|error| error.at(&self.path))?;
        match self.write(offset, slices) {
            Ok(()) => {
                self.written_bytes.fetch_add(length, Ordering::AcqRel);
                Ok(())
            }
            Err(errno) => {
                let error = fault("writing", errno).at(&self.path);
                self.progress().failed.get_or_insert_with(|| error.clone());
                Err(error)
            }
        }
    }

    /// Shares the blocks of a whole file instead of writing.
    ///
    /// # Errors
    /// `Unsupported` where the file systems cannot do that; nothing was written then.
    pub(crate) fn share_blocks(&self, from: &OwnedFd) -> Result<()> {
        self.take(0, self.size_bytes).map_err(|error| error.at(&self.path))?;
        let undo = |kind, words: &str| {
            self.progress().taken.give_back(0, self.size_bytes);
            Err(Error::new(kind, "sharing blocks", words).at(&self.path))
        };
        if self.draft_name.is_none() {
            return undo(ErrorKind::Unsupported, "it is a device");
        }
        match ioctl_ficlone(&self.file, from) {
            Ok(()) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => return undo(ErrorKind::NoSpace, "the file system is full"),
            Err(_) => return undo(ErrorKind::Unsupported, "the file systems cannot do it"),
        }
        let size = fstat(&self.file).map_err(|errno| fault("looking at the draft", errno))?.st_size;
        if u64::try_from(size) != Ok(self.size_bytes) {
            let error = Error::new(ErrorKind::SourceChanged, "sharing blocks", "its size changed");
            return Err(error.at(&self.path));
        }
        self.written_bytes.fetch_add(self.size_bytes, Ordering::AcqRel);
        Ok(())
    }

    /// Forgets bytes that were written, because a check showed that they are wrong or incomplete:
    /// they will be written again.
    ///
    /// # Errors
    /// `Protocol` when these bytes were not written.
    pub fn write_again(&self, offset: u64, length: u64) -> Result<()> {
        let mut progress = self.progress();
        let end = offset.saturating_add(length);
        if !progress.open || !progress.taken.give_back(offset, end) {
            return Err(refusal("bytes that were not written").at(&self.path));
        }
        self.written_bytes.fetch_sub(length, Ordering::AcqRel);
        Ok(())
    }

    /// Says that what was written is wrong: the draft can no longer be finished. The first error
    /// is the one that counts.
    pub fn fail(&self, error: Error) {
        self.progress().failed.get_or_insert(error);
    }

    /// Whether everything written so far is right.
    ///
    /// # Errors
    /// The error that an earlier write met, or that [`Draft::fail`] was given.
    pub fn check(&self) -> Result<()> {
        match &self.progress().failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn take(&self, offset: u64, length: u64) -> Result<()> {
        let end = offset.checked_add(length).filter(|end| *end <= self.size_bytes);
        let Some(end) = end else { return Err(refusal("bytes beyond the file's size")) };
        let mut progress = self.progress();
        if !progress.open {
            return Err(closed());
        }
        if let Some(error) = &progress.failed {
            return Err(error.clone());
        }
        if !progress.taken.take(offset, end) {
            return Err(refusal("bytes that were written before"));
        }
        Ok(())
    }

    fn write(&self, mut offset: u64, slices: &[&[u8]]) -> Result<(), Errno> {
        for some in slices.chunks(SLICES) {
            let mut vectors = [IoSlice::new(&[]); SLICES];
            vectors.iter_mut().zip(some).for_each(|(vector, slice)| *vector = IoSlice::new(slice));
            let mut vectors = &mut vectors[..some.len()];
            let mut rest: usize = some.iter().map(|slice| slice.len()).sum();
            while rest > 0 {
                let written = retry_on_intr(|| pwritev(&self.file, vectors, offset))?;
                if written == 0 || written > rest {
                    return Err(Errno::IO);
                }
                rest -= written;
                offset += written as u64;
                IoSlice::advance_slices(&mut vectors, written);
            }
        }
        Ok(())
    }

    /// Checks that it is complete, sets its attributes and makes it visible. It has to be closed.
    /// An error that a write met before comes out here.
    pub(crate) fn finish(&self, shared: &Shared, attributes: &Attributes, lost: &mut Lost) -> Result<()> {
        let done = self.check().and_then(|()| self.publish(shared, attributes, lost));
        if done.is_err() {
            self.discard();
        }
        done
    }

    fn publish(&self, shared: &Shared, attributes: &Attributes, lost: &mut Lost) -> Result<()> {
        let missing_bytes = self.missing_bytes();
        if missing_bytes > 0 {
            let words = format!("{missing_bytes} of {} bytes were not written", self.size_bytes);
            return Err(Error::new(ErrorKind::Protocol, "finishing", words));
        }
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        shared
            .policy
            .settle_file(self.file.as_fd(), self.owner, false, attributes, lost)
            .map_err(|errno| fault("setting the attributes", errno))?;
        renameat(&self.directory, draft_name.as_bytes(), &self.directory, &*self.name)
            .map_err(|errno| creation_fault("renaming into place", errno, &self.directory))?;
        self.pending.store(false, Ordering::Release);
        Ok(())
    }

    /// Takes no more writes. `false`: it took none before.
    pub(crate) fn close(&self) -> bool {
        std::mem::replace(&mut self.progress().open, false)
    }

    /// Throws it away, unless someone else has closed it.
    pub(crate) fn abandon(&self) -> bool {
        let open = self.close();
        if open {
            self.discard();
        }
        open
    }

    fn discard(&self) {
        if let Some(name) = &self.draft_name
            && self.pending.swap(false, Ordering::AcqRel)
        {
            let _ = unlinkat(&self.directory, name.as_bytes(), AtFlags::empty());
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Says beforehand that a file will not fit, where that can be known.
fn check_room(directory: &Directory, size_bytes: u64, outstanding_bytes: u64) -> Result<()> {
    let Some(free_bytes) = fstatvfs(&directory.fd).ok().as_ref().and_then(free_bytes) else { return Ok(()) };
    if size_bytes.saturating_add(outstanding_bytes) <= free_bytes {
        return Ok(());
    }
    let words =
        format!("{size_bytes} bytes are needed, {} are free", free_bytes.saturating_sub(outstanding_bytes));
    Err(Error::new(ErrorKind::NoSpace, "making the file", words))
}

/// Whether an open file is one of the [`SINKS`].
fn check_sink(file: &OwnedFd) -> Result<bool, Errno> {
    let found = fstat(file)?;
    let number = (major(found.st_rdev), minor(found.st_rdev));
    let character = rustix::fs::FileType::from_raw_mode(found.st_mode).is_char_device();
    Ok(character && SINKS.contains(&number))
}

fn closed() -> Error {
    Error::new(ErrorKind::NotFound, "writing", "the draft is closed")
}

fn refusal(words: &str) -> Error {
    Error::new(ErrorKind::Protocol, "writing", words)
}
