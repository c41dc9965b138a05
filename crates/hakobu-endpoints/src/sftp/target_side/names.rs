//! The names of drafts on a server. Each run has names of its own: a server that still works off what an earlier
//! connection had asked for must not meet the drafts of a later one. So that what a killed run has left is found, the
//! names begin with what stands for the job and the machine that it runs on, where no two runs of it are under way.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakobu_core::path::{
    DRAFT_BODY_CHARACTERS, DRAFT_CHARACTERS, DRAFT_PREFIX, DraftLife, draft_characters, draft_name_of,
    is_draft_name,
};

/// Characters of five bits each that stand for the job, and for the run and the draft.
const OF_JOB: usize = 8;
const OF_RUN: usize = DRAFT_BODY_CHARACTERS - OF_JOB;
/// Follows the prefix in the name of what is put aside, which no draft's name has.
const ASIDE: &[u8] = b"aside-";

/// Makes the names of one run, and knows those in use.
#[derive(Debug)]
pub(crate) struct DraftNames {
    /// How all names of the job begin on this machine.
    begin: Vec<u8>,
    run: [u8; 32],
    next: AtomicU64,
    /// The whole paths of drafts that are there, or may be.
    current: Mutex<HashSet<Vec<u8>>>,
}

impl DraftNames {
    /// `job` stands for the job and the machine, `run` for this run of it.
    pub(crate) fn new(job: &[u8; 32], run: &[u8; 16]) -> Self {
        let mut begin = DRAFT_PREFIX.to_vec();
        begin.extend(draft_characters(blake3::keyed_hash(job, b"drafts of a job").as_bytes(), OF_JOB));
        let mut key = *job;
        key[16..].copy_from_slice(run);
        let run = *blake3::keyed_hash(job, &key).as_bytes();
        Self { begin, run, next: AtomicU64::new(0), current: Mutex::default() }
    }

    /// The name of one more draft.
    pub(crate) fn name(&self) -> Vec<u8> {
        let of_job = self.begin.iter().skip(DRAFT_PREFIX.len()).copied();
        draft_name_of(of_job.chain(self.of_next(OF_RUN)), DraftLife::Short).to_vec()
    }

    /// A name for what is put aside. It is no draft: until what replaces it has its name, it is the user's own file, which takes
    /// part in any copy and is removed by nobody but who put it there.
    pub(crate) fn aside(&self) -> Vec<u8> {
        let characters = self.of_next(DRAFT_CHARACTERS - ASIDE.len());
        DRAFT_PREFIX.iter().chain(ASIDE).copied().chain(characters).collect()
    }

    /// Characters that nothing else of this run has.
    fn of_next(&self, count: usize) -> impl Iterator<Item = u8> {
        let number = self.next.fetch_add(1, Relaxed).to_le_bytes();
        let hash = *blake3::keyed_hash(&self.run, &number).as_bytes();
        draft_characters(&hash, count).collect::<Vec<_>>().into_iter()
    }

    /// Whether a name is that of a draft of this job, of this run or an earlier one.
    pub(crate) fn is_of_job(&self, name: &[u8]) -> bool {
        is_draft_name(name) && name.starts_with(&self.begin)
    }

    fn current(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a draft that is about to be made.
    pub(crate) fn begin(&self, draft: &[u8]) {
        self.current().insert(draft.to_vec());
    }

    /// A draft has got its name, or was removed.
    pub(crate) fn end(&self, draft: &[u8]) {
        self.current().remove(draft);
    }

    pub(crate) fn is_current(&self, draft: &[u8]) -> bool {
        self.current().contains(draft)
    }

    /// All that is left.
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
