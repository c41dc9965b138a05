//! A lane: operations of the engine, each a chain of requests, many of them under way on one connection.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use hakobu_core::Result;
use hakobu_core::endpoint::{Completion, Lane, Operation, PieceBuffer, TargetLane, TargetOp, Ticket, Wait};

use super::server::{Server, Woken};
use crate::common::buffers::Buffers;

/// How many operations may be under way.
const OPERATIONS_MAX: usize = 512;
/// How many bytes of content may be under way. OpenSSH's window for a channel is 2 MiB; as much again is ready to follow.
const WINDOW_BYTES: usize = 4 << 20;
/// How many bytes may wait to be written. What waits longer has left the processor's cache by then, and what is left at the
/// end of a file is waited for, while other lanes have nothing to do any more.
const UNSENT_BYTES: usize = 512 << 10;

/// An operation under way: what is told in the end, if anything.
pub(crate) type Course<T> = Pin<Box<dyn Future<Output = Option<Result<T>>> + Send>>;

/// The same with the submitter's number and the bytes that it holds.
type Ticketed<T> = Pin<Box<dyn Future<Output = (Ticket, usize, Option<Result<T>>)> + Send>>;

/// What comes of the operations of a lane's work.
type OutcomeOf<W> = <<W as Work>::Op as Operation>::Outcome;

/// What a lane does.
pub(crate) trait Work: Send + Sync + 'static {
    /// The operations of this kind of lane.
    type Op: Operation;

    /// Returns how many bytes of content an operation holds until it has ended.
    fn held_bytes(operation: &Self::Op) -> usize;

    /// Returns the course of an operation. Its first requests go out in the order of the calls.
    fn course(self: Arc<Self>, operation: Self::Op) -> Course<<Self::Op as Operation>::Outcome>;
}

/// Work of a target, which owns buffers.
pub(crate) trait Buffered {
    /// Returns the buffers that come and go with the operations.
    fn store(&self) -> &Store;
}

/// The buffers of a lane, which its operations give back.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Mutex<Buffers>>);

impl Store {
    pub(crate) fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane that does this work on a connection of its own.
pub(crate) struct Queue<W: Work> {
    work: Arc<W>,
    server: Server,
    courses: FuturesUnordered<Ticketed<OutcomeOf<W>>>,
    held_bytes: usize,
    /// An operation was handed back, and its submitter waits for room.
    room_is_due: bool,
    completions: VecDeque<Completion<OutcomeOf<W>>>,
    woken: Arc<Woken>,
}

impl<W: Work> Queue<W> {
    pub(crate) fn new(work: Arc<W>, server: Server) -> Self {
        let (courses, completions) = (FuturesUnordered::new(), VecDeque::new());
        let woken = Woken::new();
        Self { work, server, courses, held_bytes: 0, room_is_due: false, completions, woken }
    }

    fn is_full(&self) -> bool {
        let full = self.courses.len() >= OPERATIONS_MAX
            || self.completions.len() >= OPERATIONS_MAX
            || self.held_bytes >= WINDOW_BYTES
            || self.held_bytes > 0 && self.server.connection.unsent_bytes() >= UNSENT_BYTES;
        full && !self.courses.is_empty()
    }

    /// Goes on with whatever can go on.
    fn advance(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            while let Poll::Ready(Some((ticket, held_bytes, told))) =
                self.courses.poll_next_unpin(&mut Context::from_waker(&waker))
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

impl<W: Work> Lane<W::Op> for Queue<W> {
    fn submit(&mut self, ticket: Ticket, operation: W::Op) -> std::result::Result<(), W::Op> {
        self.room_is_due = self.is_full();
        if self.room_is_due {
            return Err(operation);
        }
        let held_bytes = W::held_bytes(&operation);
        self.held_bytes += held_bytes;
        let course = Arc::clone(&self.work).course(operation);
        self.courses.push(Box::pin(async move { (ticket, held_bytes, course.await) }));
        self.advance();
        self.server.pump(Duration::ZERO);
        Ok(())
    }

    fn reap(&mut self, wait: Wait) -> Option<Completion<OutcomeOf<W>>> {
        let end = match wait {
            Wait::Now => Some(Instant::now()),
            Wait::For(limit) => Some(Instant::now() + limit),
            Wait::Forever => None,
        };
        loop {
            self.advance();
            if let Some(completion) = self.completions.pop_front() {
                return Some(completion);
            }
            // Most writes end without a completion: whoever waits for room would wait until all have.
            if self.courses.is_empty() || self.room_is_due && !self.is_full() {
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

impl<W: Work<Op = TargetOp> + Buffered> TargetLane for Queue<W> {
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
