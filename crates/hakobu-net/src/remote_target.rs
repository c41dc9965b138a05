//! The remote target: the engine's side of a target on another host. It is an [`Endpoint`] whose lanes send
//! operations over data connections and return the answers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::compression::{Compression, CompressionStats};
use hakobu_core::counters::{FarTime, RemoteStats, WayTime};
use hakobu_core::endpoint::{
    Check, Completion, CompletionWait, Endpoint, Lane, LinkStats, PieceBuffer, TargetEndpoint, TargetLane,
    TargetOp, TargetOutcome, Ticket,
};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::extended::Extended;
use hakobu_core::extent::BLOCKS_PER_PIECE;
use hakobu_core::listing::ENTRIES_MAX;
use hakobu_proto::data::{self, kind};
use hakobu_proto::listings::Assembler;
use hakobu_sys::tcp_info::tcp_info;
use serde::Serialize;

use crate::acceptor::ArrivingConnections;
use crate::compression::Packer;
use crate::connection::checked::{check_of, lost, read_checked, send_checked};
use crate::connection::{Connection, FrameWait as ConnectionWait};
use crate::connection_time::WayWatch;
use crate::stop::StopHandle;
use hakobu_core::lane_count::LONG_ROUND_TRIP;

/// The maximum number of outstanding answers on one lane.
const ANSWERS_MAX: usize = 256;
/// The maximum number of buffers of each kind that are kept for reuse.
const SPARE_BUFFERS_MAX: usize = 16;

/// A target that another process serves, reached over data connections.
pub struct RemoteTarget {
    capabilities: Capabilities,
    arriving: ArrivingConnections,
    wire: Arc<WireBytes>,
    compression: Compression,
}

/// The bytes transferred over the connections of a session, including overhead.
#[derive(Debug, Default)]
pub struct WireBytes {
    sent: AtomicU64,
    received: AtomicU64,
}

impl WireBytes {
    /// Returns the bytes sent and received by the connections that have ended.
    pub fn total(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), self.received.load(Relaxed))
    }
}

impl RemoteTarget {
    /// Takes the connections of a session, one for each lane.
    ///
    /// # Errors
    /// `Io` if no file descriptor is left.
    pub fn new(capabilities: Capabilities, connections: Vec<Connection>) -> Result<Self> {
        Ok(Self::with(capabilities, ArrivingConnections::all(connections, StopHandle::default())?))
    }

    /// Takes connections of which at least the first is there.
    pub fn with(mut capabilities: Capabilities, arriving: ArrivingConnections) -> Self {
        capabilities.remote = true;
        capabilities.clones = false;
        capabilities.lists_in_order = false;
        let sealed = arriving.pool.is_sealed();
        capabilities.wants_checksum = !sealed;
        capabilities.wants_digest = sealed;
        Self { capabilities, arriving, wire: Arc::default(), compression: Compression::None }
    }

    /// Sets the compression of content that is sent to the target.
    #[must_use]
    pub fn compressing(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    /// Ends all connections immediately, from any thread. Blocked lanes fail.
    pub fn interrupt(&self) {
        self.arriving.pool.interrupt();
    }

    /// Returns the counters of transferred bytes.
    pub fn wire(&self) -> Arc<WireBytes> {
        self.wire.clone()
    }
}

impl Endpoint for RemoteTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn interrupt(&self) {
        RemoteTarget::interrupt(self);
    }

    fn passed(&self) -> Option<LinkStats> {
        self.arriving.pool.passed()
    }

    fn may_open_lane(&self, has_work: bool) -> bool {
        self.arriving.pool.is_settled(has_work)
    }
}

impl TargetEndpoint for RemoteTarget {
    fn open_target_lane(&self, index: usize) -> Result<Box<dyn TargetLane>> {
        let connection = self.arriving.pool.take().ok_or_else(|| {
            Error::new(ErrorKind::Usage, "opening a lane", "there is no data connection left for it")
        })?;
        let lane = u16::try_from(index).map_err(|_| Error::new(ErrorKind::Usage, "opening a lane", ""))?;
        let round_trip = tcp_info(&connection).map_or(0, |info| info.min_rtt_us);
        let is_long = Duration::from_micros(round_trip.into()) >= LONG_ROUND_TRIP;
        let packer = Packer::new(self.compression, is_long);
        Ok(Box::new(RemoteLane::new(connection, lane, self.wire.clone(), packer)))
    }
}

/// A lane over one data connection.
struct RemoteLane {
    connection: Connection,
    wire: Arc<WireBytes>,
    /// Outstanding answers by request. Listings are assembled as they arrive.
    due: HashMap<u32, ExpectedReply>,
    done: VecDeque<Completion<TargetOutcome>>,
    meta: Vec<u8>,
    payload: Vec<u8>,
    pieces: Vec<PieceBuffer>,
    packs: Vec<Vec<u8>>,
    failed: Option<Error>,
    failure_told: bool,
    /// The times that the target server reported last. `times_left`: the number of reports that it may still send.
    far: FarTime,
    times_left: u64,
    /// The kernel's counters of the connection.
    way: WayWatch,
    /// Compresses content; `None` if none is ever compressed.
    packer: Option<Packer>,
}

struct ExpectedReply {
    ticket: Ticket,
    listings: Option<Assembler>,
}

impl RemoteLane {
    fn new(connection: Connection, lane: u16, wire: Arc<WireBytes>, packer: Option<Packer>) -> Self {
        let mut this = Self {
            connection,
            wire,
            due: HashMap::new(),
            done: VecDeque::new(),
            meta: Vec::new(),
            payload: Vec::new(),
            pieces: Vec::new(),
            packs: Vec::new(),
            failed: None,
            failure_told: false,
            far: FarTime::default(),
            times_left: 0,
            way: WayWatch::default(),
            packer,
        };
        if let Err(error) = this.message(kind::HELLO, 0, &data::Hello { lane }) {
            this.fail(error);
        }
        this
    }

    fn send(&mut self, ticket: Ticket, operation: TargetOp) -> Result<()> {
        // The low 32 bits are unique: tickets count up, and far fewer than 2^32 are ever outstanding.
        let request = ticket as u32;
        match operation {
            TargetOp::Stat { path, detail } => {
                self.expect(ticket, None);
                self.message(kind::STAT, request, &data::StatRequest { path, extended: detail.extended })
            }
            TargetOp::List { directories, budget, detail } => {
                self.expect(ticket, Some(Assembler::new(ENTRIES_MAX)));
                self.with_payload(
                    kind::LIST,
                    request,
                    &data::ListMessage { budget, detail },
                    &data::ListRequest(directories),
                )?;
                // The target lists while the engine continues to scan.
                self.connection.flush().map_err(lost)
            }
            TargetOp::Page { .. } => {
                Err(Error::new(ErrorKind::Unsupported, "listing", "an agent lists directories as a whole"))
            }
            TargetOp::WritePack { pack, .. } => {
                self.expect(ticket, None);
                self.meta.clear();
                let check = check_of(&self.connection, &pack);
                let sent = self.content(kind::WRITE_PACK, 0, request, &pack, check);
                if self.packs.len() < SPARE_BUFFERS_MAX {
                    self.packs.push(pack);
                }
                sent
            }
            TargetOp::Begin { draft, begin, attributes: _ } => {
                self.expect(ticket, None);
                self.message(kind::BEGIN, request, &data::BeginDraft { draft, begin })
            }
            TargetOp::HashRange { draft, extent, blocks } => {
                self.expect(ticket, None);
                self.message(kind::HASH_RANGE, request, &data::HashRange { draft, extent, blocks })
            }
            TargetOp::Patch { draft, extent, changed, buffer, value } => {
                self.meta.clear();
                data::encode(&data::Patch { draft, extent, changed, value }, &mut self.meta)?;
                let check = check_of(&self.connection, buffer.filled());
                let sent = self.content(kind::PATCH, 0, request, buffer.filled(), check);
                self.recycle(buffer);
                sent
            }
            TargetOp::Hole { draft, extent } => {
                self.expect(ticket, None);
                self.message(kind::HOLE, request, &data::HoleRequest { draft, extent })
            }
            TargetOp::WeakSums { draft, extent, block_bytes } => {
                self.expect(ticket, None);
                self.message(kind::WEAK_SUMS, request, &data::WeakSums { draft, extent, block_bytes })
            }
            TargetOp::Assemble { draft, extent, copies, buffer, value } => {
                self.meta.clear();
                data::encode(&data::Assemble { draft, extent, copies, value }, &mut self.meta)?;
                let check = check_of(&self.connection, buffer.filled());
                let sent = self.content(kind::ASSEMBLE, 0, request, buffer.filled(), check);
                self.recycle(buffer);
                sent
            }
            TargetOp::Zero { draft, extent, acknowledge } => {
                if acknowledge {
                    self.expect(ticket, None);
                }
                self.meta.clear();
                data::encode(&data::ZeroRange { draft, extent }, &mut self.meta)?;
                let flags = if acknowledge { data::FLAG_ACKNOWLEDGE } else { 0 };
                self.connection.send(kind::ZERO, flags, request, &self.meta, &[], 0, None).map_err(lost)
            }
            TargetOp::Complete { draft, extent, value, kept } => {
                self.expect(ticket, None);
                self.message(kind::COMPLETE, request, &data::Complete { draft, extent, value, kept })
            }
            TargetOp::Write { draft, offset, buffer, check, acknowledge } => {
                if acknowledge {
                    self.expect(ticket, None);
                }
                self.meta.clear();
                data::encode(&data::WritePiece { draft, offset }, &mut self.meta)?;
                let flags = if acknowledge { data::FLAG_ACKNOWLEDGE } else { 0 };
                let sent = self.content(kind::WRITE, flags, request, buffer.filled(), check);
                self.recycle(buffer);
                sent
            }
            TargetOp::SetLength { draft, size_bytes } => {
                self.expect(ticket, None);
                self.message(kind::SET_LENGTH, request, &data::SetLength { draft, size_bytes })
            }
            TargetOp::Finish { draft, attributes, extended, digest } => {
                self.expect(ticket, None);
                self.meta.clear();
                data::encode(&data::Finish { draft, attributes, digest }, &mut self.meta)?;
                let extended = extended.as_ref().map_or(&b""[..], Extended::as_bytes);
                send_checked(&mut self.connection, kind::FINISH, 0, request, &self.meta, extended)
            }
            TargetOp::Abandon { draft, keep } => {
                self.expect(ticket, None);
                self.message(kind::ABANDON, request, &data::Abandon { draft, keep })
            }
            TargetOp::Numbers { names } => {
                self.expect(ticket, None);
                let names = names.into_iter().map(|(of, name)| (of, data::ByteBuf(name))).collect();
                self.with_payload(kind::NUMBERS, request, &(), &data::NumbersRequest(names))
            }
            TargetOp::Digest { directory, names, key } => {
                self.expect(ticket, None);
                let names = names.into_iter().map(data::ByteBuf).collect();
                self.with_payload(kind::DIGEST, request, &(), &data::Digests { directory, names, key })
            }
            TargetOp::Apply { changes } => {
                self.expect(ticket, None);
                self.with_payload(kind::APPLY, request, &(), &data::ApplyChanges(changes))
            }
            TargetOp::Barrier { durable, whole } => {
                self.expect(ticket, None);
                self.message(kind::BARRIER, request, &data::Barrier { durable, whole })
            }
            TargetOp::Reflink { .. }
            | TargetOp::CopyInStore { .. }
            | TargetOp::JoinDraft { .. }
            | TargetOp::ShareDraft { .. } => {
                Err(Error::new(ErrorKind::Unsupported, "copying", "it cannot be done across machines"))
            }
        }
    }

    fn expect(&mut self, ticket: Ticket, listings: Option<Assembler>) {
        self.due.insert(ticket as u32, ExpectedReply { ticket, listings });
    }

    /// Sends a message without payload. It may be buffered to be sent together with others.
    fn message<T: Serialize>(&mut self, kind: u8, request: u32, message: &T) -> Result<()> {
        self.meta.clear();
        data::encode(message, &mut self.meta)?;
        self.connection.send(kind, 0, request, &self.meta, &[], 0, None).map_err(lost)
    }

    fn with_payload<M: Serialize, P: Serialize>(
        &mut self,
        kind: u8,
        request: u32,
        meta: &M,
        payload: &P,
    ) -> Result<()> {
        self.meta.clear();
        data::encode(meta, &mut self.meta)?;
        let mut encoded = std::mem::take(&mut self.payload);
        encoded.clear();
        let sent = data::encode(payload, &mut encoded)
            .and_then(|()| send_checked(&mut self.connection, kind, 0, request, &self.meta, &encoded));
        self.payload = encoded;
        sent
    }

    /// Sends content, compressed if that pays. Its `meta` has been encoded before.
    fn content(&mut self, kind: u8, flags: u8, request: u32, content: &[u8], check: Check) -> Result<()> {
        let is_sealed = self.connection.is_sealed();
        let digest = check.value.filter(|_| is_sealed);
        let packed = self.packer.as_mut().and_then(|packer| packer.pack(content, digest));
        let sent = match packed {
            Some(packed) => {
                let digest = is_sealed.then(|| *blake3::hash(packed).as_bytes());
                let flags = flags | data::FLAG_COMPRESSED;
                self.connection.send(kind, flags, request, &self.meta, packed, check.crc, digest.as_ref())
            }
            None => {
                let digest = check.value.as_ref();
                self.connection.send(kind, flags, request, &self.meta, content, check.crc, digest)
            }
        };
        sent.map_err(lost)?;
        self.think()
    }

    /// Lets the packer choose a new compression level at intervals.
    fn think(&mut self) -> Result<()> {
        if !self.packer.as_ref().is_some_and(Packer::is_due) {
            return Ok(());
        }
        // The reported times are among the answers.
        while self.take_answer(ConnectionWait::Now)? {}
        if let Some(packer) = &mut self.packer {
            packer.think(self.connection.output_waited(), self.far);
        }
        Ok(())
    }

    /// Receives one answer. Returns false if there is none.
    fn take_answer(&mut self, wait: ConnectionWait) -> Result<bool> {
        let Some(frame) = self.connection.receive(wait).map_err(lost)? else { return Ok(false) };
        if frame.kind == kind::TIMES {
            self.take_times(&frame)?;
            return Ok(true);
        }
        self.payload.clear();
        read_checked(&mut self.connection, &frame, &mut self.payload)?;
        if let Some(result) = self.understand(&frame)?
            && let Some(due) = self.due.remove(&frame.request)
        {
            self.done.push_back(Completion { ticket: due.ticket, result });
        }
        Ok(true)
    }

    /// Records the reported times. Only one report per operation is allowed, or a peer could keep a lane busy with
    /// them.
    fn take_times(&mut self, frame: &crate::connection::IncomingFrame) -> Result<()> {
        let left = self.times_left.checked_sub(1).filter(|_| frame.payload_bytes == 0);
        self.times_left = left
            .ok_or_else(|| Error::new(ErrorKind::Protocol, "reading the remote host's times", "too many"))?;
        data::TimesReply(self.far) = data::decode(self.connection.meta())?;
        Ok(())
    }

    /// Returns the result that an answer carries, or `None` if more of it follows.
    fn understand(
        &mut self,
        frame: &crate::connection::IncomingFrame,
    ) -> Result<Option<Result<TargetOutcome>>> {
        let Some(due) = self.due.get_mut(&frame.request) else {
            return Err(Error::new(
                ErrorKind::Protocol,
                "reading an answer",
                "nothing was asked with its number",
            ));
        };
        let outcome = match (frame.kind, due.listings.take()) {
            (kind::FAILED, _) => {
                let data::FailedReply(error) = data::decode(self.connection.meta())?;
                return Ok(Some(Err(data::bounded(error))));
            }
            (kind::LISTED, Some(mut listings)) => {
                listings.frame(&self.payload)?;
                if frame.flags & data::FLAG_MORE != 0 {
                    // Every frame has to bring the answer closer to its limits.
                    if self.payload.is_empty() {
                        return Err(Error::new(ErrorKind::Protocol, "reading an answer", "an empty part"));
                    }
                    due.listings = Some(listings);
                    return Ok(None);
                }
                listings.finish()?
            }
            (kind::DONE, None) => TargetOutcome::Done,
            (kind::BEGUN, None) => {
                let data::BegunReply(begun) = data::decode(&self.payload)?;
                TargetOutcome::Begun(Box::new(begun))
            }
            (kind::HASHES, None) => TargetOutcome::Hashes(values(&self.payload)?),
            (kind::BLOCK_HASHES, None) => TargetOutcome::BlockHashes(values(&self.payload)?),
            (kind::HOLE_UNTIL, None) => TargetOutcome::HoleUntil(data::decode(self.connection.meta())?),
            (kind::SUMS, None) => TargetOutcome::Sums(sums(&self.payload)?),
            (kind::NUMBERED, None) => {
                TargetOutcome::Numbers(data::decode::<data::NumbersReply>(&self.payload)?)
            }
            (kind::DIGESTED, None) => {
                let data::DigestReply(digests) = data::decode(&self.payload)?;
                TargetOutcome::Digests(
                    digests.into_iter().map(|digest| digest.map_err(data::bounded)).collect(),
                )
            }
            (kind::STAT_REPLY, None) => {
                let data::StatReply(found) = data::decode(self.connection.meta())?;
                TargetOutcome::Stat(found)
            }
            (kind::PACK_WRITTEN, None) => {
                let data::StoredReply { failures, losses } =
                    data::decode::<data::StoredReply>(&self.payload)?.bounded();
                TargetOutcome::PackWritten { failures, losses }
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Protocol,
                    "reading an answer",
                    "of a kind that does not fit",
                ));
            }
        };
        Ok(Some(Ok(outcome)))
    }

    /// Gives up the connection. Whatever the reason, a new connection may work, so the error becomes `ConnectionLost`
    /// unless it is fatal.
    fn fail(&mut self, mut error: Error) {
        if !error.is_fatal() {
            error.kind = ErrorKind::ConnectionLost;
        }
        if self.failed.is_none() {
            self.failed = Some(error);
        }
    }

    /// Returns the connection's failure once. Any other answer would be waited for in vain.
    fn failure(&mut self) -> Option<Completion<TargetOutcome>> {
        let error = self.failed.clone().filter(|_| !self.failure_told)?;
        self.failure_told = true;
        Some(Completion { ticket: Ticket::MAX, result: Err(error) })
    }
}

impl Lane<TargetOp> for RemoteLane {
    fn submit(&mut self, ticket: Ticket, operation: TargetOp) -> std::result::Result<(), TargetOp> {
        if self.failed.is_some() {
            self.failure_told = false;
            return Ok(());
        }
        if self.due.len() >= ANSWERS_MAX {
            return Err(operation);
        }
        self.times_left += 1;
        if let Err(error) = self.send(ticket, operation) {
            self.fail(error);
        }
        Ok(())
    }

    fn reap(&mut self, wait: CompletionWait) -> Option<Completion<TargetOutcome>> {
        loop {
            if let Some(done) = self.done.pop_front() {
                return Some(done);
            }
            if self.failed.is_some() {
                return self.failure();
            }
            let wait = match wait {
                CompletionWait::Forever if self.due.is_empty() => return None,
                CompletionWait::Forever => ConnectionWait::Forever,
                CompletionWait::For(limit) => ConnectionWait::For(limit),
                CompletionWait::Now => ConnectionWait::Now,
            };
            match self.take_answer(wait) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => self.fail(error),
            }
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.connection.flush() {
            self.fail(lost(error));
        }
    }
}

impl TargetLane for RemoteLane {
    fn piece_buffer(&mut self) -> PieceBuffer {
        self.pieces.pop().unwrap_or_default()
    }

    fn pack_buffer(&mut self) -> Vec<u8> {
        self.packs.pop().unwrap_or_default()
    }

    fn recycle(&mut self, buffer: PieceBuffer) {
        if self.pieces.len() < SPARE_BUFFERS_MAX {
            self.pieces.push(buffer);
        }
    }

    fn beyond(&mut self) -> RemoteStats {
        // A connection through ssh belongs to an ssh process and has no TCP counters here.
        let way = tcp_info(&self.connection).map_or_else(|_| WayTime::default(), |info| self.way.take(&info));
        let compressed = self.packer.as_ref().map_or_else(CompressionStats::default, Packer::compressed);
        RemoteStats { far: self.far, way, compressed }
    }
}

impl Drop for RemoteLane {
    fn drop(&mut self) {
        if self.failed.is_none() {
            // The peer notices in any case, at the latest by the end of the stream.
            let _ = self.connection.close_at_once();
        }
        self.wire.sent.fetch_add(self.connection.wire_sent_bytes(), Relaxed);
        self.wire.received.fetch_add(self.connection.wire_received_bytes(), Relaxed);
    }
}

/// Returns the values in a signature: of pieces, or of the blocks of one piece.
fn values<const LENGTH: usize>(payload: &[u8]) -> Result<Vec<[u8; LENGTH]>> {
    let (values, rest) = payload.as_chunks::<LENGTH>();
    if !rest.is_empty() || values.len() as u64 > BLOCKS_PER_PIECE {
        return Err(Error::new(ErrorKind::Protocol, "reading an answer", "a signature that is none"));
    }
    Ok(values.to_vec())
}

fn sums(payload: &[u8]) -> Result<Vec<u64>> {
    let (sums, rest) = payload.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Error::new(ErrorKind::Protocol, "reading an answer", "sums that are none"));
    }
    Ok(sums.iter().map(|sum| u64::from_le_bytes(*sum)).collect())
}
