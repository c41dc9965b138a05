//! Looking at the places that the user named.

use std::time::{Duration, Instant};

use hakobu_core::Result;
use hakobu_core::entry::Metadata;

use super::requests::{Refusal, attrs, unclear};
use super::server::{Abilities, GREETING_LIMIT, Server};
use super::{Access, Channel};

/// A connection to a server on which one question is asked after another.
pub struct SftpLook {
    server: Server,
}

impl SftpLook {
    /// Greets the server behind a channel that was opened for this.
    ///
    /// # Errors
    /// `ConnectionLost`, `TimedOut`, or `Protocol` where there is no SFTP server at its end.
    pub fn open(channel: Channel, access: &Access) -> Result<Self> {
        Ok(Self { server: Server::greet(channel, access.cancel.clone(), GREETING_LIMIT, None)? })
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// What the server can do besides version 3 of the protocol.
    pub fn abilities(&self) -> Abilities {
        self.server.abilities
    }

    /// What an entry is, or with `follow` what it leads to. `None`: there is no such entry.
    ///
    /// # Errors
    /// `PermissionDenied`, `ConnectionLost` and the like.
    pub fn describe(&self, path: &[u8], follow: bool) -> Result<Option<Metadata>> {
        let connection = &self.server.connection;
        let asked = if follow { connection.look_through(path) } else { connection.look(path) };
        match self.server.wait(attrs(asked)) {
            Ok(Some(found)) => Ok(Some(found)),
            Ok(None) => Err(unclear("looking at").at(path)),
            Err(Refusal::NotFound) => Ok(None),
            Err(refusal) => Err(refusal.error("looking at").at(path)),
        }
    }

    /// The whole path of what a path leads to. Relative ones begin where the server puts the account.
    ///
    /// # Errors
    /// As [`SftpLook::describe`], and `NotFound`.
    pub fn resolve(&self, path: &[u8]) -> Result<Vec<u8>> {
        let resolved = self.server.wait(self.server.connection.real_path(path));
        resolved.map_err(|refusal| refusal.error("looking at").at(path))
    }

    /// Where the account begins, who that belongs to, and how long a question takes: the shorter of two, where the server
    /// was asked for its limits.
    ///
    /// # Errors
    /// As [`SftpLook::resolve`].
    pub fn home(&self) -> Result<(Vec<u8>, Option<Metadata>, Duration)> {
        let (asked, connection) = (Instant::now(), &self.server.connection);
        let (home, found) = (connection.real_path(b"."), attrs(connection.look(b".")));
        let home = self.server.wait(home).map_err(|refusal| refusal.error("looking at").at(b"."))?;
        let took = asked.elapsed();
        // Where it cannot be looked at, it is nobody's in particular.
        let found = self.server.wait(found).ok().flatten();
        Ok((home, found, self.server.took.map_or(took, |before| before.min(took))))
    }
}
