//! Names of one inode: the first that is met brings the content, the others become further names of it.
//!
//! Names may be met by any lane in any order, so those that come while the content is still on its way wait here. What
//! is known of an inode is forgotten when all of its names have been met, and no more than [`GROUPS_MAX`] are known
//! at a time, so memory goes with the inodes of which names are still to come.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::inodes::Inodes;
use super::node::Node;
use crate::endpoint::DraftKind;
use crate::entry::{Inode, Metadata};
use crate::path::EntryPath;
use crate::plant::planted;

/// So many inodes are known at a time, at about 150 bytes each. The names of further ones become files of their own.
pub(super) const GROUPS_MAX: usize = 1_000_000;

/// A name of an inode whose content comes by another one.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    /// The directory.
    pub node: Arc<Node>,
    /// Which of its origins has it.
    pub origin: usize,
    /// The name at the source.
    pub name: Vec<u8>,
    /// What the source's listing says.
    pub metadata: Metadata,
    /// Its place at the target.
    pub target: EntryPath,
    /// Whether the target has an entry there already.
    pub replaces: bool,
    /// That entry's inode, if it is equal but for its content, which is not known yet.
    pub there: Option<Inode>,
    /// Set where the content decides what is done, and whether something else is known to differ.
    pub compared: Option<bool>,
    /// What is written to, where it becomes a file of its own.
    pub written_as: DraftKind,
    /// Whether the target has an equal file there, though not of the same inode.
    pub equal: bool,
}

/// What is to be done with a name.
#[derive(Debug)]
pub(super) enum Entered {
    /// It is the first: it brings the content, or has it.
    First,
    /// Its inode is on its way: it waits until that is there.
    Waits,
    /// The inode is there under this name, as this inode if that is known, and whether this run has put it there.
    There(EntryPath, Option<Inode>, bool),
    /// Too many are known already.
    TooMany,
}

#[derive(Debug)]
enum State {
    /// Its content is on its way, or compared with that of an inode of the target.
    Moving(Vec<Follower>, Option<Inode>),
    /// The same as [`Entered::There`].
    There(EntryPath, Option<Inode>, bool),
}

#[derive(Debug)]
struct Group {
    /// How many names have not been met.
    left: u32,
    state: State,
}

/// What is known of the inodes with several names.
#[derive(Debug, Default)]
pub(super) struct Links {
    groups: Mutex<HashMap<Inode, Group>>,
    /// What was said of each.
    pub inodes: Inodes,
}

impl Links {
    /// What an inode is known by.
    fn key(inode: Inode) -> Inode {
        if planted("links-mixed-up") { Inode { number: inode.number & !7, ..inode } } else { inode }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Inode, Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name of `inode` was met that is to be brought over, or compared with `there`. [`Links::done`] has to follow if
    /// it is the first.
    pub fn enter(
        &self,
        inode: Inode,
        there: Option<Inode>,
        follower: impl FnOnce() -> Follower,
        names: u32,
    ) -> Entered {
        self.meet(inode, names, || State::Moving(Vec::new(), there), follower)
    }

    /// A name of `inode` was met that the target has at `path`, as `there`, or with `is_new` will be said to have.
    pub fn enter_there(
        &self,
        inode: Inode,
        (path, there, is_new): (&EntryPath, Option<Inode>, bool),
        follower: impl FnOnce() -> Follower,
        names: u32,
    ) -> Entered {
        self.meet(inode, names, || State::There(path.clone(), there, is_new), follower)
    }

    fn meet(
        &self,
        inode: Inode,
        names: u32,
        first: impl FnOnce() -> State,
        follower: impl FnOnce() -> Follower,
    ) -> Entered {
        let inode = Self::key(inode);
        let mut groups = self.lock();
        let Some(group) = groups.get_mut(&inode) else {
            if groups.len() >= GROUPS_MAX {
                return Entered::TooMany;
            }
            groups.insert(inode, Group { left: names.saturating_sub(1), state: first() });
            return Entered::First;
        };
        group.left = group.left.saturating_sub(1);
        let is_last = group.left == 0;
        match &mut group.state {
            State::Moving(followers, _) => {
                followers.push(follower());
                Entered::Waits
            }
            State::There(path, there, is_new) => {
                let entered = Entered::There(path.clone(), *there, *is_new);
                if is_last {
                    groups.remove(&inode);
                    self.inodes.forget(inode);
                }
                entered
            }
        }
    }

    /// The first name of `inode` is at the target now, and those that waited become further names of it. With `kept` it
    /// was equal, and is the inode that it was, which comes with them.
    pub fn done(&self, inode: Inode, path: &EntryPath, kept: bool) -> (Vec<Follower>, Option<Inode>) {
        let inode = Self::key(inode);
        let mut groups = self.lock();
        let Some(group) = groups.get_mut(&inode) else { return (Vec::new(), None) };
        let State::Moving(followers, there) = &mut group.state else { return (Vec::new(), None) };
        let (followers, there) = (std::mem::take(followers), there.filter(|_| kept));
        if group.left == 0 {
            groups.remove(&inode);
            self.inodes.forget(inode);
        } else {
            group.state = State::There(path.clone(), there, !kept);
        }
        (followers, there)
    }

    /// The first name of `inode` could not be brought over. The next one that waits brings the content; without one,
    /// it is as if none had been met.
    pub fn failed(&self, inode: Inode) -> Option<Follower> {
        let inode = Self::key(inode);
        let mut groups = self.lock();
        let State::Moving(followers, there) = &mut groups.get_mut(&inode)?.state else { return None };
        if followers.is_empty() {
            groups.remove(&inode);
            self.inodes.forget(inode);
            return None;
        }
        let next = followers.remove(0);
        *there = next.there;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::{Counted, Touched};
    use super::*;
    use crate::entry::Kind;

    const INODE: Inode = Inode { file_system: 1, number: 2 };

    fn path(text: &str) -> EntryPath {
        EntryPath::new(text).unwrap()
    }

    fn follower(name: &str) -> Follower {
        let node = Node::new((Vec::new(), EntryPath::root()), (None, Counted::Not), None, Touched::Not);
        let metadata = Metadata { links: 3, inode: Some(INODE), ..Metadata::new(Kind::File) };
        let name = name.as_bytes().to_vec();
        Follower {
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

    fn names(followers: &[Follower]) -> Vec<&[u8]> {
        followers.iter().map(|follower| &follower.name[..]).collect()
    }

    #[test]
    fn names_wait_for_the_first_and_an_inode_is_forgotten_after_the_last() {
        let links = Links::default();
        assert!(matches!(links.enter(INODE, None, || follower("a"), 3), Entered::First));
        assert!(matches!(links.enter(INODE, None, || follower("b"), 3), Entered::Waits));
        assert_eq!(names(&links.done(INODE, &path("a"), false).0), [b"b"]);
        assert!(
            matches!(links.enter(INODE, None, || follower("c"), 3), Entered::There(at, None, true) if at == path("a"))
        );
        assert!(links.lock().is_empty());
    }

    #[test]
    fn all_names_may_come_before_the_content_is_there() {
        let links = Links::default();
        assert!(matches!(links.enter(INODE, None, || follower("a"), 2), Entered::First));
        assert!(matches!(links.enter(INODE, None, || follower("b"), 2), Entered::Waits));
        assert_eq!(names(&links.done(INODE, &path("a"), false).0), [b"b"]);
        assert!(links.lock().is_empty());
    }

    #[test]
    fn after_a_failure_the_next_name_brings_the_content() {
        let links = Links::default();
        assert!(matches!(links.enter(INODE, None, || follower("a"), 4), Entered::First));
        for name in ["b", "c"] {
            assert!(matches!(links.enter(INODE, None, || follower(name), 4), Entered::Waits));
        }
        assert_eq!(links.failed(INODE).unwrap().name, b"b");
        assert_eq!(names(&links.done(INODE, &path("b"), false).0), [b"c"]);
        assert!(
            matches!(links.enter(INODE, None, || follower("d"), 4), Entered::There(at, None, true) if at == path("b"))
        );
        let alone = Inode { number: 9, ..INODE };
        assert!(matches!(links.enter(alone, None, || follower("x"), 2), Entered::First));
        assert!(links.failed(alone).is_none());
        assert!(matches!(links.enter(alone, None, || follower("y"), 2), Entered::First));
    }

    #[test]
    fn what_was_found_equal_is_the_inode_that_it_was() {
        let (links, there) = (Links::default(), Inode { file_system: 7, number: 8 });
        for kept in [true, false] {
            assert!(matches!(links.enter(INODE, Some(there), || follower("a"), 2), Entered::First));
            assert!(matches!(links.enter(INODE, Some(there), || follower("b"), 2), Entered::Waits));
            assert_eq!(links.done(INODE, &path("a"), kept).1, kept.then_some(there));
        }
    }

    #[test]
    fn what_the_target_has_is_the_first_name_with_its_inode() {
        let links = Links::default();
        let there = Inode { file_system: 7, number: 8 };
        let first = links.enter_there(INODE, (&path("a"), Some(there), false), || follower("a"), 2);
        assert!(matches!(first, Entered::First));
        assert!(
            matches!(links.enter(INODE, None, || follower("b"), 2), Entered::There(_, Some(found), false) if found == there)
        );
    }
}
