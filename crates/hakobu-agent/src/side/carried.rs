//! Connections that something else has made: an ssh process.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_proto::control::{CONNECTIONS_MAX, ConnectRequest, ServeRequest};
use socket2::Socket;

use super::{HANDSHAKE_LIMIT, Serving, Side};
use crate::connection::{ConnectionError, Fingerprint};
use crate::gather::Peer;
use crate::near::lost;

impl Side {
    /// Holds a target as [`Side::serve`] does, for whoever is at the other end of these sockets.
    ///
    /// # Errors
    /// When the target cannot be opened, or another run of the job holds it.
    pub(crate) fn serve_carried(
        &mut self,
        request: &ServeRequest,
        sockets: Vec<Socket>,
    ) -> Result<Capabilities> {
        let (session, capabilities) = self.hold(request)?;
        sockets.into_iter().for_each(|socket| session.clone().start(socket));
        let watched = session.clone();
        let acceptor = Some(std::thread::spawn(move || watched.watch()));
        self.serving = Some(Serving { session, acceptor });
        Ok(capabilities)
    }

    /// Makes the engine's connections as [`Side::connect`] does, over sockets that `dial` gives one after another,
    /// until it has no more. Gives how many there are: fewer than were wanted, if only the first few came about.
    ///
    /// # Errors
    /// When the first does not come about, or when a peer is not who it should be.
    pub(crate) fn connect_carried(
        &mut self,
        request: &ConnectRequest,
        dial: &mut dyn FnMut() -> Result<Option<Socket>>,
    ) -> Result<u16> {
        let lanes = request.lanes.clamp(1, CONNECTIONS_MAX);
        let peer = Arc::new(Peer {
            identity: self.identity()?,
            fingerprint: Fingerprint(request.peer),
            cipher: request.cipher.into(),
            handshake_limit: HANDSHAKE_LIMIT,
        });
        let first = dial()?.ok_or_else(none_came)?;
        // Whether the way leads anywhere is known before more of it is made.
        let mut connections = vec![peer.shake_hands(first).map_err(not_made)?];
        let mut under_way = Vec::new();
        while under_way.len() + 1 < usize::from(lanes)
            && let Ok(Some(socket)) = dial()
        {
            let peer = peer.clone();
            under_way.push(std::thread::spawn(move || peer.shake_hands(socket)));
        }
        for made in under_way {
            match made.join().unwrap_or(Err(ConnectionError::Cut)) {
                Ok(connection) => connections.push(connection),
                Err(error) if is_of_the_way(&error) => {}
                Err(error) => return Err(lost(error)),
            }
        }
        for connection in &connections {
            self.stop.add(connection)?;
        }
        let count = connections.len() as u16;
        self.connections = Some(connections);
        Ok(count)
    }
}

/// Whether nobody was there, rather than somebody who is not who it should be.
fn is_of_the_way(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::Cut | ConnectionError::HandshakeTimeout | ConnectionError::Io(_))
}

fn not_made(error: ConnectionError) -> Error {
    if is_of_the_way(&error) { Error { during: "dialling".into(), ..lost(error) } } else { lost(error) }
}

fn none_came() -> Error {
    Error::new(ErrorKind::ConnectionLost, "dialling", "no connection came about")
}
