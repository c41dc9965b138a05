//! The journal of a draft.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakobu_core::Result;
use hakobu_core::digest::Digest;

use crate::object::api::UploadId;
use crate::object::upload_journal::{UploadJournal, UploadSubject};

/// The journal of a draft, if it has one.
#[derive(Debug, Default)]
pub(super) struct DraftJournal(Mutex<Option<OpenJournal>>);

/// A journal that is open, and what it does not have yet.
#[derive(Debug)]
pub(super) struct OpenJournal {
    pub(super) journal: UploadJournal,
    pub(super) subject: UploadSubject,
    /// True once the upload is in the journal.
    pub(super) has_upload: bool,
    /// The chunks that were completed, by offset, with their values. `None`: a later run has to write them again.
    pub(super) chunks: BTreeMap<u64, Option<Option<Digest>>>,
}

impl DraftJournal {
    pub(super) fn open(&self) -> MutexGuard<'_, Option<OpenJournal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an upload, before any part of it is there.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub(super) fn begin(&self, upload: &UploadId) -> Result<()> {
        let mut open = self.open();
        let Some(open) = open.as_mut().filter(|open| !open.has_upload) else { return Ok(()) };
        open.has_upload = true;
        open.journal.begin(&open.subject, upload)
    }

    /// Returns true if a later run can go on.
    pub(super) fn is_of_use(&self) -> bool {
        self.open().as_ref().is_some_and(|open| open.journal.has_parts())
    }

    /// Removes the journal.
    pub(super) fn remove(&self) {
        if let Some(open) = self.open().take() {
            open.journal.remove();
        }
    }
}
