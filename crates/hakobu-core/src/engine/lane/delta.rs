//! Compares existing content with the source, chunk by chunk. Both sides hash the same ranges at the same time, and
//! differences are sent from the buffer that was just read.
//!
//! If the ends are on different hosts, a piece that differs is compared again in blocks, so that a database that writes
//! pages of a few KiB does not cost a piece for each. The piece's bytes are held until the answer arrives, while the
//! lane continues with the next chunks. A piece with hardly any equal blocks is deferred, because its content may be at
//! another offset of the old file ([`super::moved`]).

use super::chunks::{OpenChunk, PieceContent, UNREADABLE, Values};
use super::*;
use crate::digest::{BlockValue, block_value};
use crate::engine::move_search::PutOff;
use crate::event::{Difference, Different};
use crate::extent::BLOCK_BYTES;
use crate::zeros::is_zero;

/// The number of chunks requested ahead, so that the target hashes while this side does. It is enough for a network
/// path with a long round trip, and no more than the target's lane can hold as answers.
const SIGNS_AHEAD: usize = 16;
/// The number of chunks requested ahead while comparing may end soon: hardly anything is equal, or sending the whole
/// file is still to be tried.
const SIGNS_AHEAD_AT_FIRST: usize = 4;
/// The number of pieces per lane that are held until the blocks that differ are known. It is checked after each chunk,
/// so with the pieces of one more chunk at most 12 MiB are held.
const HELD_MAX: usize = 32;

/// The extent to which chunks were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparedExtent {
    /// Until no chunk was left for this lane.
    All,
    /// Until comparing no longer paid. The rest is sent without comparing.
    Some,
    /// Until the run was stopped.
    Stopped,
}

/// A chunk that is done except for these pieces.
struct PartialChunk {
    extent: Extent,
    values: Values,
    written_bytes: u64,
    unreadable: bool,
    /// The deferred pieces, one bit each.
    left: u16,
    pieces: Vec<HeldPiece>,
}

/// A piece that differs, while the target is asked which of its blocks differ.
struct HeldPiece {
    ticket: Ticket,
    index: usize,
    extent: Extent,
    buffer: PieceBuffer,
    value: Digest,
    /// The tags of its blocks, if the file is compared by tags.
    tags: Option<PieceTags>,
}

impl Worker<'_> {
    /// Compares chunks until none is left for this lane.
    pub(super) fn delta(&mut self, file: &Arc<LargeFile>) -> Result<ComparedExtent> {
        let (mut ahead, mut held) = (VecDeque::new(), VecDeque::new());
        let (mut result, mut trying) = (ComparedExtent::All, None);
        file.whole.begin(self.shared.setup.clock.now_ns());
        loop {
            if trying.is_none() {
                trying = self.is_to_try_whole(file);
            }
            // Comparing at the same time would distort the measured rate of sending.
            if let Some(comparing) = trying
                && ahead.is_empty()
            {
                trying = None;
                if !self.settle_all(file, &mut held)? || !self.try_whole(file, comparing)? {
                    return Ok(ComparedExtent::Stopped);
                }
            }
            let ahead_max = if trying.is_some() { 0 } else { signs_ahead(file) };
            while ahead.len() < ahead_max {
                if !file.comparing_pays() {
                    result = ComparedExtent::Some;
                    break;
                }
                let Some(extent) = file.take_chunk() else { break };
                if file.moves.put_off_appended(extent) {
                    continue;
                }
                match self.skip_holes_of_both(file, extent)? {
                    None => return Ok(ComparedExtent::Stopped),
                    Some(true) => continue,
                    Some(false) => {}
                }
                let sign = TargetOp::HashRange { draft: file.draft, extent, blocks: false };
                ahead.push_back((extent, self.submit(sign, PendingPurpose::Told)?));
            }
            let Some((extent, ticket)) = ahead.pop_front() else { break };
            let Some(told) = self.told(ticket)? else { return Ok(ComparedExtent::Stopped) };
            let compared = match told {
                _ if file.has_failed() => Err(given_up()),
                Ok(TargetOutcome::Hashes(theirs)) => {
                    let following = ahead.front().map(|(following, _)| *following);
                    let reading = ChunkCursor { chunk: extent, following };
                    self.compare(file, reading, &theirs, &mut held).map_err(at_source)
                }
                Ok(_) => return Err(unexpected()),
                Err(error) => Err(at_target(error, &file.target)),
            };
            self.unless_fatal(file, compared)?;
            // Until it is known if comparing blocks pays, the answers of one chunk are awaited before the next.
            let held_max = if file.blocks_pay().is_some() { HELD_MAX } else { 0 };
            while held.iter().map(|chunk| chunk.pieces.len()).sum::<usize>() > held_max {
                if !self.settle_first(file, &mut held)? {
                    return Ok(ComparedExtent::Stopped);
                }
            }
            if !self.go_on()? {
                return Ok(ComparedExtent::Stopped);
            }
        }
        match self.settle_all(file, &mut held)? {
            true => Ok(result),
            false => Ok(ComparedExtent::Stopped),
        }
    }

    /// Sends the differences of all held chunks. Returns false if the run was stopped.
    fn settle_all(&mut self, file: &Arc<LargeFile>, held: &mut VecDeque<PartialChunk>) -> Result<bool> {
        while !held.is_empty() {
            if !self.settle_first(file, held)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fails the file, and nothing else, if a chunk could not be transferred.
    pub(super) fn unless_fatal(&mut self, file: &Arc<LargeFile>, done: Result<()>) -> Result<()> {
        self.unless_fatal_with(file, done, 1)
    }

    /// Fails the file, and nothing else, if this number of chunks could not be transferred.
    pub(super) fn unless_fatal_with(
        &mut self,
        file: &Arc<LargeFile>,
        done: Result<()>,
        chunks: u64,
    ) -> Result<()> {
        match done {
            Ok(()) => Ok(()),
            Err(error) if error.is_fatal() && !file.has_failed() => Err(error),
            Err(error) => self.fail_file(file, error, chunks),
        }
    }

    /// Waits for an answer of the target. Returns `None` if the run was stopped.
    pub(super) fn told(&mut self, ticket: Ticket) -> Result<Option<Result<TargetOutcome>>> {
        loop {
            if let Some(told) = self.told.remove(&ticket) {
                return Ok(Some(told));
            }
            if self.shared.queue.is_stopped() {
                return Ok(None);
            }
            self.wait_for_answer(FULL_WAIT)?;
        }
    }

    fn compare(
        &mut self,
        file: &Arc<LargeFile>,
        reading: ChunkCursor,
        theirs: &[Digest],
        held: &mut VecDeque<PartialChunk>,
    ) -> Result<()> {
        let extent = reading.chunk;
        if theirs.len() as u64 != extent.length.div_ceil(PIECE_BYTES) {
            return Err(unexpected());
        }
        self.counters.target_read_bytes.add(extent.length);
        let only_compare = file.kind == DraftKind::Compare;
        let (mut values, mut unreadable, mut equal) = (Values::new(), false, 0);
        let mut chunk = OpenChunk { file, extent, written_bytes: 0, attempt: 0, completes: true };
        let (mut pieces, mut left) = (Vec::new(), 0u16);
        for (index, (piece, theirs)) in extent.pieces().zip(theirs).enumerate() {
            let (content, end) = self.read_piece(file, piece, reading)?;
            unreadable |= end == UNREADABLE;
            let (value, tags) = self.value(file, piece, &content)?;
            self.leave(LaneStage::Hash);
            values.push(value);
            if value == *theirs {
                self.recycle(content);
                equal += 1;
                continue;
            }
            file.changes();
            if only_compare {
                self.recycle(content);
                self.differs(file, piece);
                continue;
            }
            match content {
                PieceContent::Bytes(buffer) if !is_zero(buffer.filled()) => {
                    if self.shared.setup.job.blocks && file.blocks_pay() != Some(false) {
                        let sign = TargetOp::HashRange { draft: file.draft, extent: piece, blocks: true };
                        let ticket = self.submit(sign, PendingPurpose::Told)?;
                        pieces.push(HeldPiece { ticket, index, extent: piece, buffer, value, tags });
                    } else if file.moves.may_put_off() {
                        self.target.recycle(buffer);
                        left |= 1 << index;
                    } else {
                        self.send_whole(&mut chunk, piece, buffer, value)?;
                    }
                }
                content => {
                    self.recycle(content);
                    self.zero(&chunk, piece, false)?;
                }
            }
        }
        file.add_values(extent.offset, values.all());
        file.compared(theirs.len() as u64, equal);
        if only_compare {
            self.counters.bytes_kept.add(extent.length);
            let progress = file.count_done(1);
            return self.end_file(file.clone(), progress);
        }
        if pieces.is_empty() {
            return self.complete_or_put_off(&chunk, &values, unreadable, left);
        }
        let written_bytes = chunk.written_bytes;
        held.push_back(PartialChunk { extent, values, written_bytes, unreadable, left, pieces });
        Ok(())
    }

    /// Completes a chunk, or defers it if pieces are left.
    fn complete_or_put_off(
        &mut self,
        chunk: &OpenChunk<'_>,
        values: &Values,
        unreadable: bool,
        left: u16,
    ) -> Result<()> {
        if left == 0 {
            return self.complete(chunk, values, unreadable);
        }
        let OpenChunk { file, extent, written_bytes, .. } = *chunk;
        let put_off = PutOff { extent, left, written_bytes, compared: true };
        match file.moves.put_off(put_off) {
            true => Ok(()),
            false => self.send_left(file, put_off),
        }
    }

    pub(super) fn send_whole(
        &mut self,
        chunk: &mut OpenChunk<'_>,
        piece: Extent,
        buffer: PieceBuffer,
        value: Digest,
    ) -> Result<()> {
        let crc = if self.wants.0 { crc64(buffer.filled()) } else { 0 };
        let value = match chunk.file.is_compared_by_tags() {
            true if self.wants.1 => Some(piece_value(chunk.file.size_bytes(), piece.offset, buffer.filled())),
            true => None,
            false => Some(value),
        };
        chunk.written_bytes += piece.length;
        self.write(chunk, piece, buffer, Check { crc, value }, false)
    }

    /// Sends the differences of the first held chunk. Returns false if the run was stopped.
    fn settle_first(&mut self, file: &Arc<LargeFile>, held: &mut VecDeque<PartialChunk>) -> Result<bool> {
        let Some(PartialChunk { extent, values, written_bytes, unreadable, mut left, pieces }) =
            held.pop_front()
        else {
            return Ok(true);
        };
        let mut chunk = OpenChunk { file, extent, written_bytes, attempt: 0, completes: true };
        let mut done = Ok(());
        for piece in pieces {
            let Some(told) = self.told(piece.ticket)? else { return Ok(false) };
            if file.has_failed() || done.is_err() {
                self.target.recycle(piece.buffer);
                continue;
            }
            done = match told {
                Ok(TargetOutcome::BlockHashes(theirs)) => {
                    self.send_blocks(&mut chunk, piece, &theirs).map(|bit| left |= bit)
                }
                Ok(_) => return Err(unexpected()),
                Err(error) => {
                    self.target.recycle(piece.buffer);
                    Err(at_target(error, &file.target))
                }
            };
        }
        if file.has_failed() && done.is_ok() {
            done = Err(given_up());
        }
        let done = done.and_then(|()| self.complete_or_put_off(&chunk, &values, unreadable, left));
        self.unless_fatal(file, done)?;
        Ok(true)
    }

    /// Sends the blocks of a piece that differ, or the whole piece if these are most of its blocks. If the piece is
    /// deferred instead, returns its bit.
    fn send_blocks(
        &mut self,
        chunk: &mut OpenChunk<'_>,
        piece: HeldPiece,
        theirs: &[BlockValue],
    ) -> Result<u16> {
        let HeldPiece { index, extent, mut buffer, value, tags, .. } = piece;
        let blocks = extent.length.div_ceil(BLOCK_BYTES);
        if theirs.len() as u64 != blocks {
            return Err(unexpected());
        }
        let mut changed = 0u64;
        let mut compare = |index: usize, ours: BlockValue| {
            changed |= u64::from(theirs.get(index) != Some(&ours)) << index;
        };
        match (&tags, self.tagger_of(chunk.file)) {
            (Some(tags), Some(tagger)) => {
                tagger.blocks(tags).enumerate().for_each(|(index, ours)| compare(index, ours));
            }
            _ => {
                let blocks = buffer.filled().chunks(BLOCK_BYTES as usize);
                blocks.enumerate().for_each(|(index, block)| compare(index, block_value(block)));
            }
        }
        self.leave(LaneStage::Hash);
        let differ = u64::from(changed.count_ones());
        chunk.file.compared_blocks(blocks, differ);
        // If no block differs, both sides have the same blocks but another length.
        if differ == 0 || differ * 4 > blocks * 3 {
            if chunk.file.moves.may_put_off() {
                self.target.recycle(buffer);
                return Ok(1 << index);
            }
            return self.send_whole(chunk, extent, buffer, value).map(|()| 0);
        }
        let length = gather(&mut buffer, changed);
        chunk.written_bytes += length as u64;
        let patch = TargetOp::Patch { draft: chunk.file.draft, extent, changed, buffer, value };
        self.submit(patch, PendingPurpose::Ignored).map(|_| 0)
    }

    pub(super) fn differs(&self, file: &LargeFile, piece: Extent) {
        let path = file.target.as_bytes().to_vec();
        self.shared.difference(Difference::new(path, Different::Range(piece)));
    }
}

/// Returns the number of chunks to request ahead.
fn signs_ahead(file: &LargeFile) -> usize {
    if !file.finds_equal() || file.may_go_whole() { SIGNS_AHEAD_AT_FIRST } else { SIGNS_AHEAD }
}

pub(super) fn given_up() -> Error {
    Error::new(ErrorKind::Cancelled, "comparing", "it failed")
}

/// Moves the changed blocks of a piece together at the start of the buffer. Returns their total length in bytes.
fn gather(buffer: &mut PieceBuffer, changed: u64) -> usize {
    let (block, filled) = (BLOCK_BYTES as usize, buffer.filled().len());
    let mut length = 0;
    for (index, begin) in (0..filled).step_by(block).enumerate() {
        if changed & 1 << index != 0 {
            let end = (begin + block).min(filled);
            buffer.room().copy_within(begin..end, length);
            length += end - begin;
        }
    }
    buffer.set_filled(length);
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_blocks_are_moved_together() {
        let mut buffer = PieceBuffer::new();
        let block = BLOCK_BYTES as usize;
        buffer.room()[..3 * block].chunks_mut(block).zip(1..).for_each(|(block, byte)| block.fill(byte));
        // The last one is short.
        buffer.set_filled(3 * block - 100);
        assert_eq!(gather(&mut buffer, 0b101), 2 * block - 100);
        assert!(buffer.filled()[..block].iter().all(|byte| *byte == 1));
        assert!(buffer.filled()[block..].iter().all(|byte| *byte == 3));
    }
}
