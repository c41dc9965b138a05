//! Tags: values by which two ends compare content at a third of the cost of a digest or less.
//!
//! A *sum* is a GMAC (NIST SP 800-38D: AES-GCM over no message, with the content as the authenticated data) under a key
//! that is drawn for one run and known only to its two ends. This makes it a universal hash: for two contents, made by
//! somebody who does not know the key, the sums are equal with a probability of at most (length / 16 + 2) / 2^128,
//! which is below 2^-113 for everything that is compared this way. A checksum that anybody can compute has no such
//! bound.
//!
//! A sum reveals 128 bits of the content to anyone who knows the key. In a pull that includes the source, which
//! requests the values but may not read the target. Therefore no sum leaves its machine. What is sent is a *tag*: the
//! first 16 bytes of the BLAKE3 of key and sum. A tag reveals no more than a digest would: whether a guess is right.
//!
//! A tag is meaningless outside its run, so it is never shown or stored. Where data is sent without encryption, so is
//! the key: an attacker who both listens there and writes the compared files could give different contents equal tags.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::digest::{self, BlockValue, Digest};
use crate::error::{Error, ErrorKind, Result};
use crate::extent::{BLOCK_BYTES, BLOCKS_PER_PIECE};
use crate::plant::planted;

/// The length of a key in bytes.
pub const TAG_KEY_BYTES: usize = 16;
/// The maximum number of blocks in a piece.
const BLOCKS_MAX: usize = BLOCKS_PER_PIECE as usize;
/// The length of a tag in bytes.
const TAG_BYTES: usize = size_of::<BlockValue>();
/// The nonce of all sums. Reusing it is safe because sums, unlike ordinary GMACs, are never revealed; and equal
/// contents must have equal sums.
const NONCE: [u8; NONCE_LEN] = [0; NONCE_LEN];

/// The key of a run's tags.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TagKey(pub [u8; TAG_KEY_BYTES]);

impl std::fmt::Debug for TagKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagKey(..)")
    }
}

/// Computes tags under one key.
#[derive(Debug)]
pub struct Tagger {
    key: TagKey,
    cipher: LessSafeKey,
}

impl Tagger {
    /// Creates a tagger for this key.
    ///
    /// # Errors
    /// If the library does not provide AES-128-GCM.
    pub fn new(key: TagKey) -> Result<Self> {
        let cipher = UnboundKey::new(&AES_128_GCM, &key.0).map_err(|_| refused())?;
        Ok(Self { key, cipher: LessSafeKey::new(cipher) })
    }

    /// Returns the key.
    pub fn key(&self) -> TagKey {
        self.key
    }

    /// Returns the tag of `bytes`, padded with zeros to the length of the digest that it replaces.
    ///
    /// # Errors
    /// If the library fails.
    pub fn tag(&self, bytes: &[u8]) -> Result<Digest> {
        let (mut value, tag) = (Digest::default(), self.tag_of(&self.sum(bytes)?));
        value[..TAG_BYTES].copy_from_slice(&tag);
        Ok(value)
    }

    /// Returns the sum of `bytes`, which must not leave this machine.
    fn sum(&self, bytes: &[u8]) -> Result<SecretSum> {
        let bytes =
            &bytes[..bytes.len() - usize::from(planted("last-byte-not-compared") && !bytes.is_empty())];
        let nonce = Nonce::assume_unique_for_key(NONCE);
        let tag = self.cipher.seal_in_place_separate_tag(nonce, Aad::from(bytes), &mut []);
        let tag = tag.map_err(|_| refused())?;
        SecretSum::try_from(tag.as_ref()).map_err(|_| refused())
    }

    /// Returns the tag of a sum, which may be sent to the peer.
    fn tag_of(&self, sum: &SecretSum) -> BlockValue {
        let mut both = [0; TAG_KEY_BYTES + TAG_BYTES];
        both[..TAG_KEY_BYTES].copy_from_slice(&self.key.0);
        both[TAG_KEY_BYTES..].copy_from_slice(sum);
        let mut tag = BlockValue::default();
        tag.copy_from_slice(&blake3::hash(&both).as_bytes()[..TAG_BYTES]);
        tag
    }
}

/// A sum, which is secret and not yet a tag.
type SecretSum = [u8; TAG_BYTES];

/// Returns the value that represents the content of a small file: its tag, or its digest without a tagger.
///
/// # Errors
/// Those of [`Tagger::tag`].
pub fn content_value(bytes: &[u8], tagger: Option<&Tagger>) -> Result<Digest> {
    match tagger {
        Some(tagger) => tagger.tag(bytes),
        None => Ok(*blake3::hash(bytes).as_bytes()),
    }
}

/// The sums of a piece's blocks. The piece's tag is derived from them, so that if it differs, the differing blocks are
/// already known.
#[derive(Clone, Copy)]
pub struct PieceTags {
    sums: [SecretSum; BLOCKS_MAX],
    count: usize,
}

impl PieceTags {
    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl std::fmt::Debug for PieceTags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PieceTags({})", self.count)
    }
}

impl Tagger {
    /// Computes the sums of the blocks of a piece, which is at most [`PIECE_BYTES`](crate::extent::PIECE_BYTES) long.
    ///
    /// # Errors
    /// Those of [`Tagger::tag`].
    pub fn blocks_of(&self, piece: &[u8]) -> Result<PieceTags> {
        let mut tags = PieceTags { sums: [SecretSum::default(); BLOCKS_MAX], count: 0 };
        for (sum, block) in tags.sums.iter_mut().zip(piece.chunks(BLOCK_BYTES as usize)) {
            *sum = self.sum(block)?;
            tags.count += 1;
        }
        Ok(tags)
    }

    /// Replaces the sum of one block by that of its new content.
    ///
    /// # Errors
    /// Those of [`Tagger::tag`].
    pub fn replace(&self, tags: &mut PieceTags, index: usize, block: &[u8]) -> Result<()> {
        tags.sums[..tags.count][index] = self.sum(block)?;
        Ok(())
    }

    /// Returns the tags of the blocks in order.
    pub fn blocks(&self, tags: &PieceTags) -> impl Iterator<Item = BlockValue> {
        tags.sums[..tags.count].iter().map(|sum| self.tag_of(sum))
    }

    /// Returns the value of a piece with these blocks: the tag of their sums.
    ///
    /// # Errors
    /// Those of [`Tagger::tag`].
    pub fn piece(&self, tags: &PieceTags) -> Result<Digest> {
        self.tag(tags.sums[..tags.count].as_flattened())
    }
}

/// Returns the value of a piece: that of [`digest::piece_value`], or with a tagger the tag of its blocks' sums.
///
/// # Errors
/// Those of [`Tagger::tag`].
pub fn piece_value(tagger: Option<&Tagger>, size_bytes: u64, offset: u64, bytes: &[u8]) -> Result<Digest> {
    match tagger {
        Some(tagger) => tagger.piece(&tagger.blocks_of(bytes)?),
        None => Ok(digest::piece_value(size_bytes, offset, bytes)),
    }
}

/// Returns the value of a block: that of [`digest::block_value`], or its tag with a tagger.
///
/// # Errors
/// Those of [`Tagger::tag`].
pub fn block_value(tagger: Option<&Tagger>, bytes: &[u8]) -> Result<BlockValue> {
    match tagger {
        Some(tagger) => Ok(tagger.tag_of(&tagger.sum(bytes)?)),
        None => Ok(digest::block_value(bytes)),
    }
}

fn refused() -> Error {
    Error::new(ErrorKind::Unsupported, "comparing", "AES-GCM is not available in this build")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::PIECE_BYTES;

    fn tag(key: u8, bytes: &[u8]) -> Digest {
        Tagger::new(TagKey([key; TAG_KEY_BYTES])).unwrap().tag(bytes).unwrap()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Test case 1 of the GCM specification (McGrew and Viega): key and nonce of zeros, no content.
    #[test]
    fn the_sum_of_nothing_is_that_of_the_specification() {
        let tagger = Tagger::new(TagKey([0; TAG_KEY_BYTES])).unwrap();
        assert_eq!(hex(&tagger.sum(b"").unwrap()), "58e2fccefa7e3061367f1d57a4e7455a");
    }

    /// A sum reveals the content to anyone who has the key, so no value that is sent may contain it.
    #[test]
    fn no_sum_is_told() {
        let tagger = Tagger::new(TagKey([1; TAG_KEY_BYTES])).unwrap();
        let piece = [7; 5000];
        let tags = tagger.blocks_of(&piece).unwrap();
        let sums = [tagger.sum(&piece).unwrap(), tags.sums[0], tags.sums[1]];
        let mut told = vec![tagger.tag(&piece).unwrap(), tagger.piece(&tags).unwrap()];
        told.extend(tagger.blocks(&tags).map(|tag| {
            let mut value = Digest::default();
            value[..16].copy_from_slice(&tag);
            value
        }));
        assert!(told.iter().all(|told| sums.iter().all(|sum| !told.starts_with(sum))));
        assert!(!format!("{tags:?}").contains(&format!("{}", tags.sums[0][0])));
    }

    #[test]
    fn equal_content_alone_has_equal_tags_and_only_under_one_key() {
        let long: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(tag(1, &long), tag(1, &long.clone()));
        assert_ne!(tag(1, &long), tag(2, &long));
        for length in [0, 1, 15, 16, 17, 99_999] {
            assert_ne!(tag(1, &long), tag(1, &long[..length]), "{length}");
        }
        // Padded content is different content.
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
        let blocks = |tags: &PieceTags| tagger.blocks(tags).collect::<Vec<_>>();
        let mut piece: Vec<u8> = (0..PIECE_BYTES - 100).map(|at| (at % 253) as u8).collect();
        let mut tags = tagger.blocks_of(&piece).unwrap();
        let before = tagger.piece(&tags).unwrap();
        assert_eq!((tags.len(), tags.is_empty()), (BLOCKS_MAX, false));
        piece[5000] ^= 1;
        let after = tagger.blocks_of(&piece).unwrap();
        let differ: Vec<_> = (0..BLOCKS_MAX).filter(|at| blocks(&tags)[*at] != blocks(&after)[*at]).collect();
        assert_eq!(differ, [1]);
        assert_eq!(blocks(&after)[1], block_value(Some(&tagger), &piece[4096..8192]).unwrap());
        tagger.replace(&mut tags, 1, &piece[4096..8192]).unwrap();
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
        let sum = tagger.sum(b"abc").unwrap();
        assert_eq!(piece_value(Some(&tagger), 3, 0, b"abc").unwrap(), tag(1, &sum));
        assert_eq!(block_value(None, b"abc").unwrap(), digest::block_value(b"abc"));
        assert_eq!(block_value(Some(&tagger), b"abc").unwrap(), expected[..16]);
    }
}
