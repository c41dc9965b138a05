//! One lane of a source: how each operation is performed.

use std::sync::Arc;

use futures_util::future::join_all;
use hakobu_core::endpoint::{SourceOp, SourceOutcome};
use hakobu_core::{Error, ErrorKind, Result};

use super::large::{OpenRange, PinnedVersions};
use super::pack::read_pack;
use crate::common::future_lane::{LaneWork, PendingOperation};
use crate::local::errno::vanished;
use crate::object::api::ObjectApi;
use crate::object::copy_place::ListedSidecars;
use crate::object::keys::KeyRoot;
use crate::object::listing::KeyLister;
use crate::object::lookup::look;
use crate::object::small_object::listed_digest;

/// The state with which a lane of a source reads.
pub(super) struct ObjectReader {
    pub(super) api: Arc<dyn ObjectApi>,
    /// The bucket as the store knows it when it copies; `None` if it does not.
    pub(super) bucket: Option<String>,
    pub(super) roots: Arc<[KeyRoot]>,
    pub(super) versions: Arc<PinnedVersions>,
    pub(super) sidecars: Arc<ListedSidecars>,
    /// The range of a large file that arrives. Reads wait for it in the order in which they were submitted.
    pub(super) open: tokio::sync::Mutex<Option<OpenRange>>,
}

impl ObjectReader {
    pub(super) fn root(&self, root: u16) -> Result<&KeyRoot> {
        let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {root}"));
        self.roots.get(usize::from(root)).ok_or_else(missing)
    }

    fn lister(&self, root: u16) -> Result<KeyLister<'_>> {
        Ok(KeyLister { api: &*self.api, root: self.root(root)?, missing: || vanished("listing") })
    }

    async fn answer(&self, operation: SourceOp) -> Result<SourceOutcome> {
        let api = &*self.api;
        match operation {
            SourceOp::Stat { root, path, detail: _ } => {
                let found = look(api, self.root(root)?, &path).await.map_err(|error| error.at(&path))?;
                Ok(SourceOutcome::Stat(found.map(|entry| entry.metadata)))
            }
            SourceOp::List { root, directories, budget, detail: _ } => {
                Ok(SourceOutcome::Listed(self.lister(root)?.list_all(directories, budget).await))
            }
            SourceOp::Page { root, directory, from, entries, detail: _ } => {
                let listed = self.lister(root)?.page(&directory, from, entries).await;
                listed.map(SourceOutcome::Page).map_err(|error| error.at(&directory))
            }
            SourceOp::ReadPack { root, directory, target, picks, from, ask: _, buffer } => {
                let root = self.root(root)?;
                Ok(SourceOutcome::Pack(
                    read_pack(api, root, (&directory, &target), (&picks, from), buffer).await,
                ))
            }
            SourceOp::Read { file, extent, buffer } => {
                self.read(&file, extent, buffer).await.map_err(|error| error.at(&file.path))
            }
            SourceOp::Revalidate { file, ask: _ } => {
                self.revalidate(&file).await.map_err(|error| error.at(&file.path))?;
                Ok(SourceOutcome::Extended { extended: None, losses: Vec::new() })
            }
            SourceOp::DigestPicks { root, directory, picks, key } => {
                let root = self.root(root)?;
                let digests = picks
                    .entries
                    .iter()
                    .map(|pick| listed_digest(api, root, &directory, (&picks, *pick), key));
                Ok(SourceOutcome::Digests(join_all(digests).await))
            }
            SourceOp::FindHole { extent, .. } => Ok(SourceOutcome::HoleUntil(extent.offset)),
            SourceOp::Extended { .. } => Ok(SourceOutcome::Extended { extended: None, losses: Vec::new() }),
            SourceOp::Names { accounts } => Ok(SourceOutcome::Names(vec![None; accounts.len()])),
            SourceOp::Open { file } => {
                self.open_file(&file).await.map(SourceOutcome::Opened).map_err(|error| error.at(&file.path))
            }
            SourceOp::OpenPicks { root, directory, picks } => {
                self.open_picks(root, &directory, &picks).await.map(SourceOutcome::OpenedPicks)
            }
            SourceOp::ReadStream { .. } => {
                let words = "an object store cannot do that";
                Err(Error::new(ErrorKind::Unsupported, "working on the source", words))
            }
        }
    }
}

impl LaneWork for ObjectReader {
    type Op = SourceOp;

    fn held_bytes(_operation: &SourceOp) -> usize {
        0
    }

    fn start(self: Arc<Self>, operation: SourceOp) -> PendingOperation<SourceOutcome> {
        Box::pin(async move { Some(self.answer(operation).await) })
    }
}
