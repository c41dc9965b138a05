//! Ranges of a large file: a piece is what one operation transfers, a chunk is what a lane takes.

/// The bytes that one read or write transfers. A power of two, so that each piece is a subtree of the file's BLAKE3;
/// small enough to stay in a core's L2 cache from read through hashing to encryption.
pub const PIECE_BYTES: u64 = 256 * 1024;

/// The unit of the second comparison when pieces differ, in bytes: the one in which file systems and databases write.
pub const BLOCK_BYTES: u64 = 4096;

/// The number of blocks in a piece: as many as a mask of changed blocks has bits.
pub const BLOCKS_PER_PIECE: u64 = PIECE_BYTES / BLOCK_BYTES;

/// The number of pieces in a chunk, the unit that lanes take from a file's shared counter.
pub const PIECES_PER_CHUNK: u64 = 16;

/// The size of a whole chunk in bytes.
pub const CHUNK_BYTES: u64 = PIECE_BYTES * PIECES_PER_CHUNK;

/// The size from which drafts have a journal. Without one, up to this much has to be copied again.
pub const JOURNALED_FROM_BYTES: u64 = 64 << 20;

/// Stands for the size of a stream until its end has been read. No file is this long.
pub const UNKNOWN_BYTES: u64 = 1 << 60;

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// The offset of the first byte.
    pub offset: u64,
    /// The length in bytes; never 0 for a piece or chunk.
    pub length: u64,
}

impl Extent {
    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// Returns the pieces of this extent in order. The extent must begin at a multiple of [`PIECE_BYTES`].
    pub fn pieces(self) -> impl Iterator<Item = Extent> {
        debug_assert!(self.offset.is_multiple_of(PIECE_BYTES));
        self.parts(PIECE_BYTES)
    }

    /// Returns the pieces in order, each with its content. `bytes` begin where the extent does, and may be shorter.
    pub fn filled(self, bytes: &[u8]) -> impl Iterator<Item = (Extent, &[u8])> {
        self.pieces().map(move |piece| {
            let at = |offset: u64| bytes.len().min((offset - self.offset) as usize);
            (piece, &bytes[at(piece.offset)..at(piece.end())])
        })
    }

    /// Returns the blocks of this extent in order; the last may be short.
    pub fn blocks(self) -> impl Iterator<Item = Extent> {
        self.parts(BLOCK_BYTES)
    }

    fn parts(self, part_bytes: u64) -> impl Iterator<Item = Extent> {
        (0..self.length.div_ceil(part_bytes)).map(move |index| {
            let offset = self.offset + index * part_bytes;
            Extent { offset, length: part_bytes.min(self.end() - offset) }
        })
    }
}

/// Returns the number of chunks of a file of `size_bytes`.
pub fn chunk_count(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(CHUNK_BYTES)
}

/// Returns chunk number `index` of a file of `size_bytes`, or `None` beyond its end.
pub fn chunk(size_bytes: u64, index: u64) -> Option<Extent> {
    let offset = index.checked_mul(CHUNK_BYTES)?;
    (offset < size_bytes).then(|| Extent { offset, length: CHUNK_BYTES.min(size_bytes - offset) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_of_chunks_cover_the_file_once(size in 0..80 * PIECE_BYTES) {
            let mut next = 0;
            for index in 0..chunk_count(size) {
                for piece in chunk(size, index).unwrap().pieces() {
                    prop_assert_eq!(piece.offset, next);
                    prop_assert!(piece.length > 0 && piece.length <= PIECE_BYTES);
                    next = piece.end();
                }
            }
            prop_assert_eq!(next, size);
            prop_assert_eq!(chunk(size, chunk_count(size)), None);
        }
    }
}
