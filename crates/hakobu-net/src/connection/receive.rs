//! The receiving half of a connection.

use std::time::{Duration, Instant};

use hakobu_core::stopping;
use hakobu_proto::frame::{
    HEADER_BYTES, Header, KIND_CLOSE, PAYLOAD_LIMIT_BYTES, PayloadDigest, SEAL_BYTES, Seal,
};

use super::error::{ConnectionError, ConnectionResult};
use super::records::{RecordStep, has_whole_record};
use super::socket::{READ_LIMIT, ReceiveResult};
use super::{Connection, Protection};

/// The most bytes that [`Connection::payload_piece`] can be asked for.
pub const PIECE_LIMIT_BYTES: usize = 256 * 1024;

/// The most bytes taken from the kernel at once, so that they are still in the processor's cache when they are
/// decrypted.
const RECEIVE_BYTES: usize = 256 * 1024;

/// The time to wait for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameWait {
    /// Do not wait.
    Now,
    /// Wait at most this long.
    For(Duration),
    /// Wait until there is a frame or the connection ends.
    Forever,
}

/// A received frame whose payload is not yet consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncomingFrame {
    /// The message's kind, never [`KIND_CLOSE`].
    pub kind: u8,
    /// Bits whose meaning depends on the kind.
    pub flags: u8,
    /// The number of the request that it makes or answers.
    pub request: u32,
    /// The length of the payload in bytes, at most [`PAYLOAD_LIMIT_BYTES`].
    pub payload_bytes: usize,
    /// The CRC-64/NVME that the payload must have, or 0 if the sender computed none.
    pub checksum: u64,
    /// The BLAKE3 that the payload must have, on a sealed connection. Nothing else protects the payload there: compare
    /// it before using the payload.
    pub digest: Option<PayloadDigest>,
}

/// The time that a frame may take once it has begun, in addition to a least rate for its bytes: a peer that sends a
/// byte now and then cannot block this end. Only waiting counts, and each wait only up to twice the polling interval,
/// so a process that was stopped meanwhile continues.
const FRAME_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 120 });

/// The bytes of a frame received so far, and the time waited for them.
#[derive(Debug, Default)]
pub(super) struct PartialFrame {
    waited: Duration,
    bytes: u64,
}

impl PartialFrame {
    fn check(&mut self, is_under_way: bool, waited: Duration, bytes: u64) -> ConnectionResult<()> {
        if !is_under_way {
            return Ok(());
        }
        self.waited += waited.min(2 * READ_LIMIT);
        self.bytes += bytes;
        match self.waited > FRAME_LIMIT + stopping::time_for(self.bytes) {
            true => Err(ConnectionError::TooSlow("a message has not come as a whole")),
            false => Ok(()),
        }
    }
}

/// A [`FrameWait`] with its deadline.
#[derive(Debug, Clone, Copy)]
enum WaitDeadline {
    Now,
    At(Instant),
    Forever,
}

impl From<FrameWait> for WaitDeadline {
    fn from(wait: FrameWait) -> Self {
        match wait {
            FrameWait::Now => Self::Now,
            FrameWait::For(time) => Instant::now().checked_add(time).map_or(Self::Forever, Self::At),
            FrameWait::Forever => Self::Forever,
        }
    }
}

impl Connection {
    /// Returns the next frame, or `None` if there was none in time. The rest of the last frame's payload is skipped.
    ///
    /// Before it waits, it sends what [`send`](Self::send) held back, however long that takes.
    ///
    /// # Errors
    /// [`ConnectionError::Closed`] after the last frame of a peer that closed; otherwise the connection failed, and
    /// nothing more can be received.
    pub fn receive(&mut self, wait: FrameWait) -> ConnectionResult<Option<IncomingFrame>> {
        self.guarded(|connection| connection.next_frame(wait.into()))
    }

    /// Returns the meta of the last received frame.
    #[must_use]
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// Consumes the next piece of the payload; `None` at its end.
    ///
    /// A piece has at least `least_bytes` (or the rest of the payload, or [`PIECE_LIMIT_BYTES`], if that is less), so
    /// the caller chooses between early pieces and few pieces. It is one slice of the receive buffer and is not copied.
    ///
    /// # Errors
    /// The connection failed.
    pub fn payload_piece(&mut self, least_bytes: usize) -> ConnectionResult<Option<&[u8]>> {
        if self.payload_left == 0 {
            return Ok(None);
        }
        let least = least_bytes.clamp(1, PIECE_LIMIT_BYTES).min(self.payload_left);
        self.guarded(|connection| connection.need(least, WaitDeadline::Forever))?;
        let bytes = self.inbound.plain().len().min(self.payload_left);
        self.payload_left -= bytes;
        Ok(Some(self.inbound.take(bytes)))
    }

    /// Appends the rest of the payload to `to`.
    ///
    /// # Errors
    /// The connection failed.
    pub fn read_payload_into(&mut self, to: &mut Vec<u8>) -> ConnectionResult<()> {
        to.reserve(self.payload_left.min(PAYLOAD_LIMIT_BYTES));
        while let Some(piece) = self.payload_piece(1)? {
            to.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Runs `work` unless receiving has failed: after a failure the bytes that follow mean nothing.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> ConnectionResult<T>) -> ConnectionResult<T> {
        if self.receive_failed {
            return Err(ConnectionError::Cut);
        }
        let done = work(self);
        if let Err(error) = &done {
            self.receive_failed = !matches!(error, ConnectionError::Closed);
        }
        done
    }

    fn next_frame(&mut self, until: WaitDeadline) -> ConnectionResult<Option<IncomingFrame>> {
        if self.payload_left == 0 {
            self.slow = PartialFrame::default();
        }
        while self.payload_left > 0 {
            if !self.need(1, until)? {
                return Ok(None);
            }
            let bytes = self.inbound.plain().len().min(self.payload_left);
            self.inbound.consume(bytes);
            self.payload_left -= bytes;
        }
        let head_bytes = match self.protection {
            Protection::Tls(_) => HEADER_BYTES,
            Protection::Sealed { .. } => HEADER_BYTES + SEAL_BYTES,
        };
        if !self.need(head_bytes, until)? {
            return Ok(None);
        }
        let header_bytes: [u8; HEADER_BYTES] = self.plain_array(0)?;
        // The limits are checked here, before a length is used.
        let header = Header::decode(&header_bytes)?;
        let meta_bytes = header.meta_bytes as usize;
        if !self.need(head_bytes + meta_bytes, until)? {
            return Ok(None);
        }
        let digest = self.check_head(&header_bytes, &header, head_bytes)?;
        self.meta.clear();
        let head = self.inbound.take(head_bytes + meta_bytes);
        self.meta.extend_from_slice(&head[head_bytes..]);
        if header.kind == KIND_CLOSE {
            return Err(self.closing_frame(&header));
        }
        self.payload_left = header.payload_bytes as usize;
        Ok(Some(IncomingFrame {
            kind: header.kind,
            flags: header.flags,
            request: header.request,
            payload_bytes: self.payload_left,
            checksum: header.checksum,
            digest,
        }))
    }

    /// Authenticates the header and meta of a sealed frame. Returns its digest.
    fn check_head(
        &mut self,
        header_bytes: &[u8; HEADER_BYTES],
        header: &Header,
        head_bytes: usize,
    ) -> ConnectionResult<Option<PayloadDigest>> {
        if !self.is_sealed() {
            return Ok(None);
        }
        let seal = Seal::decode(&self.plain_array(HEADER_BYTES)?);
        let meta = &self.inbound.plain()[head_bytes..head_bytes + header.meta_bytes as usize];
        if let Protection::Sealed { opener, .. } = &mut self.protection {
            opener.open(header_bytes, header, &seal, meta)?;
        }
        Ok(Some(seal.digest))
    }

    /// Handles the end of a sealed direction; over TLS such a frame is invalid.
    fn closing_frame(&mut self, header: &Header) -> ConnectionError {
        if !self.is_sealed() || header.meta_bytes > 0 || header.payload_bytes > 0 {
            return ConnectionError::Protocol("frame kind 0 is taken");
        }
        self.peer_closed = true;
        ConnectionError::Closed
    }

    fn plain_array<const BYTES: usize>(&self, at: usize) -> ConnectionResult<[u8; BYTES]> {
        self.inbound
            .plain()
            .get(at..)
            .and_then(|plain| plain.first_chunk())
            .copied()
            .ok_or(ConnectionError::Cut)
    }

    /// Waits for at least `bytes` of plaintext. Returns `false` if they did not arrive in time.
    fn need(&mut self, bytes: usize, until: WaitDeadline) -> ConnectionResult<bool> {
        loop {
            self.open_records(bytes)?;
            if self.inbound.plain().len() >= bytes {
                return Ok(true);
            }
            if self.peer_closed || self.ended {
                let complete = self.inbound.plain().is_empty() && self.payload_left == 0;
                return Err(match self.peer_closed && complete {
                    true => ConnectionError::Closed,
                    false => ConnectionError::Cut,
                });
            }
            if !self.take_in(until)? {
                return Ok(false);
            }
        }
    }

    /// Decrypts until there are `bytes` of plaintext or no whole record is left.
    fn open_records(&mut self, bytes: usize) -> ConnectionResult<()> {
        let Protection::Tls(session) = &mut self.protection else {
            return Ok(());
        };
        while !self.peer_closed && self.inbound.plain().len() < bytes && has_whole_record(self.inbound.raw())
        {
            match session.step(&mut self.inbound, &mut self.outgoing) {
                Ok(RecordStep::Plain) => {}
                Ok(RecordStep::NeedMore) => break,
                Ok(RecordStep::Closed) => self.peer_closed = true,
                Err(error) => {
                    // Tell the peer the reason, if that does not block.
                    let alert = std::io::IoSlice::new(self.outgoing.pending());
                    let _ = self.socket.send(&[alert]);
                    self.send_failed = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Takes bytes from the socket. Returns `false` if none arrived in time.
    fn take_in(&mut self, until: WaitDeadline) -> ConnectionResult<bool> {
        if !matches!(until, WaitDeadline::Now) && !self.send_failed {
            // The peer may be waiting for data that is held back. Sending it can itself receive the awaited data.
            let before = self.socket.received_bytes;
            self.flush()?;
            if self.socket.received_bytes > before || self.ended {
                return Ok(true);
            }
        }
        let is_under_way = self.payload_left > 0 || self.inbound.has_any();
        let room = self.inbound.room();
        let room_bytes = room.len().min(RECEIVE_BYTES);
        let room = &mut room[..room_bytes];
        let received = match until {
            WaitDeadline::Now => self.socket.receive(room, false)?,
            WaitDeadline::Forever => {
                let mut silent = Duration::ZERO;
                loop {
                    let (bytes, waited) = (self.socket.received_bytes, self.socket.input_waited);
                    let received = self.socket.receive(room, true)?;
                    let waited = self.socket.input_waited - waited;
                    self.slow.check(is_under_way, waited, self.socket.received_bytes - bytes)?;
                    silent += waited.min(2 * READ_LIMIT);
                    match received {
                        ReceiveResult::NothingYet if silent < self.silence_limit => {}
                        ReceiveResult::NothingYet => {
                            return Err(ConnectionError::TooSlow("no answer has come"));
                        }
                        other => break other,
                    }
                }
            }
            WaitDeadline::At(deadline) => match self.socket.wait(true, false, Some(deadline))?.read {
                true => self.socket.receive(room, false)?,
                false => ReceiveResult::NothingYet,
            },
        };
        match received {
            ReceiveResult::Bytes(bytes) => self.took_in(bytes),
            ReceiveResult::NothingYet => return Ok(false),
            ReceiveResult::End => self.ended = true,
        }
        Ok(true)
    }

    /// Adds `bytes` that were received into the room of the receive buffer.
    pub(super) fn took_in(&mut self, bytes: usize) {
        self.inbound.received(bytes);
        if self.is_sealed() {
            self.inbound.all_plain();
        }
    }
}
