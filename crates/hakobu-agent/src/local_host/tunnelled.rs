//! Data connections over sockets that ssh processes carry.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::error::{Error, ErrorStep, Result};
use hakobu_proto::control::{ConnectRequest, ServeRequest};
use socket2::Socket;

use super::{HANDSHAKE_LIMIT, LocalHost, ServedTarget};
use hakobu_net::acceptor::{ArrivingConnections, Peer};
use hakobu_net::connection::checked::lost;
use hakobu_net::connection::{ConnectionError, Fingerprint};

impl LocalHost {
    /// Serves a target as [`LocalHost::serve`] does, over this socket and those that are passed to the returned function.
    ///
    /// # Errors
    /// The target cannot be opened, or another run of the job has it locked.
    pub fn serve_carried(
        &mut self,
        request: &ServeRequest,
        first: Socket,
    ) -> Result<(Capabilities, impl Fn(Socket) + Send + Sync + use<>)> {
        let (session, capabilities) = self.hold(request)?;
        session.clone().start(first);
        // A tunnel that is still being opened must not keep the lock of a session that has ended.
        let (watched, brought) = (session.clone(), Arc::downgrade(&session));
        let acceptor = std::thread::spawn(move || {
            watched.watch(None);
        });
        self.serving = Some(ServedTarget { session, acceptor: Some(acceptor), alarm: None });
        let bring = move |socket| {
            if let Some(session) = brought.upgrade() {
                session.start(socket);
            }
        };
        Ok((capabilities, bring))
    }

    /// Makes the engine's first connection as [`LocalHost::connect`] does, over this socket. Further connections use sockets
    /// added later, also while the job runs. Returns two functions: the first returns true if one more connection is
    /// wanted, the second takes its socket.
    ///
    /// # Errors
    /// The connection fails, or the peer is not the expected one.
    pub fn connect_carried(
        &mut self,
        request: &ConnectRequest,
        first: Socket,
    ) -> Result<(impl Fn() -> bool + Send + Sync + use<>, impl Fn(Socket) + Send + Sync + use<>)> {
        let peer = Arc::new(Peer {
            identity: self.identity()?,
            fingerprint: Fingerprint(request.peer),
            cipher: request.cipher.into(),
            handshake_limit: HANDSHAKE_LIMIT,
        });
        let first = peer.shake_hands(first).map_err(not_made)?;
        let arriving = ArrivingConnections::all(vec![first], self.stop.clone())?;
        let (promise, pool) = (arriving.pool.promise(), arriving.pool.clone());
        self.arriving = Some(arriving);
        let bring = move |socket| {
            let (peer, promise) = (peer.clone(), promise.clone());
            // If a connection fails, there is one lane less.
            std::thread::spawn(move || peer.shake_hands(socket).map(|made| promise.pool().add(made)));
        };
        Ok((move || pool.was_wanted(), bring))
    }
}

/// Returns true if the connection failed without any sign of a wrong peer.
fn is_of_the_way(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::Cut | ConnectionError::HandshakeTimeout | ConnectionError::Io(_))
}

fn not_made(error: ConnectionError) -> Error {
    if is_of_the_way(&error) {
        Error { during: "dialling".into(), step: ErrorStep::Connect, ..lost(error) }
    } else {
        lost(error)
    }
}
