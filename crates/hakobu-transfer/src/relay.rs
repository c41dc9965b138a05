//! Relays data connections through the controller, which cannot read them, between hosts that cannot reach each
//! other.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::error::{Error, Result};
use rustix::net::{AddressFamily, sockopt};
use socket2::Socket;

use crate::ssh_tunnels::{Destination, SshTunnels, TunnelProcesses};
use hakobu_core::lane_count;
use hakobu_net::data_path;
use hakobu_ssh::sessions::Sessions;

/// The maximum number of bytes passed on at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// The connections that are relayed. Each ends when one of its ends does.
pub struct Relay {
    joined: Arc<JoinedSockets>,
    /// The maximum number of lanes.
    pub lanes: u16,
    /// True for each end that is reached through ssh.
    pub by_ssh: [bool; 2],
    /// The ssh processes for both ends.
    pub carriers: SshTunnels,
}

/// The sockets of all connections.
#[derive(Default)]
struct JoinedSockets {
    streams: Mutex<Vec<Socket>>,
    ended: AtomicBool,
}

/// One of the two ends.
pub struct RelayEnd {
    /// The addresses at which its port may be dialled; empty if it must not be.
    pub addresses: Vec<String>,
    /// The port.
    pub port: u16,
    /// The ssh sessions and the destination, if ssh may be used.
    pub ssh: Option<(Arc<Sessions>, Destination)>,
}

impl Relay {
    /// Reaches both ends and joins the connections, one for each lane. Returns when the first is joined; the others
    /// follow. Through ssh there may be fewer.
    ///
    /// # Errors
    /// If one of the ends cannot be reached.
    pub fn start(ends: [RelayEnd; 2], lanes: u16) -> Result<Self> {
        let (mut carriers, reached) = SshTunnels::first(move |held| {
            let [left, right] = ends;
            Ok((left.reach(held)?, right.reach(held)?))
        })?;
        let ((left, to_left), (right, to_right)) = reached;
        let joined = Arc::<JoinedSockets>::default();
        joined.join(left, right)?;
        let by_ssh = [&to_left, &to_right].map(|reached| matches!(reached, EndRoute::BySsh(..)));
        let lanes = if by_ssh.contains(&true) { lanes.min(lane_count::THROUGH_SSH) } else { lanes };
        let to_join = joined.clone();
        carriers.more(
            lanes.saturating_sub(1),
            carriers.after_a_while(),
            move |held| Ok((to_left.again(held)?, to_right.again(held)?)),
            move |(left, right)| {
                // A connection that cannot be joined is only one lane less.
                let _ = to_join.join(left, right);
            },
        )?;
        Ok(Self { joined, lanes, by_ssh, carriers })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.joined.end();
    }
}

impl JoinedSockets {
    fn join(&self, left: Socket, right: Socket) -> Result<()> {
        let fail = |error: std::io::Error| Error::io("joining data connections", &error);
        for stream in [&left, &right] {
            if sockopt::socket_domain(stream).map_err(|error| fail(error.into()))? != AddressFamily::UNIX {
                stream.set_tcp_nodelay(true).map_err(fail)?;
            }
            self.streams().push(stream.try_clone().map_err(fail)?);
        }
        if self.ended.load(Acquire) {
            self.end();
        }
        for (from, to) in [(left.try_clone().map_err(fail)?, right.try_clone().map_err(fail)?), (right, left)]
        {
            std::thread::spawn(move || pass(from, to));
        }
        Ok(())
    }

    fn end(&self) {
        self.ended.store(true, Release);
        for stream in &*self.streams() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Socket>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The method by which an end was reached the first time.
enum EndRoute {
    ByAddress(SocketAddr),
    BySsh(Arc<Sessions>, Destination),
}

impl RelayEnd {
    fn reach(self, held: &TunnelProcesses) -> Result<(Socket, EndRoute)> {
        match (data_path::dial(&self.addresses, self.port), self.ssh) {
            (Ok((address, stream)), _) => Ok((stream.into(), EndRoute::ByAddress(address))),
            (Err(_), Some((sessions, to))) => Ok((held.open(&sessions, to)?, EndRoute::BySsh(sessions, to))),
            (Err(error), None) => Err(error),
        }
    }
}

impl EndRoute {
    fn again(&self, held: &TunnelProcesses) -> Result<Socket> {
        match self {
            Self::ByAddress(address) => Ok(data_path::dial_again(*address)?.into()),
            Self::BySsh(sessions, to) => held.open(sessions, *to),
        }
    }
}

/// Passes on one direction until it ends.
fn pass(mut from: Socket, mut to: Socket) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(count) => {
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // The other end must see a cut as a cut, not as an orderly end.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_both_ways_until_an_end_closes() {
        let listeners = [(); 2].map(|()| data_path::listen(Some("127.0.0.1"), None).unwrap());
        let ends = listeners.each_ref().map(|listener| RelayEnd {
            addresses: vec!["127.0.0.1".to_owned()],
            port: listener.local_addr().unwrap().port(),
            ssh: None,
        });
        let relay = Relay::start(ends, 2).unwrap();
        assert_eq!((relay.lanes, relay.by_ssh), (2, [false; 2]));
        let (mut left, _) = listeners[0].accept().unwrap();
        let (mut right, _) = listeners[1].accept().unwrap();
        left.write_all(b"over").unwrap();
        let mut got = [0; 4];
        right.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"over");
        right.write_all(b"back").unwrap();
        left.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"back");
        drop(left);
        assert_eq!(right.read(&mut got).unwrap(), 0);
        drop(relay);
    }
}
