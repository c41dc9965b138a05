//! A file too big for a pack: its chunks are shared by the lanes through one counter.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::node::Node;
use crate::digest::{Digest, Forest};
use crate::endpoint::{DraftId, SourceFile};
use crate::extent::{Extent, PIECE_BYTES, chunk, chunk_count};
use crate::path::EntryPath;

/// Files of at most so many chunks are moved by one lane without waiting for any answer.
pub(super) const SINGLE_LANE_CHUNKS: u64 = 2;
/// A value of the counter from which on no chunk is left, far from overflow.
const NO_CHUNK: u64 = u64::MAX / 2;

/// A big file on its way.
#[derive(Debug)]
pub(super) struct LargeFile {
    /// The directory that holds it.
    pub node: Arc<Node>,
    /// The file at the source.
    pub source: Arc<SourceFile>,
    /// Where it goes.
    pub target: EntryPath,
    /// The draft's number.
    pub draft: DraftId,
    /// Whether the target is a character device, which takes content only.
    pub device: bool,
    /// Whether the target has an entry of this name.
    pub replaces: bool,
    next: AtomicU64,
    done: AtomicU64,
    failed: AtomicBool,
    forest: Mutex<Option<Forest>>,
}

/// What counting some chunks as done led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is more to do.
    More,
    /// That was the last one: finish the file.
    Finish,
    /// That was the last one of a file that failed: abandon it.
    Abandon,
}

impl LargeFile {
    pub fn new(
        node: Arc<Node>,
        source: SourceFile,
        target: EntryPath,
        draft: DraftId,
        (device, replaces, digest): (bool, bool, bool),
    ) -> Self {
        let forest = digest.then(|| Forest::new(source.metadata.size_bytes));
        Self {
            node,
            source: Arc::new(source),
            target,
            draft,
            device,
            replaces,
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            forest: Mutex::new(forest),
        }
    }

    pub fn size_bytes(&self) -> u64 {
        self.source.metadata.size_bytes
    }

    pub fn chunks(&self) -> u64 {
        chunk_count(self.size_bytes())
    }

    pub fn has_chunks_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.chunks()
    }

    /// The next chunk, or `None` when all have been taken.
    pub fn take_chunk(&self) -> Option<Extent> {
        if !self.has_chunks_left() {
            return None;
        }
        chunk(self.size_bytes(), self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// `count` chunks have been acknowledged or given up.
    pub fn count_done(&self, count: u64) -> Progress {
        if self.done.fetch_add(count, Ordering::AcqRel) + count < self.chunks() {
            return Progress::More;
        }
        if self.has_failed() { Progress::Abandon } else { Progress::Finish }
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The file cannot be copied: no further chunk is handed out. Whether this was the first
    /// failure, and how many chunks were not handed out; these still have to be counted as done.
    pub fn fail(&self) -> (bool, u64) {
        let first = !self.failed.swap(true, Ordering::AcqRel);
        let taken = self.next.swap(NO_CHUNK, Ordering::AcqRel).min(self.chunks());
        (first, self.chunks() - taken)
    }

    /// Adds the values of consecutive pieces from `offset` on.
    pub fn add_values(&self, offset: u64, values: &[Digest]) {
        if let Some(forest) = self.forest.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            for (index, value) in (offset / PIECE_BYTES..).zip(values) {
                forest.add(index, *value);
            }
        }
    }

    /// The digest of the whole, once every piece has been added.
    pub fn digest(&self) -> Option<Digest> {
        self.forest.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Forest::digest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Counted;
    use super::*;
    use crate::entry::{Kind, Metadata, Time};
    use crate::extent::CHUNK_BYTES;

    fn file(chunks: u64) -> LargeFile {
        let path = EntryPath::new("f").unwrap();
        let mtime = Time::default();
        let metadata = Metadata {
            kind: Kind::File,
            mode: 0,
            uid: 0,
            gid: 0,
            size_bytes: chunks * CHUNK_BYTES,
            mtime,
            ctime: mtime,
            links: 1,
            sparse: false,
        };
        let node = Node::new((Vec::new(), EntryPath::root()), (None, Counted::Not), None, false);
        let source = SourceFile { root: 0, path: path.clone(), metadata };
        LargeFile::new(node, source, path, 1, (false, false, false))
    }

    #[test]
    fn chunks_are_taken_once_and_the_last_answer_finishes() {
        let file = file(3);
        let taken: Vec<_> = std::iter::from_fn(|| file.take_chunk()).map(|extent| extent.offset).collect();
        assert_eq!(taken, [0, CHUNK_BYTES, 2 * CHUNK_BYTES]);
        assert_eq!(file.count_done(2), Progress::More);
        assert_eq!(file.count_done(1), Progress::Finish);
    }

    #[test]
    fn a_failure_gives_up_what_was_not_taken_and_waits_for_what_was() {
        let file = file(9);
        file.take_chunk();
        file.take_chunk();
        let (first, given_up) = file.fail();
        assert!(first && given_up == 7);
        assert_eq!(file.count_done(given_up), Progress::More);
        assert_eq!(file.fail(), (false, 0));
        assert_eq!(file.count_done(2), Progress::Abandon);
        assert!(file.take_chunk().is_none());
    }
}
