//! The socket of a serving agent to which a data connection through standard input and output is joined.

use std::io::ErrorKind as IoKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use hakobu_core::error::{Error, Result};
use rustix::net::UCred;
use rustix::net::sockopt::socket_peercred;

/// The operation named in errors if a connection could not be accepted.
pub const ACCEPTING: &str = "accepting a data connection";

/// Opens the socket that `hakobu agent --join` connects to. It leaves no file behind and is invisible to other hosts.
///
/// # Errors
/// An error of the system.
pub fn listen(port: u16) -> Result<UnixListener> {
    let socket = address(std::process::id(), port).and_then(|address| UnixListener::bind_addr(&address));
    socket.map_err(|error| Error::io("opening a port for data", &error))
}

/// Accepts a connection from this account. Returns `None` for one from any other account.
///
/// # Errors
/// An error of the system.
pub fn accept(listener: &UnixListener) -> Result<Option<UnixStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(socket_peercred(&stream).is_ok_and(|peer| is_own(&peer)).then_some(stream)),
        Err(error) if error.kind() == IoKind::ConnectionAborted => Ok(None),
        Err(error) => Err(Error::io(ACCEPTING, &error)),
    }
}

/// Returns true if a peer runs under the account of this process.
pub fn is_own(peer: &UCred) -> bool {
    peer.uid == rustix::process::geteuid()
}

/// Returns the address of the socket that `process` of this account listens on for `port`.
///
/// # Errors
/// An error of the system.
pub fn address(process: u32, port: u16) -> std::io::Result<SocketAddr> {
    let user = rustix::process::geteuid().as_raw();
    SocketAddr::from_abstract_name(format!("hakobu/join/{user}/{process}/{port}"))
}
