//! Lanes: pairs of queues, one of operations and one of completions.

use std::fmt::Debug;
use std::time::Duration;

use crate::error::Result;

/// A number that the submitter chose, to recognise the completion.
pub type Ticket = u64;

/// How long to wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Now,
    /// At most this long.
    For(Duration),
    /// Until there is one, or until it is certain that none will come.
    Forever,
}

/// Something that a lane can be asked to do: [`SourceOp`](super::SourceOp) or [`TargetOp`](super::TargetOp).
pub trait Operation: Debug + Send + 'static {
    /// What comes of an operation that succeeds.
    type Outcome: Debug + Send + 'static;
}

/// One way into an endpoint, owned by one thread.
pub trait Lane<O: Operation>: Send {
    /// Begins an operation. An operation comes back when the queue is full: reap first.
    fn submit(&mut self, ticket: Ticket, operation: O) -> std::result::Result<(), O>;

    /// Returns the next completion. `None`: none within `wait`, or nothing is under way, or an operation was handed back
    /// last and would be taken now. A lane that has failed as a whole says so with an error for `Ticket::MAX`; nothing
    /// else will come of it.
    fn reap(&mut self, wait: Wait) -> Option<Completion<O::Outcome>>;

    /// Sends what has been submitted and is still held back to travel with more.
    fn flush(&mut self) {}
}

/// An operation that ended, one way or the other.
#[derive(Debug)]
pub struct Completion<T> {
    /// The submitter's number.
    pub ticket: Ticket,
    /// What came of it.
    pub result: Result<T>,
}
