//! A file too large for a pack. Lanes share its chunks through one counter.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::move_search::MoveSearch;
use super::node::DirectoryNode;
use super::whole_file::WholeFileChoice;
use crate::digest::{Digest, Forest};
use crate::endpoint::{DraftId, DraftKind, EarlierWork, SourceFile};
use crate::entry::EntryKind;
use crate::error::{Error, ErrorKind, Result};
use crate::extent::{
    BLOCKS_PER_PIECE, CHUNK_BYTES, Extent, PIECE_BYTES, PIECES_PER_CHUNK, UNKNOWN_BYTES, chunk, chunk_count,
};
use crate::open_file::OpenLargeFile;
use crate::path::EntryPath;

/// The maximum number of chunks of a file that one lane transfers without waiting for any answer.
pub(super) const SINGLE_LANE_CHUNKS: u64 = 2;
/// The number of compared blocks of a file after which it is judged whether comparing blocks pays.
const BLOCKS_TRIED: u64 = 16 * BLOCKS_PER_PIECE;
/// The number of compared pieces of a file, 64 MiB, after which it is judged whether comparing pays.
const PIECES_TRIED: u64 = 16 * PIECES_PER_CHUNK;
/// The counter value from which on no chunk is left. It is far from overflow.
const NO_CHUNK: u64 = u64::MAX / 2;

/// A large file that is being copied or compared.
#[derive(Debug)]
pub(super) struct LargeFile {
    /// The directory that holds it.
    pub node: Arc<DirectoryNode>,
    /// The file at the source.
    pub source: Arc<SourceFile>,
    /// The path at the target.
    pub target: EntryPath,
    /// The ID of the draft.
    pub draft: DraftId,
    /// The kind of draft to write.
    pub kind: DraftKind,
    /// True if the target has an entry of this name.
    pub replaces: bool,
    /// True if the user named the file, false if it was found in a tree.
    pub named: bool,
    /// True if the target keeps a journal or compares; an operation then completes each chunk.
    completes: AtomicBool,
    /// The ranges that an earlier run completed.
    resumed: OnceLock<Vec<Extent>>,
    /// The size in bytes; [`UNKNOWN_BYTES`] for a stream until it ends.
    size_bytes: AtomicU64,
    next: AtomicU64,
    /// The number of consecutive chunks that a lane takes at a time ([`LargeFile::take_run`]).
    run_chunks: AtomicU64,
    done: AtomicU64,
    /// The number of lanes that take its chunks.
    lanes: AtomicUsize,
    /// True once a caller has been told to finish or abandon the file.
    ended: AtomicBool,
    failed: AtomicBool,
    of_no_use: AtomicBool,
    begun_anew: AtomicBool,
    changed: AtomicBool,
    /// The number of earlier attempts, during which the file changed.
    pub attempts: u8,
    /// True if a file at the target, which the user named, gets other attributes.
    pub sets_attributes: bool,
    /// For pieces that differ: the number of blocks compared, and of blocks that differ.
    blocks: [AtomicU64; 2],
    /// The number of pieces compared, and of equal pieces.
    pieces: [AtomicU64; 2],
    /// The decision whether to send the whole file.
    pub whole: WholeFileChoice,
    /// The search for content of the old file at other offsets.
    pub moves: MoveSearch,
    /// The total size of the chunks that lie in holes, as far as they were found.
    hole_bytes: AtomicU64,
    forest: Mutex<Option<Forest>>,
    /// The part of this run, if several copy the file.
    pub sharing: FileSharing,
    /// The number of chunks up to which this run copies it, unless that is to its end.
    until: Option<u64>,
    /// The ranges that are left to other runs.
    given: OnceLock<Vec<Extent>>,
    /// The action if the content differs, for a file that is only compared at first.
    pub if_different: OnceLock<IfDifferent>,
}

/// The part that a run has in the copy of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum FileSharing {
    /// It has begun the file.
    #[default]
    Alone,
    /// It copies a range of an open file.
    Range(Arc<OpenLargeFile>),
}

/// The action for a file whose content was compared and differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IfDifferent {
    /// Copy it, writing to this kind of draft.
    Write(DraftKind),
    /// Make it a hard link to this file, which has the content.
    Link(EntryPath),
}

/// The properties of a large file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargeFileMode {
    /// The kind of draft to write.
    pub kind: DraftKind,
    /// True if the target has an entry of this name.
    pub replaces: bool,
    /// True if the user named it.
    pub named: bool,
    /// True if a digest is computed.
    pub digest: bool,
}

/// The result of counting chunks as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkProgress {
    /// More chunks are pending.
    More,
    /// All chunks are done: finish the file.
    Finish,
    /// All chunks of a failed file are done: abandon it.
    Abandon,
}

impl LargeFile {
    pub fn new(
        node: Arc<DirectoryNode>,
        source: SourceFile,
        target: EntryPath,
        draft: DraftId,
        LargeFileMode { kind, replaces, named, digest }: LargeFileMode,
    ) -> Self {
        let size_bytes = source.metadata.size_bytes;
        let digest = digest && !is_compared_by_tags(kind, named);
        let forest = digest.then(|| Forest::new(size_bytes));
        Self {
            node,
            source: Arc::new(source),
            target,
            draft,
            kind,
            replaces,
            attempts: 0,
            named,
            completes: AtomicBool::new(false),
            resumed: OnceLock::new(),
            size_bytes: AtomicU64::new(size_bytes),
            next: AtomicU64::new(0),
            run_chunks: AtomicU64::new(1),
            done: AtomicU64::new(0),
            lanes: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            of_no_use: AtomicBool::new(false),
            begun_anew: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            sets_attributes: false,
            blocks: Default::default(),
            pieces: Default::default(),
            whole: WholeFileChoice::default(),
            moves: MoveSearch::default(),
            hole_bytes: AtomicU64::new(0),
            forest: Mutex::new(forest),
            if_different: OnceLock::new(),
            sharing: FileSharing::Alone,
            until: None,
            given: OnceLock::new(),
        }
    }

    /// Limits it to a range of an open file.
    pub fn limit_to(&mut self, file: Arc<OpenLargeFile>, range: Extent) {
        let first = range.offset / CHUNK_BYTES;
        (self.next, self.done) = (AtomicU64::new(first), AtomicU64::new(first));
        (self.sharing, self.until) = (FileSharing::Range(file), Some(chunk_count(range.end())));
    }

    /// Takes all chunks as done, by other runs.
    pub fn mark_written(&mut self) {
        let all = self.chunks();
        (self.next, self.done) = (AtomicU64::new(all), AtomicU64::new(all));
        self.ended = AtomicBool::new(true);
    }

    /// Leaves the chunks that were not taken to other runs. Returns their number, which still has to be counted as done.
    pub fn give_rest(&self) -> u64 {
        let taken = self.next.swap(NO_CHUNK, Ordering::AcqRel);
        if taken >= self.chunks() {
            return 0;
        }
        let mut rest = Vec::new();
        let mut offset = taken * CHUNK_BYTES;
        for done in self.resumed.get().into_iter().flatten() {
            if done.offset > offset {
                rest.push(Extent { offset, length: done.offset - offset });
            }
            offset = offset.max(done.end());
        }
        if offset < self.size_bytes() {
            rest.push(Extent { offset, length: self.size_bytes() - offset });
        }
        let chunks = rest.iter().map(|extent| chunk_count(extent.length)).sum();
        let _once = self.given.set(rest);
        chunks
    }

    /// Returns the ranges that are left to other runs, if any are.
    pub fn given(&self) -> Option<&[Extent]> {
        self.given.get().map(Vec::as_slice)
    }

    /// Returns true if another run finishes it.
    pub fn is_finished_elsewhere(&self) -> bool {
        self.given.get().is_some() || self.sharing != FileSharing::Alone
    }

    /// Returns true if its content is compared by tags. The digest of an unnamed file in a tree is shown to nobody.
    pub fn is_compared_by_tags(&self) -> bool {
        is_compared_by_tags(self.kind, self.named)
    }

    /// Returns true if only its digest is computed and the target is not involved.
    pub fn is_only_hashed(&self) -> bool {
        self.kind == DraftKind::Sink && !self.named
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::SeqCst)
    }

    /// Returns true if it is a stream, whose size was unknown when its draft was begun.
    pub fn is_open_ended(&self) -> bool {
        self.source.metadata.size_bytes == UNKNOWN_BYTES
    }

    /// Returns the number of chunks up to which this run copies it.
    pub fn chunks(&self) -> u64 {
        self.until.unwrap_or_else(|| chunk_count(self.size_bytes()))
    }

    /// Returns the offset up to which this run copies it.
    fn end_bytes(&self) -> u64 {
        self.until.map_or(u64::MAX, |until| until * CHUNK_BYTES).min(self.size_bytes())
    }

    /// Records that a lane begins to take its chunks.
    pub fn enter(&self) {
        self.lanes.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a lane stops taking its chunks.
    pub fn leave(&self) {
        self.lanes.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of lanes that take its chunks.
    pub fn lanes(&self) -> usize {
        self.lanes.load(Ordering::Relaxed)
    }

    pub fn has_chunks_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.chunks()
    }

    /// Returns the number of chunks that have not been taken.
    pub fn chunks_left(&self) -> u64 {
        self.chunks().saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Returns the number of bytes from the next chunk on.
    pub fn bytes_left(&self) -> u64 {
        self.end_bytes().saturating_sub(self.next.load(Ordering::Relaxed).saturating_mul(CHUNK_BYTES))
    }

    /// Returns the next chunk, or `None` if all have been taken.
    pub fn take_chunk(&self) -> Option<Extent> {
        while self.has_chunks_left() {
            let extent = chunk(self.end_bytes(), self.next.fetch_add(1, Ordering::Relaxed))?;
            if !self.was_done(extent) {
                return Some(extent);
            }
        }
        None
    }

    /// Sets the number of bytes that a lane takes at a time, a multiple of the chunk size. Before any chunk is taken.
    pub fn set_run_bytes(&self, run_bytes: u64) {
        self.run_chunks.store((run_bytes / CHUNK_BYTES).max(1), Ordering::Release);
    }

    /// Returns the next run of chunks, which the lane transfers one after another, or `None` if all have been taken.
    pub fn take_run(&self) -> Option<Extent> {
        let run_chunks = self.run_chunks.load(Ordering::Acquire);
        if run_chunks == 1 {
            return self.take_chunk();
        }
        while self.has_chunks_left() {
            let first = chunk(self.end_bytes(), self.next.fetch_add(run_chunks, Ordering::Relaxed))?;
            let length = (run_chunks * CHUNK_BYTES).min(self.end_bytes() - first.offset);
            let run = Extent { length, ..first };
            if !self.was_done(run) {
                return Some(run);
            }
        }
        None
    }

    /// Counts a chunk of a stream as taken after it was read. Returns false if the file has failed.
    pub fn take_read(&self) -> bool {
        let take = |next: u64| (next < NO_CHUNK).then_some(next + 1);
        self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    /// Records the end of a stream.
    pub fn ends_at(&self, size_bytes: u64) -> ChunkProgress {
        let (order, unknown) = (Ordering::SeqCst, UNKNOWN_BYTES);
        if self.size_bytes.compare_exchange(unknown, size_bytes, order, order).is_err() {
            return ChunkProgress::More;
        }
        if let Some(forest) = self.forest.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            forest.end(size_bytes);
        }
        self.progress(self.done.load(order))
    }

    /// Takes all chunks that lie completely before `end`, beginning with the next one.
    pub fn take_chunks_until(&self, end: u64) -> Option<Extent> {
        if self.resumed.get().is_some() || self.run_chunks.load(Ordering::Acquire) > 1 {
            return None;
        }
        // The last chunk may be shorter; it is left to be taken on its own.
        let last = (end / CHUNK_BYTES).min(self.size_bytes() / CHUNK_BYTES).min(self.chunks());
        let first = self.next.fetch_max(last, Ordering::Relaxed);
        // It may be beyond all chunks.
        (first < last).then(|| {
            let offset = first * CHUNK_BYTES;
            Extent { offset, length: last * CHUNK_BYTES - offset }
        })
    }

    fn was_done(&self, chunk: Extent) -> bool {
        let Some(done) = self.resumed.get() else { return false };
        let after = done.partition_point(|extent| extent.offset <= chunk.offset);
        after > 0 && done[after - 1].end() >= chunk.end()
    }

    /// Records the chunks that an earlier run has done, after the draft has been begun.
    ///
    /// # Errors
    /// `Protocol` if the ranges are impossible.
    pub fn begun(&self, begun: EarlierWork) -> Result<ChunkProgress> {
        self.completes.store(true, Ordering::Release);
        let EarlierWork { done, subtrees, .. } = begun;
        let whole_chunks = |extent: &Extent| {
            let end = extent.offset.checked_add(extent.length);
            extent.length > 0
                && extent.offset.is_multiple_of(CHUNK_BYTES)
                && extent.length.is_multiple_of(CHUNK_BYTES)
                && end.is_some_and(|end| end <= self.size_bytes())
        };
        let sound =
            done.iter().all(whole_chunks) && done.windows(2).all(|pair| pair[0].end() < pair[1].offset);
        if !sound {
            let words = "the target reported invalid ranges";
            return Err(Error::new(ErrorKind::Protocol, "resuming an earlier run", words));
        }
        let chunks = done.iter().map(|extent| extent.length / CHUNK_BYTES).sum::<u64>();
        if chunks == 0 {
            return Ok(ChunkProgress::More);
        }
        if let Some(forest) = self.forest.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            // If the subtrees do not fit there is no digest; the content is checked in any case.
            for subtree in subtrees {
                forest.add_subtree(subtree);
            }
        }
        let _once = self.resumed.set(done);
        Ok(self.count_done(chunks))
    }

    /// Returns true if the source is a disk, which has no time that shows changes.
    pub fn is_of_disk(&self) -> bool {
        self.source.metadata.kind == EntryKind::BlockDevice
    }

    /// Returns true if the draft was begun by an earlier run.
    pub fn is_resumed(&self) -> bool {
        self.resumed.get().is_some()
    }

    /// Returns true if an operation has to complete each chunk.
    pub fn completes(&self) -> bool {
        self.completes.load(Ordering::Acquire)
    }

    /// Records that the file is begun again from the start. Returns true if that has happened before.
    pub fn begins_anew(&self) -> bool {
        self.begun_anew.swap(true, Ordering::AcqRel)
    }

    /// Records that the target's existing content differs.
    pub fn changes(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Returns true if the target's existing content differed.
    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Adds to the number of pieces compared, and to that of equal pieces.
    pub fn compared(&self, pieces: u64, equal: u64) {
        self.pieces[0].fetch_add(pieces, Ordering::Relaxed);
        self.pieces[1].fetch_add(equal, Ordering::Relaxed);
    }

    /// Returns true if sending the whole file is an option: the file is new and not sparse (holes are not sent).
    pub fn may_go_whole(&self) -> bool {
        let may = self.kind == DraftKind::Update && !self.source.metadata.sparse;
        may && self.whole.may_be_tried(self.size_bytes())
    }

    /// Returns the number of bytes compared.
    pub fn compared_bytes(&self) -> u64 {
        self.pieces[0].load(Ordering::Relaxed) * PIECE_BYTES
    }

    /// Adds to the number of blocks compared in pieces that differ, and to that of blocks that differ.
    pub fn compared_blocks(&self, blocks: u64, differ: u64) {
        self.blocks[0].fetch_add(blocks, Ordering::Relaxed);
        self.blocks[1].fetch_add(differ, Ordering::Relaxed);
    }

    /// Returns true if it pays to compare the blocks of pieces that differ, false if most of these blocks differ as
    /// well. Returns `None` if too few have been compared to tell.
    pub fn blocks_pay(&self) -> Option<bool> {
        let [compared, differ] = [0, 1].map(|index: usize| self.blocks[index].load(Ordering::Relaxed));
        (compared >= BLOCKS_TRIED).then_some(differ * 4 <= compared * 3)
    }

    /// Returns false if hardly any piece or block was found equal, or if sending the whole file is faster. Only a new
    /// file leaves the choice: a file changed in place is compared to its end, so that little is written.
    pub fn comparing_pays(&self) -> bool {
        let compared = self.pieces[0].load(Ordering::Relaxed);
        let finds = compared < PIECES_TRIED || self.finds_equal() || self.blocks_pay() != Some(false);
        finds && !self.whole.pays()
    }

    /// Returns true if a relevant share of pieces was found equal. Always true for content that is changed in place.
    pub fn finds_equal(&self) -> bool {
        let [compared, equal] = [0, 1].map(|index: usize| self.pieces[index].load(Ordering::Relaxed));
        self.kind != DraftKind::Update || equal > compared / 16
    }

    /// Adds to the number of bytes in holes, and returns the total.
    pub fn hole(&self, length_bytes: u64) -> u64 {
        self.hole_bytes.fetch_add(length_bytes, Ordering::Relaxed) + length_bytes
    }

    /// Gives up the digest of the whole file.
    pub fn forget_digest(&self) {
        *self.forest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Counts chunks that have been acknowledged or given up.
    pub fn count_done(&self, count: u64) -> ChunkProgress {
        self.progress(self.done.fetch_add(count, Ordering::SeqCst) + count)
    }

    /// Returns the progress with `done` chunks. A stream's end and its last chunk may be reported concurrently.
    fn progress(&self, done: u64) -> ChunkProgress {
        if done < self.chunks() || self.ended.swap(true, Ordering::AcqRel) {
            return ChunkProgress::More;
        }
        if self.has_failed() { ChunkProgress::Abandon } else { ChunkProgress::Finish }
    }

    /// Returns true if no later run can use the data written so far.
    pub fn is_of_no_use(&self) -> bool {
        self.of_no_use.load(Ordering::Acquire)
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Records that the file cannot be copied; no further chunk is handed out. Returns true for the first failure, and
    /// the number of chunks that were not handed out, which still have to be counted as done. `of_no_use`: no later run
    /// can use the data written so far.
    pub fn fail(&self, of_no_use: bool) -> (bool, u64) {
        self.of_no_use.fetch_or(of_no_use, Ordering::AcqRel);
        let first = !self.failed.swap(true, Ordering::AcqRel);
        let taken = self.next.swap(NO_CHUNK, Ordering::AcqRel);
        if self.is_open_ended() && taken < NO_CHUNK {
            // Only chunks that were read are waited for. A size that is already known is kept.
            let (order, end) = (Ordering::SeqCst, taken * CHUNK_BYTES);
            let _ = self.size_bytes.compare_exchange(UNKNOWN_BYTES, end, order, order);
        }
        let taken = taken.min(self.chunks());
        (first, self.chunks() - taken)
    }

    /// Adds the values of consecutive pieces, beginning at `offset`.
    pub fn add_values(&self, offset: u64, values: &[Digest]) {
        if let Some(forest) = self.forest.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            for (index, value) in (offset / PIECE_BYTES..).zip(values) {
                forest.add(index, *value);
            }
        }
    }

    /// Returns the digest of the whole file, once every piece has been added.
    pub fn digest(&self) -> Option<Digest> {
        self.forest.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Forest::digest)
    }
}

/// Returns true if content is compared by tags instead of digests. Named files and files changed in place need digests.
fn is_compared_by_tags(kind: DraftKind, named: bool) -> bool {
    !named && matches!(kind, DraftKind::Compare | DraftKind::Update)
}

#[cfg(test)]
mod tests;
