//! Carries a data connection over standard input and output, for servers that run commands but make no connections.

use std::fs::File;
use std::io::{ErrorKind as IoKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use rustix::net::sockopt::socket_peercred;
use socket2::Socket;

use crate::restrict::lock_out_of_everything;
use hakobu_net::joined_socket::{address, is_own};

const JOINING: &str = "joining a data connection";
/// The time that the port of this host may take to answer.
const DIAL_LIMIT: Duration = Duration::from_secs(3);
/// The maximum number of bytes passed on at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// Joins standard input and output to a port of this host until the other end closes.
///
/// # Errors
/// If nothing listens there. The end of the connection is not an error.
pub fn join(port: u16) -> Result<()> {
    let fail = |error: std::io::Error| Error::io(JOINING, &error);
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let socket = TcpStream::connect_timeout(&address, DIAL_LIMIT).map_err(fail)?;
    socket.set_nodelay(true).map_err(fail)?;
    pass_both(socket.into()).map_err(fail)
}

/// Joins standard input and output to an agent whose login is limited to one directory. It connects not to a port,
/// which could be anybody's, but to a socket of that process. Before any data is passed on, this process gives up
/// access to everything else.
///
/// # Errors
/// If no such agent of this account listens, or the kernel cannot restrict this process.
pub fn join_agent(process: u32, port: u16) -> Result<()> {
    let fail = |error: std::io::Error| Error::io(JOINING, &error);
    let socket = UnixStream::connect_addr(&address(process, port).map_err(fail)?).map_err(fail)?;
    // Any user of this host may bind a name like this one.
    let peer = socket_peercred(&socket).map_err(|error| fail(error.into()))?;
    if !is_own(&peer) || u32::try_from(peer.pid.as_raw_nonzero().get()) != Ok(process) {
        let words = "who listens there is not the agent";
        return Err(Error::new(ErrorKind::Refused, JOINING, words));
    }
    lock_out_of_everything()?;
    pass_both(socket.into()).map_err(fail)
}

/// Joins standard input and output to a socket until its other end closes.
fn pass_both(mut from: Socket) -> std::io::Result<()> {
    let mut to = from.try_clone()?;
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    std::thread::spawn(move || {
        pass(&mut input, &mut to);
        // The agent then closes its end, which ends the other direction.
        let _ = to.shutdown(Shutdown::Write);
    });
    pass(&mut from, &mut output);
    Ok(())
}

/// Passes on one direction until it ends. Everything read is written at once: the standard library's copy between
/// such descriptors may hold data back until more arrives.
fn pass(from: &mut impl Read, to: &mut impl Write) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) if to.write_all(buffer.get(..count).unwrap_or_default()).is_ok() => {}
            Err(error) if error.kind() == IoKind::Interrupted => {}
            _ => return,
        }
    }
}
