//! Lanes: pairs of queues, one of operations and one of completions.

use std::fmt::Debug;
use std::time::Duration;

use crate::error::Result;

/// A number chosen by the submitter to recognise the completion.
pub type Ticket = u64;

/// The time to wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionWait {
    /// Do not wait.
    Now,
    /// Wait at most this long.
    For(Duration),
    /// Wait until there is one, or until it is certain that none will come.
    Forever,
}

/// An operation of a lane: [`SourceOp`](super::SourceOp) or [`TargetOp`](super::TargetOp).
pub trait Operation: Debug + Send + 'static {
    /// The outcome of an operation that succeeds.
    type Outcome: Debug + Send + 'static;
}

/// A connection to an endpoint, owned by one thread.
pub trait Lane<O: Operation>: Send {
    /// Begins an operation.
    ///
    /// # Errors
    /// Returns the operation if the queue is full: reap first.
    fn submit(&mut self, ticket: Ticket, operation: O) -> std::result::Result<(), O>;

    /// Returns the next completion. `None` means that there is none within `wait`, that nothing is in flight, or that
    /// an operation was last rejected and would be accepted now. A lane that has failed as a whole returns an error for
    /// `Ticket::MAX`; after that it is unusable.
    fn reap(&mut self, wait: CompletionWait) -> Option<Completion<O::Outcome>>;

    /// Sends operations that have been submitted but are held back to be sent together with more.
    fn flush(&mut self) {}
}

/// A finished operation, successful or not.
#[derive(Debug)]
pub struct Completion<T> {
    /// The submitter's number.
    pub ticket: Ticket,
    /// The outcome or the error.
    pub result: Result<T>,
}
