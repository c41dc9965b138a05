//! Limits the number of open files per connection, because servers have a limited number of handles.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Permits for open files, returned when they are dropped.
#[derive(Debug)]
pub(crate) struct HandleSemaphore(Mutex<PermitState>);

#[derive(Debug)]
struct PermitState {
    free: usize,
    waiting: VecDeque<Waker>,
}

/// The permit for one file.
#[derive(Debug)]
pub(crate) struct HandlePermit<'a>(&'a HandleSemaphore);

impl HandleSemaphore {
    /// Creates `count` permits, at least one.
    pub(crate) fn new(count: usize) -> Self {
        Self(Mutex::new(PermitState { free: count.max(1), waiting: VecDeque::new() }))
    }

    fn state(&self) -> MutexGuard<'_, PermitState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit.
    pub(crate) async fn take(&self) -> HandlePermit<'_> {
        poll_fn(|context| {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Poll::Ready(());
            }
            state.waiting.push_back(context.waker().clone());
            Poll::Pending
        })
        .await;
        HandlePermit(self)
    }
}

impl Drop for HandlePermit<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.free += 1;
        // All waiting tasks are woken, because one of them may no longer exist.
        state.waiting.drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn no_more_are_given_than_there_are() {
        let permits = HandleSemaphore::new(2);
        let one = permits.take().now_or_never().unwrap();
        let two = permits.take().now_or_never().unwrap();
        assert!(permits.take().now_or_never().is_none());
        drop(one);
        assert!(permits.take().now_or_never().is_some());
        drop(two);
    }
}
