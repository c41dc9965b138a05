//! The controller in the middle: joins two hosts that cannot reach each other, passing on TLS bytes
//! that it cannot read.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use hakobu_core::error::{Error, Result};

use crate::data_path;

/// What is passed on at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// Connections being passed on. They end when one of their ends does.
pub struct Relay {
    streams: Vec<TcpStream>,
}

impl Relay {
    /// Dials both ends once for each lane, and joins the connections.
    ///
    /// # Errors
    /// When one of the ends cannot be dialled.
    pub fn start(one: &(Vec<String>, u16), other: &(Vec<String>, u16), lanes: u16) -> Result<Self> {
        let mut relay = Self { streams: Vec::new() };
        let (mut one_at, mut other_at) = (None, None);
        for _ in 0..lanes {
            let left = dial(one, &mut one_at)?;
            let right = dial(other, &mut other_at)?;
            relay.join(left, right)?;
        }
        Ok(relay)
    }

    fn join(&mut self, left: TcpStream, right: TcpStream) -> Result<()> {
        let fail = |error: std::io::Error| Error::io("joining data connections", &error);
        for stream in [&left, &right] {
            stream.set_nodelay(true).map_err(fail)?;
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

fn dial(end: &(Vec<String>, u16), known: &mut Option<SocketAddr>) -> Result<TcpStream> {
    if let Some(address) = known {
        return data_path::dial_again(*address);
    }
    let (address, stream) = data_path::dial(&end.0, end.1)?;
    *known = Some(address);
    Ok(stream)
}

/// Passes on one direction until it ends.
fn pass(mut from: TcpStream, mut to: TcpStream) {
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
        let end =
            |index: usize| (vec!["127.0.0.1".to_owned()], listeners[index].local_addr().unwrap().port());
        let relay = Relay::start(&end(0), &end(1), 2).unwrap();
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
