//! Names of drafts and of their journals.

use hakobu_core::path::{
    DRAFT_BODY_CHARACTERS, DRAFT_NAME_BYTES, DRAFT_PREFIX, DraftLife, draft_characters, draft_life,
    draft_name_of, is_draft_name,
};

/// The pseudo lane number in the names of journals.
pub(crate) const JOURNAL: u32 = u32::MAX;
/// The pseudo lane number of a large draft, which all lanes share.
const SHARED: u32 = 0;

/// The numbers of characters, of five bits each, that tell the job and the lease. The others tell the draft.
const OF_JOB: usize = 6;
const OF_LEASE: usize = 4;
const OF_DRAFT: usize = DRAFT_BODY_CHARACTERS - OF_JOB - OF_LEASE;

/// The part of the names that all drafts of a job and lease share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DraftKey {
    /// The job's key without the lease.
    job: [u8; 32],
    begin: [u8; OF_JOB + OF_LEASE],
}

impl DraftKey {
    /// Creates it from the job's key. Its first 8 bytes tell what is copied, the next 8 the lease under which a part of that is
    /// copied.
    pub(crate) fn new(job: &[u8; 32]) -> Self {
        let lease = *blake3::hash(&job[8..16]).as_bytes();
        let mut job = *job;
        job[8..16].fill(0);
        let of_job = *blake3::keyed_hash(&job, b"drafts of a job").as_bytes();
        let mut begin = [0; OF_JOB + OF_LEASE];
        let letters = draft_characters(&of_job, OF_JOB).chain(draft_characters(&lease, OF_LEASE));
        begin.iter_mut().zip(letters).for_each(|(place, letter)| *place = letter);
        Self { job, begin }
    }
}

/// The temporary name of a draft in the directory of its final name. The same job, lane and path give the same name, so
/// that a later run finds the draft of an earlier one. Other jobs get other names.
///
/// Drafts of the same job and another lease are recognised. Whoever lists a directory has it alone, so their runs have ended
/// or have lost the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DraftName(pub(super) [u8; DRAFT_NAME_BYTES]);

impl DraftName {
    /// Returns the draft name for `name` in `directory`, both as bytes below the root. `lane` is 0 for drafts that all
    /// lanes share, and [`JOURNAL`] for their journals.
    pub(crate) fn new(key: &DraftKey, lane: u32, directory: &[u8], name: &[u8]) -> Self {
        if lane == JOURNAL {
            return Self::new(key, SHARED, directory, name).journal();
        }
        let mut hasher = blake3::Hasher::new_keyed(&key.job);
        hasher.update(&lane.to_le_bytes());
        hasher.update(directory);
        hasher.update(b"/");
        hasher.update(name);
        Self::made_of(&key.begin, &hasher, if lane == SHARED { DraftLife::Long } else { DraftLife::Short })
    }

    /// Returns the name of this draft's journal.
    pub(crate) fn journal(&self) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"hakobu journal of ").update(&self.0);
        Self::made_of(&self.body()[..OF_JOB + OF_LEASE], &hasher, DraftLife::Long)
    }

    fn made_of(begin: &[u8], hasher: &blake3::Hasher, life: DraftLife) -> Self {
        let hash = *hasher.finalize().as_bytes();
        Self(draft_name_of(begin.iter().copied().chain(draft_characters(&hash, OF_DRAFT)), life))
    }

    /// Returns the name in a directory, if it has the form of a draft's.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        name.try_into().ok().filter(|_| is_draft_name(name)).map(Self)
    }

    /// Returns the name in a directory, if it can be that of a draft of the same job under another lease.
    pub(crate) fn of_other_lease(key: &DraftKey, name: &[u8]) -> Option<Self> {
        let other = Self::of(name)?;
        let (of_its_job, of_its_lease) = other.body()[..OF_JOB + OF_LEASE].split_at(OF_JOB);
        let (of_job, of_lease) = key.begin.split_at(OF_JOB);
        (of_its_job == of_job && of_its_lease != of_lease).then_some(other)
    }

    /// Returns the name of a large draft of the job, under any lease.
    pub(crate) fn of_large_draft(key: &DraftKey, name: &[u8]) -> Option<Self> {
        let draft = Self::of(name)?;
        let is_of_job = draft.body()[..OF_JOB] == key.begin[..OF_JOB];
        (is_of_job && draft_life(name) == Some(DraftLife::Long)).then_some(draft)
    }

    /// Returns true if both are of the same file and job, under any leases.
    pub(crate) fn is_of_file_of(&self, other: &Self) -> bool {
        let is_equal = |from: usize, until: usize| self.body()[from..until] == other.body()[from..until];
        draft_life(&self.0) == draft_life(&other.0)
            && is_equal(0, OF_JOB)
            && is_equal(OF_JOB + OF_LEASE, DRAFT_BODY_CHARACTERS)
    }

    fn body(&self) -> &[u8] {
        &self.0[DRAFT_PREFIX.len()..][..DRAFT_BODY_CHARACTERS]
    }

    /// Returns the name as bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(job: u8, lease: u8) -> DraftKey {
        let mut key = [job; 32];
        key[8..16].fill(lease);
        DraftKey::new(&key)
    }

    #[test]
    fn names_are_drafts_and_differ_by_job_and_path() {
        let name = DraftName::new(&key(1, 1), SHARED, b"a", b"b");
        assert!(is_draft_name(name.as_bytes()));
        assert_eq!(name, DraftName::new(&key(1, 1), 0, b"a", b"b"));
        assert_ne!(name, DraftName::new(&key(2, 1), 0, b"a", b"b"));
        assert_ne!(name, DraftName::new(&key(1, 1), 0, b"a", b"c"));
        assert_ne!(name, DraftName::new(&key(1, 1), 1, b"a", b"b"));
        let journal = DraftName::new(&key(1, 1), JOURNAL, b"a", b"b");
        assert!(journal == name.journal() && journal != name && is_draft_name(journal.as_bytes()));
        assert_eq!(draft_life(DraftName::new(&key(1, 1), 1, b"a", b"b").as_bytes()), Some(DraftLife::Short));
        assert_eq!(draft_life(name.as_bytes()), Some(DraftLife::Long));
    }

    #[test]
    fn drafts_of_other_leases_are_told_from_own_ones_and_from_those_of_other_jobs() {
        let name = |key: &DraftKey| DraftName::new(key, SHARED, b"a", b"b");
        let (own, other) = (name(&key(1, 1)), name(&key(1, 2)));
        assert!(own != other && own.is_of_file_of(&other) && own.is_of_file_of(&own));
        assert_eq!(DraftName::of_other_lease(&key(1, 1), other.as_bytes()), Some(other));
        for draft in [own, other] {
            assert_eq!(DraftName::of_large_draft(&key(1, 1), draft.as_bytes()), Some(draft));
            assert_eq!(DraftName::of_large_draft(&key(2, 1), draft.as_bytes()), None);
        }
        let small = DraftName::new(&key(1, 1), 1, b"a", b"b");
        assert_eq!(DraftName::of_large_draft(&key(1, 1), small.as_bytes()), None);
        assert_eq!(DraftName::of_large_draft(&key(1, 1), b"b"), None);
        let journal = other.journal();
        assert_eq!(DraftName::of_other_lease(&key(1, 1), journal.as_bytes()), Some(journal));
        for none in [own, own.journal(), name(&key(2, 2))] {
            assert_eq!(DraftName::of_other_lease(&key(1, 1), none.as_bytes()), None);
        }
        assert_eq!(DraftName::of_other_lease(&key(1, 1), b"b"), None);
        assert!(!own.is_of_file_of(&DraftName::new(&key(1, 2), SHARED, b"a", b"c")));
        assert!(!own.is_of_file_of(&DraftName::new(&key(1, 2), 1, b"a", b"b")), "a small file's");
        assert!(!own.is_of_file_of(&name(&key(2, 1))) && !own.is_of_file_of(&journal));
    }
}
