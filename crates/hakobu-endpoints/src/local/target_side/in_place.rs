//! Operations on drafts beyond plain writing: direct I/O, zeros, kept ranges, and journal records.

use std::io::IoSliceMut;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use hakobu_core::digest::{BlockValue, Digest};
use hakobu_core::endpoint::{DraftKind, EarlierWork};
use hakobu_core::extent::{CHUNK_BYTES, Extent};
use hakobu_core::tag::Tagger;
use hakobu_core::zeros::{ZEROS, is_zero};
use hakobu_core::{Result, tag};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fdatasync};
use rustix::io::{Errno, preadv, pwrite, retry_on_intr};

use super::draft::{LocalDraft, refusal};
use crate::local::aligned::{ALIGNMENT, AlignedBuffer};
use crate::local::errno::{fault, write_fault};
use crate::local::journal;
use crate::local::positioned::read_at;

impl LocalDraft {
    /// Returns what the engine has to know if each chunk must be completed by an operation.
    pub(crate) fn begun(&self) -> Option<EarlierWork> {
        let earlier = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        let completes = self.kind.is_there() || self.journal.is_some() || self.verify_medium;
        earlier.or_else(|| completes.then(EarlierWork::default))
    }

    /// Returns true if lanes write in large aligned steps: by direct I/O, or to a stream, which cannot be rewritten.
    pub(crate) fn in_steps(&self) -> bool {
        self.direct.is_some() || self.is_stream()
    }

    /// Returns true if everything is read back from the medium.
    pub(crate) fn verifies_medium(&self) -> bool {
        self.verify_medium
    }

    /// Writes bytes of a taken range from an aligned buffer.
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
            // The last bytes of an image may not fill a sector.
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
                // Some file systems accept opening for direct I/O but not every write.
                Err(Errno::INVAL) => return self.write(offset, &[bytes]),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Reads up to `length` bytes of the draft, as many as there are.
    pub(crate) fn read_at<'a>(
        &self,
        offset: u64,
        length: usize,
        buffer: &'a mut AlignedBuffer,
    ) -> Result<&'a [u8]> {
        self.read_through(self.direct.as_ref(), &self.file, (offset, length), buffer)
    }

    /// Reads up to `length` bytes of another file, as many as there are.
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

    /// Flushes a range to the medium and drops it from the page cache, so that it is read back from the medium.
    pub(crate) fn drop_cache(&self, extent: Extent) -> Result<()> {
        if self.direct.is_none() {
            fdatasync(&self.file).map_err(|errno| fault("flushing", errno).at(&self.path))?;
            let length = std::num::NonZeroU64::new(extent.length);
            // If the system keeps it cached, the check still compares what the system has.
            let _ = fadvise(&self.file, extent.offset, length, Advice::DontNeed);
        }
        Ok(())
    }

    /// Makes a range that was taken read as zeros.
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

    /// Makes a hole that is guaranteed to read as zeros; if that is not possible, zeros are written by the device, or
    /// else by this process. On a block device the kernel ensures this, see fallocate(2) and `BLKZEROOUT`. A mere
    /// discard guarantees nothing and is never used.
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

    /// Records that the present content is queried. From now on ranges that were not written may be kept.
    pub(crate) fn begin_signing(&self) -> Result<()> {
        if !self.kind.is_there() {
            return Err(refusal("a draft was not there before").at(&self.path));
        }
        self.signed.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns the tagger for values of pieces and blocks, if these are tags.
    pub(super) fn tagger(&self) -> Option<&Tagger> {
        self.tagger.as_ref()
    }

    /// Returns true if this is a new file that copies equal ranges from the old one.
    pub(super) fn is_update(&self) -> bool {
        self.kind == DraftKind::Update
    }

    /// Returns the value of a piece, by which it is compared.
    pub(crate) fn piece_value(&self, offset: u64, bytes: &[u8]) -> Result<Digest> {
        tag::piece_value(self.tagger.as_ref(), self.size_bytes(), offset, bytes)
    }

    /// Returns the value of a block.
    pub(crate) fn block_value(&self, bytes: &[u8]) -> Result<BlockValue> {
        tag::block_value(self.tagger.as_ref(), bytes)
    }

    /// Returns the old file on which the draft is based.
    pub(crate) fn old(&self) -> Option<&OwnedFd> {
        self.old.as_ref()
    }

    /// Returns the previous content: the old file, or the draft itself.
    pub(crate) fn there(&self) -> &OwnedFd {
        self.old.as_ref().unwrap_or(&self.file)
    }

    /// Returns the old file if equal ranges must be copied from it, which is not the case if its blocks are shared.
    pub(crate) fn old_to_take_over(&self) -> Option<&OwnedFd> {
        self.old.as_ref().filter(|_| !self.shares_old)
    }

    /// Waits for this lane's turn to copy a range from the old file. The kernel allows one writer per file at a time
    /// and lets others spin, so it is better to sleep. Returns `None` if there is nothing to wait for.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.old_to_take_over()?;
        Some(self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies bytes of the old file at the beginning of a range into the draft, where they can be kept or overwritten.
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
        // Take the turn once for all pieces, because each release wakes a waiting lane.
        let _turn = self.turn();
        let done = extent.filled(bytes).try_for_each(|(piece, bytes)| match is_zero(bytes) {
            // A new draft reads as zeros here. One of an earlier run may not.
            true if !self.goes_on => Ok(()),
            _ => self.write_content(piece.offset, bytes),
        });
        done.map_err(|errno| {
            let error = write_fault(errno).at(&self.path);
            self.fail(error.clone());
            error
        })
    }

    /// Returns true if the draft gets its length when it is finished, so that zeros at its end do not exist yet.
    pub(crate) fn grows_in_the_end(&self) -> bool {
        self.kind.is_new_file() || self.kind == DraftKind::InPlace
    }

    /// Counts a whole range as done. Parts that were not written are kept, if that is allowed.
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

    /// Adds a range to the journal, if there is one, once it is on stable storage.
    pub(crate) fn remember(&self, extent: Extent, value: Option<Digest>) -> Result<()> {
        let whole = extent.offset.is_multiple_of(CHUNK_BYTES) && extent.length.is_multiple_of(CHUNK_BYTES);
        let Some(mut journal) = self.journal().filter(|_| whole) else { return Ok(()) };
        let written = journal.wrote(extent, value);
        if written.is_empty() {
            return Ok(());
        }
        // Other lanes continue meanwhile.
        drop(journal);
        self.flush_data()?;
        let Some(mut journal) = self.journal() else { return Ok(()) };
        journal.record(&written)?;
        let file = journal.file();
        drop(journal);
        journal::flush(&file);
        Ok(())
    }

    /// Marks a wrong range to be written again, for example if the medium did not keep it. Zeros must then be written
    /// too.
    pub(crate) fn repair(&self, extent: Extent) -> Result<()> {
        self.stale.store(true, Ordering::Release);
        self.write_again(extent.offset, extent.length)
    }

    /// Records that a range is wrong and must be retried by a later run.
    pub(crate) fn leave_gap(&self) -> Result<()> {
        self.gaps.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn flush_data(&self) -> Result<()> {
        fdatasync(&self.file).map_err(|errno| fault("flushing", errno).at(&self.path))
    }

    /// Keeps the progress that a later run can use. Returns true if there is any.
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

/// Reads until `length` bytes are read or the file ends, by direct I/O if `direct` is given. A read may return fewer
/// bytes than requested at any point; only a read of zero bytes is the end.
fn fill(
    direct: Option<&OwnedFd>,
    file: &OwnedFd,
    (offset, length): (u64, usize),
    buffer: &mut AlignedBuffer,
) -> Result<usize, Errno> {
    let length = length.min(buffer.bytes().len());
    let asked = length.next_multiple_of(ALIGNMENT).min(buffer.bytes().len());
    let mut filled = 0;
    // After a read that ends unaligned, normal I/O continues.
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
        // The kernel returns this file one page at a time, and of a page only whole lines.
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
