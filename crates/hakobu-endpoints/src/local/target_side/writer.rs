//! Writes to a draft from one lane: directly into files, and in large steps by direct I/O on devices.

use std::sync::Arc;

use hakobu_core::checksum::Crc64;
use hakobu_core::digest::{BlockValue, Digest};
use hakobu_core::extent::{BLOCK_BYTES, CHUNK_BYTES, Extent, PIECE_BYTES};
use hakobu_core::zeros::{ZEROS, is_zero};
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::fstat;

use super::draft::LocalDraft;
use super::recent_tags::RecentTags;
use crate::local::aligned::{AlignedBuffer, STEP_BYTES};
use crate::local::errno::fault;
use crate::local::holes::Holes;

/// The state of one lane for a draft.
#[derive(Debug)]
pub struct DraftWriter {
    draft: Arc<LocalDraft>,
    step: PendingWrite,
    /// The ranges written since the last chunk was completed, to be read back from the medium.
    written: Vec<WrittenRange>,
    /// A buffer for pieces that are assembled before they are written.
    whole: Vec<u8>,
    /// The tags computed last.
    signed: RecentTags,
    /// The holes of the existing content.
    holes: Holes,
    /// True if an assembled piece of the current chunk has a wrong value.
    wrong: bool,
}

/// Bytes that wait to be written in one step.
#[derive(Debug, Default)]
struct PendingWrite {
    buffer: Option<AlignedBuffer>,
    begin: u64,
    filled: usize,
}

/// A written range of at most one piece, or a range of zeros.
#[derive(Debug)]
struct WrittenRange {
    extent: Extent,
    /// The checksum; `None` for zeros.
    crc: Option<Crc64>,
}

impl DraftWriter {
    pub(crate) fn new(draft: Arc<LocalDraft>) -> Self {
        Self {
            draft,
            step: PendingWrite::default(),
            written: Vec::new(),
            whole: Vec::new(),
            signed: RecentTags::default(),
            holes: Holes::default(),
            wrong: false,
        }
    }

    /// Returns the draft.
    pub fn draft(&self) -> &Arc<LocalDraft> {
        &self.draft
    }

    /// Writes bytes that were not written before. Buffered bytes are written by [`DraftWriter::flush`] at the latest.
    ///
    /// # Errors
    /// Those of [`LocalDraft::write_all_at`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.draft.verifies_medium() {
            self.remember(offset, bytes);
        }
        if !self.draft.in_steps() {
            return self.draft.write_all_at(offset, &[bytes]);
        }
        self.draft.take(offset, bytes.len() as u64)?;
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            if self.step.filled == STEP_BYTES || self.step.begin + self.step.filled as u64 != offset {
                self.flush()?;
                self.step.begin = offset;
            }
            let buffer = self.step.buffer.get_or_insert_with(AlignedBuffer::new);
            let room = &mut buffer.bytes_mut()[self.step.filled..];
            let length = room.len().min(rest.len());
            room[..length].copy_from_slice(&rest[..length]);
            self.step.filled += length;
            offset += length as u64;
            rest = &rest[length..];
        }
        Ok(())
    }

    /// Records bytes to be read back. Consecutive slices are merged into one piece.
    fn remember(&mut self, offset: u64, bytes: &[u8]) {
        let length = bytes.len() as u64;
        if let Some(WrittenRange { extent, crc: Some(crc) }) = self.written.last_mut()
            && extent.end() == offset
            && !offset.is_multiple_of(PIECE_BYTES)
        {
            crc.update(bytes);
            extent.length += length;
            return;
        }
        let mut crc = Crc64::default();
        crc.update(bytes);
        self.written.push(WrittenRange { extent: Extent { offset, length }, crc: Some(crc) });
    }

    /// Writes the buffered bytes.
    ///
    /// # Errors
    /// Those of the system. The draft can no longer be finished then.
    pub fn flush(&mut self) -> Result<()> {
        let filled = std::mem::take(&mut self.step.filled);
        match &self.step.buffer {
            Some(buffer) if filled > 0 => self.draft.put(self.step.begin, &buffer.bytes()[..filled]),
            _ => Ok(()),
        }
    }

    /// Makes a range read as zeros.
    ///
    /// # Errors
    /// As for [`DraftWriter::write`].
    pub fn zero(&mut self, extent: Extent) -> Result<()> {
        self.flush()?;
        self.draft.take(extent.offset, extent.length)?;
        if self.draft.verifies_medium() {
            self.written.push(WrittenRange { extent, crc: None });
        }
        self.draft.make_zero(extent)
    }

    /// Returns the current values of the pieces in a range. A missing piece has a value that no content has.
    ///
    /// # Errors
    /// `Protocol` for an invalid range, or a draft without previous content; otherwise those of the system.
    pub fn sign(&mut self, extent: Extent) -> Result<Vec<Digest>> {
        self.check_range(extent, CHUNK_BYTES)?;
        self.draft.begin_signing()?;
        self.flush()?;
        let mut values = Vec::with_capacity(extent.length.div_ceil(PIECE_BYTES) as usize);
        let draft = Arc::clone(&self.draft);
        let old = draft.old_to_take_over();
        let mut signed = std::mem::take(&mut self.signed);
        signed.begin(extent);
        self.read(old, extent, STEP_BYTES as u64, |step, bytes| {
            for (piece, bytes) in step.filled(bytes) {
                values.push(match draft.tagger() {
                    _ if bytes.len() as u64 != piece.length => [0; 32],
                    Some(tagger) => {
                        let tags = tagger.blocks_of(bytes)?;
                        signed.push(tags);
                        tagger.piece(&tags)?
                    }
                    None => draft.piece_value(piece.offset, bytes)?,
                });
            }
            match old {
                Some(_) => draft.take_over(step, bytes),
                None => Ok(()),
            }
        })?;
        self.signed = signed;
        Ok(values)
    }

    /// Returns the end of the hole at the beginning of a range of the existing content, or the range's beginning if
    /// there is data. The range can then be kept up to that end.
    ///
    /// # Errors
    /// `Protocol` for an invalid range, or a draft without previous content; otherwise those of the system.
    pub fn hole_until(&mut self, extent: Extent) -> Result<u64> {
        self.check_range(extent, u64::MAX)?;
        self.draft.begin_signing()?;
        self.flush()?;
        let file = self.draft.there();
        let size_bytes = fstat(file).map_err(|errno| fault("looking at the target", errno))?.st_size;
        let size_bytes = u64::try_from(size_bytes).unwrap_or(0);
        if extent.offset >= size_bytes {
            return Ok(extent.offset);
        }
        let extent = Extent { length: extent.length.min(size_bytes - extent.offset), ..extent };
        Ok(self.holes.hole_until(file, extent, size_bytes))
    }

    /// Returns the values of the blocks of one piece. A missing block has a value that no content has.
    ///
    /// # Errors
    /// As for [`DraftWriter::sign`].
    pub fn sign_blocks(&mut self, extent: Extent) -> Result<Vec<BlockValue>> {
        self.check_range(extent, PIECE_BYTES)?;
        self.draft.begin_signing()?;
        if let Some((tagger, tags)) = self.draft.tagger().zip(self.signed.find(extent)) {
            return Ok(tagger.blocks(tags).collect());
        }
        self.flush()?;
        let mut values = Vec::with_capacity(extent.length.div_ceil(BLOCK_BYTES) as usize);
        let draft = Arc::clone(&self.draft);
        self.read(None, extent, BLOCK_BYTES, |block, bytes| {
            let whole = bytes.len() as u64 == block.length;
            values.push(if whole { draft.block_value(bytes)? } else { [0; 16] });
            Ok(())
        })?;
        Ok(values)
    }

    /// Writes some blocks of a piece that was signed. `changed` has one bit for each block, the lowest for the first,
    /// and `bytes` has their contents. `value` is the resulting value of the piece.
    ///
    /// # Errors
    /// `Protocol` for invalid blocks; `Corrupt` if the piece would have another value, because the existing content has
    /// changed; otherwise as for [`DraftWriter::write`]. The draft can no longer be finished then.
    pub fn patch(&mut self, extent: Extent, changed: u64, bytes: &[u8], value: Digest) -> Result<()> {
        let patched = self
            .check_range(extent, PIECE_BYTES)
            .and_then(|()| self.patch_piece(extent, changed, bytes, value));
        patched.inspect_err(|error| self.draft.fail(error.clone()))
    }

    fn patch_piece(&mut self, extent: Extent, changed: u64, bytes: &[u8], value: Digest) -> Result<()> {
        let length: u64 = blocks(extent, changed).map(|(_, block)| block.length).sum();
        let last = extent.length.div_ceil(BLOCK_BYTES) as u32;
        if length != bytes.len() as u64 || changed == 0 || u64::BITS - changed.leading_zeros() > last {
            let error = Error::new(ErrorKind::Protocol, "writing", "blocks that cannot be");
            return Err(error.at(self.draft.path()));
        }
        let found = match self.patched_tags(extent, changed, bytes)? {
            Some(found) => found,
            None => self.patched_value(extent, changed, bytes)?,
        };
        if found != value {
            let words = "it has changed since it was compared";
            return Err(Error::new(ErrorKind::Corrupt, "writing", words).at(self.draft.path()));
        }
        let draft = Arc::clone(&self.draft);
        let _turn = draft.turn();
        parts(extent, changed, bytes).try_for_each(|(_, block, bytes)| self.write(block.offset, bytes))
    }

    /// Returns the resulting value of a piece from the tags of the signed content, which is a new file's own copy that
    /// nobody else writes to. Returns `None` if the tags are not known.
    fn patched_tags(&self, extent: Extent, changed: u64, bytes: &[u8]) -> Result<Option<Digest>> {
        let known = self.draft.tagger().zip(self.signed.find(extent)).filter(|_| self.draft.is_update());
        let Some((tagger, tags)) = known else { return Ok(None) };
        let mut tags = *tags;
        for (index, _, bytes) in parts(extent, changed, bytes) {
            tagger.replace(&mut tags, index, bytes)?;
        }
        tagger.piece(&tags).map(Some)
    }

    /// Returns the resulting value of a piece by reading it.
    fn patched_value(&mut self, extent: Extent, changed: u64, bytes: &[u8]) -> Result<Digest> {
        self.flush()?;
        // The buffer is reused from one patch to the next.
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        self.read(None, extent, PIECE_BYTES, |_, bytes| {
            whole.extend_from_slice(bytes);
            Ok(())
        })?;
        whole.resize(extent.length as usize, 0);
        for (_, block, bytes) in parts(extent, changed, bytes) {
            let begin = (block.offset - extent.offset) as usize;
            whole[begin..begin + bytes.len()].copy_from_slice(bytes);
        }
        let value = self.draft.piece_value(extent.offset, &whole);
        self.whole = whole;
        value
    }

    /// Returns a buffer of `length` bytes with arbitrary contents.
    pub(super) fn room(&mut self, length: usize) -> &mut [u8] {
        if self.whole.len() < length {
            self.whole.resize(length, 0);
        }
        &mut self.whole[..length]
    }

    /// Takes the buffer, to write from it.
    pub(super) fn take_room(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.whole)
    }

    /// Returns the buffer.
    pub(super) fn return_room(&mut self, room: Vec<u8>) {
        self.whole = room;
    }

    /// Records that an assembled piece of the current chunk has a wrong value.
    pub(super) fn is_wrong(&mut self) {
        self.wrong = true;
    }

    /// Refuses a range that is longer than `length_max`, does not begin at a piece, or is not within the draft.
    pub(super) fn check_range(&self, extent: Extent, length_max: u64) -> Result<()> {
        let end = extent.offset.checked_add(extent.length).filter(|end| *end <= self.draft.size_bytes());
        if end.is_some() && extent.offset.is_multiple_of(PIECE_BYTES) && extent.length <= length_max {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Protocol, "reading the target", "a range that is none"))
    }

    /// Completes a range that was written, made zero, or kept.
    ///
    /// # Errors
    /// `Corrupt` if the medium does not return what was written, or if assembled pieces have a wrong value. The range
    /// must then be written again.
    pub fn complete(&mut self, extent: Extent, value: Option<Digest>, kept: bool) -> Result<()> {
        self.flush()?;
        let written = std::mem::take(&mut self.written);
        self.draft.check()?;
        self.draft.cover(extent)?;
        if std::mem::take(&mut self.wrong) {
            self.draft.repair(extent)?;
            let words = "the file that it is made of has changed since it was compared";
            return Err(Error::new(ErrorKind::Corrupt, "writing", words).at(self.draft.path()));
        }
        if self.draft.verifies_medium()
            && let Err(error) = self.read_back(&written)
        {
            self.draft.repair(extent)?;
            return Err(error);
        }
        if kept { self.draft.remember(extent, value) } else { self.draft.leave_gap() }
    }

    fn read_back(&mut self, written: &[WrittenRange]) -> Result<()> {
        let Some((first, last)) = written.first().zip(written.last()) else { return Ok(()) };
        self.draft.drop_cache(Extent {
            offset: first.extent.offset,
            length: last.extent.end().saturating_sub(first.extent.offset),
        })?;
        for WrittenRange { extent, crc } in written {
            let mut read = Crc64::default();
            let (mut length, mut zeros) = (0, true);
            self.read(None, *extent, STEP_BYTES as u64, |_, bytes| {
                length += bytes.len() as u64;
                match crc {
                    Some(_) => read.update(bytes),
                    None => zeros &= is_zero(bytes),
                }
                Ok(())
            })?;
            // Zeros at the end of a draft do not exist yet.
            let missing = extent.length.saturating_sub(length).min(PIECE_BYTES);
            if crc.is_some() && self.draft.grows_in_the_end() {
                read.update(&ZEROS[..missing as usize]);
                length += missing;
            }
            let right = match crc {
                Some(crc) => length == extent.length && crc.value() == read.value(),
                None => zeros && (length == extent.length || self.draft.grows_in_the_end()),
            };
            if !right {
                let words = format!(
                    "the medium returned other data than was written: {} bytes from offset {}",
                    extent.length, extent.offset
                );
                let error = Error::new(ErrorKind::Corrupt, "reading back", words);
                return Err(error.at(self.draft.path()));
            }
        }
        Ok(())
    }

    /// Reads a range of the draft, or of the old file, in steps. `each` receives parts of at most `part` bytes, the
    /// last of which may be short at the end of the file.
    fn read(
        &mut self,
        old: Option<&OwnedFd>,
        extent: Extent,
        part: u64,
        mut each: impl FnMut(Extent, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let buffer = self.step.buffer.get_or_insert_with(AlignedBuffer::new);
        let mut offset = extent.offset;
        while offset < extent.end() {
            let length = (extent.end() - offset).min(STEP_BYTES as u64);
            let bytes = match old {
                Some(old) => self.draft.read_from(old, offset, length as usize, buffer)?,
                None => self.draft.read_at(offset, length as usize, buffer)?,
            };
            let mut at = 0;
            while at < length {
                let piece = Extent { offset: offset + at, length: part.min(length - at) };
                let begin = bytes.len().min(at as usize);
                let end = bytes.len().min((at + piece.length) as usize);
                each(piece, &bytes[begin..end])?;
                at += piece.length;
            }
            offset += length;
        }
        Ok(())
    }
}

/// Returns the blocks of a piece that are set in `changed`, with their numbers.
fn blocks(extent: Extent, changed: u64) -> impl Iterator<Item = (usize, Extent)> {
    extent.blocks().enumerate().filter(move |(index, _)| changed & 1 << index != 0)
}

/// Returns the blocks that are set in `changed`, with their contents from `bytes`, where they are concatenated.
fn parts(extent: Extent, changed: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, Extent, &[u8])> {
    blocks(extent, changed).scan(bytes, |rest, (index, block)| {
        let (part, more) = rest.split_at_checked(block.length as usize)?;
        *rest = more;
        Some((index, block, part))
    })
}
