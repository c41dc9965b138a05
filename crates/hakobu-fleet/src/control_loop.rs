//! The thread that owns the leader. Brokers' requests and everything that the interface asks for come through one bounded
//! queue, so that what arrives together is written to the ledger together.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};

use crate::bus::{CallSink, IncomingCall};
use crate::change::{LedgerAnswer, LedgerChange};
use crate::leader::Leader;

/// The maximum number of requests that wait.
const QUEUE_MAX: usize = 4096;
/// The maximum number of requests that are handled before the ledger is written.
const BATCH_MAX: usize = 512;
/// The time between two looks at what is due.
const TICK: Duration = Duration::from_millis(100);

/// The inputs of the loop.
enum ControlInput {
    Call(IncomingCall),
    Work(Box<dyn FnOnce(&mut Leader) + Send>),
    Stop,
}

/// The end of the queue at which requests are put.
#[derive(Clone)]
pub struct ControlHandle(SyncSender<ControlInput>);

/// The queue of a loop that has not begun.
pub struct ControlQueue(Receiver<ControlInput>);

/// Creates a queue.
pub fn queue() -> (ControlHandle, ControlQueue) {
    let (put, take) = sync_channel(QUEUE_MAX);
    (ControlHandle(put), ControlQueue(take))
}

impl ControlHandle {
    /// Passes a broker's request to the leader.
    ///
    /// # Errors
    /// `TimedOut` if too many wait, and `ConnectionLost` if the loop has ended. The request is dropped.
    pub fn call(&self, call: IncomingCall) -> Result<()> {
        self.put(ControlInput::Call(call))
    }

    /// Has the leader do something. It must not take long: brokers wait meanwhile.
    ///
    /// # Errors
    /// As for [`ControlHandle::call`].
    pub fn spawn(&self, work: impl FnOnce(&mut Leader) + Send + 'static) -> Result<()> {
        self.put(ControlInput::Work(Box::new(work)))
    }

    /// Has the leader do something, and waits for its result.
    ///
    /// # Errors
    /// As for [`ControlHandle::call`].
    pub fn ask<T: Send + 'static>(&self, work: impl FnOnce(&mut Leader) -> T + Send + 'static) -> Result<T> {
        let (put, result) = sync_channel(1);
        self.spawn(move |leader| {
            let _nobody_waits = put.try_send(work(leader));
        })?;
        result.recv().map_err(|_| ended())
    }

    /// Has a change applied, and waits until it is durable.
    ///
    /// # Errors
    /// As for [`ControlHandle::call`], and those of the ledger.
    pub fn apply(&self, change: LedgerChange) -> Result<LedgerAnswer> {
        let (put, result) = sync_channel(1);
        self.spawn(move |leader| {
            leader.change(
                change,
                Box::new(move |answer| {
                    let _nobody_waits = put.try_send(answer);
                }),
            );
        })?;
        result.recv().map_err(|_| ended())?
    }

    /// Ends the loop after what was put before.
    pub fn stop(&self) {
        let _has_ended = self.0.send(ControlInput::Stop);
    }

    fn put(&self, input: ControlInput) -> Result<()> {
        self.0.try_send(input).map_err(|error| match error {
            TrySendError::Full(_) => {
                Error::new(ErrorKind::TimedOut, "asking the control plane", "too many requests wait there")
            }
            TrySendError::Disconnected(_) => ended(),
        })
    }
}

impl CallSink for ControlHandle {
    fn pass_on(&self, call: IncomingCall) -> Result<()> {
        self.call(call)
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::ConnectionLost, "asking the control plane", "it has ended")
}

impl ControlQueue {
    /// Runs the loop until it is stopped. Returns the leader.
    pub fn run(self, mut leader: Leader) -> Leader {
        let mut next_tick = Instant::now();
        loop {
            let wait = next_tick.saturating_duration_since(Instant::now());
            match self.0.recv_timeout(wait) {
                Ok(input) => {
                    if self.take_batch(&mut leader, input) {
                        return leader;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return leader,
            }
            if Instant::now() >= next_tick {
                leader.tick();
                next_tick = Instant::now() + TICK;
            }
        }
    }

    /// Handles a request and those that wait behind it. Returns true if one of them is the end.
    fn take_batch(&self, leader: &mut Leader, first: ControlInput) -> bool {
        let mut is_end = take(leader, first);
        for input in self.0.try_iter().take(BATCH_MAX) {
            if is_end {
                break;
            }
            is_end = take(leader, input);
        }
        leader.flush();
        is_end
    }
}

/// Handles one request. Returns true if it is the end.
fn take(leader: &mut Leader, input: ControlInput) -> bool {
    match input {
        ControlInput::Call(call) => leader.take_call(call),
        ControlInput::Work(work) => {
            // It may read what an earlier request has changed.
            leader.flush();
            work(leader);
        }
        ControlInput::Stop => return true,
    }
    false
}
