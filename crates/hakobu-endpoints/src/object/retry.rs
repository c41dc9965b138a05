//! The only place in which requests are repeated: when, how often and after what time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::Error;
use hakobu_core::error::ErrorStep;

use super::http::HttpLimits;

/// The time before the second attempt.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The longest time between attempts, unless the store asks for more.
const DELAY_MAX: Duration = Duration::from_secs(20);
/// The longest time that a store may ask to wait.
const ASKED_DELAY_MAX: Duration = Duration::from_secs(120);

/// The times of answers of a store. They tell an outage, in which all requests fail, from a store that refuses some.
#[derive(Debug, Default)]
pub(crate) struct OutageClock(Mutex<AnswerTimes>);

#[derive(Debug, Default)]
struct AnswerTimes {
    has_answered: bool,
    succeeded: Option<Instant>,
}

impl OutageClock {
    /// Notes an answer, even if it only says that the store cannot answer now.
    pub(crate) fn answered(&self) {
        self.times().has_answered = true;
    }

    /// Notes an answer that is none of these.
    pub(crate) fn succeeded(&self) {
        let mut times = self.times();
        times.has_answered = true;
        times.succeeded = Some(Instant::now());
    }

    fn times(&self) -> MutexGuard<'_, AnswerTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attempts at one request.
#[derive(Debug)]
pub(crate) struct RetryPlan {
    limits: HttpLimits,
    clock: Arc<OutageClock>,
    began: Instant,
    attempts: u32,
    /// True if the store may have done what an earlier attempt asked for.
    may_be_done: bool,
}

impl RetryPlan {
    /// Begins the attempts.
    pub(crate) fn new(limits: HttpLimits, clock: &Arc<OutageClock>) -> Self {
        Self { limits, clock: Arc::clone(clock), began: Instant::now(), attempts: 0, may_be_done: false }
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
        let left = self.end().saturating_duration_since(Instant::now());
        let delay = match asked {
            Some(asked) => asked.min(ASKED_DELAY_MAX),
            // The last attempt is at the end of the time.
            None => {
                with_jitter(FIRST_DELAY.saturating_mul(1 << self.attempts.min(16)).min(DELAY_MAX)).min(left)
            }
        };
        self.attempts += 1;
        (!left.is_zero() && delay <= left).then_some(delay)
    }

    /// Returns the time at which the last attempt may begin.
    fn end(&self) -> Instant {
        let HttpLimits { retries, outage, first_answer, .. } = self.limits;
        let times = self.clock.times();
        let outage_began = times.succeeded.map_or(self.began, |succeeded| succeeded.max(self.began));
        let longest = if times.has_answered { retries } else { retries.min(first_answer) };
        (self.began + longest).min(outage_began + outage)
    }
}

/// Returns an error with the step of a request that was repeated, if it is one that repeating can help against.
pub(crate) fn repeated(error: Error) -> Error {
    if error.may_retry() { error.in_step(ErrorStep::Request) } else { error }
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

    fn plan(limits: HttpLimits) -> (RetryPlan, Arc<OutageClock>) {
        let clock = Arc::new(OutageClock::default());
        (RetryPlan::new(limits, &clock), clock)
    }

    fn patient() -> HttpLimits {
        let hour = Duration::from_secs(3600);
        HttpLimits { retries: hour, outage: hour, first_answer: hour, ..HttpLimits::default() }
    }

    /// Returns the time that is left, to the second.
    fn left(plan: &RetryPlan) -> u64 {
        plan.end().saturating_duration_since(Instant::now()).as_secs_f64().round() as u64
    }

    #[test]
    fn delays_double_and_end() {
        let (mut plan, _) = plan(patient());
        assert!(!plan.is_retry());
        for attempt in 0..12 {
            let full = FIRST_DELAY.saturating_mul(1 << attempt).min(DELAY_MAX);
            let delay = plan.next_delay(None).unwrap();
            assert!(delay >= full / 2 && delay <= full, "{attempt}: {delay:?}");
        }
        assert!(plan.is_retry());
        let (mut ended, _) = self::plan(HttpLimits { outage: Duration::ZERO, ..patient() });
        assert_eq!(ended.next_delay(None), None);
    }

    #[test]
    fn the_last_attempt_is_at_the_end() {
        let (mut plan, _) = plan(HttpLimits { outage: Duration::from_secs(5), ..patient() });
        plan.attempts = 10;
        let delay = plan.next_delay(None).unwrap();
        assert!(delay > Duration::from_secs(4) && delay <= Duration::from_secs(5), "{delay:?}");
        assert_eq!(plan.next_delay(Some(Duration::from_secs(6))), None, "the store asks for more");
    }

    #[test]
    fn an_outage_counts_from_the_last_success() {
        let limits = HttpLimits {
            outage: Duration::from_secs(30),
            retries: Duration::from_secs(300),
            first_answer: Duration::from_secs(8),
            ..patient()
        };
        let (mut plan, clock) = plan(limits);
        assert_eq!(left(&plan), 8, "nothing has answered");
        clock.answered();
        assert_eq!(left(&plan), 30);
        let Some(earlier) = Instant::now().checked_sub(Duration::from_secs(100)) else { return };
        plan.began = earlier;
        assert_eq!(left(&plan), 0);
        clock.succeeded();
        assert_eq!(left(&plan), 30, "other requests succeed");
        let Some(earlier) = Instant::now().checked_sub(Duration::from_secs(290)) else { return };
        plan.began = earlier;
        assert_eq!(left(&plan), 10, "one request is not repeated for ever");
    }

    #[test]
    fn a_wait_that_the_store_asks_for_is_obeyed_within_limits() {
        let (mut plan, _) = plan(patient());
        assert_eq!(plan.next_delay(Some(Duration::from_secs(7))), Some(Duration::from_secs(7)));
        assert_eq!(plan.next_delay(Some(Duration::from_secs(1 << 40))), Some(ASKED_DELAY_MAX));
    }

    #[test]
    fn jitter_differs() {
        let delays: std::collections::HashSet<_> = (0..50).map(|_| with_jitter(DELAY_MAX)).collect();
        assert!(delays.len() > 10);
    }
}
