//! Drafts that several runs write, on this machine or on others: one begins the draft and leaves it, the others open it.

use std::sync::atomic::Ordering;

use hakobu_core::endpoint::{DraftKind, SharedDraft};
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, fdatasync, flock, fstat, ftruncate};

use super::attributes::Owner;
use super::directories::Directory;
use super::draft::LocalDraft;
use super::open::{check_place, open_draft};
use super::shared::LocalTargetState;
use super::stable;
use crate::local::draft_name::DraftName;
use crate::local::draft_proof::{is_ours, journal_names};
use crate::local::errno::fault;
use crate::local::ownership;

const OPENING: &str = "opening the draft";

impl LocalDraft {
    /// Opens a draft that another run of the job has left.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name, or another file.
    pub(crate) fn join(
        shared: &LocalTargetState,
        directory: &mut Directory,
        name: &[u8],
        left: &SharedDraft,
    ) -> Result<Self> {
        let words = "another run has begun it, and it is not there any more";
        let not_there = || Error::new(ErrorKind::NotFound, OPENING, words);
        let draft_name = DraftName::of_large_draft(&shared.key, &left.name).ok_or_else(not_there)?;
        if !is_ours(&*directory.fd, draft_name.as_bytes()) {
            return Err(not_there());
        }
        let file = open_shared(directory, &draft_name, left.is_complete).ok_or_else(not_there)?;
        let found = fstat(&file).map_err(|errno| fault(OPENING, errno))?;
        if u64::try_from(found.st_size) != Ok(left.size_bytes) {
            return Err(not_there());
        }
        // Whoever else writes to it has the lock as well. Without one, its age shows that it is in use.
        let _ = flock(&file, FlockOperation::NonBlockingLockShared);
        // It is no new file of this run, and may have another group, or the owner of the finished file.
        let owner = Owner { uid: found.st_uid, gid: found.st_gid };
        let place = (&left.path, name);
        let mut draft = Self::new(place, DraftKind::File, &directory.fd, file, owner, left.size_bytes);
        (draft.draft_name, draft.sparse) = (Some(draft_name), left.sparse);
        (draft.stability, draft.is_joined) = (directory.stability, true);
        draft.stale.store(left.is_stale, Ordering::Release);
        if left.is_complete {
            // From here on it is removed unless it gets its name.
            draft.pending.store(true, Ordering::Release);
            draft.written_bytes.store(left.size_bytes, Ordering::Release);
            draft.shared_journal = draft.draft_name.as_ref().map(DraftName::journal);
            match check_place(shared, directory, name, &left.path) {
                Ok(replaces) => draft.replaces = replaces,
                // It can only be discarded.
                Err(error) => draft.fail(error),
            }
        }
        Ok(draft)
    }

    /// Leaves the draft to other runs, with all that was written to it on stable storage. It must be closed. Returns its name.
    ///
    /// # Errors
    /// Those of earlier writes, and of the system. The draft is then discarded.
    pub(crate) fn leave(&self, durable: bool) -> Result<Vec<u8>> {
        let left = self.check().and_then(|()| self.leave_written(durable));
        left.inspect_err(|_| self.discard(false))
    }

    fn leave_written(&self, durable: bool) -> Result<Vec<u8>> {
        let Some(name) = self.draft_name.filter(|_| self.kind == DraftKind::File) else {
            return Err(Error::new(ErrorKind::Unsupported, "sharing the draft", "it is no new file"));
        };
        if !self.is_joined {
            // Others take what they do not write for zeros.
            ftruncate(&self.file, self.size_bytes()).map_err(|errno| fault("setting the length", errno))?;
        }
        if durable {
            fdatasync(&self.file).map_err(|errno| fault("flushing to stable storage", errno))?;
        }
        stable::close_another(&self.file, self.stability)?;
        // A later run can go on with what this one has written.
        self.keep();
        self.pending.store(false, Ordering::Release);
        Ok(name.as_bytes().to_vec())
    }
}

/// Opens a draft that another run has left. One that is complete may have the attributes of the finished file: whoever set them did
/// not come to its name. Its journal then shows that it is the draft.
fn open_shared(directory: &Directory, name: &DraftName, is_complete: bool) -> Option<OwnedFd> {
    let file = open_draft(directory, name)?;
    let is_dressed = || is_complete && journal_names(directory.fd.as_fd(), name.as_bytes(), &file);
    (ownership::is_ours(&file) || is_dressed()).then_some(file)
}
