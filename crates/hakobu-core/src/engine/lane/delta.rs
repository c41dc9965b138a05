//! Comparing what is in place with the source, chunk by chunk: both sides hash the same ranges at
//! the same time, and what differs goes out of the buffer that was just read.

use super::chunks::{Chunk, UNREADABLE, Values};
use super::*;
use crate::event::{Difference, Different};
use crate::zeros::is_zero;

/// So many chunks are asked for ahead, so that the target hashes while this side does: enough for
/// a long way, and no more than the target's lane can hold as answers.
const SIGNS_AHEAD: usize = 16;

impl Worker<'_> {
    /// Compares chunks until none is left for this lane.
    pub(super) fn delta(&mut self, file: &Arc<LargeFile>) -> Result<()> {
        let mut ahead = VecDeque::new();
        loop {
            while ahead.len() < SIGNS_AHEAD
                && let Some(extent) = file.take_chunk()
            {
                let sign = Operation::Sign { draft: file.draft, extent };
                ahead.push_back((extent, self.submit(sign, Pending::Signed)?));
            }
            let Some((extent, ticket)) = ahead.pop_front() else { return Ok(()) };
            let Some(theirs) = self.signature(ticket)? else { return Ok(()) };
            let compared = match theirs {
                _ if file.has_failed() => Err(Error::new(ErrorKind::Cancelled, "comparing", "it failed")),
                Ok(theirs) => self.compare(file, extent, &theirs).map_err(at_source),
                Err(error) => Err(at_target(error, &file.target)),
            };
            match compared {
                Ok(()) => {}
                Err(error) if error.is_fatal() && !file.has_failed() => return Err(error),
                Err(error) => self.fail_file(file, error, 1)?,
            }
            if !self.go_on()? {
                return Ok(());
            }
        }
    }

    /// Waits for the target's values. `None`: the run was stopped.
    fn signature(&mut self, ticket: Ticket) -> Result<Option<Result<Vec<Digest>>>> {
        loop {
            if let Some(values) = self.signatures.remove(&ticket) {
                return Ok(Some(values));
            }
            if self.shared.queue.is_stopped() {
                return Ok(None);
            }
            self.wait_for_answer(FULL_WAIT)?;
        }
    }

    fn compare(&mut self, file: &Arc<LargeFile>, extent: Extent, theirs: &[Digest]) -> Result<()> {
        if theirs.len() as u64 != extent.length.div_ceil(PIECE_BYTES) {
            return Err(unexpected());
        }
        self.counters.target_read_bytes.add(extent.length);
        let only_compare = file.kind == DraftKind::Compare;
        let (mut values, mut unreadable) = (Values::new(), false);
        let mut chunk = Chunk { file, extent, written_bytes: 0, attempt: 0, completes: true };
        for (piece, theirs) in extent.pieces().zip(theirs) {
            let (content, end) = self.read_piece(file, piece)?;
            unreadable |= end == UNREADABLE;
            let value = piece_value(file.size_bytes(), piece.offset, content.bytes());
            self.leave(Stage::Hash);
            values.push(value);
            if value == *theirs {
                self.recycle(content);
                continue;
            }
            file.changes();
            if only_compare {
                self.recycle(content);
                self.differs(file, piece);
                continue;
            }
            self.send_changed(&mut chunk, piece, content, value)?;
        }
        file.add_values(extent.offset, values.all());
        if only_compare {
            self.counters.bytes_kept.add(extent.length);
            let progress = file.count_done(1);
            return self.end_file(file.clone(), progress);
        }
        self.complete(&chunk, &values, unreadable)
    }

    fn send_changed(
        &mut self,
        chunk: &mut Chunk<'_>,
        piece: Extent,
        content: super::chunks::Piece,
        value: Digest,
    ) -> Result<()> {
        match content {
            super::chunks::Piece::Bytes(buffer) if !is_zero(buffer.filled()) => {
                let crc = if self.wants.0 { crc64(buffer.filled()) } else { 0 };
                chunk.written_bytes += piece.length;
                self.write(chunk, piece, buffer, Check { crc, value: Some(value) }, false)
            }
            content => {
                self.recycle(content);
                self.zero(chunk, piece, false)
            }
        }
    }

    pub(super) fn differs(&self, file: &LargeFile, piece: Extent) {
        let path = file.target.as_bytes().to_vec();
        self.shared.difference(Difference { path, what: Different::Range(piece) });
    }
}
