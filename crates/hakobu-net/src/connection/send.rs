//! The sending half of a connection.

use std::io::IoSlice;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use hakobu_proto::frame::{Header, KIND_CLOSE, PayloadDigest};

use super::buffers::RECORD_PLAIN_BYTES;
use super::error::{ConnectionError, ConnectionResult};
use super::socket::ReceiveResult;
use super::{Connection, Protection};

/// The number of held-back bytes that triggers sending.
const CORK_BYTES: usize = 64 * 1024;

/// The size in bytes of the slices in which payload is encrypted and handed to the kernel.
const SLICE_BYTES: usize = 128 * 1024;

/// The most bytes received at once while waiting to send.
const SIDE_RECEIVE_BYTES: usize = 256 * 1024;

/// The time for which a peer that sends nothing more may take nothing.
const ENDED_LIMIT: Duration = Duration::from_secs(5);

impl Connection {
    /// Sends a frame.
    ///
    /// Small frames are held back until there are 64 KiB of them, until [`flush`](Self::flush), or until this end waits
    /// for the peer in [`receive`](Self::receive). `checksum` is the CRC-64/NVME of `payload`, 0 without one; `digest`
    /// is its BLAKE3, which a sealed connection needs for every payload and other connections do not send.
    ///
    /// # Errors
    /// A limit is exceeded or the digest is missing (nothing was sent, and the connection remains usable); or the
    /// connection failed.
    #[allow(clippy::too_many_arguments)] // a struct would only rename them
    pub fn send(
        &mut self,
        kind: u8,
        flags: u8,
        request: u32,
        meta: &[u8],
        payload: &[u8],
        checksum: u64,
        digest: Option<&PayloadDigest>,
    ) -> ConnectionResult<()> {
        self.check_sendable()?;
        if kind == KIND_CLOSE {
            return Err(ConnectionError::Misuse("frame kind 0 is taken"));
        }
        let header = Header::new(kind, flags, request, meta.len(), payload.len(), checksum)?;
        self.make_head(&header, meta, digest)?;
        let sent = match self.protection {
            Protection::Tls(_) => self.send_encrypted(payload),
            Protection::Sealed { .. } => self.send_sealed(payload),
        };
        self.send_failed |= sent.is_err();
        sent
    }

    /// Sends the data held back.
    ///
    /// # Errors
    /// The connection failed.
    pub fn flush(&mut self) -> ConnectionResult<()> {
        if self.outgoing.pending().is_empty() {
            return Ok(());
        }
        let sent = self.push(&[]);
        self.send_failed |= sent.is_err();
        sent
    }

    /// Sends the data held back and tells the peer that nothing more follows. Receiving is possible until the peer
    /// closes too.
    ///
    /// # Errors
    /// The connection failed. Closing twice is not an error.
    pub fn close(&mut self) -> ConnectionResult<()> {
        if self.closed {
            return Ok(());
        }
        self.check_sendable()?;
        self.closed = true;
        let sent = self.send_close();
        self.send_failed |= sent.is_err();
        sent
    }

    /// Closes like [`close`](Self::close), but without waiting for a peer that takes nothing. That peer sees a cut
    /// connection.
    ///
    /// # Errors
    /// The connection failed.
    pub fn close_at_once(&mut self) -> ConnectionResult<()> {
        if self.closed {
            return Ok(());
        }
        self.check_sendable()?;
        self.closed = true;
        self.prepare_close()?;
        while !self.outgoing.pending().is_empty() {
            match self.socket.send(&[IoSlice::new(self.outgoing.pending())])? {
                Some(bytes) => self.outgoing.sent(bytes),
                None => break,
            }
        }
        let _ = self.socket.stream().shutdown(Shutdown::Write);
        Ok(())
    }

    fn send_close(&mut self) -> ConnectionResult<()> {
        self.prepare_close()?;
        self.push(&[])?;
        // This fails if the peer has already gone, which does not matter.
        let _ = self.socket.stream().shutdown(Shutdown::Write);
        Ok(())
    }

    /// Appends the close message to the data held back.
    fn prepare_close(&mut self) -> ConnectionResult<()> {
        if let Protection::Tls(session) = &mut self.protection {
            session.close(&mut self.outgoing)?;
        } else {
            let header = Header::new(KIND_CLOSE, 0, 0, 0, 0, 0)?;
            self.make_head(&header, &[], None)?;
            self.outgoing.append(&self.head);
        }
        Ok(())
    }

    fn check_sendable(&self) -> ConnectionResult<()> {
        if self.closed {
            return Err(ConnectionError::Misuse("sending after closing"));
        }
        if self.send_failed {
            return Err(ConnectionError::Cut);
        }
        Ok(())
    }

    /// Makes header, seal and meta, in the order of the wire.
    pub(super) fn make_head(
        &mut self,
        header: &Header,
        meta: &[u8],
        digest: Option<&PayloadDigest>,
    ) -> ConnectionResult<()> {
        self.head.clear();
        self.head.extend_from_slice(&header.encode());
        if let Protection::Sealed { sealer, .. } = &mut self.protection {
            let digest = match digest {
                Some(digest) if header.payload_bytes > 0 => digest,
                None if header.payload_bytes > 0 => {
                    return Err(ConnectionError::Misuse("a sealed payload needs a digest"));
                }
                _ => &[0; 32],
            };
            let seal = sealer.seal(header, digest, meta)?;
            self.head.extend_from_slice(&seal.encode());
        }
        self.head.extend_from_slice(meta);
        Ok(())
    }

    fn send_encrypted(&mut self, payload: &[u8]) -> ConnectionResult<()> {
        if self.head.len() + payload.len() <= RECORD_PLAIN_BYTES {
            // One record costs less than copying so small a payload.
            self.head.extend_from_slice(payload);
            self.encrypt_head()?;
            return self.push_if(CORK_BYTES);
        }
        self.encrypt_head()?;
        for slice in payload.chunks(SLICE_BYTES) {
            if let Protection::Tls(session) = &mut self.protection {
                session.encrypt(slice, &mut self.outgoing)?;
            }
            self.push_if(CORK_BYTES)?;
        }
        if payload.len() >= CORK_BYTES {
            self.push(&[])?;
        }
        Ok(())
    }

    fn encrypt_head(&mut self) -> ConnectionResult<()> {
        match &mut self.protection {
            Protection::Tls(session) => session.encrypt(&self.head, &mut self.outgoing),
            Protection::Sealed { .. } => Ok(()),
        }
    }

    fn send_sealed(&mut self, payload: &[u8]) -> ConnectionResult<()> {
        self.outgoing.append(&self.head);
        if payload.len() >= CORK_BYTES {
            return self.push(payload);
        }
        self.outgoing.append(payload);
        self.push_if(CORK_BYTES)
    }

    fn push_if(&mut self, least_bytes: usize) -> ConnectionResult<()> {
        if self.outgoing.pending().len() >= least_bytes {
            self.push(&[])?;
        }
        Ok(())
    }

    /// Sends the send buffer, then `rest`, which is not copied.
    fn push(&mut self, mut rest: &[u8]) -> ConnectionResult<()> {
        loop {
            let pending = self.outgoing.pending();
            let both = [IoSlice::new(pending), IoSlice::new(rest)];
            let parts = match (pending.is_empty(), rest.is_empty()) {
                (true, true) => return Ok(()),
                (false, true) => &both[..1],
                (true, false) => &both[1..],
                (false, false) => &both[..],
            };
            match self.socket.send(parts)? {
                Some(bytes) => {
                    let of_pending = bytes.min(pending.len());
                    self.outgoing.sent(of_pending);
                    rest = &rest[bytes - of_pending..];
                }
                None => self.wait_to_send()?,
            }
        }
    }

    /// Waits until the kernel takes more. The peer may itself be waiting to send, so this receives meanwhile, as far as
    /// the receive buffer allows.
    fn wait_to_send(&mut self) -> ConnectionResult<()> {
        let room = self.inbound.room();
        let read = !self.ended && !room.is_empty();
        // A peer that sends nothing more may still take data in transit. If it has gone instead, nothing reveals that:
        // its window is closed, so no packet reaches it that it could reject.
        let deadline = self.ended.then(|| Instant::now() + ENDED_LIMIT);
        let began = Instant::now();
        let ready = self.socket.wait(read, true, deadline)?;
        self.socket.output_waited += began.elapsed();
        if !ready.read && !ready.write {
            return Err(ConnectionError::Cut);
        }
        if ready.write {
            return Ok(());
        }
        let room_bytes = room.len().min(SIDE_RECEIVE_BYTES);
        match self.socket.receive(&mut room[..room_bytes], false)? {
            ReceiveResult::Bytes(bytes) => self.took_in(bytes),
            ReceiveResult::NothingYet => {}
            ReceiveResult::End => self.ended = true,
        }
        Ok(())
    }
}
