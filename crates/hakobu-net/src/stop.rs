//! Stops the work of a host from any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hakobu_core::error::{Error, Result};

use crate::connection::{Connection, Interrupter};

/// The time for which a peer may leave resent data unanswered before its connection counts as cut. The system itself
/// would continue for a quarter of an hour.
pub const UNANSWERED_LIMIT: Duration = Duration::from_secs(20);

/// Stops whatever a host is doing in a transfer, from any thread.
#[derive(Clone, Default)]
pub struct StopHandle {
    /// Set once a stop was requested.
    pub cancel: Arc<AtomicBool>,
    interrupters: Arc<Mutex<Vec<Interrupter>>>,
}

impl StopHandle {
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
    pub fn end_unanswered(&self) {
        let interrupters = self.interrupters.lock().unwrap_or_else(PoisonError::into_inner);
        if interrupters.iter().any(|interrupter| interrupter.is_unanswered(UNANSWERED_LIMIT)) {
            interrupters.iter().for_each(Interrupter::interrupt);
        }
    }

    /// Ends all connections at once.
    pub fn interrupt(&self) {
        self.interrupters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(Interrupter::interrupt);
    }

    /// Adds a connection that a stop is to end.
    ///
    /// # Errors
    /// An error of the system.
    pub fn add(&self, connection: &Connection) -> Result<()> {
        let interrupter =
            connection.interrupter().map_err(|error| Error::io("taking a data connection", &error))?;
        self.interrupters.lock().unwrap_or_else(PoisonError::into_inner).push(interrupter);
        Ok(())
    }

    /// Forgets all connections: a stop no longer ends them.
    pub fn forget(&self) {
        self.interrupters.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
