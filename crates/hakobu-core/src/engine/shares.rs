//! Gives away directories that wait, and files that wait in large ones.

use std::sync::Arc;

use super::queue::PackTask;
use super::shared::{EngineState, Setup};
use crate::counters::{Counter, LaneCounters};
use crate::endpoint::{Pick, TargetOp};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{DirectorySlice, SLICE_NAMES_MAX, WorkExchange};
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

    /// Gives away as many of the waiting directories, and of the files in large ones, as are wanted.
    pub(super) fn give_shares(&self) {
        let Some(exchange) = self.setup.exchange else { return };
        let sum = |counter: fn(&LaneCounters) -> &Counter| {
            self.record.lanes.iter().map(|lane| counter(lane).get()).sum()
        };
        let entries = sum(|lane| &lane.entries_scanned);
        self.give_slices(exchange, entries);
        let demand = exchange.demand(entries, sum(|lane| &lane.bytes_scanned));
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

    fn give_slices(&self, exchange: &dyn WorkExchange, entries: u64) {
        let packs = self.queue.take_slices(exchange.slice_demand(entries));
        if packs.is_empty() {
            return;
        }
        packs.iter().for_each(|pack| pack.node.cut());
        exchange.give_slices(slices(&packs));
        self.queue.given_packs(&packs);
    }
}

/// Returns the entries of packs as slices.
fn slices(packs: &[PackTask]) -> Vec<DirectorySlice> {
    let mut slices: Vec<DirectorySlice> = Vec::new();
    let of_one = |a: &PackTask, b: &PackTask| Arc::ptr_eq(&a.node, &b.node) && a.origin == b.origin;
    for packs in packs.chunk_by(of_one) {
        let Some(place) = packs.first().and_then(|pack| pack.node.slice_place(pack.origin)) else { continue };
        let name = |pack: &PackTask, pick: &Pick| pack.picks.listing.name(pick.index as usize).to_vec();
        let names = packs.iter().flat_map(|pack| pack.picks.entries.iter().map(move |pick| name(pack, pick)));
        let mut names = names.peekable();
        while names.peek().is_some() {
            let names = names.by_ref().take(SLICE_NAMES_MAX).collect();
            slices.push(DirectorySlice { place: place.clone(), names });
        }
    }
    slices
}
