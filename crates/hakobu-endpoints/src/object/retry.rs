//! The only place in which requests are repeated: when, how often and after what time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

/// The time before the second attempt.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The longest time between attempts, unless the store asks for more.
const DELAY_MAX: Duration = Duration::from_secs(20);
/// The longest time that a store may ask to wait.
const ASKED_DELAY_MAX: Duration = Duration::from_secs(120);

/// The attempts at one request.
#[derive(Debug)]
pub(crate) struct RetryPlan {
    end: Instant,
    attempts: u32,
    /// True if the store may have done what an earlier attempt asked for.
    may_be_done: bool,
}

impl RetryPlan {
    /// Begins the attempts. The last one begins within `total`.
    pub(crate) fn new(total: Duration) -> Self {
        Self { end: Instant::now() + total, attempts: 0, may_be_done: false }
    }

    /// Returns true if this is not the first attempt.
    pub(crate) fn is_retry(&self) -> bool {
        self.attempts > 0
    }

    /// Returns true if the store may have done what an earlier attempt asked for.
    pub(crate) fn may_be_done(&self) -> bool {
        self.may_be_done
    }

    /// Notes that an attempt failed without an answer that says that nothing was done.
    pub(crate) fn note_uncertain(&mut self) {
        self.may_be_done = true;
    }

    /// Returns the time to wait before the next attempt, or `None` if there is no time left for one.
    pub(crate) fn next_delay(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let delay = match asked {
            Some(asked) => asked.min(ASKED_DELAY_MAX),
            None => with_jitter(FIRST_DELAY.saturating_mul(1 << self.attempts.min(16)).min(DELAY_MAX)),
        };
        self.attempts += 1;
        (Instant::now() + delay <= self.end).then_some(delay)
    }
}

/// Returns between half and all of a time, so that lanes that failed together do not come back together.
fn with_jitter(delay: Duration) -> Duration {
    // Keyed afresh for each value by the standard library: random enough for this.
    let random = RandomState::new().build_hasher().finish();
    delay.mul_f64(0.5 + (random % 1024) as f64 / 2048.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_end() {
        let mut plan = RetryPlan::new(Duration::from_secs(3600));
        assert!(!plan.is_retry());
        for attempt in 0..12 {
            let full = FIRST_DELAY.saturating_mul(1 << attempt).min(DELAY_MAX);
            let delay = plan.next_delay(None).unwrap();
            assert!(delay >= full / 2 && delay <= full, "{attempt}: {delay:?}");
        }
        assert!(plan.is_retry());
        assert_eq!(RetryPlan::new(Duration::from_millis(1)).next_delay(None), None);
    }

    #[test]
    fn a_wait_that_the_store_asks_for_is_obeyed_within_limits() {
        let mut plan = RetryPlan::new(Duration::from_secs(3600));
        assert_eq!(plan.next_delay(Some(Duration::from_secs(7))), Some(Duration::from_secs(7)));
        assert_eq!(plan.next_delay(Some(Duration::from_secs(1 << 40))), Some(ASKED_DELAY_MAX));
    }

    #[test]
    fn jitter_differs() {
        let delays: std::collections::HashSet<_> = (0..50).map(|_| with_jitter(DELAY_MAX)).collect();
        assert!(delays.len() > 10);
    }
}
