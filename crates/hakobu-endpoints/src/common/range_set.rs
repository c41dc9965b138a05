//! Tracks the bytes of a draft that are taken, each once.

/// The maximum number of separate ranges. Lanes write chunks in order, so there is about one for each lane.
const RANGES_MAX: usize = 65_536;

/// Sorted ranges of bytes that do not touch each other.
#[derive(Debug, Default)]
pub(crate) struct RangeSet(Vec<(u64, u64)>);

impl RangeSet {
    /// Adds a non-empty range. Returns false if it overlaps a range that is taken, or if there are too many ranges.
    pub(crate) fn take(&mut self, begin: u64, end: u64) -> bool {
        let index = self.0.partition_point(|range| range.1 <= begin);
        if self.0.get(index).is_some_and(|next| next.0 < end) {
            return false;
        }
        let joins_before = index > 0 && self.0[index - 1].1 == begin;
        let joins_after = self.0.get(index).is_some_and(|next| next.0 == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.0[index - 1].1 = self.0[index].1;
                self.0.remove(index);
            }
            (true, false) => self.0[index - 1].1 = end,
            (false, true) => self.0[index].0 = begin,
            (false, false) if self.0.len() >= RANGES_MAX => return false,
            (false, false) => self.0.insert(index, (begin, end)),
        }
        true
    }

    /// Returns the end of the last range, or 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |range| range.1)
    }

    /// Adds the missing bytes of a range and returns their number.
    pub(crate) fn fill(&mut self, begin: u64, end: u64) -> u64 {
        let mut missing = Vec::new();
        let mut at = begin;
        let first = self.0.partition_point(|range| range.1 <= begin);
        for range in self.0[first..].iter().take_while(|range| range.0 < end) {
            if at < range.0 {
                missing.push((at, range.0));
            }
            at = at.max(range.1);
        }
        if at < end {
            missing.push((at, end));
        }
        missing.into_iter().filter(|gap| self.take(gap.0, gap.1)).map(|gap| gap.1 - gap.0).sum()
    }

    /// Removes a range. Returns false unless it lies within one range that is taken.
    pub(crate) fn give_back(&mut self, begin: u64, end: u64) -> bool {
        let index = self.0.partition_point(|range| range.1 <= begin);
        let Some(&(first, last)) = self.0.get(index) else { return false };
        if first > begin || last < end || begin >= end {
            return false;
        }
        let rests = [(first, begin), (end, last)].into_iter().filter(|rest| rest.0 < rest.1);
        self.0.splice(index..=index, rests);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_never_overlap() {
        let mut cover = RangeSet::default();
        for (begin, end) in [(10, 20), (30, 40), (20, 30), (0, 10)] {
            assert!(cover.take(begin, end), "{begin}..{end}");
        }
        assert_eq!((&cover.0[..], cover.end()), (&[(0, 40)][..], 40));
        for (begin, end) in [(0, 1), (39, 50), (10, 20), (0, 100)] {
            assert!(!cover.take(begin, end), "{begin}..{end}");
        }
        assert!(cover.take(40, 41));
    }

    #[test]
    fn gaps_are_filled_and_counted() {
        let mut cover = RangeSet::default();
        assert!(cover.take(10, 20) && cover.take(30, 40));
        assert_eq!(cover.fill(0, 35), 20);
        assert_eq!(cover.0, [(0, 40)]);
        assert_eq!((cover.fill(5, 40), cover.fill(5, 5), cover.fill(100, 101)), (0, 0, 1));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut cover = RangeSet::default();
        assert!(cover.take(0, 100));
        assert!(cover.give_back(40, 60));
        assert!(!cover.give_back(40, 60) && !cover.give_back(30, 50));
        assert_eq!(cover.0, [(0, 40), (60, 100)]);
        assert!(!cover.take(39, 41));
        assert!(cover.take(40, 60));
        assert_eq!(cover.0, [(0, 100)]);
    }
}
