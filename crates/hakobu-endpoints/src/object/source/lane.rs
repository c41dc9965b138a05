//! One lane of a source: how each operation is performed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures_util::future::join_all;
use hakobu_core::endpoint::{SourceOp, SourceOutcome};
use hakobu_core::extended::ExtendedAsk;
use hakobu_core::listing::Detail;
use hakobu_core::losses::Loss;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::large::{OpenRange, PinnedVersions};
use super::pack::read_pack;
use super::sidecar_search::SidecarSearch;
use crate::common::future_lane::{LaneWork, PendingOperation};
use crate::local::errno::vanished;
use crate::object::api::ObjectApi;
use crate::object::attributes::{AskedAttributes, AttributeReader, SidecarProof};
use crate::object::keys::KeyRoot;
use crate::object::listing::KeyLister;
use crate::object::lookup::{find, look};
use crate::object::metadata::ObjectExtended;
use crate::object::sidecars::Sidecars;
use crate::object::small_object::DigestReader;

/// The state with which a lane of a source reads.
pub(super) struct ObjectReader {
    pub(super) api: Arc<dyn ObjectApi>,
    /// The bucket as the store knows it when it copies; `None` if it does not.
    pub(super) bucket: Option<String>,
    pub(super) roots: Arc<[KeyRoot]>,
    /// The sidecars below each root.
    pub(super) sidecars: Arc<[Sidecars]>,
    pub(super) search: Arc<SidecarSearch>,
    pub(super) versions: Arc<PinnedVersions>,
    /// The number of digests that were kept with objects, so that these were not read.
    pub(super) kept_digests: Arc<AtomicU64>,
    /// The range of a large file that arrives. Reads wait for it in the order in which they were submitted.
    pub(super) open: tokio::sync::Mutex<Option<OpenRange>>,
}

impl ObjectReader {
    pub(super) fn root(&self, root: u16) -> Result<&KeyRoot> {
        let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {root}"));
        self.roots.get(usize::from(root)).ok_or_else(missing)
    }

    /// Returns what reads the extended attributes of entries below a root.
    pub(super) fn attributes(&self, root: u16) -> Result<AttributeReader<'_>> {
        let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {root}"));
        let sidecars = self.sidecars.get(usize::from(root)).ok_or_else(missing)?;
        let proof = SidecarProof::Told;
        Ok(AttributeReader { api: &*self.api, root: self.root(root)?, sidecars, proof })
    }

    /// Returns the outcome of reading the extended attributes of the object at a key.
    pub(super) async fn extended(
        &self,
        (root, path): (u16, &EntryPath),
        (key, stored): (&str, &ObjectExtended),
        ask: ExtendedAsk,
    ) -> Result<SourceOutcome> {
        let AskedAttributes { kept, lost, .. } = self.attributes(root)?.ask(key, stored, ask).await?;
        let loss = |what| Loss { what, count: 1, at_target: false, example: path.as_bytes().to_vec() };
        let extended = kept.map(Arc::unwrap_or_clone);
        Ok(SourceOutcome::Extended { extended, losses: lost.into_iter().map(loss).collect() })
    }

    fn lister(&self, root: u16, detail: Detail) -> Result<KeyLister<'_>> {
        Ok(KeyLister {
            api: &*self.api,
            root: self.root(root)?,
            detail,
            sidecars: self.attributes(root)?.sidecars,
            proof: proof_of(detail),
            missing: || vanished("listing"),
        })
    }

    async fn answer(&self, operation: SourceOp) -> Result<SourceOutcome> {
        let api = &*self.api;
        match operation {
            SourceOp::Stat { root, path, detail } => {
                let reader = AttributeReader { proof: proof_of(detail), ..self.attributes(root)? };
                let found = look(reader, &path, detail).await;
                found.map(SourceOutcome::Stat).map_err(|error| error.at(&path))
            }
            SourceOp::List { root, directories, budget, detail } => {
                Ok(SourceOutcome::Listed(self.lister(root, detail)?.list_all(directories, budget).await))
            }
            SourceOp::Page { root, directory, from, entries, detail } => {
                let listed = self.lister(root, detail)?.page(&directory, from, entries).await;
                listed.map(SourceOutcome::Page).map_err(|error| error.at(&directory))
            }
            SourceOp::ReadPack { root, directory, target, picks, from, ask, buffer } => {
                let reader = self.attributes(root)?;
                let read = read_pack(reader, (&directory, &target), (&picks, from), ask, buffer);
                Ok(SourceOutcome::Pack(read.await))
            }
            SourceOp::Read { file, extent, buffer } => {
                self.read(&file, extent, buffer).await.map_err(|error| error.at(&file.path))
            }
            SourceOp::Revalidate { file, ask } => {
                self.revalidate(&file, ask).await.map_err(|error| error.at(&file.path))
            }
            SourceOp::DigestPicks { root, directory, picks, key, stored } => {
                let kept = stored.then_some(&*self.kept_digests);
                let reader = DigestReader { api, root: self.root(root)?, key, kept };
                let digests = picks.entries.iter().map(|pick| reader.listed(&directory, (&picks, *pick)));
                Ok(SourceOutcome::Digests(join_all(digests).await))
            }
            SourceOp::FindHole { extent, .. } => Ok(SourceOutcome::HoleUntil(extent.offset)),
            SourceOp::Extended { root, path, ask } => {
                let read = async {
                    let found = find(api, self.root(root)?, &path).await?;
                    let (key, entry) = found.ok_or_else(|| vanished("reading the extended attributes"))?;
                    self.extended((root, &path), (&key, &entry.extended), ask).await
                };
                read.await.map_err(|error: Error| error.at(&path))
            }
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

/// Returns how listings of a source treat sidecars.
fn proof_of(detail: Detail) -> SidecarProof {
    if detail.proven { SidecarProof::Read } else { SidecarProof::Told }
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
