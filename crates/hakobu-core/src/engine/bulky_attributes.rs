//! Large extended attributes, of which one entry each is examined where the target's listings show none.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// The most that are remembered. After that, some are examined again.
const EXAMINED_MAX: usize = 1 << 16;

/// The attributes of which an entry was examined.
///
/// A store keeps what does not fit into metadata apart from the entries, once for all entries of a tree with equal
/// attributes. No listing shows whether it is still there, and one entry shows it for all: if that is repaired, so are the
/// others.
#[derive(Debug, Default)]
pub(super) struct BulkyAttributes(Mutex<HashSet<(u64, u64)>>);

impl BulkyAttributes {
    /// Returns true for the first entry of a tree with these attributes. `top` are the names of the path to the tree.
    pub fn is_first<'a>(&self, top: impl Iterator<Item = &'a [u8]>, extended: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        top.for_each(|name| name.hash(&mut hasher));
        let mut examined = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if examined.len() >= EXAMINED_MAX {
            examined.clear();
        }
        examined.insert((hasher.finish(), extended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tree_has_attributes_of_its_own() {
        let examined = BulkyAttributes::default();
        let is_first =
            |top: &[&str], extended| examined.is_first(top.iter().map(|name| name.as_bytes()), extended);
        assert!(is_first(&["a", "b"], 1) && !is_first(&["a", "b"], 1));
        assert!(is_first(&["a", "b"], 2) && is_first(&["a", "c"], 1) && is_first(&["ab"], 1));
        assert!(!is_first(&["a", "c"], 1));
    }
}
