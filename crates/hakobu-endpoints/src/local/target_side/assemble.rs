//! Assembles pieces of a draft from ranges of the old file at other offsets.

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::block_table::{COPIES_MAX, Copied, is_block_length, sums};
use hakobu_core::digest::Digest;
use hakobu_core::extent::{CHUNK_BYTES, Extent};
use rustix::fd::OwnedFd;

use super::draft::refusal;
use super::writer::DraftWriter;
use crate::local::errno::fault;
use crate::local::positioned::read_at;

impl DraftWriter {
    /// Returns the checksums of the whole blocks in a range of the old file.
    ///
    /// # Errors
    /// `Protocol` for an invalid range or block length, or if the draft has no old file; otherwise system errors.
    pub fn sum_old(&mut self, range: Extent, block_bytes: u64) -> Result<Vec<u64>> {
        let draft = Arc::clone(self.draft());
        let sound = range.offset.is_multiple_of(CHUNK_BYTES)
            && range.length <= CHUNK_BYTES
            && range.offset.checked_add(range.length).is_some_and(|end| i64::try_from(end).is_ok())
            && is_block_length(block_bytes);
        let Some(old) = draft.old().filter(|_| sound) else {
            return Err(refusal("sums that cannot be").at(draft.path()));
        };
        draft.begin_signing()?;
        let room = self.room(range.length as usize);
        let filled = read_old(old, range.offset, room).map_err(|error| error.at(draft.path()))?;
        Ok(sums(&room[..filled], block_bytes as usize).collect())
    }

    /// Writes pieces that consist of ranges of the old file, in order, and of the bytes between them. `value` is the
    /// BLAKE3 of the values that the pieces must have. [`DraftWriter::complete`] reports pieces with another value.
    ///
    /// # Errors
    /// `Protocol` for invalid ranges; otherwise errors of the system. The draft can no longer be finished then.
    pub fn assemble(&mut self, extent: Extent, copies: &[Copied], bytes: &[u8], value: Digest) -> Result<()> {
        let assembled = self
            .check_range(extent, CHUNK_BYTES)
            .and_then(|()| check_copies(extent, copies, bytes.len() as u64))
            .and_then(|()| self.assemble_pieces(extent, copies, bytes, value));
        assembled.map_err(|error| {
            let error = error.at(self.draft().path());
            self.draft().fail(error.clone());
            error
        })
    }

    fn assemble_pieces(
        &mut self,
        extent: Extent,
        mut copies: &[Copied],
        mut bytes: &[u8],
        value: Digest,
    ) -> Result<()> {
        let draft = Arc::clone(self.draft());
        let Some(old) = draft.old() else { return Err(refusal("a draft that is made of nothing")) };
        let mut values = blake3::Hasher::new();
        for piece in extent.pieces() {
            let (begin, end) = (piece.offset - extent.offset, piece.end() - extent.offset);
            let mut at = begin;
            while at < end {
                // Skips ranges that end before this piece.
                while copies.first().is_some_and(|copied| copied.end() <= at) {
                    copies = &copies[1..];
                }
                let next = copies.first().filter(|copied| u64::from(copied.at) < end);
                let stop = match next {
                    Some(copied) if u64::from(copied.at) <= at => copied.end().min(end),
                    Some(copied) => u64::from(copied.at),
                    None => end,
                };
                let part = (at - begin) as usize..(stop - begin) as usize;
                let room = &mut self.room(piece.length as usize)[part];
                match next {
                    Some(copied) if u64::from(copied.at) <= at => {
                        let filled = read_old(old, copied.from + (at - u64::from(copied.at)), room)?;
                        // If the old file has become shorter, the value of the pieces will not match.
                        room[filled..].fill(0);
                    }
                    _ => {
                        let (literal, rest) = bytes.split_at(room.len());
                        room.copy_from_slice(literal);
                        bytes = rest;
                    }
                }
                at = stop;
            }
            let whole = self.take_room();
            let content = &whole[..piece.length as usize];
            values.update(&draft.piece_value(piece.offset, content)?);
            let written = self.write(piece.offset, content);
            self.return_room(whole);
            written?;
        }
        if *values.finalize().as_bytes() != value {
            self.is_wrong();
        }
        Ok(())
    }
}

/// Refuses ranges that are unordered, overlap, lie outside the extent, or do not match the number of bytes.
fn check_copies(extent: Extent, copies: &[Copied], bytes: u64) -> Result<()> {
    let ordered = copies.windows(2).all(|pair| pair[0].end() <= u64::from(pair[1].at));
    let within = copies.last().is_none_or(|last| last.end() <= extent.length);
    let sound = copies.iter().all(|copied| {
        copied.length > 0
            && copied.from.checked_add(u64::from(copied.length)).is_some_and(|end| i64::try_from(end).is_ok())
    });
    let copied: u64 = copies.iter().map(|copied| u64::from(copied.length)).sum();
    if ordered
        && within
        && sound
        && copies.len() <= COPIES_MAX
        && copied.checked_add(bytes) == Some(extent.length)
    {
        return Ok(());
    }
    Err(refusal("pieces that cannot be put together"))
}

/// Reads as many bytes as there are.
fn read_old(old: &OwnedFd, offset: u64, room: &mut [u8]) -> Result<usize> {
    read_at(old, offset, room).map_err(|errno| fault("reading the old file", errno))
}
