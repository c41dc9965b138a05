//! Accepts the data connections of the peer at the engine's port, whoever else connects meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::stopping;
use hakobu_proto::control::ATTEMPT_LIMIT;
use socket2::Socket;

use crate::connection::checked::lost;
use crate::connection::{self, Connection, ConnectionCipher, Fingerprint, TlsIdentity};
use crate::data_path::{Alarm, DataListener};
use crate::joined_socket::ACCEPTING;
use crate::pending_handshakes::PendingHandshakes;
use crate::pool::{ConnectionPool, ConnectionPromise};
use crate::stop::StopHandle;

/// The time that one attempt to accept waits before the handshakes are checked.
const ACCEPT_WAIT: Duration = Duration::from_millis(2);
/// The time that it waits during a run, which may last for hours, if no handshake is in progress.
const ACCEPT_WAIT_AT_WORK: Duration = Duration::from_millis(10);

/// The interval at which it is checked whether one more connection is wanted.
const WANTED_WAIT: Duration = Duration::from_millis(10);

/// The identities and limits for connections to the peer.
pub struct Peer {
    /// This host's certificate.
    pub identity: Arc<TlsIdentity>,
    /// The fingerprint of the peer's certificate.
    pub fingerprint: Fingerprint,
    /// The cipher.
    pub cipher: ConnectionCipher,
    /// The maximum time of one handshake.
    pub handshake_limit: Duration,
}

impl Peer {
    /// Makes the connection on a socket, as the engine's side.
    ///
    /// # Errors
    /// See [`Connection::client`].
    pub fn shake_hands(&self, stream: impl Into<Socket>) -> connection::ConnectionResult<Connection> {
        Connection::client(stream, &self.identity, self.fingerprint, self.cipher, self.handshake_limit)
    }
}

/// The connections of a run: the first one is there, others are added during the run. Dropping this closes the port.
pub struct ArrivingConnections {
    /// The connections that have been authenticated and not been taken yet.
    pub pool: Arc<ConnectionPool>,
    gathering: Option<JoinHandle<()>>,
    /// Wakes the thread that waits at a port.
    alarm: Option<Alarm>,
}

impl ArrivingConnections {
    /// Returns exactly these connections, with no more to come.
    pub fn all(connections: Vec<Connection>, stop: StopHandle) -> Result<Self> {
        let pool = ConnectionPool::new(stop);
        connections.into_iter().try_for_each(|connection| pool.add(connection))?;
        Ok(Self { pool, gathering: None, alarm: None })
    }

    /// Adds up to `further` connections, each made once one is wanted. After a failure no more are made.
    pub fn growing(
        mut self,
        further: usize,
        mut make: impl FnMut() -> Result<Connection> + Send + 'static,
    ) -> Self {
        if further > 0 {
            let promise = self.pool.promise();
            self.gathering = Some(std::thread::spawn(move || {
                let (pool, mut left) = (promise.pool(), further);
                while left > 0 && !pool.is_ended() {
                    if !pool.was_wanted() {
                        std::thread::park_timeout(WANTED_WAIT);
                        continue;
                    }
                    if make().and_then(|connection| pool.add(connection)).is_err() {
                        return;
                    }
                    left -= 1;
                }
            }));
        }
        self
    }
}

impl Drop for ArrivingConnections {
    fn drop(&mut self) {
        self.pool.end();
        self.alarm = None;
        if let Some(gathering) = self.gathering.take() {
            gathering.thread().unpark();
            let _ = gathering.join();
        }
    }
}

/// Accepts connections at a port until `wanted` of them are the peer's. Returns when the first one has come.
///
/// # Errors
/// `TimedOut` if none is made in time, with the error of the last one that failed; or an error of the system.
pub fn gather(
    listener: DataListener,
    peer: Arc<Peer>,
    wanted: usize,
    stop: StopHandle,
) -> Result<ArrivingConnections> {
    let mut gathering = PendingConnections::new(listener, peer);
    let first = gathering.first()?;
    let mut arriving = ArrivingConnections::all(vec![first], stop)?;
    if wanted > 1 {
        let promise = arriving.pool.promise();
        arriving.alarm = Some(gathering.listener.alarm()?);
        arriving.gathering = Some(std::thread::spawn(move || gathering.others(wanted - 1, &promise)));
    }
    Ok(arriving)
}

/// The connections at a port, and their handshakes. Dropping this closes those whose peer is not authenticated yet.
struct PendingConnections {
    listener: DataListener,
    peer: Arc<Peer>,
    strangers: Arc<PendingHandshakes>,
    sender: Sender<connection::ConnectionResult<Connection>>,
    made: Receiver<connection::ConnectionResult<Connection>>,
    under_way: usize,
}

impl PendingConnections {
    fn new(listener: DataListener, peer: Arc<Peer>) -> Self {
        let (sender, made) = channel();
        Self { listener, peer, strangers: Arc::default(), sender, made, under_way: 0 }
    }

    fn first(&mut self) -> Result<Connection> {
        let mut last_failure = None;
        let since = Instant::now();
        loop {
            match self.next(ACCEPT_WAIT)? {
                Some(Ok(connection)) => return Ok(connection),
                Some(Err(error)) => last_failure = Some(lost(error)),
                None => {}
            }
            // A connection that has come gets the time of one handshake. Strangers do not extend it.
            let limit = if self.under_way > 0 { self.peer.handshake_limit } else { ATTEMPT_LIMIT };
            if stopping::is_asked() {
                let words = "stopped as asked";
                return Err(Error::new(ErrorKind::Cancelled, "waiting for data connections", words)
                    .in_step(ErrorStep::Connect));
            }
            if since.elapsed() > limit {
                let words = match last_failure {
                    Some(error) => format!("of those that came, the last failed: {}", error.reason()),
                    None => "none came in time".to_owned(),
                };
                return Err(Error::new(ErrorKind::TimedOut, "waiting for data connections", words)
                    .in_step(ErrorStep::Connect));
            }
        }
    }

    /// Accepts up to `wanted` more connections, until the pool has ended.
    fn others(mut self, mut wanted: usize, promise: &ConnectionPromise) {
        let pool = promise.pool();
        while wanted > 0 && !pool.is_ended() {
            let wait = if self.under_way > 0 { ACCEPT_WAIT } else { ACCEPT_WAIT_AT_WORK };
            match self.next(wait) {
                Ok(Some(Ok(connection))) => wanted -= usize::from(pool.add(connection).is_ok()),
                Ok(_) => {}
                // A run continues with the connections it has.
                Err(_) => return,
            }
        }
    }

    /// Waits up to `wait` for a connection. Returns the result of a handshake that has ended, if any.
    fn next(&mut self, wait: Duration) -> Result<Option<connection::ConnectionResult<Connection>>> {
        if let Some(stream) = self.listener.accept(wait)? {
            let number = self.strangers.enter(&stream).map_err(|error| Error::io(ACCEPTING, &error))?;
            let (strangers, peer, sender) = (self.strangers.clone(), self.peer.clone(), self.sender.clone());
            self.under_way += 1;
            std::thread::spawn(move || {
                let made = peer.shake_hands(stream);
                strangers.leave(number);
                let _ = sender.send(made);
            });
        }
        let made = self.made.try_recv().ok();
        self.under_way -= usize::from(made.is_some());
        Ok(made)
    }
}

impl Drop for PendingConnections {
    fn drop(&mut self) {
        self.strangers.dismiss();
    }
}
