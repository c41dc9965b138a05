//! The bench: a place for one case, and helpers for the operations of cases.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use hakobu_core::Result;
use hakobu_core::checksum::crc64;
use hakobu_core::content::content_sum;
use hakobu_core::digest::piece_value;
use hakobu_core::endpoint::{
    Change, Check, Completion, CompletionWait, Detail, DraftAttributes, DraftId, DraftParameters, Lane,
    Operation, SourceEndpoint, SourceLane, SourceOp, SourceOutcome, TargetEndpoint, TargetLane, TargetOp,
    TargetOutcome, Ticket,
};
use hakobu_core::entry::{Attributes, EntryMetadata, FileTime};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::grant::Grant;
use hakobu_core::listing::{DirectoryListing, Listing};
use hakobu_core::losses::Loss;
use hakobu_core::pack::{PackBuilder, RecordHead};
use hakobu_core::path::EntryPath;

use super::abilities::HarnessCapabilities;
use super::harness::{Harness, TestPlace};

/// The time limit of any wait in a case.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The time of the first version of an entry, in seconds since 1970.
const FIRST_VERSION_S: i64 = 1_000_000_000;
/// The interval between versions in seconds, which exceeds the resolution of every file system's times.
const NEXT_VERSION_S: i64 = 10;

/// A new place of a harness, for one case.
pub struct Workplace<'a> {
    harness: &'a dyn Harness,
    place: Box<dyn TestPlace>,
    /// The capabilities of the harness's endpoints.
    pub abilities: &'a HarnessCapabilities,
    version_s: Cell<i64>,
}

impl<'a> Workplace<'a> {
    /// Creates a bench with an empty place.
    pub fn new(harness: &'a dyn Harness, abilities: &'a HarnessCapabilities) -> Self {
        Self { harness, place: harness.place(), abilities, version_s: Cell::new(FIRST_VERSION_S) }
    }

    /// Opens a target with all rights.
    pub fn target(&self) -> Box<dyn TargetEndpoint> {
        self.target_with(Grant::everything())
    }

    /// Opens a target with this grant.
    pub fn target_with(&self, grant: Grant) -> Box<dyn TargetEndpoint> {
        self.place.target(grant)
    }

    /// Opens a source.
    pub fn source(&self) -> Box<dyn SourceEndpoint> {
        self.place.source()
    }

    /// Returns the directory of the place on this machine. Only for cases that require a directory.
    pub fn root(&self) -> &Path {
        self.place.directory().expect("the case requires a directory")
    }

    /// Returns a place over another directory on this machine. Only for cases that require a directory.
    pub fn over(&self, directory: &Path) -> Box<dyn TestPlace> {
        self.harness.over(directory).expect("a harness over directories makes places over any of them")
    }

    /// Returns attributes that are unique in this bench, with a time later than all previous ones.
    pub fn next_version(&self, mode: u32) -> Attributes {
        let seconds = self.version_s.get();
        self.version_s.set(seconds + NEXT_VERSION_S);
        Attributes { mtime: FileTime { seconds, nanoseconds: 123_456_789 }, ..attributes(mode) }
    }
}

/// An endpoint of any kind whose lanes can be opened.
pub trait OpensLanes {
    /// The type of its lanes.
    type Lane: ?Sized;

    /// Opens a lane.
    fn open(&self) -> Box<Self::Lane>;
}

impl OpensLanes for dyn SourceEndpoint + '_ {
    type Lane = dyn SourceLane;

    fn open(&self) -> Box<dyn SourceLane> {
        self.open_source_lane(0).unwrap()
    }
}

impl OpensLanes for dyn TargetEndpoint + '_ {
    type Lane = dyn TargetLane;

    fn open(&self) -> Box<dyn TargetLane> {
        self.open_target_lane(0).unwrap()
    }
}

/// Opens a lane of an endpoint.
pub fn lane<E: OpensLanes + ?Sized>(endpoint: &E) -> Box<E::Lane> {
    endpoint.open()
}

/// A lane of any kind that reports entries.
pub trait EntryLane {
    /// Lists directories.
    ///
    /// # Errors
    /// The errors of the lane.
    fn list(&mut self, directories: Vec<EntryPath>, budget: u32) -> Result<Vec<DirectoryListing>>;

    /// Returns the metadata of one entry.
    ///
    /// # Errors
    /// The errors of the lane.
    fn inspect(&mut self, path: EntryPath) -> Result<Option<EntryMetadata>>;
}

impl EntryLane for dyn SourceLane + '_ {
    fn list(&mut self, directories: Vec<EntryPath>, budget: u32) -> Result<Vec<DirectoryListing>> {
        match ask(self, SourceOp::List { root: 0, directories, budget, detail: Detail::default() })? {
            SourceOutcome::Listed(listed) => Ok(listed),
            other => panic!("not the answer to a list: {other:?}"),
        }
    }

    fn inspect(&mut self, path: EntryPath) -> Result<Option<EntryMetadata>> {
        match ask(self, SourceOp::Stat { root: 0, path, detail: Detail::default() })? {
            SourceOutcome::Stat(found) => Ok(found),
            other => panic!("not the answer to a look: {other:?}"),
        }
    }
}

impl EntryLane for dyn TargetLane + '_ {
    fn list(&mut self, directories: Vec<EntryPath>, budget: u32) -> Result<Vec<DirectoryListing>> {
        match ask(self, TargetOp::List { directories, budget, detail: Detail::default() })? {
            TargetOutcome::Listed(listed) => Ok(listed),
            other => panic!("not the answer to a list: {other:?}"),
        }
    }

    fn inspect(&mut self, path: EntryPath) -> Result<Option<EntryMetadata>> {
        match ask(self, TargetOp::Stat { path, detail: Detail::default() })? {
            TargetOutcome::Stat(found) => Ok(found),
            other => panic!("not the answer to a look: {other:?}"),
        }
    }
}

/// Submits one operation and waits for its completion.
///
/// # Errors
/// The errors of the operation.
///
/// # Panics
/// If the queue stays full or no completion arrives.
pub fn ask<O: Operation, L: Lane<O> + ?Sized>(lane: &mut L, operation: O) -> Result<O::Outcome> {
    const TICKET: u64 = 0x5eed;
    assert!(lane.submit(TICKET, operation).is_ok(), "an empty queue takes an operation");
    lane.flush();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match lane.reap(CompletionWait::For(PATIENCE)) {
            Some(completion) if completion.ticket == TICKET => return completion.result,
            // The lane has failed as a whole, and so has this operation.
            Some(Completion { ticket: Ticket::MAX, result: Err(error) }) => return Err(error),
            Some(other) => panic!("a completion that was not asked for: {other:?}"),
            None => {}
        }
    }
    panic!("no completion came");
}

/// Returns a path below a root.
pub fn path(text: impl AsRef<[u8]>) -> EntryPath {
    EntryPath::new(text.as_ref()).unwrap()
}

/// Returns attributes that differ from the defaults of a new entry.
pub fn attributes(mode: u32) -> Attributes {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Attributes { mode, uid, gid, mtime: FileTime { seconds: 1_000_000_000, nanoseconds: 123_456_789 } }
}

/// Returns bytes that differ by offset.
pub fn content(length: u64) -> Vec<u8> {
    (0..length).map(|index| (index.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

/// Builds a pack with files of one directory.
pub fn pack(directory: &str, files: &[(&[u8], &[u8])]) -> PackBuilder {
    let mut pack = PackBuilder::default();
    pack.directory(&path(directory));
    files.iter().for_each(|(name, content)| add_file(&mut pack, name, &attributes(0o644), false, content));
    pack
}

/// Adds a file to a pack.
pub fn add_file(
    pack: &mut PackBuilder,
    name: &[u8],
    attributes: &Attributes,
    replaces: bool,
    content: &[u8],
) {
    let head = RecordHead::new(name, *attributes).replacing(replaces);
    pack.whole_file(&head, content, content_sum(content));
}

/// The failures of a pack or of changes, by index, and the losses.
pub type PackResult = (Vec<(u32, ErrorKind)>, Vec<Loss>);

/// Stores a pack.
///
/// # Errors
/// The errors of the lane.
pub fn store(lane: &mut dyn TargetLane, pack: PackBuilder) -> Result<PackResult> {
    match ask(lane, TargetOp::WritePack { pack: pack.finish(), inodes: Vec::new() })? {
        TargetOutcome::PackWritten { failures, losses } => {
            Ok((failures.into_iter().map(|(index, error)| (index, error.kind)).collect(), losses))
        }
        other => panic!("not the answer to a pack: {other:?}"),
    }
}

/// Stores a pack, and checks that all of it was stored.
pub fn store_all(lane: &mut dyn TargetLane, pack: PackBuilder) {
    assert_eq!(store(lane, pack).unwrap(), (Vec::new(), Vec::new()));
}

/// Begins a draft of a file.
///
/// # Errors
/// The errors of the lane.
pub fn begin(lane: &mut dyn TargetLane, draft: DraftId, at: &str, size_bytes: u64) -> Result<()> {
    let begin = DraftParameters::file(path(at), size_bytes);
    let attributes = DraftAttributes { attributes: attributes(0o644), extended: None, inode: None };
    done(&ask(lane, TargetOp::Begin { draft, begin, attributes: Some(Box::new(attributes)) })?)
}

/// Writes one piece of a file of `size_bytes` and waits until it is acknowledged.
///
/// # Errors
/// The errors of the lane.
pub fn write(
    lane: &mut dyn TargetLane,
    draft: DraftId,
    size_bytes: u64,
    offset: u64,
    bytes: &[u8],
) -> Result<()> {
    let mut buffer = lane.piece_buffer();
    buffer.room()[..bytes.len()].copy_from_slice(bytes);
    buffer.set_filled(bytes.len());
    let value = offset.is_multiple_of(PIECE_BYTES).then(|| piece_value(size_bytes, offset, bytes));
    let check = Check { crc: crc64(bytes), value };
    done(&ask(lane, TargetOp::Write { draft, offset, buffer, check, acknowledge: true })?)
}

/// Finishes a draft.
///
/// # Errors
/// The errors of the lane.
pub fn finish(lane: &mut dyn TargetLane, draft: DraftId, attributes: Attributes) -> Result<()> {
    done(&ask(lane, TargetOp::Finish { draft, attributes, extended: None, digest: None })?)
}

/// Applies changes. Returns the failures and losses.
///
/// # Errors
/// The errors of the lane.
pub fn apply(lane: &mut dyn TargetLane, changes: Vec<Change>) -> Result<PackResult> {
    match ask(lane, TargetOp::Apply { changes })? {
        TargetOutcome::PackWritten { failures, losses } => {
            Ok((failures.into_iter().map(|(index, error)| (index, error.kind)).collect(), losses))
        }
        other => panic!("not the answer to changes: {other:?}"),
    }
}

/// Applies one change.
///
/// # Errors
/// The errors of the lane and of the change.
pub fn change(lane: &mut dyn TargetLane, change: Change) -> Result<()> {
    match ask(lane, TargetOp::Apply { changes: vec![change] })? {
        TargetOutcome::PackWritten { mut failures, .. } => {
            failures.pop().map_or(Ok(()), |(_, error)| Err(error))
        }
        other => panic!("not the answer to changes: {other:?}"),
    }
}

/// Removes one entry.
///
/// # Errors
/// The errors of [`change`].
pub fn remove(lane: &mut dyn TargetLane, at: &str, directory: bool, kept_names: u16) -> Result<()> {
    change(lane, Change::Remove { path: path(at), directory, kept_names })
}

/// Checks that the outcome is the plain confirmation.
pub fn done(outcome: &TargetOutcome) -> Result<()> {
    assert!(matches!(outcome, TargetOutcome::Done), "not the plain answer: {outcome:?}");
    Ok(())
}

/// Lists one directory.
///
/// # Errors
/// The errors of the lane or of the directory.
pub fn list<L: EntryLane + ?Sized>(lane: &mut L, at: &str) -> Result<Listing> {
    let mut listed = lane.list(vec![path(at)], 0)?;
    assert!(!listed.is_empty(), "a listing for each directory that was asked for");
    let first = listed.swap_remove(0);
    assert_eq!(first.path, path(at));
    first.result
}

/// Returns the metadata of one entry.
///
/// # Errors
/// The errors of the lane.
pub fn inspect<L: EntryLane + ?Sized>(lane: &mut L, at: &str) -> Result<Option<EntryMetadata>> {
    lane.inspect(path(at))
}

/// Returns the kind of the error; panics on success.
pub fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("this has to fail").kind
}
