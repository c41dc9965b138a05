//! The frame: the unit of transmission on a data connection.
//!
//! A frame is a fixed header, then a [`Seal`] (on sealed connections only), then meta, then payload. Nothing here
//! reads a socket or changes a payload: callers pass byte slices and get typed values or errors. Every length is
//! checked against its limit while the header is decoded, so that no memory is allocated for an excessive length.

mod seal;
#[cfg(test)]
mod tests;

use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use seal::{PayloadDigest, SEAL_BYTES, Seal, SealChecker, SealKey, Sealer};

/// The length of an encoded [`Header`] in bytes.
pub const HEADER_BYTES: usize = 24;

/// The maximum length of a frame's meta in bytes (64 KiB).
pub const META_LIMIT_BYTES: usize = 64 * 1024;

/// The maximum length of a frame's payload in bytes (4 MiB).
pub const PAYLOAD_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// The kind that ends one direction of a sealed connection.
///
/// Kinds above it are used by messages. On a TLS connection, which has its own alert for this purpose, no frame may
/// use it.
pub const KIND_CLOSE: u8 = 0;

/// The reason why a frame cannot be encoded or must be rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The meta is longer than [`META_LIMIT_BYTES`].
    #[error("frame meta of {0} bytes is longer than the limit of {META_LIMIT_BYTES} bytes")]
    MetaTooLong(u64),
    /// The payload is longer than [`PAYLOAD_LIMIT_BYTES`].
    #[error("frame payload of {0} bytes is longer than the limit of {PAYLOAD_LIMIT_BYTES} bytes")]
    PayloadTooLong(u64),
    /// The header has bits set that this version does not define.
    #[error("frame header has reserved bits {0:#06x} set")]
    ReservedBits(u16),
    /// A frame without a payload has a checksum or digest.
    #[error("frame without payload carries a checksum or digest")]
    ChecksumWithoutPayload,
    /// The MAC of a sealed frame does not match: the frame was forged, altered, replayed, reordered, or an earlier
    /// one was dropped.
    #[error("frame MAC does not match its contents and position")]
    BadMac,
    /// All sequence numbers of one direction have been used.
    #[error("no sequence numbers left for this connection")]
    SequenceExhausted,
}

/// The header of a frame, decoded and within its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of message; [`KIND_CLOSE`] is reserved.
    pub kind: u8,
    /// Bits whose meaning depends on the kind.
    pub flags: u8,
    /// The length of the meta in bytes, at most [`META_LIMIT_BYTES`].
    pub meta_bytes: u32,
    /// The length of the payload in bytes, at most [`PAYLOAD_LIMIT_BYTES`].
    pub payload_bytes: u32,
    /// A number that the requesting side chooses and the answer repeats.
    pub request: u32,
    /// The CRC-64/NVME checksum of the payload; 0 without a payload.
    pub checksum: u64,
}

/// The header as it is encoded on the wire.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    kind: u8,
    flags: u8,
    reserved: U16,
    meta_bytes: U32,
    payload_bytes: U32,
    request: U32,
    checksum: U64,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES);

impl Header {
    /// Creates a header for `meta_bytes` of meta and `payload_bytes` of payload.
    ///
    /// # Errors
    /// If a length exceeds its limit, or there is a checksum without a payload.
    pub fn new(
        kind: u8,
        flags: u8,
        request: u32,
        meta_bytes: usize,
        payload_bytes: usize,
        checksum: u64,
    ) -> Result<Self, FrameError> {
        check_lengths(meta_bytes as u64, payload_bytes as u64, checksum)?;
        Ok(Self {
            kind,
            flags,
            meta_bytes: meta_bytes as u32,
            payload_bytes: payload_bytes as u32,
            request,
            checksum,
        })
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let raw = RawHeader {
            kind: self.kind,
            flags: self.flags,
            reserved: U16::ZERO,
            meta_bytes: self.meta_bytes.into(),
            payload_bytes: self.payload_bytes.into(),
            request: self.request.into(),
            checksum: self.checksum.into(),
        };
        zerocopy::transmute!(raw)
    }

    /// Decodes a header and checks it against the limits.
    ///
    /// # Errors
    /// If reserved bits are set, a length exceeds its limit, or there is a checksum without a payload.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let raw: RawHeader = zerocopy::transmute!(*bytes);
        if raw.reserved != U16::ZERO {
            return Err(FrameError::ReservedBits(raw.reserved.get()));
        }
        let header = Self {
            kind: raw.kind,
            flags: raw.flags,
            meta_bytes: raw.meta_bytes.get(),
            payload_bytes: raw.payload_bytes.get(),
            request: raw.request.get(),
            checksum: raw.checksum.get(),
        };
        check_lengths(header.meta_bytes.into(), header.payload_bytes.into(), header.checksum)?;
        Ok(header)
    }
}

fn check_lengths(meta_bytes: u64, payload_bytes: u64, checksum: u64) -> Result<(), FrameError> {
    if meta_bytes > META_LIMIT_BYTES as u64 {
        return Err(FrameError::MetaTooLong(meta_bytes));
    }
    if payload_bytes > PAYLOAD_LIMIT_BYTES as u64 {
        return Err(FrameError::PayloadTooLong(payload_bytes));
    }
    if payload_bytes == 0 && checksum != 0 {
        return Err(FrameError::ChecksumWithoutPayload);
    }
    Ok(())
}
