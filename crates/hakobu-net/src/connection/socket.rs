//! The socket of a connection, with one attempt per call and byte counters. It is a TCP socket, or one end of a socket
//! pair whose other end belongs to an ssh process.

use std::io::IoSlice;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use hakobu_core::stopping;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};

use super::error::ConnectionResult;

/// The most bytes in the kernel's send buffer that are not yet sent. Without a limit it grows to megabytes, which a
/// lane that is to pause cannot take back and which other lanes wait behind.
///
/// The keep-alive settings below find an unreachable peer on an idle connection: the first probe is sent after 30 s,
/// then 6 more, 10 s apart. There is no limit on how long a peer may keep its window closed (`TCP_USER_TIMEOUT` would
/// be one): a target whose disk is busy for minutes is slow, not gone.
const UNSENT_MAX_BYTES: u32 = 256 << 10;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// The longest time that one call waits for bytes.
pub(super) const READ_LIMIT: Duration = Duration::from_secs(1);

/// The result of one attempt to receive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReceiveResult {
    Bytes(usize),
    NothingYet,
    End,
}

/// The operations that a socket is ready for. Errors make it ready for both, so that the next call reports them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Readiness {
    pub read: bool,
    pub write: bool,
}

#[derive(Debug)]
pub(super) struct Socket {
    stream: socket2::Socket,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// The time waited for input.
    pub input_waited: Duration,
    /// The time waited to send.
    pub output_waited: Duration,
}

impl Drop for Socket {
    /// Shuts the socket down, so that the peer learns of the end even while an interrupter holds a second descriptor of
    /// the same socket.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Socket {
    pub(super) fn new(stream: socket2::Socket) -> ConnectionResult<Self> {
        // Only TCP can lose its network path without notice. An ssh process watches its own connection.
        if sockopt::socket_domain(&stream)? == AddressFamily::UNIX {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(READ_LIMIT))?;
            return Ok(Self {
                stream,
                sent_bytes: 0,
                received_bytes: 0,
                input_waited: Duration::ZERO,
                output_waited: Duration::ZERO,
            });
        }
        sockopt::set_tcp_nodelay(&stream, true)?;
        // Blocking receives rely on this; sends always ask not to block.
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(READ_LIMIT))?;
        stream.set_tcp_notsent_lowat(UNSENT_MAX_BYTES)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
        Ok(Self {
            stream,
            sent_bytes: 0,
            received_bytes: 0,
            input_waited: Duration::ZERO,
            output_waited: Duration::ZERO,
        })
    }

    pub(super) fn stream(&self) -> &socket2::Socket {
        &self.stream
    }

    /// Sends as much as fits now. Returns `None` if nothing fits.
    pub(super) fn send(&mut self, parts: &[IoSlice<'_>]) -> ConnectionResult<Option<usize>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            let sent = match parts {
                [one] => rustix::net::send(&self.stream, one, flags),
                many => rustix::net::sendmsg(&self.stream, many, &mut SendAncillaryBuffer::default(), flags),
            };
            match sent {
                Ok(bytes) => {
                    self.sent_bytes += bytes as u64;
                    return Ok(Some(bytes));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives the available bytes. With `block` it waits up to [`READ_LIMIT`] for at least one byte.
    pub(super) fn receive(&mut self, into: &mut [u8], block: bool) -> ConnectionResult<ReceiveResult> {
        // Zero bytes received into an empty buffer would look like the end.
        debug_assert!(!into.is_empty());
        let flags = if block { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let began = block.then(Instant::now);
        let received = self.receive_with(into, flags);
        self.input_waited += began.map_or(Duration::ZERO, |began| began.elapsed());
        received
    }

    fn receive_with(&mut self, into: &mut [u8], flags: RecvFlags) -> ConnectionResult<ReceiveResult> {
        loop {
            match rustix::net::recv(&self.stream, &mut *into, flags) {
                Ok((_, 0)) => return Ok(ReceiveResult::End),
                Ok((_, bytes)) => {
                    self.received_bytes += bytes as u64;
                    return Ok(ReceiveResult::Bytes(bytes));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(ReceiveResult::NothingYet),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the socket is ready for one of the wanted operations. If it is ready for none, the deadline has
    /// passed or a stop was requested.
    pub(super) fn wait(
        &self,
        read: bool,
        write: bool,
        deadline: Option<Instant>,
    ) -> ConnectionResult<Readiness> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, read);
        wanted.set(PollFlags::OUT, write);
        let failed = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        loop {
            let mut polled = [PollFd::new(&self.stream, wanted)];
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let step = left.unwrap_or(Duration::MAX).min(stopping::LOOK_EVERY);
            let timeout = Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() };
            match rustix::event::poll(&mut polled, Some(&timeout)) {
                // Once a signal has come, there is no more waiting for a peer.
                Ok(0) if left.is_none_or(|left| step < left) && !stopping::is_asked() => {}
                Ok(_) => {
                    let ready = polled[0].revents();
                    return Ok(Readiness {
                        read: read && ready.intersects(PollFlags::IN | failed),
                        write: write && ready.intersects(PollFlags::OUT | failed),
                    });
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
