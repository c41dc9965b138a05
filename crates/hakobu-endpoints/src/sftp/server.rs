//! A server that has been greeted: what it can do, and questions that are waited for.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use hakobu_core::{Error, ErrorKind, Result};

use super::connection::{Channel, Connection};
use super::requests::{Done, Room};
use super::wire::{Packet, read_version};

/// How long a server may take to say its version. It covers the time in which ssh may ask the user for a password.
pub(crate) const GREETING_LIMIT: Duration = Duration::from_secs(120);
/// What every server takes in one request, as the draft has it.
const TRANSFER_BYTES: usize = 32 * 1024;
/// So many small files are open on a connection at a time.
const HANDLES_MAX: usize = 256;
/// What is done at first.
const GREETING: &str = "greeting the sftp server";
/// More than this is never asked for or sent at once.
const TRANSFER_BYTES_MAX: usize = 255 * 1024;
/// How long nothing may move before it is looked whether the run was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a server says that it can do besides version 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// A name can be taken over in one step.
    pub renames_over: bool,
    /// A file can be brought to stable storage.
    pub syncs: bool,
    /// Hard links can be made.
    pub hard_links: bool,
    /// Attributes of a symbolic link can be set.
    pub sets_links: bool,
    /// It tells how much room there is.
    pub tells_room: bool,
}

/// A server at the end of a connection.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) connection: Connection,
    pub(crate) abilities: Abilities,
    /// How much is read with one request.
    pub(crate) read_bytes: usize,
    /// How much is written with one request.
    pub(crate) write_bytes: usize,
    /// How many small files may be open at a time.
    pub(crate) handles: usize,
    /// Whether it tells the limits above.
    tells_limits: bool,
    /// Whether it has given less than it was asked for where a file went on.
    pub(crate) answers_short: Arc<AtomicBool>,
    /// How long it took to tell.
    pub(crate) took: Option<Duration>,
    /// Each ends every wait.
    stops: [Arc<AtomicBool>; 2],
}

impl Server {
    /// Greets the server behind a channel, within a limit. `cancel` ends every wait. What it allows is not asked for again
    /// where it is as `known`.
    ///
    /// # Errors
    /// `ConnectionLost` when it ends, `TimedOut` when it says nothing, `Protocol` or `Unsupported` when it is no server
    /// of version 3.
    pub(crate) fn greet(
        channel: Channel,
        cancel: Arc<AtomicBool>,
        limit: Duration,
        known: Option<&Self>,
    ) -> Result<Self> {
        let connection = Connection::new(channel)?;
        connection.send(Packet::greeting);
        let version = greeted(&connection, &cancel, limit)?;
        let extensions = read_version(&version)?;
        let has = |name: &[u8], version: &[u8]| {
            extensions.iter().any(|(known, what)| known == name && what == version)
        };
        let tells_limits = has(b"limits@openssh.com", b"1");
        let abilities = Abilities {
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
        // Nothing stands for "no limit".
        let length = |limit: u64| match usize::try_from(limit) {
            Ok(0) | Err(_) => TRANSFER_BYTES_MAX,
            Ok(limit) => limit.clamp(1024, TRANSFER_BYTES_MAX),
        };
        (self.read_bytes, self.write_bytes) = (length(read), length(write));
        // Large files and directories want some as well.
        let half = usize::try_from(handles / 2).unwrap_or(usize::MAX);
        self.handles = if half == 0 { HANDLES_MAX } else { half.min(HANDLES_MAX) };
    }

    /// The same with waits that do not end when the run is stopped.
    pub(crate) fn uncancelled(&self) -> Self {
        Self { stops: Default::default(), ..self.clone() }
    }

    /// The same for the lanes of an end, whose waits also end when `ended` is set.
    pub(crate) fn until(&self, ended: &Arc<AtomicBool>) -> Self {
        Self { stops: [Arc::clone(&self.stops[0]), Arc::clone(ended)], ..self.clone() }
    }

    /// Waits for something on this connection, on which nothing else is under way.
    pub(crate) fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        let mut what = pin!(what);
        loop {
            if let Some(done) = self.wait_until(None, what.as_mut()) {
                return done;
            }
        }
    }

    /// The same for so long; `None` when that was not enough.
    pub(crate) fn wait_for<T>(&self, limit: Duration, what: impl Future<Output = T>) -> Option<T> {
        self.wait_until(Some(Instant::now() + limit), pin!(what))
    }

    fn wait_until<T>(&self, end: Option<Instant>, mut what: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let woken = Woken::new();
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            woken.0.store(false, Ordering::Relaxed);
            if let Poll::Ready(done) = what.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(done);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return None;
            }
            if !woken.0.load(Ordering::Relaxed) {
                self.pump(LOOK_EVERY);
            }
        }
    }

    /// Moves bytes, for at most so long, unless the run was stopped: then the connection ends.
    pub(crate) fn pump(&self, wait: Duration) {
        if self.stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
            return self.connection.cut(stopped());
        }
        self.connection.pump(wait.min(LOOK_EVERY));
    }

    /// How much room there is where a path leads to, if the server tells.
    pub(crate) async fn room(&self, path: &[u8], root: bool) -> Done<Option<Room>> {
        match self.abilities.tells_room {
            true => self.connection.room(path, root).await.map(Some),
            false => Ok(None),
        }
    }
}

/// What the server says first.
fn greeted(connection: &Connection, cancel: &AtomicBool, limit: Duration) -> Result<Vec<u8>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(packet) = connection.raw_packet(LOOK_EVERY)? {
            return Ok(packet);
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        if Instant::now() > end {
            let words = format!("it said nothing within {} s", limit.as_secs());
            return Err(Error::new(ErrorKind::TimedOut, GREETING, words));
        }
    }
}

/// A waker that only takes note.
pub(crate) struct Woken(pub(crate) AtomicBool);

impl Woken {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false)))
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "copying", "stopped as asked")
}
