//! Whether all of a file that changed would be at the target sooner than what differs of it.
//!
//! Comparing reads the file at both ends, and a new file is written all the same. Where the way is faster than the disks, nobody
//! waits for what travels, and sending everything saves the reading of the old file. So some chunks are sent as they are, and what
//! that takes is compared with what comparing took. Rates of so little go up and down by themselves, as when a machine is given
//! memory meanwhile: so all of the rest is sent only if this comes out twice, with more compared in between. On a slow way trying
//! would cost more than it can save: it is tried only where answers come at once, and comparing is slow.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::units::format_rate;

/// It is not worth trying with smaller files.
const SIZE_MIN_BYTES: u64 = 256 << 20;
/// So much is compared before each try.
const COMPARED_MIN_BYTES: u64 = 32 << 20;
/// Nobody waits for what is compared at this rate, in bytes a second.
const FAST: f64 = 1e9;
/// A way whose shortest round trip is longer is not faster than disks, as a rule. What is on its way now says less: it waits
/// for processors as well.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(5);
/// How often sending has to be found faster.
const TRIES: u8 = 2;
/// One in so many chunks is sent for each try, and at most so many.
const SHARE: u64 = 128;
const CHUNKS_MAX: u64 = 4;
/// Sending has to be so many times as fast: it is measured with one lane, and puts a load on the way that comparing does not.
const TIMES_MIN: f64 = 1.25;

/// What is known about it for one file.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// Since when comparing is timed; 0: nothing has been compared.
    began_ns: AtomicU64,
    /// How much had been compared by then.
    began_bytes: AtomicU64,
    /// How often it was tried, the try that is under way included.
    tries: AtomicU8,
    /// A lane is trying, or it is known what comes of it: nobody else is to try.
    closed: AtomicBool,
    pays: AtomicBool,
}

/// What it depends on whether it is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Of the file.
    pub size_bytes: u64,
    /// What has been compared so far.
    pub compared_bytes: u64,
    /// What time it is.
    pub now_ns: u64,
}

impl Whole {
    /// A lane begins to compare.
    pub fn begin(&self, now_ns: u64) {
        let _first = self.began_ns.compare_exchange(0, now_ns.max(1), Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether this lane is to try it now, as one alone does: the rate at which all lanes have compared since they began, or since
    /// the last try, in bytes a second. `round_trip`, the shortest seen, is asked for only where all else speaks for it; without an
    /// answer it is not tried.
    pub fn is_to_be_tried(&self, facts: Facts, round_trip: impl FnOnce() -> Option<Duration>) -> Option<f64> {
        let compared = || facts.compared_bytes.saturating_sub(self.began_bytes.load(Ordering::Acquire));
        if facts.size_bytes < SIZE_MIN_BYTES || compared() < COMPARED_MIN_BYTES {
            return None;
        }
        if self.closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        let ns = facts.now_ns.saturating_sub(self.began_ns.load(Ordering::Acquire)).max(1);
        let rate = compared() as f64 / (ns as f64 / 1e9);
        let slow = rate < FAST && round_trip().is_some_and(|time| time < ROUND_TRIP_MAX);
        self.tries.fetch_add(u8::from(slow), Ordering::AcqRel);
        slow.then_some(rate)
    }

    /// Whether it may still be tried with a file of this size: until then little is asked for ahead.
    pub fn may_be_tried(&self, size_bytes: u64) -> bool {
        size_bytes >= SIZE_MIN_BYTES && !self.closed.load(Ordering::Acquire)
    }

    /// How many chunks are sent to try it, of a file with so many.
    pub fn chunks_to_try(chunks: u64) -> u64 {
        (chunks / SHARE).clamp(1, CHUNKS_MAX)
    }

    /// What the try has found: both in bytes a second. Gives the choice and its reason, unless it is to be tried once more: then
    /// comparing is timed anew from `facts` on.
    pub fn found(&self, comparing: f64, sending: f64, facts: Facts) -> Option<(&'static str, String)> {
        let pays = sending >= comparing * TIMES_MIN;
        if pays && self.tries.load(Ordering::Acquire) < TRIES {
            self.began_bytes.store(facts.compared_bytes, Ordering::Release);
            self.began_ns.store(facts.now_ns.max(1), Ordering::Release);
            self.closed.store(false, Ordering::Release);
            return None;
        }
        self.pays.store(pays, Ordering::Release);
        let choice = if pays { "all of the rest" } else { "what differs" };
        Some((
            choice,
            format!("comparing goes at {}, sending at {}", format_rate(comparing), format_rate(sending)),
        ))
    }

    /// Whether all of the rest is sent.
    pub fn pays(&self) -> bool {
        self.pays.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn facts(seconds: u64) -> Facts {
        let (size_bytes, compared_bytes) = (SIZE_MIN_BYTES, COMPARED_MIN_BYTES);
        Facts { size_bytes, compared_bytes, now_ns: 5 * SECOND + seconds * SECOND }
    }

    fn whole() -> Whole {
        let whole = Whole::default();
        whole.begin(5 * SECOND);
        // Only the first lane's beginning counts.
        whole.begin(6 * SECOND);
        whole
    }

    fn near() -> Option<Duration> {
        Some(Duration::from_micros(50))
    }

    #[test]
    fn it_is_tried_by_one_lane_and_with_the_rate_since_the_first_began() {
        let whole = whole();
        let before = Facts { compared_bytes: COMPARED_MIN_BYTES - 1, ..facts(2) };
        assert_eq!(whole.is_to_be_tried(before, near), None);
        assert!(whole.may_be_tried(SIZE_MIN_BYTES) && !whole.may_be_tried(SIZE_MIN_BYTES - 1));
        assert_eq!(whole.is_to_be_tried(facts(2), near), Some(COMPARED_MIN_BYTES as f64 / 2.0));
        assert_eq!(whole.is_to_be_tried(facts(2), near), None);
        assert!(!whole.may_be_tried(SIZE_MIN_BYTES));
    }

    #[test]
    fn where_it_could_cost_more_than_it_saves_it_is_not_tried() {
        let small = Facts { size_bytes: SIZE_MIN_BYTES - 1, ..facts(2) };
        assert_eq!(whole().is_to_be_tried(small, near), None);
        let fast = Facts { now_ns: 5 * SECOND + SECOND / 50, ..facts(0) };
        assert_eq!(whole().is_to_be_tried(fast, || unreachable!("nobody asks")), None);
        assert_eq!(whole().is_to_be_tried(facts(2), || Some(ROUND_TRIP_MAX)), None);
        assert_eq!(whole().is_to_be_tried(facts(2), || None), None);
    }

    #[test]
    fn little_is_sent_to_try() {
        let chunks = [1, 64, 128, 256, 1 << 20].map(Whole::chunks_to_try);
        assert_eq!(chunks, [1, 1, 1, 2, 4]);
    }

    #[test]
    fn what_is_clearly_faster_twice_is_done() {
        let whole = whole();
        assert!(whole.is_to_be_tried(facts(2), near).is_some());
        assert_eq!(whole.found(100e6, 125e6, facts(3)), None);
        assert!(!whole.pays() && whole.may_be_tried(SIZE_MIN_BYTES));
        // What was compared before the first try does not count again, nor the time of that.
        assert_eq!(whole.is_to_be_tried(facts(4), near), None);
        let more = Facts { compared_bytes: 2 * COMPARED_MIN_BYTES, ..facts(7) };
        assert_eq!(whole.is_to_be_tried(more, near), Some(COMPARED_MIN_BYTES as f64 / 4.0));
        let (choice, reason) = whole.found(100e6, 125e6, more).unwrap();
        assert!(whole.pays() && choice == "all of the rest" && !whole.may_be_tried(SIZE_MIN_BYTES));
        assert_eq!(reason, "comparing goes at 100 MB/s, sending at 125 MB/s");
    }

    #[test]
    fn what_was_faster_once_only_is_not_done() {
        let whole = whole();
        assert!(whole.is_to_be_tried(facts(2), near).is_some());
        assert_eq!(whole.found(100e6, 200e6, facts(3)), None);
        // As fast as nobody waits for.
        let more = Facts {
            compared_bytes: 2 * COMPARED_MIN_BYTES,
            now_ns: facts(3).now_ns + SECOND / 50,
            ..facts(3)
        };
        assert_eq!(whole.is_to_be_tried(more, || unreachable!("nobody asks")), None);
        assert!(!whole.pays() && !whole.may_be_tried(SIZE_MIN_BYTES));
        let whole = self::whole();
        assert!(whole.is_to_be_tried(facts(2), near).is_some());
        let (choice, _) = whole.found(100e6, 124e6, facts(3)).unwrap();
        assert!(!whole.pays() && choice == "what differs");
    }
}
