//! The two buffers of a connection.
//!
//! Both are made once and reused. `Outgoing` is a queue of bytes ready for the
//! socket. `Inbound` holds, in one allocation, plaintext that was not consumed
//! yet and, behind it, bytes as they came from the socket:
//!
//! ```text
//! | free | plain | gap | raw | room |
//! ```
//!
//! A TLS record shrinks when it is decrypted, so its plaintext can always be
//! put right behind the plaintext before it, as long as there was a gap of one
//! record at the start. Plaintext is thus always one contiguous slice.

/// Longest plaintext of a TLS record.
pub(super) const RECORD_PLAIN_BYTES: usize = 16 * 1024;

/// Longest TLS record on the wire: header, plaintext, expansion.
pub(super) const RECORD_BYTES: usize = 5 + RECORD_PLAIN_BYTES + 256;

/// Size of the receive buffer: two of the usual payloads and what surrounds
/// them.
pub(super) const INBOUND_BYTES: usize = 768 * 1024;

/// Below this the buffer is tidied before more is received.
const LEAST_ROOM_BYTES: usize = 128 * 1024;

/// Bytes on their way to the socket.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Outgoing {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], start: 0, end: 0 }
    }

    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Drops what has been sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Room for at least `bytes` more. Grows only beyond the largest size
    /// that was ever needed, which the frame limits bound.
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

    /// The first `bytes` of the spare room are filled now.
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

/// Bytes on their way from the socket.
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
    /// A buffer for TLS records, or with `records` false for bytes that are
    /// plain as they come.
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

    /// Consumes `bytes` of plaintext and gives them out in the same breath.
    pub(super) fn take(&mut self, bytes: usize) -> &[u8] {
        let start = self.plain_start;
        self.consume(bytes);
        &self.bytes[start..self.plain_start]
    }

    /// Whether any byte that came is still to be used.
    pub(super) fn has_any(&self) -> bool {
        !(self.plain().is_empty() && self.raw().is_empty())
    }

    pub(super) fn raw(&self) -> &[u8] {
        &self.bytes[self.raw_start..self.raw_end]
    }

    /// The raw bytes, and where the plaintext of the first record among them
    /// goes.
    pub(super) fn raw_and_target(&mut self) -> (&mut [u8], &mut [u8]) {
        if self.plain_start == self.plain_end {
            self.plain_start = 0;
            self.plain_end = 0;
        }
        let (before, from_raw) = self.bytes.split_at_mut(self.raw_start);
        let raw_bytes = self.raw_end - self.raw_start;
        (&mut from_raw[..raw_bytes], &mut before[self.plain_end..])
    }

    /// `raw_bytes` of records gave `plain_bytes` of plaintext.
    pub(super) fn decrypted(&mut self, raw_bytes: usize, plain_bytes: usize) {
        self.raw_start = (self.raw_start + raw_bytes).min(self.raw_end);
        self.plain_end = (self.plain_end + plain_bytes).min(self.raw_start);
    }

    /// Without records, what was received is plain.
    pub(super) fn all_plain(&mut self) {
        debug_assert_eq!(self.gap, 0);
        self.plain_end = self.raw_end;
        self.raw_start = self.raw_end;
    }

    /// Room to receive into; empty when the buffer is full.
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
