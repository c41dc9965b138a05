//! The driver of a lane's requests: a runtime on the lane's own thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hakobu_core::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};

use crate::common::flag_waker::FlagWaker;
use crate::common::future_lane::LaneDriver;

/// The most bytes of content that the operations of a lane hold, besides parts that are being sent.
const WINDOW_BYTES: usize = 8 << 20;
/// The longest time between two looks at the flag that ends a run.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The times that connections get their turn where nobody waits.
const TURNS: usize = 2;

/// The bytes of parts that a lane is sending.
#[derive(Clone, Debug, Default)]
pub(crate) struct BytesInFlight(Arc<AtomicUsize>);

/// Bytes that count as in flight until this is dropped.
pub(crate) struct FlightGuard(BytesInFlight, usize);

impl BytesInFlight {
    pub(crate) fn add(&self, bytes: usize) -> FlightGuard {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        FlightGuard(self.clone(), bytes)
    }

    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// The runtime of a lane.
pub(crate) struct RuntimeDriver {
    runtime: Runtime,
    ended: Arc<AtomicBool>,
    in_flight: BytesInFlight,
    /// The most bytes of parts in flight at which another operation is accepted.
    in_flight_max: usize,
}

impl RuntimeDriver {
    /// Returns a driver. Setting `ended` makes its lane fail.
    ///
    /// # Errors
    /// If the system refuses what a runtime needs.
    pub(crate) fn new(ended: &Arc<AtomicBool>, in_flight: &BytesInFlight, part_bytes: u64) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| Error::new(ErrorKind::Io, "starting a lane", error.to_string()))?;
        let in_flight_max = usize::try_from(part_bytes).unwrap_or(usize::MAX).max(WINDOW_BYTES);
        Ok(Self { runtime, ended: Arc::clone(ended), in_flight: in_flight.clone(), in_flight_max })
    }

    /// Calls `f` where connections can be opened.
    pub(crate) fn within<T>(&self, f: impl FnOnce() -> T) -> T {
        let _context = self.runtime.enter();
        f()
    }

    /// Runs a future to its end.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl LaneDriver for RuntimeDriver {
    fn is_full(&self, held_bytes: usize) -> bool {
        held_bytes >= WINDOW_BYTES || self.in_flight.bytes() > self.in_flight_max
    }

    fn enter(&self, poll: &mut dyn FnMut()) {
        let _context = self.runtime.enter();
        poll();
    }

    fn pump(&mut self, wait: Duration, woken: &FlagWaker) {
        let wait = wait.min(LOOK_EVERY);
        self.runtime.block_on(async {
            if wait.is_zero() {
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            } else {
                let _elapsed = tokio::time::timeout(wait, woken.woken()).await;
            }
        });
    }

    fn failure(&self) -> Option<Error> {
        let is_ended = self.ended.load(Ordering::Relaxed);
        is_ended.then(|| Error::new(ErrorKind::Cancelled, "copying", "stopped as asked"))
    }
}
