//! The runtime of a lane: one thread, which is the lane's own.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use hakobu_core::{Error, Result};

/// The times that tasks get their turn before something counts as not ready yet: connections read what has arrived, and
/// then the futures that wait for it continue.
const TURNS: usize = 3;

/// A runtime on the thread of its lane. Connections make progress only while it runs a future.
#[derive(Debug)]
pub struct LaneRuntime(tokio::runtime::Runtime);

impl LaneRuntime {
    /// Creates the runtime. No thread is started, except for the names of hosts.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new() -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        // A lane asks for the names of one or two hosts.
        let built = builder.enable_all().max_blocking_threads(2).build();
        built.map(Self).map_err(|error| Error::io("starting the connections of a lane", &error))
    }

    /// Runs a future to its end.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    /// Runs a future until it ends or the time is over. With no time at all, connections still read what has arrived
    /// and write what is ready.
    pub fn run_for<F: Future + Unpin>(&self, limit: Duration, future: &mut F) -> Option<F::Output> {
        self.0.block_on(async {
            if !limit.is_zero() {
                return tokio::time::timeout(limit, future).await.ok();
            }
            for _ in 0..TURNS {
                if let Some(output) = (&mut *future).now_or_never() {
                    return Some(output);
                }
                tokio::task::yield_now().await;
            }
            future.now_or_never()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_continues_where_the_time_was_over() {
        let runtime = LaneRuntime::new().unwrap();
        let (sender, mut receiver) = tokio::sync::oneshot::channel();
        assert!(runtime.run_for(Duration::ZERO, &mut receiver).is_none());
        assert!(runtime.run_for(Duration::from_millis(1), &mut receiver).is_none());
        sender.send(7).unwrap();
        assert_eq!(runtime.run_for(Duration::ZERO, &mut receiver), Some(Ok(7)));
    }

    #[test]
    fn no_time_is_enough_for_tasks_that_are_ready() {
        let runtime = LaneRuntime::new().unwrap();
        let mut task = runtime.0.spawn(async { 7 });
        assert_eq!(runtime.run_for(Duration::ZERO, &mut task).unwrap().unwrap(), 7);
    }
}
