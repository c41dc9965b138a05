//! Drafts of large files: parts that become one entry when all of them are complete.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{DraftId, DraftKind, DraftParameters};
use hakobu_core::extent::{CHUNK_BYTES, Extent, UNKNOWN_BYTES};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{Tagger, piece_value};
use hakobu_core::{Error, ErrorKind, Result};

use crate::common::range_set::RangeSet;

/// A file that is not yet visible under its name, or one that is only compared.
#[derive(Debug)]
pub(crate) struct StoreDraft {
    pub(crate) path: EntryPath,
    kind: DraftKind,
    tagger: Option<Tagger>,
    /// The existing content with which it is compared.
    there: Option<Arc<[u8]>>,
    /// True if written content is kept until it is complete.
    keeps: bool,
    progress: Mutex<StoreDraftProgress>,
}

#[derive(Debug)]
struct StoreDraftProgress {
    /// The size in bytes; `UNKNOWN_BYTES` for a stream that has not ended.
    size_bytes: u64,
    taken: RangeSet,
    taken_bytes: u64,
    /// The written content by chunk number.
    parts: BTreeMap<u64, Vec<u8>>,
    open: bool,
    failed: Option<Error>,
}

impl StoreDraft {
    pub(crate) fn new(begin: &DraftParameters, there: Option<Arc<[u8]>>, keeps: bool) -> Result<Self> {
        let size_bytes = there.as_ref().map_or(begin.size_bytes, |there| there.len() as u64);
        if size_bytes != UNKNOWN_BYTES && i64::try_from(size_bytes).is_err() {
            return Err(protocol("an impossible size"));
        }
        let progress = StoreDraftProgress {
            size_bytes,
            taken: RangeSet::default(),
            taken_bytes: 0,
            parts: BTreeMap::new(),
            open: true,
            failed: None,
        };
        let tagger = begin.tag_key.map(Tagger::new).transpose()?;
        let (path, kind, progress) = (begin.path.clone(), begin.kind, Mutex::new(progress));
        Ok(Self { path, kind, tagger, there, keeps, progress })
    }

    fn progress(&self) -> MutexGuard<'_, StoreDraftProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes bytes, each of them once. An error is stored in the draft.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut progress = self.progress();
        let taken = progress.take(self.kind, offset, bytes.len() as u64);
        if let Err(error) = taken {
            progress.failed.get_or_insert(error.clone());
            return Err(error);
        }
        if self.keeps {
            progress.put(offset, bytes);
        }
        Ok(())
    }

    /// Takes a range of zeros.
    pub(crate) fn zero(&self, extent: Extent) -> Result<()> {
        self.progress().take(self.kind, extent.offset, extent.length)
    }

    /// Returns the first error of the draft, if there is one.
    pub(crate) fn check(&self) -> Result<()> {
        self.progress().failed.clone().map_or(Ok(()), Err)
    }

    /// Sets the size of a stream that has ended.
    pub(crate) fn set_size(&self, size_bytes: u64) -> Result<()> {
        let mut progress = self.progress();
        if progress.size_bytes != UNKNOWN_BYTES || progress.taken.end() > size_bytes {
            return Err(protocol("a stream of another size"));
        }
        progress.size_bytes = size_bytes;
        Ok(())
    }

    /// Returns the values of the pieces of the existing content.
    pub(crate) fn sign(&self, extent: Extent) -> Result<Vec<Digest>> {
        let there = self.there.as_deref().ok_or_else(|| protocol("a draft with nothing to compare"))?;
        let value = |piece: Extent| {
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(there.len());
            let bytes = &there[at(piece.offset)..at(piece.end())];
            piece_value(self.tagger.as_ref(), there.len() as u64, piece.offset, bytes)
        };
        extent.pieces().map(value).collect()
    }

    /// Closes the draft and returns its content, or `None` if it is only compared.
    ///
    /// # Errors
    /// `Corrupt` if bytes are missing.
    pub(crate) fn complete(&self) -> Result<Option<Arc<[u8]>>> {
        let mut progress = self.progress();
        if !std::mem::replace(&mut progress.open, false) {
            return Err(Error::new(ErrorKind::NotFound, "finishing", "the draft is closed"));
        }
        if let Some(error) = &progress.failed {
            return Err(error.clone());
        }
        if self.there.is_some() {
            return Ok(None);
        }
        if progress.taken_bytes != progress.size_bytes {
            return Err(Error::new(ErrorKind::Corrupt, "finishing", "some bytes were never written"));
        }
        Ok(Some(if self.keeps { progress.content() } else { Arc::default() }))
    }
}

impl StoreDraftProgress {
    fn take(&mut self, kind: DraftKind, offset: u64, length: u64) -> Result<()> {
        let end = offset.checked_add(length).filter(|end| *end <= self.size_bytes);
        let Some(end) = end.filter(|_| kind != DraftKind::Compare) else {
            return Err(protocol("bytes beyond the end of the draft"));
        };
        if length > 0 && !self.taken.take(offset, end) {
            return Err(protocol("bytes that were written before"));
        }
        self.taken_bytes += length;
        Ok(())
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let within = offset % CHUNK_BYTES;
            let length = rest.len().min((CHUNK_BYTES - within) as usize);
            let (now, later) = rest.split_at(length);
            let part = self.parts.entry(offset / CHUNK_BYTES).or_default();
            let end = within as usize + length;
            if part.len() < end {
                part.resize(end, 0);
            }
            part[within as usize..end].copy_from_slice(now);
            (offset, rest) = (offset + length as u64, later);
        }
    }

    fn content(&mut self) -> Arc<[u8]> {
        let mut content = Vec::with_capacity(usize::try_from(self.size_bytes).unwrap_or(0));
        for (number, part) in std::mem::take(&mut self.parts) {
            content.resize(usize::try_from(number * CHUNK_BYTES).unwrap_or(usize::MAX), 0);
            content.extend_from_slice(&part);
        }
        content.resize(usize::try_from(self.size_bytes).unwrap_or(usize::MAX), 0);
        content.into()
    }
}

/// The drafts of a target, by the numbers that the engine has assigned.
#[derive(Debug, Default)]
pub(crate) struct StoreDrafts(Mutex<HashMap<DraftId, Arc<StoreDraft>>>);

impl StoreDrafts {
    fn all(&self) -> MutexGuard<'_, HashMap<DraftId, Arc<StoreDraft>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a draft under an unused number.
    pub(crate) fn add(&self, id: DraftId, draft: StoreDraft) -> Result<()> {
        let mut all = self.all();
        if all.contains_key(&id) {
            return Err(protocol("a number that another draft has"));
        }
        all.insert(id, Arc::new(draft));
        Ok(())
    }

    pub(crate) fn find(&self, id: DraftId) -> Result<Arc<StoreDraft>> {
        let missing = || Error::new(ErrorKind::NotFound, "writing", "there is no draft of this number");
        self.all().get(&id).cloned().ok_or_else(missing)
    }

    pub(crate) fn remove(&self, id: DraftId) -> Option<Arc<StoreDraft>> {
        self.all().remove(&id)
    }
}

fn protocol(words: &'static str) -> Error {
    Error::new(ErrorKind::Protocol, "writing", words)
}
