//! Random numbers from a seed: a seed gives the same history on every machine and with every version of Rust.

/// A `SplitMix64` generator: small, fast, and good enough for choices.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the generator of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed ^ 0x6861_6b6f_6275_2621);
        rng.next();
        rng
    }

    /// Returns the next 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// Returns a number from `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// Returns true with a probability of `share` percent.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// Returns one of the values, of which there must be at least one.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// Returns a random index, with the probabilities given by the weights.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if rest < *weight {
                return index;
            }
            rest -= weight;
        }
        0
    }
}

/// Returns `length` incompressible bytes from a seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&rng.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Returns the first `length` bytes of the output of `seq START 9999999999`: text without repetitions.
pub fn count(start: u64, length: usize) -> Vec<u8> {
    use std::io::Write;
    let mut bytes = Vec::with_capacity(length + 24);
    let mut number = start;
    while bytes.len() < length {
        // Writing to memory cannot fail.
        let _ = writeln!(bytes, "{number}");
        number += 1;
    }
    bytes.truncate(length);
    bytes
}
