//! The target over a store, written by lanes.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::content::ContentSum;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{
    Change, DraftId, DraftKind, DraftParameters, Endpoint, TargetEndpoint, TargetLane, TargetOp,
    TargetOutcome,
};
use hakobu_core::entry::Attributes;
use hakobu_core::grant::Grant;
use hakobu_core::losses::{Loss, Losses};
use hakobu_core::pack::{PackContent as Packed, PackReader, PackRecord};
use hakobu_core::path::EntryPath;
use hakobu_core::requests::RequestCounts;
use hakobu_core::tag::{TagKey, Tagger};
use hakobu_core::{Error, Result};

use super::draft::{StoreDraft, StoreDrafts};
use super::listing::{list_all, portion};
use super::source::content_digest;
use super::{EntryContent, ObjectPlace, StoreSubtree, conflict, unsupported};
use crate::common::buffers::Buffers;
use crate::common::granted::Granted;
use crate::common::immediate::{AtOnce, ImmediateTarget, ImmediateWork};
use crate::local::errno::place;

/// A store that is written within a grant.
pub struct StoreTarget {
    shared: Arc<StoreTargetState>,
    capabilities: Capabilities,
    /// The requests of the store before it was opened here.
    before: RequestCounts,
}

/// The state that lanes share.
struct StoreTargetState {
    store: Arc<dyn ObjectPlace>,
    /// The grant for the whole store.
    grant: Grant,
    drafts: StoreDrafts,
}

impl StoreTarget {
    /// Opens a directory of a store, which need not exist, for writing within a grant.
    ///
    /// # Errors
    /// `Unsupported` if the root and a path of the grant are too long together.
    pub fn open(store: Arc<dyn ObjectPlace>, root: &EntryPath, grant: &Grant) -> Result<Granted<Self>> {
        let able = store.capabilities();
        let (owners, set_id) = (able.owners && grant.may_chown, able.set_id && grant.may_set_id);
        let capabilities = Capabilities { owners, set_id, lists_in_order: true, ..able };
        let (store, whole) = (StoreSubtree::of(store, root), StoreSubtree::grant(grant, root)?);
        let before = store.requests();
        let shared = StoreTargetState { store, grant: whole, drafts: StoreDrafts::default() };
        Ok(Granted::new(Self { shared: Arc::new(shared), capabilities, before }, grant.clone()))
    }
}

impl Endpoint for StoreTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn requests(&self) -> RequestCounts {
        self.shared.store.requests().since(&self.before)
    }
}

impl TargetEndpoint for StoreTarget {
    fn open_target_lane(&self, _index: usize) -> Result<Box<dyn TargetLane>> {
        Ok(Box::new(AtOnce::new(StoreTargetWriter {
            shared: Arc::clone(&self.shared),
            buffers: Buffers::default(),
        })))
    }
}

/// The state with which a lane of a target works.
struct StoreTargetWriter {
    shared: Arc<StoreTargetState>,
    buffers: Buffers,
}

impl ImmediateTarget for StoreTargetWriter {
    fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }
}

impl ImmediateWork for StoreTargetWriter {
    type Op = TargetOp;

    fn perform(&mut self, operation: TargetOp) -> Option<Result<TargetOutcome>> {
        match operation {
            TargetOp::Write { draft, offset, buffer, check: _, acknowledge } => {
                let written = self.shared.drafts.find(draft).and_then(|draft| {
                    draft.write(offset, buffer.filled())?;
                    draft.check()
                });
                self.buffers.return_piece(buffer);
                silent(written, acknowledge)
            }
            TargetOp::Zero { draft, extent, acknowledge } => {
                silent(self.shared.drafts.find(draft).and_then(|draft| draft.zero(extent)), acknowledge)
            }
            TargetOp::WritePack { pack, .. } => {
                let stored = self.shared.store_pack(&pack);
                self.buffers.return_pack(pack);
                Some(stored)
            }
            TargetOp::Patch { buffer, .. } | TargetOp::Assemble { buffer, .. } => {
                self.buffers.return_piece(buffer);
                Some(Err(unsupported("files are replaced, and never changed")))
            }
            operation => Some(self.shared.answer(operation)),
        }
    }
}

/// Returns only errors, unless an acknowledgement was requested.
fn silent(done: Result<()>, acknowledge: bool) -> Option<Result<TargetOutcome>> {
    (acknowledge || done.is_err()).then(|| done.map(|()| TargetOutcome::Done))
}

impl StoreTargetState {
    fn answer(&self, operation: TargetOp) -> Result<TargetOutcome> {
        let store = &*self.store;
        match operation {
            TargetOp::Stat { path, detail: _ } => Ok(TargetOutcome::Stat(store.inspect(&path))),
            TargetOp::List { directories, budget, detail: _ } => {
                Ok(TargetOutcome::Listed(list_all(store, directories, budget, |error| error)))
            }
            TargetOp::Page { directory, from, entries, detail: _ } => {
                let portion = portion(store, &directory, from, entries);
                portion.map(TargetOutcome::Page).map_err(|error| error.at(&directory))
            }
            TargetOp::Digest { directory, names, key } => {
                self.digests(&directory, &names, key).map(TargetOutcome::Digests)
            }
            TargetOp::Numbers { names } => Ok(TargetOutcome::Numbers(vec![None; names.len()])),
            TargetOp::Begin { draft, begin, .. } => {
                self.begin(draft, &begin).map_err(|error| error.at(&begin.path))
            }
            TargetOp::HashRange { draft, extent, blocks: false } => {
                self.drafts.find(draft)?.sign(extent).map(TargetOutcome::Hashes)
            }
            TargetOp::Hole { extent, .. } => Ok(TargetOutcome::HoleUntil(extent.offset)),
            TargetOp::Complete { draft, .. } => {
                self.drafts.find(draft)?.check().map(|()| TargetOutcome::Done)
            }
            TargetOp::SetLength { draft, size_bytes } => {
                self.drafts.find(draft)?.set_size(size_bytes).map(|()| TargetOutcome::Done)
            }
            TargetOp::Finish { draft, attributes, extended: _, digest: _ } => self.finish(draft, &attributes),
            TargetOp::Abandon { draft, keep: _ } => {
                self.drafts.remove(draft);
                Ok(TargetOutcome::Done)
            }
            TargetOp::Apply { changes } => Ok(self.apply(&changes)),
            TargetOp::Barrier { .. } => Ok(TargetOutcome::Done),
            TargetOp::CopyInStore { .. }
            | TargetOp::JoinDraft { .. }
            | TargetOp::ShareDraft { .. }
            | TargetOp::HashRange { .. }
            | TargetOp::WeakSums { .. }
            | TargetOp::Reflink { .. } => Err(unsupported("files are replaced, and never changed")),
            // Handled earlier, because they carry buffers.
            TargetOp::WritePack { .. }
            | TargetOp::Write { .. }
            | TargetOp::Zero { .. }
            | TargetOp::Patch { .. }
            | TargetOp::Assemble { .. } => Err(unsupported("an operation of a lane")),
        }
    }

    /// Puts all entries of a pack into their places. The outcome lists the entries that failed by index.
    fn store_pack(&self, pack: &[u8]) -> Result<TargetOutcome> {
        let (mut failures, mut losses) = (Vec::new(), Losses::default());
        let (mut directory, mut index) = (EntryPath::root(), 0);
        let mut reader = PackReader::new(pack);
        while let Some(record) = reader.read()? {
            let (head, content) = match record {
                PackRecord::Directory { path } => {
                    directory = path;
                    continue;
                }
                PackRecord::Entry(head, content) => (head, content),
            };
            self.grant.check_time()?;
            let stored = owned(content).and_then(|content| {
                self.store.put(&directory.join(head.name)?, content, &head.attributes, &self.grant)
            });
            match stored {
                Ok(lost) => losses.merge(&lost, true, || place(&directory, head.name)),
                Err(error) => failures.push((index, error.at(place(&directory, head.name)))),
            }
            index += 1;
        }
        Ok(TargetOutcome::PackWritten { failures, losses: losses.finish() })
    }

    fn digests(
        &self,
        directory: &EntryPath,
        names: &[Vec<u8>],
        key: Option<TagKey>,
    ) -> Result<Vec<Result<Digest>>> {
        let tagger = key.map(Tagger::new).transpose()?;
        let digest = |name: &Vec<u8>| {
            let path = directory.join(name)?;
            let held = self.store.get(&path).map_err(|error| error.at(&path))?;
            content_digest(&held.content, tagger.as_ref())
        };
        Ok(names.iter().map(digest).collect())
    }

    fn begin(&self, id: DraftId, begin: &DraftParameters) -> Result<TargetOutcome> {
        let there = match begin.kind {
            DraftKind::File => {
                self.check_place(&begin.path)?;
                None
            }
            DraftKind::Compare => match self.store.get(&begin.path)?.content {
                EntryContent::File(bytes) => Some(bytes),
                _ => return Err(unsupported("there is no content in it")),
            },
            _ => return Err(unsupported("files are replaced, and never changed")),
        };
        self.drafts.add(id, StoreDraft::new(begin, there, self.store.keeps())?)?;
        Ok(TargetOutcome::Done)
    }

    /// Checks early whether a file can get this name in the end.
    fn check_place(&self, path: &EntryPath) -> Result<()> {
        let Some((parent, _)) = path.split_last() else {
            return Err(conflict("making the file", "the target itself is a directory"));
        };
        self.store.apply(&Change::MakeDirectory { path: parent, mode: 0o700 }, &self.grant).map(drop)
    }

    fn finish(&self, id: DraftId, attributes: &Attributes) -> Result<TargetOutcome> {
        let draft = self.drafts.find(id)?;
        let finished = draft.complete().and_then(|content| match content {
            Some(bytes) => self.store.put(&draft.path, EntryContent::File(bytes), attributes, &self.grant),
            None => Ok(Vec::new()),
        });
        self.drafts.remove(id);
        let lost = finished.map_err(|error| error.at(&draft.path))?;
        if lost.is_empty() {
            return Ok(TargetOutcome::Done);
        }
        let example = draft.path.as_bytes();
        let loss = |what| Loss { what, count: 1, at_target: true, example: example.to_vec() };
        Ok(TargetOutcome::PackWritten { failures: Vec::new(), losses: lost.into_iter().map(loss).collect() })
    }

    fn apply(&self, changes: &[Change]) -> TargetOutcome {
        let (mut failures, mut losses) = (Vec::new(), Losses::default());
        for (index, change) in (0..).zip(changes) {
            let applied: Result<_, Error> = self.store.apply(change, &self.grant);
            match applied {
                Ok(lost) => losses.merge(&lost, true, || change.path().as_bytes().to_vec()),
                Err(error) => failures.push((index, error.at(change.path()))),
            }
        }
        TargetOutcome::PackWritten { failures, losses: losses.finish() }
    }
}

/// Copies the content from a pack, and verifies the copy.
fn owned(content: Packed<'_>) -> Result<EntryContent> {
    Ok(match content {
        Packed::File(file) => {
            let bytes: Arc<[u8]> = file.bytes.into();
            let mut sum = ContentSum::default();
            sum.add(0, &bytes);
            file.check(sum)?;
            EntryContent::File(bytes)
        }
        Packed::Symlink(text) => EntryContent::Symlink(text.into()),
        Packed::Special(kind, device) => EntryContent::Special(kind, device),
    })
}
