//! A waker for a thread that polls futures itself.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake};

use futures_util::task::AtomicWaker;

/// A waker that sets a flag, and wakes the task that waits for the flag, if there is one.
#[derive(Debug)]
pub(crate) struct FlagWaker {
    is_set: AtomicBool,
    waiting: AtomicWaker,
}

impl FlagWaker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { is_set: AtomicBool::new(false), waiting: AtomicWaker::new() })
    }

    pub(crate) fn reset(&self) {
        self.is_set.store(false, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits until the flag is set.
    pub(crate) async fn woken(&self) {
        poll_fn(|context| {
            self.waiting.register(context.waker());
            if self.is_set() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Wake for FlagWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        self.waiting.wake();
    }
}
