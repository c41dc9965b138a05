//! One lane of a target: how each operation is performed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{
    Change, DraftAttributes, DraftId, DraftKind, DraftParameters, PieceBuffer, TargetOp, TargetOutcome,
};
use hakobu_core::entry::{Attributes, EntryKind};
use hakobu_core::extended::{Extended, ExtendedRef};
use hakobu_core::extent::Extent;
use hakobu_core::listing::Detail;
use hakobu_core::losses::{LossKind, Losses};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::piece_value;
use hakobu_core::zeros::ZEROS;
use hakobu_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use super::draft::{ObjectDraft, ObjectDrafts, WholePart};
use super::homes::SidecarHomes;
use super::links::ObjectLinks;
use super::placed;
use super::rights::GrantedRights;
use crate::common::future_lane::{LaneBuffers, LaneWork, PendingOperation, TargetLaneWork};
use crate::local::errno::changed;
use crate::object::api::{
    CompleteUpload, ObjectApi, ObjectProperties, PutCondition, PutObject, PutPart, StoredChecksum,
    StoredObject,
};
use crate::object::attributes::{AttributeReader, SidecarProof};
use crate::object::driver::BytesInFlight;
use crate::object::entry::{EntryToStore, described, kept_checksum, properties};
use crate::object::keys::KeyRoot;
use crate::object::listing::KeyLister;
use crate::object::lookup::look;
use crate::object::sidecars::Sidecars;
use crate::object::small_object::DigestReader;
use crate::store::missing;

/// The state with which a lane of a target works.
pub(super) struct ObjectWriter {
    pub(super) api: Arc<dyn ObjectApi>,
    /// The identity of the bucket among all buckets.
    pub(super) bucket: String,
    pub(super) root: KeyRoot,
    pub(super) rights: GrantedRights,
    pub(super) drafts: Arc<ObjectDrafts>,
    /// True once the store has copied an object by itself.
    pub(super) has_copied: AtomicBool,
    pub(super) sidecars: Arc<Sidecars>,
    pub(super) homes: SidecarHomes,
    pub(super) links: Arc<ObjectLinks>,
    pub(super) buffers: LaneBuffers,
    pub(super) in_flight: BytesInFlight,
    /// The number of digests that were kept with objects, so that these were not read.
    pub(super) kept_digests: Arc<AtomicU64>,
    /// The folder of the journals of uploads; `None` if uploads cannot be resumed.
    pub(super) journals: Option<PathBuf>,
    /// Tells the end of the last operation that removes directories.
    pub(super) last_removal: Mutex<Option<oneshot::Receiver<()>>>,
    /// Objects that were stored without a checksum that the store compared.
    pub(super) unchecked: Arc<AtomicU64>,
}

/// A piece's buffer, which is free again when nobody holds its bytes any more.
struct PieceBytes(PieceBuffer);

impl AsRef<[u8]> for PieceBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.filled()
    }
}

impl LaneWork for ObjectWriter {
    type Op = TargetOp;

    fn held_bytes(operation: &TargetOp) -> usize {
        match operation {
            TargetOp::WritePack { pack, .. } => pack.len(),
            _ => 0,
        }
    }

    fn start(self: Arc<Self>, operation: TargetOp) -> PendingOperation<TargetOutcome> {
        match operation {
            TargetOp::Write { draft, offset, buffer, check: _, acknowledge } => {
                let written = self.write(draft, offset, Bytes::from_owner(PieceBytes(buffer)));
                Box::pin(async move { self.sent(draft, written, acknowledge).await })
            }
            TargetOp::Zero { draft, extent, acknowledge } => Box::pin(async move {
                let zeroed = self.zero(draft, extent).await;
                (acknowledge || zeroed.is_err()).then_some(zeroed.map(|()| TargetOutcome::Done))
            }),
            TargetOp::Begin { draft, begin, attributes } => {
                let added = self.begin(draft, &begin, attributes);
                Box::pin(async move {
                    let begun = match added {
                        Ok(added) => self.begun(draft, &added, &begin).await,
                        Err(error) => Err(error),
                    };
                    Some(begun)
                })
            }
            TargetOp::Apply { changes } if changes.iter().any(removes_directory) => {
                let (end, next) = oneshot::channel();
                let before = self.last_removal.lock().unwrap_or_else(PoisonError::into_inner).replace(next);
                Box::pin(async move {
                    // A directory is removed after those in it, which may be in an operation before.
                    if let Some(before) = before {
                        let _ended = before.await;
                    }
                    let applied = self.apply(&changes).await;
                    drop(end);
                    Some(applied)
                })
            }
            operation => Box::pin(async move { Some(self.answer(operation).await) }),
        }
    }
}

fn removes_directory(change: &Change) -> bool {
    matches!(change, Change::Remove { directory: true, .. })
}

impl TargetLaneWork for ObjectWriter {
    fn store(&self) -> &LaneBuffers {
        &self.buffers
    }
}

impl ObjectWriter {
    fn lister(&self, detail: Detail) -> KeyLister<'_> {
        KeyLister {
            api: &*self.api,
            root: &self.root,
            detail,
            sidecars: &self.sidecars,
            proof: SidecarProof::Kept,
            missing: || missing("listing"),
        }
    }

    async fn answer(&self, operation: TargetOp) -> Result<TargetOutcome> {
        let (api, root) = (&*self.api, &self.root);
        match operation {
            TargetOp::Stat { path, detail } => {
                let proof = SidecarProof::Kept;
                let reader = AttributeReader { api, root, sidecars: &self.sidecars, proof };
                let found = look(reader, &path, detail).await;
                found.map(TargetOutcome::Stat).map_err(|error| error.at(&path))
            }
            TargetOp::List { directories, budget, detail } => {
                Ok(TargetOutcome::Listed(self.lister(detail).list_all(directories, budget).await))
            }
            TargetOp::Page { directory, from, entries, detail } => {
                let listed = self.lister(detail).page(&directory, from, entries).await;
                listed.map(TargetOutcome::Page).map_err(|error| error.at(&directory))
            }
            TargetOp::WritePack { pack, inodes } => self.write_pack(pack, &inodes).await,
            TargetOp::Complete { draft, extent, value, kept } => {
                let draft = self.drafts.find(draft)?;
                draft.settled(extent.offset).await?;
                draft.completed(extent, value, kept).map(|()| TargetOutcome::Done)
            }
            TargetOp::Reflink { draft, from } => self.copy_draft(draft, &from).await,
            TargetOp::CopyInStore { directory, copies } => self.copy_in_store(&directory, &copies).await,
            TargetOp::HashRange { draft, extent, blocks: false } => self.hash_range(draft, extent).await,
            TargetOp::SetLength { draft, size_bytes } => {
                let draft = self.drafts.find(draft)?;
                let ended = match draft.set_size(size_bytes) {
                    Ok(Some(part)) => self.send(&draft, part).await,
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                };
                ended.inspect_err(|error| draft.fail(error.clone())).map(|()| TargetOutcome::Done)
            }
            TargetOp::Finish { draft, attributes, extended, digest } => {
                let extended = extended.as_ref().map(Extended::as_ref);
                self.finish(draft, (&attributes, extended), digest.as_ref()).await
            }
            TargetOp::Abandon { draft, keep } => {
                if let Some(draft) = self.drafts.forget(draft)
                    && !(keep && draft.journal.is_of_use())
                {
                    self.give_up(&draft).await?;
                }
                Ok(TargetOutcome::Done)
            }
            TargetOp::Apply { changes } => self.apply(&changes).await,
            // Acknowledged writes are stable.
            TargetOp::Barrier { .. } => Ok(TargetOutcome::Done),
            TargetOp::Digest { directory, names, key } => {
                let kept = key.is_none().then_some(&*self.kept_digests);
                let reader = DigestReader { api, root, key, kept };
                let digests = names.iter().map(|name| async { Ok(reader.digest(&directory, name).await?.1) });
                Ok(TargetOutcome::Digests(join_all(digests).await))
            }
            TargetOp::Numbers { names } => Ok(TargetOutcome::Numbers(vec![None; names.len()])),
            _ => {
                let words = "an object is replaced as a whole and never changed";
                Err(Error::new(ErrorKind::Unsupported, "working on the target", words))
            }
        }
    }

    fn begin(
        &self,
        id: DraftId,
        begin: &DraftParameters,
        attributes: Option<Box<DraftAttributes>>,
    ) -> Result<Arc<ObjectDraft>> {
        if !matches!(begin.kind, DraftKind::File | DraftKind::Compare) {
            let words = "an object is replaced as a whole and never changed";
            return Err(Error::new(ErrorKind::Unsupported, "beginning a draft", words).at(&begin.path));
        }
        let draft = self
            .key_to_write(&begin.path)
            .and_then(|key| ObjectDraft::new(begin, attributes, key, self.api.limits()));
        self.drafts.add(id, draft.map_err(|error| error.at(&begin.path))?)
    }

    /// Returns the key of an entry that is not a directory.
    ///
    /// # Errors
    /// `Unsupported` if it would be too long, or would not be listed again.
    pub(super) fn key_to_write(&self, path: &EntryPath) -> Result<String> {
        let key = self.root.key(path)?;
        match self.root.is_sidecar(&key) {
            false => Ok(key),
            true => {
                let words = "in a bucket, the name stands for extended attributes of other entries";
                let error = Error::new(ErrorKind::Unsupported, "storing an object", words).at(path);
                Err(error.hint("leave it out (--exclude .hakobu.attributes)"))
            }
        }
    }

    async fn begun(
        &self,
        id: DraftId,
        draft: &ObjectDraft,
        begin: &DraftParameters,
    ) -> Result<TargetOutcome> {
        match self.resume(draft, begin).await {
            Ok(Some(earlier)) => Ok(TargetOutcome::Begun(Box::new(earlier))),
            Ok(None) => Ok(TargetOutcome::Done),
            Err(error) => {
                self.drafts.forget(id);
                Err(error.at(&draft.path))
            }
        }
    }

    /// Adds content to a draft, and returns the parts that are complete now.
    fn write(&self, id: DraftId, offset: u64, content: Bytes) -> Result<(Arc<ObjectDraft>, Vec<WholePart>)> {
        let draft = self.drafts.find(id)?;
        let parts = draft.check().and_then(|()| draft.add(offset, content));
        match parts {
            Ok(parts) => Ok((draft, parts)),
            Err(error) => {
                draft.fail(error.clone());
                Err(error)
            }
        }
    }

    /// Sends the parts that a write has completed.
    async fn sent(
        &self,
        id: DraftId,
        written: Result<(Arc<ObjectDraft>, Vec<WholePart>)>,
        acknowledge: bool,
    ) -> Option<Result<TargetOutcome>> {
        let sent = async {
            let (draft, parts) = written?;
            for part in parts {
                self.send(&draft, part).await?;
            }
            Ok(TargetOutcome::Done)
        };
        let sent = sent.await.inspect_err(|error: &Error| {
            if let Ok(draft) = self.drafts.find(id) {
                draft.fail(error.clone());
            }
        });
        (acknowledge || sent.is_err()).then_some(sent)
    }

    async fn zero(&self, id: DraftId, extent: Extent) -> Result<()> {
        let mut offset = extent.offset;
        while offset < extent.end() {
            let length = (extent.end() - offset).min(ZEROS.len() as u64);
            let zeros = Bytes::from_static(&ZEROS[..length as usize]);
            let (draft, parts) = self.write(id, offset, zeros)?;
            for part in parts {
                self.send(&draft, part).await.inspect_err(|error| draft.fail(error.clone()))?;
            }
            offset += length;
        }
        Ok(())
    }

    /// Sends a part, or keeps it if it is the whole object.
    async fn send(&self, draft: &ObjectDraft, part: WholePart) -> Result<()> {
        if draft.is_one_request(&part) {
            draft.keep(part);
            return Ok(());
        }
        let _in_flight = self.in_flight.add(usize::try_from(part.extent.length).unwrap_or(usize::MAX));
        let begin = || async {
            let DraftAttributes { attributes, extended, .. } =
                draft.attributes.as_deref().ok_or_else(|| {
                    let words = "its attributes are not known yet";
                    Error::new(ErrorKind::Unsupported, "beginning an object", words)
                })?;
            let wanted = (attributes, extended.as_ref().map(Extended::as_ref));
            let (properties, _) = self.file_properties(draft, wanted, None, None).await?;
            let upload = self.api.begin_upload(&draft.key, &properties).await?;
            draft.journal.begin(&upload)?;
            Ok(upload)
        };
        let upload =
            draft.upload.get_or_try_init(begin).await.map_err(|error: Error| placed(error, &draft.path))?;
        let sent = PutPart {
            key: &draft.key,
            upload,
            number: part.number,
            content: part.pieces.clone(),
            crc64: Some(part.crc64),
        };
        let tag = self.api.put_part(sent).await.map_err(|error| placed(error, &draft.path))?;
        draft.stored(tag, part.extent, part.crc64);
        Ok(())
    }

    /// Returns what a file is stored with, and what it loses.
    async fn file_properties(
        &self,
        draft: &ObjectDraft,
        (attributes, extended): (&Attributes, Option<ExtendedRef<'_>>),
        digest: Option<&Digest>,
        checksum: Option<StoredChecksum>,
    ) -> Result<(ObjectProperties, Vec<LossKind>)> {
        let (_, name) = draft.path.split_last().unwrap_or_default();
        let (kind, device, size_bytes) = (EntryKind::File, 0, draft.size_bytes());
        let owner = self.stored_owner(&draft.key).await?;
        let inode = draft.attributes.as_ref().and_then(|begun| begun.inode);
        let inode = inode.map(|inode| self.links.identity(inode));
        let entry = EntryToStore {
            name,
            kind,
            device,
            size_bytes,
            attributes,
            owner,
            digest,
            checksum,
            extended,
            inode,
        };
        self.properties(&draft.path, entry).await
    }

    /// Returns the owner and the group that the object at a key has, if the job does not set any: then they stay.
    pub(super) async fn stored_owner(&self, key: &str) -> Result<Option<(u32, u32)>> {
        if self.rights.owners {
            return Ok(None);
        }
        let limits = self.api.limits();
        Ok(self.api.head(key).await?.and_then(|head| described(limits, &head, key.ends_with('/')).owner))
    }

    /// Returns what an entry is stored with within the grant, and what it loses. The sidecar that it needs exists then. The
    /// entry's `owner` counts if the job sets none.
    pub(super) async fn properties(
        &self,
        path: &EntryPath,
        mut entry: EntryToStore<'_>,
    ) -> Result<(ObjectProperties, Vec<LossKind>)> {
        let (attributes, mut lost) = self.rights.allowed(entry.kind, entry.attributes, entry.owner);
        let mut room = None;
        entry.extended = self.rights.extended(entry.extended, &mut room, &mut lost)?;
        if self.rights.owners {
            entry.owner = Some((attributes.uid, attributes.gid));
        }
        let (properties, sidecar) =
            properties(self.api.limits(), &EntryToStore { attributes: &attributes, ..entry });
        if let Some(sidecar) = sidecar {
            let home = self.root.directory(&self.homes.of_entry(path, entry.kind))?;
            self.sidecars.write(&*self.api, &home, &sidecar).await?;
        }
        Ok((properties, lost))
    }

    async fn finish(
        &self,
        id: DraftId,
        wanted: (&Attributes, Option<ExtendedRef<'_>>),
        digest: Option<&Digest>,
    ) -> Result<TargetOutcome> {
        let draft = self.drafts.find(id)?;
        let finished = self.finished(&draft, wanted, digest).await;
        match &finished {
            Ok(_) => draft.journal.remove(),
            // A later run can go on unless the parts are wrong.
            Err(error) if draft.journal.is_of_use() && error.kind != ErrorKind::Corrupt => {}
            // The error at hand says more than another one.
            Err(_) => drop(self.give_up(&draft).await),
        }
        self.drafts.forget(id);
        let lost = finished.map_err(|error| placed(error, &draft.path))?;
        if draft.attributes.as_ref().is_some_and(|begun| begun.inode.is_some()) {
            self.links.stored(&draft.key, draft.size_bytes());
        }
        if lost.is_empty() {
            return Ok(TargetOutcome::Done);
        }
        let mut losses = Losses::default();
        losses.merge(&lost, true, || draft.path.as_bytes().to_vec());
        Ok(TargetOutcome::PackWritten { failures: Vec::new(), losses: losses.finish() })
    }

    /// Makes the object, and returns what it loses.
    async fn finished(
        &self,
        draft: &ObjectDraft,
        wanted: (&Attributes, Option<ExtendedRef<'_>>),
        digest: Option<&Digest>,
    ) -> Result<Vec<LossKind>> {
        if draft.kind == DraftKind::Compare || draft.is_copied() {
            return Ok(Vec::new());
        }
        // The last part of a stream may be on its way.
        draft.all_sent().await?;
        let condition = PutCondition::None;
        if let Some(part) = draft.take_single()? {
            let checksum = kept_checksum(self.api.limits(), &part.pieces, part.crc64);
            let mut hasher = blake3::Hasher::new();
            for piece in &part.pieces {
                hasher.update(piece);
            }
            let digest = *hasher.finalize().as_bytes();
            let (properties, lost) = self.file_properties(draft, wanted, Some(&digest), checksum).await?;
            let put = PutObject {
                key: &draft.key,
                content: part.pieces,
                properties: &properties,
                condition: &condition,
                crc64: Some(part.crc64),
            };
            self.count_unchecked(&self.api.put(put).await?);
            return Ok(lost);
        }
        // The upload has the attributes with which it began.
        let (properties, lost) = self.file_properties(draft, wanted, digest, None).await?;
        let begun = draft.attributes.as_ref().and_then(|begun| begun.extended.as_ref());
        if wanted.1.is_some_and(|now| {
            Some(now) != begun.map(Extended::as_ref) && !(now.is_empty() && begun.is_none())
        }) {
            return Err(changed("finishing"));
        }
        let (parts, crc64) = draft.complete()?;
        let upload = draft.upload.get().ok_or_else(|| changed("finishing"))?;
        let complete = CompleteUpload {
            key: &draft.key,
            upload,
            parts: &parts,
            properties: Some(&properties),
            crc64: Some(crc64),
            condition: &condition,
        };
        self.count_unchecked(&self.api.complete_upload(complete).await?);
        Ok(lost)
    }

    /// Counts an object with content, unless the store has compared a checksum of it.
    pub(super) fn count_unchecked(&self, stored: &StoredObject) {
        if !stored.is_checked {
            self.unchecked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes what there is of an object that is not finished.
    async fn give_up(&self, draft: &ObjectDraft) -> Result<()> {
        draft.journal.remove();
        match draft.upload.get() {
            Some(upload) => self.api.abort_upload(&draft.key, upload).await,
            None => Ok(()),
        }
    }

    /// Returns the values of the pieces of an existing object, which has nothing beyond its end.
    async fn hash_range(&self, id: DraftId, extent: Extent) -> Result<TargetOutcome> {
        let draft = self.drafts.find(id)?;
        let read = async {
            let bytes = self.read_there(&draft, extent).await?;
            let value = |(piece, content): (Extent, &[u8])| {
                piece_value(draft.tagger.as_ref(), draft.size_bytes(), piece.offset, content)
            };
            extent.filled(&bytes).map(value).collect::<Result<Vec<_>>>()
        };
        read.await.map(TargetOutcome::Hashes).map_err(|error: Error| error.at(&draft.path))
    }

    /// Reads a range of the object that is there, as far as it goes. Stores refuse ranges beyond the end.
    async fn read_there(&self, draft: &ObjectDraft, extent: Extent) -> Result<Vec<u8>> {
        let size = || async {
            let head = self.api.head(&draft.key).await?;
            head.map(|head| head.size_bytes).ok_or_else(|| missing("reading"))
        };
        let size_bytes = *draft.size_there.get_or_try_init(size).await?;
        let length = size_bytes.saturating_sub(extent.offset).min(extent.length);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        if length == 0 {
            return Ok(bytes);
        }
        let range = Extent { length, ..extent };
        let mut chunks = self.api.get(&draft.key, Some(range), None).await?.chunks;
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk?);
        }
        Ok(bytes)
    }
}
