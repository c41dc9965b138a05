//! The buffers of one lane, allocated once and reused.

use hakobu_core::endpoint::PieceBuffer;
use hakobu_core::pack::PACK_BYTES_TARGET;

/// How many unused buffers of each kind are kept.
const KEPT: usize = 16;

/// A lane's store of buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pieces: Vec<PieceBuffer>,
    packs: Vec<Vec<u8>>,
}

impl Buffers {
    /// An empty buffer of one piece.
    pub(crate) fn piece(&mut self) -> PieceBuffer {
        self.pieces.pop().unwrap_or_default()
    }

    /// A buffer for a pack, with what an earlier one has left in it.
    pub(crate) fn pack(&mut self) -> Vec<u8> {
        self.packs.pop().unwrap_or_else(|| Vec::with_capacity(PACK_BYTES_TARGET + PACK_BYTES_TARGET / 4))
    }

    /// Takes a piece's buffer back.
    pub(crate) fn return_piece(&mut self, mut buffer: PieceBuffer) {
        if self.pieces.len() < KEPT {
            buffer.set_filled(0);
            self.pieces.push(buffer);
        }
    }

    /// Takes a pack's buffer back.
    pub(crate) fn return_pack(&mut self, buffer: Vec<u8>) {
        if self.packs.len() < KEPT {
            self.packs.push(buffer);
        }
    }
}
