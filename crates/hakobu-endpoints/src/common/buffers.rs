//! The buffers of one lane, allocated once and reused.

use hakobu_core::endpoint::PieceBuffer;
use hakobu_core::pack::PACK_BYTES_TARGET;

/// The maximum number of unused buffers of each kind that are kept.
const KEPT: usize = 16;

/// A pool of buffers for one lane.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pieces: Vec<PieceBuffer>,
    packs: Vec<Vec<u8>>,
}

impl Buffers {
    /// Returns an empty buffer for one piece.
    pub(crate) fn piece(&mut self) -> PieceBuffer {
        self.pieces.pop().unwrap_or_default()
    }

    /// Returns a buffer for a pack. It may contain data of an earlier pack.
    pub(crate) fn pack(&mut self) -> Vec<u8> {
        self.packs.pop().unwrap_or_else(|| Vec::with_capacity(PACK_BYTES_TARGET + PACK_BYTES_TARGET / 4))
    }

    /// Returns a piece's buffer to the pool.
    pub(crate) fn return_piece(&mut self, mut buffer: PieceBuffer) {
        if self.pieces.len() < KEPT {
            buffer.set_filled(0);
            self.pieces.push(buffer);
        }
    }

    /// Returns a pack's buffer to the pool.
    pub(crate) fn return_pack(&mut self, buffer: Vec<u8>) {
        if self.packs.len() < KEPT {
            self.packs.push(buffer);
        }
    }
}
