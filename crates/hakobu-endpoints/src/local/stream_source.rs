//! Standard input as a source: read once and in order, by whichever lane asks next.
//!
//! A lane receives whole chunks in memory. It hashes and sends one chunk while another lane reads the next, so memory
//! is bounded by one chunk per lane and one being read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{Endpoint, PieceBuffer, SourceEndpoint, SourceLane, SourceOp, SourceOutcome};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extent::{CHUNK_BYTES, Extent, PIECE_BYTES, PIECES_PER_CHUNK, UNKNOWN_BYTES};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read, retry_on_intr};
use rustix::pipe::fcntl_setpipe_size;

use super::errno::fault;
use super::metadata;
use crate::common::immediate::{AtOnce, ImmediateWork};

/// The time for which a lane waits for input before it looks for other work.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The size requested for a pipe in bytes. A larger pipe means fewer switches between the writer and the reader.
const PIPE_BYTES: usize = 1 << 20;
/// The operation named in errors.
const READING: &str = "reading standard input";

/// A stream that this process reads: its standard input.
#[derive(Debug)]
pub struct StreamSource {
    capabilities: Capabilities,
    shared: Arc<StreamState>,
}

#[derive(Debug)]
struct StreamState {
    stream: OwnedFd,
    /// True if only a plan is requested, so that nothing is read.
    plan_only: bool,
    cancel: Arc<AtomicBool>,
    intake: Mutex<Intake>,
}

/// The state of reading the stream.
#[derive(Debug, Default)]
struct Intake {
    /// The offset of the next chunk.
    offset: u64,
    /// The part of the next chunk that was read.
    chunk: StreamChunk,
    ended: bool,
    /// The first chunk, which is read early to find out whether there are more.
    first: Option<StreamChunk>,
    looked: bool,
}

/// Consecutive pieces.
#[derive(Debug, Default)]
struct StreamChunk {
    offset: u64,
    length: u64,
    /// The pieces by number. A piece is `None` once it was taken.
    pieces: Vec<Option<PieceBuffer>>,
}

impl StreamSource {
    /// Creates a source of the data from this descriptor. It stops waiting when `cancel` is set. With `plan_only`
    /// nothing is read.
    pub fn new(stream: OwnedFd, plan_only: bool, cancel: Arc<AtomicBool>) -> Self {
        // This fails for descriptors that are not pipes.
        let _ = fcntl_setpipe_size(&stream, PIPE_BYTES);
        let capabilities = Capabilities { stream: true, ..Capabilities::posix(false) };
        let shared = Arc::new(StreamState { stream, plan_only, cancel, intake: Mutex::default() });
        Self { capabilities, shared }
    }
}

impl Endpoint for StreamSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
}

impl SourceEndpoint for StreamSource {
    fn open_source_lane(&self, _index: usize) -> Result<Box<dyn SourceLane>> {
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(AtOnce::new(StreamWork { shared, chunk: StreamChunk::default(), spare: Vec::new() })))
    }
}

impl StreamState {
    fn intake(&self) -> MutexGuard<'_, Intake> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues reading. Returns the chunk once it is complete or the stream has ended. An empty chunk means the end.
    fn next(&self, spare: &mut Vec<PieceBuffer>) -> Result<Option<StreamChunk>> {
        let mut intake = self.intake();
        if let Some(first) = intake.first.take() {
            return Ok(Some(first));
        }
        intake.fill(&self.stream, spare)
    }

    /// Describes the stream. The size is known if it ends within the first chunk.
    fn inspect(&self) -> Result<EntryMetadata> {
        let size_bytes = if self.plan_only { 0 } else { self.first_bytes()? };
        let time = metadata::now();
        Ok(EntryMetadata {
            mode: 0o666 & !umask(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            size_bytes,
            mtime: time,
            ctime: time,
            ..EntryMetadata::new(EntryKind::Fifo)
        })
    }

    fn first_bytes(&self) -> Result<u64> {
        let mut spare = Vec::new();
        loop {
            let mut intake = self.intake();
            if !intake.looked {
                intake.first = intake.fill(&self.stream, &mut spare)?;
                intake.looked = intake.first.is_some();
            }
            if intake.looked {
                let length = intake.first.as_ref().map_or(0, |chunk| chunk.length);
                return Ok(if length < CHUNK_BYTES { length } else { UNKNOWN_BYTES });
            }
            if self.cancel.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, READING, "stopped as asked"));
            }
        }
    }
}

impl Intake {
    /// Reads until a chunk is complete, the stream ends, or no data arrives for a moment.
    fn fill(&mut self, stream: &OwnedFd, spare: &mut Vec<PieceBuffer>) -> Result<Option<StreamChunk>> {
        while !self.ended && self.chunk.length < CHUNK_BYTES {
            let mut ready = [PollFd::new(stream, PollFlags::IN)];
            let polled =
                retry_on_intr(|| poll(&mut ready, Some(&WAIT))).map_err(|errno| fault(READING, errno))?;
            if polled == 0 {
                return Ok(None);
            }
            match self.chunk.read(stream, spare) {
                Ok(0) => self.ended = true,
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(errno) => return Err(fault(READING, errno)),
            }
        }
        let offset = self.offset + self.chunk.length;
        self.offset = offset;
        let next = StreamChunk { offset, ..StreamChunk::default() };
        Ok(Some(std::mem::replace(&mut self.chunk, next)))
    }
}

impl StreamChunk {
    /// Reads once into the incomplete piece. Returns 0 if the stream has ended.
    fn read(&mut self, stream: &OwnedFd, spare: &mut Vec<PieceBuffer>) -> Result<usize, Errno> {
        let filled = (self.length % PIECE_BYTES) as usize;
        if filled == 0 {
            self.pieces.push(Some(spare.pop().unwrap_or_default()));
        }
        let Some(Some(piece)) = self.pieces.last_mut() else { return Err(Errno::NOMEM) };
        let bytes = retry_on_intr(|| read(stream, &mut piece.room()[filled..]))?;
        piece.set_filled(filled + bytes);
        self.length += bytes as u64;
        if filled + bytes == 0 {
            spare.extend(self.pieces.pop().flatten());
        }
        Ok(bytes)
    }

    /// Takes a piece. Each can be taken once.
    fn take(&mut self, extent: Extent) -> Option<PieceBuffer> {
        let index = extent.offset.checked_sub(self.offset)? / PIECE_BYTES;
        let piece = self.pieces.get_mut(usize::try_from(index).ok()?)?.take()?;
        (piece.filled().len() as u64 == extent.length).then_some(piece)
    }
}

/// One lane of a [`StreamSource`], with the chunk that it received last.
struct StreamWork {
    shared: Arc<StreamState>,
    chunk: StreamChunk,
    /// Buffers to read into, returned in exchange for pieces.
    spare: Vec<PieceBuffer>,
}

impl ImmediateWork for StreamWork {
    type Op = SourceOp;

    fn perform(&mut self, operation: SourceOp) -> Option<Result<SourceOutcome>> {
        Some(self.answer(operation))
    }
}

impl StreamWork {
    fn answer(&mut self, operation: SourceOp) -> Result<SourceOutcome> {
        match operation {
            SourceOp::Stat { .. } => Ok(SourceOutcome::Stat(Some(self.shared.inspect()?))),
            SourceOp::ReadStream { .. } => {
                let Some(chunk) = self.shared.next(&mut self.spare)? else {
                    return Ok(SourceOutcome::StreamRead(None));
                };
                let extent = Extent { offset: chunk.offset, length: chunk.length };
                self.chunk = chunk;
                Ok(SourceOutcome::StreamRead(Some(extent)))
            }
            SourceOp::Read { file, extent, buffer } => self.read(&file.path, extent, buffer),
            SourceOp::Revalidate { .. } => Ok(SourceOutcome::Extended { extended: None, losses: Vec::new() }),
            _ => Err(Error::new(ErrorKind::Unsupported, READING, "a stream can only be read")),
        }
    }

    /// Returns a piece of the current chunk. A stream that ends within its first chunk has a known size, and is read
    /// without a request for the next chunk.
    fn read(&mut self, path: &EntryPath, extent: Extent, buffer: PieceBuffer) -> Result<SourceOutcome> {
        // Another lane may be waiting for input, so this must not wait for that lane.
        let mut piece = self.chunk.take(extent);
        if piece.is_none()
            && let Some(first) = self.shared.intake().first.take()
        {
            self.chunk = first;
            piece = self.chunk.take(extent);
        }
        if self.spare.len() < PIECES_PER_CHUNK as usize {
            self.spare.push(buffer);
        }
        let gone = || Error::new(ErrorKind::Unsupported, READING, "a stream cannot be read again").at(path);
        piece.map(SourceOutcome::Read).ok_or_else(gone)
    }
}

/// Returns the process's umask without changing it, as `umask(2)` would.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|value| u32::from_str_radix(value.trim(), 8).ok()).unwrap_or(0o022)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use hakobu_core::endpoint::{CompletionWait, Detail, SourceFile};

    use super::*;

    #[test]
    fn new_files_get_the_mode_that_the_shell_would_give_them() {
        let output = std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(umask(), u32::from_str_radix(told.trim(), 8).unwrap());
    }

    fn ask(lane: &mut dyn SourceLane, operation: SourceOp) -> Result<SourceOutcome> {
        assert!(lane.submit(1, operation).is_ok());
        lane.reap(CompletionWait::Now).unwrap().result
    }

    fn inspect(lane: &mut dyn SourceLane) -> EntryMetadata {
        match ask(
            lane,
            SourceOp::Stat { root: 0, path: EntryPath::new("0").unwrap(), detail: Detail::default() },
        )
        .unwrap()
        {
            SourceOutcome::Stat(Some(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the next chunk, however long the writer takes.
    fn next(lane: &mut dyn SourceLane, file: &Arc<SourceFile>) -> Extent {
        loop {
            match ask(lane, SourceOp::ReadStream { file: file.clone() }).unwrap() {
                SourceOutcome::StreamRead(Some(extent)) => return extent,
                SourceOutcome::StreamRead(None) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn pieces(lane: &mut dyn SourceLane, file: &Arc<SourceFile>, extent: Extent) -> Vec<u8> {
        let mut all = Vec::new();
        for extent in extent.pieces() {
            let buffer = PieceBuffer::default();
            match ask(lane, SourceOp::Read { file: file.clone(), extent, buffer }).unwrap() {
                SourceOutcome::Read(piece) => all.extend_from_slice(piece.filled()),
                other => panic!("{other:?}"),
            }
        }
        all
    }

    fn source() -> (StreamSource, std::io::PipeWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        (StreamSource::new(reader.into(), false, Arc::default()), writer)
    }

    fn file(metadata: EntryMetadata) -> Arc<SourceFile> {
        let path = EntryPath::new("0").unwrap();
        Arc::new(SourceFile { root: 0, path, metadata, tolerant: false })
    }

    #[test]
    fn a_stream_that_ends_soon_has_its_size() {
        for length in [0, 1, 300_000, CHUNK_BYTES as usize - 1] {
            let (source, mut writer) = source();
            let content: Vec<u8> = (0..length).map(|index| (index / 7) as u8).collect();
            let sent = content.clone();
            let thread = std::thread::spawn(move || writer.write_all(&sent).unwrap());
            let (mut first, mut second) =
                (source.open_source_lane(0).unwrap(), source.open_source_lane(1).unwrap());
            let found = inspect(&mut *first);
            assert_eq!((found.kind, found.size_bytes), (EntryKind::Fifo, length as u64));
            let whole = Extent { offset: 0, length: length as u64 };
            // Any lane can read it.
            assert_eq!(pieces(&mut *second, &file(found), whole), content);
            thread.join().unwrap();
        }
    }

    #[test]
    fn lanes_take_chunks_in_turn_and_pieces_once() {
        let (source, mut writer) = source();
        let length = 2 * CHUNK_BYTES as usize + 5;
        let content: Vec<u8> = (0..length).map(|index| (index / 1001) as u8).collect();
        let sent = content.clone();
        let thread = std::thread::spawn(move || writer.write_all(&sent).unwrap());
        let mut lanes = [source.open_source_lane(0).unwrap(), source.open_source_lane(1).unwrap()];
        let found = inspect(&mut *lanes[0]);
        assert_eq!(found.size_bytes, UNKNOWN_BYTES);
        let file = file(found);
        let mut all = Vec::new();
        for (turn, expected) in [CHUNK_BYTES, CHUNK_BYTES, 5, 0, 0].into_iter().enumerate() {
            let lane = &mut *lanes[turn % 2];
            let extent = next(lane, &file);
            assert_eq!((extent.offset, extent.length), (all.len() as u64, expected));
            if expected > 0 {
                all.extend(pieces(lane, &file, extent));
            }
        }
        assert_eq!(all, content);
        let again = SourceOp::Read {
            file: file.clone(),
            extent: Extent { offset: 0, length: PIECE_BYTES },
            buffer: PieceBuffer::new(),
        };
        assert_eq!(ask(&mut *lanes[0], again).unwrap_err().kind, ErrorKind::Unsupported);
        thread.join().unwrap();
    }

    #[test]
    fn who_waits_for_input_can_be_stopped() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let cancel = Arc::new(AtomicBool::new(true));
        let source = StreamSource::new(reader.into(), false, cancel);
        let mut lane = source.open_source_lane(0).unwrap();
        let asked = ask(
            &mut *lane,
            SourceOp::Stat { root: 0, path: EntryPath::new("0").unwrap(), detail: Detail::default() },
        );
        assert_eq!(asked.unwrap_err().kind, ErrorKind::Cancelled);
    }

    #[test]
    fn a_plan_reads_nothing() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"kept").unwrap();
        let source = StreamSource::new(reader.try_clone().unwrap().into(), true, Arc::default());
        assert_eq!(inspect(&mut *source.open_source_lane(0).unwrap()).size_bytes, 0);
        let mut kept = [0; 4];
        std::io::Read::read_exact(&mut &reader, &mut kept).unwrap();
        assert_eq!(&kept, b"kept");
    }
}
