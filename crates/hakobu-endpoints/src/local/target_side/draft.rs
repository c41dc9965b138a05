//! A draft: a large file that several lanes write and that is not visible yet, or a device or file written in place.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::disk::DeviceIdentity;
use hakobu_core::endpoint::{DraftKind, EarlierWork};
use hakobu_core::extent::UNKNOWN_BYTES;
use hakobu_core::path::EntryPath;
use hakobu_core::plant::planted;
use hakobu_core::tag::Tagger;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, fstat, ioctl_ficlone, unlinkat};
use rustix::io::{Errno, pwritev, retry_on_intr};

use super::attributes::Owner;
use crate::common::range_set::RangeSet;
use crate::local::draft_name::DraftName;
use crate::local::errno::{fault, write_fault};
use crate::local::file_system::Stability;
use crate::local::journal::{Journal, remove};

/// The maximum number of slices per system call.
const SLICES: usize = 16;

/// A file that is being written and not yet visible. Any number of lanes may write to it at the same time, each byte
/// once.
#[derive(Debug)]
pub struct LocalDraft {
    pub(super) path: EntryPath,
    pub(super) name: Vec<u8>,
    pub(super) kind: DraftKind,
    pub(super) directory: Arc<OwnedFd>,
    /// The temporary name; `None` for drafts that are written in place.
    pub(super) draft_name: Option<DraftName>,
    /// True if blocks of zeros are not written.
    pub(super) sparse: bool,
    /// True if the space for the whole file was allocated.
    pub(super) allocated: bool,
    /// True while a file of the temporary name exists that may have to be removed.
    pub(super) pending: AtomicBool,
    pub(super) file: OwnedFd,
    /// A descriptor of the same file for direct I/O, where large writes pay off: for devices.
    pub(super) direct: Option<OwnedFd>,
    /// The old file on which it is based.
    pub(super) old: Option<OwnedFd>,
    /// True if it shares that file's blocks, so that equal ranges are already in place.
    pub(super) shares_old: bool,
    /// The lock of the lane that copies a range from the old file.
    pub(super) turn: Mutex<()>,
    /// True if an earlier run has begun it.
    pub(super) goes_on: bool,
    /// True if another run has begun it and left it to several.
    pub(super) is_joined: bool,
    /// The journal of that run, if the draft is finished or discarded now.
    pub(super) shared_journal: Option<DraftName>,
    /// The identity of the disk, if the draft is one.
    pub(super) disk: Option<DeviceIdentity>,
    pub(super) owner: Owner,
    /// The method by which its content gets to stable storage.
    pub(super) stability: Stability,
    /// True if it replaces an existing entry.
    pub(super) replaces: bool,
    /// The size in bytes; unknown for a stream until it ends.
    pub(super) size_bytes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    /// The number of bytes written to a stream.
    pub(super) streamed_bytes: Mutex<u64>,
    pub(super) verify_medium: bool,
    /// The tagger for values of pieces and blocks, if these are tags.
    pub(super) tagger: Option<Tagger>,
    /// True if there is old data that is not part of the content, so that zeros must be written.
    pub(super) stale: AtomicBool,
    /// True if its present content was queried, so that ranges of it may be kept.
    pub(super) signed: AtomicBool,
    /// True if zeros were skipped, so that the length must be set.
    pub(super) holes: AtomicBool,
    /// True if a chunk is wrong and must be retried by a later run.
    pub(super) gaps: AtomicBool,
    pub(super) journal: Option<Mutex<Journal>>,
    /// The progress of an earlier run, until it is reported to the engine.
    pub(super) begun: Mutex<Option<EarlierWork>>,
    pub(super) progress: Mutex<DraftProgress>,
}

#[derive(Debug)]
pub(super) struct DraftProgress {
    pub(super) taken: RangeSet,
    pub(super) open: bool,
    pub(super) failed: Option<Error>,
}

impl LocalDraft {
    /// Creates a draft of an open file with no ranges taken.
    pub(super) fn new(
        (path, name): (&EntryPath, &[u8]),
        kind: DraftKind,
        directory: &Arc<OwnedFd>,
        file: OwnedFd,
        owner: Owner,
        size_bytes: u64,
    ) -> Self {
        Self {
            path: path.clone(),
            name: name.to_vec(),
            kind,
            directory: Arc::clone(directory),
            draft_name: None,
            sparse: false,
            allocated: false,
            pending: AtomicBool::new(false),
            file,
            direct: None,
            old: None,
            shares_old: false,
            turn: Mutex::new(()),
            goes_on: false,
            is_joined: false,
            shared_journal: None,
            disk: None,
            owner,
            stability: Stability::Flushed,
            replaces: false,
            size_bytes: AtomicU64::new(size_bytes),
            written_bytes: AtomicU64::new(0),
            streamed_bytes: Mutex::new(0),
            verify_medium: false,
            tagger: None,
            stale: AtomicBool::new(false),
            signed: AtomicBool::new(false),
            holes: AtomicBool::new(false),
            gaps: AtomicBool::new(false),
            journal: None,
            begun: Mutex::new(None),
            progress: Mutex::new(DraftProgress { taken: RangeSet::default(), open: true, failed: None }),
        }
    }

    /// Returns the final path.
    pub fn path(&self) -> &EntryPath {
        &self.path
    }

    /// Returns the final size in bytes, or [`UNKNOWN_BYTES`] as long as it is unknown.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// Sets the final size in bytes, if it was unknown.
    ///
    /// # Errors
    /// `Protocol` if it was known, or if more bytes were already written.
    pub fn set_size(&self, size_bytes: u64) -> Result<()> {
        let progress = self.progress();
        let fits = progress.taken.end() <= size_bytes && size_bytes < UNKNOWN_BYTES;
        if !fits || self.size_bytes() != UNKNOWN_BYTES {
            return Err(refusal("a size that cannot be").at(&self.path));
        }
        self.size_bytes.store(size_bytes, Ordering::Release);
        Ok(())
    }

    /// Returns the number of bytes that have not been written.
    pub fn missing_bytes(&self) -> u64 {
        self.size_bytes().saturating_sub(self.written_bytes.load(Ordering::Acquire))
    }

    /// Returns the number of bytes for which space is still needed.
    pub(crate) fn needed_bytes(&self) -> u64 {
        // The amount of data in a sparse file is unknown, as is the amount that stays shared with the old file.
        let unknown = self.sparse || self.shares_old || self.size_bytes() == UNKNOWN_BYTES;
        if self.allocated || unknown { 0 } else { self.missing_bytes() }
    }

    /// Returns true if it accepts writes.
    pub(crate) fn is_open(&self) -> bool {
        self.progress().open
    }

    /// Writes consecutive slices, beginning at `offset`. After a write error, the draft can no longer be finished.
    ///
    /// # Errors
    /// `Protocol` for bytes beyond the size, or bytes already written; otherwise those of the system, including
    /// `NoSpace`.
    pub fn write_all_at(&self, offset: u64, slices: &[&[u8]]) -> Result<()> {
        let length: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        if length == 0 {
            return Ok(());
        }
        self.take(offset, length)?;
        let mut at = offset;
        let done = match self.sparse {
            false => self.write(offset, slices),
            true => slices.iter().try_for_each(|slice| {
                let begin = at;
                at += slice.len() as u64;
                self.write_content(begin, slice)
            }),
        };
        self.wrote(length, done)
    }

    /// Counts written bytes, or stores the error of writing.
    pub(super) fn wrote(&self, length: u64, done: Result<(), Errno>) -> Result<()> {
        match done {
            Ok(()) => {
                self.written_bytes.fetch_add(length, Ordering::AcqRel);
                Ok(())
            }
            Err(errno) => {
                let error = match (self.kind, errno) {
                    (DraftKind::Stream, errno) => stream_fault(errno),
                    (DraftKind::Device, Errno::NOSPC) => {
                        let words = "the disk ends here, and more is to be written";
                        Error::new(ErrorKind::Io, "writing", words)
                    }
                    (_, errno) => write_fault(errno),
                };
                let error = error.at(&self.path);
                self.progress().failed.get_or_insert_with(|| error.clone());
                Err(error)
            }
        }
    }

    /// Shares the blocks of a whole file instead of writing.
    ///
    /// # Errors
    /// `Unsupported` if the file systems do not support that. Nothing was written then.
    pub(crate) fn share_blocks(&self, from: &OwnedFd) -> Result<()> {
        let size_bytes = self.size_bytes();
        self.take(0, size_bytes)?;
        let undo = |kind, words: &str| {
            self.progress().taken.give_back(0, size_bytes);
            Err(Error::new(kind, "sharing blocks", words).at(&self.path))
        };
        if self.kind != DraftKind::File {
            return undo(ErrorKind::Unsupported, "it is no new file");
        }
        match ioctl_ficlone(&self.file, from) {
            Ok(()) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => return undo(ErrorKind::NoSpace, "the file system is full"),
            Err(_) => return undo(ErrorKind::Unsupported, "the file systems cannot do it"),
        }
        let size = fstat(&self.file).map_err(|errno| fault("looking at the draft", errno))?.st_size;
        if u64::try_from(size) != Ok(size_bytes) {
            let error = Error::new(ErrorKind::SourceChanged, "sharing blocks", "its size changed");
            return Err(error.at(&self.path));
        }
        self.written_bytes.fetch_add(size_bytes, Ordering::AcqRel);
        Ok(())
    }

    /// Marks written bytes as not written, because a check found them wrong or incomplete. They will be written again.
    ///
    /// # Errors
    /// `Protocol` if these bytes were not written.
    pub fn write_again(&self, offset: u64, length: u64) -> Result<()> {
        let mut progress = self.progress();
        let end = offset.saturating_add(length);
        if !progress.open || !progress.taken.give_back(offset, end) {
            return Err(refusal("bytes that were not written").at(&self.path));
        }
        self.written_bytes.fetch_sub(length, Ordering::AcqRel);
        Ok(())
    }

    /// Marks the draft as failed, so that it can no longer be finished. The first error is kept.
    pub fn fail(&self, error: Error) {
        self.progress().failed.get_or_insert(error);
    }

    /// Checks that everything written so far is right.
    ///
    /// # Errors
    /// The error of an earlier write, or the one passed to [`LocalDraft::fail`].
    pub fn check(&self) -> Result<()> {
        match &self.progress().failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Takes a range for writing. Each byte can be taken once.
    pub(super) fn take(&self, offset: u64, length: u64) -> Result<()> {
        let end = offset.checked_add(length).filter(|end| *end <= self.size_bytes());
        let Some(end) = end else { return Err(refusal("bytes beyond the file's size").at(&self.path)) };
        if self.kind == DraftKind::Compare {
            return Err(refusal("bytes for something that is only compared").at(&self.path));
        }
        let mut progress = self.progress();
        if !progress.open {
            return Err(closed().at(&self.path));
        }
        if let Some(error) = &progress.failed {
            return Err(error.clone());
        }
        if !progress.taken.take(offset, end) {
            return Err(refusal("bytes that were written before").at(&self.path));
        }
        Ok(())
    }

    pub(super) fn write(&self, mut offset: u64, slices: &[&[u8]]) -> Result<(), Errno> {
        let whole_blocks = [slices.first().map_or(&[][..], |slice| &slice[..slice.len() & !4_095])];
        let slices = if planted("last-block-dropped") { &whole_blocks } else { slices };
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

    /// Stops accepting writes. Returns false if it had stopped before.
    pub(crate) fn close(&self) -> bool {
        std::mem::replace(&mut self.progress().open, false)
    }

    /// Discards the draft, unless another lane has closed it. With `keep`, progress that a later run can use is kept.
    pub(crate) fn abandon(&self, keep: bool) -> bool {
        let open = self.close();
        if open {
            self.discard(keep);
        }
        open
    }

    /// Discards an unfinished draft. With `keep`, progress that a later run can use is kept.
    pub(super) fn discard(&self, keep: bool) {
        // Whoever has the work of another lease goes on with a draft that several runs write.
        if keep && (self.is_joined || self.keep()) {
            return;
        }
        // The journal is removed last, because it proves that the other file is a draft.
        if let Some(name) = &self.draft_name
            && self.pending.swap(false, Ordering::AcqRel)
        {
            let _ = unlinkat(&self.directory, name.as_bytes(), AtFlags::empty());
        }
        if let Some(journal) = self.journal() {
            journal.remove();
        }
        self.forget_shared_journal();
    }

    /// Removes the journal of the run that has begun the draft.
    pub(super) fn forget_shared_journal(&self) {
        if let Some(name) = self.shared_journal {
            remove(&self.directory, name);
        }
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, DraftProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn journal(&self) -> Option<MutexGuard<'_, Journal>> {
        self.journal.as_ref().map(|journal| journal.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for LocalDraft {
    fn drop(&mut self) {
        if self.close() || self.pending.load(Ordering::Acquire) {
            self.discard(true);
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::NotFound, "writing", "the draft is closed")
}

pub(super) fn refusal(words: &str) -> Error {
    Error::new(ErrorKind::Protocol, "writing", words)
}

/// Returns the error for a failed write to a stream.
fn stream_fault(errno: Errno) -> Error {
    match errno {
        Errno::PIPE => Error::new(ErrorKind::Io, "writing", "broken pipe: its reader has exited"),
        Errno::CANCELED => Error::new(ErrorKind::Cancelled, "writing", "stopped as asked"),
        Errno::SPIPE => Error::new(ErrorKind::Protocol, "writing", "bytes came out of order"),
        other => write_fault(other),
    }
}
