//! The body of a request: pieces that are sent as they are.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::counts::RequestCounters;

/// The most bytes handed to the connection at once. Progress is seen in these steps.
const STEP_BYTES: usize = 256 << 10;

/// Pieces of content, and the number of bytes that the connection has taken.
pub(crate) struct ContentBody {
    pieces: VecDeque<Bytes>,
    left: u64,
    taken: Arc<AtomicU64>,
    counters: Arc<RequestCounters>,
}

impl ContentBody {
    /// Creates a body. `taken` counts the bytes that the connection takes.
    pub(crate) fn new(pieces: &[Bytes], taken: Arc<AtomicU64>, counters: Arc<RequestCounters>) -> Self {
        let pieces: VecDeque<Bytes> = pieces.iter().filter(|piece| !piece.is_empty()).cloned().collect();
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, left, taken, counters }
    }
}

impl Body for ContentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(first) = self.pieces.front_mut() else { return Poll::Ready(None) };
        let step = first.split_to(first.len().min(STEP_BYTES));
        if first.is_empty() {
            self.pieces.pop_front();
        }
        self.left -= step.len() as u64;
        self.taken.fetch_add(step.len() as u64, Ordering::Relaxed);
        self.counters.add_sent(step.len());
        Poll::Ready(Some(Ok(Frame::data(step))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
