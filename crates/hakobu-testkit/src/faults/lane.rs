//! A lane of a source or target with injected faults.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hakobu_core::endpoint::{
    Completion, CompletionWait, DraftId, Lane, Operation, PieceBuffer, TargetLane, TargetOp, Ticket,
};
use hakobu_core::error::{Error, ErrorKind, Result};

use super::{FaultCondition, FaultEffect, FaultState, LoggedOperation, OperationKind, lock, planned};
use crate::random::Random;

/// The ticket of operations that the lane submits by itself.
const OWN_TICKET: Ticket = Ticket::MAX - 1;
/// The interval at which a silent lane checks whether it is interrupted.
const SILENT_WAIT: Duration = Duration::from_millis(5);

/// The operations of one kind of lane, and the effects of faults on them.
pub(super) trait Fallible: Operation + Sized {
    /// The wrapped lane.
    type Inner: Lane<Self> + ?Sized;

    /// Returns the kind of operation.
    fn kind(&self) -> OperationKind;

    /// Returns the paths of the operation.
    fn paths(&self, state: &FaultState) -> Vec<Vec<u8>>;

    /// Returns the draft of the operation, if any.
    fn draft(&self) -> Option<DraftId> {
        None
    }

    /// Returns true for a write with the digest of its piece.
    fn has_digest(&self) -> bool {
        false
    }

    /// Returns true if the operation fails on a draft that has lost a piece.
    fn needs_whole_draft(&self) -> bool {
        false
    }

    /// Performs the cleanup for an operation that is not executed.
    fn refused(self, lane: &mut FaultyLane<Self>, error: &Error) {
        let _ = (lane, error);
    }

    /// Makes sure that the failure is reported, and spoils the draft that is written. Returns false if it cannot be
    /// reported.
    fn make_unheard(&mut self, state: &FaultState, error: &Error) -> bool {
        let _ = (state, error);
        true
    }

    /// Returns true if a fault can affect a single entry of the operation.
    fn has_entries(&self) -> bool;

    /// Executes the operation except for one entry, which fails.
    fn one_entry(
        self,
        lane: &mut FaultyLane<Self>,
        when: &FaultCondition,
        error: Error,
    ) -> Result<Self::Outcome>;

    /// Halves the amount of data that was read.
    fn shorten(outcome: Self::Outcome) -> Self::Outcome {
        outcome
    }

    /// Removes from listings all but names and kinds.
    fn undescribe(outcome: Self::Outcome) -> Self::Outcome {
        outcome
    }

    /// Executes the operation instead of the endpoint, if the plan says so.
    fn stand_in(self, lane: &mut FaultyLane<Self>) -> std::result::Result<Result<Self::Outcome>, Self> {
        let _ = lane;
        Err(self)
    }
}

pub(super) struct FaultyLane<O: Fallible> {
    pub(super) inner: Box<O::Inner>,
    pub(super) state: Arc<FaultState>,
    pub(super) random: Random,
    index: usize,
    /// Completions that are held back.
    held: Vec<Completion<O::Outcome>>,
    dead: bool,
}

impl<O: Fallible> FaultyLane<O> {
    pub fn new(inner: Box<O::Inner>, state: Arc<FaultState>, index: usize) -> Self {
        let random = Random::new(state.plan.seed ^ ((index as u64) << 32));
        Self { inner, state, random, index, held: Vec::new(), dead: false }
    }

    fn hold(&mut self, ticket: Ticket, result: Result<O::Outcome>) {
        self.held.push(Completion { ticket, result });
    }

    /// Submits an operation to the wrapped lane, and waits for room if necessary.
    fn pass(&mut self, ticket: Ticket, mut operation: O) {
        while let Err(back) = self.inner.submit(ticket, operation) {
            operation = back;
            self.inner.flush();
            self.held.extend(self.inner.reap(CompletionWait::For(SILENT_WAIT)));
        }
    }

    /// Executes an operation and waits for its completion.
    pub(super) fn ask(&mut self, operation: O) -> Result<O::Outcome> {
        self.pass(OWN_TICKET, operation);
        self.inner.flush();
        loop {
            match self.inner.reap(CompletionWait::Forever) {
                Some(completion) if completion.ticket == OWN_TICKET => return completion.result,
                Some(other) => self.held.push(other),
                None => return Err(planned(ErrorKind::ConnectionLost)),
            }
        }
    }

    /// Fails an operation without executing it.
    fn refuse(&mut self, ticket: Ticket, operation: O, error: Error) {
        operation.refused(self, &error);
        self.hold(ticket, Err(error));
    }

    /// Returns the reason why a draft accepts nothing more.
    fn spoiled(&self, operation: &O) -> Option<Error> {
        let draft = operation.draft().filter(|_| operation.needs_whole_draft())?;
        lock(&self.state.spoiled).get(&draft).cloned()
    }

    fn act(&mut self, ticket: Ticket, operation: O, fault: Option<(FaultEffect, FaultCondition)>) {
        if let Some(error) = self.spoiled(&operation) {
            return self.refuse(ticket, operation, error);
        }
        let Some((fault, when)) = fault else {
            return match operation.stand_in(self) {
                Ok(result) => self.hold(ticket, result),
                Err(operation) => self.pass(ticket, operation),
            };
        };
        match fault {
            FaultEffect::Error(kind) => self.refuse(ticket, operation, planned(kind)),
            FaultEffect::Unheard(kind) => {
                let mut operation = operation;
                if !operation.make_unheard(&self.state, &planned(kind)) {
                    return self.refuse(ticket, operation, planned(kind));
                }
                let _done = self.ask(operation);
                self.hold(ticket, Err(planned(kind)));
            }
            FaultEffect::OneEntry(kind) if !operation.has_entries() => {
                self.refuse(ticket, operation, planned(kind));
            }
            FaultEffect::OneEntry(kind) => {
                let result = operation.one_entry(self, &when, planned(kind));
                self.hold(ticket, result);
            }
            FaultEffect::ShortRead => {
                let result = self.ask(operation).map(O::shorten);
                self.hold(ticket, result);
            }
            FaultEffect::Undescribed => {
                let result = self.ask(operation).map(O::undescribe);
                self.hold(ticket, result);
            }
            FaultEffect::LaneLost => {
                self.hold(ticket, Err(planned(ErrorKind::ConnectionLost)));
                self.die();
            }
            FaultEffect::Silence => {
                self.state.silent.store(true, Relaxed);
                self.pass(ticket, operation);
            }
            FaultEffect::Call(call) => {
                call();
                self.pass(ticket, operation);
            }
        }
    }

    fn die(&mut self) {
        self.dead = true;
        for completion in &mut self.held {
            completion.result = Err(planned(ErrorKind::ConnectionLost));
        }
    }

    /// Waits as if no completion arrived. Returns true once the endpoint is interrupted.
    fn stay_silent(&mut self, wait: CompletionWait) -> bool {
        let mut rest = match wait {
            CompletionWait::Now => Duration::ZERO,
            CompletionWait::For(limit) => limit,
            CompletionWait::Forever => Duration::MAX,
        };
        while !self.state.interrupted.load(Relaxed) {
            if rest.is_zero() {
                return false;
            }
            let nap = rest.min(SILENT_WAIT);
            std::thread::sleep(nap);
            rest -= nap;
        }
        true
    }
}

impl<O: Fallible> Lane<O> for FaultyLane<O>
where
    O::Inner: Lane<O>,
{
    fn submit(&mut self, ticket: Ticket, operation: O) -> std::result::Result<(), O> {
        if !self.dead && !self.held.is_empty() && self.random.per_mille(self.state.plan.full_per_mille) {
            return Err(operation);
        }
        let logged = LoggedOperation {
            lane: self.index,
            kind: operation.kind(),
            paths: operation.paths(&self.state),
            draft: operation.draft(),
            has_digest: operation.has_digest(),
        };
        let fault = if self.dead { None } else { self.state.strike(&logged, &mut self.random) };
        lock(&self.state.log).push(logged);
        if self.dead {
            self.hold(ticket, Err(planned(ErrorKind::ConnectionLost)));
            return Ok(());
        }
        self.act(ticket, operation, fault);
        Ok(())
    }

    fn reap(&mut self, wait: CompletionWait) -> Option<Completion<O::Outcome>> {
        if self.state.silent.load(Relaxed) && !self.dead {
            if !self.stay_silent(wait) {
                return None;
            }
            self.hold(Ticket::MAX, Err(planned(ErrorKind::ConnectionLost)));
            self.die();
        }
        while !self.dead
            && let Some(completion) = self.inner.reap(CompletionWait::Now)
        {
            self.held.push(completion);
        }
        if self.held.is_empty() {
            return if self.dead { None } else { self.inner.reap(wait) };
        }
        if self.state.plan.late && wait == CompletionWait::Now {
            return None;
        }
        let few = self.held.len() < self.state.plan.held_max;
        if few && wait != CompletionWait::Forever && self.random.per_mille(500) {
            return None;
        }
        let index = if self.state.plan.held_max > 0 { self.random.below(self.held.len()) } else { 0 };
        Some(self.held.remove(index))
    }

    fn flush(&mut self) {
        self.inner.flush();
    }
}

impl TargetLane for FaultyLane<TargetOp> {
    fn piece_buffer(&mut self) -> PieceBuffer {
        self.inner.piece_buffer()
    }

    fn pack_buffer(&mut self) -> Vec<u8> {
        self.inner.pack_buffer()
    }

    fn recycle(&mut self, buffer: PieceBuffer) {
        self.inner.recycle(buffer);
    }
}

/// Inserts a failure into a list of failures whose indices do not count its entry yet.
pub(super) fn insert(failures: &mut Vec<(u32, Error)>, index: u32, error: Error) {
    failures.iter_mut().for_each(|(other, _)| *other += u32::from(*other >= index));
    let place = failures.partition_point(|(other, _)| *other < index);
    failures.insert(place, (index, error));
}
