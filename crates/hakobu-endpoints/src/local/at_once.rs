//! Lanes whose operations are complete when `submit` returns.

use std::collections::VecDeque;

use hakobu_core::Result;
use hakobu_core::endpoint::{Completion, Lane, Operation, Outcome, PieceBuffer, Ticket, Wait};

use super::buffers::Buffers;

/// How many completions may wait to be taken.
const COMPLETIONS_MAX: usize = 1024;

/// What such a lane does.
pub(crate) trait Work: Send {
    /// `None` when there is nothing to answer.
    fn perform(&mut self, operation: Operation) -> Option<Result<Outcome>>;

    /// The buffers that come and go with the operations.
    fn buffers(&mut self) -> &mut Buffers;
}

/// A lane that does this work.
#[derive(Debug)]
pub struct AtOnce<W> {
    pub(crate) work: W,
    completions: VecDeque<Completion>,
}

impl<W> AtOnce<W> {
    pub(crate) fn new(work: W) -> Self {
        Self { work, completions: VecDeque::new() }
    }
}

impl<W: Work> Lane for AtOnce<W> {
    fn submit(&mut self, ticket: Ticket, operation: Operation) -> std::result::Result<(), Operation> {
        if self.completions.len() >= COMPLETIONS_MAX {
            return Err(operation);
        }
        if let Some(result) = self.work.perform(operation) {
            self.completions.push_back(Completion { ticket, result });
        }
        Ok(())
    }

    fn reap(&mut self, _wait: Wait) -> Option<Completion> {
        self.completions.pop_front()
    }

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
