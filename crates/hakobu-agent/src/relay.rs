//! The controller in the middle: joins two hosts that cannot reach each other, passing on TLS bytes
//! that it cannot read.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Instant;

use hakobu_core::error::{Error, Result};
use rustix::net::{AddressFamily, sockopt};
use socket2::Socket;

use crate::data_path;
use crate::far::FarSide;
use crate::through_ssh::{self, Carriers, Destination, Opener};

/// What is passed on at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// Connections being passed on. They end when one of their ends does.
pub struct Relay {
    streams: Vec<Socket>,
    /// How many lanes there are.
    pub lanes: u16,
    /// The ends that ssh reaches, by their place.
    pub by_ssh: [bool; 2],
    /// The ssh processes for each end.
    pub carriers: [Carriers; 2],
}

/// One of the two ends.
pub struct End<'a> {
    /// Where its port may be dialled; nowhere if it shall not be.
    pub addresses: Vec<String>,
    /// The port.
    pub port: u16,
    /// How ssh gets there, if it may.
    pub ssh: Option<(&'a FarSide, Destination)>,
}

impl Relay {
    /// Reaches both ends once for each lane, and joins the connections. Of what goes through ssh there may be fewer.
    ///
    /// # Errors
    /// When one of the ends cannot be reached.
    pub fn start(ends: &[End<'_>; 2], lanes: u16) -> Result<Self> {
        let mut carriers = [Carriers::new(), Carriers::new()];
        let mut relay = Self {
            streams: Vec::new(),
            lanes: 0,
            by_ssh: [false; 2],
            carriers: [Carriers::new(), Carriers::new()],
        };
        let [one, other] = &mut carriers;
        let mut reaching = [Reaching::new(&ends[0], one), Reaching::new(&ends[1], other)];
        let first = Instant::now();
        while relay.lanes < lanes {
            let by_ssh = reaching.iter().any(|end| end.opener.is_some());
            let enough =
                relay.lanes >= through_ssh::LANES_MAX || first.elapsed() > through_ssh::OPENING_LIMIT;
            if by_ssh && relay.lanes > 0 && enough {
                break;
            }
            let left = reaching[0].reach();
            let right = left.and_then(|left| Ok((left, reaching[1].reach()?)));
            match right {
                Ok((left, right)) => relay.join(left, right)?,
                Err(_) if by_ssh && relay.lanes > 0 => break,
                Err(error) => return Err(error),
            }
            relay.lanes += 1;
        }
        relay.by_ssh = [reaching[0].opener.is_some(), reaching[1].opener.is_some()];
        relay.carriers = carriers;
        Ok(relay)
    }

    fn join(&mut self, left: Socket, right: Socket) -> Result<()> {
        let fail = |error: std::io::Error| Error::io("joining data connections", &error);
        for stream in [&left, &right] {
            if sockopt::socket_domain(stream).map_err(|error| fail(error.into()))? != AddressFamily::UNIX {
                stream.set_tcp_nodelay(true).map_err(fail)?;
            }
            self.streams.push(stream.try_clone().map_err(fail)?);
        }
        for (from, to) in [(left.try_clone().map_err(fail)?, right.try_clone().map_err(fail)?), (right, left)]
        {
            std::thread::spawn(move || pass(from, to));
        }
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// An end that is being reached, in the way that worked for its first lane.
struct Reaching<'a> {
    end: &'a End<'a>,
    carriers: Option<&'a mut Carriers>,
    known: Option<SocketAddr>,
    opener: Option<Opener<'a>>,
}

impl<'a> Reaching<'a> {
    fn new(end: &'a End<'a>, carriers: &'a mut Carriers) -> Self {
        Self { end, carriers: Some(carriers), known: None, opener: None }
    }

    fn reach(&mut self) -> Result<Socket> {
        if let Some(address) = self.known {
            return Ok(data_path::dial_again(address)?.into());
        }
        if let Some(opener) = &mut self.opener {
            return opener.next();
        }
        let dialled = data_path::dial(&self.end.addresses, self.end.port);
        match (dialled, self.end.ssh, self.carriers.take()) {
            (Ok((address, stream)), ..) => {
                self.known = Some(address);
                Ok(stream.into())
            }
            (Err(_), Some((far, to)), Some(carriers)) => {
                let opener = self.opener.insert(Opener::new(carriers, far, to));
                opener.next()
            }
            (Err(error), ..) => Err(error),
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
    // The other end learns of a cut from a cut.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_both_ways_until_an_end_closes() {
        let listeners = [(); 2].map(|()| data_path::listen(Some("127.0.0.1"), None).unwrap());
        let ends = listeners.each_ref().map(|listener| End {
            addresses: vec!["127.0.0.1".to_owned()],
            port: listener.local_addr().unwrap().port(),
            ssh: None,
        });
        let relay = Relay::start(&ends, 2).unwrap();
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
