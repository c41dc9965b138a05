//! Tracks the names of one inode: the first name found transfers the content, the others become hard links to it.
//!
//! Lanes may find names in any order, so names found while the content is still being transferred wait here. An inode
//! is forgotten when all of its names have been found, and at most [`GROUPS_MAX`] are known at a time. Memory therefore
//! grows with the number of inodes that still have names to be found.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::inode_owners::InodeOwners;
use super::inodes::{GROUPS_MAX, Inodes};
use super::node::DirectoryNode;
use crate::endpoint::DraftKind;
use crate::entry::{EntryMetadata, Inode};
use crate::path::EntryPath;
use crate::plant::planted;

/// A name of an inode whose content is transferred under another name.
#[derive(Clone, Debug)]
pub(super) struct LinkedName {
    /// The directory that holds the name.
    pub node: Arc<DirectoryNode>,
    /// The index of the directory's origin that has it.
    pub origin: usize,
    /// The name at the source.
    pub name: Vec<u8>,
    /// The metadata from the source's listing.
    pub metadata: EntryMetadata,
    /// The path at the target.
    pub target: EntryPath,
    /// True if the target already has an entry at that path.
    pub replaces: bool,
    /// The inode of that entry, if everything but its content, which is not known yet, is equal.
    pub there: Option<Inode>,
    /// Set if comparing the content decides the action; true if something else is already known to differ.
    pub compared: Option<bool>,
    /// The kind of draft to write if it becomes a separate file.
    pub written_as: DraftKind,
    /// True if the target has an equal file there that is a different inode.
    pub equal: bool,
}

/// The action for a name that was found.
#[derive(Debug)]
pub(super) enum LinkAction {
    /// The first name: it transfers the content, or the target already has it.
    First,
    /// The content is being transferred, and this name waits for it.
    Waits,
    /// The target has the inode.
    There(LinkHome),
    /// Too many inodes are known already.
    TooMany,
}

/// A name under which the target has an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkHome {
    pub path: EntryPath,
    /// The target's inode.
    pub inode: Option<Inode>,
    /// True if the target would have told an inode.
    pub is_told: bool,
    /// True if this run created it.
    pub is_new: bool,
}

#[derive(Debug)]
enum LinkState {
    /// The content is being transferred, or compared with that of this inode of the target.
    Moving(Vec<LinkedName>, Option<Inode>),
    /// The target has the inode, and is changing the attributes of this name. Names that are made from it would get the old
    /// ones.
    Changing(Vec<LinkedName>, LinkHome),
    /// Corresponds to [`LinkAction::There`].
    There(LinkHome),
}

#[derive(Debug)]
struct LinkGroup {
    /// The number of names that have not been found yet.
    left: u32,
    state: LinkState,
}

/// The inodes with several names found so far.
#[derive(Debug, Default)]
pub(super) struct Links {
    groups: Mutex<HashMap<Inode, LinkGroup>>,
    /// Their metadata, to tell apart different inodes with one number.
    pub inodes: Inodes,
    /// The files to which inodes of the target with several names belong.
    pub owners: InodeOwners,
}

impl Links {
    /// Returns the key of an inode.
    fn key(inode: Inode) -> Inode {
        if planted("links-mixed-up") { Inode { number: inode.number & !7, ..inode } } else { inode }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Inode, LinkGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a name of `inode` that is to be copied, or compared with `there`. If it is the first, [`Links::done`] or
    /// [`Links::failed`] must follow.
    pub fn enter(
        &self,
        inode: Inode,
        there: Option<Inode>,
        follower: impl FnOnce() -> LinkedName,
        names: u32,
    ) -> LinkAction {
        self.meet(inode, names, || LinkState::Moving(Vec::new(), there), follower)
    }

    /// Records a name of `inode` that the target has.
    pub fn enter_there(
        &self,
        inode: Inode,
        home: LinkHome,
        follower: impl FnOnce() -> LinkedName,
        names: u32,
    ) -> LinkAction {
        self.meet(inode, names, || LinkState::There(home), follower)
    }

    /// Records a name of `inode` that the target has, and whose attributes change there. If it is the first,
    /// [`Links::done`] or [`Links::failed`] must follow.
    pub fn enter_changing(
        &self,
        inode: Inode,
        home: LinkHome,
        follower: impl FnOnce() -> LinkedName,
        names: u32,
    ) -> LinkAction {
        self.meet(inode, names, || LinkState::Changing(Vec::new(), home), follower)
    }

    fn meet(
        &self,
        inode: Inode,
        names: u32,
        first: impl FnOnce() -> LinkState,
        follower: impl FnOnce() -> LinkedName,
    ) -> LinkAction {
        let inode = Self::key(inode);
        let mut groups = self.lock();
        let Some(group) = groups.get_mut(&inode) else {
            if groups.len() >= GROUPS_MAX {
                return LinkAction::TooMany;
            }
            groups.insert(inode, LinkGroup { left: names.saturating_sub(1), state: first() });
            return LinkAction::First;
        };
        group.left = group.left.saturating_sub(1);
        let is_last = group.left == 0;
        match &mut group.state {
            LinkState::Moving(followers, _) => {
                followers.push(follower());
                LinkAction::Waits
            }
            LinkState::Changing(followers, home) => {
                let follower = follower();
                if home.inode.is_some() && follower.there == home.inode {
                    return LinkAction::There(home.clone());
                }
                followers.push(follower);
                LinkAction::Waits
            }
            LinkState::There(home) => {
                let entered = LinkAction::There(home.clone());
                if is_last {
                    groups.remove(&inode);
                    self.inodes.forget(inode);
                }
                entered
            }
        }
    }

    /// Records that the first name of `inode` is at the target, and returns the names that waited. With `kept` the
    /// target's inode was equal and is unchanged; it is returned too.
    pub fn done(&self, inode: Inode, path: &EntryPath, kept: bool) -> (Vec<LinkedName>, Option<Inode>) {
        let inode = Self::key(inode);
        let mut groups = self.lock();
        let Some(group) = groups.get_mut(&inode) else { return (Vec::new(), None) };
        let (followers, home) = match &mut group.state {
            LinkState::Moving(followers, there) => {
                let (path, inode) = (path.clone(), there.filter(|_| kept));
                (followers, LinkHome { path, inode, is_told: inode.is_some(), is_new: !kept })
            }
            LinkState::Changing(followers, home) => (followers, home.clone()),
            LinkState::There(_) => return (Vec::new(), None),
        };
        let (followers, there) = (std::mem::take(followers), home.inode);
        if group.left == 0 {
            groups.remove(&inode);
            self.inodes.forget(inode);
        } else {
            group.state = LinkState::There(home);
        }
        (followers, there)
    }

    /// Records that copying the first name of `inode` failed. Returns the next waiting name, which then transfers the
    /// content. If none waits, the inode is forgotten.
    pub fn failed(&self, inode: Inode) -> Option<LinkedName> {
        let inode = Self::key(inode);
        let mut groups = self.lock();
        let state = &mut groups.get_mut(&inode)?.state;
        let (LinkState::Moving(followers, _) | LinkState::Changing(followers, _)) = state else {
            return None;
        };
        if followers.is_empty() {
            groups.remove(&inode);
            self.inodes.forget(inode);
            return None;
        }
        let next = followers.remove(0);
        *state = LinkState::Moving(std::mem::take(followers), next.there);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::{CountedDirectory, TouchedAttributes};
    use super::*;
    use crate::entry::EntryKind;

    const INODE: Inode = Inode { file_system: 1, number: 2 };

    fn path(text: &str) -> EntryPath {
        EntryPath::new(text).unwrap()
    }

    fn follower(name: &str) -> LinkedName {
        let node = DirectoryNode::new(
            (Vec::new(), EntryPath::root()),
            (None, CountedDirectory::Not),
            None,
            TouchedAttributes::Not,
        );
        let metadata = EntryMetadata { links: 3, inode: Some(INODE), ..EntryMetadata::new(EntryKind::File) };
        let name = name.as_bytes().to_vec();
        LinkedName {
            node,
            origin: 0,
            target: EntryPath::new(name.clone()).unwrap(),
            name,
            metadata,
            replaces: false,
            there: None,
            compared: None,
            written_as: DraftKind::File,
            equal: false,
        }
    }

    fn home(name: &str, inode: Option<Inode>) -> LinkHome {
        LinkHome { path: path(name), inode, is_told: true, is_new: false }
    }

    fn new_at(name: &str) -> LinkHome {
        LinkHome { is_told: false, is_new: true, ..home(name, None) }
    }

    fn names(followers: &[LinkedName]) -> Vec<&[u8]> {
        followers.iter().map(|follower| &follower.name[..]).collect()
    }

    #[test]
    fn names_wait_for_the_first_and_an_inode_is_forgotten_after_the_last() {
        let links = Links::default();
        assert!(matches!(links.enter(INODE, None, || follower("a"), 3), LinkAction::First));
        assert!(matches!(links.enter(INODE, None, || follower("b"), 3), LinkAction::Waits));
        assert_eq!(names(&links.done(INODE, &path("a"), false).0), [b"b"]);
        assert!(
            matches!(links.enter(INODE, None, || follower("c"), 3), LinkAction::There(home) if home == new_at("a"))
        );
        assert!(links.lock().is_empty());
    }

    #[test]
    fn all_names_may_come_before_the_content_is_there() {
        let links = Links::default();
        assert!(matches!(links.enter(INODE, None, || follower("a"), 2), LinkAction::First));
        assert!(matches!(links.enter(INODE, None, || follower("b"), 2), LinkAction::Waits));
        assert_eq!(names(&links.done(INODE, &path("a"), false).0), [b"b"]);
        assert!(links.lock().is_empty());
    }

    #[test]
    fn after_a_failure_the_next_name_brings_the_content() {
        let links = Links::default();
        assert!(matches!(links.enter(INODE, None, || follower("a"), 4), LinkAction::First));
        for name in ["b", "c"] {
            assert!(matches!(links.enter(INODE, None, || follower(name), 4), LinkAction::Waits));
        }
        assert_eq!(links.failed(INODE).unwrap().name, b"b");
        assert_eq!(names(&links.done(INODE, &path("b"), false).0), [b"c"]);
        assert!(
            matches!(links.enter(INODE, None, || follower("d"), 4), LinkAction::There(home) if home == new_at("b"))
        );
        let alone = Inode { number: 9, ..INODE };
        assert!(matches!(links.enter(alone, None, || follower("x"), 2), LinkAction::First));
        assert!(links.failed(alone).is_none());
        assert!(matches!(links.enter(alone, None, || follower("y"), 2), LinkAction::First));
    }

    #[test]
    fn what_was_found_equal_is_the_inode_that_it_was() {
        let (links, there) = (Links::default(), Inode { file_system: 7, number: 8 });
        for kept in [true, false] {
            assert!(matches!(links.enter(INODE, Some(there), || follower("a"), 2), LinkAction::First));
            assert!(matches!(links.enter(INODE, Some(there), || follower("b"), 2), LinkAction::Waits));
            assert_eq!(links.done(INODE, &path("a"), kept).1, kept.then_some(there));
        }
    }

    #[test]
    fn what_the_target_has_is_the_first_name_with_its_inode() {
        let links = Links::default();
        let there = Inode { file_system: 7, number: 8 };
        let first = links.enter_there(INODE, home("a", Some(there)), || follower("a"), 2);
        assert!(matches!(first, LinkAction::First));
        assert!(
            matches!(links.enter(INODE, None, || follower("b"), 2), LinkAction::There(found) if found == home("a", Some(there)))
        );
    }

    #[test]
    fn new_names_wait_for_the_attributes_of_the_first_and_those_of_its_inode_do_not() {
        let (links, there) = (Links::default(), Inode { file_system: 7, number: 8 });
        let changing = home("a", Some(there));
        let enter = |name, there| {
            let follower = || LinkedName { there, ..follower(name) };
            links.enter_changing(INODE, changing.clone(), follower, 4)
        };
        assert!(matches!(enter("a", Some(there)), LinkAction::First));
        assert!(matches!(enter("b", None), LinkAction::Waits));
        assert!(matches!(enter("c", Some(there)), LinkAction::There(home) if home == changing));
        let (followers, inode) = links.done(INODE, &path("a"), true);
        assert_eq!((names(&followers), inode), (vec![&b"b"[..]], Some(there)));
        assert!(matches!(enter("d", None), LinkAction::There(home) if home == changing));
        assert!(links.lock().is_empty());
        // Without it, the next name brings the content.
        assert!(matches!(enter("a", Some(there)), LinkAction::First));
        assert!(matches!(enter("b", None), LinkAction::Waits));
        assert_eq!(links.failed(INODE).unwrap().name, b"b");
        assert!(matches!(enter("c", None), LinkAction::Waits));
        assert_eq!(names(&links.done(INODE, &path("b"), false).0), [b"c"]);
    }
}
