//! Reads and hashes chunks of large files and passes them to the target. Zeros are never sent.

use super::delta::{ComparedExtent, given_up};
use super::*;
use crate::zeros::{ZEROS, is_zero};

/// Once this many bytes of a file are known to be holes, holes are no longer hashed, and there is no digest of the
/// whole file. Hashing zeros would cost more than everything else.
pub(super) const HOLES_WITHOUT_DIGEST_BYTES: u64 = 1 << 30;

/// The content of a piece.
pub(super) enum PieceContent {
    /// Bytes that were read.
    Bytes(PieceBuffer),
    /// A hole, with the length of the piece in bytes.
    Hole(usize),
}

impl PieceContent {
    pub fn bytes(&self) -> &[u8] {
        match self {
            PieceContent::Bytes(buffer) => buffer.filled(),
            PieceContent::Hole(length) => &ZEROS[..*length],
        }
    }
}

/// The values of the pieces of one chunk.
pub(super) struct Values {
    values: [Digest; PIECES_PER_CHUNK as usize],
    count: usize,
}

impl Values {
    pub fn new() -> Self {
        Self { values: [Digest::default(); PIECES_PER_CHUNK as usize], count: 0 }
    }

    pub fn push(&mut self, value: Digest) {
        self.values[self.count] = value;
        self.count += 1;
    }

    pub fn all(&self) -> &[Digest] {
        &self.values[..self.count]
    }

    /// Returns a digest over all values; valid for none as well.
    pub fn seal(&self) -> Digest {
        *blake3::hash(self.all().as_flattened()).as_bytes()
    }
}

impl Worker<'_> {
    /// Transfers chunks until none is left for this lane.
    pub(super) fn move_chunks(&mut self, file: &Arc<LargeFile>) -> Result<()> {
        let compares = self.shared.setup.job.mode != Mode::Copy || file.kind == DraftKind::Compare;
        if compares && file.kind.is_there() {
            file.moves.enter();
            match self.delta(file)? {
                ComparedExtent::Stopped => return Ok(()),
                _ if file.moves.are_allowed() => {
                    if !self.move_moved(file)? {
                        return Ok(());
                    }
                }
                ComparedExtent::All => return Ok(()),
                ComparedExtent::Some => {}
            }
        }
        let mut run = ChunkRun::default();
        let mut next = self.next_chunk(file, &mut run)?;
        while let Some(chunk) = next {
            self.give_rest(file)?;
            let following = self.take_following(file, &mut run);
            if file.has_failed() {
                self.fail_file(file, given_up(), 1)?;
            } else if let Err(error) = self.chunk(file, ChunkCursor { chunk, following }, None) {
                if error.is_fatal() {
                    return Err(error);
                }
                self.fail_file(file, at_source(error), 1)?;
            }
            // Other lanes take the remaining chunks if this lane has to rest.
            let may_rest = following.is_none() && run.is_empty();
            if !self.go_on()? || may_rest && !self.shared.gate.lets(self.index) {
                return Ok(());
            }
            next = match following {
                Some(following) => Some(following),
                None => self.next_chunk(file, &mut run)?,
            };
        }
        Ok(())
    }

    /// Takes the chunk after the current one, so that it can be read ahead, unless other lanes would lack it.
    fn take_following(&self, file: &LargeFile, run: &mut ChunkRun) -> Option<Extent> {
        if !self.source.reads_ahead() || file.is_open_ended() {
            return None;
        }
        run.take().or_else(|| {
            let takes = file.chunks_left() > file.lanes() as u64 && self.shared.gate.lets(self.index);
            if takes { run.begin(file.take_run()) } else { None }
        })
    }

    /// Returns the next chunk for this lane. For a stream it is the one that has just been read.
    fn next_chunk(&mut self, file: &Arc<LargeFile>, run: &mut ChunkRun) -> Result<Option<Extent>> {
        if !file.is_open_ended() {
            return Ok(run.take().or_else(|| run.begin(file.take_run())));
        }
        while file.has_chunks_left() {
            self.enter(LaneStage::Read);
            let read = self.ask_source(SourceOp::ReadStream { file: file.source.clone() });
            self.leave(LaneStage::Read);
            match read {
                Ok(SourceOutcome::StreamRead(Some(extent))) => return self.take_read(file, extent),
                Ok(SourceOutcome::StreamRead(None)) => {}
                Ok(_) => return Err(unexpected()),
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => {
                    self.fail_file(file, at_source(error), 0)?;
                    return Ok(None);
                }
            }
            // Pending operations are sent while the lane waits for input.
            self.target.flush();
            if !self.go_on()? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn take_read(&mut self, file: &Arc<LargeFile>, extent: Extent) -> Result<Option<Extent>> {
        self.counters.bytes_scanned.add(extent.length);
        let take = extent.length > 0 && file.take_read();
        if extent.length < CHUNK_BYTES {
            let progress = file.ends_at(extent.end());
            self.end_file(file.clone(), progress)?;
        }
        Ok(take.then_some(extent))
    }

    /// Handles answers, and waits while too many operations are in progress. Returns false if the run was stopped.
    pub(super) fn go_on(&mut self) -> Result<bool> {
        self.answers()?;
        while self.under_way.len() >= UNDER_WAY_MAX && !self.shared.queue.is_stopped() {
            self.wait_for_answer(FULL_WAIT)?;
        }
        Ok(!self.shared.queue.is_stopped())
    }

    /// Transfers a chunk again that the medium did not keep, or that could not be assembled. `earlier`: the number of
    /// this attempt, and the seal of the content read before.
    pub(super) fn repair(
        &mut self,
        file: &Arc<LargeFile>,
        extent: Extent,
        earlier: (u8, Digest),
    ) -> Result<()> {
        let why = match self.shared.setup.job.verify_medium {
            true => "the medium did not keep",
            false => "the old file did not have, as it is now,",
        };
        let words = format!(
            "{}: {why} {} bytes from offset {}; writing them again",
            file.target, extent.length, extent.offset
        );
        self.shared.setup.observer.event(Event::Notice { words });
        match self.chunk(file, ChunkCursor::only(extent), Some(earlier)) {
            Err(error) if !error.is_fatal() => self.fail_file(file, at_source(error), 1),
            other => other,
        }
    }

    pub(super) fn chunk(
        &mut self,
        file: &Arc<LargeFile>,
        reading: ChunkCursor,
        earlier: Option<(u8, Digest)>,
    ) -> Result<()> {
        if file.is_only_hashed() {
            return self.hash_chunk(file, reading);
        }
        let extent = reading.chunk;
        let mut values = Values::new();
        let (mut zeros, mut unreadable) = (None, false);
        let attempt = earlier.map_or(0, |(attempt, _)| attempt);
        let mut pending = OpenChunk { file, extent, written_bytes: 0, attempt, completes: file.completes() };
        for piece in extent.pieces() {
            self.rest_within()?;
            let (content, end) = self.read_piece(file, piece, reading)?;
            if piece.offset == extent.offset && end >= extent.end() && self.skip_hole(&pending, end)? {
                return Ok(());
            }
            unreadable |= end == UNREADABLE;
            let content = self.without_zeros(content);
            let check = self.check(file, piece, &content, &mut values);
            match content {
                PieceContent::Bytes(buffer) => {
                    if let Some(zeros) = zeros.take() {
                        self.zero(&pending, zeros, false)?;
                    }
                    pending.written_bytes += piece.length;
                    self.write(&pending, piece, buffer, check, piece.end() == extent.end())?;
                }
                PieceContent::Hole(_) => {
                    let begin = zeros.map_or(piece.offset, |zeros: Extent| zeros.offset);
                    zeros = Some(Extent { offset: begin, length: piece.end() - begin });
                }
            }
        }
        if let Some(zeros) = zeros {
            self.zero(&pending, zeros, true)?;
        }
        match earlier {
            None => file.add_values(extent.offset, values.all()),
            // The digest covers the content that was read before.
            Some((_, seal)) if seal != values.seal() => file.forget_digest(),
            Some(_) => {}
        }
        if pending.completes {
            self.complete(&pending, &values, unreadable)?;
        }
        Ok(())
    }

    /// Reads one piece. Also returns the end of the hole that it lies in: 0 if in none, and [`UNREADABLE`] if part of
    /// it could not be read, which has been recorded.
    pub(super) fn read_piece(
        &mut self,
        file: &Arc<LargeFile>,
        piece: Extent,
        reading: ChunkCursor,
    ) -> Result<(PieceContent, u64)> {
        let (content, end, unreadable) = self.read_quietly(&file.source, piece, reading)?;
        if unreadable.is_empty() {
            return Ok((content, end));
        }
        self.unreadable(file, &unreadable);
        Ok((content, UNREADABLE))
    }

    /// Reads one piece. Also returns the end of its hole, and the ranges that could not be read.
    pub(super) fn read_quietly(
        &mut self,
        source: &Arc<SourceFile>,
        piece: Extent,
        reading: ChunkCursor,
    ) -> Result<(PieceContent, u64, Vec<Extent>)> {
        self.enter(LaneStage::Read);
        let outcome = self.read_source(source, piece, reading)?;
        self.leave(LaneStage::Read);
        let (buffer, unreadable) = match outcome {
            SourceOutcome::Read(buffer) => (buffer, Vec::new()),
            SourceOutcome::Hole { buffer, end } if end >= piece.end() => {
                self.target.recycle(buffer);
                return Ok((PieceContent::Hole(piece.length as usize), end.min(UNREADABLE - 1), Vec::new()));
            }
            SourceOutcome::ReadPartly { buffer, unreadable } => (buffer, unreadable),
            _ => return Err(unexpected()),
        };
        if buffer.filled().len() as u64 == piece.length && !buffer.holds(piece) {
            self.target.recycle(buffer);
            return Err(misplaced(piece).at(&source.path));
        }
        if buffer.filled().len() as u64 != piece.length {
            self.target.recycle(buffer);
            let error = Error::new(ErrorKind::SourceChanged, "reading", "it ends before its size");
            return Err(error.at(&source.path));
        }
        self.counters.source_read_bytes.add(piece.length);
        Ok((PieceContent::Bytes(buffer), 0, unreadable))
    }

    fn unreadable(&mut self, file: &LargeFile, ranges: &[Extent]) {
        for range in ranges {
            let words = format!(
                "{} bytes from offset {} cannot be read; zeros take their place",
                range.length, range.offset
            );
            let error = Error::new(ErrorKind::Io, "reading", words);
            fail(self.shared, self.counters, failure(&file.source.path, error));
        }
    }

    /// Converts zeros that were read to a hole: its zeros are in the processor's cache when they are hashed.
    fn without_zeros(&mut self, content: PieceContent) -> PieceContent {
        match content {
            PieceContent::Bytes(buffer) if is_zero(buffer.filled()) => {
                let length = buffer.filled().len();
                self.target.recycle(buffer);
                PieceContent::Hole(length)
            }
            content => content,
        }
    }

    pub(super) fn recycle(&mut self, content: PieceContent) {
        if let PieceContent::Bytes(buffer) = content {
            self.target.recycle(buffer);
        }
    }

    /// Returns true if the digests of this file's pieces are used: by the target to check them, by the user who named
    /// the file, or by a journal.
    pub(super) fn takes_digest(&self, file: &LargeFile) -> bool {
        if file.is_compared_by_tags() {
            return self.wants.1;
        }
        let is_looked_at = file.named || file.completes() || file.kind != DraftKind::File || self.wants.0;
        self.wants.1 || self.shared.setup.job.digest && is_looked_at
    }

    /// Returns the tagger for a file whose content is compared by tags.
    pub(super) fn tagger_of(&self, file: &LargeFile) -> Option<&'_ Tagger> {
        file.is_compared_by_tags().then_some(&self.shared.setup.tagger)
    }

    /// Returns the value that a piece is compared by. If it is a tag, also returns the tags of its blocks.
    pub(super) fn value(
        &self,
        file: &LargeFile,
        piece: Extent,
        content: &PieceContent,
    ) -> Result<(Digest, Option<PieceTags>)> {
        match self.tagger_of(file) {
            Some(tagger) => {
                let tags = tagger.blocks_of(content.bytes())?;
                Ok((tagger.piece(&tags)?, Some(tags)))
            }
            None => Ok((piece_value(file.size_bytes(), piece.offset, content.bytes()), None)),
        }
    }

    /// Computes the values that the target checks a piece by.
    pub(super) fn check(
        &mut self,
        file: &LargeFile,
        piece: Extent,
        content: &PieceContent,
        values: &mut Values,
    ) -> Check {
        let mut check = Check::default();
        if self.takes_digest(file) {
            let value = piece_value(file.size_bytes(), piece.offset, content.bytes());
            values.push(value);
            check.value = Some(value);
        }
        if self.wants.0 && matches!(content, PieceContent::Bytes(_)) {
            check.crc = crc64(content.bytes());
        }
        self.leave(LaneStage::Hash);
        check
    }

    /// Skips a hole that covers a whole chunk, and the chunks after it in the same hole, if no digest of them is
    /// needed. Returns true if the chunk was skipped.
    fn skip_hole(&mut self, pending: &OpenChunk<'_>, end: u64) -> Result<bool> {
        let OpenChunk { file, extent, .. } = *pending;
        if end == UNREADABLE {
            return Ok(false);
        }
        if self.takes_digest(file) {
            let this = end - extent.offset;
            if this < HOLES_WITHOUT_DIGEST_BYTES && file.hole(extent.length) < HOLES_WITHOUT_DIGEST_BYTES
                || self.shared.setup.job.hashes_holes()
            {
                return Ok(false);
            }
            file.forget_digest();
        }
        let more = file.take_chunks_until(end.min(file.size_bytes()));
        for extent in [Some(extent), more].into_iter().flatten() {
            let chunk = OpenChunk { extent, ..*pending };
            self.zero(&chunk, extent, true)?;
            if chunk.completes {
                self.complete(&chunk, &Values::new(), false)?;
            }
        }
        Ok(true)
    }

    /// Writes a piece. `last`: no other part of the chunk follows.
    pub(super) fn write(
        &mut self,
        chunk: &OpenChunk<'_>,
        piece: Extent,
        buffer: PieceBuffer,
        check: Check,
        last: bool,
    ) -> Result<()> {
        // The buffer may have been held between reading and writing, together with others.
        if !buffer.holds(piece) {
            self.target.recycle(buffer);
            return Err(misplaced(piece).at(&chunk.file.source.path));
        }
        let acknowledge = last && !chunk.completes;
        let draft = chunk.file.draft;
        let write = TargetOp::Write { draft, offset: piece.offset, buffer, check, acknowledge };
        // Only the last piece is acknowledged. The draft remembers an error of an earlier one.
        let pending = if acknowledge { chunk.pending(&Values::new()) } else { PendingPurpose::Ignored };
        self.submit(write, pending).map(drop)
    }

    pub(super) fn zero(&mut self, chunk: &OpenChunk<'_>, extent: Extent, last: bool) -> Result<()> {
        let acknowledge = last && !chunk.completes;
        self.counters.zeros_skipped_bytes.add(extent.length);
        let zero = TargetOp::Zero { draft: chunk.file.draft, extent, acknowledge };
        let pending = if acknowledge { chunk.pending(&Values::new()) } else { PendingPurpose::Ignored };
        self.submit(zero, pending).map(drop)
    }

    /// Reports a chunk as complete. One with unreadable ranges is not kept, so that a later run tries them again.
    pub(super) fn complete(
        &mut self,
        chunk: &OpenChunk<'_>,
        values: &Values,
        unreadable: bool,
    ) -> Result<()> {
        // Tags cannot be merged into a chunk value.
        let value = chunk_value(values.all()).filter(|_| !chunk.file.is_compared_by_tags());
        let kept = !unreadable;
        let complete = TargetOp::Complete { draft: chunk.file.draft, extent: chunk.extent, value, kept };
        self.submit(complete, chunk.pending(values)).map(drop)
    }
}

/// Returns the error for a piece whose buffer was read at another offset.
fn misplaced(piece: Extent) -> Error {
    let words = format!(
        "the data to be written at {} was read from another offset; this is a bug in hakobu, please report it",
        piece.offset
    );
    Error::new(ErrorKind::Corrupt, "writing", words)
}

/// The chunks of a run that a lane has taken and not begun.
#[derive(Default)]
struct ChunkRun(Option<Extent>);

impl ChunkRun {
    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the first chunk of a new run, and keeps the rest.
    fn begin(&mut self, run: Option<Extent>) -> Option<Extent> {
        self.0 = run;
        self.take()
    }

    fn take(&mut self) -> Option<Extent> {
        let Extent { offset, length } = self.0.take()?;
        let taken = Extent { offset, length: length.min(CHUNK_BYTES) };
        self.0 =
            (taken.length < length).then(|| Extent { offset: taken.end(), length: length - taken.length });
        Some(taken)
    }
}

/// Takes the place of a hole's end if part of the piece could not be read.
pub(super) const UNREADABLE: u64 = u64::MAX;

/// A chunk being transferred.
pub(super) struct OpenChunk<'a> {
    pub file: &'a Arc<LargeFile>,
    pub extent: Extent,
    pub written_bytes: u64,
    pub attempt: u8,
    pub completes: bool,
}

impl OpenChunk<'_> {
    fn pending(&self, values: &Values) -> PendingPurpose {
        PendingPurpose::Chunk {
            file: self.file.clone(),
            extent: self.extent,
            written_bytes: self.written_bytes,
            attempt: self.attempt,
            seal: values.seal(),
        }
    }
}
