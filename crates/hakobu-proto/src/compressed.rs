//! The payload of a frame with [`FLAG_COMPRESSED`](crate::data::FLAG_COMPRESSED): the length of the content, its
//! digest on sealed connections, and one zstd frame.

use hakobu_core::digest::Digest;
use hakobu_core::error::{Error, ErrorKind, Result};

use crate::data::kind;

/// The length of the head on connections that are not sealed, in bytes.
const LENGTH_BYTES: usize = 4;
/// The length of the digest that follows on sealed connections, in bytes.
const DIGEST_BYTES: usize = size_of::<Digest>();
/// The maximum length of the head in bytes.
pub const HEAD_BYTES_MAX: usize = LENGTH_BYTES + DIGEST_BYTES;

/// The head that precedes the compressed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressedHead {
    /// The length of the content in bytes.
    pub content_bytes: u32,
    /// The digest that the frame would have without compression; on sealed connections only.
    pub digest: Option<Digest>,
}

impl CompressedHead {
    /// Encodes the head. Returns a buffer and the number of bytes in it that are used.
    #[must_use]
    pub fn encode(&self) -> ([u8; HEAD_BYTES_MAX], usize) {
        let mut bytes = [0; HEAD_BYTES_MAX];
        bytes[..LENGTH_BYTES].copy_from_slice(&self.content_bytes.to_le_bytes());
        let Some(digest) = self.digest else { return (bytes, LENGTH_BYTES) };
        bytes[LENGTH_BYTES..].copy_from_slice(&digest);
        (bytes, HEAD_BYTES_MAX)
    }

    /// Decodes the head of a payload. Returns it with the compressed bytes that follow. Callers must not allocate
    /// memory for the content before this has checked its length: at most `content_max`, and more than that of the
    /// payload.
    ///
    /// # Errors
    /// `Protocol` if the payload is invalid.
    pub fn decode(payload: &[u8], is_sealed: bool, content_max: usize) -> Result<(Self, &[u8])> {
        let cut = || malformed("compressed content without its head");
        let (length, rest) = payload.split_first_chunk::<LENGTH_BYTES>().ok_or_else(cut)?;
        let (digest, packed) = match is_sealed {
            true => {
                let (digest, packed) = rest.split_first_chunk::<DIGEST_BYTES>().ok_or_else(cut)?;
                (Some(*digest), packed)
            }
            false => (None, rest),
        };
        let content_bytes = u32::from_le_bytes(*length);
        if content_bytes as usize > content_max {
            return Err(malformed("compressed content that is too long"));
        }
        if content_bytes as usize <= payload.len() {
            return Err(malformed("compressed content that has not shrunk"));
        }
        Ok((Self { content_bytes, digest }, packed))
    }
}

/// Returns true if the payload of frames of this kind is content, which may be compressed.
pub fn is_content(frame_kind: u8) -> bool {
    matches!(frame_kind, kind::WRITE_PACK | kind::WRITE | kind::PATCH | kind::ASSEMBLE)
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, "reading compressed content", what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_were_written() {
        for digest in [None, Some([7; 32])] {
            let head = CompressedHead { content_bytes: 1000, digest };
            let (bytes, length) = head.encode();
            let mut payload = bytes[..length].to_vec();
            payload.extend_from_slice(b"packed");
            let read = CompressedHead::decode(&payload, digest.is_some(), 1000).unwrap();
            assert_eq!(read, (head, &b"packed"[..]));
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let payload = |content_bytes: u32, packed: usize| {
            let mut payload = content_bytes.to_le_bytes().to_vec();
            payload.resize(LENGTH_BYTES + packed, 0);
            payload
        };
        let why = |payload: &[u8], is_sealed, max| {
            CompressedHead::decode(payload, is_sealed, max).unwrap_err().detail
        };
        assert!(why(&payload(1001, 10), false, 1000).contains("too long"));
        assert!(why(&payload(u32::MAX, 10), false, 1000).contains("too long"));
        assert!(why(&payload(14, 10), false, 1000).contains("not shrunk"));
        assert!(why(&payload(0, 10), false, 1000).contains("not shrunk"));
        assert!(CompressedHead::decode(&payload(15, 10), false, 1000).is_ok());
        for cut in 0..LENGTH_BYTES {
            assert!(why(&payload(1000, 10)[..cut], false, 1000).contains("without its head"));
        }
        assert!(why(&payload(1000, 31), true, 1000).contains("without its head"));
        assert!(CompressedHead::decode(&payload(1000, 32), true, 1000).is_ok());
    }
}
