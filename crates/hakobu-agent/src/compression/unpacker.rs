//! The receiving half: hostile until it has become as long as it was said to.

use hakobu_core::digest::Digest;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_proto::compressed::Head;
use zstd::bulk::Decompressor;
use zstd::zstd_safe;

use crate::connection::checked::{corrupt, lost};
use crate::connection::{Connection, Incoming};

/// Unpacks what comes on one connection; its context and buffer are used again.
#[derive(Default)]
pub struct Unpacker {
    decompressor: Option<Decompressor<'static>>,
    packed: Vec<u8>,
}

impl Unpacker {
    /// Reads the payload of a frame and unpacks it into `content`, which it replaces. Gives what the digest of the
    /// content has to be, on sealed connections. The content has not been checked against anything then.
    ///
    /// # Errors
    /// `Corrupt` if it arrived differently from what was sent, `Protocol` if it is no such payload; or the connection
    /// failed.
    pub(crate) fn receive(
        &mut self,
        connection: &mut Connection,
        frame: &Incoming,
        content_max: usize,
        content: &mut Vec<u8>,
    ) -> Result<Option<Digest>> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        let read = connection.read_payload_into(&mut packed).map_err(lost);
        let unpacked = read.and_then(|()| match frame.digest {
            // Where nothing is encrypted anybody on the way could speak to the decompressor otherwise.
            Some(digest) if *blake3::hash(&packed).as_bytes() != digest => Err(corrupt()),
            digest => self.unpack(&packed, digest.is_some(), content_max, content),
        });
        self.packed = packed;
        unpacked
    }

    /// Unpacks a payload into `content`, which it replaces.
    ///
    /// # Errors
    /// `Protocol` if it is no such payload, or does not become exactly as long as it says.
    pub fn unpack(
        &mut self,
        payload: &[u8],
        is_sealed: bool,
        content_max: usize,
        content: &mut Vec<u8>,
    ) -> Result<Option<Digest>> {
        let (head, packed) = Head::decode(payload, is_sealed, content_max)?;
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            empty => empty.insert(Decompressor::new().map_err(|error| Error::io(UNPACKING, &error))?),
        };
        // Otherwise several frames one behind the other would be taken as well.
        if zstd_safe::find_frame_compressed_size(packed) != Ok(packed.len()) {
            return Err(malformed("it is not one frame".to_owned()));
        }
        content.resize(head.content_bytes as usize, 0);
        match decompressor.decompress_to_buffer(packed, &mut content[..]) {
            Ok(bytes) if bytes == content.len() => Ok(head.digest),
            Ok(_) => Err(malformed("it is shorter than it was said to be".to_owned())),
            Err(error) => Err(malformed(error.to_string())),
        }
    }
}

const UNPACKING: &str = "unpacking compressed content";

fn malformed(what: String) -> Error {
    Error::new(ErrorKind::Protocol, UNPACKING, what)
}
