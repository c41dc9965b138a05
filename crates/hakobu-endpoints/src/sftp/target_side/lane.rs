//! One lane of a target: the course of each operation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::lock::{Mutex as AsyncMutex, OwnedMutexGuard};
use hakobu_core::endpoint::{Change, DraftId, Operation, Outcome};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::draft::OpenDraft;
use super::ground::Ground;
use crate::sftp::list::list_all;
use crate::sftp::queue::{Course, Store, Work};
use crate::sftp::reading;

/// What a lane of a target writes with.
pub(crate) struct TargetWork {
    pub(super) ground: Arc<Ground>,
    pub(super) store: Store,
    /// The drafts that this lane has open.
    pub(super) open: Mutex<HashMap<DraftId, Arc<OpenDraft>>>,
    /// Held by the last operation that settles directories.
    settling: Mutex<Arc<AsyncMutex<()>>>,
}

impl Work for TargetWork {
    fn course(self: Arc<Self>, operation: Operation) -> Course {
        match operation {
            Operation::Write { draft, offset, buffer, check: _, acknowledge } => Box::pin(async move {
                let written = self.write(draft, offset, buffer, acknowledge).await;
                (acknowledge || written.is_err()).then_some(written)
            }),
            Operation::Zero { draft, extent, acknowledge } => Box::pin(async move {
                let zeroed = self.zero(draft, extent, acknowledge).await;
                (acknowledge || zeroed.is_err()).then_some(zeroed)
            }),
            Operation::Apply { changes } if changes.iter().any(settles) => {
                let (before, own) = self.turn();
                Box::pin(async move {
                    drop(before.lock().await);
                    let applied = self.answer(Operation::Apply { changes }).await;
                    drop(own);
                    Some(applied)
                })
            }
            operation => Box::pin(async move { Some(self.answer(operation).await) }),
        }
    }
}

/// Returns true for what gives a directory its attributes, and makes it if nothing was put into it.
fn settles(change: &Change) -> bool {
    matches!(change, Change::Directory { .. })
}

impl TargetWork {
    pub(super) fn new(ground: Ground, store: Store) -> Self {
        Self { ground: Arc::new(ground), store, open: Mutex::default(), settling: Mutex::default() }
    }

    /// Returns what the settling operation before this one holds, and what this one does. A directory that is made within another
    /// changes its time, so that operations which settle them follow each other in the order in which they were submitted.
    fn turn(&self) -> (Arc<AsyncMutex<()>>, Option<OwnedMutexGuard<()>>) {
        let own = Arc::new(AsyncMutex::new(()));
        let held = Arc::clone(&own).try_lock_owned();
        let mut last = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::replace(&mut *last, own), held)
    }

    async fn answer(&self, operation: Operation) -> Result<Outcome> {
        let ground = &*self.ground;
        let (site, grant) = (&ground.site, &ground.shared.grant);
        match operation {
            Operation::Inspect { root, path, detail: _ } => {
                check_root(root)?;
                grant.check_enter(&path)?;
                site.inspect(&path).await.map(Outcome::Inspected)
            }
            Operation::List { root, directories, budget, detail: _ } => {
                check_root(root)?;
                let enter = |path: &EntryPath| grant.check_enter(path);
                let sweep = |path: &EntryPath, drafts: &[Vec<u8>]| ground.sweep(path, drafts);
                Ok(list_all(site, directories, budget, enter, sweep).await)
            }
            Operation::Store { pack } => {
                ground.shared.may_write()?;
                let stored = ground.store(&pack).await;
                self.store.buffers().return_pack(pack);
                stored
            }
            Operation::Begin { draft, begin } => self.begin(draft, &begin).await,
            Operation::Complete { draft, .. } => self.completed(draft).await,
            Operation::Sign { draft, extent, blocks: false } => self.sign(draft, extent).await,
            Operation::Length { draft, size_bytes } => {
                let draft = ground.shared.draft(draft)?;
                let set = draft.set_size(size_bytes);
                set.inspect_err(|error| draft.fail(error.clone())).map(|()| Outcome::Done)
            }
            Operation::Finish { draft, attributes, extended: _, digest: _ } => {
                self.finish(draft, &attributes).await
            }
            Operation::Abandon { draft, keep: _ } => {
                self.abandon(draft).await;
                Ok(Outcome::Done)
            }
            Operation::Apply { changes } => {
                ground.shared.may_write()?;
                ground.apply(&changes).await
            }
            Operation::Barrier { durable, .. } => {
                ground.sweep_beside_files().await;
                match durable {
                    true => ground.sync_directory(&EntryPath::root()).await.map(|()| Outcome::Done),
                    false => Ok(Outcome::Done),
                }
            }
            Operation::Digest { directory, names, key } => {
                grant.check_enter(&directory)?;
                let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                let may = |name: &[u8]| grant.check_write(&directory.join(name)?);
                reading::digests((site, &directory), &names, key, may).await.map(Outcome::Digests)
            }
            // A server tells no numbers: they stay as they are.
            Operation::Numbers { names } => Ok(Outcome::Numbers(vec![None; names.len()])),
            _ => {
                let words = "an sftp server cannot do that";
                Err(Error::new(ErrorKind::Unsupported, "working on the target", words))
            }
        }
    }
}

fn check_root(root: u16) -> Result<()> {
    if root == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Protocol, "looking at the target", format!("the target has no root {root}")))
}
