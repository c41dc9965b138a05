//! The buffer that a piece of a large file travels in.

use hakobu_sys::memory::{Room, Rooms};

use crate::extent::PIECE_BYTES;

/// What the room for a piece is aligned to, so that devices can be read straight into it.
pub const PIECE_ALIGNMENT: usize = 4096;

/// Room for pieces, which devices are read into and written from.
static PIECE_ROOMS: Rooms = Rooms::new(PIECE_BYTES as usize);

/// The room for one piece, allocated once and reused.
#[derive(Debug)]
pub struct PieceBuffer {
    room: Room,
    filled: usize,
}

impl PieceBuffer {
    /// A new, empty buffer of [`PIECE_BYTES`].
    pub fn new() -> Self {
        Self { room: PIECE_ROOMS.take(), filled: 0 }
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
        self.filled = filled;
    }
}

impl Default for PieceBuffer {
    fn default() -> Self {
        Self::new()
    }
}
