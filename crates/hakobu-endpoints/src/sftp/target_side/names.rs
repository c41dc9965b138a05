//! The names of drafts on a server. Each run has its own names, because a server that still processes requests of an
//! earlier connection must not affect drafts of a later one. The names begin with an identifier of the job and the
//! machine that runs it, where no two runs of it are concurrent. That makes the leftovers of a killed run recognisable.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakobu_core::path::{
    DRAFT_BODY_CHARACTERS, DRAFT_CHARACTERS, DRAFT_PREFIX, DraftLife, draft_characters, draft_name_of,
    is_draft_name,
};

/// The numbers of characters, of five bits each, that identify the job, and the run and draft.
const OF_JOB: usize = 8;
const OF_RUN: usize = DRAFT_BODY_CHARACTERS - OF_JOB;
/// Follows the prefix in the name of an entry that is set aside. No draft name contains it.
const ASIDE: &[u8] = b"aside-";

/// Generates the names of one run, and tracks those in use.
#[derive(Debug)]
pub(crate) struct DraftNames {
    /// The common prefix of all names of the job on this machine.
    begin: Vec<u8>,
    run: [u8; 32],
    next: AtomicU64,
    /// The absolute paths of drafts that exist, or may exist.
    current: Mutex<HashSet<Vec<u8>>>,
}

impl DraftNames {
    /// Creates the names of a run. `job` identifies the job and the machine, `run` this run of it.
    pub(crate) fn new(job: &[u8; 32], run: &[u8; 16]) -> Self {
        let mut begin = DRAFT_PREFIX.to_vec();
        begin.extend(draft_characters(blake3::keyed_hash(job, b"drafts of a job").as_bytes(), OF_JOB));
        let mut key = *job;
        key[16..].copy_from_slice(run);
        let run = *blake3::keyed_hash(job, &key).as_bytes();
        Self { begin, run, next: AtomicU64::new(0), current: Mutex::default() }
    }

    /// Returns the name of a new draft.
    pub(crate) fn name(&self) -> Vec<u8> {
        let of_job = self.begin.iter().skip(DRAFT_PREFIX.len()).copied();
        draft_name_of(of_job.chain(self.of_next(OF_RUN)), DraftLife::Short).to_vec()
    }

    /// Returns a name for an entry that is set aside. It is not a draft name: until its replacement has the final name,
    /// the entry is the user's own file, which is copied like any other and only removed by the run that set it aside.
    pub(crate) fn aside(&self) -> Vec<u8> {
        let characters = self.of_next(DRAFT_CHARACTERS - ASIDE.len());
        DRAFT_PREFIX.iter().chain(ASIDE).copied().chain(characters).collect()
    }

    /// Returns characters that are unique within this run.
    fn of_next(&self, count: usize) -> impl Iterator<Item = u8> {
        let number = self.next.fetch_add(1, Relaxed).to_le_bytes();
        let hash = *blake3::keyed_hash(&self.run, &number).as_bytes();
        draft_characters(&hash, count).collect::<Vec<_>>().into_iter()
    }

    /// Returns true if a name is that of a draft of this job, from this run or an earlier one.
    pub(crate) fn is_of_job(&self, name: &[u8]) -> bool {
        is_draft_name(name) && name.starts_with(&self.begin)
    }

    fn current(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a draft that is about to be created.
    pub(crate) fn begin(&self, draft: &[u8]) {
        self.current().insert(draft.to_vec());
    }

    /// Records that a draft has its final name, or was removed.
    pub(crate) fn end(&self, draft: &[u8]) {
        self.current().remove(draft);
    }

    pub(crate) fn is_current(&self, draft: &[u8]) -> bool {
        self.current().contains(draft)
    }

    /// Returns and clears the drafts that are left.
    pub(crate) fn take_all(&self) -> Vec<Vec<u8>> {
        self.current().drain().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_run_and_tell_their_job() {
        let (one, other) = (DraftNames::new(&[1; 32], &[1; 16]), DraftNames::new(&[1; 32], &[2; 16]));
        let name = one.name();
        assert!(is_draft_name(&name));
        assert!(name != other.name() && name != one.name());
        assert!(one.is_of_job(&other.name()));
        assert!(!one.is_of_job(&DraftNames::new(&[2; 32], &[1; 16]).name()));
        assert!(!one.is_of_job(&name[..20]));
        assert!(!is_draft_name(&one.aside()) && one.aside() != one.aside());
        assert_eq!(one.aside().len(), name.len());
    }
}
