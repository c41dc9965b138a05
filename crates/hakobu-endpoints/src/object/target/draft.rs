//! Drafts: objects that are being written, and objects that are only compared.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum_combine};
use hakobu_core::checksum::Crc64;
use hakobu_core::endpoint::{DraftAttributes, DraftId, DraftKind, DraftParameters};
use hakobu_core::extent::{Extent, UNKNOWN_BYTES};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::Tagger;
use hakobu_core::{Error, ErrorKind, Result};
use tokio::sync::{Notify, OnceCell};

use super::draft_journal::DraftJournal;
use super::parts::PartPlan;
use crate::object::api::{PartTag, StoreLimits, UploadId};

/// The maximum number of open drafts.
const DRAFTS_MAX: usize = 4096;

/// The drafts of all lanes.
#[derive(Default)]
pub(crate) struct ObjectDrafts(Mutex<HashMap<DraftId, Arc<ObjectDraft>>>);

impl ObjectDrafts {
    fn drafts(&self) -> MutexGuard<'_, HashMap<DraftId, Arc<ObjectDraft>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: DraftId) -> Result<Arc<ObjectDraft>> {
        let missing = || Error::new(ErrorKind::NotFound, "writing", "there is no draft of this number");
        self.drafts().get(&id).cloned().ok_or_else(missing)
    }

    pub(super) fn add(&self, id: DraftId, draft: ObjectDraft) -> Result<Arc<ObjectDraft>> {
        let mut drafts = self.drafts();
        let refused = if drafts.len() >= DRAFTS_MAX {
            (ErrorKind::Protocol, "too many drafts are open")
        } else if drafts.contains_key(&id) {
            (ErrorKind::Protocol, "the draft's number is in use")
        } else if drafts.values().any(|known| known.path == draft.path) {
            (ErrorKind::Conflict, "it is being written already")
        } else {
            return Ok(Arc::clone(drafts.entry(id).or_insert(Arc::new(draft))));
        };
        Err(Error::new(refused.0, "beginning a draft", refused.1).at(&draft.path))
    }

    pub(super) fn forget(&self, id: DraftId) -> Option<Arc<ObjectDraft>> {
        self.drafts().remove(&id)
    }

    /// Removes all drafts, and returns the uploads that were begun for them and that no later run can use, with their
    /// keys.
    pub(super) fn take_uploads(&self) -> Vec<(String, UploadId)> {
        let drafts = std::mem::take(&mut *self.drafts());
        let upload = |draft: Arc<ObjectDraft>| {
            if draft.journal.is_of_use() {
                return None;
            }
            draft.journal.remove();
            Some((draft.key.clone(), draft.upload.get()?.clone()))
        };
        drafts.into_values().filter_map(upload).collect()
    }
}

/// The content of a part, as far as it has been written.
#[derive(Debug, Default)]
struct PartContent {
    pieces: BTreeMap<u64, Bytes>,
    bytes: u64,
}

/// A part whose content is complete.
#[derive(Debug)]
pub(super) struct WholePart {
    pub(super) number: u32,
    pub(super) extent: Extent,
    pub(super) pieces: Vec<Bytes>,
    pub(super) crc64: u64,
}

/// A part that the store has.
#[derive(Clone, Debug)]
struct StoredPart {
    tag: PartTag,
    extent: Extent,
    crc64: u64,
}

#[derive(Debug)]
struct ObjectProgress {
    size_bytes: u64,
    open: HashMap<u32, PartContent>,
    stored: BTreeMap<u32, StoredPart>,
    /// The number of complete parts that are neither stored nor kept yet.
    unsent: usize,
    failed: Option<Error>,
    /// True if the store has copied the whole object.
    is_copied: bool,
}

/// An object that is being written or compared.
#[derive(Debug)]
pub(super) struct ObjectDraft {
    pub(super) path: EntryPath,
    pub(super) key: String,
    pub(super) kind: DraftKind,
    pub(super) attributes: Option<Box<DraftAttributes>>,
    pub(super) tagger: Option<Tagger>,
    pub(super) plan: PartPlan,
    /// The upload, once the first part is sent.
    pub(super) upload: OnceCell<UploadId>,
    /// The size in bytes of the object that is there, once it is known.
    pub(super) size_there: OnceCell<u64>,
    /// The record that a later run needs to go on.
    pub(super) journal: DraftJournal,
    /// Told when a part has been stored, or a write has failed.
    pub(super) changed: Notify,
    progress: Mutex<ObjectProgress>,
}

impl ObjectDraft {
    pub(super) fn new(
        begin: &DraftParameters,
        attributes: Option<Box<DraftAttributes>>,
        key: String,
        limits: &StoreLimits,
    ) -> Result<Self> {
        let progress = ObjectProgress {
            size_bytes: begin.size_bytes,
            open: HashMap::new(),
            stored: BTreeMap::new(),
            unsent: 0,
            failed: None,
            is_copied: false,
        };
        Ok(Self {
            path: begin.path.clone(),
            key,
            kind: begin.kind,
            attributes,
            tagger: begin.tag_key.map(Tagger::new).transpose()?,
            plan: PartPlan::new(begin.size_bytes, limits)?,
            upload: OnceCell::new(),
            size_there: OnceCell::new(),
            journal: DraftJournal::default(),
            changed: Notify::new(),
            progress: Mutex::new(progress),
        })
    }

    /// Records that the store has copied the whole object.
    pub(super) fn set_copied(&self) {
        self.progress().is_copied = true;
    }

    pub(super) fn is_copied(&self) -> bool {
        self.progress().is_copied
    }

    fn progress(&self) -> MutexGuard<'_, ObjectProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.progress().size_bytes
    }

    /// Records the error of a failed write, which the end of the draft returns.
    pub(super) fn fail(&self, error: Error) {
        self.progress().failed.get_or_insert(error);
        self.changed.notify_waiters();
    }

    /// Returns the error of an earlier write.
    pub(super) fn check(&self) -> Result<()> {
        self.progress().failed.clone().map_or(Ok(()), Err)
    }

    /// Adds content that begins at `offset`, and returns the parts that are complete now.
    ///
    /// # Errors
    /// `Protocol` for bytes beyond the end or bytes that were written before.
    pub(super) fn add(&self, mut offset: u64, mut content: Bytes) -> Result<Vec<WholePart>> {
        let mut progress = self.progress();
        let end = offset.checked_add(content.len() as u64).filter(|end| *end <= progress.size_bytes);
        if end.is_none() || self.kind == DraftKind::Compare {
            return Err(Error::new(ErrorKind::Protocol, "writing", "bytes beyond the end of the draft"));
        }
        let mut whole = Vec::new();
        while !content.is_empty() {
            let (number, part) = self.plan.part(offset);
            let length = (part.end() - offset).min(content.len() as u64);
            let some = content.split_to(length as usize);
            let part = Extent { length: part.length.min(progress.size_bytes - part.offset), ..part };
            let is_stored = progress.stored.contains_key(&number);
            let open = progress.open.entry(number).or_default();
            let is_new = !is_stored && open.pieces.insert(offset, some).is_none();
            open.bytes += length;
            if !is_new || open.bytes > part.length {
                return Err(Error::new(ErrorKind::Protocol, "writing", "bytes that were written before"));
            }
            if open.bytes == part.length {
                let content = progress.open.remove(&number).unwrap_or_default();
                progress.unsent += 1;
                whole.push(WholePart::new(number, part, content)?);
            }
            offset += length;
        }
        Ok(whole)
    }

    /// Sets the size of a stream that has ended, and returns its last part, unless that is complete.
    ///
    /// # Errors
    /// `Protocol` if the size is known already, or is not that of what was written.
    pub(super) fn set_size(&self, size_bytes: u64) -> Result<Option<WholePart>> {
        let mut progress = self.progress();
        if progress.size_bytes != UNKNOWN_BYTES {
            return Err(Error::new(ErrorKind::Protocol, "ending a stream", "it has another size"));
        }
        progress.size_bytes = size_bytes;
        let Some(number) = progress.open.keys().next().copied() else { return Ok(None) };
        let content = progress.open.remove(&number).unwrap_or_default();
        progress.unsent += 1;
        let offset = content.pieces.keys().next().copied().unwrap_or_default();
        WholePart::new(number, Extent { offset, length: content.bytes }, content).map(Some)
    }

    /// Records a part of an earlier run, which the store still has.
    pub(super) fn resumed(&self, tag: PartTag, extent: Extent, crc64: u64) {
        self.progress().stored.insert(tag.number, StoredPart { tag, extent, crc64 });
    }

    /// Waits until all complete parts are stored, or kept for the end.
    ///
    /// # Errors
    /// If a write has failed.
    pub(super) async fn all_sent(&self) -> Result<()> {
        loop {
            let changed = self.changed.notified();
            self.check()?;
            if self.progress().unsent == 0 {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Records a part that has been sent.
    pub(super) fn stored(&self, tag: PartTag, extent: Extent, crc64: u64) {
        let mut progress = self.progress();
        progress.unsent = progress.unsent.saturating_sub(1);
        progress.stored.insert(tag.number, StoredPart { tag, extent, crc64 });
        drop(progress);
        self.changed.notify_waiters();
    }

    /// Returns the tag and the checksum of a part that the store has.
    pub(super) fn stored_part(&self, number: u32) -> Option<(PartTag, Extent, u64)> {
        self.progress().stored.get(&number).map(|part| (part.tag.clone(), part.extent, part.crc64))
    }

    /// Waits until the part with the byte at `offset` is stored, unless it is not complete yet.
    ///
    /// # Errors
    /// If a write has failed.
    pub(super) async fn settled(&self, offset: u64) -> Result<()> {
        let (number, _) = self.plan.part(offset);
        loop {
            let changed = self.changed.notified();
            {
                let progress = self.progress();
                if let Some(error) = &progress.failed {
                    return Err(error.clone());
                }
                // The only part of an object that is sent in one request stays until the end.
                if progress.stored.contains_key(&number) || progress.open.contains_key(&number) {
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    /// Returns the parts in order, and the checksum of the whole.
    ///
    /// # Errors
    /// If a write has failed, or bytes are missing.
    pub(super) fn complete(&self) -> Result<(Vec<PartTag>, u64)> {
        self.check()?;
        let progress = self.progress();
        let (mut end, mut crc64) = (0, 0);
        for part in progress.stored.values() {
            if part.extent.offset != end {
                break;
            }
            crc64 = match end {
                0 => part.crc64,
                _ => checksum_combine(CrcAlgorithm::Crc64Nvme, crc64, part.crc64, part.extent.length),
            };
            end = part.extent.end();
        }
        if end != progress.size_bytes || !progress.open.is_empty() {
            return Err(Error::new(ErrorKind::Corrupt, "finishing", "some bytes were never written"));
        }
        Ok((progress.stored.values().map(|part| part.tag.clone()).collect(), crc64))
    }

    /// Returns true if the whole object is sent in one request when it is finished.
    pub(super) fn is_one_request(&self, part: &WholePart) -> bool {
        part.extent.offset == 0 && part.extent.length == self.size_bytes()
    }

    /// Keeps the content of an object that is sent in one request.
    pub(super) fn keep(&self, part: WholePart) {
        let pieces = part.pieces.into_iter().scan(part.extent.offset, |offset, piece| {
            let at = *offset;
            *offset += piece.len() as u64;
            Some((at, piece))
        });
        let content = PartContent { bytes: part.extent.length, pieces: pieces.collect() };
        let mut progress = self.progress();
        progress.unsent = progress.unsent.saturating_sub(1);
        progress.open.insert(part.number, content);
        drop(progress);
        self.changed.notify_waiters();
    }

    /// Returns the content of an object that is sent in one request, if it is one.
    ///
    /// # Errors
    /// If a write has failed.
    pub(super) fn take_single(&self) -> Result<Option<WholePart>> {
        self.check()?;
        let mut progress = self.progress();
        let size_bytes = progress.size_bytes;
        let is_single = progress.stored.is_empty()
            && progress.open.len() <= 1
            && progress.open.values().map(|content| content.bytes).sum::<u64>() == size_bytes;
        if !is_single {
            return Ok(None);
        }
        let content = progress.open.drain().next().map(|(_, content)| content).unwrap_or_default();
        WholePart::new(1, Extent { offset: 0, length: size_bytes }, content).map(Some)
    }
}

impl WholePart {
    fn new(number: u32, extent: Extent, content: PartContent) -> Result<Self> {
        let (mut end, mut crc) = (extent.offset, Crc64::default());
        for (offset, piece) in &content.pieces {
            if *offset != end {
                return Err(Error::new(ErrorKind::Protocol, "writing", "bytes that were written before"));
            }
            crc.update(piece);
            end += piece.len() as u64;
        }
        Ok(Self { number, extent, pieces: content.pieces.into_values().collect(), crc64: crc.value() })
    }
}
