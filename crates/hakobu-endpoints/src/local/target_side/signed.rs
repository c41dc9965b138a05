//! What one lane has signed last of a draft: the sums of blocks, so that a piece that differs need not be read and tagged
//! once more for each question about it.

use hakobu_core::extent::{BLOCK_BYTES, CHUNK_BYTES, Extent, PIECE_BYTES};
use hakobu_core::tag::PieceTags;

/// Of so many chunks, about 17 KiB each: more than an engine's lane asks for ahead and holds.
const CHUNKS_MAX: usize = 24;

/// The tags of the last chunks.
#[derive(Debug, Default)]
pub(super) struct Signed {
    chunks: Vec<SignedChunk>,
    /// Which one is next to be replaced.
    next: usize,
}

#[derive(Debug, Default)]
struct SignedChunk {
    offset: u64,
    /// Those of its pieces up to the first that is not there.
    pieces: Vec<PieceTags>,
}

impl Signed {
    /// What follows is of this range.
    pub(super) fn begin(&mut self, extent: Extent) {
        if self.chunks.len() < CHUNKS_MAX {
            self.next = self.chunks.len();
            self.chunks.push(SignedChunk::default());
        } else {
            self.next = (self.next + 1) % CHUNKS_MAX;
        }
        let chunk = &mut self.chunks[self.next];
        chunk.offset = extent.offset;
        chunk.pieces.clear();
    }

    /// The tags of the next piece of it.
    pub(super) fn push(&mut self, tags: PieceTags) {
        if let Some(chunk) = self.chunks.get_mut(self.next) {
            chunk.pieces.push(tags);
        }
    }

    /// Those of a piece, if it is among the last.
    pub(super) fn find(&self, piece: Extent) -> Option<&PieceTags> {
        // A range that was signed twice is as it was found the last time.
        let at =
            |chunk: &&SignedChunk| piece.offset >= chunk.offset && piece.offset - chunk.offset < CHUNK_BYTES;
        let (before, after) = self.chunks.split_at((self.next + 1).min(self.chunks.len()));
        let chunk = before.iter().rev().chain(after.iter().rev()).find(at)?;
        let tags = chunk.pieces.get(((piece.offset - chunk.offset) / PIECE_BYTES) as usize)?;
        let blocks = piece.length.div_ceil(BLOCK_BYTES);
        (tags.len() as u64 == blocks).then_some(tags)
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};

    use super::*;

    fn piece(number: u64) -> Extent {
        Extent { offset: number * PIECE_BYTES, length: PIECE_BYTES }
    }

    #[test]
    fn the_last_chunks_are_known_and_older_ones_are_not() {
        let tagger = Tagger::new(TagKey([1; TAG_KEY_BYTES])).unwrap();
        let tags = |byte: u8| tagger.blocks_of(&vec![byte; PIECE_BYTES as usize]).unwrap();
        let mut signed = Signed::default();
        assert!(signed.find(piece(0)).is_none());
        let pieces = CHUNK_BYTES / PIECE_BYTES;
        for chunk in 0..=CHUNKS_MAX as u64 {
            signed.begin(Extent { offset: chunk * CHUNK_BYTES, length: CHUNK_BYTES });
            (0..2).for_each(|_| signed.push(tags(chunk as u8)));
        }
        // The first has made room, and of the others two pieces were there.
        assert!(signed.find(piece(0)).is_none());
        for chunk in 1..=CHUNKS_MAX as u64 {
            let found = signed.find(piece(chunk * pieces + 1)).unwrap();
            assert_eq!(tagger.piece(found).unwrap(), tagger.piece(&tags(chunk as u8)).unwrap());
            assert!(signed.find(piece(chunk * pieces + 2)).is_none());
        }
        assert!(signed.find(Extent { length: 4096, ..piece(pieces) }).is_none());
        // Signed again, it is as it was found then.
        signed.begin(Extent { offset: 3 * CHUNK_BYTES, length: CHUNK_BYTES });
        signed.push(tags(99));
        let found = signed.find(piece(3 * pieces)).unwrap();
        assert_eq!(tagger.piece(found).unwrap(), tagger.piece(&tags(99)).unwrap());
    }
}
