//! Reproducible pseudo-random numbers (SplitMix64).

/// A generator of pseudo-random numbers.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Returns a number from 0 to `limit`, excluding `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Returns true with a probability of `share` thousandths.
    pub fn per_mille(&mut self, share: u32) -> bool {
        self.next() % 1000 < u64::from(share)
    }

    /// Returns a number from 0.0 to 1.0, excluding 1.0.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_row_and_shares_stay_below_one() {
        // The first outputs of the reference implementation for state 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert!((0..1000).map(|_| random.share()).all(|share| (0.0..1.0).contains(&share)));
        assert!((0..1000).all(|_| random.below(3) < 3) && random.below(0) == 0);
        assert!((0..1000).all(|_| random.per_mille(1000) && !random.per_mille(0)));
    }
}
