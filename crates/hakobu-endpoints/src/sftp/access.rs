//! The access to a server: how channels are opened, and what ends them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hakobu_core::{Error, ErrorKind, Result};

use super::connection::Channel;
use super::server::{GREETING_LIMIT, Server};

/// Times are kept in whole seconds.
pub(super) const TIME_STEP_NS: u32 = 1_000_000_000;

/// How to get to a server: opens one more channel, from any thread. Set, the flag ends that.
pub type Connect = Arc<dyn Fn(&AtomicBool) -> Result<Channel> + Send + Sync>;

/// A way to a server, and what is known of the account there.
#[derive(Clone)]
pub struct Access {
    /// Opens one more channel.
    pub connect: Connect,
    /// Whether the account is root's, which may give files away.
    pub is_root: bool,
    /// Ends every wait when it is set.
    pub cancel: Arc<AtomicBool>,
}

/// What one run of an endpoint is told.
#[derive(Debug, Default)]
pub(super) struct Stops {
    /// Every wait of a lane is to end.
    pub(super) ended: Arc<AtomicBool>,
    /// No more lanes are wanted.
    pub(super) complete: AtomicBool,
}

impl Access {
    /// Opens a channel for lane `index` and greets the server. One lane is enough to do the work, so that a further one
    /// does not come about ends nothing.
    pub(super) fn server(&self, index: usize, look: &Server, stops: &Stops) -> Result<Server> {
        // The first lane goes on where it was looked around: a login takes its time.
        if index == 0 && !look.connection.has_failed() {
            return Ok(look.until(&stops.ended));
        }
        let greet = |channel| Server::greet(channel, Arc::clone(&self.cancel), GREETING_LIMIT, Some(look));
        let greeted =
            (self.connect)(&stops.complete).and_then(greet).map(|server| server.until(&stops.ended));
        greeted.map_err(|error| match index > 0 && error.kind != ErrorKind::Cancelled {
            true => Error { kind: ErrorKind::Io, ..error },
            false => error,
        })
    }
}
