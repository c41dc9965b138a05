//! Directories that still have something to be done below them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::entry::Attributes;
use crate::listing::Listing;
use crate::path::EntryPath;

/// A directory on both sides, kept until everything below it is done.
#[derive(Debug)]
pub(super) struct Node {
    /// Which of the source's roots.
    pub root: u16,
    /// The directory at the source.
    pub source: EntryPath,
    /// The directory at the target.
    pub target: EntryPath,
    /// What it gets in the end; `None` for a place that is not itself copied.
    pub attributes: Option<Attributes>,
    /// The directory that holds it, if that is copied as well.
    pub parent: Option<Arc<Node>>,
    /// How many things below it are not done, its own scan among them.
    pending: AtomicU64,
    /// Whether its attributes have to be set: it is new, differs, or something was put into it.
    touched: AtomicBool,
}

impl Node {
    /// A directory whose scan is pending.
    pub fn new(
        (root, source, target): (u16, EntryPath, EntryPath),
        attributes: Option<Attributes>,
        parent: Option<Arc<Node>>,
        touched: bool,
    ) -> Arc<Self> {
        if let Some(parent) = &parent {
            parent.hold(1);
        }
        Arc::new(Self {
            root,
            source,
            target,
            attributes,
            parent,
            pending: AtomicU64::new(1),
            touched: AtomicBool::new(touched),
        })
    }

    /// Something was put into it.
    pub fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
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
    /// It is there, and this is in it.
    Listed(Listing),
}

/// A directory to scan and compare.
#[derive(Debug)]
pub(super) struct DirectoryTask {
    /// The directory.
    pub node: Arc<Node>,
    /// What is known of it at the target.
    pub target: TargetState,
}
