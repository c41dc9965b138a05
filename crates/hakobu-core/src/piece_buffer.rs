//! The buffer that a piece of a large file travels in.

use hakobu_sys::memory::{Room, Rooms};

use crate::extent::{Extent, PIECE_BYTES};

/// What the room for a piece is aligned to, so that devices can be read straight into it.
pub const PIECE_ALIGNMENT: usize = 4096;

/// Room for pieces, which devices are read into and written from.
static PIECE_ROOMS: Rooms = Rooms::new(PIECE_BYTES as usize);

/// In the place of an offset: nobody says where the bytes belong.
const ANYWHERE: u64 = u64::MAX;

/// The room for one piece, allocated once and reused.
#[derive(Debug)]
pub struct PieceBuffer {
    room: Room,
    filled: usize,
    /// Where in the file the bytes were read, or [`ANYWHERE`]. No option, which would make operations too large.
    offset: u64,
}

impl PieceBuffer {
    /// A new, empty buffer of [`PIECE_BYTES`].
    pub fn new() -> Self {
        Self { room: PIECE_ROOMS.take(), filled: 0, offset: ANYWHERE }
    }

    /// The bytes in it.
    pub fn filled(&self) -> &[u8] {
        &self.room[..self.filled]
    }

    /// All its room, to be filled: [`PIECE_BYTES`], beginning at a multiple of
    /// [`PIECE_ALIGNMENT`].
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.room
    }

    /// Says how many bytes were put into the room.
    pub fn set_filled(&mut self, filled: usize) {
        assert!(filled <= PIECE_BYTES as usize, "a buffer cannot hold more than its room");
        (self.filled, self.offset) = (filled, ANYWHERE);
    }

    /// Says how many bytes were read into the room, and at which offset of their file.
    pub fn set_read(&mut self, offset: u64, filled: usize) {
        self.set_filled(filled);
        self.offset = offset;
    }

    /// Whether this range of a file, and no other, can have been read into it.
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
        // What was put together, or comes from where there are no offsets, may belong anywhere.
        buffer.set_filled(100);
        assert!(buffer.holds(extent(0, 100)) && !buffer.holds(extent(0, 101)));
    }
}
