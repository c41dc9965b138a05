//! Directories that still have something to be done below them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::counters::LaneCounters;
use crate::entry::Attributes;
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
    /// Nothing: it only leads to what is copied.
    Not,
}

/// A directory on both sides, kept until everything below it is done.
#[derive(Debug)]
pub(super) struct Node {
    /// The directory at the source. There are several where sources land on one place: they become
    /// one directory, and of two entries of one name the first origin's counts.
    pub origins: Vec<Origin>,
    /// The directory at the target.
    pub target: EntryPath,
    /// What it gets in the end; `None` for a place that is not itself copied.
    pub attributes: Option<Attributes>,
    /// What it counts as in the end.
    counted: Counted,
    /// The directory that holds it, if that is copied as well.
    pub parent: Option<Arc<Node>>,
    /// How many things below it are not done, its own scan among them.
    pending: AtomicU64,
    /// Whether its attributes have to be set: it is new, differs, or something was put into it.
    touched: AtomicBool,
    /// Whether it is among the failures, of which each is told once.
    failed: AtomicBool,
}

impl Node {
    /// A directory whose scan is pending.
    pub fn new(
        (origins, target): (Vec<Origin>, EntryPath),
        (attributes, counted): (Option<Attributes>, Counted),
        parent: Option<Arc<Node>>,
        touched: bool,
    ) -> Arc<Self> {
        if let Some(parent) = &parent {
            parent.hold(1);
        }
        Arc::new(Self {
            origins,
            target,
            attributes,
            counted,
            parent,
            pending: AtomicU64::new(1),
            touched: AtomicBool::new(touched),
            failed: AtomicBool::new(false),
        })
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
            _ if self.failed.load(Ordering::Relaxed) => return,
            Counted::Created => &counters.entries_created,
            Counted::Updated => &counters.entries_updated,
            Counted::AttributesOnly => &counters.entries_attributes_only,
            Counted::Unchanged => &counters.entries_unchanged,
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

    /// What to set now that all is done.
    pub fn attributes_to_set(&self) -> Option<Attributes> {
        self.attributes.filter(|_| self.touched.load(Ordering::Relaxed))
    }
}

/// What is known of a directory at the target.
#[derive(Debug)]
pub(super) enum TargetState {
    /// It is not there.
    Absent,
    /// It is there and has to be listed.
    Unknown,
    /// It is there, and this is in it. What came along may be about directories further down.
    Listed(Listing, Prefetched),
}

/// Listings that the target sent along with those it was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefetched(Arc<Mutex<HashMap<EntryPath, Listing>>>);

impl Prefetched {
    /// Those that succeeded; the others will be asked for, and give their error then.
    pub fn new(listings: impl Iterator<Item = DirectoryListing>) -> Self {
        let good = listings.filter_map(|listing| Some((listing.path, listing.result.ok()?)));
        Self(Arc::new(Mutex::new(good.collect())))
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
}

/// A directory to scan and compare.
#[derive(Debug)]
pub(super) struct DirectoryTask {
    /// The directory.
    pub node: Arc<Node>,
    /// What is known of it at the target.
    pub target: TargetState,
}
