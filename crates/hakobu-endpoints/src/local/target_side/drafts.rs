//! The open drafts of a target, shared by its lanes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::endpoint::DraftId;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::draft::Draft;

/// How many drafts may be open at a time.
pub(crate) const DRAFTS_MAX: usize = 4096;

/// The open drafts by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Drafts(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<DraftId, Slot>,
    closed: bool,
}

/// A draft, or the place of one that is being begun.
#[derive(Debug)]
struct Slot {
    path: EntryPath,
    size_bytes: u64,
    draft: Option<Arc<Draft>>,
}

impl Drafts {
    /// Keeps a place for a draft and says how many bytes the others still have to write.
    pub(crate) fn reserve(&self, id: DraftId, path: &EntryPath, size_bytes: u64) -> Result<u64> {
        let mut table = self.table();
        let refused = if table.closed {
            (ErrorKind::Cancelled, "the target is closed")
        } else if table.slots.len() >= DRAFTS_MAX {
            (ErrorKind::Protocol, "too many drafts are open")
        } else if table.slots.contains_key(&id) {
            (ErrorKind::Protocol, "the draft's number is in use")
        } else if table.slots.values().any(|slot| slot.path == *path) {
            // Two sources may land on one path. Both drafts would be the same file.
            (ErrorKind::Conflict, "it is being written already")
        } else {
            let needed =
                |slot: &Slot| slot.draft.as_ref().map_or(slot.size_bytes, |draft| draft.needed_bytes());
            let outstanding = table.slots.values().map(needed).fold(0, u64::saturating_add);
            table.slots.insert(id, Slot { path: path.clone(), size_bytes, draft: None });
            return Ok(outstanding);
        };
        Err(Error::new(refused.0, "beginning a draft", refused.1).at(path))
    }

    /// Puts a draft into the place kept for it.
    pub(crate) fn fill(&self, id: DraftId, draft: Arc<Draft>) {
        let mut table = self.table();
        match table.slots.get_mut(&id) {
            Some(slot) => slot.draft = Some(draft),
            // The target was closed meanwhile.
            None => {
                draft.abandon(true);
            }
        }
    }

    /// The draft of that number. Its absence is no breach of the protocol: writes may be under way
    /// to a draft that could not be begun.
    pub(crate) fn find(&self, id: DraftId) -> Result<Arc<Draft>> {
        let found = self.table().slots.get(&id).and_then(|slot| slot.draft.clone());
        // Not a breach: an operation may already be on its way when the draft's beginning fails.
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "writing", "there is no draft of this number"))
    }

    /// Removes a draft, or the place kept for it, and says whether there was one.
    pub(crate) fn remove(&self, id: DraftId) -> bool {
        self.table().slots.remove(&id).is_some()
    }

    /// Throws all away but what a later run can use, and takes no more.
    pub(crate) fn close(&self) {
        let mut table = self.table();
        table.closed = true;
        for slot in std::mem::take(&mut table.slots).into_values() {
            if let Some(draft) = slot.draft {
                draft.abandon(true);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
