//! The sizes of the ranges in which large files are given away.

/// The number of ranges of a file, unless they would be too short or too long.
const RANGES: u64 = 64;
/// The number of ranges that one unit gives away at most, about, so that its result is one step of the ledger.
pub(super) const RANGES_MAX: u64 = 2_000;

/// The sizes of the ranges in which large files are given away, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeSizes {
    /// The number of bytes of a file that must be left: with fewer, one broker is done soon.
    pub from_bytes: u64,
    /// The length of a range at least: some seconds of work for whoever is slow.
    pub least_bytes: u64,
    /// The length of a range at most, unless a file has very many.
    pub most_bytes: u64,
}

impl Default for RangeSizes {
    fn default() -> Self {
        Self { from_bytes: 1 << 30, least_bytes: 256 << 20, most_bytes: 1 << 30 }
    }
}

impl RangeSizes {
    /// Returns the sizes with which each file is divided that has so many bytes left, into ranges of so many.
    #[must_use]
    pub fn of_at_least(least_bytes: u64) -> Self {
        let usual = Self::default();
        Self { from_bytes: least_bytes, least_bytes, most_bytes: usual.most_bytes.max(least_bytes) }
    }

    /// Returns the length of the ranges of a file of which so many bytes are left, if it is to be divided.
    pub(super) fn length_bytes(&self, left_bytes: u64) -> Option<u64> {
        let length_bytes = (left_bytes / RANGES).min(self.most_bytes).max(self.least_bytes);
        (left_bytes >= self.from_bytes).then(|| length_bytes.max(left_bytes / RANGES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_some_seconds_of_work_and_not_too_many() {
        let (mib, gib, tib) = (1u64 << 20, 1u64 << 30, 1u64 << 40);
        let length = |left| RangeSizes::default().length_bytes(left);
        assert_eq!(length(gib - 1), None);
        assert_eq!((length(gib), length(16 * gib)), (Some(256 * mib), Some(256 * mib)));
        assert_eq!((length(32 * gib), length(tib)), (Some(512 * mib), Some(gib)));
        let many = length(100 * tib).unwrap();
        assert!(many > gib && (100 * tib).div_ceil(many) <= RANGES_MAX + 1, "{many}");
    }
}
