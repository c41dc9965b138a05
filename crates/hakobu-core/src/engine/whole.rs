//! Whether all of a file that changed would be at the target sooner than what differs of it.
//!
//! Comparing reads the file at both ends, and a new file is written all the same. Where the way is faster than the disks, nobody
//! waits for what travels, and sending everything saves the reading of the old file. So some chunks are sent as they are, once,
//! and what that takes is compared with what comparing took. On a slow way this would cost more than it can save: it is tried
//! only where answers come at once, and comparing is slow.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::units::format_rate;

/// It is not worth trying with smaller files.
const SIZE_MIN_BYTES: u64 = 256 << 20;
/// So much is compared first.
const COMPARED_MIN_BYTES: u64 = 32 << 20;
/// Nobody waits for what is compared at this rate, in bytes a second.
const FAST: f64 = 1e9;
/// A way whose shortest round trip is longer is not faster than disks, as a rule. What is on its way now says less: it waits
/// for processors as well.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(5);
/// One in so many chunks is sent to try, and at most so many.
const SHARE: u64 = 128;
const CHUNKS_MAX: u64 = 4;
/// Sending has to be so many times as fast: it is measured with one lane, and puts a load on the way that comparing does not.
const TIMES_MIN: f64 = 1.25;

/// What is known about it for one file.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// When the first lane began to compare; 0: none has.
    began_ns: AtomicU64,
    tried: AtomicBool,
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

    /// Whether this lane is to try it now, only ever once: the rate at which all lanes have compared so far, in bytes a
    /// second. `round_trip`, the shortest seen, is asked for only where all else speaks for it; without an answer it is not tried.
    pub fn is_to_be_tried(&self, facts: Facts, round_trip: impl FnOnce() -> Option<Duration>) -> Option<f64> {
        if facts.size_bytes < SIZE_MIN_BYTES || facts.compared_bytes < COMPARED_MIN_BYTES {
            return None;
        }
        if self.tried.swap(true, Ordering::AcqRel) {
            return None;
        }
        let ns = facts.now_ns.saturating_sub(self.began_ns.load(Ordering::Acquire)).max(1);
        let rate = facts.compared_bytes as f64 / (ns as f64 / 1e9);
        let slow = rate < FAST && round_trip().is_some_and(|time| time < ROUND_TRIP_MAX);
        slow.then_some(rate)
    }

    /// Whether it may still be tried with a file of this size: until then little is asked for ahead.
    pub fn may_be_tried(&self, size_bytes: u64) -> bool {
        size_bytes >= SIZE_MIN_BYTES && !self.tried.load(Ordering::Acquire)
    }

    /// How many chunks are sent to try it, of a file with so many.
    pub fn chunks_to_try(chunks: u64) -> u64 {
        (chunks / SHARE).clamp(1, CHUNKS_MAX)
    }

    /// What was found: both in bytes a second. Gives the choice and its reason.
    pub fn found(&self, comparing: f64, sending: f64) -> (&'static str, String) {
        let pays = sending >= comparing * TIMES_MIN;
        self.pays.store(pays, Ordering::Release);
        let choice = if pays { "all of the rest" } else { "what differs" };
        (choice, format!("comparing goes at {}, sending at {}", format_rate(comparing), format_rate(sending)))
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
    fn it_is_tried_once_and_with_the_rate_since_the_first_lane_began() {
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
    fn what_is_clearly_faster_is_done() {
        let whole = whole();
        let (choice, reason) = whole.found(100e6, 124e6);
        assert!(!whole.pays() && choice == "what differs");
        assert_eq!(reason, "comparing goes at 100 MB/s, sending at 124 MB/s");
        let (choice, _) = whole.found(100e6, 125e6);
        assert!(whole.pays() && choice == "all of the rest");
    }
}
