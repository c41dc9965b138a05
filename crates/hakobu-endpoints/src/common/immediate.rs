//! Lanes whose operations are complete when `submit` returns.

use std::collections::VecDeque;

use hakobu_core::Result;
use hakobu_core::endpoint::{
    Completion, CompletionWait, Lane, Operation, PieceBuffer, TargetLane, TargetOp, Ticket,
};

use super::buffers::Buffers;

/// The maximum number of completions that wait to be reaped.
const COMPLETIONS_MAX: usize = 1024;

/// The work of such a lane.
pub trait ImmediateWork: Send {
    /// The operations of this kind of lane.
    type Op: Operation;

    /// Performs an operation. Returns `None` if there is nothing to answer.
    fn perform(&mut self, operation: Self::Op) -> Option<Result<<Self::Op as Operation>::Outcome>>;
}

/// The work of a target lane, which owns buffers.
pub(crate) trait ImmediateTarget {
    /// Returns the buffers that are handed out for operations and come back with them.
    fn buffers(&mut self) -> &mut Buffers;
}

/// A lane that performs this work.
#[derive(Debug)]
pub struct AtOnce<W: ImmediateWork> {
    pub(crate) work: W,
    completions: VecDeque<Completion<<W::Op as Operation>::Outcome>>,
}

impl<W: ImmediateWork> AtOnce<W> {
    pub(crate) fn new(work: W) -> Self {
        Self { work, completions: VecDeque::new() }
    }
}

impl<W: ImmediateWork> Lane<W::Op> for AtOnce<W> {
    fn submit(&mut self, ticket: Ticket, operation: W::Op) -> std::result::Result<(), W::Op> {
        if self.completions.len() >= COMPLETIONS_MAX {
            return Err(operation);
        }
        if let Some(result) = self.work.perform(operation) {
            self.completions.push_back(Completion { ticket, result });
        }
        Ok(())
    }

    fn reap(&mut self, _wait: CompletionWait) -> Option<Completion<<W::Op as Operation>::Outcome>> {
        self.completions.pop_front()
    }
}

impl<W: ImmediateWork<Op = TargetOp> + ImmediateTarget> TargetLane for AtOnce<W> {
    fn piece_buffer(&mut self) -> PieceBuffer {
        self.work.buffers().piece()
    }

    fn pack_buffer(&mut self) -> Vec<u8> {
        self.work.buffers().pack()
    }

    fn recycle(&mut self, buffer: PieceBuffer) {
        self.work.buffers().return_piece(buffer);
    }
}
