//! The names of files that are being written.

use hakobu_core::path::{DRAFT_NAME_BYTES, DRAFT_PREFIX, draft_characters};

/// The name of a draft beside its final name. The same job, lane and path give the same name, so
/// that a later run finds what an earlier one left; other jobs get other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DraftName([u8; DRAFT_NAME_BYTES]);

impl DraftName {
    /// The name for `name` in `directory`, both as bytes below the root. `lane` is 0 for drafts
    /// that all lanes share.
    pub(crate) fn new(job: &[u8; 32], lane: u32, directory: &[u8], name: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(job);
        hasher.update(&lane.to_le_bytes());
        hasher.update(directory);
        hasher.update(b"/");
        hasher.update(name);
        let mut value = [0; 17];
        hasher.finalize_xof().fill(&mut value);
        let mut text = [0; DRAFT_NAME_BYTES];
        let (prefix, characters) = text.split_at_mut(DRAFT_PREFIX.len());
        prefix.copy_from_slice(DRAFT_PREFIX);
        let count = characters.len();
        characters
            .iter_mut()
            .zip(draft_characters(&value, count))
            .for_each(|(place, letter)| *place = letter);
        Self(text)
    }

    /// The name.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::path::is_draft_name;

    use super::*;

    #[test]
    fn names_are_drafts_and_differ_by_job_and_path() {
        let name = DraftName::new(&[1; 32], 0, b"a", b"b");
        assert!(is_draft_name(name.as_bytes()));
        assert_eq!(name, DraftName::new(&[1; 32], 0, b"a", b"b"));
        assert_ne!(name, DraftName::new(&[2; 32], 0, b"a", b"b"));
        assert_ne!(name, DraftName::new(&[1; 32], 0, b"a", b"c"));
        assert_ne!(name, DraftName::new(&[1; 32], 1, b"a", b"b"));
        assert!(name.as_bytes()[8..].iter().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')));
    }
}
