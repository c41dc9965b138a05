//! Transfers chunks in which content moved. The target assembles them from content at other offsets of its old file and
//! from bytes that are sent.

use super::chunks::{OpenChunk, PieceContent, UNREADABLE, Values};
use super::delta::given_up;
use super::*;
use crate::block_table::{BlockTable, COPIES_MAX, Copied};
use crate::engine::move_search::PutOff;
use crate::extent::PIECES_PER_CHUNK;
use crate::zeros::is_zero;

/// The number of ranges of the old file for which sums are requested ahead.
const SUMS_AHEAD: usize = 16;

/// The working state of one lane during the search.
#[derive(Default)]
struct Search {
    /// A chunk and the bytes around it, so that blocks across its ends are found.
    window: Vec<u8>,
    /// The number of bytes in the window before the chunk.
    before: usize,
    found: Vec<Copied>,
    /// The distance by which the content found last has moved from its offset in the old file.
    moved_by: Option<i64>,
    zeros: u16,
}

/// Consecutive pieces that are assembled by one operation.
struct PieceRun {
    extent: Extent,
    values: Vec<Digest>,
    copies: Vec<Copied>,
    buffer: PieceBuffer,
    filled: usize,
}

impl Worker<'_> {
    /// Transfers the deferred chunks and those not compared, and searches for moved content as long as that pays.
    /// Returns false if the run was stopped.
    pub(super) fn move_moved(&mut self, file: &Arc<LargeFile>) -> Result<bool> {
        let last = file.moves.leave();
        let table = match file.moves.are_worth(file.bytes_left(), last) {
            Some(true) => match self.table(file)? {
                Some(table) => table.as_ref(),
                None => return Ok(false),
            },
            Some(false) => None,
            // The last lane decides.
            None => return Ok(true),
        };
        let mut search = Search::default();
        while let Some(chunk) = file.moves.take().or_else(|| file.take_chunk().map(PutOff::untouched)) {
            let done = match table.filter(|_| file.moves.pay()) {
                _ if file.has_failed() => Err(given_up()),
                None if !chunk.compared => self.chunk(file, ChunkCursor::only(chunk.extent), None),
                table => self.put_together(file, chunk, table, &mut search),
            };
            self.unless_fatal(file, done.map_err(at_source))?;
            if !self.go_on()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the table of the old file's blocks, after requesting sums together with the other lanes. Returns `None`
    /// if the run was stopped.
    fn table<'f>(&mut self, file: &'f Arc<LargeFile>) -> Result<Option<&'f Option<BlockTable>>> {
        let block_bytes = file.moves.block_bytes().ok_or_else(unexpected)?;
        let mut asked = VecDeque::new();
        loop {
            while asked.len() < SUMS_AHEAD
                && let Some(range) = file.moves.take_range()
            {
                let sum = TargetOp::WeakSums { draft: file.draft, extent: range, block_bytes };
                asked.push_back((range, self.submit(sum, PendingPurpose::Told)?));
            }
            let Some((range, ticket)) = asked.pop_front() else { break };
            let Some(told) = self.told(ticket)? else { return Ok(None) };
            match told {
                Ok(TargetOutcome::Sums(sums)) => {
                    self.counters.target_read_bytes.add(range.length);
                    file.moves.add_sums(range, Some(sums));
                }
                Ok(_) => return Err(unexpected()),
                Err(error) => {
                    file.moves.add_sums(range, None);
                    self.unless_fatal_with(file, Err(at_target(error, &file.target)), 0)?;
                }
            }
        }
        self.target.flush();
        loop {
            if let Some(table) = file.moves.wait_for_table(FULL_WAIT) {
                return Ok(Some(table));
            }
            if self.shared.queue.is_stopped() {
                return Ok(None);
            }
        }
    }

    /// Sends the unfinished pieces of a chunk without a search.
    pub(super) fn send_left(&mut self, file: &Arc<LargeFile>, chunk: PutOff) -> Result<()> {
        self.put_together(file, chunk, None, &mut Search::default())
    }

    /// Transfers the unfinished pieces of a chunk.
    fn put_together(
        &mut self,
        file: &Arc<LargeFile>,
        chunk: PutOff,
        table: Option<&BlockTable>,
        search: &mut Search,
    ) -> Result<()> {
        let (values, unreadable) = self.fill_window(file, chunk, table, search)?;
        search.found.clear();
        if let Some(table) = table {
            search.find(chunk.extent, table);
            self.leave(LaneStage::Hash);
        }
        let mut moving = OpenChunk {
            file,
            extent: chunk.extent,
            written_bytes: chunk.written_bytes,
            attempt: 0,
            completes: true,
        };
        let mut run = None;
        for (index, piece) in chunk.extent.pieces().enumerate().filter(|(index, _)| chunk.has_left(*index)) {
            let value = values.all()[index];
            let copies = search.copies_in(chunk.extent, piece);
            let copied: u64 = copies.iter().map(|copied| u64::from(copied.length)).sum();
            file.moves.searched(piece.length, copied);
            let literal = piece.length - copied;
            if run.as_ref().is_some_and(|run: &PieceRun| !run.takes(piece, literal, copies.len())) {
                self.send_run(&mut moving, run.take())?;
            }
            if search.is_zero(index) {
                self.send_run(&mut moving, run.take())?;
                self.zero(&moving, piece, false)?;
            } else if copies.is_empty() {
                self.send_run(&mut moving, run.take())?;
                let mut buffer = self.target.piece_buffer();
                let bytes = search.bytes_of(chunk.extent, piece);
                buffer.room()[..bytes.len()].copy_from_slice(bytes);
                buffer.set_filled(bytes.len());
                self.send_whole(&mut moving, piece, buffer, value)?;
            } else {
                let run = run.get_or_insert_with(|| PieceRun::new(piece, self.target.piece_buffer()));
                run.add(piece, value, copies, search.bytes_of(chunk.extent, piece));
            }
        }
        self.send_run(&mut moving, run)?;
        if !chunk.compared {
            file.add_values(chunk.extent.offset, values.all());
        }
        self.complete(&moving, &values, unreadable)
    }

    /// Reads a chunk and, for the search, one block length around it. Returns the values of its pieces, and true if
    /// part of it could not be read.
    fn fill_window(
        &mut self,
        file: &Arc<LargeFile>,
        PutOff { extent: chunk, compared, .. }: PutOff,
        table: Option<&BlockTable>,
        search: &mut Search,
    ) -> Result<(Values, bool)> {
        let around = table.map_or(0, |table| table.block_bytes() as u64);
        let begin = chunk.offset.saturating_sub(around);
        let end = (chunk.end() + around).min(file.size_bytes());
        search.window.clear();
        search.before = (chunk.offset - begin) as usize;
        search.zeros = 0;
        self.read_around(file, Extent { offset: begin, length: chunk.offset - begin }, search)?;
        let (mut values, mut unreadable) = (Values::new(), false);
        let reading = ChunkCursor::only(chunk);
        for (index, piece) in chunk.pieces().enumerate() {
            let (content, hole_end) = match compared {
                // Unreadable ranges were reported when the chunk was compared.
                true => {
                    let (content, hole_end, missing) = self.read_quietly(&file.source, piece, reading)?;
                    (content, if missing.is_empty() { hole_end } else { UNREADABLE })
                }
                false => self.read_piece(file, piece, reading)?,
            };
            unreadable |= hole_end == UNREADABLE;
            values.push(self.value(file, piece, &content)?.0);
            self.leave(LaneStage::Hash);
            if matches!(content, PieceContent::Hole(_)) || is_zero(content.bytes()) {
                search.zeros |= 1 << index;
            }
            search.window.extend_from_slice(content.bytes());
            self.recycle(content);
        }
        self.read_around(file, Extent { offset: chunk.end(), length: end - chunk.end() }, search)?;
        Ok((values, unreadable))
    }

    /// Reads bytes that are only searched. Ranges that cannot be read are reported when their own chunk is read.
    fn read_around(&mut self, file: &Arc<LargeFile>, range: Extent, search: &mut Search) -> Result<()> {
        let mut offset = range.offset;
        while offset < range.end() {
            let part = Extent { offset, length: PIECE_BYTES.min(range.end() - offset) };
            let (content, ..) = self.read_quietly(&file.source, part, ChunkCursor::only(part))?;
            search.window.extend_from_slice(content.bytes());
            self.recycle(content);
            offset += part.length;
        }
        Ok(())
    }

    fn send_run(&mut self, chunk: &mut OpenChunk<'_>, run: Option<PieceRun>) -> Result<()> {
        let Some(PieceRun { extent, values, copies, mut buffer, filled }) = run else { return Ok(()) };
        buffer.set_filled(filled);
        chunk.written_bytes += filled as u64;
        let value = *blake3::hash(values.as_flattened()).as_bytes();
        let assemble = TargetOp::Assemble { draft: chunk.file.draft, extent, copies, buffer, value };
        self.submit(assemble, PendingPurpose::Ignored).map(drop)
    }
}

impl Search {
    /// Finds content of the old file in the window.
    fn find(&mut self, chunk: Extent, table: &BlockTable) {
        let begin = chunk.offset as i64 - self.before as i64;
        let first = self.moved_by.and_then(|moved_by| begin.checked_sub(moved_by));
        table.search(&self.window, first, &mut self.found);
        if let Some(last) = self.found.last() {
            self.moved_by =
                Some(begin + i64::from(last.at)).and_then(|at| at.checked_sub_unsigned(last.from));
        }
    }

    /// Returns true if a piece of the chunk is all zeros.
    fn is_zero(&self, index: usize) -> bool {
        self.zeros & 1 << index != 0
    }

    fn bytes_of(&self, chunk: Extent, piece: Extent) -> &[u8] {
        let begin = self.before + (piece.offset - chunk.offset) as usize;
        &self.window[begin..begin + piece.length as usize]
    }

    /// Returns the copies found within a piece, cut at its ends, with offsets relative to the piece.
    fn copies_in(&self, chunk: Extent, piece: Extent) -> Vec<Copied> {
        let begin = self.before as u64 + (piece.offset - chunk.offset);
        let end = begin + piece.length;
        let first = self.found.partition_point(|copied| copied.end() <= begin);
        let within = self.found[first..].iter().take_while(|copied| u64::from(copied.at) < end);
        within
            .map(|copied| {
                let at = u64::from(copied.at);
                let (cut, stop) = (begin.max(at), end.min(copied.end()));
                Copied {
                    at: (cut - begin) as u32,
                    length: (stop - cut) as u32,
                    from: copied.from + (cut - at),
                }
            })
            .collect()
    }
}

impl PieceRun {
    fn new(piece: Extent, buffer: PieceBuffer) -> Self {
        let values = Vec::with_capacity(PIECES_PER_CHUNK as usize);
        Self {
            extent: Extent { offset: piece.offset, length: 0 },
            values,
            copies: Vec::new(),
            buffer,
            filled: 0,
        }
    }

    /// Returns true if the run can include a piece.
    fn takes(&self, piece: Extent, literal_bytes: u64, copies: usize) -> bool {
        self.extent.end() == piece.offset
            && self.filled as u64 + literal_bytes <= PIECE_BYTES
            && self.copies.len() + copies <= COPIES_MAX
    }

    /// Adds a piece: the copies found in it, and the bytes between them.
    fn add(&mut self, piece: Extent, value: Digest, copies: Vec<Copied>, bytes: &[u8]) {
        let base = self.extent.length as u32;
        let mut at = 0;
        for copied in copies {
            self.literal(&bytes[at..copied.at as usize]);
            at = (copied.at + copied.length) as usize;
            match self.copies.last_mut() {
                Some(last)
                    if last.end() == u64::from(base + copied.at)
                        && last.from + u64::from(last.length) == copied.from =>
                {
                    last.length += copied.length;
                }
                _ => self.copies.push(Copied { at: base + copied.at, ..copied }),
            }
        }
        self.literal(&bytes[at..]);
        self.values.push(value);
        self.extent.length += piece.length;
    }

    fn literal(&mut self, bytes: &[u8]) {
        self.buffer.room()[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u32 = PIECE_BYTES as u32;
    const CHUNK: Extent = Extent { offset: 4 * PIECE_BYTES, length: 2 * PIECE_BYTES };

    fn piece(number: u64) -> Extent {
        Extent { offset: number * PIECE_BYTES, length: PIECE_BYTES }
    }

    fn copied(at: u32, length: u32, from: u64) -> Copied {
        Copied { at, length, from }
    }

    fn search(before: usize, found: Vec<Copied>) -> Search {
        let window = (0..before + 2 * PIECE_BYTES as usize).map(|at| (at / 1000) as u8).collect();
        Search { window, before, found, ..Search::default() }
    }

    /// Found offsets are relative to the window; copies are relative to a piece.
    #[test]
    fn what_was_found_is_cut_at_the_ends_of_pieces() {
        let before = 5000;
        let found = vec![
            // Before the chunk; from there into the first piece; across both pieces; up to the end; after it.
            copied(0, 4000, 10),
            copied(4000, 1500, 20_000),
            copied(before as u32 + PIECE - 100, 300, 40_000),
            copied(before as u32 + 2 * PIECE - 50, 50, 50_000),
            copied(before as u32 + 2 * PIECE, 70, 60_000),
        ];
        let search = search(before, found);
        let first = [copied(0, 500, 21_000), copied(PIECE - 100, 100, 40_000)];
        assert_eq!(search.copies_in(CHUNK, piece(4)), first);
        let second = [copied(0, 200, 40_100), copied(PIECE - 50, 50, 50_000)];
        assert_eq!(search.copies_in(CHUNK, piece(5)), second);
        let (one, other) = (search.bytes_of(CHUNK, piece(4)), search.bytes_of(CHUNK, piece(5)));
        assert_eq!((one, other), search.window[before..].split_at(PIECE_BYTES as usize));
    }

    #[test]
    fn zeros_are_known_piece_by_piece() {
        let search = Search { zeros: 0b101, ..Search::default() };
        assert_eq!([0, 1, 2, 3].map(|index| search.is_zero(index)), [true, false, true, false]);
    }

    #[test]
    fn pieces_are_put_together_in_one_operation_as_far_as_it_goes() {
        let bytes: Vec<u8> = (0..PIECE_BYTES).map(|at| (at % 251) as u8).collect();
        let end = bytes.len() - 40;
        let mut run = PieceRun::new(piece(4), PieceBuffer::new());
        // 10 bytes, a copy, 5 bytes, another copy to the end.
        run.add(piece(4), [1; 32], vec![copied(10, 85, 7000), copied(100, PIECE - 100, 9000)], &bytes);
        // Continues the last copy, in the old file as well, and ends with 40 bytes.
        let on = 9000 + PIECE_BYTES - 100;
        run.add(piece(5), [2; 32], vec![copied(0, 60, on), copied(60, PIECE - 100, 5)], &bytes);
        let copies =
            [copied(10, 85, 7000), copied(100, PIECE - 40, 9000), copied(PIECE + 60, PIECE - 100, 5)];
        assert_eq!(run.copies, copies);
        assert_eq!((run.extent, &run.values), (CHUNK, &vec![[1; 32], [2; 32]]));
        let literal = [&bytes[..10], &bytes[95..100], &bytes[end..]].concat();
        run.buffer.set_filled(run.filled);
        assert_eq!((run.filled, run.buffer.filled()), (55, &literal[..]));
        // A further piece has to be adjacent and to fit.
        let room = PIECE_BYTES - 55;
        assert!(run.takes(piece(6), room, COPIES_MAX - 3));
        assert!(!run.takes(piece(7), room, 1) && !run.takes(piece(6), room + 1, 1));
        assert!(!run.takes(piece(6), room, COPIES_MAX - 2));
    }

    /// Content from elsewhere in the old file does not continue a copy, even if it follows in the new file.
    #[test]
    fn copies_that_only_touch_stay_apart() {
        let bytes = vec![7; PIECE_BYTES as usize];
        let mut run = PieceRun::new(piece(0), PieceBuffer::new());
        run.add(piece(0), [1; 32], vec![copied(0, PIECE, 9000)], &bytes);
        run.add(piece(1), [2; 32], vec![copied(0, PIECE, 9000)], &bytes);
        assert_eq!(run.copies, [copied(0, PIECE, 9000), copied(PIECE, PIECE, 9000)]);
        assert_eq!(run.filled, 0);
    }
}
