//! Names of drafts and of their journals.

use hakobu_core::path::{
    DRAFT_BODY_CHARACTERS, DRAFT_NAME_BYTES, DraftLife, draft_characters, draft_name_of,
};

/// The pseudo lane number in the names of journals.
pub(crate) const JOURNAL: u32 = u32::MAX;
/// The pseudo lane number of a large draft, which all lanes share.
const SHARED: u32 = 0;

/// The temporary name of a draft in the directory of its final name. The same job, lane and path give the same name, so
/// that a later run finds the draft of an earlier one. Other jobs get other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DraftName(pub(super) [u8; DRAFT_NAME_BYTES]);

impl DraftName {
    /// Returns the draft name for `name` in `directory`, both as bytes below the root. `lane` is 0 for drafts that all
    /// lanes share, and [`JOURNAL`] for their journals.
    pub(crate) fn new(job: &[u8; 32], lane: u32, directory: &[u8], name: &[u8]) -> Self {
        if lane == JOURNAL {
            return Self::new(job, SHARED, directory, name).journal();
        }
        let mut hasher = blake3::Hasher::new_keyed(job);
        hasher.update(&lane.to_le_bytes());
        hasher.update(directory);
        hasher.update(b"/");
        hasher.update(name);
        Self::of(&hasher, if lane == SHARED { DraftLife::Long } else { DraftLife::Short })
    }

    /// Returns the name of this draft's journal.
    pub(crate) fn journal(&self) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"hakobu journal of ").update(&self.0);
        Self::of(&hasher, DraftLife::Long)
    }

    fn of(hasher: &blake3::Hasher, life: DraftLife) -> Self {
        Self(draft_name_of(draft_characters(hasher.finalize().as_bytes(), DRAFT_BODY_CHARACTERS), life))
    }

    /// Returns the name as bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::path::{draft_life, is_draft_name};

    use super::*;

    #[test]
    fn names_are_drafts_and_differ_by_job_and_path() {
        let name = DraftName::new(&[1; 32], SHARED, b"a", b"b");
        assert!(is_draft_name(name.as_bytes()));
        assert_eq!(name, DraftName::new(&[1; 32], 0, b"a", b"b"));
        assert_ne!(name, DraftName::new(&[2; 32], 0, b"a", b"b"));
        assert_ne!(name, DraftName::new(&[1; 32], 0, b"a", b"c"));
        assert_ne!(name, DraftName::new(&[1; 32], 1, b"a", b"b"));
        let journal = DraftName::new(&[1; 32], JOURNAL, b"a", b"b");
        assert!(journal == name.journal() && journal != name && is_draft_name(journal.as_bytes()));
        assert_eq!(draft_life(DraftName::new(&[1; 32], 1, b"a", b"b").as_bytes()), Some(DraftLife::Short));
        assert_eq!(draft_life(name.as_bytes()), Some(DraftLife::Long));
    }
}
