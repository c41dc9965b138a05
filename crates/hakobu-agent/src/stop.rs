//! Stops the work of a host from any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hakobu_core::error::{Error, Result};

use crate::connection::{Connection, Interrupter};

/// The time for which a peer may leave resent data unanswered before its connection counts as cut. The system itself
/// would continue for a quarter of an hour.
pub(crate) const UNANSWERED_LIMIT: Duration = Duration::from_secs(20);

/// Stops whatever a [`Side`](crate::side::Side) is doing, from any thread.
#[derive(Clone, Default)]
pub struct Stop {
    pub(crate) cancel: Arc<AtomicBool>,
    interrupters: Arc<Mutex<Vec<Interrupter>>>,
}

impl Stop {
    /// Returns a stop that also follows a flag set elsewhere, such as by a signal.
    pub fn with_flag(cancel: Arc<AtomicBool>) -> Self {
        Self { cancel, interrupters: Arc::default() }
    }

    /// Asks the engine to stop, and ends all connections.
    pub fn stop(&self) {
        self.cancel.store(true, Ordering::Relaxed);
        self.interrupt();
    }

    /// Returns true if a stop was requested.
    pub fn is_asked(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Ends all connections if a peer has stopped answering.
    pub(crate) fn end_unanswered(&self) {
        let interrupters = self.interrupters.lock().unwrap_or_else(PoisonError::into_inner);
        if interrupters.iter().any(|interrupter| interrupter.is_unanswered(UNANSWERED_LIMIT)) {
            interrupters.iter().for_each(Interrupter::interrupt);
        }
    }

    pub(crate) fn interrupt(&self) {
        self.interrupters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(Interrupter::interrupt);
    }

    pub(crate) fn add(&self, connection: &Connection) -> Result<()> {
        let interrupter =
            connection.interrupter().map_err(|error| Error::io("taking a data connection", &error))?;
        self.interrupters.lock().unwrap_or_else(PoisonError::into_inner).push(interrupter);
        Ok(())
    }

    pub(crate) fn forget(&self) {
        self.interrupters.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
