//! The data connection: frames over TCP or through an ssh process, on a connection that one thread owns.
//!
//! Both ends know the other's [`Fingerprint`] beforehand and accept no other peer. The connection is protected by TLS
//! 1.3 or, on request, only authenticated ([`ConnectionCipher::None`]). All calls block. A call that sends keeps receiving while
//! the peer takes nothing, so two ends that both send cannot block each other forever.
//!
//! To read a frame: [`Connection::receive`] returns its header, [`Connection::meta`] its meta, then
//! [`Connection::payload_piece`] its payload in contiguous pieces straight from the receive buffer.

mod buffers;
pub mod checked;
mod error;
mod handshake;
mod identity;
mod receive;
mod records;
mod send;
mod socket;
#[cfg(test)]
mod tests;
mod tls_config;
mod window;

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hakobu_proto::frame::{SealChecker, Sealer};
use hakobu_sys::tcp_info::{TcpInfo, tcp_info};

use buffers::{Inbound, SendQueue};
use handshake::{Deadline, Role};
use records::TlsSession;
use socket::Socket;
use tls_config::HandshakeParameters;

pub use error::{ConnectionError, ConnectionResult};
pub use identity::{Fingerprint, TlsIdentity};
use receive::PartialFrame;
pub use receive::{FrameWait, IncomingFrame, PIECE_LIMIT_BYTES};
pub use tls_config::ConnectionCipher;

/// The time after which a missing answer is an error. A target whose disk is busy for minutes is slow, not gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(900);

/// The initial size of the send buffer in bytes: a usual payload, its meta and the records' overhead.
const OUTGOING_BYTES: usize = 320 * 1024;

/// One end of a data connection.
pub struct Connection {
    socket: Socket,
    protection: Protection,
    outgoing: SendQueue,
    inbound: Inbound,
    /// The header and meta of the frame being sent.
    head: Vec<u8>,
    /// The meta of the last received frame.
    meta: Vec<u8>,
    /// The bytes of that frame's payload that are not yet consumed.
    payload_left: usize,
    /// True once the socket has reached its end.
    ended: bool,
    /// True once the peer has announced that it sends nothing more.
    peer_closed: bool,
    /// True once this end has announced it.
    closed: bool,
    send_failed: bool,
    receive_failed: bool,
    /// The time waited for a frame that has begun, and the bytes of it received so far.
    slow: PartialFrame,
    /// The time for which nothing at all may be received while something is awaited.
    silence_limit: Duration,
}

#[derive(Debug)]
enum Protection {
    Tls(Box<TlsSession>),
    Sealed { sealer: Sealer, opener: SealChecker },
}

impl Connection {
    /// Performs the handshake on the engine's side of a connection, as the TLS client, whichever end opened it. The
    /// handshake as a whole must end within `handshake_timeout`.
    ///
    /// With TLS 1.3 a client finishes before the server has checked its certificate: if the server refuses it, this
    /// succeeds and the first [`receive`](Self::receive) fails. With [`ConnectionCipher::None`] it fails here.
    ///
    /// # Errors
    /// Wrong fingerprint or key, refusal, time-out, TLS or socket errors.
    pub fn client(
        stream: impl Into<socket2::Socket>,
        identity: &TlsIdentity,
        peer: Fingerprint,
        cipher: ConnectionCipher,
        handshake_timeout: Duration,
    ) -> ConnectionResult<Self> {
        let terms = HandshakeParameters::new(identity, peer, cipher);
        Self::establish(stream.into(), Role::Client, &terms, handshake_timeout)
    }

    /// Performs the handshake on the serving side of a connection, as the TLS server, whichever end opened it. The
    /// handshake as a whole must end within `handshake_timeout`.
    ///
    /// # Errors
    /// Wrong fingerprint or key, refusal, time-out, TLS or socket errors.
    pub fn server(
        stream: impl Into<socket2::Socket>,
        identity: &TlsIdentity,
        peer: Fingerprint,
        cipher: ConnectionCipher,
        handshake_timeout: Duration,
    ) -> ConnectionResult<Self> {
        let terms = HandshakeParameters::new(identity, peer, cipher);
        Self::establish(stream.into(), Role::Server, &terms, handshake_timeout)
    }

    fn establish(
        stream: socket2::Socket,
        role: Role,
        terms: &HandshakeParameters<'_>,
        handshake_timeout: Duration,
    ) -> ConnectionResult<Self> {
        let deadline = Deadline::after(handshake_timeout);
        let mut socket = Socket::new(stream)?;
        let mut outgoing = SendQueue::with_capacity(OUTGOING_BYTES);
        let mut inbound = Inbound::new(terms.cipher != ConnectionCipher::None);
        let protection = if terms.cipher == ConnectionCipher::None {
            let (sealer, opener) = handshake::sealed(&mut socket, role, terms, deadline)?;
            Protection::Sealed { sealer, opener }
        } else {
            let (inbound, outgoing) = (&mut inbound, &mut outgoing);
            let session = handshake::tls(&mut socket, inbound, outgoing, role, terms, deadline)?;
            Protection::Tls(Box::new(session))
        };
        window::fit(socket.stream());
        Ok(Self {
            socket,
            protection,
            outgoing,
            inbound,
            head: Vec::new(),
            meta: Vec::new(),
            payload_left: 0,
            ended: false,
            peer_closed: false,
            closed: false,
            send_failed: false,
            receive_failed: false,
            slow: PartialFrame::default(),
            silence_limit: match role {
                // A client waits only for answers, and a slow disk may delay them.
                Role::Client => SILENCE_LIMIT,
                Role::Server => Duration::MAX,
            },
        })
    }

    /// Returns true if frames are sealed instead of encrypted, so every payload needs a digest.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        matches!(self.protection, Protection::Sealed { .. })
    }

    /// Returns the bytes handed to the kernel so far, including handshake and overhead.
    #[must_use]
    pub fn wire_sent_bytes(&self) -> u64 {
        self.socket.sent_bytes
    }

    /// Returns the total time for which calls have waited for the peer.
    #[must_use]
    pub fn input_waited(&self) -> Duration {
        self.socket.input_waited
    }

    /// Returns the total time for which sending has waited for the network path or the peer.
    #[must_use]
    pub fn output_waited(&self) -> Duration {
        self.socket.output_waited
    }

    /// Returns the bytes taken from the kernel so far, including handshake and overhead.
    #[must_use]
    pub fn wire_received_bytes(&self) -> u64 {
        self.socket.received_bytes
    }

    /// Returns the kernel's data about the network path: round trip, retransmits, and what limited the sender.
    ///
    /// # Errors
    /// The system call fails, always if the connection is not TCP.
    pub fn tcp_info(&self) -> io::Result<TcpInfo> {
        tcp_info(self.socket.stream())
    }

    /// Returns a handle with which another thread can end this connection.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn interrupter(&self) -> io::Result<Interrupter> {
        self.socket.stream().try_clone().map(Interrupter)
    }
}

impl AsFd for Connection {
    /// Returns the socket, for polling only: reading or writing it directly breaks the connection.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.stream().as_fd()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("socket", &self.socket)
            .field("protection", &self.protection)
            .finish_non_exhaustive()
    }
}

/// The number of unanswered retransmits after which silence means that the peer is gone.
const UNANSWERED_RETRANSMITS: u32 = 4;

/// Ends a connection from outside the thread that owns it: blocked calls return [`ConnectionError::Cut`], on both ends.
#[derive(Debug)]
pub struct Interrupter(socket2::Socket);

impl Interrupter {
    /// Shuts the socket down in both directions. Further calls do nothing.
    pub fn interrupt(&self) {
        // It fails only if there is nothing left to shut down.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// Returns the kernel's data about the connection, or none if it is not TCP.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(&self.0).ok()
    }

    /// Returns true if the peer has acknowledged nothing for `limit`, although data was retransmitted several times.
    /// Keep-alive probes do not detect that: they are for idle connections. Always false if the connection is not TCP.
    pub fn is_unanswered(&self, limit: Duration) -> bool {
        let Ok(info) = tcp_info(&self.0) else { return false };
        info.unanswered_retransmits >= UNANSWERED_RETRANSMITS
            && Duration::from_millis(info.since_acknowledged_ms.into()) >= limit
    }
}
