//! Handshakes: from a TCP socket to a session, within a deadline.

use std::io::{IoSlice, Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hakobu_proto::frame::{SealChecker, SealKey, Sealer};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;

use super::buffers::{Inbound, RECORD_BYTES, SendQueue};
use super::error::{ConnectionError, ConnectionResult};
use super::records::{RecordStep, TlsSession};
use super::socket::{ReceiveResult, Socket};
use super::tls_config::{HandshakeParameters, server_name};

/// The TLS side of this end. The engine is always the client, whichever end opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// The last TLS record of each side before it sends frames without records.
const GO_PLAIN: &[u8] = b"hakobu: go plain";

/// The labels of the exported keys (RFC 8446, section 7.5), one per direction.
const CLIENT_KEY_LABEL: &[u8] = b"EXPORTER-hakobu-sealed-client";
const SERVER_KEY_LABEL: &[u8] = b"EXPORTER-hakobu-sealed-server";

/// The time at which the whole handshake must have ended. A peer that sends a byte now and then does not extend it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        let now = Instant::now();
        // If the clock cannot express the deadline, a year is enough.
        let year = Duration::from_secs(365 * 24 * 3600);
        Self(now.checked_add(timeout).unwrap_or(now + year))
    }
}

/// Performs the handshake of a connection that uses TLS throughout.
pub(super) fn tls(
    socket: &mut Socket,
    inbound: &mut Inbound,
    outgoing: &mut SendQueue,
    role: Role,
    terms: &HandshakeParameters<'_>,
    deadline: Deadline,
) -> ConnectionResult<TlsSession> {
    let mut session = match role {
        Role::Client => TlsSession::Client(UnbufferedClientConnection::new(
            Arc::new(terms.client_config()?),
            server_name()?,
        )?),
        Role::Server => {
            TlsSession::Server(UnbufferedServerConnection::new(Arc::new(terms.server_config()?))?)
        }
    };
    loop {
        let step = session.step(inbound, outgoing);
        let sent = send_all(socket, outgoing, deadline);
        let step = step?;
        sent?;
        match step {
            _ if !session.is_handshaking() => return Ok(session),
            RecordStep::NeedMore => {
                let room = inbound.room();
                let room_bytes = room.len().min(2 * RECORD_BYTES);
                let bytes = receive(socket, &mut room[..room_bytes], deadline)?;
                inbound.received(bytes);
            }
            RecordStep::Plain => return Err(ConnectionError::Protocol("data during the handshake")),
            RecordStep::Closed => return Err(ConnectionError::Cut),
        }
    }
}

/// Uses TLS for the handshake only: authenticates both ends, exports a MAC key for each direction and leaves the socket
/// at the first byte behind the last record.
///
/// It uses the library's buffered interface, because only that exports keys, and feeds it one record at a time so that
/// it does not consume the bytes behind.
pub(super) fn sealed(
    socket: &mut Socket,
    role: Role,
    terms: &HandshakeParameters<'_>,
    deadline: Deadline,
) -> ConnectionResult<(Sealer, SealChecker)> {
    let mut tls: rustls::Connection = match role {
        Role::Client => {
            rustls::ClientConnection::new(Arc::new(terms.client_config()?), server_name()?)?.into()
        }
        Role::Server => rustls::ServerConnection::new(Arc::new(terms.server_config()?))?.into(),
    };
    send_tls(socket, &mut tls, deadline)?;
    while tls.is_handshaking() {
        exchange_record(socket, &mut tls, deadline)?;
    }
    tls.writer().write_all(GO_PLAIN)?;
    send_tls(socket, &mut tls, deadline)?;
    expect_go_plain(socket, &mut tls, deadline)?;

    let client = tls.export_keying_material([0; 32], CLIENT_KEY_LABEL, None)?;
    let server = tls.export_keying_material([0; 32], SERVER_KEY_LABEL, None)?;
    let (ours, theirs) = match role {
        Role::Client => (client, server),
        Role::Server => (server, client),
    };
    Ok((Sealer::new(SealKey::new(&ours)), SealChecker::new(SealKey::new(&theirs))))
}

fn expect_go_plain(
    socket: &mut Socket,
    tls: &mut rustls::Connection,
    deadline: Deadline,
) -> ConnectionResult<()> {
    let mut got = [0; GO_PLAIN.len() + 1];
    loop {
        match tls.reader().read(&mut got) {
            Ok(bytes) if &got[..bytes] == GO_PLAIN => return Ok(()),
            Ok(_) => return Err(ConnectionError::Protocol("no switch after the handshake")),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        exchange_record(socket, tls, deadline)?;
    }
}

/// Receives one record and sends the library's answer.
fn exchange_record(
    socket: &mut Socket,
    tls: &mut rustls::Connection,
    deadline: Deadline,
) -> ConnectionResult<()> {
    let mut record = [0; RECORD_BYTES];
    receive_all(socket, &mut record[..5], deadline)?;
    let body_bytes = usize::from(u16::from_be_bytes([record[3], record[4]]));
    let body =
        record.get_mut(5..5 + body_bytes).ok_or(ConnectionError::Protocol("an oversized TLS record"))?;
    receive_all(socket, body, deadline)?;
    let mut unread = &record[..5 + body_bytes];
    while !unread.is_empty() {
        if tls.read_tls(&mut unread)? == 0 {
            return Err(ConnectionError::Cut);
        }
    }
    let processed = tls.process_new_packets();
    let sent = send_tls(socket, tls, deadline);
    processed?;
    sent
}

fn send_tls(socket: &mut Socket, tls: &mut rustls::Connection, deadline: Deadline) -> ConnectionResult<()> {
    let mut bytes = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut bytes)?;
    }
    let mut outgoing = SendQueue::default();
    outgoing.append(&bytes);
    send_all(socket, &mut outgoing, deadline)
}

fn send_all(socket: &mut Socket, outgoing: &mut SendQueue, deadline: Deadline) -> ConnectionResult<()> {
    while !outgoing.pending().is_empty() {
        match socket.send(&[IoSlice::new(outgoing.pending())])? {
            Some(bytes) => outgoing.sent(bytes),
            None if socket.wait(false, true, Some(deadline.0))?.write => {}
            None => return Err(ConnectionError::HandshakeTimeout),
        }
        check(deadline)?;
    }
    Ok(())
}

fn receive_all(socket: &mut Socket, into: &mut [u8], deadline: Deadline) -> ConnectionResult<()> {
    let mut filled = 0;
    while filled < into.len() {
        filled += receive(socket, &mut into[filled..], deadline)?;
    }
    Ok(())
}

fn receive(socket: &mut Socket, into: &mut [u8], deadline: Deadline) -> ConnectionResult<usize> {
    loop {
        check(deadline)?;
        if !socket.wait(true, false, Some(deadline.0))?.read {
            return Err(ConnectionError::HandshakeTimeout);
        }
        match socket.receive(into, false)? {
            ReceiveResult::Bytes(bytes) => return Ok(bytes),
            ReceiveResult::NothingYet => {}
            ReceiveResult::End => return Err(ConnectionError::Cut),
        }
    }
}

fn check(deadline: Deadline) -> ConnectionResult<()> {
    if Instant::now() < deadline.0 { Ok(()) } else { Err(ConnectionError::HandshakeTimeout) }
}
