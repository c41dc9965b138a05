//! The budget of requests in flight: one per bucket, over all lanes. It grows while more requests bring more answers per
//! second, and is halved when the store asks for less.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// The requests in flight at the beginning.
const START: usize = 16;
/// The most requests in flight. S3 answers some thousand per second and prefix: at 0.1 s each, that is this many.
const IN_FLIGHT_MAX: usize = 512;
/// The growth of answers per second that justifies more requests in flight.
const GROWTH: f64 = 1.05;
/// The windows without growth after which more requests are tried again.
const WINDOWS_AT_REST: u32 = 16;
/// The shortest time over which answers are counted.
const WINDOW_MIN: Duration = Duration::from_millis(50);

/// The rule, without a clock of its own.
#[derive(Debug)]
struct BudgetRule {
    limit: usize,
    /// True until requests in flight were more than useful for the first time: until then they double.
    is_starting: bool,
    window_began: Option<Instant>,
    answers: usize,
    /// True if a request had to wait in this window. Otherwise the rate is the lanes' own, and says nothing.
    was_full: bool,
    /// The limit and the answers per second before the last growth.
    before: Option<(usize, f64)>,
    windows_at_rest: u32,
    reduced: Option<Instant>,
}

impl BudgetRule {
    fn new() -> Self {
        Self {
            limit: START,
            is_starting: true,
            window_began: None,
            answers: 0,
            was_full: false,
            before: None,
            windows_at_rest: 0,
            reduced: None,
        }
    }

    /// Counts an answer. A window ends after as many answers as there are requests in flight, which is a round trip.
    fn answered(&mut self, now: Instant) {
        let began = *self.window_began.get_or_insert(now);
        self.answers += 1;
        let elapsed = now.saturating_duration_since(began);
        if self.answers <= self.limit || elapsed < WINDOW_MIN {
            return;
        }
        let rate = self.answers as f64 / elapsed.as_secs_f64();
        if self.was_full {
            self.window_ended(rate);
        }
        (self.window_began, self.answers, self.was_full) = (Some(now), 0, false);
    }

    fn window_ended(&mut self, rate: f64) {
        if let Some((limit, rate_before)) = self.before {
            self.before = None;
            if rate < rate_before * GROWTH {
                // More requests were not answered faster: go back, and rest.
                (self.limit, self.is_starting, self.windows_at_rest) = (limit, false, WINDOWS_AT_REST);
                return;
            }
        }
        if self.windows_at_rest > 0 {
            self.windows_at_rest -= 1;
            return;
        }
        let more = if self.is_starting { self.limit } else { (self.limit / 8).max(1) };
        let limit = (self.limit + more).min(IN_FLIGHT_MAX);
        if limit > self.limit {
            self.before = Some((self.limit, rate));
            self.limit = limit;
        }
    }

    /// Halves the budget because the store asked for less, unless that was done after the request had been sent.
    fn refused(&mut self, sent: Instant, now: Instant) {
        if self.reduced.is_some_and(|reduced| sent < reduced) {
            return;
        }
        self.limit = (self.limit / 2).max(1);
        (self.reduced, self.is_starting, self.before) = (Some(now), false, None);
        self.windows_at_rest = WINDOWS_AT_REST;
        (self.window_began, self.answers, self.was_full) = (Some(now), 0, false);
    }
}

/// The share of the budget that is divided among all connections as their own: one half.
const OWN_DIVISOR: usize = 2;

/// The requests that may be in flight, for all lanes of a bucket.
#[derive(Debug)]
pub(crate) struct RequestBudget {
    permits: Semaphore,
    /// The connections with a share of their own.
    shares: AtomicUsize,
    state: Mutex<BudgetState>,
}

#[derive(Debug)]
struct BudgetState {
    rule: BudgetRule,
    /// The permits that exist: free, taken, or on their way to be withdrawn.
    permits: usize,
    /// The store asked to wait until then.
    paused_until: Option<Instant>,
}

impl Default for RequestBudget {
    fn default() -> Self {
        let state = BudgetState { rule: BudgetRule::new(), permits: START, paused_until: None };
        Self { permits: Semaphore::new(START), shares: AtomicUsize::new(0), state: Mutex::new(state) }
    }
}

impl RequestBudget {
    /// Returns a share for connections that are driven by themselves.
    pub(crate) fn share(&self) -> BudgetShare {
        self.shares.fetch_add(1, Ordering::Relaxed);
        BudgetShare::default()
    }

    /// Divides the budget among one share less.
    pub(crate) fn end_share(&self) {
        self.shares.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the requests that a share may have in flight even if the budget is used up.
    fn own(&self, limit: usize) -> usize {
        let shares = self.shares.load(Ordering::Relaxed).max(1);
        (limit / OWN_DIVISOR / shares).max(1)
    }

    /// Waits until another request may be sent by these connections.
    pub(crate) async fn take(&self, share: &BudgetShare) -> RequestPermit<'_> {
        loop {
            let paused = self.state().paused_until;
            match paused.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => break,
            }
        }
        let permit = loop {
            if let Ok(permit) = self.permits.try_acquire() {
                break Some(permit);
            }
            let limit = {
                let mut state = self.state();
                state.rule.was_full = true;
                state.rule.limit
            };
            if share.0.in_flight.load(Ordering::Relaxed) < self.own(limit) {
                break None;
            }
            let (any, own) = (pin!(self.permits.acquire()), pin!(share.0.returned.notified()));
            if let Either::Left((permit, _)) = select(any, own).await {
                break permit.ok();
            }
        };
        share.0.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestPermit { budget: self, permit, share: share.clone(), sent: Instant::now() }
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the requests that may be in flight.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> usize {
        self.state().rule.limit
    }
}

/// The requests of connections that make progress on their own, such as those of one end of a lane. While a lane waits for
/// one end, nothing reads the answers of the other end, which keeps its place in the budget. So each has a share that the
/// others cannot use up.
#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetShare(Arc<ShareState>);

#[derive(Debug, Default)]
struct ShareState {
    in_flight: AtomicUsize,
    /// Notified when one of them ends.
    returned: Notify,
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct RequestPermit<'a> {
    budget: &'a RequestBudget,
    permit: Option<SemaphorePermit<'a>>,
    share: BudgetShare,
    sent: Instant,
}

impl RequestPermit<'_> {
    /// Notes that the store answered.
    pub(crate) fn answered(&self) {
        self.budget.state().rule.answered(Instant::now());
    }

    /// Notes that the store asked for fewer requests, and how long to wait if it said so.
    pub(crate) fn refused(&self, wait: Option<Duration>) {
        let now = Instant::now();
        let mut state = self.budget.state();
        state.rule.refused(self.sent, now);
        if let Some(wait) = wait {
            state.paused_until = state.paused_until.max(Some(now + wait));
        }
    }
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        let left = self.share.0.in_flight.fetch_sub(1, Ordering::Relaxed) - 1;
        let mut state = self.budget.state();
        let limit = state.rule.limit;
        if left < self.budget.own(limit) {
            self.share.0.returned.notify_one();
        }
        if state.permits > limit
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            state.permits -= 1;
        } else if state.permits < limit {
            self.budget.permits.add_permits(limit - state.permits);
            state.permits = limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use proptest::prelude::*;

    use super::*;

    /// Plays windows against a store that answers in 100 ms as long as no more than `best` requests are in flight.
    fn limit_after(windows: usize, best: usize) -> usize {
        let mut rule = BudgetRule::new();
        let mut now = Instant::now();
        for _ in 0..windows {
            let limit = rule.limit;
            let round = Duration::from_millis(100).mul_f64((limit as f64 / best as f64).max(1.0));
            for _ in 0..=limit {
                rule.was_full = true;
                now += round / limit as u32;
                rule.answered(now);
            }
        }
        rule.limit
    }

    #[test]
    fn it_doubles_until_more_does_not_help() {
        for best in [16, 40, 170] {
            let limit = limit_after(60, best);
            assert!((best / 2..=2 * best).contains(&limit), "{limit} for {best}");
        }
        assert_eq!(limit_after(60, 100_000), IN_FLIGHT_MAX);
    }

    #[test]
    fn lanes_that_have_nothing_to_send_leave_it_alone() {
        let mut rule = BudgetRule::new();
        let mut now = Instant::now();
        for _ in 0..1000 {
            now += Duration::from_millis(10);
            rule.answered(now);
        }
        assert_eq!(rule.limit, START);
    }

    #[test]
    fn a_refusal_halves_it_once_per_round_trip() {
        let mut rule = BudgetRule::new();
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        rule.refused(at(0), at(100));
        rule.refused(at(50), at(120));
        assert_eq!(rule.limit, START / 2);
        rule.refused(at(110), at(200));
        assert_eq!(rule.limit, START / 4);
        for ms in 0..10 {
            rule.refused(at(300 + ms), at(300 + ms));
        }
        assert_eq!(rule.limit, 1);
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds(events in prop::collection::vec((0..3u8, 0..200u64), 0..500)) {
            let mut rule = BudgetRule::new();
            let mut now = Instant::now();
            for (kind, ms) in events {
                now += Duration::from_millis(ms);
                match kind {
                    0 => rule.refused(now, now),
                    1 => rule.answered(now),
                    _ => rule.was_full = true,
                }
                prop_assert!((1..=IN_FLIGHT_MAX).contains(&rule.limit));
            }
        }
    }

    #[test]
    fn permits_follow_the_limit() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let budget = RequestBudget::default();
            let share = budget.share();
            let mut taken = Vec::new();
            for _ in 0..START {
                taken.push(budget.take(&share).await);
            }
            assert!(
                tokio::time::timeout(Duration::from_millis(5), budget.take(&share)).await.is_err(),
                "all are taken"
            );
            taken[0].refused(None);
            assert_eq!(budget.limit(), START / 2);
            taken.truncate(START / 2);
            assert!(
                tokio::time::timeout(Duration::from_millis(5), budget.take(&share)).await.is_err(),
                "withdrawn"
            );
            taken.pop();
            assert!(tokio::time::timeout(Duration::from_secs(9), budget.take(&share)).await.is_ok());
        });
    }

    #[test]
    fn an_end_that_is_not_driven_leaves_others_their_share() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let budget = RequestBudget::default();
            let [one, other] = [budget.share(), budget.share()];
            let mut waiting = Vec::new();
            for _ in 0..START {
                waiting.push(budget.take(&one).await);
            }
            let mut taken = Vec::new();
            for _ in 0..START / 4 {
                let taking = tokio::time::timeout(Duration::from_secs(9), budget.take(&other));
                taken.push(taking.await.expect("its share"));
            }
            let mut more = pin!(budget.take(&other));
            let early = tokio::time::timeout(Duration::from_millis(5), more.as_mut());
            assert!(early.await.is_err(), "no more than its share");
            taken.pop();
            taken.push(tokio::time::timeout(Duration::from_secs(9), more).await.expect("its share again"));
            // Those that wait take the places of those that end, one after another.
            let mut queue = Box::pin(join_all((0..50).map(|_| async { drop(budget.take(&other).await) })));
            assert!(tokio::time::timeout(Duration::from_millis(5), &mut queue).await.is_err());
            taken.pop();
            assert!(tokio::time::timeout(Duration::from_secs(9), queue).await.is_ok());
        });
    }
}
