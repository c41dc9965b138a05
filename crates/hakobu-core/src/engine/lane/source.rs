//! A lane of the source: asks one thing at a time, and reads pieces ahead if that helps.

use super::*;

/// The ticket of operations started by [`Source::ask`]; those of reads begin at 1.
const ASKED: Ticket = 0;

/// A lane of the source, and its reads in progress.
pub(super) struct Source {
    lane: Box<dyn SourceLane>,
    reads_at_once: usize,
    /// The file that is being read.
    file: Option<Arc<SourceFile>>,
    /// The reads that were submitted and not taken, in order.
    asked: VecDeque<(Extent, Ticket)>,
    /// The operations that were begun and not taken, in order.
    begun: VecDeque<Ticket>,
    /// The results of those that ended while another answer was awaited.
    ended: Vec<(Ticket, Result<SourceOutcome>)>,
    last_ticket: Ticket,
}

/// The chunk that a piece belongs to, and the chunk that the lane continues with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkCursor {
    pub chunk: Extent,
    pub following: Option<Extent>,
}

impl ChunkCursor {
    /// Returns a reading of a single range.
    pub fn only(chunk: Extent) -> Self {
        Self { chunk, following: None }
    }

    /// Returns the piece to read after another.
    fn behind(&self, last: Extent) -> Option<Extent> {
        let next_in = |range: Extent| {
            let offset = last.end();
            (range.offset <= offset && offset < range.end())
                .then(|| Extent { offset, length: PIECE_BYTES.min(range.end() - offset) })
        };
        let first_of = |range: Extent| Extent { offset: range.offset, length: PIECE_BYTES.min(range.length) };
        next_in(self.chunk).or_else(|| match self.following? {
            following if last.end() == self.chunk.end() => Some(first_of(following)),
            following => next_in(following),
        })
    }
}

impl Source {
    pub fn new(lane: Box<dyn SourceLane>, reads_at_once: u16) -> Self {
        let (asked, begun, ended) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Self {
            lane,
            reads_at_once: reads_at_once.into(),
            file: None,
            asked,
            begun,
            ended,
            last_ticket: ASKED,
        }
    }

    /// Returns true if more than one read at a time helps.
    pub fn reads_ahead(&self) -> bool {
        self.reads_at_once > 1
    }

    /// Submits one operation and waits for its result. Reads that end meanwhile are kept.
    pub fn ask(&mut self, operation: SourceOp) -> Result<SourceOutcome> {
        self.submit(ASKED, operation)?;
        self.answer(ASKED)
    }

    /// Submits one of several operations, whose results are taken in the same order.
    pub fn begin(&mut self, operation: SourceOp) -> Result<()> {
        self.last_ticket += 1;
        self.submit(self.last_ticket, operation)?;
        self.begun.push_back(self.last_ticket);
        Ok(())
    }

    /// Returns the number of operations that were begun and not taken.
    pub fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Waits for the first operation that was begun.
    pub fn take_begun(&mut self) -> Result<SourceOutcome> {
        let ticket = self.begun.pop_front().ok_or_else(unexpected)?;
        self.answer(ticket)
    }

    /// Makes a piece of a file the next one to be taken. Reads ahead of anything else are discarded.
    pub fn turn_to(
        &mut self,
        file: &Arc<SourceFile>,
        piece: Extent,
        mut recycle: impl FnMut(PieceBuffer),
    ) -> Result<()> {
        let is_same = self.file.as_ref().is_some_and(|reading| Arc::ptr_eq(reading, file));
        if is_same && self.asked.front().is_none_or(|(extent, _)| *extent == piece) {
            return Ok(());
        }
        while let Some((_, ticket)) = self.asked.pop_front() {
            match self.answer(ticket) {
                Ok(outcome) => buffer_of(outcome).into_iter().for_each(&mut recycle),
                Err(error) if error.is_fatal() => return Err(error),
                Err(_) => {}
            }
        }
        self.file = Some(Arc::clone(file));
        Ok(())
    }

    /// Returns the next piece to request, unless there is none or enough reads are in progress.
    pub fn next_read(&self, piece: Extent, reading: ChunkCursor) -> Option<Extent> {
        match self.asked.back() {
            None => Some(piece),
            Some(_) if self.asked.len() >= self.reads_at_once => None,
            Some((last, _)) => reading.behind(*last),
        }
    }

    /// Requests a piece of the file.
    pub fn read(&mut self, extent: Extent, buffer: PieceBuffer) -> Result<()> {
        let file = self.file.clone().ok_or_else(unexpected)?;
        self.last_ticket += 1;
        self.submit(self.last_ticket, SourceOp::Read { file, extent, buffer })?;
        self.asked.push_back((extent, self.last_ticket));
        Ok(())
    }

    /// Waits for the first requested piece.
    pub fn take_read(&mut self) -> Result<SourceOutcome> {
        let (_, ticket) = self.asked.pop_front().ok_or_else(unexpected)?;
        self.answer(ticket)
    }

    fn submit(&mut self, ticket: Ticket, mut operation: SourceOp) -> Result<()> {
        while let Err(back) = self.lane.submit(ticket, operation) {
            if self.asked.is_empty() && self.begun.is_empty() {
                return Err(unexpected());
            }
            operation = back;
            self.lane.flush();
            if let Some(completion) = self.lane.reap(CompletionWait::Forever) {
                self.keep(completion)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, ticket: Ticket) -> Result<SourceOutcome> {
        if let Some(index) = self.ended.iter().position(|(ended, _)| *ended == ticket) {
            return self.ended.swap_remove(index).1;
        }
        self.lane.flush();
        loop {
            match self.lane.reap(CompletionWait::Forever) {
                Some(completion) if completion.ticket == ticket => return completion.result,
                Some(completion) => self.keep(completion)?,
                None => return Err(unexpected()),
            }
        }
    }

    fn keep(&mut self, completion: Completion<SourceOutcome>) -> Result<()> {
        let Completion { ticket, result } = completion;
        match result {
            result
                if self.asked.iter().any(|(_, asked)| *asked == ticket) || self.begun.contains(&ticket) =>
            {
                self.ended.push((ticket, result));
                Ok(())
            }
            // The lane itself failed, so no answer will come.
            Err(error) if error.is_fatal() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the buffer contained in the result of a read.
fn buffer_of(outcome: SourceOutcome) -> Option<PieceBuffer> {
    match outcome {
        SourceOutcome::Read(buffer)
        | SourceOutcome::Hole { buffer, .. }
        | SourceOutcome::ReadPartly { buffer, .. } => Some(buffer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane that accepts four operations and answers the latest one first.
    #[derive(Default)]
    struct Backwards {
        under_way: Vec<(Ticket, SourceOp)>,
        most_under_way: Arc<std::sync::atomic::AtomicUsize>,
    }

    impl crate::endpoint::Lane<SourceOp> for Backwards {
        fn submit(&mut self, ticket: Ticket, operation: SourceOp) -> std::result::Result<(), SourceOp> {
            if self.under_way.len() == 4 {
                return Err(operation);
            }
            self.under_way.push((ticket, operation));
            self.most_under_way.fetch_max(self.under_way.len(), Relaxed);
            Ok(())
        }

        fn reap(&mut self, _wait: CompletionWait) -> Option<Completion<SourceOutcome>> {
            let (ticket, operation) = self.under_way.pop()?;
            let result = match operation {
                SourceOp::Read { extent, mut buffer, .. } => {
                    buffer.set_read(extent.offset, extent.length as usize);
                    Ok(SourceOutcome::Read(buffer))
                }
                _ => Ok(SourceOutcome::Names(Vec::new())),
            };
            Some(Completion { ticket, result })
        }
    }

    fn file() -> Arc<SourceFile> {
        let metadata = EntryMetadata::new(EntryKind::File);
        Arc::new(SourceFile { root: 0, path: EntryPath::root(), metadata, tolerant: false })
    }

    fn take(source: &mut Source, file: &Arc<SourceFile>, piece: Extent, reading: ChunkCursor) -> usize {
        let mut given_up = 0;
        source.turn_to(file, piece, |_| given_up += 1).unwrap();
        while let Some(next) = source.next_read(piece, reading) {
            source.read(next, PieceBuffer::new()).unwrap();
        }
        let Ok(SourceOutcome::Read(buffer)) = source.take_read() else { panic!("no piece") };
        assert!(buffer.holds(piece), "{piece:?}");
        given_up
    }

    fn range(pieces: std::ops::Range<u64>) -> Extent {
        Extent { offset: pieces.start * PIECE_BYTES, length: (pieces.end - pieces.start) * PIECE_BYTES }
    }

    #[test]
    fn pieces_are_read_ahead_over_the_end_of_a_chunk_and_each_is_the_one_that_was_asked_for() {
        let lane = Backwards::default();
        let most = Arc::clone(&lane.most_under_way);
        let mut source = Source::new(Box::new(lane), 3);
        let file = file();
        let reading = ChunkCursor { chunk: range(0..4), following: Some(range(8..10)) };
        let mut given_up = 0;
        for piece in range(0..4).pieces() {
            given_up += take(&mut source, &file, piece, reading);
            assert!(matches!(
                source.ask(SourceOp::Names { accounts: Vec::new() }),
                Ok(SourceOutcome::Names(_))
            ));
        }
        for piece in range(8..10).pieces() {
            given_up += take(&mut source, &file, piece, ChunkCursor::only(range(8..10)));
        }
        assert_eq!((given_up, most.load(Relaxed)), (0, 3));
        assert!(source.asked.is_empty() && source.ended.is_empty());
    }

    #[test]
    fn what_was_read_ahead_is_given_up_where_something_else_is_read() {
        let mut source = Source::new(Box::new(Backwards::default()), 16);
        let (one, other) = (file(), file());
        let reading = |pieces| ChunkCursor::only(range(pieces));
        // The lane accepts four at a time, and waits for that.
        assert_eq!(take(&mut source, &one, range(0..1), reading(0..6)), 0);
        assert_eq!(take(&mut source, &one, range(2..3), reading(0..6)), 5);
        assert_eq!(take(&mut source, &other, range(3..4), reading(0..4)), 3);
        assert_eq!(take(&mut source, &other, range(3..4), reading(3..4)), 0);
        assert!(source.asked.is_empty() && source.ended.is_empty());
    }

    #[test]
    fn one_read_at_a_time_asks_for_nothing_else() {
        let lane = Backwards::default();
        let most = Arc::clone(&lane.most_under_way);
        let mut source = Source::new(Box::new(lane), 1);
        take(&mut source, &file(), range(0..1), ChunkCursor::only(range(0..4)));
        assert_eq!((most.load(Relaxed), source.reads_ahead()), (1, false));
    }
}
