//! Detection of zeros at memory speed.

use std::sync::LazyLock;

use crate::extent::PIECE_BYTES;

/// A piece of zeros. A constant would take as many bytes of the program.
pub static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; PIECE_BYTES as usize]);

/// Returns true if all bytes are zero. Stops at the first block that is not, so other content costs nothing. Compares
/// words, which is fast even where the compiler does not vectorise the loop, as in a build optimised for size.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<128>();
    blocks.iter().all(|block| any_bit(block) == 0) && rest.iter().all(|byte| *byte == 0)
}

fn any_bit(block: &[u8; 128]) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    words.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word))
}

/// The unit of holes in bytes: the block size of most file systems.
pub const HOLE_BYTES: usize = 4096;

/// A part of some content: blocks of zeros, or blocks with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStretch<'a> {
    /// The offset in the file.
    pub offset: u64,
    /// The content.
    pub bytes: &'a [u8],
    /// True if all of the bytes are zeros.
    pub is_zero: bool,
}

/// Splits content at `offset` of a file into as few stretches as possible. Blocks are aligned to the file: the first
/// and the last may be incomplete.
pub fn stretches(offset: u64, bytes: &[u8]) -> impl Iterator<Item = BlockStretch<'_>> {
    let (mut offset, mut rest) = (offset, bytes);
    std::iter::from_fn(move || {
        let mut length = block(offset, rest).len();
        let is_zero = !rest.is_empty() && self::is_zero(&rest[..length]);
        while length < rest.len() {
            let next = block(offset + length as u64, &rest[length..]);
            if self::is_zero(next) != is_zero {
                break;
            }
            length += next.len();
        }
        let (bytes, more) = rest.split_at(length);
        let stretch = BlockStretch { offset, bytes, is_zero };
        (offset, rest) = (offset + length as u64, more);
        (!bytes.is_empty()).then_some(stretch)
    })
}

/// Returns the part of the content that is in the block at `offset`.
fn block(offset: u64, bytes: &[u8]) -> &[u8] {
    let left = HOLE_BYTES - (offset % HOLE_BYTES as u64) as usize;
    &bytes[..left.min(bytes.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_split_between_the_blocks_of_the_file() {
        let found = |offset: u64, bytes: &[u8]| -> Vec<(u64, usize, bool)> {
            stretches(offset, bytes).map(|one| (one.offset, one.bytes.len(), one.is_zero)).collect()
        };
        assert_eq!(found(9, &[]), []);
        assert_eq!(found(100, &[0; 10]), [(100, 10, true)]);
        assert_eq!(found(0, &[1; 9000]), [(0, 9000, false)]);
        let mut bytes = vec![0; 5 * HOLE_BYTES];
        bytes[HOLE_BYTES] = 1;
        bytes[3 * HOLE_BYTES - 1] = 1;
        assert_eq!(found(0, &bytes), [(0, 4096, true), (4096, 8192, false), (12_288, 8192, true)]);
        // Shifted by one byte, the data is in other blocks.
        let expected = [
            (1, 4095, true),
            (4096, 4096, false),
            (8192, 4096, true),
            (12_288, 4096, false),
            (16_384, 4097, true),
        ];
        assert_eq!(found(1, &bytes), expected);
        let all: Vec<u8> = stretches(1, &bytes).flat_map(|one| one.bytes.to_vec()).collect();
        assert_eq!(all, bytes);
    }

    #[test]
    fn one_bit_anywhere_is_found() {
        let mut bytes = [0u8; 1000];
        for length in [0, 1, 127, 128, 129, 1000] {
            assert!(is_zero(&bytes[..length]));
            for at in 0..length {
                bytes[at] = 0x10;
                assert!(!is_zero(&bytes[..length]), "{at} of {length}");
                bytes[at] = 0;
            }
        }
    }
}
