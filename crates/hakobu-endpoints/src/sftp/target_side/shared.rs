//! The state that all lanes of a target share.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::endpoint::DraftId;
use hakobu_core::grant::Grant;
use hakobu_core::{Error, ErrorKind, Result};

use super::draft::SftpDraft;
use super::names::DraftNames;
use crate::common::allowance::Allowance;
use crate::sftp::access::SftpAccess;

/// The maximum number of open drafts.
const DRAFTS_MAX: usize = 4096;

/// The options of a target for one run.
#[derive(Clone, Debug)]
pub struct SftpTargetOptions {
    /// Identifies the job and the machine that runs it, where no two runs of it are concurrent. It is part of the names
    /// of drafts, so that leftovers of a killed run are recognised.
    pub job: [u8; 32],
    /// Identifies this run uniquely.
    pub run: [u8; 16],
    /// True if nothing may be changed, including leftovers of a killed run.
    pub leaves_all: bool,
    /// True if everything is flushed to stable storage as it is written, if the server supports that.
    pub durable: bool,
}

/// The state that all lanes of a target share.
pub(crate) struct SftpTargetState {
    pub(super) access: SftpAccess,
    pub(super) root: Vec<u8>,
    pub(super) grant: Grant,
    pub(super) options: SftpTargetOptions,
    pub(super) drafts: Mutex<HashMap<DraftId, Arc<SftpDraft>>>,
    pub(super) names: DraftNames,
    pub(super) allowance: Allowance,
    /// True if owner and group can be set, because the account is root.
    pub(super) may_chown: bool,
    /// True if the server was found to set modes only by following symbolic links.
    pub(super) modes_through_only: AtomicBool,
}

impl SftpTargetState {
    pub(super) fn drafts(&self) -> MutexGuard<'_, HashMap<DraftId, Arc<SftpDraft>>> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn draft(&self, id: DraftId) -> Result<Arc<SftpDraft>> {
        let missing = || {
            Error::new(ErrorKind::NotFound, "writing", "there is no draft of this number, or it is closed")
        };
        self.drafts().get(&id).filter(|draft| draft.is_open()).cloned().ok_or_else(missing)
    }

    pub(super) fn add_draft(&self, id: DraftId, draft: SftpDraft) -> Result<Arc<SftpDraft>> {
        let mut drafts = self.drafts();
        let refused = if drafts.len() >= DRAFTS_MAX {
            (ErrorKind::Protocol, "too many drafts are open")
        } else if drafts.contains_key(&id) {
            (ErrorKind::Protocol, "the draft's number is in use")
        } else if drafts.values().any(|known| known.path == draft.path) {
            // Two sources may have the same target path. Both drafts would be the same file.
            (ErrorKind::Conflict, "it is being written already")
        } else {
            return Ok(Arc::clone(drafts.entry(id).or_insert(Arc::new(draft))));
        };
        Err(Error::new(refused.0, "beginning a draft", refused.1).at(&draft.path))
    }

    pub(super) fn forget_draft(&self, id: DraftId) {
        if let Some(draft) = self.drafts().remove(&id) {
            draft.close();
        }
    }

    /// Refuses writing under a grant that only reads.
    pub(super) fn may_write(&self) -> Result<()> {
        match self.grant.only_reads {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::BeyondGrant, "writing", "the job only compares")),
        }
    }
}
