//! Buffers for direct I/O, with incompressible content.

use crate::generate;

/// The alignment for direct I/O, in bytes.
pub(super) const ALIGNMENT: usize = 4096;

/// A buffer that starts at a multiple of [`ALIGNMENT`].
pub(super) struct ContentBuffer {
    bytes: Box<[u8]>,
    begin: usize,
    length: usize,
}

impl ContentBuffer {
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNMENT].into_boxed_slice();
        let begin = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, begin, length }
    }

    /// Creates a buffer whose content no file system can compress or deduplicate.
    pub fn filled(length: usize, seed: u64) -> Self {
        let mut buffer = Self::new(length);
        generate::fill(seed, 0, buffer.bytes_mut());
        buffer
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..self.begin + self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_aligned_and_differs_by_its_seed() {
        let (one, other) = (ContentBuffer::filled(1 << 16, 1), ContentBuffer::filled(1 << 16, 9));
        assert_eq!(one.bytes().as_ptr().align_offset(ALIGNMENT), 0);
        assert!(one.bytes() != other.bytes() && one.bytes()[..4096] != one.bytes()[4096..8192]);
    }
}
