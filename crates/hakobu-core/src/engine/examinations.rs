//! Entries whose attributes at the target a lane awaits, because no listing showed them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::node::{DirectoryNode, OriginListing, Prefetched};
use crate::entry::EntryMetadata;
use crate::error::Result;
use crate::path::EntryPath;

/// The examinations of a lane that wait for the target.
#[derive(Debug, Default)]
pub(super) struct Examinations {
    pub by_number: HashMap<u64, Examination>,
    /// Those of which not all entries have been asked for.
    pub open: VecDeque<u64>,
    pub last: u64,
}

/// Entries of a directory whose attributes at the target are awaited.
#[derive(Debug)]
pub(super) struct Examination {
    pub node: Arc<DirectoryNode>,
    /// The entries, exact at the source.
    pub parts: Vec<OriginListing>,
    pub prefetched: Prefetched,
    /// The entries at the target.
    pub target: Vec<ExaminedEntry>,
    pub asked: usize,
    pub answered: usize,
}

/// An entry that is asked for at the target.
#[derive(Debug)]
pub(super) struct ExaminedEntry {
    pub name: Vec<u8>,
    pub path: EntryPath,
    /// The part and the name of the source's entry.
    pub source: (usize, Vec<u8>),
    pub found: Result<Option<EntryMetadata>>,
}
