//! One lane of a target: how each operation is performed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hakobu_core::endpoint::{Change, DraftId, TargetOp, TargetOutcome};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::directory_order::DirectoryOrder;
use super::draft::OpenDraft;
use super::writer_context::SftpWriterContext;
use crate::common::future_lane::{LaneBuffers, LaneWork, PendingOperation, TargetLaneWork};
use crate::sftp::list::list_all;
use crate::sftp::read_file;

/// The state with which a lane of a target works.
pub(crate) struct SftpTargetWriter {
    pub(super) context: Arc<SftpWriterContext>,
    pub(super) store: LaneBuffers,
    /// The drafts that this lane has open.
    pub(super) open: Mutex<HashMap<DraftId, Arc<OpenDraft>>>,
    /// The operations in progress that settle or remove directories.
    directories: Arc<DirectoryOrder>,
}

impl LaneWork for SftpTargetWriter {
    type Op = TargetOp;

    fn held_bytes(operation: &TargetOp) -> usize {
        match operation {
            TargetOp::Write { buffer, .. } => buffer.filled().len(),
            TargetOp::WritePack { pack, .. } => pack.len(),
            _ => 0,
        }
    }

    fn start(self: Arc<Self>, operation: TargetOp) -> PendingOperation<TargetOutcome> {
        match operation {
            TargetOp::Write { draft, offset, buffer, check: _, acknowledge } => Box::pin(async move {
                let written = self.write(draft, offset, buffer, acknowledge).await;
                (acknowledge || written.is_err()).then_some(written)
            }),
            TargetOp::Zero { draft, extent, acknowledge } => Box::pin(async move {
                let zeroed = self.zero(draft, extent, acknowledge).await;
                (acknowledge || zeroed.is_err()).then_some(zeroed)
            }),
            TargetOp::Apply { changes } if changes.iter().any(settles) => {
                let directories = changes.iter().filter(|change| settles(change));
                let directories = directories.map(|change| change.path().clone()).collect();
                let mut turn = Arc::clone(&self.directories).enter(directories);
                Box::pin(async move {
                    turn.wait().await;
                    let applied = self.answer(TargetOp::Apply { changes }).await;
                    drop(turn);
                    Some(applied)
                })
            }
            operation => Box::pin(async move { Some(self.answer(operation).await) }),
        }
    }
}

impl TargetLaneWork for SftpTargetWriter {
    fn store(&self) -> &LaneBuffers {
        &self.store
    }
}

/// Returns true for a change that sets a directory's attributes (and creates it if empty), or that removes one.
fn settles(change: &Change) -> bool {
    matches!(change, Change::Directory { .. } | Change::Remove { directory: true, .. })
}

impl SftpTargetWriter {
    pub(super) fn new(context: SftpWriterContext, store: LaneBuffers) -> Self {
        Self { context: Arc::new(context), store, open: Mutex::default(), directories: Arc::default() }
    }

    async fn answer(&self, operation: TargetOp) -> Result<TargetOutcome> {
        let context = &*self.context;
        let (sftp_root, grant) = (&context.sftp_root, &context.shared.grant);
        match operation {
            TargetOp::Stat { path, detail: _ } => {
                grant.check_enter(&path)?;
                sftp_root.inspect(&path).await.map(TargetOutcome::Stat)
            }
            TargetOp::List { directories, budget, detail: _ } => {
                let enter = |path: &EntryPath| grant.check_enter(path);
                let sweep = |path: &EntryPath, drafts: &[Vec<u8>]| context.sweep(path, drafts);
                Ok(TargetOutcome::Listed(list_all(sftp_root, directories, budget, enter, sweep).await))
            }
            TargetOp::WritePack { pack, .. } => {
                context.shared.may_write()?;
                let stored = context.store(&pack).await;
                self.store.buffers().return_pack(pack);
                stored
            }
            TargetOp::Begin { draft, begin, .. } => self.begin(draft, &begin).await,
            TargetOp::Complete { draft, .. } => self.completed(draft).await,
            TargetOp::HashRange { draft, extent, blocks: false } => self.sign(draft, extent).await,
            TargetOp::SetLength { draft, size_bytes } => {
                let draft = context.shared.draft(draft)?;
                let set = draft.set_size(size_bytes);
                set.inspect_err(|error| draft.fail(error.clone())).map(|()| TargetOutcome::Done)
            }
            TargetOp::Finish { draft, attributes, extended: _, digest: _ } => {
                self.finish(draft, &attributes).await
            }
            TargetOp::Abandon { draft, keep: _ } => {
                self.abandon(draft).await;
                Ok(TargetOutcome::Done)
            }
            TargetOp::Apply { changes } => {
                context.shared.may_write()?;
                context.apply(&changes).await
            }
            TargetOp::Barrier { durable, .. } => {
                context.sweep_beside_files().await;
                match durable {
                    true => context.sync_directory(&EntryPath::root()).await.map(|()| TargetOutcome::Done),
                    false => Ok(TargetOutcome::Done),
                }
            }
            TargetOp::Digest { directory, names, key } => {
                grant.check_enter(&directory)?;
                let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                let may = |name: &[u8]| grant.check_write(&directory.join(name)?);
                read_file::digests((sftp_root, &directory), &names, key, may)
                    .await
                    .map(TargetOutcome::Digests)
            }
            // A server reports no account numbers, so they stay unchanged.
            TargetOp::Numbers { names } => Ok(TargetOutcome::Numbers(vec![None; names.len()])),
            _ => {
                let words = "an sftp server cannot do that";
                Err(Error::new(ErrorKind::Unsupported, "working on the target", words))
            }
        }
    }
}
