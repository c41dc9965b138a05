//! A control plane: the thread of the leader, and the buses that brokers reach it by.

use std::sync::Arc;
use std::thread::JoinHandle;

use hakobu_core::error::{Error, Result};

use crate::bus::LeaderBus;
use crate::bus::local::LocalBus;
use crate::control_loop::{ControlHandle, queue};
use crate::fleet_clock::FleetClock;
use crate::leader::{Leader, LeaderSettings};
use crate::ledger::Ledger;

/// A control plane that runs.
pub struct ControlPlane {
    handle: ControlHandle,
    local: Arc<LocalBus>,
    thread: Option<JoinHandle<Leader>>,
}

impl ControlPlane {
    /// Starts a control plane with a ledger. `buses` makes further buses beside the one inside of this process.
    ///
    /// # Errors
    /// Those of the ledger and of the buses.
    pub fn start(
        ledger: Box<dyn Ledger>,
        clock: Arc<dyn FleetClock>,
        settings: LeaderSettings,
        buses: impl FnOnce(&ControlHandle) -> Result<Vec<Arc<dyn LeaderBus>>>,
    ) -> Result<Self> {
        let (handle, queue) = queue();
        let local = Arc::new(LocalBus::new(handle.clone()));
        let mut all: Vec<Arc<dyn LeaderBus>> = vec![local.clone()];
        all.extend(buses(&handle)?);
        let leader = Leader::new(ledger, all, clock, settings)?;
        let run = move || queue.run(leader);
        let thread = std::thread::Builder::new().name("leader".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::io("starting the thread of the leader", &error))?;
        Ok(Self { handle, local, thread: Some(thread) })
    }

    /// Ends the leader, and returns its ledger, unless it has panicked. Everything that it has answered is durable.
    pub fn end(mut self) -> Option<Box<dyn Ledger>> {
        self.handle.stop();
        self.thread.take()?.join().ok().map(Leader::into_ledger)
    }

    /// Returns the end at which requests are put.
    pub fn handle(&self) -> &ControlHandle {
        &self.handle
    }

    /// Returns the bus inside of this process.
    pub fn local(&self) -> &LocalBus {
        &self.local
    }
}

impl Drop for ControlPlane {
    /// Ends the leader. Everything that it has answered is durable.
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _has_panicked = thread.join();
        }
    }
}
