//! A lane whose operations are futures: chains of requests, many of which are pending at a time. They run on the lane's
//! own thread, and a [`LaneDriver`] moves their bytes.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use hakobu_core::endpoint::{
    Completion, CompletionWait, Lane, Operation, PieceBuffer, TargetLane, TargetOp, Ticket,
};
use hakobu_core::{Error, Result};

use super::buffers::Buffers;
use super::flag_waker::FlagWaker;

/// The maximum number of pending operations.
const OPERATIONS_MAX: usize = 512;

/// The connection of a lane, or its connections.
pub(crate) trait LaneDriver: Send {
    /// Returns true if nothing more should be submitted now. `held_bytes`: the bytes of content that pending operations
    /// hold.
    fn is_full(&self, held_bytes: usize) -> bool;

    /// Calls `poll` where the futures of this lane can be polled.
    fn enter(&self, poll: &mut dyn FnMut());

    /// Returns the error that ends the lane, if there is one that no operation returns.
    fn failure(&self) -> Option<Error> {
        None
    }

    /// Transfers bytes for at most `wait`, or until a future can make progress, which `woken` shows.
    fn pump(&mut self, wait: Duration, woken: &FlagWaker);
}

/// A pending operation. It resolves to the completion's result, if there is a completion.
pub(crate) type PendingOperation<T> = Pin<Box<dyn Future<Output = Option<Result<T>>> + Send>>;

/// A pending operation with its ticket and the bytes that it holds.
type TicketedOperation<T> = Pin<Box<dyn Future<Output = (Ticket, usize, Option<Result<T>>)> + Send>>;

/// The outcome of the operations of a lane's work.
type OutcomeOf<W> = <<W as LaneWork>::Op as Operation>::Outcome;

/// The work of a lane.
pub(crate) trait LaneWork: Send + Sync + 'static {
    /// The operations of this kind of lane.
    type Op: Operation;

    /// Returns the number of bytes of content that an operation holds until it ends.
    fn held_bytes(operation: &Self::Op) -> usize;

    /// Returns the future that performs an operation. The first requests are sent in the order of the calls.
    fn start(self: Arc<Self>, operation: Self::Op) -> PendingOperation<<Self::Op as Operation>::Outcome>;
}

/// The work of a target, which owns buffers.
pub(crate) trait TargetLaneWork {
    /// Returns the buffers that are handed out for operations and come back with them.
    fn store(&self) -> &LaneBuffers;
}

/// The buffers of a lane, which its operations return.
#[derive(Clone, Default)]
pub(crate) struct LaneBuffers(Arc<Mutex<Buffers>>);

impl LaneBuffers {
    pub(crate) fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane that performs this work over its own connections.
pub(crate) struct FutureLane<W: LaneWork, D: LaneDriver> {
    work: Arc<W>,
    driver: D,
    running: FuturesUnordered<TicketedOperation<OutcomeOf<W>>>,
    held_bytes: usize,
    /// True if an operation was rejected and its submitter waits for room.
    room_is_due: bool,
    completions: VecDeque<Completion<OutcomeOf<W>>>,
    woken: Arc<FlagWaker>,
}

impl<W: LaneWork, D: LaneDriver> FutureLane<W, D> {
    pub(crate) fn new(work: Arc<W>, driver: D) -> Self {
        let (running, completions) = (FuturesUnordered::new(), VecDeque::new());
        let woken = FlagWaker::new();
        Self { work, driver, running, held_bytes: 0, room_is_due: false, completions, woken }
    }

    fn is_full(&self) -> bool {
        let full = self.running.len() >= OPERATIONS_MAX
            || self.completions.len() >= OPERATIONS_MAX
            || self.driver.is_full(self.held_bytes);
        full && !self.running.is_empty()
    }

    /// Polls all operations that can make progress.
    fn advance(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        let Self { driver, running, held_bytes, completions, woken, .. } = self;
        driver.enter(&mut || {
            loop {
                woken.reset();
                while let Poll::Ready(Some((ticket, bytes, told))) =
                    running.poll_next_unpin(&mut Context::from_waker(&waker))
                {
                    *held_bytes -= bytes;
                    completions.extend(told.map(|result| Completion { ticket, result }));
                }
                if !woken.is_set() {
                    return;
                }
            }
        });
    }
}

impl<W: LaneWork, D: LaneDriver> Lane<W::Op> for FutureLane<W, D> {
    fn submit(&mut self, ticket: Ticket, operation: W::Op) -> std::result::Result<(), W::Op> {
        self.room_is_due = self.is_full();
        if self.room_is_due {
            return Err(operation);
        }
        let held_bytes = W::held_bytes(&operation);
        self.held_bytes += held_bytes;
        let operation = Arc::clone(&self.work).start(operation);
        self.running.push(Box::pin(async move { (ticket, held_bytes, operation.await) }));
        self.advance();
        self.driver.pump(Duration::ZERO, &self.woken);
        Ok(())
    }

    fn reap(&mut self, wait: CompletionWait) -> Option<Completion<OutcomeOf<W>>> {
        let end = match wait {
            CompletionWait::Now => Some(Instant::now()),
            CompletionWait::For(limit) => Some(Instant::now() + limit),
            CompletionWait::Forever => None,
        };
        loop {
            self.advance();
            if let Some(completion) = self.completions.pop_front() {
                return Some(completion);
            }
            // Most writes end without a completion, so a submitter that waits for room would wait until all have ended.
            if self.running.is_empty() || self.room_is_due && !self.is_full() {
                return None;
            }
            if let Some(error) = self.driver.failure() {
                self.running.clear();
                self.held_bytes = 0;
                return Some(Completion { ticket: Ticket::MAX, result: Err(error) });
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            self.driver.pump(left.unwrap_or(Duration::MAX), &self.woken);
            if left == Some(Duration::ZERO) {
                self.advance();
                return self.completions.pop_front();
            }
        }
    }

    fn flush(&mut self) {
        self.advance();
        self.driver.pump(Duration::ZERO, &self.woken);
    }
}

impl<W: LaneWork<Op = TargetOp> + TargetLaneWork, D: LaneDriver> TargetLane for FutureLane<W, D> {
    fn piece_buffer(&mut self) -> PieceBuffer {
        self.work.store().buffers().piece()
    }

    fn pack_buffer(&mut self) -> Vec<u8> {
        self.work.store().buffers().pack()
    }

    fn recycle(&mut self, buffer: PieceBuffer) {
        self.work.store().buffers().return_piece(buffer);
    }
}
