//! The record of a run: counters, failures, and the progress of each lane.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::counters::CounterTotals;
use hakobu_core::engine::{DELETIONS_KEPT_MAX, FAILURES_KEPT_MAX, RunSummary};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::{EntryAction, EntryChange, Event, Failure, Observer, drafts_left_out};
use hakobu_core::path::EntryPath;

use super::pool::{Batch, ChangeByRsync};

/// The record of a run in progress.
pub(super) struct RsyncRecord<'a> {
    observer: &'a dyn Observer,
    /// True if conflicting entries may be removed later.
    removes: bool,
    /// True if each change is reported.
    itemizes: bool,
    began: Instant,
    sums: Mutex<RunSums>,
    /// For each lane, the bytes of its batch that its rsync reports as moved.
    pub lanes: Vec<AtomicU64>,
    fatal: OnceLock<Error>,
    stopped: AtomicBool,
    scan_ended: OnceLock<Duration>,
}

#[derive(Default)]
struct RunSums {
    counters: CounterTotals,
    failures: BTreeMap<Vec<u8>, Failure>,
    /// Conflicts of entries whose obstacles may still be removed.
    waiting: BTreeMap<Vec<u8>, Error>,
    /// Directories that were created on the path to files.
    made: HashSet<EntryPath>,
    /// Entries that a lost connection may have created without reporting it.
    perhaps_made: HashSet<EntryPath>,
    /// The time of the last progress.
    moved_at: Option<Instant>,
    directories_with_drafts: u64,
    /// The first entries that were deleted.
    deleted: Vec<EntryPath>,
}

impl RunSums {
    fn has_failed(&self, path: &EntryPath) -> bool {
        self.failures.contains_key(path.as_bytes()) || self.waiting.contains_key(path.as_bytes())
    }

    /// Records the entries that lost attempts at a batch may have created: files about which a later attempt reported
    /// nothing else, and all directories above.
    fn perhaps_make(&mut self, batch: &Batch) {
        for path in batch.paths() {
            if !matches!(batch.changes.get(path), Some(ChangeByRsync::Created | ChangeByRsync::Updated)) {
                self.perhaps_made.insert(path.clone());
            }
            let mut above = path.split_last().map(|(parent, _)| parent);
            while let Some(directory) = above.filter(|directory| !directory.is_root()) {
                above = directory.split_last().map(|(parent, _)| parent);
                self.perhaps_made.insert(directory);
            }
        }
    }
}

impl<'a> RsyncRecord<'a> {
    /// Creates a record for `lanes` lanes. `removes`: conflicts may be resolved at the end.
    pub fn new(observer: &'a dyn Observer, lanes: usize, removes: bool) -> Self {
        Self {
            observer,
            removes,
            itemizes: false,
            began: Instant::now(),
            sums: Mutex::default(),
            lanes: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
            fatal: OnceLock::new(),
            stopped: AtomicBool::new(false),
            scan_ended: OnceLock::new(),
        }
    }

    /// Returns a record of a run that reports each change.
    pub fn itemizing(self, itemizes: bool) -> Self {
        Self { itemizes, ..self }
    }

    fn sums(&self) -> MutexGuard<'_, RunSums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the counters.
    pub fn count(&self, change: impl FnOnce(&mut CounterTotals)) {
        change(&mut self.sums().counters);
    }

    /// Records that a directory of the source contains drafts, which are skipped.
    pub fn drafts(&self, directory: &EntryPath, drafts: u64) {
        if drafts == 0 {
            return;
        }
        let earlier = {
            let mut sums = self.sums();
            sums.counters.entries_scanned += drafts;
            sums.counters.entries_skipped += drafts;
            sums.directories_with_drafts += 1;
            sums.directories_with_drafts - 1
        };
        if let Some(words) = drafts_left_out(directory, drafts, earlier) {
            self.observer.event(Event::Notice { words });
        }
    }

    /// Records that a directory of the source has the name of rsync's directory for interrupted files. It is skipped,
    /// as by rsync itself.
    pub fn partial(&self, directory: &EntryPath) {
        self.count(|counters| {
            counters.entries_scanned += 1;
            counters.entries_skipped += 1;
        });
        let words = format!("{directory} is left out: rsync keeps there what was cut off");
        self.observer.event(Event::Notice { words });
    }

    /// Records that the scan is complete.
    pub fn end_of_scan(&self) {
        self.scan_ended.get_or_init(|| self.began.elapsed());
        self.sums().counters.scan_done = true;
    }

    /// Records the failure of one entry; a second reason for the same entry is ignored.
    pub fn failure(&self, path: Vec<u8>, error: Error) {
        let may_wait = self.removes && error.kind == ErrorKind::Conflict;
        self.failed(path, error, may_wait);
    }

    /// Records that a part of the source could not be read for any reason, so nothing may be removed.
    pub fn failure_of_scan(&self, path: Vec<u8>, error: Error) {
        self.failed(path, error, false);
    }

    fn failed(&self, path: Vec<u8>, error: Error, may_wait: bool) {
        let failure = {
            let mut sums = self.sums();
            if sums.failures.contains_key(&path) {
                return;
            }
            if may_wait {
                sums.waiting.insert(path, error);
                return;
            }
            let failure = Failure { path: path.clone(), error };
            if sums.failures.len() < FAILURES_KEPT_MAX {
                sums.failures.insert(path, failure.clone());
            }
            sums.counters.entries_failed += 1;
            failure
        };
        self.observer.event(Event::Failure(failure));
    }

    /// Returns true if this entry has failed.
    pub fn has_failed(&self, path: &EntryPath) -> bool {
        self.sums().has_failed(path)
    }

    /// Counts an entry that was copied or changed outside of a batch. `size_bytes`: the content that was sent.
    pub fn change(&self, path: &EntryPath, change: ChangeByRsync, size_bytes: u64) {
        *counter(&mut self.sums().counters, change) += 1;
        self.itemize(path, change, size_bytes);
    }

    /// Counts an entry that was deleted at the target.
    pub fn deleted(&self, path: &EntryPath) {
        {
            let mut sums = self.sums();
            sums.counters.entries_deleted += 1;
            if sums.deleted.len() < DELETIONS_KEPT_MAX {
                sums.deleted.push(path.clone());
            }
        }
        self.tell(EntryAction::Delete, path, 0);
    }

    fn itemize(&self, path: &EntryPath, change: ChangeByRsync, size_bytes: u64) {
        match change {
            ChangeByRsync::Created => self.tell(EntryAction::Create, path, size_bytes),
            ChangeByRsync::Updated => self.tell(EntryAction::Update, path, size_bytes),
            ChangeByRsync::Attributes => self.tell(EntryAction::Attributes, path, 0),
        }
    }

    fn tell(&self, action: EntryAction, path: &EntryPath, size_bytes: u64) {
        if self.itemizes {
            let path = path.as_bytes().to_vec();
            self.observer.event(Event::Changed(EntryChange { action, path, size_bytes }));
        }
    }

    /// Records a batch that is complete, apart from failures.
    pub fn batch(&self, lane: usize, batch: &Batch) {
        let failed = self.count_batch(batch);
        if let Some(lane) = self.lanes.get(lane) {
            lane.store(0, Relaxed);
        }
        if !self.itemizes {
            return;
        }
        for file in batch.files.iter().filter(|file| !failed.contains(&file.path)) {
            if let Some(change) = batch.changes.get(&file.path) {
                self.itemize(&file.path, *change, file.size_bytes);
            }
        }
    }

    /// Counts the files of a batch. Returns those that failed.
    fn count_batch<'b>(&self, batch: &'b Batch) -> HashSet<&'b EntryPath> {
        let mut failed = HashSet::new();
        let mut sums = self.sums();
        if batch.was_lost {
            sums.perhaps_make(batch);
        }
        for file in &batch.files {
            if sums.has_failed(&file.path) {
                failed.insert(&file.path);
                continue;
            }
            match batch.changes.get(&file.path) {
                Some(change) => {
                    *counter(&mut sums.counters, *change) += 1;
                    match change {
                        ChangeByRsync::Attributes => sums.counters.bytes_unchanged += file.size_bytes,
                        _ => {
                            sums.counters.target_written_bytes += file.size_bytes;
                            sums.counters.source_read_bytes += file.size_bytes;
                        }
                    }
                }
                None => {
                    sums.counters.entries_unchanged += 1;
                    sums.counters.bytes_unchanged += file.size_bytes;
                }
            }
        }
        sums.moved_at = Some(Instant::now());
        failed
    }

    /// Resets a lane that repeats its batch.
    pub fn begin(&self, lane: usize) {
        if let Some(lane) = self.lanes.get(lane) {
            lane.store(0, Relaxed);
        }
    }

    /// Records that a lane has moved at least this many bytes of its batch.
    pub fn moved_at_least(&self, lane: usize, bytes: u64) {
        if let Some(lane) = self.lanes.get(lane) {
            lane.fetch_max(bytes, Relaxed);
        }
    }

    /// Records progress.
    pub fn went_forward(&self) {
        self.sums().moved_at = Some(Instant::now());
    }

    /// Records that a directory was created on the path to a file.
    pub fn made(&self, path: EntryPath) {
        self.sums().made.insert(path);
    }

    /// Returns true if a directory was created on the path to a file.
    pub fn was_made(&self, path: &EntryPath) -> bool {
        self.sums().made.contains(path)
    }

    /// Returns the number of entries that the lanes may have created at the target.
    pub fn entries_made(&self) -> u64 {
        let sums = self.sums();
        let unsaid = sums.made.union(&sums.perhaps_made).count();
        sums.counters.entries_created.saturating_add(unsaid as u64)
    }

    /// Returns the time without progress.
    pub fn stalled_for(&self) -> Duration {
        self.sums().moved_at.unwrap_or(self.began).elapsed()
    }

    /// Ends the run because of `error`; the first one counts.
    pub fn stop(&self, error: Error) {
        let _first_wins = self.fatal.set(error);
        self.stopped.store(true, Relaxed);
    }

    /// Returns true if the run has been ended.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Returns the error that ended the run, if any.
    pub fn error(&self) -> Option<Error> {
        self.fatal.get().cloned()
    }

    /// Returns the number of entries that have failed.
    pub fn failures_count(&self) -> u64 {
        self.sums().counters.entries_failed
    }

    /// Removes the conflicts of these entries, which are tried again.
    pub fn forgive(&self, paths: &[EntryPath]) {
        let mut sums = self.sums();
        paths.iter().for_each(|path| drop(sums.waiting.remove(path.as_bytes())));
    }

    /// Turns the remaining conflicts into failures, because nothing more is removed.
    pub fn conflicts_stay(&mut self) {
        self.removes = false;
        let waiting = std::mem::take(&mut self.sums().waiting);
        waiting.into_iter().for_each(|(path, error)| self.failure(path, error));
    }

    /// Returns the time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the counters at this moment.
    pub fn snapshot(&self) -> CounterTotals {
        let mut now = self.sums().counters.clone();
        now.target_written_bytes += self.lanes.iter().map(|lane| lane.load(Relaxed)).sum::<u64>();
        now.remote = true;
        now
    }

    /// Returns the final summary.
    pub fn into_summary(self, lanes: u16) -> RunSummary {
        let transfer_ns = nanoseconds(self.began.elapsed());
        let scan_ns = self.scan_ended.get().copied().map_or(transfer_ns, nanoseconds);
        let sums = self.sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        let failures: Vec<Failure> = sums.failures.into_values().collect();
        RunSummary {
            failures_of_source: failures.iter().filter(|failure| failure.error.is_source_change()).count()
                as u64,
            counters: CounterTotals { remote: true, ..sums.counters },
            failures,
            deleted: sums.deleted,
            fatal: self.fatal.into_inner(),
            lanes,
            scan_ns,
            transfer_ns,
            ..RunSummary::default()
        }
    }
}

fn counter(counters: &mut CounterTotals, change: ChangeByRsync) -> &mut u64 {
    match change {
        ChangeByRsync::Created => &mut counters.entries_created,
        ChangeByRsync::Updated => &mut counters.entries_updated,
        ChangeByRsync::Attributes => &mut counters.entries_attributes_only,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use hakobu_core::event::NoObserver;

    use super::super::pool::PooledFile;
    use super::*;

    #[test]
    fn what_a_lost_connection_may_have_made_counts_as_made() {
        let path = |text: &str| EntryPath::new(text).unwrap();
        let file = |text| PooledFile { size_bytes: 1, path: path(text), may_have_holes: false };
        let batch = |was_lost| Batch {
            files: ["a/b/new", "a/b/unsaid", "old"].map(file).into(),
            changes: [(path("a/b/new"), ChangeByRsync::Created), (path("old"), ChangeByRsync::Updated)]
                .into(),
            was_lost,
            ..Batch::default()
        };
        let record = RsyncRecord::new(&NoObserver, 1, true);
        record.made(path("a"));
        record.batch(0, &batch(false));
        assert_eq!(record.entries_made(), 2);
        let record = RsyncRecord::new(&NoObserver, 1, true);
        record.made(path("a"));
        record.batch(0, &batch(true));
        // `a/b/new`, `a`, and perhaps `a/b` and `a/b/unsaid`.
        assert_eq!(record.entries_made(), 4);
    }

    #[test]
    fn a_conflict_waits_for_the_removal_and_a_part_that_was_not_seen_does_not() {
        let conflict = || Error::new(ErrorKind::Conflict, "listing", "in the way");
        let mut record = RsyncRecord::new(&NoObserver, 1, true);
        record.failure(b"a".to_vec(), conflict());
        assert_eq!(record.failures_count(), 0);
        record.failure_of_scan(b"b".to_vec(), conflict());
        assert_eq!(record.failures_count(), 1);
        record.conflicts_stay();
        assert_eq!(record.failures_count(), 2);
    }
}
