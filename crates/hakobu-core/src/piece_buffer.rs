//! The buffer for a piece of a large file.

use hakobu_sys::memory::{BufferPool, PooledBuffer};

use crate::extent::{Extent, PIECE_BYTES};

/// The alignment of a piece's memory in bytes, so that devices can be read directly into it.
pub const PIECE_ALIGNMENT: usize = 4096;

/// The memory pool for pieces, which devices are read into and written from.
static PIECE_ROOMS: BufferPool = BufferPool::new(PIECE_BYTES as usize);

/// Stands for an unknown offset.
const ANYWHERE: u64 = u64::MAX;

/// The memory for one piece, allocated once and reused.
#[derive(Debug)]
pub struct PieceBuffer {
    room: PooledBuffer,
    filled: usize,
    /// The offset in the file at which the bytes were read, or [`ANYWHERE`]. Not an `Option`, which would make
    /// operations larger.
    offset: u64,
}

impl PieceBuffer {
    /// Returns an empty buffer of [`PIECE_BYTES`].
    pub fn new() -> Self {
        Self { room: PIECE_ROOMS.take(), filled: 0, offset: ANYWHERE }
    }

    /// Returns the bytes in it.
    pub fn filled(&self) -> &[u8] {
        &self.room[..self.filled]
    }

    /// Returns all its memory to be filled: [`PIECE_BYTES`] bytes, aligned to [`PIECE_ALIGNMENT`].
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.room
    }

    /// Sets the number of valid bytes, with an unknown offset.
    pub fn set_filled(&mut self, filled: usize) {
        assert!(filled <= PIECE_BYTES as usize, "a buffer cannot hold more than its room");
        (self.filled, self.offset) = (filled, ANYWHERE);
    }

    /// Sets the number of valid bytes, and the offset in the file at which they were read.
    pub fn set_read(&mut self, offset: u64, filled: usize) {
        self.set_filled(filled);
        self.offset = offset;
    }

    /// Returns true if the bytes may be those of this range of a file: the length matches, and so does the offset if it
    /// is known.
    pub fn holds(&self, extent: Extent) -> bool {
        self.filled as u64 == extent.length && [extent.offset, ANYWHERE].contains(&self.offset)
    }
}

impl Default for PieceBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_knows_where_its_bytes_were_read() {
        let extent = |offset, length| Extent { offset, length };
        let mut buffer = PieceBuffer::new();
        buffer.set_read(PIECE_BYTES, 100);
        assert!(buffer.holds(extent(PIECE_BYTES, 100)));
        assert!(!buffer.holds(extent(0, 100)) && !buffer.holds(extent(PIECE_BYTES, 99)));
        // Assembled content, or content from a source without offsets, may belong anywhere.
        buffer.set_filled(100);
        assert!(buffer.holds(extent(0, 100)) && !buffer.holds(extent(0, 101)));
    }
}
