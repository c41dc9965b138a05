//! The receiving half: a payload is untrusted until it has become exactly as long as it declares.

use hakobu_core::digest::Digest;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_proto::compressed::CompressedHead;
use zstd::bulk::Decompressor;
use zstd::zstd_safe;

use crate::connection::checked::{corrupt, lost};
use crate::connection::{Connection, IncomingFrame};

/// Decompresses what is received on one connection. Its context and buffer are reused.
#[derive(Default)]
pub struct Unpacker {
    decompressor: Option<Decompressor<'static>>,
    packed: Vec<u8>,
}

impl Unpacker {
    /// Reads the payload of a frame and decompresses it into `content`, which it replaces. Returns the digest that the
    /// content must have, on sealed connections. The content itself is not yet checked.
    ///
    /// # Errors
    /// `Corrupt` if the payload does not match its check, `Protocol` if it is not a valid compressed payload; or the
    /// connection failed.
    pub fn receive(
        &mut self,
        connection: &mut Connection,
        frame: &IncomingFrame,
        content_max: usize,
        content: &mut Vec<u8>,
    ) -> Result<Option<Digest>> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        let read = connection.read_payload_into(&mut packed).map_err(lost);
        let unpacked = read.and_then(|()| match frame.digest {
            // Without encryption, anyone on the network path could otherwise feed the decompressor.
            Some(digest) if *blake3::hash(&packed).as_bytes() != digest => Err(corrupt()),
            digest => self.unpack(&packed, digest.is_some(), content_max, content),
        });
        self.packed = packed;
        unpacked
    }

    /// Decompresses a payload into `content`, which it replaces.
    ///
    /// # Errors
    /// `Protocol` if it is not a valid compressed payload, or is not exactly as long as it declares.
    pub fn unpack(
        &mut self,
        payload: &[u8],
        is_sealed: bool,
        content_max: usize,
        content: &mut Vec<u8>,
    ) -> Result<Option<Digest>> {
        let (head, packed) = CompressedHead::decode(payload, is_sealed, content_max)?;
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            empty => empty.insert(Decompressor::new().map_err(|error| Error::io(UNPACKING, &error))?),
        };
        // Otherwise several concatenated frames would be accepted too.
        if zstd_safe::find_frame_compressed_size(packed) != Ok(packed.len()) {
            return Err(malformed("it is not one frame".to_owned()));
        }
        content.resize(head.content_bytes as usize, 0);
        match decompressor.decompress_to_buffer(packed, &mut content[..]) {
            Ok(bytes) if bytes == content.len() => Ok(head.digest),
            Ok(_) => Err(malformed("it is shorter than announced".to_owned())),
            Err(error) => Err(malformed(error.to_string())),
        }
    }
}

const UNPACKING: &str = "unpacking compressed content";

fn malformed(what: String) -> Error {
    Error::new(ErrorKind::Protocol, UNPACKING, what)
}
