//! Drafts as their lanes use them beyond plain writing: steps past the page cache, zeros, what is
//! kept, and what the journal remembers.

use std::io::IoSliceMut;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use hakobu_core::digest::{BlockValue, Digest};
use hakobu_core::endpoint::{Begun, DraftKind};
use hakobu_core::extent::{CHUNK_BYTES, Extent};
use hakobu_core::tag::Tagger;
use hakobu_core::zeros::{ZEROS, is_zero};
use hakobu_core::{Result, tag};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fdatasync};
use rustix::io::{Errno, preadv, pwrite, retry_on_intr};

use super::draft::{Draft, refusal};
use crate::local::aligned::{ALIGNMENT, AlignedBuffer};
use crate::local::fault::{fault, write_fault};
use crate::local::journal;
use crate::local::positioned::read_at;

impl Draft {
    /// What the engine has to know, where each chunk is to be completed by an operation.
    pub(crate) fn begun(&self) -> Option<Begun> {
        let earlier = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        let completes = self.kind.is_there() || self.journal.is_some() || self.verify_medium;
        earlier.or_else(|| completes.then(Begun::default))
    }

    /// Whether lanes write in large aligned steps: past the page cache, or to a stream, of which
    /// nothing can be taken back.
    pub(crate) fn in_steps(&self) -> bool {
        self.direct.is_some() || self.is_stream()
    }

    /// Whether everything is read back from the medium.
    pub(crate) fn verifies_medium(&self) -> bool {
        self.verify_medium
    }

    /// Writes bytes that have been taken, out of an aligned buffer.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.is_stream() {
            self.check()?;
            return self.wrote(bytes.len() as u64, self.write_in_order(offset, bytes));
        }
        let whole = match &self.direct {
            Some(_) if offset.is_multiple_of(ALIGNMENT as u64) => bytes.len() / ALIGNMENT * ALIGNMENT,
            _ => 0,
        };
        let done = self.put_direct(offset, &bytes[..whole]).and_then(|()| match &bytes[whole..] {
            [] => Ok(()),
            // The last bytes of an image need not fill a sector.
            rest => self.write(offset + whole as u64, &[rest]),
        });
        self.wrote(bytes.len() as u64, done)
    }

    fn put_direct(&self, mut offset: u64, mut bytes: &[u8]) -> Result<(), Errno> {
        let Some(direct) = &self.direct else { return Ok(()) };
        while !bytes.is_empty() {
            match retry_on_intr(|| pwrite(direct, bytes, offset)) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(written) => {
                    offset += written as u64;
                    bytes = &bytes[written..];
                }
                // Not every file system that opens files so also writes so.
                Err(Errno::INVAL) => return self.write(offset, &[bytes]),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Reads as much of `length` bytes as there is.
    pub(crate) fn read_at<'a>(
        &self,
        offset: u64,
        length: usize,
        buffer: &'a mut AlignedBuffer,
    ) -> Result<&'a [u8]> {
        self.read_through(self.direct.as_ref(), &self.file, (offset, length), buffer)
    }

    /// The same of another file.
    pub(crate) fn read_from<'a>(
        &self,
        file: &OwnedFd,
        offset: u64,
        length: usize,
        buffer: &'a mut AlignedBuffer,
    ) -> Result<&'a [u8]> {
        self.read_through(None, file, (offset, length), buffer)
    }

    fn read_through<'a>(
        &self,
        direct: Option<&OwnedFd>,
        file: &OwnedFd,
        (offset, length): (u64, usize),
        buffer: &'a mut AlignedBuffer,
    ) -> Result<&'a [u8]> {
        let filled = fill(direct, file, (offset, length), buffer)
            .map_err(|errno| fault("reading the target", errno).at(&self.path))?;
        Ok(&buffer.bytes()[..filled])
    }

    /// Sees that what was written is on the medium, and that reading does not come from memory.
    pub(crate) fn drop_cache(&self, extent: Extent) -> Result<()> {
        if self.direct.is_none() {
            fdatasync(&self.file).map_err(|errno| fault("flushing", errno).at(&self.path))?;
            let length = std::num::NonZeroU64::new(extent.length);
            // Where the system keeps it all the same, the check is still one of what it holds.
            let _ = fadvise(&self.file, extent.offset, length, Advice::DontNeed);
        }
        Ok(())
    }

    /// Makes a range read as zeros that has been taken.
    pub(crate) fn make_zero(&self, extent: Extent) -> Result<()> {
        self.holes.store(true, Ordering::Release);
        let done = match self.kind {
            DraftKind::Sink => Ok(()),
            DraftKind::Stream => self.zeros_in_order(extent),
            DraftKind::File | DraftKind::Update if !self.stale.load(Ordering::Acquire) => Ok(()),
            _ => self.punch(extent),
        };
        self.wrote(extent.length, done)
    }

    /// A hole where reading zeros from it is guaranteed, else zeros written by the device, else by
    /// us. On a block device the kernel itself sees to that, see fallocate(2) and
    /// `BLKZEROOUT`: discarding alone, which guarantees nothing, is never used.
    pub(super) fn punch(&self, extent: Extent) -> Result<(), Errno> {
        let Extent { offset, length } = extent;
        for flags in [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE] {
            match fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset, length) {
                Ok(()) => return Ok(()),
                Err(Errno::NOSPC | Errno::IO) => break,
                Err(_) => {}
            }
        }
        let mut at = offset;
        while at < extent.end() {
            let step = (extent.end() - at).min(ZEROS.len() as u64);
            self.write(at, &[&ZEROS[..step as usize]])?;
            at += step;
        }
        Ok(())
    }

    /// The present content is asked for: from now on ranges that were not written may be kept.
    pub(crate) fn begin_signing(&self) -> Result<()> {
        if !self.kind.is_there() {
            return Err(refusal("a draft was not there before").at(&self.path));
        }
        self.signed.store(true, Ordering::Release);
        Ok(())
    }

    /// What takes the values of its pieces and blocks, where these are tags.
    pub(super) fn tagger(&self) -> Option<&Tagger> {
        self.tagger.as_ref()
    }

    /// Whether it is a new file that takes over what is equal in the old one.
    pub(super) fn is_update(&self) -> bool {
        self.kind == DraftKind::Update
    }

    /// The value of a piece of it, by which it is compared.
    pub(crate) fn piece_value(&self, offset: u64, bytes: &[u8]) -> Result<Digest> {
        tag::piece_value(self.tagger.as_ref(), self.size_bytes(), offset, bytes)
    }

    /// The value of a block.
    pub(crate) fn block_value(&self, bytes: &[u8]) -> Result<BlockValue> {
        tag::block_value(self.tagger.as_ref(), bytes)
    }

    /// The file that this draft is made of.
    pub(crate) fn old(&self) -> Option<&OwnedFd> {
        self.old.as_ref()
    }

    /// What was there before: the file that it is made of, or itself.
    pub(crate) fn there(&self) -> &OwnedFd {
        self.old.as_ref().unwrap_or(&self.file)
    }

    /// The same, where what is equal has to be taken over: not where the blocks are shared already.
    pub(crate) fn old_to_take_over(&self) -> Option<&OwnedFd> {
        self.old.as_ref().filter(|_| !self.shares_old)
    }

    /// Waits until it is this lane's turn to write to what is taken over piece by piece. The kernel lets one write to a file
    /// at a time, and others spin meanwhile: they had better sleep. `None` where there is nothing to wait for.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.old_to_take_over()?;
        Some(self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts what the old file has in a range, or in its beginning, into the draft, where it can be kept or overwritten.
    pub(crate) fn take_over(&self, extent: Extent, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = extent.offset + bytes.len() as u64;
        let mut progress = self.progress();
        if !progress.taken.take(extent.offset, end) || !progress.taken.give_back(extent.offset, end) {
            return Err(refusal("a range that was written before").at(&self.path));
        }
        drop(progress);
        // One turn for all: whoever waits for it is woken each time.
        let _turn = self.turn();
        let done = extent.filled(bytes).try_for_each(|(piece, bytes)| match is_zero(bytes) {
            // Nothing was there before, unless an earlier run has left it.
            true if !self.goes_on => Ok(()),
            _ => self.write_content(piece.offset, bytes),
        });
        done.map_err(|errno| {
            let error = write_fault(errno).at(&self.path);
            self.fail(error.clone());
            error
        })
    }

    /// Whether it gets its length when it is finished, so that zeros at its end are not there yet.
    pub(crate) fn grows_in_the_end(&self) -> bool {
        self.kind.is_new_file() || self.kind == DraftKind::InPlace
    }

    /// Counts all of a range as done: what was not written is kept, where that may be.
    pub(crate) fn cover(&self, extent: Extent) -> Result<()> {
        let end = extent.offset.checked_add(extent.length).filter(|end| *end <= self.size_bytes());
        let end = end.ok_or_else(|| refusal("bytes beyond the file's size").at(&self.path))?;
        let kept = self.progress().taken.fill(extent.offset, end);
        if kept > 0 && !self.signed.load(Ordering::Acquire) {
            return Err(refusal("a range that was not written").at(&self.path));
        }
        self.written_bytes.fetch_add(kept, Ordering::AcqRel);
        Ok(())
    }

    /// Remembers a range in the journal, if there is one, once it is on stable storage.
    pub(crate) fn remember(&self, extent: Extent, value: Option<Digest>) -> Result<()> {
        let whole = extent.offset.is_multiple_of(CHUNK_BYTES) && extent.length.is_multiple_of(CHUNK_BYTES);
        let Some(mut journal) = self.journal().filter(|_| whole) else { return Ok(()) };
        let written = journal.wrote(extent, value);
        if written.is_empty() {
            return Ok(());
        }
        // Other lanes go on meanwhile.
        drop(journal);
        self.flush_data()?;
        let Some(mut journal) = self.journal() else { return Ok(()) };
        journal.record(&written)?;
        let file = journal.file();
        drop(journal);
        journal::flush(&file);
        Ok(())
    }

    /// A range is not what it should be, as when the medium did not keep it: it is to be written again, and zeros have
    /// to be made, too.
    pub(crate) fn repair(&self, extent: Extent) -> Result<()> {
        self.stale.store(true, Ordering::Release);
        self.write_again(extent.offset, extent.length)
    }

    /// A range is not as it should be: a later run has to try it again.
    pub(crate) fn leave_gap(&self) -> Result<()> {
        self.gaps.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn flush_data(&self) -> Result<()> {
        fdatasync(&self.file).map_err(|errno| fault("flushing", errno).at(&self.path))
    }

    /// Keeps what a later run can use. Whether there is anything.
    pub(super) fn keep(&self) -> bool {
        let Some(mut journal) = self.journal() else { return false };
        let written = journal.take_waiting();
        if !written.is_empty() && self.flush_data().is_ok() {
            let _ = journal.record(&written);
        }
        journal::flush(&journal.file());
        journal.is_used()
    }
}

/// Reads until `length` bytes are there or the file ends, past the page cache where `direct` is given. A system may give fewer
/// bytes than it was asked for anywhere: only none are the end.
fn fill(
    direct: Option<&OwnedFd>,
    file: &OwnedFd,
    (offset, length): (u64, usize),
    buffer: &mut AlignedBuffer,
) -> Result<usize, Errno> {
    let length = length.min(buffer.bytes().len());
    let asked = length.next_multiple_of(ALIGNMENT).min(buffer.bytes().len());
    let mut filled = 0;
    // What ends off the alignment is gone on with plainly.
    while let Some(direct) = direct.filter(|_| filled < asked && filled.is_multiple_of(ALIGNMENT)) {
        let room = &mut buffer.bytes_mut()[filled..asked];
        match retry_on_intr(|| preadv(direct, &mut [IoSliceMut::new(room)], offset + filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    let filled = filled.min(length);
    let rest = &mut buffer.bytes_mut()[filled..length];
    Ok(filled + if rest.is_empty() { 0 } else { read_at(file, offset + filled as u64, rest)? })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn a_read_that_gives_fewer_bytes_is_no_end() {
        // The kernel gives this out a page at a time, and of a page only whole lines.
        let name = "/proc/kallsyms";
        let content = fs::read(name).unwrap();
        let file = OwnedFd::from(File::open(name).unwrap());
        let mut buffer = AlignedBuffer::new();
        let length = content.len().min(100_000);
        for direct in [None, Some(&file)] {
            for offset in [0, 4096] {
                let there = length - offset;
                assert_eq!(fill(direct, &file, (offset as u64, there), &mut buffer).unwrap(), there);
                assert_eq!(&buffer.bytes()[..there], &content[offset..length]);
            }
            let end = content.len() as u64 - 5;
            assert_eq!(fill(direct, &file, (end, 4096), &mut buffer).unwrap(), 5);
        }
    }
}
