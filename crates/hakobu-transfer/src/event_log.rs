//! Records what a remote engine reports while it runs: all that is known if its host is lost before its summary.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hakobu_core::counters::CounterTotals;
use hakobu_core::engine::{FAILURES_KEPT_MAX, RunSummary};
use hakobu_core::error::{Error, Result};
use hakobu_core::event::{Event, Failure, Observer};
use hakobu_proto::control::RunUsage;

/// Records the events of a run and passes them to the observer.
pub struct EventLog<'a> {
    observer: &'a dyn Observer,
    lanes: u16,
    began: Instant,
    heard: Mutex<EventLogState>,
}

#[derive(Default)]
struct EventLogState {
    figures: Option<CounterTotals>,
    failures: Vec<Failure>,
}

impl<'a> EventLog<'a> {
    /// Returns a record of a run that begins now, with this number of lanes.
    pub fn new(observer: &'a dyn Observer, lanes: u16) -> Self {
        Self { observer, lanes, began: Instant::now(), heard: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, EventLogState> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the run as it was last reported, with the error that ended it.
    ///
    /// # Errors
    /// The given error, if nothing was reported.
    pub fn ran(&self, error: Error) -> Result<RunUsage> {
        let EventLogState { figures, failures } = std::mem::take(&mut *self.heard());
        let Some(counters) = figures else { return Err(error) };
        let transfer_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let failures_of_source = failures.iter().filter(|failure| failure.error.is_source_change()).count();
        let summary = RunSummary {
            counters,
            failures,
            failures_of_source: failures_of_source as u64,
            fatal: Some(error),
            lanes: self.lanes,
            scan_ns: transfer_ns,
            transfer_ns,
            ..RunSummary::default()
        };
        Ok(RunUsage { summary, ..RunUsage::default() })
    }
}

impl Observer for EventLog<'_> {
    fn event(&self, event: Event) {
        match &event {
            Event::Progress(figures) => self.heard().figures = Some((**figures).clone()),
            Event::Failure(failure) => {
                let mut heard = self.heard();
                if heard.failures.len() < FAILURES_KEPT_MAX {
                    heard.failures.push(failure.clone());
                }
            }
            _ => {}
        }
        self.observer.event(event);
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::error::ErrorKind;
    use hakobu_core::event::NoObserver;

    use super::*;

    #[test]
    fn a_run_that_is_lost_is_known_as_it_was_last_heard_of() {
        let lost = || Error::new(ErrorKind::ConnectionLost, "talking", "it ended");
        assert!(EventLog::new(&NoObserver, 2).ran(lost()).is_err());
        let told = EventLog::new(&NoObserver, 2);
        for target_written_bytes in [5, 9] {
            let figures = CounterTotals { target_written_bytes, ..CounterTotals::default() };
            told.event(Event::Progress(Box::new(figures)));
        }
        let error = Error::new(ErrorKind::SourceVanished, "reading", "gone");
        told.event(Event::Failure(Failure { path: b"p".to_vec(), error }));
        let summary = told.ran(lost()).unwrap().summary;
        assert_eq!((summary.counters.target_written_bytes, summary.lanes), (9, 2));
        assert_eq!((summary.failures.len(), summary.failures_of_source), (1, 1));
        assert_eq!(summary.fatal.unwrap().kind, ErrorKind::ConnectionLost);
    }
}
