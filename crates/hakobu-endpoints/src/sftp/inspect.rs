//! Inspection of the paths that the user named.

use std::time::{Duration, Instant};

use hakobu_core::Result;
use hakobu_core::entry::EntryMetadata;

use super::access::SftpAccess;
use super::connection::Channel;
use super::read_file::fill;
use super::requests::{RequestResult, ServerRefusal, attrs, data, done, unclear};
use super::server::{GREETING_LIMIT, Server, ServerExtensions};

/// The file with the boot ID of Linux, and a limit above its size in bytes.
const BOOT_ID: &[u8] = b"/proc/sys/kernel/random/boot_id";
const BOOT_ID_BYTES: usize = 64;

/// A connection to a server for sequential queries.
pub struct SftpLook {
    server: Server,
}

impl SftpLook {
    /// Greets the server behind a channel that was opened for this.
    ///
    /// # Errors
    /// `ConnectionLost`, `TimedOut`, or `Protocol` if there is no SFTP server at the other end.
    pub fn open(channel: Channel, access: &SftpAccess) -> Result<Self> {
        Ok(Self { server: Server::greet(channel, access.cancel.clone(), GREETING_LIMIT, None)? })
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the extensions that the server supports beyond version 3 of the protocol.
    pub fn abilities(&self) -> ServerExtensions {
        self.server.abilities
    }

    /// Describes an entry, or with `follow` the target of a symbolic link. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// `PermissionDenied`, `ConnectionLost` and the like.
    pub fn describe(&self, path: &[u8], follow: bool) -> Result<Option<EntryMetadata>> {
        let connection = &self.server.connection;
        let asked = if follow { connection.look_through(path) } else { connection.look(path) };
        match self.server.wait(attrs(asked)) {
            Ok(Some(found)) => Ok(Some(found)),
            Ok(None) => Err(unclear("looking at").at(path)),
            Err(ServerRefusal::NotFound) => Ok(None),
            Err(refusal) => Err(refusal.error("looking at").at(path)),
        }
    }

    /// Resolves a path to an absolute one. Relative paths begin at the account's directory on the server.
    ///
    /// # Errors
    /// As for [`SftpLook::describe`], and `NotFound`.
    pub fn resolve(&self, path: &[u8]) -> Result<Vec<u8>> {
        let resolved = self.server.wait(self.server.connection.real_path(path));
        resolved.map_err(|refusal| refusal.error("looking at").at(path))
    }

    /// Returns the boot ID of the server's machine, or `None` if the server does not expose it.
    pub fn boot_id(&self) -> Option<String> {
        let connection = &self.server.connection;
        let handle = self.server.wait(connection.open_to_read(BOOT_ID)).ok()?;
        let read = self.server.wait(async {
            let mut read = data(connection.read(&handle, 0, BOOT_ID_BYTES), BOOT_ID_BYTES).await?;
            // A server may return less than requested, and a truncated ID would be that of another machine.
            if !read.is_empty() && !read.ends_with(b"\n") {
                let got = read.len();
                fill(connection, &handle, (0, BOOT_ID_BYTES), &mut read, got).await?;
            }
            RequestResult::Ok(read)
        });
        let _ = self.server.wait(done(connection.close(&handle)));
        let id = String::from_utf8(read.ok()?).ok()?;
        let is_sound =
            |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        Some(id.trim()).filter(is_sound).map(str::to_owned)
    }

    /// Returns the account's directory, its metadata, and the response time: the shorter of two measurements if the
    /// server was asked for its limits.
    ///
    /// # Errors
    /// As for [`SftpLook::resolve`].
    pub fn home(&self) -> Result<(Vec<u8>, Option<EntryMetadata>, Duration)> {
        let (asked, connection) = (Instant::now(), &self.server.connection);
        let (home, found) = (connection.real_path(b"."), attrs(connection.look(b".")));
        let home = self.server.wait(home).map_err(|refusal| refusal.error("looking at").at(b"."))?;
        let took = asked.elapsed();
        // If it cannot be inspected, its owner is unknown.
        let found = self.server.wait(found).ok().flatten();
        Ok((home, found, self.server.took.map_or(took, |before| before.min(took))))
    }
}
