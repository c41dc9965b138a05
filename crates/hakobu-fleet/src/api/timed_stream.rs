//! Connections that end if nothing could be written to them for a while: whoever sends slowly, reads slowly, or does neither.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// A listener with a limit on connections.
pub struct BoundedListener<L> {
    inner: L,
    places: Arc<Semaphore>,
    silent_max: Duration,
}

/// A connection with a limit on silence.
pub struct TimedStream<S> {
    inner: S,
    end: Pin<Box<Sleep>>,
    silent_max: Duration,
    _place: Option<OwnedSemaphorePermit>,
}

impl<L> BoundedListener<L> {
    /// Creates a listener that has at most so many connections at a time. Further ones wait to be accepted.
    pub fn new(inner: L, connections_max: usize, silent_max: Duration) -> Self {
        Self { inner, places: Arc::new(Semaphore::new(connections_max)), silent_max }
    }
}

impl<L: Listener<Addr = SocketAddr>> Listener for BoundedListener<L> {
    type Io = TimedStream<L::Io>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // The semaphore is never closed.
        let place = self.places.clone().acquire_owned().await.ok();
        let (inner, address) = self.inner.accept().await;
        let end = Box::pin(tokio::time::sleep(self.silent_max));
        (TimedStream { inner, end, silent_max: self.silent_max, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

impl<S> TimedStream<S> {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    fn wrote<T>(&mut self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(result, Poll::Ready(Ok(_))) {
            let end = Instant::now() + self.silent_max;
            self.end.as_mut().reset(end);
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let result = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Success here is no progress: there may be nothing to write.
        self.check(context)?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
