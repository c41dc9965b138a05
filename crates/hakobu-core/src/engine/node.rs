//! Directories that still have something to be done below them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::sides::Sides;
use crate::counters::LaneCounters;
use crate::endpoint::Change;
use crate::entry::{Attributes, Kind};
use crate::error::{Error, ErrorKind};
use crate::handle::Cursor;
use crate::listing::{DirectoryListing, Listing};
use crate::path::EntryPath;

/// A directory at the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Which of the source's roots.
    pub root: u16,
    /// The directory.
    pub path: EntryPath,
    /// The only entry of it that is meant, for what the user named by itself.
    pub only: Option<Only>,
}

/// One entry of a directory, and the name it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Only {
    /// Its name at the source.
    pub name: Vec<u8>,
    /// Its name at the target.
    pub target_name: Vec<u8>,
}

impl Origin {
    /// A whole directory.
    pub fn whole(root: u16, path: EntryPath) -> Self {
        Self { root, path, only: None }
    }

    /// What is meant, for people: the directory or its only entry.
    pub fn named(&self) -> EntryPath {
        let named = self.only.as_ref().and_then(|only| self.path.join(&only.name).ok());
        named.unwrap_or_else(|| self.path.clone())
    }
}

/// What is counted of a directory once it is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// The target lacked it.
    Created,
    /// It took the place of something else.
    Updated,
    /// Its attributes differed.
    AttributesOnly,
    /// It was equal; something may have been put into it.
    Unchanged,
    /// It differs, and is only compared.
    Different,
    /// The source lacks it; it is removed, or only counted.
    OnlyInTarget,
    /// Nothing: it only leads to what is copied.
    Not,
}

/// What has to be set on a directory in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// Nothing, unless something is put into it.
    Not,
    /// Its attributes.
    Yes,
    /// These, and its extended attributes.
    WithExtended,
}

impl Touched {
    /// Of a directory that differs or is new, and whether its extended attributes may differ.
    pub fn new(touched: bool, extended: bool) -> Self {
        match (touched, extended) {
            (false, _) => Self::Not,
            (true, false) => Self::Yes,
            (true, true) => Self::WithExtended,
        }
    }
}

/// What becomes of a directory that the source lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doomed {
    /// Whether it is removed, or only counted.
    pub removed: bool,
    /// How many names of its path lead to the directory that stays.
    pub kept_names: u16,
    /// What the source has in its place, which is no directory.
    pub in_the_way_of: Option<Kind>,
}

/// A directory on both sides, kept until everything below it is done.
#[derive(Debug)]
pub(super) struct Node {
    /// The directory at the source. There are several where sources land on one place: they become
    /// one directory, and of two entries of one name the first origin's counts. There are none of a directory that is
    /// not looked into, and of one that only the target has.
    pub origins: Vec<Origin>,
    /// The directory at the target.
    pub target: EntryPath,
    /// What it gets in the end; `None` for a place that is not itself copied.
    pub attributes: Option<Attributes>,
    /// What it counts as in the end.
    counted: Counted,
    /// Whether its extended attributes have to be set.
    pub extended: bool,
    /// Set of a directory that only the target has.
    doomed: Option<Doomed>,
    /// How many names of the target's path lead to the top that filter rules are relative to.
    top_names: u16,
    /// The directory that holds it, if that is copied as well.
    pub parent: Option<Arc<Node>>,
    /// How many things below it are not done, its own scan among them.
    pending: AtomicU64,
    /// Whether its attributes have to be set: it is new, differs, or something was put into it.
    touched: AtomicBool,
    /// Whether it is among the failures, of which each is told once.
    failed: AtomicBool,
    /// Whether something in it could not be removed.
    stuck: AtomicBool,
    /// Whether something in it is left out by a rule, and so it stays.
    spared: AtomicBool,
}

impl Node {
    /// A directory whose scan is pending.
    pub fn new(
        (origins, target): (Vec<Origin>, EntryPath),
        (attributes, counted): (Option<Attributes>, Counted),
        parent: Option<Arc<Node>>,
        touched: Touched,
    ) -> Arc<Self> {
        if let Some(parent) = &parent {
            parent.hold(1);
        }
        // What the user named is the top, whether it is the contents of a directory or an entry of one.
        let top_names = match &parent {
            Some(parent) if !parent.is_above_top() => parent.top_names,
            _ => target.names().count() as u16,
        };
        Arc::new(Self {
            top_names,
            origins,
            target,
            attributes,
            counted,
            extended: touched == Touched::WithExtended,
            doomed: None,
            parent,
            pending: AtomicU64::new(1),
            touched: AtomicBool::new(touched != Touched::Not),
            failed: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            spared: AtomicBool::new(false),
        })
    }

    /// Whether it only leads to what the user named.
    pub fn is_above_top(&self) -> bool {
        !self.origins.is_empty() && self.origins.iter().all(|origin| origin.only.is_some())
    }

    /// Whether it is a directory that the user named.
    pub fn is_top(&self) -> bool {
        !self.is_above_top() && self.parent.as_ref().is_none_or(|parent| parent.is_above_top())
    }

    /// Its path below the top that filter rules are relative to, with a slash behind it if it is not the top.
    pub fn below_top(&self) -> Vec<u8> {
        let mut below = Vec::new();
        for name in self.target.names().skip(usize::from(self.top_names)) {
            below.extend_from_slice(name);
            below.push(b'/');
        }
        below
    }

    /// A directory that only the target has, in `parent`.
    pub fn doomed(target: EntryPath, parent: &Arc<Node>, doomed: Doomed) -> Arc<Self> {
        parent.hold(1);
        Arc::new(Self {
            origins: Vec::new(),
            target,
            attributes: None,
            counted: Counted::OnlyInTarget,
            extended: false,
            doomed: Some(doomed),
            parent: Some(parent.clone()),
            pending: AtomicU64::new(1),
            touched: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            spared: AtomicBool::new(false),
            top_names: parent.top_names,
        })
    }

    /// Whether only the target has it.
    pub fn is_doomed(&self) -> bool {
        self.doomed.is_some()
    }

    /// How many names of a path below it lead to the directory that stays.
    pub fn kept_names(&self) -> u16 {
        self.doomed.map_or_else(|| self.target.names().count() as u16, |doomed| doomed.kept_names)
    }

    /// Something in it could not be removed, so it and what it lies in stay.
    pub fn stick(&self) {
        self.mark(|node| &node.stuck);
    }

    /// Something in it is left out by a rule, so it and what it lies in stay as well.
    pub fn spare(&self) {
        self.mark(|node| &node.spared);
    }

    /// Sets a flag of it and of all that it lies in, as far as only the target has these.
    fn mark(&self, flag: fn(&Node) -> &AtomicBool) {
        let mut node = Some(self);
        while let Some(doomed) = node.filter(|node| node.is_doomed()) {
            flag(doomed).store(true, Ordering::Relaxed);
            node = doomed.parent.as_deref();
        }
    }

    /// Whether something in it could not be removed.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// The directory at the source, of several the first.
    pub fn first(&self) -> Option<&Origin> {
        self.origins.iter().find(|origin| origin.only.is_none()).or(self.origins.first())
    }

    /// The path at the source that failures are told of.
    pub fn source(&self) -> &EntryPath {
        self.first().map_or(&self.target, |origin| &origin.path)
    }

    /// Something was put into it.
    pub fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    /// It could not be listed, or its attributes could not be set. Whether that is news.
    pub fn fail(&self) -> bool {
        !self.failed.swap(true, Ordering::Relaxed)
    }

    /// Counts it, unless it is among the failures. To be called once, when all is done.
    pub fn count(&self, counters: &LaneCounters) {
        let counter = match self.counted {
            Counted::OnlyInTarget if self.spared.load(Ordering::Relaxed) => &counters.entries_skipped,
            Counted::OnlyInTarget if self.is_removed() => &counters.entries_deleted,
            Counted::OnlyInTarget => &counters.entries_only_in_target,
            _ if self.failed.load(Ordering::Relaxed) => return,
            Counted::Created => &counters.entries_created,
            Counted::Updated => &counters.entries_updated,
            Counted::AttributesOnly => &counters.entries_attributes_only,
            Counted::Unchanged => &counters.entries_unchanged,
            Counted::Different => &counters.entries_different,
            Counted::Not => return,
        };
        counter.add(1);
    }

    /// `count` more things are pending.
    pub fn hold(&self, count: u64) {
        self.pending.fetch_add(count, Ordering::Relaxed);
    }

    /// One thing is done. Whether it was the last.
    pub fn release(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether it is removed, as far as is known.
    fn is_removed(&self) -> bool {
        let stays =
            self.failed.load(Ordering::Relaxed) || self.is_stuck() || self.spared.load(Ordering::Relaxed);
        self.doomed.is_some_and(|doomed| doomed.removed) && !stays
    }

    /// Why it cannot make way for what the source has in its place: a rule leaves something alone that is in it.
    pub fn held_by_rule(&self) -> Option<Error> {
        let doomed = self.doomed.filter(|doomed| !doomed.removed && self.spared.load(Ordering::Relaxed))?;
        let words = format!(
            "the target has a directory where the source has {}, and a filter rule leaves something in it alone; remove or \
             rename one of them, or change the rule",
            doomed.in_the_way_of?.words()
        );
        Some(Error::new(ErrorKind::Conflict, "copying", words))
    }

    /// Whether something is to be done to it, or said of it, now that all in it is done.
    pub fn has_end(&self) -> bool {
        match self.doomed {
            Some(_) => self.is_removed() || self.held_by_rule().is_some(),
            None => self.attributes.is_some() && self.touched.load(Ordering::Relaxed),
        }
    }

    /// What is to be done to it now that all in it is done.
    pub fn change(&self) -> Option<Change> {
        if !self.has_end() {
            return None;
        }
        let path = self.target.clone();
        match self.doomed {
            Some(_) if !self.is_removed() => None,
            Some(Doomed { kept_names, .. }) => Some(Change::Remove { path, directory: true, kept_names }),
            None => Some(Change::Directory { path, attributes: self.attributes?, extended: None }),
        }
    }
}

/// What is known of a directory at the target.
#[derive(Debug)]
pub(super) enum TargetState {
    /// It is not there.
    Absent,
    /// Nothing of it was there. The source has much in it, of which a portion or more has been read; this is how to go on.
    Rest(Cursor),
    /// It is there and has to be listed.
    Unknown,
    /// It is there, both sides list in order, and so much of it is known and not compared.
    Sides(Box<Sides>),
    /// It is there, and this is in it. What came along may be about directories further down.
    Listed(Listing, Prefetched),
}

impl TargetState {
    /// Returns whether a part of it has been compared.
    pub fn is_begun(&self) -> bool {
        matches!(self, Self::Rest(_) | Self::Sides(_))
    }
}

/// Listings that one end sent along with those it was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefetched(Arc<Mutex<HashMap<EntryPath, Listing>>>);

impl Prefetched {
    /// Those that succeeded; the others will be asked for, and give their error then.
    pub fn new(listings: impl Iterator<Item = DirectoryListing>) -> Self {
        let good = listings.filter_map(|listing| Some((listing.path, listing.result.ok()?)));
        Self(Arc::new(Mutex::new(good.collect())))
    }

    /// What is known of a directory, once.
    pub fn known(&self, path: &EntryPath) -> Option<Known> {
        self.take(path).map(|listing| Known { listing, below: self.clone() })
    }

    /// The listing of a directory, once.
    pub fn take(&self, path: &EntryPath) -> Option<Listing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(path)
    }
}

/// What one origin of a directory holds.
#[derive(Debug)]
pub(super) struct Part {
    /// Which of the node's origins.
    pub origin: usize,
    /// Its entries.
    pub listing: Arc<Listing>,
    /// How to go on, where these are the first of many.
    pub rest: Option<Cursor>,
    /// What is known of directories below it.
    pub below: Prefetched,
}

impl Part {
    /// All entries of an origin.
    pub fn whole(origin: usize, listing: Listing) -> Self {
        Self { origin, listing: Arc::new(listing), rest: None, below: Prefetched::default() }
    }
}

/// A directory to scan and compare.
#[derive(Debug)]
pub(super) struct DirectoryTask {
    /// The directory.
    pub node: Arc<Node>,
    /// What is known of it at the target.
    pub target: TargetState,
    /// What is known of its only origin.
    pub known: Option<Known>,
}

impl DirectoryTask {
    /// Returns one of which nothing is known at the source.
    pub fn new(node: Arc<Node>, target: TargetState) -> Self {
        Self { node, target, known: None }
    }
}

/// All entries of a directory of the source, as its store gave them along with those of a directory above it.
#[derive(Debug)]
pub(super) struct Known {
    pub listing: Listing,
    /// What is known of directories below it.
    pub below: Prefetched,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Time;

    fn path(text: &str) -> EntryPath {
        EntryPath::new(text).unwrap()
    }

    fn only(text: &str) -> Origin {
        let only = Only { name: b"name".to_vec(), target_name: b"other".to_vec() };
        Origin { root: 0, path: path(text), only: Some(only) }
    }

    fn node(origins: Vec<Origin>, target: &str, counted: Counted, parent: Option<&Arc<Node>>) -> Arc<Node> {
        let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: Time::default() };
        let (place, end) = ((origins, path(target)), (Some(attributes), counted));
        Node::new(place, end, parent.cloned(), Touched::Not)
    }

    fn whole(target: &str, counted: Counted, parent: Option<&Arc<Node>>) -> Arc<Node> {
        node(vec![Origin::whole(0, path(target))], target, counted, parent)
    }

    fn counters(node: &Node) -> Vec<(&'static str, u64)> {
        let counters = LaneCounters::default();
        node.count(&counters);
        let all = [
            ("created", &counters.entries_created),
            ("updated", &counters.entries_updated),
            ("attributes", &counters.entries_attributes_only),
            ("unchanged", &counters.entries_unchanged),
            ("different", &counters.entries_different),
            ("only in target", &counters.entries_only_in_target),
            ("deleted", &counters.entries_deleted),
            ("skipped", &counters.entries_skipped),
        ];
        all.into_iter().map(|(name, counter)| (name, counter.get())).filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn each_directory_counts_once_as_what_it_is_unless_it_failed() {
        for (counted, name) in [
            (Counted::Created, "created"),
            (Counted::Updated, "updated"),
            (Counted::AttributesOnly, "attributes"),
            (Counted::Unchanged, "unchanged"),
            (Counted::Different, "different"),
        ] {
            let node = whole("d", counted, None);
            assert_eq!(counters(&node), [(name, 1)]);
            assert_eq!((node.fail(), node.fail()), (true, false), "a failure is news once");
            assert_eq!(counters(&node), []);
        }
        assert_eq!(counters(&whole("d", Counted::Not, None)), []);
    }

    #[test]
    fn what_only_the_target_has_goes_unless_something_in_it_stays() {
        let stays = whole("d", Counted::Unchanged, None);
        let doomed = |name: &str, parent: &Arc<Node>, removed| {
            Node::doomed(path(name), parent, Doomed { removed, kept_names: 1, in_the_way_of: None })
        };
        let remove = |target: &str| Change::Remove { path: path(target), directory: true, kept_names: 1 };
        let gone = doomed("d/gone", &stays, true);
        assert_eq!((gone.change(), counters(&gone)), (Some(remove("d/gone")), vec![("deleted", 1)]));
        let counted = doomed("d/counted", &stays, false);
        assert_eq!((counted.change(), counters(&counted)), (None, vec![("only in target", 1)]));
        for (mark, name) in [(Node::stick as fn(&Node), "only in target"), (Node::spare, "skipped")] {
            let above = doomed("d/above", &stays, true);
            let (inner, beside) =
                (doomed("d/above/inner", &above, true), doomed("d/above/beside", &above, true));
            mark(&inner);
            for held in [&inner, &above] {
                assert_eq!((held.change(), counters(held)), (None, vec![(name, 1)]));
            }
            assert_eq!(beside.change(), Some(remove("d/above/beside")));
        }
        let failed = doomed("d/failed", &stays, true);
        failed.fail();
        assert_eq!((failed.change(), counters(&failed)), (None, vec![("only in target", 1)]));
        // What the source has as well is never marked.
        assert!(!stays.is_stuck() && counters(&stays) == [("unchanged", 1)]);
        assert!(gone.is_doomed() && !stays.is_doomed());
    }

    #[test]
    fn what_has_to_make_way_and_is_held_by_a_rule_is_told() {
        let stays = whole("d", Counted::Unchanged, None);
        let in_the_way = |removed, in_the_way_of| {
            let doomed = Node::doomed(path("d/x"), &stays, Doomed { removed, kept_names: 1, in_the_way_of });
            assert!(doomed.held_by_rule().is_none());
            doomed.spare();
            doomed
        };
        let held = in_the_way(false, Some(Kind::File));
        assert_eq!(held.held_by_rule().map(|error| error.kind), Some(ErrorKind::Conflict));
        assert!(held.has_end() && held.change().is_none());
        for other in [in_the_way(true, Some(Kind::File)), in_the_way(false, None)] {
            assert!(other.held_by_rule().is_none() && !other.has_end());
        }
    }

    #[test]
    fn attributes_are_set_where_something_was_put_into_a_directory() {
        let node = whole("d", Counted::Unchanged, None);
        assert!(!node.has_end() && node.change().is_none());
        node.touch();
        assert!(matches!(node.change(), Some(Change::Directory { path, .. }) if path.as_bytes() == b"d"));
        // A place that is not itself copied gets none.
        let place = (vec![Origin::whole(0, path("d"))], path("d"));
        let above = Node::new(place, (None, Counted::Not), None, Touched::Yes);
        assert!(!above.has_end() && above.change().is_none());
        for (touched, extended, expected) in
            [(false, true, Touched::Not), (true, false, Touched::Yes), (true, true, Touched::WithExtended)]
        {
            assert_eq!(Touched::new(touched, extended), expected);
            let place = (Vec::new(), path("d"));
            assert_eq!(Node::new(place, (None, Counted::Not), None, expected).extended, touched && extended);
        }
    }

    #[test]
    fn a_directory_is_done_when_all_in_it_is() {
        let above = whole("d", Counted::Unchanged, None);
        let inner = whole("d/e", Counted::Unchanged, Some(&above));
        above.hold(2);
        assert!(inner.release());
        assert_eq!([0; 4].map(|_| above.release()), [false, false, false, true]);
    }

    #[test]
    fn rules_are_relative_to_what_the_user_named() {
        // The contents of a directory.
        let top = whole("a/b", Counted::Unchanged, None);
        let inner = whole("a/b/c", Counted::Unchanged, Some(&top));
        let innermost = whole("a/b/c/d", Counted::Unchanged, Some(&inner));
        assert_eq!([&top, &inner, &innermost].map(|node| node.below_top()), [&b""[..], b"c/", b"c/d/"]);
        assert_eq!(
            [&top, &inner].map(|node| (node.is_top(), node.is_above_top())),
            [(true, false), (false, false)]
        );
        // An entry of a directory, which is the top as well.
        let above = node(vec![only("a"), only("a")], "a", Counted::Not, None);
        let top = whole("a/b", Counted::Unchanged, Some(&above));
        let inner = whole("a/b/c", Counted::Unchanged, Some(&top));
        assert_eq!([&top, &inner].map(|node| node.below_top()), [&b""[..], b"c/"]);
        assert_eq!([&above, &top, &inner].map(|node| node.is_top()), [false, true, false]);
        assert!(above.is_above_top());
        assert_eq!((top.kept_names(), inner.kept_names()), (2, 3));
        // One that is not looked into leads nowhere, and one of whole and named ones is itself the top.
        assert!(!node(Vec::new(), "a", Counted::Not, None).is_above_top());
        assert!(!node(vec![only("a"), Origin::whole(1, path("b"))], "a", Counted::Not, None).is_above_top());
    }

    #[test]
    fn failures_are_told_of_the_first_whole_directory() {
        let both = node(vec![only("a"), Origin::whole(1, path("b"))], "t", Counted::Not, None);
        assert_eq!((both.source(), both.first().map(|origin| origin.root)), (&path("b"), Some(1)));
        let named = node(vec![only("a")], "t", Counted::Not, None);
        assert_eq!((named.source(), named.origins[0].named()), (&path("a"), path("a/name")));
        let without = node(Vec::new(), "t", Counted::Not, None);
        assert_eq!((without.source(), without.first()), (&path("t"), None));
        assert_eq!(Origin::whole(0, path("b")).named(), path("b"));
    }
}
