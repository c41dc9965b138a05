//! Ranges of a big file: pieces are what one operation carries, chunks are what a lane takes.

/// The bytes that one read or write carries. A power of two, so that each piece is a subtree of
/// the file's BLAKE3; small enough to stay in a core's L2 cache between read, hash and encryption.
pub const PIECE_BYTES: u64 = 256 * 1024;

/// What is compared once more where pieces differ: the unit in which file systems and databases write.
pub const BLOCK_BYTES: u64 = 4096;

/// The blocks in a piece: as many as a mask of changed ones has bits.
pub const BLOCKS_PER_PIECE: u64 = PIECE_BYTES / BLOCK_BYTES;

/// The pieces in a chunk, the unit that lanes take from a file's shared counter.
pub const PIECES_PER_CHUNK: u64 = 16;

/// The bytes of a whole chunk.
pub const CHUNK_BYTES: u64 = PIECE_BYTES * PIECES_PER_CHUNK;

/// Drafts of at least this size keep a journal: so much may have to be done again without one.
pub const JOURNALED_FROM_BYTES: u64 = 64 << 20;

/// In the place of the size of a stream, until its end has been read. No file is so long.
pub const UNKNOWN_BYTES: u64 = 1 << 60;

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Where it begins.
    pub offset: u64,
    /// How long it is, in bytes; never 0 for a piece or chunk.
    pub length: u64,
}

impl Extent {
    /// Where it ends: the first byte that is not in it.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// The pieces of this extent, in order. The extent must begin at a multiple of [`PIECE_BYTES`].
    pub fn pieces(self) -> impl Iterator<Item = Extent> {
        debug_assert!(self.offset.is_multiple_of(PIECE_BYTES));
        self.parts(PIECE_BYTES)
    }

    /// The same with what is in each: `bytes` begin where the extent does, and may end before it.
    pub fn filled(self, bytes: &[u8]) -> impl Iterator<Item = (Extent, &[u8])> {
        self.pieces().map(move |piece| {
            let at = |offset: u64| bytes.len().min((offset - self.offset) as usize);
            (piece, &bytes[at(piece.offset)..at(piece.end())])
        })
    }

    /// The blocks of this extent, in order; the last may be short.
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

/// How many chunks a file of `size_bytes` has.
pub fn chunk_count(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(CHUNK_BYTES)
}

/// The chunk number `index` of a file of `size_bytes`, or `None` past its end.
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
