//! TLS records through the library's unbuffered interface.
//!
//! The library never sees the socket. It receives the raw bytes of [`Inbound`] one record at a time and writes its
//! output into [`SendQueue`].

use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus,
    WriteTraffic,
};

use super::buffers::{Inbound, RECORD_BYTES, SendQueue};
use super::error::{ConnectionError, ConnectionResult};

/// One TLS session, of either side.
pub(super) enum TlsSession {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Client(_) => "Session::Client",
            Self::Server(_) => "Session::Server",
        })
    }
}

/// The result of processing raw bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordStep {
    /// Plaintext was added.
    Plain,
    /// There is no whole record left.
    NeedMore,
    /// The peer will send nothing more.
    Closed,
}

impl TlsSession {
    pub(super) fn is_handshaking(&self) -> bool {
        match self {
            Self::Client(session) => session.is_handshaking(),
            Self::Server(session) => session.is_handshaking(),
        }
    }

    /// Processes raw bytes up to the next plaintext. Answers to the peer (handshake, alerts) are put into `outgoing`,
    /// even on failure.
    pub(super) fn step(
        &mut self,
        inbound: &mut Inbound,
        outgoing: &mut SendQueue,
    ) -> ConnectionResult<RecordStep> {
        match self {
            Self::Client(session) => {
                step(session, inbound, outgoing).inspect_err(|_| fetch_alert(session, inbound, outgoing))
            }
            Self::Server(session) => {
                step(session, inbound, outgoing).inspect_err(|_| fetch_alert(session, inbound, outgoing))
            }
        }
    }

    /// Appends `plain`, encrypted, to `outgoing`.
    pub(super) fn encrypt(&mut self, plain: &[u8], outgoing: &mut SendQueue) -> ConnectionResult<()> {
        let needed = plain.len() + plain.len() / 256 + 1024;
        match self {
            Self::Client(session) => write(session, outgoing, |mut traffic, outgoing| {
                fill(outgoing, needed, |spare| traffic.encrypt(plain, spare))
            }),
            Self::Server(session) => write(session, outgoing, |mut traffic, outgoing| {
                fill(outgoing, needed, |spare| traffic.encrypt(plain, spare))
            }),
        }
    }

    /// Appends a close_notify to `outgoing`.
    pub(super) fn close(&mut self, outgoing: &mut SendQueue) -> ConnectionResult<()> {
        match self {
            Self::Client(session) => write(session, outgoing, |mut traffic, outgoing| {
                fill(outgoing, 1024, |spare| traffic.queue_close_notify(spare))
            }),
            Self::Server(session) => write(session, outgoing, |mut traffic, outgoing| {
                fill(outgoing, 1024, |spare| traffic.queue_close_notify(spare))
            }),
        }
    }
}

/// The calls in which the two sides' types differ.
trait SessionCalls {
    type Data;
    fn process<'c, 'i>(&'c mut self, raw: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn common(&self) -> &CommonState;
}

impl SessionCalls for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(&'c mut self, raw: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(raw)
    }
    fn common(&self) -> &CommonState {
        self
    }
}

impl SessionCalls for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(&'c mut self, raw: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(raw)
    }
    fn common(&self) -> &CommonState {
        self
    }
}

fn step<S: SessionCalls>(
    side: &mut S,
    inbound: &mut Inbound,
    outgoing: &mut SendQueue,
) -> ConnectionResult<RecordStep> {
    loop {
        let (raw, target) = inbound.raw_and_target();
        let UnbufferedStatus { mut discard, state } = side.process(raw);
        let mut plain_bytes = 0;
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                inbound.decrypted(discard, 0);
                return Err(error.into());
            }
        };
        let found = match state {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    let end = plain_bytes + record.payload.len();
                    target
                        .get_mut(plain_bytes..end)
                        .ok_or(ConnectionError::Protocol("a record grew when decrypted"))?
                        .copy_from_slice(record.payload);
                    plain_bytes = end;
                }
                Some(RecordStep::Plain)
            }
            ConnectionState::EncodeTlsData(mut encoder) => {
                encode(&mut encoder, outgoing)?;
                None
            }
            // `outgoing` is sent in order, so its content counts as sent.
            ConnectionState::TransmitTlsData(transmit) => {
                transmit.done();
                None
            }
            ConnectionState::PeerClosed | ConnectionState::Closed => Some(RecordStep::Closed),
            ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => {
                Some(RecordStep::NeedMore)
            }
            _ => return Err(ConnectionError::Protocol("unexpected TLS state")),
        };
        inbound.decrypted(discard, plain_bytes);
        match found {
            Some(RecordStep::NeedMore) => {
                refuse_fragments(side.common().is_handshaking(), inbound.raw())?;
                return Ok(RecordStep::NeedMore);
            }
            Some(found) => return Ok(found),
            None => {}
        }
    }
}

/// Fetches the alert that tells the peer about a failure.
///
/// It passes the bytes that the session already has, because the session keeps positions in them. It does not ask once
/// too often, because the session would then continue with those bytes.
fn fetch_alert<S: SessionCalls>(side: &mut S, inbound: &mut Inbound, outgoing: &mut SendQueue) {
    while side.common().wants_write() {
        let (raw, _) = inbound.raw_and_target();
        let UnbufferedStatus { discard, state } = side.process(raw);
        let Ok(ConnectionState::EncodeTlsData(mut encoder)) = state else {
            return;
        };
        if encode(&mut encoder, outgoing).is_err() {
            return;
        }
        inbound.decrypted(discard, 0);
    }
}

/// Refuses a TLS message that spans several records after the handshake.
///
/// The library keeps such a record in the raw bytes and remembers positions in it, which writing in between would
/// invalidate. No message that this protocol uses is long enough to need a second record.
fn refuse_fragments(handshaking: bool, raw: &[u8]) -> ConnectionResult<()> {
    if !handshaking && has_whole_record(raw) {
        return Err(ConnectionError::Protocol("a TLS message in pieces after the handshake"));
    }
    Ok(())
}

/// Returns true if `raw` begins with something the session can process. That includes a record whose length exceeds the
/// limit, so that nobody waits for its end.
pub(super) fn has_whole_record(raw: &[u8]) -> bool {
    match raw {
        [_, _, _, high, low, body @ ..] => {
            let body_bytes = usize::from(u16::from_be_bytes([*high, *low]));
            body.len() >= body_bytes || body_bytes > RECORD_BYTES
        }
        _ => false,
    }
}

/// Advances the session until it may write, and writes.
fn write<S: SessionCalls>(
    side: &mut S,
    outgoing: &mut SendQueue,
    fill: impl FnOnce(WriteTraffic<'_, S::Data>, &mut SendQueue) -> ConnectionResult<()>,
) -> ConnectionResult<()> {
    loop {
        match side.process(&mut []).state? {
            ConnectionState::WriteTraffic(traffic) => return fill(traffic, outgoing),
            ConnectionState::EncodeTlsData(mut encoder) => encode(&mut encoder, outgoing)?,
            ConnectionState::TransmitTlsData(transmit) => transmit.done(),
            ConnectionState::PeerClosed => {}
            ConnectionState::Closed => return Err(ConnectionError::Closed),
            _ => return Err(ConnectionError::Misuse("this TLS session cannot write now")),
        }
    }
}

fn encode<D>(encoder: &mut EncodeTlsData<'_, D>, outgoing: &mut SendQueue) -> ConnectionResult<()> {
    let mut needed = 4096;
    loop {
        match encoder.encode(outgoing.spare(needed)) {
            Ok(bytes) => {
                outgoing.filled(bytes);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                needed = required_size;
            }
            Err(EncodeError::AlreadyEncoded) => return Ok(()),
        }
    }
}

fn fill(
    outgoing: &mut SendQueue,
    mut needed: usize,
    mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, EncryptError>,
) -> ConnectionResult<()> {
    loop {
        match write(outgoing.spare(needed)) {
            Ok(bytes) => {
                outgoing.filled(bytes);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                needed = required_size;
            }
            // Keys are renewed long before this; it is the library's last safeguard.
            Err(EncryptError::EncryptExhausted) => {
                return Err(ConnectionError::Tls(rustls::Error::EncryptError));
            }
        }
    }
}
