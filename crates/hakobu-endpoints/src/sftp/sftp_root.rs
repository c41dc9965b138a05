//! A root directory on a server, and checks of the paths below it.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::error::ErrorStep;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::connection::PendingReply;
use super::requests::{ServerRefusal, attrs, unclear};
use super::server::Server;
use crate::local::errno::changed;

/// The maximum number of paths that are remembered as directories.
const KNOWN_MAX: usize = 8192;

/// Returns true if an error means that the entry does not exist.
fn is_gone(error: &Error) -> bool {
    use ErrorKind::{Conflict, NotFound, SourceChanged, SourceVanished};
    matches!(error.kind, NotFound | Conflict | SourceVanished | SourceChanged)
}

/// The end of a copy, which decides what a missing entry means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingMeaning {
    Source,
    Target,
}

/// Pending second checks of the directories on a path.
pub(crate) struct PathCheck(Vec<(EntryPath, PendingReply)>);

/// A root directory of a server, as seen by one lane.
///
/// The server resolves paths, so symbolic links cannot be excluded as with `openat2`. Instead every directory on a path
/// is checked before entries below it are used, and again after something was written there. A user who can replace a
/// directory on the server with a symbolic link between a check and a request can redirect the request, within the
/// permissions of the account. The second check detects this as an error, unless the directory was already swapped
/// back.
pub(crate) struct SftpRoot {
    pub(crate) server: Server,
    pub(crate) end: MissingMeaning,
    /// The absolute path of the directory, as returned by the server.
    root: Vec<u8>,
    known: Mutex<HashSet<EntryPath>>,
}

impl SftpRoot {
    pub(crate) fn new(server: Server, end: MissingMeaning, root: Vec<u8>) -> Self {
        Self { server, end, root, known: Mutex::default() }
    }

    /// Returns the absolute path of an entry.
    pub(crate) fn whole(&self, path: &EntryPath) -> Vec<u8> {
        match path.is_root() {
            true => self.root.clone(),
            false => self.whole_name(path.as_bytes()),
        }
    }

    /// Returns the absolute path of a name in a directory.
    pub(crate) fn in_directory(&self, directory: &EntryPath, name: &[u8]) -> Vec<u8> {
        match directory.is_root() {
            true => self.whole_name(name),
            false => self.whole_name(&[directory.as_bytes(), b"/", name].concat()),
        }
    }

    fn whole_name(&self, name: &[u8]) -> Vec<u8> {
        let slash: &[u8] = if self.root.ends_with(b"/") { b"" } else { b"/" };
        [&self.root, slash, name].concat()
    }

    fn known(&self) -> MutexGuard<'_, HashSet<EntryPath>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_known(&self, path: &EntryPath) -> bool {
        path.is_root() || self.known().contains(path)
    }

    /// Records that a path leads to a directory, without symbolic links.
    pub(crate) fn learn(&self, path: &EntryPath) {
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(path.clone());
    }

    /// Forgets a directory, because it has changed.
    pub(crate) fn forget(&self, path: &EntryPath) {
        self.known().retain(|known| !known.is_within(path));
    }

    /// Returns the prefixes of a path that are not known to be directories, from the top.
    pub(crate) fn unknown(&self, path: &EntryPath) -> Result<Vec<EntryPath>> {
        let mut steps = Vec::new();
        let mut at = path.clone();
        while !self.is_known(&at) {
            let Some((parent, _)) = at.split_last() else { break };
            steps.push(std::mem::replace(&mut at, parent));
        }
        steps.reverse();
        Ok(steps)
    }

    /// Checks that a path leads to a directory, without symbolic links.
    ///
    /// # Errors
    /// `NotFound` or `Conflict`; at the source, errors for a vanished or changed entry.
    pub(crate) async fn check_way(&self, path: &EntryPath) -> Result<()> {
        let steps = self.unknown(path)?;
        let looks: Vec<_> = steps.iter().map(|step| self.server.connection.look(&self.whole(step))).collect();
        for (step, look) in steps.iter().zip(looks) {
            let found = attrs(look).await.map_err(|refusal| self.error("opening the directory", refusal));
            match found.map_err(|error| error.at(path))? {
                Some(found) if found.kind == EntryKind::Directory => self.learn(step),
                found => return Err(self.no_directory(found.as_ref()).at(path)),
            }
        }
        Ok(())
    }

    /// Begins a second check of every directory on a checked path, which is sent together with requests for the last
    /// one.
    pub(crate) fn glance(&self, path: &EntryPath) -> PathCheck {
        let mut steps = Vec::new();
        let mut at = path.clone();
        while let Some((parent, _)) = at.split_last() {
            steps.push(std::mem::replace(&mut at, parent));
        }
        steps.reverse();
        let look = |step: EntryPath| {
            let answer = self.server.connection.look(&self.whole(&step));
            (step, answer)
        };
        PathCheck(steps.into_iter().map(look).collect())
    }

    /// Waits for the second check that all of them are still directories.
    ///
    /// # Errors
    /// As for [`SftpRoot::check_way`].
    pub(crate) async fn glanced(&self, path: &EntryPath, glance: PathCheck) -> Result<()> {
        for (step, answer) in glance.0 {
            let found = attrs(answer).await.map_err(|refusal| self.error("opening the directory", refusal));
            let error = match found {
                Ok(Some(found)) if found.kind == EntryKind::Directory => continue,
                Ok(found) => self.no_directory(found.as_ref()),
                Err(error) => error,
            };
            self.forget(&step);
            return Err(error.at(path));
        }
        Ok(())
    }

    fn no_directory(&self, found: Option<&EntryMetadata>) -> Error {
        if self.end == MissingMeaning::Source {
            return changed("opening the directory");
        }
        let what = found.map_or("something", |found| found.kind.words());
        Error::new(ErrorKind::Conflict, "opening the directory", format!("{what} is in the path to it"))
    }

    /// Describes an entry without following a symbolic link. Returns `None` if it is missing, or not below this root.
    pub(crate) async fn inspect(&self, path: &EntryPath) -> Result<Option<EntryMetadata>> {
        let (parent, _) = path.split_last().unwrap_or_default();
        let found = async {
            self.check_way(&parent).await?;
            let glance = self.glance(&parent);
            let look = self.server.connection.look(&self.whole(path));
            self.glanced(&parent, glance).await?;
            match attrs(look).await {
                Ok(Some(found)) => Ok(Some(found)),
                Ok(None) => Err(unclear("looking at").at(path)),
                Err(ServerRefusal::NotFound) => Ok(None),
                Err(refusal) => Err(refusal.error("looking at").at(path)),
            }
        };
        match found.await {
            Err(error) if is_gone(&error) => Ok(None),
            other => other,
        }
    }

    /// Converts a refusal to an error that fits this end.
    pub(crate) fn error(&self, during: &'static str, refusal: ServerRefusal) -> Error {
        match (self.end, refusal) {
            (MissingMeaning::Source, ServerRefusal::NotFound) => crate::local::errno::vanished(during),
            (_, refusal) => refusal.error(during),
        }
    }

    /// Converts the refusal of a write to an error. Version 3 does not distinguish a full file system from other
    /// failures, so the free space is queried.
    pub(crate) async fn write_error(
        &self,
        during: &'static str,
        refusal: ServerRefusal,
        needed_bytes: u64,
    ) -> Error {
        if !matches!(refusal, ServerRefusal::Other | ServerRefusal::Denied) {
            return refusal.error(during);
        }
        let room = self.server.room(&self.root, false).await;
        let (kind, words) = match room {
            Ok(Some(room)) if room.read_only => {
                (ErrorKind::ReadOnly, "the file system is mounted for reading only")
            }
            Ok(Some(room)) if refusal == ServerRefusal::Other && room.free_inodes == Some(0) => {
                (ErrorKind::NoInodes, "the file system has no inode left for another file")
            }
            Ok(Some(room)) if refusal == ServerRefusal::Other && room.free_bytes < needed_bytes.max(1) => {
                (ErrorKind::NoSpace, "no space left on the server's file system")
            }
            _ => return refusal.error(during),
        };
        Error::new(kind, during, words).in_step(ErrorStep::Write)
    }
}
