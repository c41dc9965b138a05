//! The open drafts of a target, shared by its lanes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::endpoint::DraftId;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::draft::LocalDraft;

/// The maximum number of open drafts.
pub(crate) const DRAFTS_MAX: usize = 4096;

/// The open drafts by number.
#[derive(Debug, Default)]
pub(crate) struct LocalDrafts(Mutex<DraftTable>);

#[derive(Debug, Default)]
struct DraftTable {
    slots: HashMap<DraftId, DraftSlot>,
    /// Set once no more drafts are accepted: true if progress that a later run can use is kept.
    closed: Option<bool>,
}

/// A draft, or a reservation for one that is being opened.
#[derive(Debug)]
struct DraftSlot {
    path: EntryPath,
    size_bytes: u64,
    draft: Option<Arc<LocalDraft>>,
}

impl LocalDrafts {
    /// Reserves a slot for a draft. Returns the number of bytes that the other drafts still have to write.
    pub(crate) fn reserve(&self, id: DraftId, path: &EntryPath, size_bytes: u64) -> Result<u64> {
        let mut table = self.table();
        let refused = if table.closed.is_some() {
            (ErrorKind::Cancelled, "the target is closed")
        } else if table.slots.len() >= DRAFTS_MAX {
            (ErrorKind::Protocol, "too many drafts are open")
        } else if table.slots.contains_key(&id) {
            (ErrorKind::Protocol, "the draft's number is in use")
        } else if table.slots.values().any(|slot| slot.path == *path) {
            // Two sources may have the same target path. Both drafts would be the same file.
            (ErrorKind::Conflict, "it is being written already")
        } else {
            let needed =
                |slot: &DraftSlot| slot.draft.as_ref().map_or(slot.size_bytes, |draft| draft.needed_bytes());
            let outstanding = table.slots.values().map(needed).fold(0, u64::saturating_add);
            table.slots.insert(id, DraftSlot { path: path.clone(), size_bytes, draft: None });
            return Ok(outstanding);
        };
        Err(Error::new(refused.0, "beginning a draft", refused.1).at(path))
    }

    /// Stores a draft in its reserved slot.
    pub(crate) fn fill(&self, id: DraftId, draft: Arc<LocalDraft>) {
        let mut table = self.table();
        match table.slots.get_mut(&id) {
            Some(slot) => slot.draft = Some(draft),
            // The target was closed meanwhile.
            None => {
                draft.abandon(table.closed.unwrap_or(true) || draft.is_joined);
            }
        }
    }

    /// Returns the draft of that number. If it does not exist, this is no `Protocol` error: writes may be in flight to
    /// a draft that could not be opened.
    pub(crate) fn find(&self, id: DraftId) -> Result<Arc<LocalDraft>> {
        let found = self.table().slots.get(&id).and_then(|slot| slot.draft.clone());
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "writing", "there is no draft of this number"))
    }

    /// Removes a draft or its reservation. Returns true if there was one.
    pub(crate) fn remove(&self, id: DraftId) -> bool {
        self.table().slots.remove(&id).is_some()
    }

    /// Discards all drafts, and accepts no more. With `keep`, progress that a later run can use is kept.
    pub(crate) fn close(&self, keep: bool) {
        let mut table = self.table();
        table.closed = Some(keep);
        for slot in std::mem::take(&mut table.slots).into_values() {
            if let Some(draft) = slot.draft {
                draft.abandon(keep || draft.is_joined);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, DraftTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
