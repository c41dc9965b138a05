//! The directories in which sidecars are stored.

use hakobu_core::entry::EntryKind;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::path::EntryPath;

/// The places that a job writes to, each with the sidecars of what is in it.
#[derive(Clone, Debug)]
pub(super) struct SidecarHomes(Vec<GrantedPlace>);

impl SidecarHomes {
    pub(super) fn of(grant: &Grant) -> Self {
        Self(grant.places.clone())
    }

    /// Returns the directory for the sidecar of an entry: the top of the tree that is written, or the directory that a
    /// single file is in.
    pub(super) fn of_entry(&self, path: &EntryPath, kind: EntryKind) -> EntryPath {
        let covers = |place: &&GrantedPlace| place.tree && path.is_within(&place.path);
        match self.0.iter().find(covers) {
            Some(place) if place.path != *path || kind == EntryKind::Directory => place.path.clone(),
            _ => path.split_last().map_or_else(EntryPath::root, |(parent, _)| parent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecars_are_at_the_top_of_a_tree_or_beside_a_file() {
        let path = |text: &str| EntryPath::new(text).unwrap();
        let places = vec![GrantedPlace::new(path("a/tree"), true), GrantedPlace::new(path("b/file"), false)];
        let homes = SidecarHomes::of(&Grant { places, ..Grant::everything() });
        for (at, kind, home) in [
            ("a/tree", EntryKind::Directory, "a/tree"),
            ("a/tree", EntryKind::Symlink, "a"),
            ("a/tree/b/c", EntryKind::File, "a/tree"),
            ("b/file", EntryKind::File, "b"),
        ] {
            assert_eq!(homes.of_entry(&path(at), kind), path(home), "{at}");
        }
        let all = SidecarHomes::of(&Grant::everything());
        assert!(all.of_entry(&path("a/b"), EntryKind::File).is_root());
    }
}
