//! Paces operations if the run has limits, and defines how many operations each request counts as.
//!
//! A lane waits before it reads, lists or writes. Small finishing operations, such as reading attributes again or
//! giving a draft its final name, are booked without waiting, so that a stopped run can end. The next one waits.

use super::*;
use crate::pacer::{LimitedQuantities, PacerTurn};

// The approximate number of file server responses that one operation waits for, derived from measured times over sshfs
// divided by the round trip. NFS needs fewer. A piece takes 2 to 7, because one connection transfers at most its window
// per round trip.
const REQUESTS_PER_OPERATION: u64 = 5;
const REQUESTS_PER_FILE_READ: u64 = 8;
const REQUESTS_PER_FILE_STORED: u64 = 30;

/// The number of operations that a request counts as, and whether it waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationCost {
    Wait(u64),
    Owe(u64),
}

/// Returns the cost of an operation at the source.
fn source_cost(operation: &SourceOp) -> OperationCost {
    match operation {
        SourceOp::List { directories, .. } => OperationCost::Wait(directories.len() as u64),
        SourceOp::ReadPack { picks, from, .. } => {
            OperationCost::Wait((picks.entries.len() as u64).saturating_sub(u64::from(*from)))
        }
        SourceOp::DigestPicks { picks, .. } => OperationCost::Wait(picks.entries.len() as u64),
        SourceOp::Read { .. } | SourceOp::Page { .. } => OperationCost::Wait(1),
        SourceOp::Stat { .. }
        | SourceOp::Extended { .. }
        | SourceOp::Open { .. }
        | SourceOp::Revalidate { .. }
        | SourceOp::FindHole { .. } => OperationCost::Owe(1),
        SourceOp::ReadStream { .. } | SourceOp::Names { .. } | SourceOp::OpenPicks { .. } => {
            OperationCost::Owe(0)
        }
    }
}

/// Returns the cost of an operation at the target.
fn target_cost(operation: &TargetOp) -> OperationCost {
    let pieces = |extent: &Extent| extent.length.div_ceil(PIECE_BYTES).max(1);
    match operation {
        TargetOp::List { directories, .. } => OperationCost::Wait(directories.len() as u64),
        TargetOp::Digest { names, .. } => OperationCost::Wait(names.len() as u64),
        TargetOp::CopyInStore { copies, .. } => OperationCost::Wait(copies.len() as u64),
        TargetOp::Apply { changes } => OperationCost::Wait(changes.len() as u64),
        TargetOp::HashRange { extent, blocks: false, .. } | TargetOp::WeakSums { extent, .. } => {
            OperationCost::Wait(pieces(extent))
        }
        TargetOp::Assemble { extent, copies, .. } => {
            OperationCost::Wait(pieces(extent) + copies.len() as u64)
        }
        TargetOp::Page { .. }
        | TargetOp::Begin { .. }
        | TargetOp::JoinDraft { .. }
        | TargetOp::HashRange { .. }
        | TargetOp::Patch { .. }
        | TargetOp::Write { .. }
        | TargetOp::Reflink { .. } => OperationCost::Wait(1),
        TargetOp::Stat { .. }
        | TargetOp::Hole { .. }
        | TargetOp::Zero { .. }
        | TargetOp::Finish { .. }
        | TargetOp::ShareDraft { .. }
        | TargetOp::Abandon { .. }
        | TargetOp::Barrier { .. } => OperationCost::Owe(1),
        // The number of files in a pack is known where the pack is submitted.
        TargetOp::WritePack { .. }
        | TargetOp::Numbers { .. }
        | TargetOp::Complete { .. }
        | TargetOp::SetLength { .. } => OperationCost::Owe(0),
    }
}

/// Returns the bytes of content that an operation sends to the target.
fn content_bytes(operation: &TargetOp) -> u64 {
    let bytes = match operation {
        TargetOp::WritePack { pack, .. } => pack.len(),
        TargetOp::Write { buffer, .. }
        | TargetOp::Patch { buffer, .. }
        | TargetOp::Assemble { buffer, .. } => buffer.filled().len(),
        _ => 0,
    };
    bytes as u64
}

/// Returns the number of files or pieces that an operation reads at the source.
fn reads(operation: &SourceOp) -> u64 {
    match (operation, source_cost(operation)) {
        (
            SourceOp::Read { .. } | SourceOp::ReadPack { .. } | SourceOp::DigestPicks { .. },
            OperationCost::Wait(count),
        ) => count,
        _ => 0,
    }
}

/// Returns the approximate number of file server responses that operations wait for at the source.
fn source_requests(operation: &SourceOp, count: u64) -> u64 {
    count.saturating_mul(match operation {
        SourceOp::ReadPack { .. } | SourceOp::DigestPicks { .. } => REQUESTS_PER_FILE_READ,
        _ => REQUESTS_PER_OPERATION,
    })
}

/// Returns the approximate number of file server responses that operations wait for at the target.
fn target_requests(operation: &TargetOp, count: u64) -> u64 {
    count.saturating_mul(match operation {
        TargetOp::Digest { .. } => REQUESTS_PER_FILE_READ,
        // While a file is created or renamed, others in its directory wait.
        TargetOp::WritePack { .. } | TargetOp::Begin { .. } | TargetOp::Finish { .. } => {
            REQUESTS_PER_FILE_STORED
        }
        _ => REQUESTS_PER_OPERATION,
    })
}

impl Worker<'_> {
    /// Waits until an operation may be submitted to the target.
    ///
    /// # Errors
    /// `Cancelled` if the run was stopped meanwhile.
    pub(super) fn hold_target(&mut self, operation: &TargetOp, pending: &PendingPurpose) -> Result<()> {
        self.hold(LimitedQuantities::Content, content_bytes(operation))?;
        let cost = match pending {
            PendingPurpose::Stored { packed, .. } => OperationCost::Wait(packed.len() as u64),
            _ => target_cost(operation),
        };
        let (OperationCost::Wait(count) | OperationCost::Owe(count)) = cost;
        self.counters.target_operations.add(count);
        self.counters.target_requests.add(target_requests(operation, count));
        match cost {
            OperationCost::Wait(count) => self.hold(LimitedQuantities::Target, count),
            OperationCost::Owe(count) => {
                self.owe(LimitedQuantities::Target, count);
                Ok(())
            }
        }
    }

    /// Waits until an operation may run at the source, runs it, and records how long reading took.
    pub(super) fn ask_source(&mut self, operation: SourceOp) -> Result<SourceOutcome> {
        match source_cost(&operation) {
            OperationCost::Wait(count) => self.hold(LimitedQuantities::Source, count)?,
            OperationCost::Owe(count) => self.owe(LimitedQuantities::Source, count),
        }
        let reads = reads(&operation);
        self.counters.source_reads.add(reads);
        self.counters.source_requests.add(source_requests(&operation, reads));
        let outcome = self.timed(reads, |source| source.ask(operation));
        match &outcome {
            Ok(SourceOutcome::Listed(listings)) => self.owe_listed(LimitedQuantities::Source, listings),
            Ok(SourceOutcome::Page(portion)) => self.owe(LimitedQuantities::Source, entries_of(portion)),
            _ => {}
        }
        outcome
    }

    /// Reads one piece. If it helps, the pieces after it are requested as well, each in its turn. The recorded time is
    /// the time spent waiting for this piece.
    pub(super) fn read_source(
        &mut self,
        file: &Arc<SourceFile>,
        piece: Extent,
        reading: ChunkCursor,
    ) -> Result<SourceOutcome> {
        if !self.source.reads_ahead() {
            let buffer = self.target.piece_buffer();
            return self.ask_source(SourceOp::Read { file: Arc::clone(file), extent: piece, buffer });
        }
        self.source.turn_to(file, piece, |buffer| self.target.recycle(buffer))?;
        while let Some(next) = self.source.next_read(piece, reading) {
            self.hold(LimitedQuantities::Source, 1)?;
            self.counters.source_reads.add(1);
            self.counters.source_requests.add(REQUESTS_PER_OPERATION);
            let buffer = self.target.piece_buffer();
            self.source.read(next, buffer)?;
        }
        self.timed(1, Source::take_read)
    }

    /// Waits for the source, and records how long that took if something is read.
    fn timed(
        &mut self,
        reads: u64,
        wait: impl FnOnce(&mut Source) -> Result<SourceOutcome>,
    ) -> Result<SourceOutcome> {
        let times = reads > 0 && self.shared.pacer.times_reads();
        let began_ns = if times { self.shared.setup.clock.now_ns() } else { 0 };
        let outcome = wait(&mut self.source);
        let took_ns = if times { self.shared.setup.clock.now_ns().saturating_sub(began_ns) } else { 0 };
        if let Some(each_ns) = took_ns.checked_div(reads).filter(|_| times) {
            self.shared.pacer.read_took(each_ns, reads);
        }
        outcome
    }

    /// Books one operation for each entry of the listings.
    pub(super) fn owe_listed(&self, what: LimitedQuantities, listings: &[DirectoryListing]) {
        let lengths = listings.iter().flat_map(|listing| &listing.result).map(|listing| listing.len() as u64);
        let entries = lengths.sum();
        if what == LimitedQuantities::Target {
            self.counters.target_operations.add(entries);
            self.counters.target_requests.add(entries);
        }
        self.owe(what, entries);
    }

    /// Books operations without waiting.
    pub(super) fn owe(&self, what: LimitedQuantities, amount: u64) {
        if amount > 0 && self.shared.pacer.holds(what) {
            self.shared.pacer.owe(what, self.shared.setup.clock.now_ns(), amount);
        }
    }

    /// Splits a pack into parts of at most `most` entries.
    pub(super) fn parts(&self, task: &PackTask, most: usize) -> Vec<PackTask> {
        let part = |entries: &[Pick]| {
            let (listing, target_name) = (task.picks.listing.clone(), task.picks.target_name.clone());
            let picks = Arc::new(Picks { listing, entries: entries.to_vec(), target_name });
            PackTask { picks, ..task.clone() }
        };
        let parts: Vec<_> = task.picks.entries.chunks(most.max(1)).map(part).collect();
        let more = parts.len() as u64 - 1;
        task.node.hold(more);
        self.shared.queue.hold(more);
        parts
    }

    /// Waits until this amount may be processed, if it is limited.
    fn hold(&mut self, what: LimitedQuantities, amount: u64) -> Result<()> {
        let pacer = &self.shared.pacer;
        if amount == 0 || !pacer.holds(what) {
            return Ok(());
        }
        self.enter(LaneStage::Held);
        let (began_ns, mut changes) = (self.mark_ns, pacer.changes());
        let mut turn = pacer.turn(what, began_ns, amount);
        if turn != PacerTurn::Now {
            self.target.flush();
        }
        let ended = loop {
            let (PacerTurn::At(at_ns) | PacerTurn::AskAt(at_ns)) = turn else { break Ok(()) };
            if self.shared.queue.is_stopped() {
                break Err(stopped());
            }
            let now_ns = self.shared.setup.clock.now_ns();
            if pacer.changes() != changes {
                // Earlier bookings are void after a change of limits.
                changes = pacer.changes();
                turn = pacer.turn(what, now_ns, amount);
            } else if now_ns < at_ns {
                std::thread::sleep(Duration::from_nanos(at_ns - now_ns).min(HELD_AT_ONCE));
                // A pause may last for hours, and the counters should show it meanwhile.
                self.leave(LaneStage::Held);
            } else if let PacerTurn::At(_) = turn {
                pacer.begun(what, amount);
                break Ok(());
            } else {
                turn = pacer.turn(what, now_ns, amount);
            }
        };
        self.leave(LaneStage::Held);
        let held_ns = self.mark_ns.saturating_sub(began_ns);
        match what {
            LimitedQuantities::Content => {}
            LimitedQuantities::Source if self.shared.pacer.is_held_by_latency() => {
                self.counters.held_by_latency_ns.add(held_ns);
            }
            LimitedQuantities::Source | LimitedQuantities::Target => {
                self.counters.held_by_operations_ns.add(held_ns);
            }
        }
        ended
    }
}

/// Returns the number of entries in a page and in the listings sent along with it.
pub(super) fn entries_of(portion: &ListingPage) -> u64 {
    let below = portion.below.iter().filter_map(|listing| listing.result.as_ref().ok());
    below.map(|listing| listing.len() as u64).sum::<u64>() + portion.listing.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_what_they_do_to_storage() {
        let extent = |length| Extent { offset: 0, length };
        let sign = |length, blocks| TargetOp::HashRange { draft: 1, extent: extent(length), blocks };
        let list = |count| TargetOp::List {
            directories: vec![EntryPath::root(); count],
            budget: 0,
            detail: Detail::default(),
        };
        for (operation, expected) in [
            (list(3), OperationCost::Wait(3)),
            (sign(PIECE_BYTES * 2 + 1, false), OperationCost::Wait(3)),
            (sign(PIECE_BYTES, true), OperationCost::Wait(1)),
            (TargetOp::Apply { changes: Vec::new() }, OperationCost::Wait(0)),
            (TargetOp::Abandon { draft: 1, keep: false }, OperationCost::Owe(1)),
            (TargetOp::WritePack { pack: vec![0; 9], inodes: Vec::new() }, OperationCost::Owe(0)),
        ] {
            assert_eq!(target_cost(&operation), expected, "{operation:?}");
        }
        assert_eq!(content_bytes(&TargetOp::WritePack { pack: vec![0; 9], inodes: Vec::new() }), 9);
    }
}
