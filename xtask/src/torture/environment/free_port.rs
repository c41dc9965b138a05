//! Ports for servers that the harness starts.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::bail;

/// Returns a port of loopback that nobody uses, below those that Linux takes for outgoing connections: a client that connects
/// again and again to a server that was killed must not take its port.
///
/// # Errors
/// Returns an error if none of a thousand ports is free.
pub fn free_port() -> anyhow::Result<u16> {
    let random = RandomState::new();
    for number in 0..1000 {
        let port = 12_000 + (random.hash_one(number) % 20_000) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("there is no free port")
}
