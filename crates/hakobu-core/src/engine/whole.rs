//! Whether all of a file that changed would be at the target sooner than what differs of it.
//!
//! Comparing reads the file at both ends, and a new file is written all the same. Where the way is faster than the disks, nobody
//! waits for what travels, and sending everything saves the reading of the old file. So some chunks are sent as they are, and what
//! that takes is compared with what comparing took. The rate of so little goes up and down by itself, as when a machine is given
//! memory meanwhile: so what speaks for sending has to hold against what is compared afterwards as well. On a slow way trying would
//! cost more than it can save: it is tried only where answers come at once, and comparing is slow.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::units::format_rate;

/// It is not worth trying with smaller files.
const SIZE_MIN_BYTES: u64 = 256 << 20;
/// So much is compared first, and once more after what was sent.
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
    /// Since when comparing is timed; 0: nothing has been compared.
    began_ns: AtomicU64,
    /// How much had been compared by then.
    began_bytes: AtomicU64,
    /// A lane is at it: nobody else is to.
    busy: AtomicBool,
    /// What was found when some was sent, in bytes a second: of comparing before, and of sending. 0: it was not tried.
    comparing: AtomicU64,
    sending: AtomicU64,
    decided: AtomicBool,
    pays: AtomicBool,
}

/// What a lane is to do about it.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Go on comparing.
    Compare,
    /// Send some chunks as they are, as one lane alone does: all lanes have compared at this rate, in bytes a second.
    Try(f64),
    /// Tell the choice and its reason.
    Tell(&'static str, String),
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

    /// What this lane is to do now. `round_trip`, the shortest seen, is asked for only where all else speaks for trying; without an
    /// answer it is not tried.
    pub fn next(&self, facts: Facts, round_trip: impl FnOnce() -> Option<Duration>) -> Next {
        let compared = || facts.compared_bytes.saturating_sub(self.began_bytes.load(Ordering::Acquire));
        if !self.may_be_tried(facts.size_bytes)
            || compared() < COMPARED_MIN_BYTES
            || self.busy.swap(true, Ordering::AcqRel)
        {
            return Next::Compare;
        }
        let ns = facts.now_ns.saturating_sub(self.began_ns.load(Ordering::Acquire)).max(1);
        let rate = compared() as f64 / (ns as f64 / 1e9);
        let [comparing, sending] =
            [&self.comparing, &self.sending].map(|rate| rate.load(Ordering::Acquire) as f64);
        if sending > 0.0 {
            let (choice, reason) = self.decide(comparing.max(rate), sending);
            return Next::Tell(choice, reason);
        }
        if rate < FAST && round_trip().is_some_and(|time| time < ROUND_TRIP_MAX) {
            return Next::Try(rate);
        }
        self.decided.store(true, Ordering::Release);
        Next::Compare
    }

    /// Whether it is not known yet what comes of it, with a file of this size: until then little is asked for ahead.
    pub fn may_be_tried(&self, size_bytes: u64) -> bool {
        size_bytes >= SIZE_MIN_BYTES && !self.decided.load(Ordering::Acquire)
    }

    /// How many chunks are sent to try it, of a file with so many.
    pub fn chunks_to_try(chunks: u64) -> u64 {
        (chunks / SHARE).clamp(1, CHUNKS_MAX)
    }

    /// What was sent went at this rate, and what all lanes compared before at that one, both in bytes a second. Gives the choice and
    /// its reason, unless it speaks for sending: then comparing is timed once more, from `facts` on.
    pub fn sent(&self, comparing: f64, sending: f64, facts: Facts) -> Option<(&'static str, String)> {
        if !is_faster(comparing, sending) {
            return Some(self.decide(comparing, sending));
        }
        self.comparing.store(comparing as u64, Ordering::Release);
        self.sending.store(sending as u64, Ordering::Release);
        self.began_bytes.store(facts.compared_bytes, Ordering::Release);
        self.began_ns.store(facts.now_ns.max(1), Ordering::Release);
        self.busy.store(false, Ordering::Release);
        None
    }

    fn decide(&self, comparing: f64, sending: f64) -> (&'static str, String) {
        let pays = comparing < FAST && is_faster(comparing, sending);
        self.pays.store(pays, Ordering::Release);
        self.decided.store(true, Ordering::Release);
        let choice = if pays { "all of the rest" } else { "what differs" };
        (choice, format!("comparing goes at {}, sending at {}", format_rate(comparing), format_rate(sending)))
    }

    /// Whether all of the rest is sent.
    pub fn pays(&self) -> bool {
        self.pays.load(Ordering::Acquire)
    }
}

fn is_faster(comparing: f64, sending: f64) -> bool {
    sending >= comparing * TIMES_MIN
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
        assert_eq!(whole.next(before, near), Next::Compare);
        assert!(whole.may_be_tried(SIZE_MIN_BYTES) && !whole.may_be_tried(SIZE_MIN_BYTES - 1));
        assert_eq!(whole.next(facts(2), near), Next::Try(COMPARED_MIN_BYTES as f64 / 2.0));
        assert_eq!(whole.next(facts(2), near), Next::Compare);
        // Little is asked for ahead while it is tried as well.
        assert!(whole.may_be_tried(SIZE_MIN_BYTES));
    }

    #[test]
    fn where_it_could_cost_more_than_it_saves_it_is_not_tried() {
        let small = Facts { size_bytes: SIZE_MIN_BYTES - 1, ..facts(2) };
        assert_eq!(whole().next(small, near), Next::Compare);
        let (fast, whole) = (Facts { now_ns: 5 * SECOND + SECOND / 50, ..facts(0) }, whole());
        assert_eq!(whole.next(fast, || unreachable!("nobody asks")), Next::Compare);
        assert!(!whole.may_be_tried(SIZE_MIN_BYTES));
        assert_eq!(self::whole().next(facts(2), || Some(ROUND_TRIP_MAX)), Next::Compare);
        assert_eq!(self::whole().next(facts(2), || None), Next::Compare);
    }

    #[test]
    fn little_is_sent_to_try() {
        let chunks = [1, 64, 128, 256, 1 << 20].map(Whole::chunks_to_try);
        assert_eq!(chunks, [1, 1, 1, 2, 4]);
    }

    /// What comes of it where all is compared in 2 s, then some is sent at this rate, and as much is compared in so many seconds more.
    fn chosen(sending: f64, seconds: u64) -> (&'static str, String) {
        let whole = whole();
        let Next::Try(comparing) = whole.next(facts(2), near) else { unreachable!("it is slow") };
        let early = whole.sent(comparing, sending, facts(3));
        assert!(!whole.pays() && whole.may_be_tried(SIZE_MIN_BYTES) == early.is_none());
        if let Some(early) = early {
            return early;
        }
        // What was compared before does not count again, nor the time of what was sent.
        assert_eq!(whole.next(facts(4), near), Next::Compare);
        let more = Facts { compared_bytes: 2 * COMPARED_MIN_BYTES, ..facts(3 + seconds) };
        let Next::Tell(choice, reason) = whole.next(more, || unreachable!("nobody asks")) else {
            unreachable!("it is known now")
        };
        assert!(!whole.may_be_tried(SIZE_MIN_BYTES) && whole.pays() == (choice == "all of the rest"));
        assert_eq!(whole.next(more, near), Next::Compare);
        (choice, reason)
    }

    #[test]
    fn what_is_clearly_faster_than_all_that_is_compared_is_done() {
        let first = COMPARED_MIN_BYTES as f64 / 2.0;
        assert_eq!(chosen(first * 1.24, 2).0, "what differs");
        let (choice, reason) = chosen(first * 1.26, 2);
        assert_eq!(
            (choice, reason.as_str()),
            ("all of the rest", "comparing goes at 16.8 MB/s, sending at 21.1 MB/s")
        );
        assert_eq!(chosen(first * 1.26, 4).0, "all of the rest");
        // It was slow for a moment.
        assert_eq!(chosen(first * 1.26, 1).0, "what differs");
    }
}
