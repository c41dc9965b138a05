//! The block tags of a draft that one lane has computed last, so that a differing piece need not be read and tagged
//! again for each query.

use hakobu_core::extent::{BLOCK_BYTES, CHUNK_BYTES, Extent, PIECE_BYTES};
use hakobu_core::tag::PieceTags;

/// The maximum number of chunks, of about 17 KiB each. An engine's lane requests and holds fewer at a time.
const CHUNKS_MAX: usize = 24;

/// The tags of the last chunks.
#[derive(Debug, Default)]
pub(super) struct RecentTags {
    chunks: Vec<SignedChunk>,
    /// The index of the current chunk. The next index is replaced next.
    next: usize,
}

#[derive(Debug, Default)]
struct SignedChunk {
    offset: u64,
    /// The tags of its pieces up to the first one that does not exist.
    pieces: Vec<PieceTags>,
}

impl RecentTags {
    /// Starts a range to which the following tags belong.
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

    /// Adds the tags of the next piece of the range.
    pub(super) fn push(&mut self, tags: PieceTags) {
        if let Some(chunk) = self.chunks.get_mut(self.next) {
            chunk.pieces.push(tags);
        }
    }

    /// Returns the tags of a piece, if it is among the last ones.
    pub(super) fn find(&self, piece: Extent) -> Option<&PieceTags> {
        // If a range was tagged twice, the later result counts.
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
        let mut signed = RecentTags::default();
        assert!(signed.find(piece(0)).is_none());
        let pieces = CHUNK_BYTES / PIECE_BYTES;
        for chunk in 0..=CHUNKS_MAX as u64 {
            signed.begin(Extent { offset: chunk * CHUNK_BYTES, length: CHUNK_BYTES });
            (0..2).for_each(|_| signed.push(tags(chunk as u8)));
        }
        // The first chunk was replaced, and each of the others has two pieces.
        assert!(signed.find(piece(0)).is_none());
        for chunk in 1..=CHUNKS_MAX as u64 {
            let found = signed.find(piece(chunk * pieces + 1)).unwrap();
            assert_eq!(tagger.piece(found).unwrap(), tagger.piece(&tags(chunk as u8)).unwrap());
            assert!(signed.find(piece(chunk * pieces + 2)).is_none());
        }
        assert!(signed.find(Extent { length: 4096, ..piece(pieces) }).is_none());
        // After tagging again, the new result counts.
        signed.begin(Extent { offset: 3 * CHUNK_BYTES, length: CHUNK_BYTES });
        signed.push(tags(99));
        let found = signed.find(piece(3 * pieces)).unwrap();
        assert_eq!(tagger.piece(found).unwrap(), tagger.piece(&tags(99)).unwrap());
    }
}
