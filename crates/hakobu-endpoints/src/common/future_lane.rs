//! A lane: operations of the engine, each a chain of requests, with many of them pending on one connection.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use hakobu_core::Result;
use hakobu_core::endpoint::{
    Completion, CompletionWait, Lane, Operation, PieceBuffer, TargetLane, TargetOp, Ticket,
};

use super::server::{FlagWaker, Server};
use crate::common::buffers::Buffers;

/// The maximum number of pending operations.
const OPERATIONS_MAX: usize = 512;
/// The maximum number of pending bytes of content. OpenSSH's window is 2 MiB; as much again is ready to follow.
const WINDOW_BYTES: usize = 4 << 20;
/// The maximum number of bytes that may wait to be written. Bytes that wait longer have left the processor's cache by
/// then, and a backlog at the end of a file delays its completion while other lanes are idle.
const UNSENT_BYTES: usize = 512 << 10;

/// A pending operation. It resolves to the completion's result, if there is a completion.
pub(crate) type PendingOperation<T> = Pin<Box<dyn Future<Output = Option<Result<T>>> + Send>>;

/// A pending operation with its ticket and the bytes that it holds.
type TicketedOperation<T> = Pin<Box<dyn Future<Output = (Ticket, usize, Option<Result<T>>)> + Send>>;

/// The outcome of the operations of a lane's work.
type OutcomeOf<W> = <<W as SftpWork>::Op as Operation>::Outcome;

/// The work of a lane.
pub(crate) trait SftpWork: Send + Sync + 'static {
    /// The operations of this kind of lane.
    type Op: Operation;

    /// Returns the number of bytes of content that an operation holds until it ends.
    fn held_bytes(operation: &Self::Op) -> usize;

    /// Returns the future that performs an operation. The first requests are sent in the order of the calls.
    fn start(self: Arc<Self>, operation: Self::Op) -> PendingOperation<<Self::Op as Operation>::Outcome>;
}

/// The work of a target, which owns buffers.
pub(crate) trait SftpTargetWork {
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

/// A lane that performs this work on its own connection.
pub(crate) struct SftpLane<W: SftpWork> {
    work: Arc<W>,
    server: Server,
    running: FuturesUnordered<TicketedOperation<OutcomeOf<W>>>,
    held_bytes: usize,
    /// True if an operation was rejected and its submitter waits for room.
    room_is_due: bool,
    completions: VecDeque<Completion<OutcomeOf<W>>>,
    woken: Arc<FlagWaker>,
}

impl<W: SftpWork> SftpLane<W> {
    pub(crate) fn new(work: Arc<W>, server: Server) -> Self {
        let (running, completions) = (FuturesUnordered::new(), VecDeque::new());
        let woken = FlagWaker::new();
        Self { work, server, running, held_bytes: 0, room_is_due: false, completions, woken }
    }

    fn is_full(&self) -> bool {
        let full = self.running.len() >= OPERATIONS_MAX
            || self.completions.len() >= OPERATIONS_MAX
            || self.held_bytes >= WINDOW_BYTES
            || self.held_bytes > 0 && self.server.connection.unsent_bytes() >= UNSENT_BYTES;
        full && !self.running.is_empty()
    }

    /// Polls all operations that can make progress.
    fn advance(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            while let Poll::Ready(Some((ticket, held_bytes, told))) =
                self.running.poll_next_unpin(&mut Context::from_waker(&waker))
            {
                self.held_bytes -= held_bytes;
                self.completions.extend(told.map(|result| Completion { ticket, result }));
            }
            if !self.woken.0.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl<W: SftpWork> Lane<W::Op> for SftpLane<W> {
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
        self.server.pump(Duration::ZERO);
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
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            self.server.pump(left.unwrap_or(Duration::MAX));
            if left == Some(Duration::ZERO) {
                self.advance();
                return self.completions.pop_front();
            }
        }
    }

    fn flush(&mut self) {
        self.advance();
        self.server.pump(Duration::ZERO);
    }
}

impl<W: SftpWork<Op = TargetOp> + SftpTargetWork> TargetLane for SftpLane<W> {
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
