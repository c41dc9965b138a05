//! The payload of a frame with [`FLAG_COMPRESSED`](crate::data::FLAG_COMPRESSED): how long the content is, on sealed
//! connections its digest, and one frame of zstd.

use hakobu_core::digest::Digest;
use hakobu_core::error::{Error, ErrorKind, Result};

use crate::data::kind;

/// How long the head is where nothing is sealed.
const LENGTH_BYTES: usize = 4;
/// How long the digest is that follows it on sealed connections.
const DIGEST_BYTES: usize = size_of::<Digest>();
/// The longest head, in bytes.
pub const HEAD_BYTES_MAX: usize = LENGTH_BYTES + DIGEST_BYTES;

/// What stands before the compressed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The length of the content.
    pub content_bytes: u32,
    /// What the digest of the frame would be if nothing were compressed; on sealed connections only.
    pub digest: Option<Digest>,
}

impl Head {
    /// The head as it is sent: so many bytes of these.
    #[must_use]
    pub fn encode(&self) -> ([u8; HEAD_BYTES_MAX], usize) {
        let mut bytes = [0; HEAD_BYTES_MAX];
        bytes[..LENGTH_BYTES].copy_from_slice(&self.content_bytes.to_le_bytes());
        let Some(digest) = self.digest else { return (bytes, LENGTH_BYTES) };
        bytes[LENGTH_BYTES..].copy_from_slice(&digest);
        (bytes, HEAD_BYTES_MAX)
    }

    /// The head of a payload, and the compressed bytes behind it. Nothing is to be allocated for the content before
    /// this has said how long it is: `content_max` at most, and longer than the payload.
    ///
    /// # Errors
    /// `Protocol` if it is no such payload.
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

/// Whether the payload of such a frame is content, which may be compressed.
pub fn is_content(frame_kind: u8) -> bool {
    matches!(frame_kind, kind::STORE | kind::WRITE | kind::PATCH | kind::ASSEMBLE)
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
            let head = Head { content_bytes: 1000, digest };
            let (bytes, length) = head.encode();
            let mut payload = bytes[..length].to_vec();
            payload.extend_from_slice(b"packed");
            let read = Head::decode(&payload, digest.is_some(), 1000).unwrap();
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
        let why = |payload: &[u8], is_sealed, max| Head::decode(payload, is_sealed, max).unwrap_err().detail;
        assert!(why(&payload(1001, 10), false, 1000).contains("too long"));
        assert!(why(&payload(u32::MAX, 10), false, 1000).contains("too long"));
        assert!(why(&payload(14, 10), false, 1000).contains("not shrunk"));
        assert!(why(&payload(0, 10), false, 1000).contains("not shrunk"));
        assert!(Head::decode(&payload(15, 10), false, 1000).is_ok());
        for cut in 0..LENGTH_BYTES {
            assert!(why(&payload(1000, 10)[..cut], false, 1000).contains("without its head"));
        }
        assert!(why(&payload(1000, 31), true, 1000).contains("without its head"));
        assert!(Head::decode(&payload(1000, 32), true, 1000).is_ok());
    }
}
