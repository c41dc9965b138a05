//! A server after the greeting: its abilities, and blocking waits for requests.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hakobu_core::{Error, ErrorKind, Result};

use super::connection::{Channel, SftpConnection};
use super::requests::{FileSystemSpace, RequestResult};
use super::wire::{Packet, read_version};
use crate::common::flag_waker::FlagWaker;
use crate::common::future_lane::LaneDriver;

/// The maximum time until a server sends its version. It includes the time for a password prompt of ssh.
pub(crate) const GREETING_LIMIT: Duration = Duration::from_secs(120);
/// The number of bytes per request that every server accepts, according to the draft standard.
const TRANSFER_BYTES: usize = 32 * 1024;
/// The maximum number of small files that are open on a connection.
const HANDLES_MAX: usize = 256;
/// The operation named in errors.
const GREETING: &str = "greeting the sftp server";
/// The maximum number of bytes that are requested or sent at once.
const TRANSFER_BYTES_MAX: usize = 255 * 1024;
/// The time without progress after which the stop flags are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The maximum number of bytes of content that operations of a lane hold. OpenSSH's window is 2 MiB; as much again is
/// ready to follow.
const WINDOW_BYTES: usize = 4 << 20;
/// The maximum number of bytes that may wait to be written. Bytes that wait longer have left the processor's cache by
/// then, and a backlog at the end of a file delays its completion while other lanes are idle.
const UNSENT_BYTES: usize = 512 << 10;

/// The extensions that a server offers beyond version 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerExtensions {
    /// A rename can replace an existing entry atomically.
    pub renames_over: bool,
    /// A file can be flushed to stable storage.
    pub syncs: bool,
    /// Hard links can be created.
    pub hard_links: bool,
    /// Attributes of a symbolic link can be set.
    pub sets_links: bool,
    /// The server reports the free space.
    pub tells_room: bool,
}

/// A server at the other end of a connection.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) connection: SftpConnection,
    pub(crate) abilities: ServerExtensions,
    /// The number of bytes per read request.
    pub(crate) read_bytes: usize,
    /// The number of bytes per write request.
    pub(crate) write_bytes: usize,
    /// The maximum number of small files that may be open.
    pub(crate) handles: usize,
    /// True if the server reports these limits.
    tells_limits: bool,
    /// True if the server has returned less than requested before the end of a file.
    pub(crate) answers_short: Arc<AtomicBool>,
    /// The time that the server took to report its limits.
    pub(crate) took: Option<Duration>,
    /// Flags, each of which ends every wait.
    stops: [Arc<AtomicBool>; 2],
}

impl Server {
    /// Greets the server behind a channel, within a time limit. `cancel` ends every wait. Limits are taken from `known`
    /// if that server has the same abilities.
    ///
    /// # Errors
    /// `ConnectionLost` if the connection ends, `TimedOut` if the server does not answer, `Protocol` or `Unsupported`
    /// if it is not a server of version 3.
    pub(crate) fn greet(
        channel: Channel,
        cancel: Arc<AtomicBool>,
        limit: Duration,
        known: Option<&Self>,
    ) -> Result<Self> {
        let connection = SftpConnection::new(channel)?;
        connection.send(Packet::greeting);
        let version = greeted(&connection, &cancel, limit)?;
        let extensions = read_version(&version)?;
        let has = |name: &[u8], version: &[u8]| {
            extensions.iter().any(|(known, what)| known == name && what == version)
        };
        let tells_limits = has(b"limits@openssh.com", b"1");
        let abilities = ServerExtensions {
            renames_over: has(b"posix-rename@openssh.com", b"1"),
            syncs: has(b"fsync@openssh.com", b"1"),
            hard_links: has(b"hardlink@openssh.com", b"1"),
            sets_links: has(b"lsetstat@openssh.com", b"1"),
            tells_room: has(b"statvfs@openssh.com", b"2"),
        };
        let mut server = Self {
            connection,
            abilities,
            read_bytes: TRANSFER_BYTES,
            write_bytes: TRANSFER_BYTES,
            handles: HANDLES_MAX,
            tells_limits,
            answers_short: Arc::default(),
            took: None,
            stops: [cancel, Arc::default()],
        };
        let known = known.filter(|known| (known.abilities, known.tells_limits) == (abilities, tells_limits));
        if let Some(known) = known {
            (server.read_bytes, server.write_bytes, server.handles) =
                (known.read_bytes, known.write_bytes, known.handles);
        } else if tells_limits {
            server.ask_limits();
        }
        match server.connection.has_failed() {
            true => {
                Err(Error::new(ErrorKind::ConnectionLost, GREETING, "it ended as soon as it was greeted"))
            }
            false => Ok(server),
        }
    }

    fn ask_limits(&mut self) {
        let (asking, asked) = (self.connection.clone(), Instant::now());
        let Ok((read, write, handles)) = self.wait(async { asking.limits().await }) else { return };
        self.took = Some(asked.elapsed());
        // Zero means "no limit".
        let length = |limit: u64| match usize::try_from(limit) {
            Ok(0) | Err(_) => TRANSFER_BYTES_MAX,
            Ok(limit) => limit.clamp(1024, TRANSFER_BYTES_MAX),
        };
        (self.read_bytes, self.write_bytes) = (length(read), length(write));
        // Large files and directories need handles as well.
        let half = usize::try_from(handles / 2).unwrap_or(usize::MAX);
        self.handles = if half == 0 { HANDLES_MAX } else { half.min(HANDLES_MAX) };
    }

    /// Returns the server with waits that do not end when the run is stopped.
    pub(crate) fn uncancelled(&self) -> Self {
        Self { stops: Default::default(), ..self.clone() }
    }

    /// Returns the server for the lanes of an endpoint, whose waits also end when `ended` is set.
    pub(crate) fn until(&self, ended: &Arc<AtomicBool>) -> Self {
        Self { stops: [Arc::clone(&self.stops[0]), Arc::clone(ended)], ..self.clone() }
    }

    /// Waits for a future on this connection, on which nothing else is pending.
    pub(crate) fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        let mut what = pin!(what);
        loop {
            if let Some(done) = self.wait_until(None, what.as_mut()) {
                return done;
            }
        }
    }

    /// Waits for a future for a limited time. Returns `None` if it is not ready by then.
    pub(crate) fn wait_for<T>(&self, limit: Duration, what: impl Future<Output = T>) -> Option<T> {
        self.wait_until(Some(Instant::now() + limit), pin!(what))
    }

    fn wait_until<T>(&self, end: Option<Instant>, mut what: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let woken = FlagWaker::new();
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            woken.reset();
            if let Poll::Ready(done) = what.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(done);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return None;
            }
            if !woken.is_set() {
                self.pump(LOOK_EVERY);
            }
        }
    }

    /// Transfers bytes for at most `wait`. If the run was stopped, the connection is cut.
    pub(crate) fn pump(&self, wait: Duration) {
        if self.stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
            return self.connection.cut(stopped());
        }
        self.connection.pump(wait.min(LOOK_EVERY));
    }

    /// Returns the free space at a path, if the server reports it.
    pub(crate) async fn room(&self, path: &[u8], root: bool) -> RequestResult<Option<FileSystemSpace>> {
        match self.abilities.tells_room {
            true => self.connection.room(path, root).await.map(Some),
            false => Ok(None),
        }
    }
}

/// Waits for the server's first packet.
fn greeted(connection: &SftpConnection, cancel: &AtomicBool, limit: Duration) -> Result<Vec<u8>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(packet) = connection.raw_packet(LOOK_EVERY)? {
            return Ok(packet);
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        if Instant::now() > end {
            let words = format!("no answer within {} s", limit.as_secs());
            return Err(Error::new(ErrorKind::TimedOut, GREETING, words));
        }
    }
}

impl LaneDriver for Server {
    fn is_full(&self, held_bytes: usize) -> bool {
        held_bytes >= WINDOW_BYTES || held_bytes > 0 && self.connection.unsent_bytes() >= UNSENT_BYTES
    }

    fn enter(&self, poll: &mut dyn FnMut()) {
        poll();
    }

    fn pump(&mut self, wait: Duration, _woken: &FlagWaker) {
        Server::pump(self, wait);
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "copying", "stopped as asked")
}
