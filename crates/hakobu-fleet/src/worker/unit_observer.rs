//! Takes the events of the engine that works on a unit.

use std::sync::{Arc, Mutex, PoisonError};

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::{Difference, Different, Event, Failure, Observer};

use super::broker_unit::BrokerUnit;
use crate::change::COMMIT_ROWS_MAX;
use crate::failure::FailureRow;
use crate::message::SentFailure;

/// Takes the events of the engine that works on a unit.
pub struct UnitObserver<'a> {
    state: &'a BrokerUnit,
    notices: &'a dyn Observer,
    /// True if entries that only the target has are as they should be.
    leaves_extra: bool,
    failures: Mutex<Vec<SentFailure>>,
}

impl<'a> UnitObserver<'a> {
    /// Creates an observer. Notices go to another one. `leaves_extra`: the run deletes nothing, so an entry that only the
    /// target has is no difference.
    pub fn new(state: &'a Arc<BrokerUnit>, notices: &'a dyn Observer, leaves_extra: bool) -> Self {
        Self { state, notices, leaves_extra, failures: Mutex::default() }
    }

    /// Returns the failures, as they are committed. Those beyond what one commit holds are only counted.
    pub fn into_failures(self) -> Vec<SentFailure> {
        self.failures.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, failure: &Failure) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < COMMIT_ROWS_MAX {
            failures.push(SentFailure::from(&FailureRow::new(0, failure)));
        }
    }
}

impl Observer for UnitObserver<'_> {
    fn event(&self, event: Event) {
        match event {
            Event::Failure(failure) => self.fail(&failure),
            Event::Difference(Difference { what: Different::OnlyInTarget, .. }) if self.leaves_extra => {}
            Event::Difference(Difference { path, what, .. }) => {
                let error = Error::new(ErrorKind::Corrupt, "comparing", format!("{what:?}"));
                self.fail(&Failure { path, error });
            }
            Event::Progress(totals) => self.state.count(&totals),
            Event::Notice { .. } => self.notices.event(event),
            _ => {}
        }
    }
}
