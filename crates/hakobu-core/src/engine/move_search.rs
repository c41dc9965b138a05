//! Shared state of the lanes for one file in which content may have moved: the chunks deferred until all others have
//! been compared, and the table of the old file's blocks, which the lanes fill together.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::block_table::{BlockTable, block_bytes};
use crate::extent::{CHUNK_BYTES, Extent, chunk, chunk_count};

/// The minimum size of the old file in bytes. For a smaller one an additional round trip does not pay.
const OLD_BYTES_MIN: u64 = CHUNK_BYTES;
/// The table needs all of the old file read, which pays if at least one part in this many of its size is deferred.
const WORTH_SHARE: u64 = 8;
/// The number of bytes searched before the search is judged.
const SEARCHED_MIN_BYTES: u64 = 64 << 20;
/// The search stops if less than one part in this many of the searched bytes was found.
const FOUND_SHARE: u64 = 16;
/// The maximum number of deferred chunks, 1 TiB. Further chunks are sent without a search.
const PUT_OFF_MAX: usize = 1 << 18;

/// A deferred chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PutOff {
    /// The range of the chunk.
    pub extent: Extent,
    /// One bit per piece that is not done yet; the lowest bit is the first piece.
    pub left: u16,
    /// The number of bytes already written.
    pub written_bytes: u64,
    /// True if the chunk has been compared and its values are known.
    pub compared: bool,
}

impl PutOff {
    /// Returns a chunk of which nothing has been done.
    pub fn untouched(extent: Extent) -> Self {
        Self { extent, left: u16::MAX, written_bytes: 0, compared: false }
    }

    /// Returns true if the piece with this index is not done yet.
    pub fn has_left(&self, index: usize) -> bool {
        self.left & 1 << index != 0
    }
}

/// The state of the search for moved content in one file.
#[derive(Debug, Default)]
pub(super) struct MoveSearch {
    /// The size of the old file in bytes; set if its content may be found at other offsets.
    old_bytes: OnceLock<u64>,
    /// The number of lanes that are comparing.
    comparing: AtomicUsize,
    put_off: Mutex<VecDeque<PutOff>>,
    /// The number of bytes in deferred chunks that were compared.
    put_off_bytes: AtomicU64,
    worth: OnceLock<bool>,
    next_range: AtomicU64,
    filling: Mutex<RangeFill>,
    filled: Condvar,
    table: OnceLock<Option<BlockTable>>,
    searched_bytes: AtomicU64,
    found_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct RangeFill {
    /// Weak sums by block number; 0 where not known yet.
    sums: Vec<u64>,
    ranges: u64,
    failed: bool,
}

impl MoveSearch {
    /// Allows the search in an old file of this size, unless it is too small or too large.
    pub fn allow(&self, old_bytes: u64) {
        if old_bytes >= OLD_BYTES_MIN && block_bytes(old_bytes).is_some() {
            let _once = self.old_bytes.set(old_bytes);
        }
    }

    /// Returns true if there is an old file to search.
    pub fn are_allowed(&self) -> bool {
        self.old_bytes.get().is_some()
    }

    /// Records that a lane begins to compare.
    pub fn enter(&self) {
        self.comparing.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that a lane has nothing left to compare. Returns true if it was the last one.
    pub fn leave(&self) -> bool {
        self.comparing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns true if a piece that differs may be deferred.
    pub fn may_put_off(&self) -> bool {
        self.are_allowed() && self.worth.get() != Some(&false)
    }

    /// Gives up the search, unless it has been decided on already.
    pub fn forgo(&self) {
        let _once = self.worth.set(false);
    }

    /// Defers a chunk beyond the end of the old file, where there is nothing to compare it with. It was appended,
    /// unless other content has moved. Returns false for any other chunk, or if too many are deferred already.
    pub fn put_off_appended(&self, extent: Extent) -> bool {
        let is_behind = self.old_bytes.get().is_some_and(|old| extent.offset >= *old);
        is_behind && self.put_off(PutOff::untouched(extent))
    }

    /// Defers a chunk. Returns false if too many are deferred already.
    pub fn put_off(&self, chunk: PutOff) -> bool {
        let mut put_off = self.lock_put_off();
        if put_off.len() >= PUT_OFF_MAX {
            return false;
        }
        put_off.push_back(chunk);
        if chunk.compared {
            self.put_off_bytes.fetch_add(chunk.extent.length, Ordering::AcqRel);
        }
        true
    }

    /// Returns the next deferred chunk, roughly in file order.
    pub fn take(&self) -> Option<PutOff> {
        self.lock_put_off().pop_front()
    }

    fn lock_put_off(&self) -> MutexGuard<'_, VecDeque<PutOff>> {
        self.put_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whether it pays to read the whole old file for the deferred chunks and `rest_bytes` more. The first
    /// decision holds for all lanes. Returns `None` if it does not pay yet but other lanes may still defer more; with
    /// `last` there are no other lanes.
    pub fn are_worth(&self, rest_bytes: u64, last: bool) -> Option<bool> {
        let bytes = self.put_off_bytes.load(Ordering::Acquire).saturating_add(rest_bytes);
        let worth = bytes > 0 && self.old_bytes.get().is_some_and(|old| bytes >= old / WORTH_SHARE);
        match worth || last {
            true => Some(*self.worth.get_or_init(|| worth)),
            false => self.worth.get().copied(),
        }
    }

    /// Returns the block size of the old file in bytes.
    pub fn block_bytes(&self) -> Option<u64> {
        self.old_bytes.get().and_then(|bytes| block_bytes(*bytes))
    }

    /// Returns the next range of the old file to request sums for.
    pub fn take_range(&self) -> Option<Extent> {
        let old_bytes = *self.old_bytes.get()?;
        if self.next_range.load(Ordering::Relaxed) >= chunk_count(old_bytes) {
            return None;
        }
        chunk(old_bytes, self.next_range.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds the sums of a range; `None` if they could not be read. The last range completes the table.
    pub fn add_sums(&self, range: Extent, sums: Option<Vec<u64>>) {
        let Some((old_bytes, block_bytes)) = self.old_bytes.get().zip(self.block_bytes()) else { return };
        let mut filling = self.lock_filling();
        filling.sums.resize((old_bytes / block_bytes) as usize, 0);
        let first = (range.offset / block_bytes) as usize;
        let room = filling.sums.get_mut(first..first + (range.length / block_bytes) as usize);
        match (room, sums) {
            // The old file may have become shorter in the meantime.
            (Some(room), Some(sums)) if sums.len() <= room.len() => room[..sums.len()].copy_from_slice(&sums),
            _ => filling.failed = true,
        }
        filling.ranges += 1;
        if filling.ranges == chunk_count(*old_bytes) {
            let sums = std::mem::take(&mut filling.sums);
            let table = (!filling.failed).then(|| BlockTable::new(block_bytes as usize, sums));
            let _once = self.table.set(table);
            self.filled.notify_all();
        }
    }

    /// Waits up to `limit` for the table. Returns `None` while lanes still have to add sums they requested.
    pub fn wait_for_table(&self, limit: Duration) -> Option<&Option<BlockTable>> {
        if self.table.get().is_none() {
            let filling = self.lock_filling();
            if self.table.get().is_none() {
                drop(self.filled.wait_timeout(filling, limit).unwrap_or_else(PoisonError::into_inner));
            }
        }
        self.table.get()
    }

    fn lock_filling(&self) -> MutexGuard<'_, RangeFill> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the number of bytes searched and the number of those found.
    pub fn searched(&self, bytes: u64, found_bytes: u64) {
        self.searched_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.found_bytes.fetch_add(found_bytes, Ordering::Relaxed);
    }

    /// Returns true if continuing the search pays.
    pub fn pay(&self) -> bool {
        let searched = self.searched_bytes.load(Ordering::Relaxed);
        let found = self.found_bytes.load(Ordering::Relaxed);
        searched < SEARCHED_MIN_BYTES || found >= searched / FOUND_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_table::sums;

    const OLD_BYTES: u64 = 2 * CHUNK_BYTES + 5000;
    const MOMENT: Duration = Duration::from_millis(1);

    fn moves() -> MoveSearch {
        let moves = MoveSearch::default();
        moves.allow(OLD_BYTES);
        moves
    }

    fn ranges(moves: &MoveSearch) -> Vec<Extent> {
        std::iter::from_fn(|| moves.take_range()).collect()
    }

    #[test]
    fn small_files_and_such_that_are_too_large_are_left_out() {
        for old_bytes in [0, CHUNK_BYTES - 1, u64::MAX] {
            let moves = MoveSearch::default();
            moves.allow(old_bytes);
            assert!(!moves.may_put_off() && moves.take_range().is_none());
            assert_eq!(moves.are_worth(u64::MAX, true), Some(false));
        }
        assert!(moves().may_put_off());
    }

    #[test]
    fn a_small_share_is_not_worth_it_and_nothing_is_put_off_any_more() {
        let all = moves();
        let extent = Extent { offset: 0, length: CHUNK_BYTES };
        let chunk = PutOff { compared: true, ..PutOff::untouched(extent) };
        assert!(all.put_off(chunk) && all.are_worth(0, false) == Some(true));
        assert_eq!((all.take(), all.take()), (Some(chunk), None));
        let little = moves();
        little.enter();
        little.enter();
        assert_eq!((little.leave(), little.are_worth(1, false)), (false, None));
        // While other lanes compare, more may be deferred.
        assert!(little.may_put_off());
        assert_eq!((little.leave(), little.are_worth(1, true)), (true, Some(false)));
        assert!(little.are_worth(u64::MAX, false) == Some(false) && !little.may_put_off());
    }

    #[test]
    fn what_is_appended_is_put_off_and_is_no_reason_to_look() {
        let moves = moves();
        let behind = Extent { offset: 3 * CHUNK_BYTES, length: CHUNK_BYTES };
        assert!(!moves.put_off_appended(Extent { offset: 2 * CHUNK_BYTES, ..behind }));
        assert!(moves.put_off_appended(behind));
        assert_eq!(moves.are_worth(0, true), Some(false));
        assert_eq!(moves.take(), Some(PutOff::untouched(behind)));
    }

    #[test]
    fn the_table_is_there_with_the_last_range() {
        let moves = moves();
        let block = moves.block_bytes().unwrap();
        let old: Vec<u8> = (0..OLD_BYTES).map(|at| (at / block) as u8).collect();
        let ranges = ranges(&moves);
        assert_eq!(ranges.iter().map(|range| range.length).sum::<u64>(), OLD_BYTES);
        for range in ranges.iter().rev() {
            assert!(moves.wait_for_table(MOMENT).is_none());
            let bytes = &old[range.offset as usize..range.end() as usize];
            moves.add_sums(*range, Some(sums(bytes, block as usize).collect()));
        }
        let table = moves.wait_for_table(MOMENT).unwrap().as_ref().unwrap();
        let mut found = Vec::new();
        table.search(&old[..block as usize * 3], None, &mut found);
        assert_eq!((found.len(), found[0].from), (1, 0));
    }

    #[test]
    fn without_all_sums_there_is_no_table() {
        for wrong in [None, Some(vec![0; 5000])] {
            let moves = moves();
            for range in ranges(&moves) {
                moves.add_sums(range, wrong.clone());
            }
            assert!(moves.wait_for_table(MOMENT).unwrap().is_none());
        }
    }

    #[test]
    fn searching_ends_where_next_to_nothing_is_found() {
        let moves = moves();
        moves.searched(SEARCHED_MIN_BYTES - 1, 0);
        assert!(moves.pay());
        moves.searched(1, 0);
        assert!(!moves.pay());
        moves.searched(0, SEARCHED_MIN_BYTES / FOUND_SHARE);
        assert!(moves.pay());
    }
}
