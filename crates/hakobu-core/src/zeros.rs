//! Zeros, found at the speed of memory.

use crate::extent::PIECE_BYTES;

/// A piece of zeros.
pub static ZEROS: [u8; PIECE_BYTES as usize] = [0; PIECE_BYTES as usize];

/// Whether all bytes are zero. Ends at the first block that is not, so other content costs nothing.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<128>();
    blocks.iter().all(|block| block.iter().fold(0, |any, byte| any | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
