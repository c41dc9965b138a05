//! The target server: holds a target and carries out the operations that the engine requests over data connections.
//!
//! Each connection has a thread with a lane of the local target. All input is hostile until checked: the limits of
//! frames by the connection, paths by their type, and permissions by the grant inside the local endpoint. A peer that
//! violates the protocol loses its connection. An operation that fails gets an answer.

use std::time::{Duration, Instant};

use crate::thread_time::thread_time;
use hakobu_core::block_table::COPIES_MAX;
use hakobu_core::checksum::{Crc64, crc64};
use hakobu_core::counters::{FarTime, ThreadTime};
use hakobu_core::digest::{Digest, PieceHasher, piece_value};
use hakobu_core::endpoint::{CompletionWait, Detail, Lane, TargetLane, TargetOp, TargetOutcome};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::extended::{EXTENDED_BYTES_MAX, Extended};
use hakobu_core::extent::{Extent, PIECE_BYTES};
use hakobu_core::job::LANES_MAX;
use hakobu_core::pack::PACK_BYTES_MAX;
use hakobu_endpoints::local::{DraftWriter, LocalTarget, LocalTargetLane};
use hakobu_proto::compressed;
use hakobu_proto::data::{self, kind};
use hakobu_proto::frame::PAYLOAD_LIMIT_BYTES;
use hakobu_proto::listings;

use crate::compression::{self, Unpacker};
use crate::connection::checked::{corrupt, lost, read_checked, send_checked};
use crate::connection::{Connection, ConnectionError, FrameWait as ConnectionWait, IncomingFrame};

/// The interval at which the engine gets a report of a thread's time.
const TIMES_EVERY: Duration = Duration::from_millis(200);
/// The interval at first, when the engine has to choose how to compress.
const FIRST_TIMES_EVERY: Duration = Duration::from_millis(40);
/// The minimum number of bytes that are written at once, unless the frame ends before.
const WRITE_STEP_BYTES: usize = 128 * 1024;

/// Serves one connection until the peer closes it.
///
/// # Errors
/// The reason why the connection ended otherwise. The target is unchanged except for what had been finished.
pub fn serve(connection: Connection, target: &LocalTarget) -> Result<()> {
    let mut session = ServerSession {
        lane: target.lane(),
        connection,
        payload: Vec::new(),
        meta: Vec::new(),
        unpacker: Unpacker::default(),
        times: ServerTimes::begin(),
    };
    session.hello()?;
    loop {
        let frame = match session.connection.receive(ConnectionWait::Forever) {
            Ok(Some(frame)) => frame,
            Ok(None) => continue,
            Err(ConnectionError::Closed) => {
                // The peer has all its answers, so it need not receive this end of the stream.
                let _ = session.connection.close();
                return Ok(());
            }
            Err(error) => return Err(lost(error)),
        };
        session.handle(&frame)?;
        session.tell_times()?;
    }
}

/// The time that the thread of a connection spends.
struct ServerTimes {
    began: Instant,
    told: Instant,
    work: Duration,
    /// The thread's time before it began to serve.
    before: ThreadTime,
}

impl ServerTimes {
    fn begin() -> Self {
        let began = Instant::now();
        Self { began, told: began, work: Duration::ZERO, before: thread_time() }
    }

    /// Counts the time since `since` as work on the target.
    fn worked(&mut self, since: Instant) {
        self.work += since.elapsed();
    }

    /// Returns the sums so far, unless they were reported a short time ago.
    fn news(&mut self, input: Duration) -> Option<FarTime> {
        let every = if self.began.elapsed() < compression::FIRST { FIRST_TIMES_EVERY } else { TIMES_EVERY };
        if self.told.elapsed() < every {
            return None;
        }
        self.told = Instant::now();
        let now = thread_time();
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Some(FarTime {
            all_ns: ns(self.told.saturating_duration_since(self.began)),
            input_ns: ns(input),
            work_ns: ns(self.work),
            processor_ns: now.processor_ns.saturating_sub(self.before.processor_ns),
            queued_ns: now.queued_ns.saturating_sub(self.before.queued_ns),
        })
    }
}

struct ServerSession {
    connection: Connection,
    lane: LocalTargetLane,
    payload: Vec<u8>,
    meta: Vec<u8>,
    unpacker: Unpacker,
    times: ServerTimes,
}

impl ServerSession {
    /// Reads the first frame, which must be a hello.
    fn hello(&mut self) -> Result<()> {
        loop {
            let Some(frame) = self.connection.receive(ConnectionWait::Forever).map_err(lost)? else {
                continue;
            };
            let hello: data::Hello = match frame.kind {
                kind::HELLO if frame.payload_bytes == 0 => data::decode(self.connection.meta())?,
                _ => return Err(breach("a connection that does not begin with a hello")),
            };
            if hello.lane >= LANES_MAX {
                return Err(breach("a lane's number beyond the limit"));
            }
            return Ok(());
        }
    }

    fn handle(&mut self, frame: &IncomingFrame) -> Result<()> {
        if is_compressed(frame) && !compressed::is_content(frame.kind) {
            return self.cut_off(frame, breach("compression where it does not belong"));
        }
        if frame.kind == kind::ZERO {
            return self.zero(frame);
        }
        if matches!(frame.kind, kind::PATCH | kind::ASSEMBLE) {
            let done = if frame.kind == kind::PATCH { self.patch(frame) } else { self.assemble(frame) };
            return match done {
                Ok(()) => Ok(()),
                Err(error) => self.cut_off(frame, error),
            };
        }
        if frame.kind == kind::WRITE {
            return match sound_write(frame, self.connection.meta()) {
                Ok(write) => match self.write(frame, write) {
                    Err(error) if error.kind == ErrorKind::Protocol => self.cut_off(frame, error),
                    written => written,
                },
                Err(error) => self.cut_off(frame, error),
            };
        }
        let operation = match self.operation(frame) {
            Ok(operation) => operation,
            Err(error) => return self.cut_off(frame, error),
        };
        let result = self.carry_out(operation);
        self.answer(frame.request, result)
    }

    /// Decodes an operation other than a write.
    fn operation(&mut self, frame: &IncomingFrame) -> Result<TargetOp> {
        let takes_payload = matches!(
            frame.kind,
            kind::LIST | kind::WRITE_PACK | kind::APPLY | kind::FINISH | kind::DIGEST | kind::NUMBERS
        );
        if !takes_payload && frame.payload_bytes > 0 {
            return Err(breach("a payload where none belongs"));
        }
        let meta = self.connection.meta();
        let decoded = match frame.kind {
            kind::STAT => {
                let data::StatRequest { path, extended } = data::decode(meta)?;
                TargetOp::Stat { path, detail: Detail { extended, ..Detail::default() } }
            }
            kind::BEGIN => {
                let data::BeginDraft { draft, begin } = data::decode(meta)?;
                TargetOp::Begin { draft, begin, attributes: None }
            }
            kind::HASH_RANGE => {
                let data::HashRange { draft, extent, blocks } = data::decode(meta)?;
                TargetOp::HashRange { draft, extent: sound_extent(extent)?, blocks }
            }
            kind::HOLE => {
                let data::HoleRequest { draft, extent } = data::decode(meta)?;
                TargetOp::Hole { draft, extent: sound_extent(extent)? }
            }
            kind::WEAK_SUMS => {
                let data::WeakSums { draft, extent, block_bytes } = data::decode(meta)?;
                TargetOp::WeakSums { draft, extent: sound_extent(extent)?, block_bytes }
            }
            kind::COMPLETE => {
                let data::Complete { draft, extent, value, kept } = data::decode(meta)?;
                TargetOp::Complete { draft, extent: sound_extent(extent)?, value, kept }
            }
            kind::SET_LENGTH => {
                let data::SetLength { draft, size_bytes } = data::decode(meta)?;
                TargetOp::SetLength { draft, size_bytes }
            }
            kind::FINISH => {
                let data::Finish { draft, attributes, digest } = data::decode(meta)?;
                if attributes.mtime.nanoseconds > 999_999_999 {
                    return Err(breach("a time with too many nanoseconds"));
                }
                let extended = match frame.payload_bytes {
                    0 => None,
                    1..=EXTENDED_BYTES_MAX => Some(Extended::decode(self.read_payload(frame)?.to_vec())?),
                    _ => return Err(breach("extended attributes that exceed the limit")),
                };
                TargetOp::Finish { draft, attributes, extended, digest }
            }
            kind::ABANDON => {
                let data::Abandon { draft, keep } = data::decode(meta)?;
                TargetOp::Abandon { draft, keep }
            }
            kind::BARRIER => {
                let data::Barrier { durable, whole } = data::decode(meta)?;
                TargetOp::Barrier { durable, whole }
            }
            kind::LIST => {
                let data::ListMessage { budget, detail } = data::decode(meta)?;
                let budget = budget.min(data::LIST_BUDGET_MAX);
                let data::ListRequest(directories) = data::decode(self.read_payload(frame)?)?;
                if directories.len() > data::LIST_DIRECTORIES_MAX {
                    return Err(breach("too many directories at once"));
                }
                TargetOp::List { directories, budget, detail }
            }
            kind::APPLY => {
                let data::ApplyChanges(changes) = data::decode(self.read_payload(frame)?)?;
                if changes.len() > data::CHANGES_MAX {
                    return Err(breach("too many changes at once"));
                }
                TargetOp::Apply { changes }
            }
            kind::DIGEST => {
                let data::Digests { directory, names, key } = data::decode(self.read_payload(frame)?)?;
                if names.len() > data::CHANGES_MAX {
                    return Err(breach("too many digests at once"));
                }
                TargetOp::Digest { directory, names: names.into_iter().map(|name| name.0).collect(), key }
            }
            kind::NUMBERS => {
                let data::NumbersRequest(names) = data::decode(self.read_payload(frame)?)?;
                if names.len() > data::NAMES_MAX {
                    return Err(breach("too many names at once"));
                }
                TargetOp::Numbers { names: names.into_iter().map(|(of, name)| (of, name.0)).collect() }
            }
            kind::WRITE_PACK => {
                let mut pack = self.lane.pack_buffer();
                self.read_content(frame, PACK_BYTES_MAX, &mut pack)?;
                TargetOp::WritePack { pack, inodes: Vec::new() }
            }
            _ => return Err(breach("an operation of an unknown kind")),
        };
        Ok(decoded)
    }

    fn read_payload(&mut self, frame: &IncomingFrame) -> Result<&[u8]> {
        self.payload.clear();
        read_checked(&mut self.connection, frame, &mut self.payload)?;
        Ok(&self.payload)
    }

    /// Reads and checks content that is not a piece of a file, compressed or not. Replaces what is in `content`.
    fn read_content(
        &mut self,
        frame: &IncomingFrame,
        content_max: usize,
        content: &mut Vec<u8>,
    ) -> Result<()> {
        if !is_compressed(frame) {
            content.clear();
            return read_checked(&mut self.connection, frame, content);
        }
        let digest = self.unpacker.receive(&mut self.connection, frame, content_max, content)?;
        let whole = |content: &[u8]| *blake3::hash(content).as_bytes();
        if is_intact(frame, digest, content, whole) { Ok(()) } else { Err(corrupt()) }
    }

    fn carry_out(&mut self, operation: TargetOp) -> Result<TargetOutcome> {
        let began = Instant::now();
        let result = self.carried_out(operation);
        self.times.worked(began);
        result
    }

    fn carried_out(&mut self, operation: TargetOp) -> Result<TargetOutcome> {
        if self.lane.submit(0, operation).is_err() {
            return Err(Error::new(ErrorKind::Io, "serving", "the local lane is full"));
        }
        match self.lane.reap(CompletionWait::Forever) {
            Some(completion) => completion.result,
            None => Err(Error::new(ErrorKind::Io, "serving", "the local lane gave no answer")),
        }
    }

    /// Writes a piece as it arrives, without waiting for all of it, and checks it at the end. That is safe because a
    /// draft is not visible, and one with a bad piece can no longer be finished.
    fn write(&mut self, frame: &IncomingFrame, write: data::WritePiece) -> Result<()> {
        let acknowledge = frame.flags & data::FLAG_ACKNOWLEDGE != 0;
        let result = match self.lane.draft_writer(write.draft) {
            Ok(writer) => {
                let times = &mut self.times;
                let connection = &mut self.connection;
                let mut written = if is_compressed(frame) {
                    let buffers = (&mut self.unpacker, &mut self.payload);
                    unpack_piece(connection, frame, writer, write.offset, buffers, times)?
                } else {
                    receive_piece(connection, frame, writer, write.offset, times)?
                };
                if acknowledge {
                    let began = Instant::now();
                    written = written.and_then(|()| writer.flush());
                    self.times.worked(began);
                }
                if let Err(error) = &written {
                    writer.draft().fail(error.clone());
                }
                // An earlier piece of this draft may have failed without an answer.
                written.and_then(|()| writer.draft().check())
            }
            Err(error) => Err(error),
        };
        if !acknowledge {
            return Ok(());
        }
        self.answer(frame.request, result.map(|()| TargetOutcome::Done))
    }

    /// Writes some blocks of a piece. The draft records an error.
    fn patch(&mut self, frame: &IncomingFrame) -> Result<()> {
        let data::Patch { draft, extent, changed, value } = data::decode(self.connection.meta())?;
        let extent = sound_extent(extent)?;
        if frame.payload_bytes == 0 || frame.payload_bytes as u64 > PIECE_BYTES {
            return Err(breach("blocks that are empty or too many"));
        }
        let mut payload = std::mem::take(&mut self.payload);
        let read = self.read_content(frame, PIECE_BYTES as usize, &mut payload);
        self.payload = payload;
        read?;
        if let Ok(writer) = self.lane.draft_writer(draft) {
            let began = Instant::now();
            let _ = writer.patch(extent, changed, &self.payload, value);
            self.times.worked(began);
        }
        Ok(())
    }

    /// Writes a range assembled from existing and new content. A wrong result is reported when the chunk is
    /// completed.
    fn assemble(&mut self, frame: &IncomingFrame) -> Result<()> {
        let data::Assemble { draft, extent, copies, value } = data::decode(self.connection.meta())?;
        let extent = sound_extent(extent)?;
        if frame.payload_bytes as u64 > PIECE_BYTES || copies.len() > COPIES_MAX {
            return Err(breach("too many bytes or ranges at once"));
        }
        let mut payload = std::mem::take(&mut self.payload);
        let read = self.read_content(frame, PIECE_BYTES as usize, &mut payload);
        self.payload = payload;
        read?;
        if let Ok(writer) = self.lane.draft_writer(draft) {
            let began = Instant::now();
            let _ = writer.assemble(extent, &copies, &self.payload, value);
            self.times.worked(began);
        }
        Ok(())
    }

    /// Writes zeros, which need not be transferred.
    fn zero(&mut self, frame: &IncomingFrame) -> Result<()> {
        let decoded = data::decode::<data::ZeroRange>(self.connection.meta());
        let decoded = decoded.and_then(|zero| match frame.payload_bytes {
            0 => Ok((zero.draft, sound_extent(zero.extent)?)),
            _ => Err(breach("a payload where none belongs")),
        });
        let (draft, extent) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return self.cut_off(frame, error),
        };
        let began = Instant::now();
        let result = self.lane.draft_writer(draft).and_then(|writer| {
            let zeroed = writer.zero(extent);
            if let Err(error) = &zeroed {
                writer.draft().fail(error.clone());
            }
            zeroed.and_then(|()| writer.draft().check())
        });
        self.times.worked(began);
        if frame.flags & data::FLAG_ACKNOWLEDGE == 0 {
            return Ok(());
        }
        self.answer(frame.request, result.map(|()| TargetOutcome::Done))
    }

    fn answer(&mut self, request: u32, result: Result<TargetOutcome>) -> Result<()> {
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                let ends = matches!(error.kind, ErrorKind::Protocol);
                self.answer_failure(request, error.clone())?;
                return if ends { Err(error) } else { Ok(()) };
            }
        };
        let connection = &mut self.connection;
        match outcome {
            TargetOutcome::Done => {
                connection.send(kind::DONE, 0, request, &[], &[], 0, None).map_err(lost)?;
            }
            TargetOutcome::Stat(found) => {
                self.meta.clear();
                data::encode(&data::StatReply(found), &mut self.meta)?;
                connection.send(kind::STAT_REPLY, 0, request, &self.meta, &[], 0, None).map_err(lost)?;
            }
            TargetOutcome::Listed(listed) => {
                listings::encode(&listed, &mut self.payload, |payload, more| {
                    let flags = if more { data::FLAG_MORE } else { 0 };
                    send_checked(connection, kind::LISTED, flags, request, &[], payload)
                })?;
            }
            // No operation of the protocol leads to this.
            TargetOutcome::Page(..) => {
                let error =
                    Error::new(ErrorKind::Unsupported, "listing", "an agent lists directories as a whole");
                self.answer_failure(request, error)?;
            }
            TargetOutcome::DraftShared(_) => {
                let words = "an agent leaves no drafts to others";
                self.answer_failure(request, Error::new(ErrorKind::Unsupported, "sharing the draft", words))?;
            }
            TargetOutcome::PackWritten { failures, losses } => {
                self.payload.clear();
                data::StoredReply { failures, losses }.encode_bounded(&mut self.payload)?;
                send_checked(connection, kind::PACK_WRITTEN, 0, request, &[], &self.payload)?;
            }
            TargetOutcome::Begun(begun) => {
                self.payload.clear();
                data::encode(&data::BegunReply(*begun), &mut self.payload)?;
                send_checked(connection, kind::BEGUN, 0, request, &[], &self.payload)?;
            }
            TargetOutcome::Hashes(values) => {
                send_checked(connection, kind::HASHES, 0, request, &[], values.as_flattened())?;
            }
            TargetOutcome::BlockHashes(values) => {
                send_checked(connection, kind::BLOCK_HASHES, 0, request, &[], values.as_flattened())?;
            }
            TargetOutcome::HoleUntil(end) => {
                self.meta.clear();
                data::encode(&end, &mut self.meta)?;
                connection.send(kind::HOLE_UNTIL, 0, request, &self.meta, &[], 0, None).map_err(lost)?;
            }
            TargetOutcome::Sums(sums) => {
                self.payload.clear();
                sums.iter().for_each(|sum| self.payload.extend_from_slice(&sum.to_le_bytes()));
                send_checked(connection, kind::SUMS, 0, request, &[], &self.payload)?;
            }
            TargetOutcome::Numbers(numbers) => {
                self.payload.clear();
                data::encode(&numbers, &mut self.payload)?;
                send_checked(connection, kind::NUMBERED, 0, request, &[], &self.payload)?;
            }
            TargetOutcome::Digests(mut digests) => {
                for digest in &mut digests {
                    if let Err(error) = digest {
                        // The engine knows which file it asked for.
                        error.at.clear();
                        *error = data::bounded(error.clone());
                    }
                }
                self.payload.clear();
                data::encode(&data::DigestReply(digests), &mut self.payload)?;
                send_checked(connection, kind::DIGESTED, 0, request, &[], &self.payload)?;
            }
        }
        self.connection.flush().map_err(lost)
    }

    /// Ends the connection of a peer that violated the protocol, and tells it why if it asked for an answer.
    fn cut_off(&mut self, frame: &IncomingFrame, error: Error) -> Result<()> {
        let may_be_silent = matches!(frame.kind, kind::WRITE | kind::ZERO | kind::PATCH | kind::ASSEMBLE);
        if !may_be_silent || frame.flags & data::FLAG_ACKNOWLEDGE != 0 {
            self.answer_failure(frame.request, error.clone())?;
        }
        Err(error)
    }

    /// Reports at intervals to the engine how this thread spent its time.
    fn tell_times(&mut self) -> Result<()> {
        let Some(times) = self.times.news(self.connection.input_waited()) else { return Ok(()) };
        self.meta.clear();
        data::encode(&data::TimesReply(times), &mut self.meta)?;
        self.connection.send(kind::TIMES, 0, 0, &self.meta, &[], 0, None).map_err(lost)?;
        self.connection.flush().map_err(lost)
    }

    fn answer_failure(&mut self, request: u32, error: Error) -> Result<()> {
        self.meta.clear();
        data::encode(&data::FailedReply(data::bounded(error)), &mut self.meta)?;
        self.connection.send(kind::FAILED, 0, request, &self.meta, &[], 0, None).map_err(lost)?;
        self.connection.flush().map_err(lost)
    }
}

/// Decodes a write. Fails if its piece is not valid.
fn sound_write(frame: &IncomingFrame, meta: &[u8]) -> Result<data::WritePiece> {
    let write: data::WritePiece = data::decode(meta)?;
    if frame.payload_bytes == 0 || frame.payload_bytes as u64 > PIECE_BYTES {
        return Err(breach("a piece that is empty or too long"));
    }
    if !write.offset.is_multiple_of(PIECE_BYTES) {
        return Err(breach("a piece that begins in the middle of one"));
    }
    Ok(write)
}

/// Checks that a range can be one of a file.
fn sound_extent(extent: Extent) -> Result<Extent> {
    let end = extent.offset.checked_add(extent.length).filter(|end| i64::try_from(*end).is_ok());
    if extent.length == 0 || end.is_none() || !extent.offset.is_multiple_of(PIECE_BYTES) {
        return Err(breach("a range that is none"));
    }
    Ok(extent)
}

/// Receives a piece from the connection into the draft. The outer result is the connection's, the inner one the
/// draft's. After a failure of the draft the rest of the piece is skipped.
fn receive_piece(
    connection: &mut Connection,
    frame: &IncomingFrame,
    writer: &mut DraftWriter,
    begin: u64,
    times: &mut ServerTimes,
) -> Result<Result<()>> {
    let mut crc = Crc64::default();
    let mut hasher =
        frame.digest.map(|digest| (PieceHasher::new(writer.draft().size_bytes(), begin), digest));
    let mut offset = begin;
    while let Some(bytes) = connection.payload_piece(WRITE_STEP_BYTES).map_err(lost)? {
        match &mut hasher {
            Some((hasher, _)) => hasher.update(bytes),
            None => crc.update(bytes),
        }
        let began = Instant::now();
        let written = writer.write(offset, bytes);
        times.worked(began);
        if let Err(error) = written {
            return Ok(Err(error));
        }
        offset += bytes.len() as u64;
    }
    let intact = match &hasher {
        Some((hasher, digest)) => hasher.value() == *digest,
        None => crc.value() == frame.checksum,
    };
    Ok(if intact { Ok(()) } else { Err(corrupt()) })
}

/// Receives a compressed piece, which is checked before it is written. The results are those of [`receive_piece`].
fn unpack_piece(
    connection: &mut Connection,
    frame: &IncomingFrame,
    writer: &mut DraftWriter,
    offset: u64,
    (unpacker, content): (&mut Unpacker, &mut Vec<u8>),
    times: &mut ServerTimes,
) -> Result<Result<()>> {
    let digest = match unpacker.receive(connection, frame, PIECE_BYTES as usize, content) {
        Err(error) if error.kind == ErrorKind::Corrupt => return Ok(Err(error)),
        received => received?,
    };
    let size_bytes = writer.draft().size_bytes();
    if !is_intact(frame, digest, content, |content| piece_value(size_bytes, offset, content)) {
        return Ok(Err(corrupt()));
    }
    let began = Instant::now();
    let written = writer.write(offset, content);
    times.worked(began);
    Ok(written)
}

fn is_compressed(frame: &IncomingFrame) -> bool {
    frame.flags & data::FLAG_COMPRESSED != 0
}

/// Returns true if decompressed content is intact. `digest`: that expected on a sealed connection, as `of` computes
/// it.
fn is_intact(
    frame: &IncomingFrame,
    digest: Option<Digest>,
    content: &[u8],
    of: impl FnOnce(&[u8]) -> Digest,
) -> bool {
    match digest {
        Some(digest) => of(content) == digest,
        None => crc64(content) == frame.checksum,
    }
}

// A frame longer than a pack is refused before its kind is examined.
const _: () = assert!(PACK_BYTES_MAX == PAYLOAD_LIMIT_BYTES);

fn breach(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, "serving the target", what)
}
