//! The data connection: frames over one connection owned by one thread, of TCP or through an ssh process.
//!
//! Both ends know the other's [`Fingerprint`] beforehand and accept nobody
//! else. What travels is protected by TLS 1.3, or on request only
//! authenticated ([`Cipher::None`]). All calls block; a call that sends goes
//! on receiving while the peer does not take anything, so two ends that both
//! send do not wait for each other for ever.
//!
//! The way of a received frame: [`Connection::receive`] gives its header,
//! [`Connection::meta`] its meta, then [`Connection::payload_piece`] its
//! payload in contiguous pieces straight out of the receive buffer.

mod buffers;
pub(crate) mod checked;
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

use hakobu_proto::frame::{Opener, Sealer};
use hakobu_sys::tcp_info::{TcpInfo, tcp_info};

use buffers::{Inbound, Outgoing};
use handshake::{Deadline, Role};
use records::Session;
use socket::Socket;
use tls_config::Terms;

pub use error::{ConnectionError, Result};
pub use identity::{Fingerprint, Identity};
use receive::Slow;
pub use receive::{Incoming, PIECE_LIMIT_BYTES, Wait};
pub use tls_config::Cipher;

/// How long an answer may take to begin. A target whose disk is busy for minutes is slow, not gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(900);

/// Size the send buffer begins with: a usual payload, its meta and the
/// records' overhead.
const OUTGOING_BYTES: usize = 320 * 1024;

/// One end of a data connection.
pub struct Connection {
    socket: Socket,
    protection: Protection,
    outgoing: Outgoing,
    inbound: Inbound,
    /// Header and meta of the frame that is being sent.
    head: Vec<u8>,
    /// Meta of the frame that was received last.
    meta: Vec<u8>,
    /// What was not consumed of that frame's payload.
    payload_left: usize,
    /// The socket has no more to give.
    ended: bool,
    /// The peer has said that it will send nothing more.
    peer_closed: bool,
    /// We have said so.
    closed: bool,
    send_failed: bool,
    receive_failed: bool,
    /// How long a frame that has begun has been waited for, and how much of it had come by then.
    slow: Slow,
    /// How long nothing at all may come while something is waited for.
    silence_limit: Duration,
}

#[derive(Debug)]
enum Protection {
    Tls(Box<Session>),
    Sealed { sealer: Sealer, opener: Opener },
}

impl Connection {
    /// Takes the engine's side of a connection, as the TLS client, whoever
    /// dialled. The handshake as a whole must end within `handshake_timeout`.
    ///
    /// With TLS 1.3 a client is done before the server has looked at its
    /// certificate: when the server refuses it, this succeeds and the first
    /// [`receive`](Self::receive) fails. With [`Cipher::None`] it fails here.
    ///
    /// # Errors
    /// Wrong fingerprint or key, refusal, time-out, TLS or socket errors.
    pub fn client(
        stream: impl Into<socket2::Socket>,
        identity: &Identity,
        peer: Fingerprint,
        cipher: Cipher,
        handshake_timeout: Duration,
    ) -> Result<Self> {
        let terms = Terms::new(identity, peer, cipher);
        Self::establish(stream.into(), Role::Client, &terms, handshake_timeout)
    }

    /// Takes the serving side of a connection, as the TLS server, whoever
    /// dialled. The handshake as a whole must end within `handshake_timeout`.
    ///
    /// # Errors
    /// Wrong fingerprint or key, refusal, time-out, TLS or socket errors.
    pub fn server(
        stream: impl Into<socket2::Socket>,
        identity: &Identity,
        peer: Fingerprint,
        cipher: Cipher,
        handshake_timeout: Duration,
    ) -> Result<Self> {
        let terms = Terms::new(identity, peer, cipher);
        Self::establish(stream.into(), Role::Server, &terms, handshake_timeout)
    }

    fn establish(
        stream: socket2::Socket,
        role: Role,
        terms: &Terms<'_>,
        handshake_timeout: Duration,
    ) -> Result<Self> {
        let deadline = Deadline::after(handshake_timeout);
        let mut socket = Socket::new(stream)?;
        let mut outgoing = Outgoing::with_capacity(OUTGOING_BYTES);
        let mut inbound = Inbound::new(terms.cipher != Cipher::None);
        let protection = if terms.cipher == Cipher::None {
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
            slow: Slow::default(),
            silence_limit: match role {
                // It waits for nothing but answers; a disk may take its time for them.
                Role::Client => SILENCE_LIMIT,
                Role::Server => Duration::MAX,
            },
        })
    }

    /// Whether frames are sealed rather than encrypted, so that every payload
    /// needs a digest.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        matches!(self.protection, Protection::Sealed { .. })
    }

    /// Bytes handed to the kernel so far, handshake and overhead included.
    #[must_use]
    pub fn wire_sent_bytes(&self) -> u64 {
        self.socket.sent_bytes
    }

    /// The time in which a call that waits for the peer has waited.
    #[must_use]
    pub fn input_waited(&self) -> Duration {
        self.socket.input_waited
    }

    /// The time in which sending waited for the way, or for the peer to take something.
    #[must_use]
    pub fn output_waited(&self) -> Duration {
        self.socket.output_waited
    }

    /// Bytes taken from the kernel so far, handshake and overhead included.
    #[must_use]
    pub fn wire_received_bytes(&self) -> u64 {
        self.socket.received_bytes
    }

    /// What the kernel knows about the path: round trip, retransmits, and
    /// what held the sender back.
    ///
    /// # Errors
    /// The system call fails, as it does where it is not TCP.
    pub fn tcp_info(&self) -> io::Result<TcpInfo> {
        tcp_info(self.socket.stream())
    }

    /// A handle by which another thread can end this connection.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn interrupter(&self) -> io::Result<Interrupter> {
        self.socket.stream().try_clone().map(Interrupter)
    }
}

impl AsFd for Connection {
    /// For polling only: reading or writing around the connection breaks it.
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

/// So many times data is sent again before silence means that the peer is gone.
const UNANSWERED_RETRANSMITS: u32 = 4;

/// Ends a connection from outside the thread that owns it: calls that block
/// there return [`ConnectionError::Cut`], on both ends.
#[derive(Debug)]
pub struct Interrupter(socket2::Socket);

impl Interrupter {
    /// Shuts the socket down both ways. Does nothing the second time.
    pub fn interrupt(&self) {
        // It fails only when there is nothing left to shut down.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// What the kernel knows of the connection; nothing where it is not TCP.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(&self.0).ok()
    }

    /// Whether the peer has answered nothing for `limit`, although data was sent to it again and
    /// again. Keep-alive probes do not find that: they are for connections that are silent. Never so where it is not
    /// TCP.
    pub fn is_unanswered(&self, limit: Duration) -> bool {
        let Ok(info) = tcp_info(&self.0) else { return false };
        info.unanswered_retransmits >= UNANSWERED_RETRANSMITS
            && Duration::from_millis(info.since_acknowledged_ms.into()) >= limit
    }
}
