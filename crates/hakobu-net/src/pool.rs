//! The data connections of a run. The first one exists when the run begins; others may be added later.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hakobu_core::endpoint::LinkStats;
use hakobu_core::error::{Error, Result};

use crate::connection::{Connection, Interrupter};
use crate::stop::StopHandle;

/// The connections that lanes can take.
#[derive(Default)]
pub struct ConnectionPool {
    state: Mutex<PoolState>,
    /// Also stops the connections.
    stop: StopHandle,
}

#[derive(Default)]
struct PoolState {
    waiting: VecDeque<Connection>,
    interrupters: Vec<Interrupter>,
    /// True if there is work for one more connection.
    wanted: bool,
    /// The number of open promises.
    promised: usize,
    /// True if no more connections are taken.
    ended: bool,
}

impl ConnectionPool {
    /// Returns an empty pool, which `stop` ends.
    pub fn new(stop: StopHandle) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), stop })
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// `Io` if no file descriptor is left.
    pub fn add(&self, connection: Connection) -> Result<()> {
        // The lock is held until the end, so that nothing keeps the connection once the run has ended.
        let mut state = self.lock();
        if state.ended {
            return Ok(());
        }
        let interrupter =
            connection.interrupter().map_err(|error| Error::io("taking a data connection", &error))?;
        self.stop.add(&connection)?;
        state.interrupters.push(interrupter);
        state.waiting.push_back(connection);
        Ok(())
    }

    /// Announces that a connection may still come, until the returned value is dropped.
    pub fn promise(self: &Arc<Self>) -> ConnectionPromise {
        self.lock().promised += 1;
        ConnectionPromise(self.clone())
    }

    /// Returns true if a connection can be taken, or will certainly never come. Otherwise records whether it is
    /// `wanted`.
    pub fn is_settled(&self, wanted: bool) -> bool {
        let mut state = self.lock();
        let is_settled = !state.waiting.is_empty() || state.promised == 0 || state.ended;
        state.wanted |= wanted && !is_settled;
        is_settled
    }

    /// Returns true if a connection was wanted since the last call.
    pub fn was_wanted(&self) -> bool {
        std::mem::take(&mut self.lock().wanted)
    }

    /// Takes the connection that has waited longest.
    pub fn take(&self) -> Option<Connection> {
        self.lock().waiting.pop_front()
    }

    /// Returns true if the waiting connections are sealed rather than encrypted.
    pub fn is_sealed(&self) -> bool {
        self.lock().waiting.iter().any(Connection::is_sealed)
    }

    /// Returns true if no more connections are taken.
    pub fn is_ended(&self) -> bool {
        self.lock().ended
    }

    /// Returns the data that arrived over all connections, and mean round-trip times; `None` if one is not TCP.
    pub fn passed(&self) -> Option<LinkStats> {
        let state = self.lock();
        let (mut passed, mut count) = (LinkStats::default(), 0);
        for info in state.interrupters.iter().map(Interrupter::tcp_info) {
            let info = info?;
            passed.bytes = passed.bytes.saturating_add(info.acknowledged_bytes);
            passed.sent_again = passed.sent_again.saturating_add(info.retransmits.into());
            // The kernel may not know a round-trip time.
            if info.rtt_us > 0 {
                passed.round_trip += Duration::from_micros(info.rtt_us.into());
                passed.round_trip_least += Duration::from_micros(info.min_rtt_us.into());
                count += 1;
            }
        }
        let count = count.max(1);
        let (round_trip, round_trip_least) = (passed.round_trip / count, passed.round_trip_least / count);
        Some(LinkStats { round_trip, round_trip_least, ..passed })
    }

    /// Ends the waiting connections and accepts no more.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.waiting.clear();
    }

    /// Ends all connections, including those that were taken. Blocked lanes fail.
    pub fn interrupt(&self) {
        self.end();
        self.lock().interrupters.iter().for_each(Interrupter::interrupt);
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A promise that somebody is still making connections.
pub struct ConnectionPromise(Arc<ConnectionPool>);

impl ConnectionPromise {
    /// Returns the pool that the connections are added to.
    pub fn pool(&self) -> &Arc<ConnectionPool> {
        &self.0
    }
}

impl Clone for ConnectionPromise {
    fn clone(&self) -> Self {
        self.0.promise()
    }
}

impl Drop for ConnectionPromise {
    fn drop(&mut self) {
        self.0.lock().promised -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;
    use crate::connection::{ConnectionCipher, TlsIdentity};

    fn connection() -> Connection {
        let (near, far) = (TlsIdentity::generate().unwrap(), TlsIdentity::generate().unwrap());
        let (of_near, of_far) = (near.fingerprint(), far.fingerprint());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, limit) = (listener.accept().unwrap().0, Duration::from_secs(10));
        let served = std::thread::spawn(move || {
            Connection::server(accepted, &far, of_near, ConnectionCipher::None, limit)
        });
        let made = Connection::client(stream, &near, of_far, ConnectionCipher::None, limit).unwrap();
        served.join().unwrap().unwrap();
        made
    }

    #[test]
    fn a_lane_waits_for_what_is_promised_and_for_nothing_else() {
        let pool = ConnectionPool::new(StopHandle::default());
        assert!(pool.is_settled(false) && pool.take().is_none());
        let promise = pool.promise();
        assert!(!pool.is_settled(false));
        let in_a_handshake = promise.clone();
        drop(promise);
        assert!(!pool.is_settled(false));
        in_a_handshake.pool().add(connection()).unwrap();
        assert!(pool.is_settled(false) && pool.is_sealed());
        assert!(pool.take().is_some() && !pool.was_wanted() && !pool.is_settled(true));
        assert!(pool.was_wanted() && !pool.was_wanted());
        drop(in_a_handshake);
        assert!(pool.is_settled(false) && pool.take().is_none());
    }

    #[test]
    fn what_comes_after_the_end_is_let_go() {
        let pool = ConnectionPool::new(StopHandle::default());
        let _promise = pool.promise();
        pool.add(connection()).unwrap();
        pool.end();
        pool.add(connection()).unwrap();
        assert!(pool.is_settled(false) && pool.is_ended() && pool.take().is_none());
    }
}
