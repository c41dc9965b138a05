//! Reads and writes messages on the control channel. Each is preceded by its length as four bytes, little-endian.

use std::io::{ErrorKind as IoKind, Read, Write};
use std::os::fd::OwnedFd;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_proto::control::MESSAGE_BYTES_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes one message and flushes it.
///
/// # Errors
/// `ConnectionLost` if the other side is gone, `Protocol` if the message cannot be encoded or is too long.
pub fn send<T: Serialize>(writer: &mut impl Write, message: &T) -> Result<()> {
    let fail = |words: &str| Error::new(ErrorKind::Protocol, "sending a control message", words);
    let mut bytes = vec![0; 4];
    postcard::to_io(message, &mut bytes).map_err(|_| fail("it cannot be encoded"))?;
    let length = bytes.len() - 4;
    if length > MESSAGE_BYTES_MAX {
        return Err(fail("it is too long"));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    writer.write_all(&bytes).and_then(|()| writer.flush()).map_err(|error| gone(&error))
}

/// Reads one message. Returns `None` at the end of the stream between messages.
///
/// # Errors
/// `ConnectionLost` if the stream ends within a message, `Protocol` if it is too long or malformed.
pub fn receive<T: DeserializeOwned>(reader: &mut impl Read) -> Result<Option<T>> {
    let fail = |words: &str| Error::new(ErrorKind::Protocol, "reading a control message", words);
    let mut length = [0; 4];
    if !read_or_end(reader, &mut length)? {
        return Ok(None);
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(fail("it is longer than any message may be"));
    }
    // The buffer grows with the data received, not with the announced length.
    let mut bytes = Vec::new();
    reader.by_ref().take(length as u64).read_to_end(&mut bytes).map_err(|error| gone(&error))?;
    if bytes.len() < length {
        return Err(Error::new(
            ErrorKind::ConnectionLost,
            "reading a control message",
            "the connection ended within it",
        ));
    }
    match postcard::take_from_bytes(&bytes) {
        Ok((message, [])) => Ok(Some(message)),
        _ => Err(fail("it is malformed")),
    }
}

/// Fills `bytes`. Returns false if the stream ends before the first byte.
fn read_or_end(reader: &mut impl Read, bytes: &mut [u8]) -> Result<bool> {
    let mut filled = 0;
    while filled < bytes.len() {
        match reader.read(&mut bytes[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(gone(&IoKind::UnexpectedEof.into())),
            Ok(count) => filled += count,
            Err(error) if error.kind() == IoKind::Interrupted => {}
            Err(error) => return Err(gone(&error)),
        }
    }
    Ok(true)
}

fn gone(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::ConnectionLost, "using the control connection", error.to_string())
}

/// Returns true if the other end of a pipe is closed. Data sent before may still be in it.
pub fn is_gone(control: &OwnedFd) -> bool {
    let mut descriptors = [PollFd::new(control, PollFlags::empty())];
    let looked = poll(&mut descriptors, Some(&Timespec::default()));
    looked.is_ok() && descriptors[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use hakobu_proto::control::Request;

    use super::*;

    #[test]
    fn messages_follow_each_other() {
        let mut wire = Vec::new();
        send(&mut wire, &Request::Hello { oldest: 1, newest: 2, digest: false }).unwrap();
        send(&mut wire, &Request::Cancel).unwrap();
        let mut reader = &wire[..];
        assert!(matches!(
            receive(&mut reader),
            Ok(Some(Request::Hello { oldest: 1, newest: 2, digest: false }))
        ));
        assert!(matches!(receive(&mut reader), Ok(Some(Request::Cancel))));
        assert!(matches!(receive::<Request>(&mut reader), Ok(None)));
    }

    #[test]
    fn lengths_are_not_believed() {
        let mut huge = &[0xff, 0xff, 0xff, 0xff, 1][..];
        assert_eq!(receive::<Request>(&mut huge).unwrap_err().kind, ErrorKind::Protocol);
        let mut short = &[9, 0, 0, 0, 1][..];
        assert_eq!(receive::<Request>(&mut short).unwrap_err().kind, ErrorKind::ConnectionLost);
        let mut garbage = &[1, 0, 0, 0, 0xee][..];
        assert_eq!(receive::<Request>(&mut garbage).unwrap_err().kind, ErrorKind::Protocol);
    }
}
