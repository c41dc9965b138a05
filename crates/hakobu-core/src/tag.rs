//! Tags: whether two places have the same content, at a third of the price of a digest or less.
//!
//! A tag is a GMAC (NIST SP 800-38D: AES-GCM over no message, with the content as what is authenticated) under a key that is
//! drawn for one run and known to its two ends alone. That makes it a universal hash: of two contents that were there before the
//! key was drawn, whoever made them, the tags are equal with a probability of at most (length / 16 + 2) / 2^128, which is below
//! 2^-113 for the small files that are compared so. A checksum that anybody can compute has no such bound.
//!
//! A tag says nothing outside of its run, so nobody is ever shown one, and none is kept. Where the data travels without encryption
//! so does the key: whoever both listens there and writes the files that are compared could make them have equal tags.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::digest::{self, BlockValue, Digest};
use crate::error::{Error, ErrorKind, Result};
use crate::extent::{BLOCK_BYTES, BLOCKS_PER_PIECE};

/// How long a key is, in bytes.
pub const TAG_KEY_BYTES: usize = 16;
/// How many blocks a piece has at most.
const BLOCKS_MAX: usize = BLOCKS_PER_PIECE as usize;
const BLOCK_VALUE_BYTES: usize = size_of::<BlockValue>();
/// One nonce for all: what a nonce hides from strangers is a tag, which no stranger sees, and equal content has to have equal tags.
const NONCE: [u8; NONCE_LEN] = [0; NONCE_LEN];

/// The key of a run's tags.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TagKey(pub [u8; TAG_KEY_BYTES]);

impl std::fmt::Debug for TagKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagKey(..)")
    }
}

/// Takes tags under one key.
#[derive(Debug)]
pub struct Tagger {
    key: TagKey,
    cipher: LessSafeKey,
}

impl Tagger {
    /// For this key.
    ///
    /// # Errors
    /// Where the library has no AES-128-GCM.
    pub fn new(key: TagKey) -> Result<Self> {
        let cipher = UnboundKey::new(&AES_128_GCM, &key.0).map_err(|_| refused())?;
        Ok(Self { key, cipher: LessSafeKey::new(cipher) })
    }

    /// The key.
    pub fn key(&self) -> TagKey {
        self.key
    }

    /// The tag of `bytes`, with zeros behind it: as long as a digest, for which it stands.
    ///
    /// # Errors
    /// Where the library refuses to.
    pub fn tag(&self, bytes: &[u8]) -> Result<Digest> {
        let nonce = Nonce::assume_unique_for_key(NONCE);
        let tag = self.cipher.seal_in_place_separate_tag(nonce, Aad::from(bytes), &mut []);
        let tag = tag.map_err(|_| refused())?;
        let mut value = Digest::default();
        value[..tag.as_ref().len()].copy_from_slice(tag.as_ref());
        Ok(value)
    }
}

/// What stands for the content of a small file: its tag, or without a tagger its digest.
///
/// # Errors
/// Those of [`Tagger::tag`].
pub fn content_value(bytes: &[u8], tagger: Option<&Tagger>) -> Result<Digest> {
    match tagger {
        Some(tagger) => tagger.tag(bytes),
        None => Ok(*blake3::hash(bytes).as_bytes()),
    }
}

/// The tags of a piece's blocks, of which its own is taken: where it differs it is known already in which blocks.
#[derive(Clone, Copy, Debug)]
pub struct PieceTags {
    blocks: [BlockValue; BLOCKS_MAX],
    count: usize,
}

impl PieceTags {
    /// One for each block, in order.
    pub fn blocks(&self) -> &[BlockValue] {
        &self.blocks[..self.count]
    }

    /// Replaces one.
    pub fn set(&mut self, index: usize, block: BlockValue) {
        self.blocks[..self.count][index] = block;
    }
}

impl Tagger {
    /// The tag of a block.
    ///
    /// # Errors
    /// Those of [`Tagger::tag`].
    pub fn block(&self, bytes: &[u8]) -> Result<BlockValue> {
        let (mut value, tag) = (BlockValue::default(), self.tag(bytes)?);
        value.copy_from_slice(&tag[..BLOCK_VALUE_BYTES]);
        Ok(value)
    }

    /// The tags of the blocks of a piece, which is no longer than [`PIECE_BYTES`](crate::extent::PIECE_BYTES).
    ///
    /// # Errors
    /// Those of [`Tagger::tag`].
    pub fn blocks_of(&self, piece: &[u8]) -> Result<PieceTags> {
        let mut tags = PieceTags { blocks: [BlockValue::default(); BLOCKS_MAX], count: 0 };
        for (tag, block) in tags.blocks.iter_mut().zip(piece.chunks(BLOCK_BYTES as usize)) {
            *tag = self.block(block)?;
            tags.count += 1;
        }
        Ok(tags)
    }

    /// The value of a piece with these blocks.
    ///
    /// # Errors
    /// Those of [`Tagger::tag`].
    pub fn piece(&self, tags: &PieceTags) -> Result<Digest> {
        self.tag(tags.blocks().as_flattened())
    }
}

/// The value of a piece, as [`digest::piece_value`], or with a tagger the tag of its blocks' tags.
///
/// # Errors
/// Those of [`Tagger::tag`].
pub fn piece_value(tagger: Option<&Tagger>, size_bytes: u64, offset: u64, bytes: &[u8]) -> Result<Digest> {
    match tagger {
        Some(tagger) => tagger.piece(&tagger.blocks_of(bytes)?),
        None => Ok(digest::piece_value(size_bytes, offset, bytes)),
    }
}

/// The value of a block, as [`digest::block_value`], or with a tagger its tag.
///
/// # Errors
/// Those of [`Tagger::tag`].
pub fn block_value(tagger: Option<&Tagger>, bytes: &[u8]) -> Result<BlockValue> {
    match tagger {
        Some(tagger) => tagger.block(bytes),
        None => Ok(digest::block_value(bytes)),
    }
}

fn refused() -> Error {
    Error::new(ErrorKind::Unsupported, "comparing", "the cipher that tags are made with is not to be had")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::PIECE_BYTES;

    fn tag(key: u8, bytes: &[u8]) -> Digest {
        Tagger::new(TagKey([key; TAG_KEY_BYTES])).unwrap().tag(bytes).unwrap()
    }

    /// Test case 1 of the specification of GCM (McGrew and Viega): key, nonce and content of zeros, and none of the last.
    #[test]
    fn the_tag_of_nothing_is_that_of_the_specification() {
        let expected = "58e2fccefa7e3061367f1d57a4e7455a";
        let found: String = tag(0, b"")[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn equal_content_alone_has_equal_tags_and_only_under_one_key() {
        let long: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(tag(1, &long), tag(1, &long.clone()));
        assert_ne!(tag(1, &long), tag(2, &long));
        for length in [0, 1, 15, 16, 17, 99_999] {
            assert_ne!(tag(1, &long), tag(1, &long[..length]), "{length}");
        }
        // What is only padded is another content.
        assert_ne!(tag(1, b"a"), tag(1, b"a\0"));
        for at in [0, 16, 50_000, 99_999] {
            let mut other = long.clone();
            other[at] ^= 1;
            assert_ne!(tag(1, &long), tag(1, &other), "{at}");
        }
        assert_eq!(tag(1, &long)[16..], [0; 16]);
    }

    #[test]
    fn a_piece_is_known_by_its_blocks() {
        let tagger = Tagger::new(TagKey([1; TAG_KEY_BYTES])).unwrap();
        let mut piece: Vec<u8> = (0..PIECE_BYTES - 100).map(|at| (at % 253) as u8).collect();
        let mut tags = tagger.blocks_of(&piece).unwrap();
        let before = tagger.piece(&tags).unwrap();
        assert_eq!(tags.blocks().len(), BLOCKS_MAX);
        piece[5000] ^= 1;
        let after = tagger.blocks_of(&piece).unwrap();
        let differ: Vec<_> = (0..BLOCKS_MAX).filter(|at| tags.blocks()[*at] != after.blocks()[*at]).collect();
        assert_eq!(differ, [1]);
        tags.set(1, tagger.block(&piece[4096..8192]).unwrap());
        assert_eq!(tagger.piece(&tags).unwrap(), tagger.piece(&after).unwrap());
        assert_ne!(tagger.piece(&tags).unwrap(), before);
    }

    #[test]
    fn keys_are_not_shown() {
        assert!(!format!("{:?}", Tagger::new(TagKey([77; 16])).unwrap()).contains("77"));
    }

    #[test]
    fn without_a_tagger_the_value_is_the_digest() {
        assert_eq!(content_value(b"abc", None).unwrap(), *blake3::hash(b"abc").as_bytes());
        let tagger = Tagger::new(TagKey([1; 16])).unwrap();
        let expected = tag(1, b"abc");
        assert_eq!(content_value(b"abc", Some(&tagger)).unwrap(), expected);
        assert_eq!(piece_value(None, 3, 0, b"abc").unwrap(), digest::piece_value(3, 0, b"abc"));
        assert_eq!(piece_value(Some(&tagger), 3, 0, b"abc").unwrap(), tag(1, &expected[..16]));
        assert_eq!(block_value(None, b"abc").unwrap(), digest::block_value(b"abc"));
        assert_eq!(block_value(Some(&tagger), b"abc").unwrap(), expected[..16]);
    }
}
