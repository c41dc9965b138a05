//! Payloads with their checksums, and the conversion of connection errors into errors of a job.

use hakobu_core::checksum::crc64;
use hakobu_core::endpoint::Check;
use hakobu_core::error::{Error, ErrorKind, Result};

use super::{Connection, ConnectionError, IncomingFrame};

/// Returns the check that the peer applies to a payload.
pub fn check_of(connection: &Connection, payload: &[u8]) -> Check {
    match (connection.is_sealed(), payload.is_empty()) {
        (_, true) => Check::default(),
        (true, _) => Check { crc: 0, value: Some(*blake3::hash(payload).as_bytes()) },
        (false, _) => Check { crc: crc64(payload), value: None },
    }
}

/// Sends a frame with the checks that the connection requires for its payload.
pub fn send_checked(
    connection: &mut Connection,
    kind: u8,
    flags: u8,
    request: u32,
    meta: &[u8],
    payload: &[u8],
) -> Result<()> {
    let check = check_of(connection, payload);
    connection.send(kind, flags, request, meta, payload, check.crc, check.value.as_ref()).map_err(lost)
}

/// Reads a whole payload and checks it.
pub fn read_checked(connection: &mut Connection, frame: &IncomingFrame, payload: &mut Vec<u8>) -> Result<()> {
    connection.read_payload_into(payload).map_err(lost)?;
    if payload.is_empty() {
        return Ok(());
    }
    let intact = match frame.digest {
        Some(digest) => *blake3::hash(payload).as_bytes() == digest,
        None => crc64(payload) == frame.checksum,
    };
    if intact { Ok(()) } else { Err(corrupt()) }
}

/// Returns the error for data that arrived differently from what was sent.
pub fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "receiving data", "it arrived differently from what was sent")
}

/// Converts a connection's error into an error of the job.
#[allow(clippy::needless_pass_by_value)] // taken by `map_err`
pub fn lost(error: ConnectionError) -> Error {
    let kind = match &error {
        ConnectionError::Closed | ConnectionError::Cut | ConnectionError::Io(_) => ErrorKind::ConnectionLost,
        ConnectionError::HandshakeTimeout | ConnectionError::TooSlow(_) => ErrorKind::TimedOut,
        ConnectionError::BadMac => ErrorKind::Corrupt,
        ConnectionError::Certificate(_) => ErrorKind::Io,
        _ => ErrorKind::Protocol,
    };
    Error::new(kind, "using the data connection", error.to_string())
}
