//! The leadership of one control plane among several.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hakobu_core::error::Error;
use tokio::sync::oneshot;

use crate::fleet_clock::{FleetClock, MachineClock};

/// The part that a control plane has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadershipState {
    /// It leads, in this term. Of the control planes of one ledger the leader has the highest.
    Leading(u64),
    /// Another one leads, or none: this one waits, and serves what can be read.
    Following {
        /// The name of the one that leads, if it is known.
        leader: Option<String>,
    },
}

/// The leadership, for everybody who has to know about it.
#[derive(Clone, Debug)]
pub struct LeadershipView(Arc<LeadershipCell>);

#[derive(Debug)]
struct LeadershipCell {
    record: Mutex<LeadershipRecord>,
    changed: Condvar,
}

#[derive(Debug)]
struct LeadershipRecord {
    /// The term, as long as nobody said that it is over.
    term: Option<u64>,
    /// The moment until which nobody else can lead; none if there is nobody else.
    until: Option<Instant>,
    leader: Option<String>,
    trouble: Option<LedgerTrouble>,
}

/// The reason why nobody knows who leads: the ledger does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerTrouble {
    /// The last error.
    pub error: Error,
    /// The moment of the first one, in milliseconds since 1970.
    pub since_ms: u64,
}

impl LeadershipRecord {
    fn state(&self, now: Instant) -> LeadershipState {
        match self.term {
            Some(term) if self.until.is_none_or(|until| now < until) => LeadershipState::Leading(term),
            _ => LeadershipState::Following { leader: self.leader.clone() },
        }
    }
}

impl LeadershipView {
    pub(super) fn new() -> Self {
        let record = LeadershipRecord { term: None, until: None, leader: None, trouble: None };
        Self(Arc::new(LeadershipCell { record: Mutex::new(record), changed: Condvar::new() }))
    }

    /// Returns the present state.
    pub fn state(&self) -> LeadershipState {
        self.lock().state(Instant::now())
    }

    /// Returns true if this control plane leads now.
    pub fn is_leading(&self) -> bool {
        matches!(self.state(), LeadershipState::Leading(_))
    }

    /// Waits until the state is another one than the one that is known, at most for so long. Returns the state.
    pub fn wait_for_change(&self, known: &LeadershipState, limit: Duration) -> LeadershipState {
        let deadline = Instant::now() + limit;
        let mut record = self.lock();
        loop {
            let now = Instant::now();
            let state = record.state(now);
            if state != *known || now >= deadline {
                return state;
            }
            let until =
                record.until.filter(|until| *until > now).map_or(deadline, |until| until.min(deadline));
            let waited = self.0.changed.wait_timeout(record, until - now);
            record = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the term in which this control plane leads as far as it knows, even if it has not heard of it for long.
    pub(super) fn last_term(&self) -> Option<u64> {
        self.lock().term
    }

    /// Notes that this control plane leads until a moment.
    pub(super) fn lead(&self, term: u64, until: Option<Instant>) {
        let mut record = self.lock();
        (record.term, record.until, record.leader) = (Some(term), until, None);
        self.0.changed.notify_all();
    }

    /// Notes who leads instead of this control plane.
    pub(super) fn follow(&self, leader: Option<String>) {
        let mut record = self.lock();
        (record.term, record.until, record.leader) = (None, None, leader);
        self.0.changed.notify_all();
    }

    /// Notes that a term is over.
    pub(super) fn depose(&self, term: u64) {
        let mut record = self.lock();
        if record.term == Some(term) {
            (record.term, record.until) = (None, None);
            self.0.changed.notify_all();
        }
    }

    /// Returns what keeps this control plane from knowing who leads.
    pub fn trouble(&self) -> Option<LedgerTrouble> {
        self.lock().trouble.clone()
    }

    /// Notes that the ledger does not answer.
    pub(super) fn note_trouble(&self, error: Error) {
        let mut record = self.lock();
        let since_ms =
            record.trouble.as_ref().map_or_else(|| MachineClock.moment().get(), |known| known.since_ms);
        record.trouble = Some(LedgerTrouble { error, since_ms });
    }

    /// Notes that the ledger answers.
    pub(super) fn clear_trouble(&self) {
        self.lock().trouble = None;
    }

    fn lock(&self) -> MutexGuard<'_, LeadershipRecord> {
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leadership of this control plane, or its wish to have it. Dropping it lets another one lead at once.
#[derive(Debug)]
pub struct Leadership {
    view: LeadershipView,
    campaign: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Leadership {
    /// Returns the leadership of the only control plane, which is never lost.
    pub fn sole() -> Self {
        let view = LeadershipView::new();
        view.lead(0, None);
        Self { view, campaign: None }
    }

    pub(super) fn of(view: LeadershipView, stop: oneshot::Sender<()>, thread: JoinHandle<()>) -> Self {
        Self { view, campaign: Some((stop, thread)) }
    }

    /// Returns what others may look at.
    pub fn view(&self) -> LeadershipView {
        self.view.clone()
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.campaign.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_hears_nothing_follows_after_its_time() {
        let view = LeadershipView::new();
        view.lead(3, Some(Instant::now() + Duration::from_millis(60)));
        let leading = LeadershipState::Leading(3);
        assert_eq!(view.state(), leading);
        let begun = Instant::now();
        let next = view.wait_for_change(&leading, Duration::from_secs(20));
        assert_eq!(next, LeadershipState::Following { leader: None });
        assert!(begun.elapsed() >= Duration::from_millis(40) && view.last_term() == Some(3));
        view.depose(2);
        assert_eq!(view.last_term(), Some(3));
        view.depose(3);
        assert_eq!((view.last_term(), view.is_leading()), (None, false));
    }

    #[test]
    fn the_only_control_plane_leads() {
        assert!(Leadership::sole().view().is_leading());
    }
}
