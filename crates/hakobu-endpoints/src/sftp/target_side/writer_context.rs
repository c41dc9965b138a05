//! Operations on the target for one lane: creates missing directories, and creates drafts, which get their attributes
//! and then their final names.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, SET_ID};
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::shared::SftpTargetState;
use crate::sftp::connection::PendingReply;
use crate::sftp::handle_semaphore::HandleSemaphore;
use crate::sftp::requests::{RequestResult, ServerRefusal, attrs, done};
use crate::sftp::sftp_root::SftpRoot;
use crate::sftp::wire::{Attrs, Handle, open};

/// The mode of a draft.
const DRAFT_MODE: u32 = 0o600;
/// The mode of a directory that is created as a parent. Its own mode is applied after its children were created.
const PASSING_MODE: u32 = 0o700;
/// The number of attempts to reach a directory while others change its path.
const TRIES: usize = 4;

/// The losses of one entry.
pub(crate) type SftpEntryLosses = Vec<LossKind>;

/// The state with which one lane writes.
pub(crate) struct SftpWriterContext {
    pub(super) shared: Arc<SftpTargetState>,
    pub(super) sftp_root: SftpRoot,
    /// Permits for open small files.
    pub(super) permits: HandleSemaphore,
}

impl SftpWriterContext {
    pub(super) fn new(shared: Arc<SftpTargetState>, sftp_root: SftpRoot) -> Self {
        let permits = HandleSemaphore::new(sftp_root.server.handles);
        Self { shared, sftp_root, permits }
    }

    // Directories

    /// Makes sure that a directory exists, and creates its missing parents.
    pub(super) async fn directory(&self, path: &EntryPath) -> Result<()> {
        self.shared.grant.check_enter(path)?;
        // Even known directories are checked again, because somebody may have put a symbolic link there since.
        if self.sftp_root.is_known(path)
            && self
                .sftp_root
                .glanced(path, self.sftp_root.glance(path))
                .await
                .is_ok_and(|()| self.sftp_root.is_known(path))
        {
            return Ok(());
        }
        self.reach(path, PASSING_MODE).await
    }

    /// Makes sure that a directory exists. The last name gets this mode if it is created.
    pub(super) async fn reach(&self, path: &EntryPath, mode: u32) -> Result<()> {
        for step in self.sftp_root.unknown(path)? {
            let mode = if step == *path { mode } else { PASSING_MODE };
            self.step(&step, mode).await?;
        }
        Ok(())
    }

    /// Makes sure that one directory exists, and replaces a symbolic link of that name.
    async fn step(&self, path: &EntryPath, mode: u32) -> Result<()> {
        let during = "making the directory";
        let (connection, whole) = (&self.sftp_root.server.connection, self.sftp_root.whole(path));
        for _ in 0..TRIES {
            match attrs(connection.look(&whole)).await {
                Ok(Some(found)) if found.kind == EntryKind::Directory => {
                    self.sftp_root.learn(path);
                    return Ok(());
                }
                Ok(Some(found)) => {
                    let gives_way =
                        found.kind == EntryKind::Symlink || self.shared.grant.check_remove(path).is_ok();
                    if !gives_way {
                        let words = format!("{} is in its place", found.kind.words());
                        return Err(Error::new(ErrorKind::Conflict, during, words).at(path));
                    }
                    self.may_make(path)?;
                    let _ = done(connection.remove(&whole)).await;
                }
                Ok(None) => {
                    let words = "something of an unknown kind is in its place";
                    return Err(Error::new(ErrorKind::Conflict, during, words).at(path));
                }
                Err(ServerRefusal::NotFound) => {}
                Err(refusal) => return Err(refusal.error("opening the directory").at(path)),
            }
            self.may_make(path)?;
            match done(connection.make_directory(&whole, mode & 0o7777)).await {
                // Check again: another lane may have created something else meanwhile.
                Ok(()) | Err(ServerRefusal::Other) => {}
                Err(refusal) => return Err(self.sftp_root.write_error(during, refusal, 1).await.at(path)),
            }
        }
        Err(self.sftp_root.write_error(during, ServerRefusal::Other, 1).await.at(path))
    }

    /// Fails if a missing directory must not be created. One that only leads to a granted path must exist.
    fn may_make(&self, path: &EntryPath) -> Result<()> {
        let leads = || Error::new(ErrorKind::NotFound, "opening the directory", "no such directory").at(path);
        self.shared.grant.check_write(path).map_err(|_| leads())?;
        self.shared.grant.check_time()
    }

    /// Flushes a directory to stable storage, if that is requested and the server supports it: OpenSSH opens one like a
    /// file. If the directory cannot be opened, the flush is left to the server's system.
    pub(super) async fn sync_directory(&self, path: &EntryPath) -> Result<()> {
        if !self.syncs() {
            return Ok(());
        }
        let connection = &self.sftp_root.server.connection;
        let handle = match connection.open_to_read(&self.sftp_root.whole(path)).await {
            Ok(handle) => handle,
            Err(ServerRefusal::Fatal(error)) => return Err(error),
            Err(_) => return Ok(()),
        };
        let synced = connection.sync(&handle);
        drop(connection.close(&handle));
        match done(synced).await {
            Ok(()) | Err(ServerRefusal::Unsupported | ServerRefusal::Invalid) => Ok(()),
            Err(refusal) => Err(refusal.error("bringing to stable storage").at(path)),
        }
    }

    pub(super) fn syncs(&self) -> bool {
        self.shared.options.durable && self.sftp_root.server.abilities.syncs
    }

    // Drafts

    /// Returns the absolute path of a draft for `path`, and registers it as existing from now on.
    pub(super) fn begin_draft(&self, path: &EntryPath) -> Vec<u8> {
        let (parent, _) = path.split_last().unwrap_or_default();
        let draft = self.sftp_root.in_directory(&parent, &self.shared.names.name());
        self.shared.names.begin(&draft);
        draft
    }

    /// Removes a draft that gets no final name.
    pub(super) async fn discard(&self, draft: &[u8]) {
        match done(self.sftp_root.server.connection.remove(draft)).await {
            Err(ServerRefusal::Fatal(_)) => {}
            _ => self.shared.names.end(draft),
        }
    }

    /// Removes leftovers of a killed run of the same job in a directory. Failures are ignored.
    pub(super) fn sweep(&self, directory: &EntryPath, drafts: &[Vec<u8>]) {
        let grant = &self.shared.grant;
        if self.shared.options.leaves_all || grant.only_reads || grant.check_time().is_err() {
            return;
        }
        let is_left = |name: &&Vec<u8>| self.shared.names.is_of_job(name);
        for draft in drafts.iter().filter(is_left).map(|name| self.sftp_root.in_directory(directory, name)) {
            if !self.shared.names.is_current(&draft) {
                drop(self.sftp_root.server.connection.remove(&draft));
            }
        }
    }

    /// Removes such leftovers beside files that were named individually, whose directories are not listed.
    pub(super) async fn sweep_beside_files(&self) {
        if !self.shared.grant.may_clear_beside() {
            return;
        }
        let mut parents: Vec<EntryPath> = Vec::new();
        for place in self.shared.grant.places.iter().filter(|place| !place.tree) {
            let Some((parent, _)) = place.path.split_last() else { continue };
            if parents.contains(&parent) {
                continue;
            }
            if let Ok(drafts) = crate::sftp::list::drafts(&self.sftp_root, &parent).await {
                self.sweep(&parent, &drafts);
            }
            parents.push(parent);
        }
    }

    /// Creates a new file.
    pub(super) async fn create(&self, whole: &[u8]) -> RequestResult<Handle> {
        let connection = &self.sftp_root.server.connection;
        connection.open(whole, open::WRITE | open::CREATE | open::EXCLUSIVE, Some(DRAFT_MODE)).await
    }

    /// Sets the attributes of a new file, flushes it to stable storage and closes it. If `size_bytes` is given, the
    /// size is set as well, because the file may end with zeros that were not written.
    pub(super) async fn settle_open(
        &self,
        handle: &Handle,
        wanted: &Attributes,
        size_bytes: Option<u64>,
        syncs: bool,
    ) -> Result<SftpEntryLosses> {
        let connection = &self.sftp_root.server.connection;
        let (mut lost, during) = (SftpEntryLosses::new(), "setting the attributes");
        let mut owner = Some(self.settle_owner(
            wanted,
            || connection.look_open(handle),
            |attrs| connection.set_open(handle, attrs),
        ));
        let settle = |mode| {
            let settled = Attrs { size_bytes, ..Attrs::settled(wanted, mode, now_s()) };
            connection.set_open(handle, &settled)
        };
        // A set-ID bit has to wait for the owner. The other requests are sent together.
        let settled = match owner.take_if(|_| wanted.mode & SET_ID != 0) {
            Some(owner) => {
                let owned = match owner.keeps(wanted, &mut lost).await {
                    Ok(owned) => owned,
                    Err(refusal) => {
                        drop(connection.close(handle));
                        return Err(refusal.error(during));
                    }
                };
                settle(self.mode(wanted.mode, owned, &mut lost))
            }
            None => settle(wanted.mode & 0o7777),
        };
        let synced = (syncs && self.syncs()).then(|| connection.sync(handle));
        let closed = connection.close(handle);
        if let Some(owner) = owner {
            owner.keeps(wanted, &mut lost).await.map_err(|refusal| refusal.error(during))?;
        }
        let ended = async {
            done(settled).await?;
            if let Some(synced) = synced {
                done(synced).await?;
            }
            done(closed).await
        };
        match ended.await {
            Ok(()) => Ok(lost),
            Err(refusal) => Err(self.sftp_root.write_error(during, refusal, 1).await),
        }
    }

    /// Begins to set the owner of an entry, or to query it if it cannot be changed.
    pub(super) fn settle_owner(
        &self,
        wanted: &Attributes,
        look: impl FnOnce() -> PendingReply,
        set: impl FnOnce(&Attrs) -> PendingReply,
    ) -> OwnerAnswer {
        // The highest number means "do not change" to the system, so it is no valid owner.
        match self.shared.may_chown && wanted.uid != u32::MAX && wanted.gid != u32::MAX {
            true => {
                OwnerAnswer::Set(set(&Attrs { owner: Some((wanted.uid, wanted.gid)), ..Attrs::default() }))
            }
            false => OwnerAnswer::Is(look()),
        }
    }

    /// Returns the mode to set. Set-ID bits are removed if the owner is not the requested one, because they would give
    /// the rights of the wrong user.
    pub(super) fn mode(&self, wanted: u32, owned: bool, lost: &mut SftpEntryLosses) -> u32 {
        if wanted & SET_ID != 0 && !(owned && self.shared.grant.may_set_id) {
            lost.push(LossKind::SetId);
            return wanted & 0o7777 & !SET_ID;
        }
        wanted & 0o7777
    }

    // Names

    /// Renames a draft to its final name. The draft must be complete.
    pub(super) async fn put_in_place(&self, draft: &[u8], path: &EntryPath, replaces: bool) -> Result<()> {
        let during = "renaming into place";
        let (sftp_root, connection) = (&self.sftp_root, &self.sftp_root.server.connection);
        let whole = sftp_root.whole(path);
        if !self.shared.grant.is_in_tree(path)
            && let Ok(Some(there)) = attrs(connection.look(&whole)).await
        {
            keep_device(&there)?;
        }
        self.shared.grant.check_time()?;
        let renamed = match sftp_root.server.abilities.renames_over {
            true => done(connection.rename_over(draft, &whole)).await,
            false => done(connection.rename(draft, &whole)).await,
        };
        let refusal = match renamed {
            Ok(()) => {
                self.shared.names.end(draft);
                return Ok(());
            }
            Err(ServerRefusal::Fatal(error)) => return Err(error),
            Err(refusal) => refusal,
        };
        match attrs(connection.look(&whole)).await {
            Ok(Some(there)) if there.kind == EntryKind::Directory => {
                Err(Error::new(ErrorKind::Conflict, during, "a directory is in the way"))
            }
            Ok(Some(_)) if !sftp_root.server.abilities.renames_over => {
                self.replace_in_steps(draft, path).await
            }
            _ => Err(sftp_root.write_error(during, refusal, u64::from(!replaces)).await),
        }
    }
}

impl SftpWriterContext {
    /// Replaces an entry on a server without atomic replacement: the old entry is set aside, and restored on failure.
    async fn replace_in_steps(&self, draft: &[u8], path: &EntryPath) -> Result<()> {
        let during = "renaming into place";
        let (sftp_root, connection) = (&self.sftp_root, &self.sftp_root.server.connection);
        let (parent, _) = path.split_last().unwrap_or_default();
        let (whole, aside) =
            (sftp_root.whole(path), sftp_root.in_directory(&parent, &self.shared.names.aside()));
        done(connection.rename(&whole, &aside)).await.map_err(|refusal| refusal.error(during))?;
        match done(connection.rename(draft, &whole)).await {
            Ok(()) => {
                self.shared.names.end(draft);
                let _ = done(connection.remove(&aside)).await;
                Ok(())
            }
            Err(refusal) => {
                let _ = done(connection.rename(&aside, &whole)).await;
                Err(refusal.error(during))
            }
        }
    }
}

/// The pending answer about an owner.
pub(crate) enum OwnerAnswer {
    /// The owner was set.
    Set(PendingReply),
    /// The owner was only queried.
    Is(PendingReply),
}

impl OwnerAnswer {
    /// Returns true if the owner is the requested one. Otherwise the loss is recorded.
    pub(super) async fn keeps(self, wanted: &Attributes, lost: &mut SftpEntryLosses) -> RequestResult<bool> {
        let kept = match self {
            OwnerAnswer::Set(answer) => match done(answer).await {
                Ok(()) => true,
                Err(ServerRefusal::Denied | ServerRefusal::Other | ServerRefusal::Unsupported) => false,
                Err(refusal) => return Err(refusal),
            },
            OwnerAnswer::Is(answer) => {
                attrs(answer).await?.is_some_and(|is| (is.uid, is.gid) == (wanted.uid, wanted.gid))
            }
        };
        if !kept {
            lost.push(LossKind::Owner);
        }
        Ok(kept)
    }
}

/// Refuses to replace a device with a file or symbolic link.
pub(super) fn keep_device(there: &EntryMetadata) -> Result<()> {
    match there.kind {
        EntryKind::CharDevice | EntryKind::BlockDevice => {
            let words = format!("{} is in its place, which is not replaced", there.kind.words());
            Err(Error::new(ErrorKind::Refused, "making the file", words))
        }
        _ => Ok(()),
    }
}

/// Returns the current time in seconds, as in version 3.
pub(super) fn now_s() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
