//! Ports for servers that tests start.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The ports that are given out: below those that Linux takes for outgoing connections (32768 to 60999). Otherwise a client
/// that connects again and again to a server that is being restarted may take the server's port itself.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// The position of the next port. It starts anywhere, because several processes may run tests.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(FIRST)));

/// Returns a port of loopback that nobody uses. This process does not get it again.
///
/// # Errors
/// Those of the system.
pub fn free_port() -> io::Result<u16> {
    free_port_of(Ipv4Addr::LOCALHOST.into())
}

/// Returns a port of one of this machine's addresses, like [`free_port`].
///
/// # Errors
/// Those of the system.
pub fn free_port_of(address: IpAddr) -> io::Result<u16> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..COUNT {
        let position = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(COUNT);
        let port = FIRST + position as u16;
        match TcpListener::bind((address, port)) {
            Ok(_) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_new_and_not_one_of_outgoing_connections() {
        let ports: Vec<_> = (0..100).map(|_| free_port().unwrap()).collect();
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let lowest: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
        for (index, port) in ports.iter().enumerate() {
            assert!(*port < lowest && !ports[..index].contains(port), "{ports:?}");
        }
        // A port in use is passed over.
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, free_port().unwrap())).unwrap();
        let number = taken.local_addr().unwrap().port();
        NEXT.store(u64::from(number - FIRST), Ordering::Relaxed);
        assert_ne!(free_port().unwrap(), number);
    }
}
