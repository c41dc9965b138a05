//! The operation `Apply`: changes without content. The needed facts are requested for all changes together, then the
//! changes are sent in their order.

use futures_util::future::join_all;
use hakobu_core::endpoint::{Change, TargetOutcome};
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, SET_ID};
use hakobu_core::losses::Losses;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::writer_context::{SftpEntryLosses, SftpWriterContext, keep_device, now_s};
use crate::sftp::connection::PendingReply;
use crate::sftp::requests::{RequestResult, ServerRefusal, attrs, done};
use crate::sftp::wire::Attrs;

/// The number of changes that are pending at a time.
const CHANGES_AT_ONCE: usize = 64;
const SETTING: &str = "setting the attributes";

impl SftpWriterContext {
    /// Makes the changes in order. The outcome lists the changes that failed by index.
    ///
    /// # Errors
    /// If a failure would affect every further change.
    pub(super) async fn apply(&self, changes: &[Change]) -> Result<TargetOutcome> {
        let (mut failures, mut losses) = (Vec::new(), Losses::default());
        let mut index = 0;
        for some in changes.chunks(CHANGES_AT_ONCE) {
            for (change, made) in some.iter().zip(self.apply_some(some).await) {
                match made {
                    Ok(lost) => losses.merge(&lost, true, || change.path().as_bytes().to_vec()),
                    Err(error) if error.is_fatal() => return Err(error.at(change.path())),
                    Err(error) => failures.push((index, error.at(change.path()))),
                }
                index += 1;
            }
        }
        Ok(TargetOutcome::PackWritten { failures, losses: losses.finish() })
    }

    async fn apply_some(&self, changes: &[Change]) -> Vec<Result<SftpEntryLosses>> {
        // The paths are checked first, so that the changes themselves need not wait.
        let ready = join_all(changes.iter().map(|change| self.prepare(change))).await;
        let mut made = Vec::with_capacity(changes.len());
        let (mut pending, mut removals) = (Vec::new(), Vec::new());
        for (change, ready) in changes.iter().zip(ready) {
            let done = match ready {
                Ok(CheckedChange::Settle(is, attributes)) => {
                    // A removal changes the time of the directory that contained the entry.
                    self.end_removals(changes, &mut removals, &mut made).await;
                    let begun = self.begin_to_settle(change.path(), &is, attributes).await;
                    pending.push((made.len(), begun));
                    Ok(SftpEntryLosses::new())
                }
                // The contents of a directory are removed before it, and the server works in order.
                Ok(CheckedChange::Remove { directory }) => {
                    removals.push((made.len(), directory, self.begin_to_remove(change.path(), directory)));
                    Ok(SftpEntryLosses::new())
                }
                Ok(CheckedChange::Link { to, replaces }) => {
                    self.link_to(change.path(), to, replaces).await.map(|()| SftpEntryLosses::new())
                }
                Ok(CheckedChange::Done) => Ok(SftpEntryLosses::new()),
                Err(error) => Err(error),
            };
            made.push(done);
        }
        for (index, begun) in pending {
            made[index] = match begun {
                Ok(begun) => begun.end(self).await,
                Err(error) => Err(error),
            };
        }
        self.end_removals(changes, &mut removals, &mut made).await;
        self.look_again(changes, &mut made).await;
        let synced = join_all(changes.iter().map(|change| self.sync_change(change))).await;
        made.into_iter()
            .zip(synced)
            .map(|(made, synced)| made.and_then(|lost| synced.map(|()| lost)))
            .collect()
    }

    /// Checks the paths of the changed entries again. A symbolic link that was put there meanwhile is an error.
    async fn look_again(&self, changes: &[Change], made: &mut [Result<SftpEntryLosses>]) {
        let parent =
            |change: &Change| change.path().split_last().map(|(parent, _)| parent).unwrap_or_default();
        let mut ways: Vec<EntryPath> = Vec::new();
        for change in changes.iter().filter(|change| !matches!(change, Change::Remove { .. })) {
            let way = parent(change);
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        let looks: Vec<_> = ways.iter().map(|way| self.sftp_root.glance(way)).collect();
        for (way, look) in ways.iter().zip(looks) {
            let Err(error) = self.sftp_root.glanced(way, look).await else { continue };
            let those = changes.iter().zip(made.iter_mut()).filter(|(change, _)| parent(change) == *way);
            for (_, made) in
                those.filter(|(change, made)| made.is_ok() && !matches!(change, Change::Remove { .. }))
            {
                *made = Err(error.clone());
            }
        }
    }

    /// Flushes the names and attributes of a change to stable storage.
    async fn sync_change(&self, change: &Change) -> Result<()> {
        match change {
            Change::Directory { path, .. } => self.sync_directory(path).await,
            Change::Link { path, .. } => {
                let (parent, _) = path.split_last().unwrap_or_default();
                self.sync_directory(&parent).await
            }
            Change::MakeDirectory { .. }
            | Change::Attributes { .. }
            | Change::Remove { .. }
            | Change::Rename { .. } => Ok(()),
        }
    }

    /// Checks the path of the entry to be changed.
    async fn prepare<'a>(&self, change: &'a Change) -> Result<CheckedChange<'a>> {
        let path = change.path();
        let grant = &self.shared.grant;
        grant.check_time()?;
        match change {
            Change::Remove { directory, kept_names, .. } => {
                grant.check_remove(path)?;
                match self.may_go(path, *kept_names).await? {
                    true => Ok(CheckedChange::Remove { directory: *directory }),
                    false => Ok(CheckedChange::Done),
                }
            }
            Change::Rename { .. } => {
                let words = "whether a server ignores case is not known";
                Err(Error::new(ErrorKind::Unsupported, "renaming", words).at(path))
            }
            Change::Link { to, replaces, .. } => {
                grant.check_write(path)?;
                // A later write to one name also writes to the other, so both must be granted.
                grant.check_write(to)?;
                for path in [path, to] {
                    if let Some((parent, _)) = path.split_last() {
                        self.directory(&parent).await?;
                    }
                }
                Ok(CheckedChange::Link { to, replaces: *replaces })
            }
            Change::MakeDirectory { mode, .. } => {
                grant.check_write(path)?;
                self.reach(path, *mode).await.map(|()| CheckedChange::Done)
            }
            Change::Directory { attributes, .. } => {
                grant.check_write(path)?;
                self.directory(path).await?;
                Ok(CheckedChange::Settle(EntryMetadata::new(EntryKind::Directory), attributes))
            }
            Change::Attributes { attributes, .. } => {
                grant.check_write(path)?;
                match self.sftp_root.inspect(path).await? {
                    Some(is) => Ok(CheckedChange::Settle(is, attributes)),
                    None => Err(ServerRefusal::NotFound.error("opening")),
                }
            }
        }
    }

    /// Sends the requests that set the attributes. The entry is known not to be a symbolic link, or is handled as one.
    async fn begin_to_settle(
        &self,
        path: &EntryPath,
        is: &EntryMetadata,
        wanted: &Attributes,
    ) -> Result<AttributeRequests> {
        let grant = &self.shared.grant;
        let may = match is.kind {
            EntryKind::File | EntryKind::Directory | EntryKind::Symlink => true,
            EntryKind::Fifo => grant.is_in_tree(path),
            EntryKind::BlockDevice | EntryKind::CharDevice => {
                grant.is_in_tree(path) && grant.may_make_devices
            }
            EntryKind::Socket => false,
        };
        if !may {
            let words = format!("{} is in its place", is.kind.words());
            return Err(Error::new(ErrorKind::Conflict, SETTING, words));
        }
        let (connection, whole) = (&self.sftp_root.server.connection, self.sftp_root.whole(path));
        let sets_links = self.sftp_root.server.abilities.sets_links;
        let mut lost = SftpEntryLosses::new();
        if is.kind == EntryKind::Symlink && !sets_links {
            return Ok(AttributeRequests { owner: None, settled: None, again: None, wanted: *wanted, lost });
        }
        // If the server supports it, a symbolic link that replaces the entry meanwhile is not followed. OpenSSH on
        // older systems can set modes in this way only through /proc, which an account in a chroot does not have.
        let here = is.kind == EntryKind::Symlink
            || (sets_links && !self.shared.modes_through_only.load(std::sync::atomic::Ordering::Relaxed));
        let set = |attrs: &Attrs| match here {
            true => connection.set_here(&whole, attrs),
            false => connection.set_through(&whole, attrs),
        };
        let mut owner = Some(self.settle_owner(wanted, || connection.look(&whole), set));
        // On a directory, set-ID bits give no privilege.
        let mode = match wanted.mode & SET_ID {
            0 => wanted.mode,
            _ if is.kind == EntryKind::Directory => wanted.mode,
            _ => {
                let owned = match owner.take() {
                    Some(owner) => owner.keeps(wanted, &mut lost).await,
                    None => Ok(true),
                };
                self.mode(wanted.mode, owned.map_err(|refusal| refusal.error(SETTING))?, &mut lost)
            }
        };
        let attrs = Attrs::settled(wanted, mode & 0o7777, now_s());
        let attrs = if is.kind == EntryKind::Symlink { Attrs { mode: None, ..attrs } } else { attrs };
        let settled = Some(set(&attrs));
        let again = (here && is.kind != EntryKind::Symlink).then_some(RetriedAttributes {
            whole,
            kind: is.kind,
            attrs,
        });
        Ok(AttributeRequests { owner, settled, again, wanted: *wanted, lost })
    }

    // Removing

    /// Returns true if an entry to be removed may exist. A path through a symbolic link does not exist.
    async fn may_go(&self, path: &EntryPath, kept_names: u16) -> Result<bool> {
        let Some((parent, _)) = path.split_last() else {
            return Err(Error::new(ErrorKind::Refused, REMOVING, "the target itself is never removed"));
        };
        let way = self.sftp_root.check_way(&parent).await;
        let way = match way {
            Ok(()) => self.sftp_root.glanced(&parent, self.sftp_root.glance(&parent)).await,
            Err(error) => Err(error),
        };
        match way {
            Ok(()) => {}
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Conflict) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let mut kept = path.names().take(usize::from(kept_names));
        let kept = kept.try_fold(EntryPath::root(), |path, name| path.join(name))?;
        if kept != parent && self.system_of(&parent).await? != self.system_of(&kept).await? {
            let words = "another file system is mounted there, which is left alone";
            return Err(Error::new(ErrorKind::Refused, REMOVING, words));
        }
        Ok(true)
    }

    /// Returns the number of a directory's file system, if the server reports it.
    async fn system_of(&self, path: &EntryPath) -> Result<Option<u64>> {
        match self.sftp_root.server.room(&self.sftp_root.whole(path), false).await {
            Ok(room) => Ok(room.map(|room| room.system)),
            Err(ServerRefusal::Fatal(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Waits for the pending removals.
    async fn end_removals(
        &self,
        changes: &[Change],
        removals: &mut Vec<(usize, bool, PendingReply)>,
        made: &mut [Result<SftpEntryLosses>],
    ) {
        for (index, directory, answer) in removals.drain(..) {
            let removed = self.removed(changes[index].path(), directory, done(answer).await).await;
            made[index] = removed.map(|()| SftpEntryLosses::new());
        }
    }

    fn begin_to_remove(&self, path: &EntryPath, directory: bool) -> PendingReply {
        let (connection, whole) = (&self.sftp_root.server.connection, self.sftp_root.whole(path));
        match directory {
            false => connection.remove(&whole),
            true => {
                self.sftp_root.forget(path);
                connection.remove_directory(&whole)
            }
        }
    }

    /// Evaluates the result of a removal. A directory may contain drafts, which are removed first.
    async fn removed(&self, path: &EntryPath, directory: bool, removed: RequestResult) -> Result<()> {
        let (connection, whole) = (&self.sftp_root.server.connection, self.sftp_root.whole(path));
        match removed {
            Ok(()) => Ok(()),
            Err(ServerRefusal::NotFound) if !directory => Ok(()),
            Err(ServerRefusal::Other) if directory => self.remove_with_drafts(path, &whole).await,
            Err(refusal) => match attrs(connection.look(&whole)).await {
                Ok(Some(is)) if !directory && is.kind == EntryKind::Directory => {
                    let words = "it has become a directory meanwhile";
                    Err(Error::new(ErrorKind::Conflict, REMOVING, words))
                }
                // OpenSSH reports an entry that is not a directory as missing.
                Ok(_) if refusal == ServerRefusal::NotFound => {
                    let words = "it is no directory any more";
                    Err(Error::new(ErrorKind::Conflict, REMOVING, words))
                }
                Err(ServerRefusal::NotFound) => Ok(()),
                _ => Err(refusal.error(REMOVING)),
            },
        }
    }

    /// Removes a directory if it contains only abandoned drafts.
    async fn remove_with_drafts(&self, path: &EntryPath, whole: &[u8]) -> Result<()> {
        if let Some((parent, _)) = path.split_last()
            && self.system_of(path).await? != self.system_of(&parent).await?
        {
            return Err(Error::new(ErrorKind::Refused, REMOVING, "a file system is mounted on it"));
        }
        let connection = &self.sftp_root.server.connection;
        for draft in crate::sftp::list::drafts(&self.sftp_root, path).await? {
            let _ = done(connection.remove(&self.sftp_root.in_directory(path, &draft))).await;
        }
        match done(connection.remove_directory(whole)).await {
            Ok(()) | Err(ServerRefusal::NotFound) => Ok(()),
            Err(ServerRefusal::Other) => {
                Err(Error::new(ErrorKind::Conflict, REMOVING, "something has been put into it meanwhile"))
            }
            Err(refusal) => Err(refusal.error(REMOVING)),
        }
    }

    // Hard links

    /// Creates the hard link `path` to the entry at `to`, and replaces an existing entry.
    async fn link_to(&self, path: &EntryPath, to: &EntryPath, replaces: bool) -> Result<()> {
        let during = "making the hard link";
        let (sftp_root, connection) = (&self.sftp_root, &self.sftp_root.server.connection);
        if !sftp_root.server.abilities.hard_links {
            return Err(ServerRefusal::Unsupported.error(during));
        }
        let (whole, from) = (sftp_root.whole(path), sftp_root.whole(to));
        let found = attrs(connection.look(&from)).await.map_err(|refusal| refusal.error(during))?;
        if let Some(found) = found.filter(|_| !self.shared.grant.is_in_tree(to)) {
            keep_device(&found)?;
        }
        if !replaces && done(connection.hard_link(&from, &whole)).await.is_ok() {
            return Ok(());
        }
        if path.is_root() {
            return Err(Error::new(ErrorKind::Conflict, during, "the target itself is a directory"));
        }
        let draft = self.begin_draft(path);
        let placed = match done(connection.hard_link(&from, &draft)).await {
            Ok(()) => self.put_in_place(&draft, path, replaces).await,
            Err(refusal) => Err(refusal.error(during)),
        };
        // If both names already refer to one inode, renaming does nothing and the draft remains.
        self.discard(&draft).await;
        placed
    }
}

const REMOVING: &str = "removing";

/// A change whose path was checked.
enum CheckedChange<'a> {
    /// Nothing is left to do.
    Done,
    Settle(EntryMetadata, &'a Attributes),
    Remove {
        directory: bool,
    },
    Link {
        to: &'a EntryPath,
        replaces: bool,
    },
}

/// Attributes that could not be set without following symbolic links.
struct RetriedAttributes {
    whole: Vec<u8>,
    kind: EntryKind,
    attrs: Attrs,
}

impl RetriedAttributes {
    /// Sets the attributes following symbolic links, if the entry still has the same kind.
    async fn set(self, context: &SftpWriterContext) -> RequestResult {
        let connection = &context.sftp_root.server.connection;
        match attrs(connection.look(&self.whole)).await? {
            Some(is) if is.kind == self.kind => {}
            _ => return Err(ServerRefusal::NotFound),
        }
        let set = done(connection.set_through(&self.whole, &self.attrs)).await;
        if set.is_ok() {
            context.shared.modes_through_only.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        set
    }
}

/// Pending requests that set attributes.
struct AttributeRequests {
    owner: Option<super::writer_context::OwnerAnswer>,
    settled: Option<PendingReply>,
    /// The retry if the server cannot do this without following symbolic links.
    again: Option<RetriedAttributes>,
    wanted: Attributes,
    lost: SftpEntryLosses,
}

impl AttributeRequests {
    async fn end(mut self, context: &SftpWriterContext) -> Result<SftpEntryLosses> {
        let ended = async {
            if let Some(owner) = self.owner {
                owner.keeps(&self.wanted, &mut self.lost).await?;
            }
            let Some(settled) = self.settled else { return Ok(()) };
            match (done(settled).await, self.again) {
                (Err(ServerRefusal::Other | ServerRefusal::Unsupported), Some(again)) => {
                    again.set(context).await
                }
                (settled, _) => settled,
            }
        };
        ended.await.map_err(|refusal| refusal.error(SETTING))?;
        Ok(self.lost)
    }
}
