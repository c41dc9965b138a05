//! Opens data connections: one host listens on a port and the other one dials it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::stopping;
use hakobu_proto::control::ATTEMPT_LIMIT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use socket2::{Domain, Protocol, Socket, Type};

use crate::joined_socket::{self, ACCEPTING};

/// The maximum number of addresses that are tried.
const ADDRESSES_MAX: usize = 8;
/// The maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 128;

/// Accepts data connections.
#[derive(Debug)]
pub struct DataListener {
    port: TcpListener,
    /// Accepts connections that processes of this account carry because they cannot come to the port.
    joined: Option<UnixListener>,
    /// Hung up when the [`Alarm`] is dropped.
    alarm: Option<OwnedFd>,
}

/// Ends the current and all later waits for a connection when it is dropped.
#[derive(Debug)]
pub struct Alarm {
    _hold: OwnedFd,
}

impl From<TcpListener> for DataListener {
    fn from(port: TcpListener) -> Self {
        Self { port, joined: None, alarm: None }
    }
}

impl DataListener {
    /// Returns the number of the port.
    ///
    /// # Errors
    /// An error of the system.
    pub fn port(&self) -> Result<u16> {
        let address = self.port.local_addr().map_err(|error| Error::io("opening a port for data", &error))?;
        Ok(address.port())
    }

    /// Also accepts connections from processes that `hakobu agent --join` started.
    ///
    /// # Errors
    /// An error of the system.
    pub fn open_to_joins(&mut self) -> Result<()> {
        self.joined = Some(joined_socket::listen(self.port()?)?);
        Ok(())
    }

    /// Returns an alarm that ends the wait for a connection before its time limit.
    ///
    /// # Errors
    /// An error of the system.
    pub fn alarm(&mut self) -> Result<Alarm> {
        let pipe = pipe_with(PipeFlags::CLOEXEC);
        let (alarm, hold) = pipe.map_err(|error| Error::io("opening a port for data", &error.into()))?;
        self.alarm = Some(alarm);
        Ok(Alarm { _hold: hold })
    }

    /// Waits for a connection, at most `limit` and until the alarm. Returns `None` if there was none.
    ///
    /// # Errors
    /// An error of the system.
    pub fn accept(&self, limit: Duration) -> Result<Option<Socket>> {
        let mut ready = vec![coming(self.port.as_fd())];
        ready.extend(self.joined.iter().map(|joined| coming(joined.as_fd())));
        ready.extend(self.alarm.iter().map(|alarm| coming(alarm.as_fd())));
        if !waits(&mut ready, limit)? {
            return Ok(None);
        }
        if !ready[0].revents().is_empty() {
            return accept(&self.port);
        }
        match &self.joined {
            Some(joined) if !ready[1].revents().is_empty() => {
                Ok(joined_socket::accept(joined)?.map(Socket::from))
            }
            _ => Ok(None),
        }
    }
}

/// Opens a port on `address`, or on all addresses if it is `None` or cannot be bound. `port`: `None` for any free
/// one.
///
/// # Errors
/// An error of the system, for example if the port is in use or a loopback address cannot be bound.
pub fn listen(address: Option<&str>, port: Option<u16>) -> Result<TcpListener> {
    let port = port.unwrap_or(0);
    let wanted: Vec<IpAddr> = match address {
        // An address by which only others know this host (NAT) cannot be bound. All addresses are used then.
        Some(address) => {
            if let Some(ip) = address.parse::<IpAddr>().ok().filter(IpAddr::is_loopback) {
                // A port on a loopback address must never become reachable from the network.
                let bound = bind(SocketAddr::new(ip, port));
                return bound.map_err(|error| Error::io("opening a port for data", &error).at(address));
            }
            let named = (address, 0).to_socket_addrs().map(|found| found.map(|it| it.ip()).collect());
            let named: Vec<_> = named.unwrap_or_default();
            named.into_iter().chain(every_address()).collect()
        }
        None => every_address().to_vec(),
    };
    let mut last = None;
    for ip in wanted {
        match bind(SocketAddr::new(ip, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| std::io::ErrorKind::AddrNotAvailable.into());
    Err(Error::io("opening a port for data", &error).at(format!("port {port}")))
}

/// Returns the IPv6 wildcard address, which includes IPv4, and the IPv4 one for hosts without IPv6.
fn every_address() -> [IpAddr; 2] {
    [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()]
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.cloexec(), Some(Protocol::TCP))?;
    if address.ip().is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Dials the first of the addresses that answers.
///
/// # Errors
/// `TimedOut` or `ConnectionLost` if none answers within [`ATTEMPT_LIMIT`].
pub fn dial(addresses: &[String], port: u16) -> Result<(SocketAddr, TcpStream)> {
    let deadline = Instant::now() + ATTEMPT_LIMIT;
    let mut last =
        Error::new(ErrorKind::TimedOut, "dialling", "no address to dial").in_step(ErrorStep::Connect);
    let mut tried: Vec<SocketAddr> = Vec::new();
    let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
    for (index, address) in addresses.iter().enumerate() {
        // Each name is resolved only when its turn comes, because a lookup may be slow.
        let found = (address.as_str(), port).to_socket_addrs().into_iter().flatten();
        for candidate in found.take(ADDRESSES_MAX) {
            if tried.contains(&candidate) {
                continue;
            }
            tried.push(candidate);
            // Each remaining address gets an equal share of the time.
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = left / (addresses.len() - index) as u32;
            if limit < Duration::from_millis(10) {
                break;
            }
            match connect(candidate, limit) {
                Ok(stream) => return Ok((candidate, stream)),
                Err(error) => {
                    last =
                        Error::io("dialling", &error).in_step(ErrorStep::Connect).at(candidate.to_string());
                }
            }
        }
    }
    if last.kind != ErrorKind::TimedOut {
        last.kind = ErrorKind::ConnectionLost;
    }
    Err(last)
}

/// Connects within `limit`, and gives up when the user asks to stop.
fn connect(address: SocketAddr, limit: Duration) -> std::io::Result<TcpStream> {
    let deadline = Instant::now() + limit;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.cloexec(), Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
            return Err(error);
        }
        _ => {}
    }
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stopping::is_asked() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let mut made = [PollFd::new(&socket, PollFlags::OUT)];
        if waits(&mut made, left.min(stopping::LOOK_EVERY)).map_err(|_| std::io::ErrorKind::TimedOut)? {
            break;
        }
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Dials a known address again, for a further lane.
///
/// # Errors
/// See [`dial`].
pub fn dial_again(address: SocketAddr) -> Result<TcpStream> {
    connect(address, ATTEMPT_LIMIT)
        .map_err(|error| Error::io("dialling", &error).in_step(ErrorStep::Connect).at(address.to_string()))
}

fn accept(listener: &TcpListener) -> Result<Option<Socket>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream.into())),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => Ok(None),
        Err(error) => Err(Error::io(ACCEPTING, &error)),
    }
}

fn coming(listener: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(listener, PollFlags::IN)
}

/// Returns true if one of these descriptors becomes ready within `limit`.
fn waits(listeners: &mut [PollFd<'_>], limit: Duration) -> Result<bool> {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    match poll(listeners, Some(&timeout)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(Error::io(ACCEPTING, &error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_answers_is_found_behind_one_that_does_not() {
        let listener = DataListener::from(listen(Some("127.0.0.1"), None).unwrap());
        let port = listener.port().unwrap();
        // Nothing listens on 127.0.0.2.
        let (found, _stream) = dial(&["127.0.0.2".into(), "127.0.0.1".into()], port).unwrap();
        assert_eq!(found.ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
        assert!(listener.accept(ATTEMPT_LIMIT).unwrap().is_some());
        assert!(listener.accept(Duration::from_millis(1)).unwrap().is_none());
    }

    #[test]
    fn the_alarm_ends_a_wait_that_has_begun_and_one_that_begins() {
        let mut listener = DataListener::from(listen(Some("127.0.0.1"), None).unwrap());
        let alarm = listener.alarm().unwrap();
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for _ in 0..2 {
                let came = listener.accept(Duration::from_secs(600)).unwrap();
                sender.send(came.is_some()).unwrap();
            }
        });
        assert!(ended.recv_timeout(Duration::from_millis(20)).is_err(), "nothing has come yet");
        drop(alarm);
        assert_eq!([ended.recv(), ended.recv()], [Ok(false), Ok(false)]);
    }

    #[test]
    fn a_closed_port_is_an_error_at_once() {
        let listener = listen(Some("127.0.0.1"), None).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert_eq!(dial(&["127.0.0.1".into()], port).unwrap_err().kind, ErrorKind::ConnectionLost);
        assert!(dial(&[], port).is_err());
    }

    #[test]
    fn an_address_of_another_machine_falls_back_to_all() {
        assert!(listen(Some("192.0.2.1"), None).is_ok());
    }
}
