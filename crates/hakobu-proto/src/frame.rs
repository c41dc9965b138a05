//! The frame: what travels on a data connection.
//!
//! A frame is a fixed header, then (on sealed connections only) a [`Seal`],
//! then meta, then payload. Nothing here reads a socket or touches a payload:
//! callers hand in byte slices and get typed values or errors back. Every
//! length is checked against its limit while the header is decoded, so that
//! nobody allocates for a length nobody agreed to.

mod seal;
#[cfg(test)]
mod tests;

use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use seal::{Digest, Opener, SEAL_BYTES, Seal, SealKey, Sealer};

/// Length of an encoded [`Header`] in bytes.
pub const HEADER_BYTES: usize = 24;

/// Longest meta of a frame in bytes (64 KiB).
pub const META_LIMIT_BYTES: usize = 64 * 1024;

/// Longest payload of a frame in bytes (4 MiB).
pub const PAYLOAD_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// The kind that ends a direction of a sealed connection.
///
/// Kinds above it belong to the messages. On a TLS connection, which has an
/// alert of its own for this, no frame may carry it.
pub const KIND_CLOSE: u8 = 0;

/// Why a frame cannot be encoded or must not be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Meta is longer than [`META_LIMIT_BYTES`].
    #[error("frame meta of {0} bytes is longer than the limit of {META_LIMIT_BYTES} bytes")]
    MetaTooLong(u64),
    /// Payload is longer than [`PAYLOAD_LIMIT_BYTES`].
    #[error("frame payload of {0} bytes is longer than the limit of {PAYLOAD_LIMIT_BYTES} bytes")]
    PayloadTooLong(u64),
    /// Bits that this version does not define are set.
    #[error("frame header has reserved bits {0:#06x} set")]
    ReservedBits(u16),
    /// A checksum or digest came with a frame that has no payload.
    #[error("frame without payload carries a checksum or digest")]
    ChecksumWithoutPayload,
    /// The MAC of a sealed frame does not match: forged, altered, replayed,
    /// reordered or dropped frames all end here.
    #[error("frame MAC does not match its contents and position")]
    BadMac,
    /// All sequence numbers of one direction are used up.
    #[error("no sequence numbers left for this connection")]
    SequenceExhausted,
}

/// The header of a frame, decoded and within its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which message the frame carries; [`KIND_CLOSE`] is taken.
    pub kind: u8,
    /// Bits whose meaning belongs to the kind.
    pub flags: u8,
    /// Length of meta in bytes, at most [`META_LIMIT_BYTES`].
    pub meta_bytes: u32,
    /// Length of the payload in bytes, at most [`PAYLOAD_LIMIT_BYTES`].
    pub payload_bytes: u32,
    /// Chosen by whoever asks; an answer repeats it.
    pub request: u32,
    /// CRC-64/NVME of the payload, 0 without a payload.
    pub checksum: u64,
}

/// The header as it lies on the wire.
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
    /// Makes a header for `meta_bytes` of meta and `payload_bytes` of payload.
    ///
    /// # Errors
    /// A length beyond its limit, or a checksum without a payload.
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

    /// The header as it goes over the wire.
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

    /// Reads a header and checks it against the limits.
    ///
    /// # Errors
    /// Reserved bits set, a length beyond its limit, or a checksum without a
    /// payload.
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
