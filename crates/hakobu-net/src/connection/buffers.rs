//! The send buffer and the receive buffer of a connection.
//!
//! Both are allocated once and reused. `Outgoing` is a queue of bytes ready for the socket. `Inbound` holds, in one
//! allocation, plaintext that is not yet consumed and, behind it, bytes as they came from the socket:
//!
//! ```text
//! | free | plain | gap | raw | room |
//! ```
//!
//! A TLS record shrinks when it is decrypted. With a gap of one record at the start, its plaintext can therefore always
//! be placed right behind the plaintext before it, so plaintext is always one contiguous slice.

/// The longest plaintext of a TLS record, in bytes.
pub(super) const RECORD_PLAIN_BYTES: usize = 16 * 1024;

/// The longest TLS record on the wire, in bytes: header, plaintext, expansion.
pub(super) const RECORD_BYTES: usize = 5 + RECORD_PLAIN_BYTES + 256;

/// The size of the receive buffer in bytes: two of the usual payloads and their headers.
pub(super) const INBOUND_BYTES: usize = 768 * 1024;

/// The free space in bytes below which the buffer is compacted before more is received.
const LEAST_ROOM_BYTES: usize = 128 * 1024;

/// A queue of bytes for the socket.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl SendQueue {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], start: 0, end: 0 }
    }

    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Drops bytes that were sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Returns room for at least `bytes` more. The buffer only grows to the largest size ever needed, which the frame
    /// limits bound.
    pub(super) fn spare(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < bytes && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < bytes {
            self.bytes.resize(self.end + bytes, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Marks the first `bytes` of the spare room as filled.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
    }

    #[cfg(test)]
    pub(super) fn flip_last_byte(&mut self) {
        self.bytes[self.end - 1] ^= 1;
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.spare(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }
}

/// A buffer of bytes from the socket.
#[derive(Debug)]
pub(super) struct Inbound {
    bytes: Box<[u8]>,
    gap: usize,
    plain_start: usize,
    plain_end: usize,
    raw_start: usize,
    raw_end: usize,
}

impl Inbound {
    /// Creates a buffer for TLS records or, if `records` is false, for bytes that arrive as plaintext.
    pub(super) fn new(records: bool) -> Self {
        let gap = if records { RECORD_BYTES } else { 0 };
        Self {
            bytes: vec![0; INBOUND_BYTES].into_boxed_slice(),
            gap,
            plain_start: 0,
            plain_end: 0,
            raw_start: gap,
            raw_end: gap,
        }
    }

    pub(super) fn plain(&self) -> &[u8] {
        &self.bytes[self.plain_start..self.plain_end]
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.plain_start = (self.plain_start + bytes).min(self.plain_end);
    }

    /// Consumes `bytes` of plaintext and returns them.
    pub(super) fn take(&mut self, bytes: usize) -> &[u8] {
        let start = self.plain_start;
        self.consume(bytes);
        &self.bytes[start..self.plain_start]
    }

    /// Returns true if any received byte is not yet consumed.
    pub(super) fn has_any(&self) -> bool {
        !(self.plain().is_empty() && self.raw().is_empty())
    }

    pub(super) fn raw(&self) -> &[u8] {
        &self.bytes[self.raw_start..self.raw_end]
    }

    /// Returns the raw bytes, and the room for the plaintext of the first record among them.
    pub(super) fn raw_and_target(&mut self) -> (&mut [u8], &mut [u8]) {
        if self.plain_start == self.plain_end {
            self.plain_start = 0;
            self.plain_end = 0;
        }
        let (before, from_raw) = self.bytes.split_at_mut(self.raw_start);
        let raw_bytes = self.raw_end - self.raw_start;
        (&mut from_raw[..raw_bytes], &mut before[self.plain_end..])
    }

    /// Records that `raw_bytes` of records were decrypted to `plain_bytes` of plaintext.
    pub(super) fn decrypted(&mut self, raw_bytes: usize, plain_bytes: usize) {
        self.raw_start = (self.raw_start + raw_bytes).min(self.raw_end);
        self.plain_end = (self.plain_end + plain_bytes).min(self.raw_start);
    }

    /// Marks all received bytes as plaintext, on a connection without records.
    pub(super) fn all_plain(&mut self) {
        debug_assert_eq!(self.gap, 0);
        self.plain_end = self.raw_end;
        self.raw_start = self.raw_end;
    }

    /// Returns room to receive into; empty if the buffer is full.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let plain_bytes = self.plain_end - self.plain_start;
        let raw_bytes = self.raw_end - self.raw_start;
        let tidy_end = plain_bytes + self.gap + raw_bytes;
        let crowded = self.bytes.len() - self.raw_end < LEAST_ROOM_BYTES;
        if (plain_bytes == 0 && raw_bytes == 0) || (crowded && tidy_end < self.raw_end) {
            self.bytes.copy_within(self.plain_start..self.plain_end, 0);
            self.bytes.copy_within(self.raw_start..self.raw_end, plain_bytes + self.gap);
            self.plain_start = 0;
            self.plain_end = plain_bytes;
            self.raw_start = plain_bytes + self.gap;
            self.raw_end = tidy_end;
        }
        &mut self.bytes[self.raw_end..]
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.raw_end = (self.raw_end + bytes).min(self.bytes.len());
    }
}
