//! BLAKE3 of pieces hashed in any order, merged to the digest that `b3sum` prints.
//!
//! BLAKE3 is a binary tree (specification: "BLAKE3: one function, fast everywhere", section 2.1), so a piece whose
//! length and position are multiples of a power of two is a subtree of its own. Lanes hash pieces as they read them. A
//! [`Forest`] joins neighbours as soon as both are present, so its size grows with the number of lanes, not with the
//! length of the file.

use std::collections::HashMap;

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::extent::{PIECE_BYTES, PIECES_PER_CHUNK, UNKNOWN_BYTES};

/// A BLAKE3 digest of 32 bytes, or that of another algorithm if one was requested.
pub type Digest = [u8; 32];

/// The algorithm for the digest of a whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// BLAKE3, on all cores.
    #[default]
    Blake3,
    /// SHA-256, which is computed sequentially.
    Sha256,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 2] = [Self::Blake3, Self::Sha256];

    /// Returns the name used on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
        }
    }

    /// Returns the algorithm with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// Returns the value of one piece of a file of `size_bytes`: the subtree's chaining value or, if the file has no more
/// than one piece, the digest of the whole.
pub fn piece_value(size_bytes: u64, offset: u64, bytes: &[u8]) -> Digest {
    let mut hasher = PieceHasher::new(size_bytes, offset);
    hasher.update(bytes);
    hasher.value()
}

/// The value that identifies a block: the first half of its BLAKE3. The piece that is assembled from blocks is checked
/// by its own value.
pub type BlockValue = [u8; 16];

/// Returns the value of a block.
pub fn block_value(bytes: &[u8]) -> BlockValue {
    let mut value = [0; 16];
    value.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    value
}

/// The value of a piece without content.
const NO_PIECE: Digest = [0; 32];

/// Computes the value of one piece incrementally, as [`piece_value`] does in one call.
#[derive(Debug)]
pub struct PieceHasher {
    hasher: blake3::Hasher,
    whole: bool,
}

impl PieceHasher {
    /// Creates a hasher for the piece at `offset`, a multiple of [`PIECE_BYTES`], of a file of `size_bytes`.
    pub fn new(size_bytes: u64, offset: u64) -> Self {
        debug_assert!(offset.is_multiple_of(PIECE_BYTES));
        let mut hasher = blake3::Hasher::new();
        let whole = size_bytes <= PIECE_BYTES;
        if !whole {
            hasher.set_input_offset(offset);
        }
        Self { hasher, whole }
    }

    /// Adds the next bytes; at most [`PIECE_BYTES`] in total.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// Returns the value of the piece. A piece after the first is never empty, so if nothing was read the value is that
    /// of a piece without content.
    pub fn value(&self) -> Digest {
        match self.whole {
            true => *self.hasher.finalize().as_bytes(),
            false if self.hasher.count() == 0 => NO_PIECE,
            false => self.hasher.finalize_non_root(),
        }
    }
}

/// A complete subtree of one file's BLAKE3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// The level: the subtree covers `1 << level` pieces.
    pub level: u32,
    /// The position: the subtree begins at piece `position << level`.
    pub position: u64,
    /// The chaining value.
    pub value: Digest,
}

/// The level of the subtree of a whole chunk.
pub const CHUNK_LEVEL: u32 = PIECES_PER_CHUNK.trailing_zeros();

/// Returns the value of a whole chunk from those of its pieces, or `None` for an incomplete chunk. The file must be
/// longer than the chunk.
pub fn chunk_value(pieces: &[Digest]) -> Option<Digest> {
    let mut values: [Digest; PIECES_PER_CHUNK as usize] = pieces.try_into().ok()?;
    let mut count = values.len();
    while count > 1 {
        for index in 0..count / 2 {
            values[index] = merge_subtrees_non_root(&values[2 * index], &values[2 * index + 1], Mode::Hash);
        }
        count /= 2;
    }
    Some(values[0])
}

/// The subtrees of one file's BLAKE3, joined as their neighbours arrive.
#[derive(Debug)]
pub struct Forest {
    /// The number of pieces; for a stream, the number known so far.
    pieces: u64,
    /// True if there may be more pieces.
    open: bool,
    joined: u64,
    /// Complete subtrees by level and position. Level `l`, position `p` covers the pieces from `p << l` on.
    subtrees: HashMap<(u32, u64), ChainingValue>,
}

impl Forest {
    /// Creates a forest for a file of `size_bytes`, or for a stream if that is [`UNKNOWN_BYTES`].
    pub fn new(size_bytes: u64) -> Self {
        let open = size_bytes == UNKNOWN_BYTES;
        let pieces = if open { 0 } else { size_bytes.div_ceil(PIECE_BYTES) };
        Self { pieces, open, joined: 0, subtrees: HashMap::new() }
    }

    /// Records that the stream has ended after `size_bytes`.
    pub fn end(&mut self, size_bytes: u64) {
        self.grow(size_bytes.div_ceil(PIECE_BYTES));
        self.open = false;
    }

    /// Adds the value of piece number `index`, as returned by [`piece_value`]. Each piece must be added once only.
    pub fn add(&mut self, index: u64, value: Digest) {
        self.add_subtree(Subtree { level: 0, position: index, value });
    }

    /// Adds a subtree that does not cover the whole file. Each piece must be added once only.
    ///
    /// Returns false, and adds nothing, if it does not fit or overlaps an existing subtree.
    pub fn add_subtree(&mut self, subtree: Subtree) -> bool {
        let Subtree { mut level, mut position, mut value } = subtree;
        let pieces = 1u64.checked_shl(level).unwrap_or(0);
        let end = position.checked_add(1).and_then(|next| next.checked_mul(pieces));
        let fits = pieces > 0 && end.is_some_and(|end| self.open || end <= self.pieces);
        if !fits || self.subtrees.contains_key(&(level, position)) {
            return false;
        }
        self.joined += pieces;
        if self.open {
            self.grow(end.unwrap_or(0));
        }
        // `digest` merges the top of the tree, because BLAKE3 marks the root.
        while !self.is_top(level + 1, position >> 1) {
            match self.subtrees.remove(&(level, position ^ 1)) {
                Some(other) => {
                    let (left, right) = if position & 1 == 0 { (value, other) } else { (other, value) };
                    value = merge_subtrees_non_root(&left, &right, Mode::Hash);
                    level += 1;
                    position >>= 1;
                }
                None => break,
            }
        }
        self.subtrees.insert((level, position), value);
        true
    }

    /// Raises the number of known pieces to at least `pieces`. Merges subtrees that are thereby no longer the top of
    /// the tree.
    fn grow(&mut self, pieces: u64) {
        let before = self.pieces;
        self.pieces = before.max(pieces);
        if before.next_power_of_two() == self.pieces.next_power_of_two() {
            return;
        }
        let first = (0..u64::BITS).find(|level| self.subtrees.contains_key(&(*level, 0)));
        let Some(mut level) = first else { return };
        while !self.is_top(level + 1, 0)
            && let Some(right) = self.subtrees.remove(&(level, 1))
            && let Some(left) = self.subtrees.remove(&(level, 0))
        {
            level += 1;
            self.subtrees.insert((level, 0), merge_subtrees_non_root(&left, &right, Mode::Hash));
        }
    }

    /// Returns the current subtrees in order.
    pub fn subtrees(&self) -> Vec<Subtree> {
        let held = self.subtrees.iter();
        let mut held: Vec<_> = held
            .map(|((level, position), value)| Subtree { level: *level, position: *position, value: *value })
            .collect();
        held.sort_by_key(|subtree| subtree.position << subtree.level);
        held
    }

    /// Returns true if the subtree at `level` and `position` would cover the whole file.
    fn is_top(&self, level: u32, position: u64) -> bool {
        position == 0 && (level >= 64 || (1 << level) >= self.pieces)
    }

    /// Returns the current number of subtrees.
    pub fn len(&self) -> usize {
        self.subtrees.len()
    }

    /// Returns true if there are no subtrees.
    pub fn is_empty(&self) -> bool {
        self.subtrees.is_empty()
    }

    /// Returns the digest of the whole file, or `None` while pieces are missing.
    pub fn digest(&self) -> Option<Digest> {
        if self.open {
            return None;
        }
        if self.pieces == 0 {
            return Some(*blake3::hash(b"").as_bytes());
        }
        if self.joined != self.pieces {
            return None;
        }
        let mut rest: Vec<_> = self.subtrees.iter().collect();
        rest.sort_by_key(|((level, position), _)| position << level);
        let (_, last) = rest.pop()?;
        let Some(((_, _), first)) = rest.first().copied() else { return Some(*last) };
        let mut right = *last;
        for (_, left) in rest[1..].iter().rev() {
            right = merge_subtrees_non_root(left, &right, Mode::Hash);
        }
        Some(*merge_subtrees_root(first, &right, Mode::Hash).as_bytes())
    }
}

/// Returns a digest as lower-case hexadecimal, the format of `b3sum`.
pub fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::extent::CHUNK_BYTES;

    fn data(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 31 + index / 251) as u8).collect()
    }

    /// Pieces of a stream come in any order, and their number is not known in advance.
    #[test]
    fn a_stream_has_the_digest_of_its_content() {
        let pieces_and_rest =
            [(1, 0), (2, 0), (3, 7), (4, 0), (5, 1), (8, 0), (16, 0), (17, 5), (31, 0), (33, 9)];
        for (pieces, rest) in pieces_and_rest {
            let data = data(pieces * PIECE_BYTES as usize + rest);
            let count = data.len().div_ceil(PIECE_BYTES as usize);
            for (step, ends_early) in [(1, false), (1, true), (3, false), (3, true), (5, true), (7, false)] {
                let mut forest = Forest::new(UNKNOWN_BYTES);
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by_key(|index| (index % step, *index));
                for (turn, index) in order.into_iter().enumerate() {
                    // A reader reports the end before everything that was read has been hashed.
                    if ends_early && turn == count / 2 {
                        forest.end(data.len() as u64);
                    }
                    let begin = index * PIECE_BYTES as usize;
                    let piece = &data[begin..data.len().min(begin + PIECE_BYTES as usize)];
                    // The size of a stream of one piece is known before the piece is hashed.
                    let size_bytes = if count == 1 { data.len() as u64 } else { UNKNOWN_BYTES };
                    forest.add(index as u64, piece_value(size_bytes, begin as u64, piece));
                    assert!(forest.digest().is_none() || (ends_early && turn + 1 == count));
                }
                if !ends_early {
                    forest.end(data.len() as u64);
                }
                assert_eq!(forest.digest(), Some(*blake3::hash(&data).as_bytes()), "{pieces} {rest} {step}");
            }
        }
    }

    fn forest_digest(data: &[u8], order: &[usize]) -> (Digest, usize) {
        let size = data.len() as u64;
        let mut forest = Forest::new(size);
        let mut most = 0;
        for &index in order {
            assert_eq!(forest.digest(), None);
            let begin = index * PIECE_BYTES as usize;
            let piece = &data[begin..data.len().min(begin + PIECE_BYTES as usize)];
            forest.add(index as u64, piece_value(size, begin as u64, piece));
            most = most.max(forest.len());
        }
        (forest.digest().unwrap(), most)
    }

    #[test]
    fn lengths_around_every_edge_give_the_standard_digest() {
        let piece = PIECE_BYTES as usize;
        for pieces in 0..10 {
            for extra in [0, 1, 1023, 1024, 1025, piece - 1] {
                let data = data(pieces * piece + extra);
                let order: Vec<_> = (0..data.len().div_ceil(piece)).collect();
                let digest = if order.is_empty() {
                    Forest::new(0).digest().unwrap()
                } else {
                    forest_digest(&data, &order).0
                };
                assert_eq!(digest, *blake3::hash(&data).as_bytes(), "{pieces} pieces and {extra} bytes");
            }
        }
    }

    #[test]
    fn a_piece_of_which_nothing_is_there_has_a_value_of_its_own() {
        let size = 3 * PIECE_BYTES;
        assert_ne!(piece_value(size, 0, b""), piece_value(size, 0, b"x"));
        assert_ne!(piece_value(size, PIECE_BYTES, b""), piece_value(size, PIECE_BYTES, b"x"));
        assert_eq!(piece_value(0, 0, b""), *blake3::hash(b"").as_bytes());
    }

    #[test]
    fn pieces_in_order_need_only_a_few_subtrees() {
        let data = data(64 * PIECE_BYTES as usize);
        let (_, most) = forest_digest(&data, &(0..64).collect::<Vec<_>>());
        assert!(most <= 7, "{most} subtrees");
    }

    #[test]
    fn chunks_kept_by_an_earlier_run_give_the_standard_digest() {
        let data = data(5 * CHUNK_BYTES as usize + 700);
        let size = data.len() as u64;
        let values = |chunk: usize| {
            let begin = chunk * CHUNK_BYTES as usize;
            let bytes = &data[begin..data.len().min(begin + CHUNK_BYTES as usize)];
            let pieces =
                bytes.chunks(PIECE_BYTES as usize).zip((begin as u64..).step_by(PIECE_BYTES as usize));
            pieces.map(|(piece, offset)| piece_value(size, offset, piece)).collect::<Vec<_>>()
        };
        let mut kept = Forest::new(size);
        for chunk in [3, 0, 1] {
            let value = chunk_value(&values(chunk)).unwrap();
            let subtree = Subtree { level: CHUNK_LEVEL, position: chunk as u64, value };
            assert!(kept.add_subtree(subtree));
        }
        assert_eq!(chunk_value(&values(5)), None);
        let mut forest = Forest::new(size);
        for subtree in kept.subtrees() {
            assert!(forest.add_subtree(subtree) && !forest.add_subtree(subtree));
        }
        assert!(!forest.add_subtree(Subtree { level: 64, position: 0, value: [0; 32] }));
        assert!(!forest.add_subtree(Subtree { level: 0, position: u64::MAX, value: [0; 32] }));
        for chunk in [4, 2, 5] {
            (chunk as u64 * PIECES_PER_CHUNK..)
                .zip(values(chunk))
                .for_each(|(index, value)| forest.add(index, value));
        }
        assert_eq!(forest.digest().unwrap(), *blake3::hash(&data).as_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_order_gives_the_standard_digest(
            length in 1..20 * PIECE_BYTES as usize,
            seed in any::<u64>(),
        ) {
            let data = data(length);
            let mut order: Vec<_> = (0..length.div_ceil(PIECE_BYTES as usize)).collect();
            let mut state = seed | 1;
            for index in (1..order.len()).rev() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                order.swap(index, (state >> 33) as usize % (index + 1));
            }
            prop_assert_eq!(forest_digest(&data, &order).0, *blake3::hash(&data).as_bytes());
        }
    }
}
