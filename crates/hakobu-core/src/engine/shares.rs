//! Gives away directories that wait.

use super::shared::{EngineState, Setup};
use crate::counters::{Counter, LaneCounters};
use crate::endpoint::TargetOp;
use crate::error::{Error, ErrorKind, Result};
use crate::job::Removal;

/// Fails if a run cannot be one of several that copy a tree together.
pub(super) fn check(setup: &Setup<'_>) -> Result<()> {
    let job = setup.job;
    let copies = !job.dry_run && !job.mode.only_reads() && job.removal != Removal::Remove;
    if setup.exchange.is_none() || copies {
        return Ok(());
    }
    let words = "a dry run, a comparison and a removal look at the whole tree, and cannot be shared with others; run it alone";
    Err(Error::new(ErrorKind::Unsupported, "sharing the work", words))
}

impl EngineState<'_> {
    /// Returns true if names of files with further names are given away.
    pub(super) fn gives_names(&self) -> bool {
        self.setup.exchange.is_some_and(|exchange| exchange.takes_names())
    }

    /// Fails if the lease is over, unless the operation only discards something.
    pub(super) fn check_lease(&self, operation: &TargetOp) -> Result<()> {
        match self.setup.exchange {
            Some(exchange) if !matches!(operation, TargetOp::Abandon { .. }) => exchange.lease().check(),
            _ => Ok(()),
        }
    }

    /// Stops the run if the lease is over, and returns true then.
    pub(super) fn is_lease_over(&self) -> bool {
        let Some(Err(error)) = self.setup.exchange.map(|exchange| exchange.lease().check()) else {
            return false;
        };
        self.stop(error);
        true
    }

    /// Gives away as many of the waiting directories as are wanted.
    pub(super) fn give_shares(&self) {
        let Some(exchange) = self.setup.exchange else { return };
        let sum = |counter: fn(&LaneCounters) -> &Counter| {
            self.record.lanes.iter().map(|lane| counter(lane).get()).sum()
        };
        let demand = exchange.demand(sum(|lane| &lane.entries_scanned), sum(|lane| &lane.bytes_scanned));
        let tasks = self.queue.take_shares(demand);
        if tasks.is_empty() {
            return;
        }
        tasks.iter().filter_map(|task| task.node.parent.as_ref()).for_each(|parent| parent.open());
        exchange.give(tasks.iter().filter_map(|task| task.node.share()).collect());
        self.queue.given(&tasks);
        if self.queue.scan_done() {
            self.record.scan_ended(self.setup.clock.now_ns());
        }
        self.queue.complete(tasks.len() as u64);
    }
}
