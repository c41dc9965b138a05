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

    /// Takes the differences for which there are no events: ranges of the content of large files. Each file fails once.
    pub fn take_ranges(&self, differences: &[Difference]) {
        let mut last: Option<&[u8]> = None;
        for Difference { path, what, .. } in differences {
            if matches!(what, Different::Range(_)) && last != Some(path) {
                last = Some(path);
                self.differs(path.clone(), *what);
            }
        }
    }

    fn differs(&self, path: Vec<u8>, what: Different) {
        self.fail(&Failure { path, error: Error::new(ErrorKind::Corrupt, "comparing", words(what)) });
    }

    fn fail(&self, failure: &Failure) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < COMMIT_ROWS_MAX {
            failures.push(SentFailure::from(&FailureRow::new(0, failure)));
        }
    }
}

/// Describes a difference.
fn words(what: Different) -> &'static str {
    match what {
        Different::OnlyInSource => "the target lacks it",
        Different::OnlyInTarget => "only the target has it",
        Different::Kind => "it is of another kind at the target",
        Different::Size => "the size differs",
        Different::Content | Different::Range(_) => "the content differs",
        Different::Mode => "the permissions differ",
        Different::Owner => "the owner or the group differs",
        Different::Time => "the modification time differs",
        Different::Extended => "extended attributes differ",
        Different::Links => "it is a hard link to another file than at the source",
    }
}

impl Observer for UnitObserver<'_> {
    fn event(&self, event: Event) {
        match event {
            Event::Failure(failure) => self.fail(&failure),
            Event::Difference(Difference { what: Different::OnlyInTarget, .. }) if self.leaves_extra => {}
            Event::Difference(Difference { path, what, .. }) => self.differs(path, what),
            Event::Progress(totals) => self.state.count(&totals),
            Event::Notice { .. } => self.notices.event(event),
            _ => {}
        }
    }
}
