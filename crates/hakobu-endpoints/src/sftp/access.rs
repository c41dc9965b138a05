//! The access to a server: how channels are opened, and what ends them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hakobu_core::{Error, ErrorKind, Result};

use super::connection::Channel;
use super::server::{GREETING_LIMIT, Server};

/// The granularity of file times in nanoseconds. The protocol keeps whole seconds.
pub(super) const TIME_STEP_NS: u32 = 1_000_000_000;

/// Opens one more channel to a server, from any thread. Setting the flag cancels that.
pub type Connect = Arc<dyn Fn(&AtomicBool) -> Result<Channel> + Send + Sync>;

/// The access to a server, with facts about the account there.
#[derive(Clone)]
pub struct SftpAccess {
    /// Opens one more channel.
    pub connect: Connect,
    /// True for the account root, which may change owners.
    pub is_root: bool,
    /// A flag that ends every wait when it is set.
    pub cancel: Arc<AtomicBool>,
}

/// The flags that stop one run of an endpoint.
#[derive(Debug, Default)]
pub(super) struct StopFlags {
    /// Set when every wait of a lane must end.
    pub(super) ended: Arc<AtomicBool>,
    /// Set when no more lanes are wanted.
    pub(super) complete: AtomicBool,
}

impl SftpAccess {
    /// Opens a channel for lane `index` and greets the server. One lane is enough to do the work, so a failure to open
    /// a further one ends nothing.
    pub(super) fn server(&self, index: usize, look: &Server, stops: &StopFlags) -> Result<Server> {
        // The first lane reuses the connection of the inspection, because a login is slow.
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
