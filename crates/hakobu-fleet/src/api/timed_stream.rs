//! Connections that end if nothing, or very little, could be written to them for a while: whoever sends slowly, reads slowly, or
//! does neither.

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

/// The number of bytes that a reader takes within the limit on silence while something waits for it: one that takes less is as
/// good as silent.
const TAKEN_BYTES_MIN: u64 = 64 << 10;

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
    /// The end of the time in which something waits, as long as it does.
    window: Pin<Box<Sleep>>,
    /// The number of bytes that were written in this time; none if nothing waits.
    taken: Option<u64>,
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
        (TimedStream::new(inner, self.silent_max, place), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

impl<S> TimedStream<S> {
    fn new(inner: S, silent_max: Duration, place: Option<OwnedSemaphorePermit>) -> Self {
        let [end, window] = [(); 2].map(|()| Box::pin(tokio::time::sleep(silent_max)));
        Self { inner, end, silent_max, window, taken: None, _place: place }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.end.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match self.taken {
            Some(taken) if self.window.as_mut().poll(context).is_ready() => {
                if taken < TAKEN_BYTES_MIN {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.begin_window(context);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Begins with the time in which something waits.
    fn begin_window(&mut self, context: &mut Context<'_>) {
        self.taken = Some(0);
        self.window.as_mut().reset(Instant::now() + self.silent_max);
        // It wakes the task, which nothing else may do.
        let _has_just_begun = self.window.as_mut().poll(context);
    }

    /// Notes that something waits to be written.
    fn waits(&mut self, context: &mut Context<'_>) {
        if self.taken.is_none() {
            self.begin_window(context);
        }
    }

    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &result {
            Poll::Ready(Ok(bytes)) => {
                self.end.as_mut().reset(Instant::now() + self.silent_max);
                self.taken = self.taken.map(|taken| taken.saturating_add(*bytes as u64));
            }
            Poll::Pending => self.waits(context),
            Poll::Ready(Err(_)) => {}
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
        self.wrote(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        self.wrote(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Success here is no progress: there may be nothing to write. But nothing waits any more.
        self.check(context)?;
        let result = Pin::new(&mut self.inner).poll_flush(context);
        match &result {
            Poll::Ready(_) => self.taken = None,
            Poll::Pending => self.waits(context),
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const SILENT_MAX: Duration = Duration::from_millis(300);

    fn stream(kept: usize) -> (TimedStream<DuplexStream>, DuplexStream) {
        let (inner, reader) = duplex(kept);
        (TimedStream::new(inner, SILENT_MAX, None), reader)
    }

    /// Reads so many bytes at a time, with a pause after each.
    fn read(mut reader: DuplexStream, bytes: usize, pause: Duration) {
        tokio::spawn(async move {
            let mut buffer = vec![0; bytes];
            while reader.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(pause).await;
            }
        });
    }

    #[tokio::test]
    async fn a_reader_that_takes_little_by_little_is_cut_off() {
        let (mut slow, reader) = stream(100);
        read(reader, 100, Duration::from_millis(20));
        let began = Instant::now();
        let error = slow.write_all(&vec![0; 1 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= SILENT_MAX && began.elapsed() < 10 * SILENT_MAX, "{:?}", began.elapsed());
        // One that takes enough is not, though it is never fast enough.
        let (mut steady, reader) = stream(4096);
        read(reader, 8192, Duration::from_millis(1));
        let began = Instant::now();
        while began.elapsed() < 3 * SILENT_MAX {
            steady.write_all(&[0; 8192]).await.unwrap();
        }
    }

    #[tokio::test]
    async fn small_messages_may_wait_if_each_is_taken() {
        let (mut stream, reader) = stream(8);
        read(reader, 8, Duration::from_millis(5));
        let began = Instant::now();
        while began.elapsed() < 3 * SILENT_MAX {
            stream.write_all(&[0; 16]).await.unwrap();
            stream.flush().await.unwrap();
        }
        tokio::time::sleep(2 * SILENT_MAX).await;
        assert_eq!(stream.write_all(&[0; 16]).await.unwrap_err().kind(), io::ErrorKind::TimedOut, "silent");
    }
}
