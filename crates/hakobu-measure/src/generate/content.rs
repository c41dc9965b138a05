//! Generates the content of files.
//!
//! Random bytes are the output of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
//! 2014; constants as in Vigna's public-domain version), read as little-endian words. It is counter-based: the word
//! at index `i` is `mix(key + (i + 1) * GAMMA)`. So any offset can be computed directly, the words do not depend on
//! each other in the CPU, and no word repeats for a seed. Deduplication and delta transfer therefore find no matches
//! that real data would not have. The generator is not cryptographically secure, and does not need to be.

/// The block size of the content in bytes. Each block begins with random bytes and ends with zeros, in proportion to
/// the compressibility.
pub const BLOCK_BYTES: u64 = 4096;

const WORD_BYTES: usize = 8;
const BLOCK: usize = BLOCK_BYTES as usize;
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: a bijection in which every input bit affects all output bits.
#[inline]
pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns a number for one `purpose` and `index`, independent of all others.
pub(super) fn derive(seed: u64, purpose: u64, index: u64) -> u64 {
    mix(mix(mix(seed.wrapping_add(GAMMA)) ^ purpose.wrapping_mul(GAMMA)) ^ index)
}

/// The content that belongs to a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    key: u64,
    /// The number of random bytes per block; a multiple of the word size.
    random_bytes: usize,
}

impl Pattern {
    /// Creates the pattern of `seed`. The share `compressibility` of every block is zeros: 0.0 is completely random,
    /// 1.0 all zeros, 0.75 compresses to about a quarter. Values outside 0 to 1 are clamped. Below 1.0 no block is
    /// all zeros, so only 1.0 triggers the detection of holes.
    #[must_use]
    pub fn new(seed: u64, compressibility: f64) -> Self {
        let random = 1.0 - compressibility.clamp(0.0, 1.0);
        let words = (random * (BLOCK / WORD_BYTES) as f64).round() as usize;
        let least = usize::from(random > 0.0);
        Self { key: mix(seed.wrapping_add(GAMMA)), random_bytes: words.max(least) * WORD_BYTES }
    }

    /// Fills `buffer` with the content at `offset` bytes.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES) as usize;
            let length = rest.len().min(BLOCK - within);
            let (part, behind) = rest.split_at_mut(length);
            self.fill_in_block(at, within, part);
            at = at.wrapping_add(length as u64);
            rest = behind;
        }
    }

    /// Compares `data` from `offset` with the content. Returns the offset of the first different byte.
    #[must_use]
    pub fn first_difference(&self, offset: u64, data: &[u8]) -> Option<u64> {
        let mut expected = [0; BLOCK];
        let mut at = offset;
        for found in data.chunks(BLOCK) {
            let expected = &mut expected[..found.len()];
            self.fill(at, expected);
            if expected != found {
                let same = expected.iter().zip(found).take_while(|(a, b)| a == b);
                return Some(at.wrapping_add(same.count() as u64));
            }
            at = at.wrapping_add(found.len() as u64);
        }
        None
    }

    /// Fills `buffer` with content of a single block, from `within` bytes after its start.
    fn fill_in_block(&self, offset: u64, within: usize, buffer: &mut [u8]) {
        let random = self.random_bytes.saturating_sub(within).min(buffer.len());
        let (random, zeros) = buffer.split_at_mut(random);
        self.fill_random(offset, random);
        zeros.fill(0);
    }

    fn fill_random(&self, offset: u64, buffer: &mut [u8]) {
        let mut index = offset / WORD_BYTES as u64;
        let into_word = (offset % WORD_BYTES as u64) as usize;
        let head = match into_word {
            0 => 0,
            _ => (WORD_BYTES - into_word).min(buffer.len()),
        };
        let (first, whole) = buffer.split_at_mut(head);
        if head > 0 {
            first.copy_from_slice(&self.word(index)[into_word..into_word + head]);
            index += 1;
        }
        let (words, last) = whole.as_chunks_mut::<WORD_BYTES>();
        for word in words {
            *word = self.word(index);
            index += 1;
        }
        let tail = last.len();
        if tail > 0 {
            last.copy_from_slice(&self.word(index)[..tail]);
        }
    }

    #[inline]
    fn word(&self, index: u64) -> [u8; WORD_BYTES] {
        let counter = index.wrapping_add(1).wrapping_mul(GAMMA);
        mix(self.key.wrapping_add(counter)).to_le_bytes()
    }
}

/// Fills `buffer` with the completely random content of `seed` at `offset` bytes.
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    Pattern::new(seed, 0.0).fill(offset, buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(pattern: Pattern, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0xaa; length];
        pattern.fill(offset, &mut buffer);
        buffer
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The first outputs of the reference implementation for state 1234567.
        let pattern = Pattern { key: 1_234_567, random_bytes: BLOCK };
        let bytes = content(pattern, 0, 24);
        let expected = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(bytes, expected.map(u64::to_le_bytes).concat());
    }

    #[test]
    fn any_range_equals_that_part_of_the_whole() {
        for compressibility in [0.0, 0.3, 0.999, 1.0] {
            let pattern = Pattern::new(7, compressibility);
            let whole = content(pattern, 0, 3 * BLOCK + 100);
            for offset in [0, 1, 7, 8, 9, 2860, 4090, 4095, 4096, 4099, 8191] {
                for length in [0, 1, 5, 8, 13, 4096, 4100] {
                    let part = content(pattern, offset as u64, length);
                    assert_eq!(part, &whole[offset..offset + length], "{offset}+{length}");
                }
            }
        }
    }

    #[test]
    fn seeds_and_blocks_differ() {
        let mut one = [0; 4096];
        let mut two = [0; 4096];
        fill(1, 0, &mut one);
        fill(2, 0, &mut two);
        assert_ne!(one, two);
        fill(1, 4096, &mut two);
        assert_ne!(one, two);
    }

    #[test]
    fn random_bytes_are_evenly_spread() {
        let mut counts = [0_u32; 256];
        for byte in content(Pattern::new(3, 0.0), 0, 1 << 20) {
            counts[usize::from(byte)] += 1;
        }
        // 4096 are expected, with a standard deviation of 64; seven of them are allowed either way.
        assert!(counts.iter().all(|count| (3648..=4544).contains(count)));
    }

    #[test]
    fn compressibility_is_the_share_of_zeros() {
        let zeros = |compressibility| {
            let bytes = content(Pattern::new(5, compressibility), 0, 64 * BLOCK);
            bytes.iter().filter(|byte| **byte == 0).count() as f64 / bytes.len() as f64
        };
        assert!(zeros(0.0) < 0.01);
        assert!((zeros(0.5) - 0.5).abs() < 0.01);
        assert!((zeros(0.9) - 0.9).abs() < 0.01);
        assert_eq!(zeros(1.0), 1.0);
        assert_eq!(zeros(7.0), 1.0);
        assert!(zeros(-1.0) < 0.01);
    }

    #[test]
    fn only_full_compressibility_has_blocks_of_zeros() {
        let almost = content(Pattern::new(5, 0.999_999), 0, 8 * BLOCK);
        assert!(almost.chunks(BLOCK).all(|block| block.iter().any(|b| *b != 0)));
    }

    #[test]
    fn the_first_difference_is_found() {
        let pattern = Pattern::new(11, 0.25);
        let mut data = content(pattern, 1000, 10_000);
        assert_eq!(pattern.first_difference(1000, &data), None);
        data[9_000] ^= 1;
        data[9_500] ^= 1;
        assert_eq!(pattern.first_difference(1000, &data), Some(10_000));
        assert!(pattern.first_difference(1001, &data).is_some());
    }
}
