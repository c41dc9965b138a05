//! The engine's side at a port: waits until the peer has made all its connections, whoever else
//! comes meanwhile.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_proto::control::ATTEMPT_LIMIT;
use socket2::Socket;

use crate::connection::{self, Cipher, Connection, Fingerprint, Identity};
use crate::data_path::{ACCEPTING, Listener};
use crate::near::lost;
use crate::strangers::Strangers;

/// How long an attempt to accept waits before the handshakes are looked at.
const ACCEPT_WAIT: Duration = Duration::from_millis(2);

/// Who the connections are to be with.
pub(crate) struct Peer {
    /// This side's certificate.
    pub identity: Arc<Identity>,
    /// The peer's certificate.
    pub fingerprint: Fingerprint,
    /// The cipher.
    pub cipher: Cipher,
    /// How long one handshake may take.
    pub handshake_limit: Duration,
}

impl Peer {
    /// Makes the connection on a socket, as the engine's side.
    ///
    /// # Errors
    /// As [`Connection::client`].
    pub(crate) fn shake_hands(&self, stream: impl Into<Socket>) -> connection::Result<Connection> {
        Connection::client(stream, &self.identity, self.fingerprint, self.cipher, self.handshake_limit)
    }
}

/// Takes connections from a port until `wanted` of them are the peer's.
///
/// # Errors
/// `TimedOut` when no further one comes about in time, with what was wrong with the last that was
/// none; or an error of the system.
pub(crate) fn gather(listener: &Listener, peer: &Arc<Peer>, wanted: usize) -> Result<Vec<Connection>> {
    let strangers = Arc::new(Strangers::default());
    let gathered = gather_among(&strangers, listener, peer, wanted);
    strangers.dismiss();
    gathered
}

fn gather_among(
    strangers: &Arc<Strangers>,
    listener: &Listener,
    peer: &Arc<Peer>,
    wanted: usize,
) -> Result<Vec<Connection>> {
    let (sender, made) = channel();
    let mut connections = Vec::with_capacity(wanted);
    let (mut under_way, mut last_failure) = (0, None);
    let mut since = Instant::now();
    while connections.len() < wanted {
        if let Some(stream) = listener.accept(ACCEPT_WAIT)? {
            let number = strangers.enter(&stream).map_err(|error| Error::io(ACCEPTING, &error))?;
            let (strangers, peer, sender) = (strangers.clone(), peer.clone(), sender.clone());
            under_way += 1;
            std::thread::spawn(move || {
                let made = peer.shake_hands(stream);
                strangers.leave(number);
                let _ = sender.send(made);
            });
        }
        for result in made.try_iter() {
            under_way -= 1;
            match result {
                Ok(connection) => {
                    connections.push(connection);
                    since = Instant::now();
                }
                Err(error) => last_failure = Some(lost(error)),
            }
        }
        // One that has come has the time of a handshake; strangers do not prolong it.
        let limit = if under_way > 0 { peer.handshake_limit } else { ATTEMPT_LIMIT };
        if connections.len() < wanted && since.elapsed() > limit {
            let words = match last_failure {
                Some(error) => format!("of those that came, the last failed: {}", error.detail),
                None => "none came in time".to_owned(),
            };
            return Err(Error::new(ErrorKind::TimedOut, "waiting for data connections", words));
        }
    }
    connections.truncate(wanted);
    Ok(connections)
}
