//! Decides whether sending all of a changed file is faster than comparing it and sending the differences.
//!
//! Comparing reads the file at both ends, and a new file is written in either case. If the network is faster than the
//! disks, sending everything costs no time and saves reading the old file. Some chunks are therefore sent without
//! comparing, and the rate is compared with that of comparing. Rates over so little data fluctuate, for example when a
//! virtual machine is given memory meanwhile. Sending is therefore chosen only if it also beats the rate of the
//! comparing that follows. On a slow network path a trial would cost more than it can save, so one is made only if
//! round trips are short and comparing is slow.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::units::format_rate;

/// The minimum file size for a trial, in bytes.
const SIZE_MIN_BYTES: u64 = 256 << 20;
/// The number of bytes compared before the trial, and again after it.
const COMPARED_MIN_BYTES: u64 = 32 << 20;
/// The rate in bytes per second from which on comparing is fast enough.
const FAST: f64 = 1e9;
/// The maximum shortest round trip for a trial. A network path with longer round trips is usually not faster than
/// disks. The current round trip says less, because it includes waiting for processors.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(5);
/// One in this many chunks is sent as a trial, up to a maximum.
const SHARE: u64 = 128;
const CHUNKS_MAX: u64 = 4;
/// Sending has to be this many times as fast: it is measured with one lane, and loads the network more.
const TIMES_MIN: f64 = 1.25;

/// The state of the decision for one file.
#[derive(Debug, Default)]
pub(super) struct WholeFileChoice {
    /// The time at which the timing of comparing began; 0 if nothing has been compared.
    began_ns: AtomicU64,
    /// The number of bytes compared by then.
    began_bytes: AtomicU64,
    /// True while one lane makes the trial; no other lane may.
    busy: AtomicBool,
    /// The rates measured in the trial in bytes per second: of comparing before it, and of sending. 0 without a trial.
    comparing: AtomicU64,
    sending: AtomicU64,
    decided: AtomicBool,
    pays: AtomicBool,
}

/// The next action of a lane.
#[derive(Debug, PartialEq)]
pub(super) enum WholeDecision {
    /// Continue comparing.
    Compare,
    /// Send some chunks without comparing, from this lane alone. The value is the rate at which all lanes have
    /// compared, in bytes per second.
    Try(f64),
    /// Report the choice and its reason.
    Tell(&'static str, String),
}

/// The inputs of the decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionFacts {
    /// The size of the file in bytes.
    pub size_bytes: u64,
    /// The number of bytes compared so far.
    pub compared_bytes: u64,
    /// The current time in nanoseconds.
    pub now_ns: u64,
}

impl WholeFileChoice {
    /// Records that a lane begins to compare. Only the first call counts.
    pub fn begin(&self, now_ns: u64) {
        let _first = self.began_ns.compare_exchange(0, now_ns.max(1), Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns the next action of this lane. `round_trip` returns the shortest one seen. It is called only if
    /// everything else favors a trial; without a value none is made.
    pub fn next(&self, facts: DecisionFacts, round_trip: impl FnOnce() -> Option<Duration>) -> WholeDecision {
        let compared = || facts.compared_bytes.saturating_sub(self.began_bytes.load(Ordering::Acquire));
        if !self.may_be_tried(facts.size_bytes)
            || compared() < COMPARED_MIN_BYTES
            || self.busy.swap(true, Ordering::AcqRel)
        {
            return WholeDecision::Compare;
        }
        let ns = facts.now_ns.saturating_sub(self.began_ns.load(Ordering::Acquire)).max(1);
        let rate = compared() as f64 / (ns as f64 / 1e9);
        let [comparing, sending] =
            [&self.comparing, &self.sending].map(|rate| rate.load(Ordering::Acquire) as f64);
        if sending > 0.0 {
            let (choice, reason) = self.decide(comparing.max(rate), sending);
            return WholeDecision::Tell(choice, reason);
        }
        if rate < FAST && round_trip().is_some_and(|time| time < ROUND_TRIP_MAX) {
            return WholeDecision::Try(rate);
        }
        self.decided.store(true, Ordering::Release);
        WholeDecision::Compare
    }

    /// Returns true while the decision for a file of this size is open. Until then few chunks are requested ahead.
    pub fn may_be_tried(&self, size_bytes: u64) -> bool {
        size_bytes >= SIZE_MIN_BYTES && !self.decided.load(Ordering::Acquire)
    }

    /// Returns the number of chunks to send as a trial, for a file with `chunks` chunks.
    pub fn chunks_to_try(chunks: u64) -> u64 {
        (chunks / SHARE).clamp(1, CHUNKS_MAX)
    }

    /// Takes the result of a trial: the rate of comparing before it and the rate of sending, both in bytes per second.
    /// Returns the choice and its reason if sending is not faster; otherwise times comparing again from `facts` on.
    pub fn sent(&self, comparing: f64, sending: f64, facts: DecisionFacts) -> Option<(&'static str, String)> {
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
        (choice, format!("comparing reaches {}, sending {}", format_rate(comparing), format_rate(sending)))
    }

    /// Returns true if all of the rest is sent.
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

    fn facts(seconds: u64) -> DecisionFacts {
        let (size_bytes, compared_bytes) = (SIZE_MIN_BYTES, COMPARED_MIN_BYTES);
        DecisionFacts { size_bytes, compared_bytes, now_ns: 5 * SECOND + seconds * SECOND }
    }

    fn whole() -> WholeFileChoice {
        let whole = WholeFileChoice::default();
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
        let before = DecisionFacts { compared_bytes: COMPARED_MIN_BYTES - 1, ..facts(2) };
        assert_eq!(whole.next(before, near), WholeDecision::Compare);
        assert!(whole.may_be_tried(SIZE_MIN_BYTES) && !whole.may_be_tried(SIZE_MIN_BYTES - 1));
        assert_eq!(whole.next(facts(2), near), WholeDecision::Try(COMPARED_MIN_BYTES as f64 / 2.0));
        assert_eq!(whole.next(facts(2), near), WholeDecision::Compare);
        // Few chunks are requested ahead during the trial as well.
        assert!(whole.may_be_tried(SIZE_MIN_BYTES));
    }

    #[test]
    fn where_it_could_cost_more_than_it_saves_it_is_not_tried() {
        let small = DecisionFacts { size_bytes: SIZE_MIN_BYTES - 1, ..facts(2) };
        assert_eq!(whole().next(small, near), WholeDecision::Compare);
        let (fast, whole) = (DecisionFacts { now_ns: 5 * SECOND + SECOND / 50, ..facts(0) }, whole());
        assert_eq!(whole.next(fast, || unreachable!("nobody asks")), WholeDecision::Compare);
        assert!(!whole.may_be_tried(SIZE_MIN_BYTES));
        assert_eq!(self::whole().next(facts(2), || Some(ROUND_TRIP_MAX)), WholeDecision::Compare);
        assert_eq!(self::whole().next(facts(2), || None), WholeDecision::Compare);
    }

    #[test]
    fn little_is_sent_to_try() {
        let chunks = [1, 64, 128, 256, 1 << 20].map(WholeFileChoice::chunks_to_try);
        assert_eq!(chunks, [1, 1, 1, 2, 4]);
    }

    /// Returns the decision after comparing in 2 s, a trial at rate `sending`, and comparing again in `seconds`.
    fn chosen(sending: f64, seconds: u64) -> (&'static str, String) {
        let whole = whole();
        let WholeDecision::Try(comparing) = whole.next(facts(2), near) else { unreachable!("it is slow") };
        let early = whole.sent(comparing, sending, facts(3));
        assert!(!whole.pays() && whole.may_be_tried(SIZE_MIN_BYTES) == early.is_none());
        if let Some(early) = early {
            return early;
        }
        // Neither the bytes compared before nor the time of the trial count again.
        assert_eq!(whole.next(facts(4), near), WholeDecision::Compare);
        let more = DecisionFacts { compared_bytes: 2 * COMPARED_MIN_BYTES, ..facts(3 + seconds) };
        let WholeDecision::Tell(choice, reason) = whole.next(more, || unreachable!("nobody asks")) else {
            unreachable!("it is known now")
        };
        assert!(!whole.may_be_tried(SIZE_MIN_BYTES) && whole.pays() == (choice == "all of the rest"));
        assert_eq!(whole.next(more, near), WholeDecision::Compare);
        (choice, reason)
    }

    #[test]
    fn what_is_clearly_faster_than_all_that_is_compared_is_done() {
        let first = COMPARED_MIN_BYTES as f64 / 2.0;
        assert_eq!(chosen(first * 1.24, 2).0, "what differs");
        let (choice, reason) = chosen(first * 1.26, 2);
        assert_eq!(
            (choice, reason.as_str()),
            ("all of the rest", "comparing reaches 16.8 MB/s, sending 21.1 MB/s")
        );
        assert_eq!(chosen(first * 1.26, 4).0, "all of the rest");
        // Comparing was slow only for a moment.
        assert_eq!(chosen(first * 1.26, 1).0, "what differs");
    }
}
