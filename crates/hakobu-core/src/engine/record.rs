//! Collects the results of a run: counters, failures, losses, and the error that stopped it.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::room::Room;
use crate::capabilities::Capabilities;
use crate::compression::{CompressionStats, LevelChoice, Levels, ReportedChoices};
use crate::counters::{CounterTotals, LaneCounters};
use crate::digest::Digest;
use crate::error::Error;
use crate::event::{Difference, Different, Failure};
use crate::job::LANES_MAX;
use crate::losses::{Loss, LossKind};
use crate::path::EntryPath;
use crate::requests::RunRequests;

/// The maximum number of failures kept for the report. All failures are counted and sent to the observer.
pub const FAILURES_KEPT_MAX: usize = 10_000;

/// The maximum number of differences kept for the report. The bytes of all ranges that differ are counted.
pub const DIFFERENCES_KEPT_MAX: usize = 10_000;

/// The maximum number of entries that only the target has which are kept as examples.
pub const ONLY_IN_TARGET_KEPT_MAX: usize = 10;

/// The maximum number of deleted entries kept for the report. All of them are counted.
pub const DELETIONS_KEPT_MAX: usize = 10_000;
/// The number of bytes of their paths from which on no more of them are kept, because they have to fit into one message.
const DELETIONS_KEPT_BYTES: usize = 1 << 20;

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    /// The figures.
    pub counters: CounterTotals,
    /// The first [`FAILURES_KEPT_MAX`] failures of single entries.
    pub failures: Vec<Failure>,
    /// The number of failures caused by the source: an entry changed or vanished.
    pub failures_of_source: u64,
    /// The error that ended the run early.
    pub fatal: Option<Error>,
    /// The metadata that the copy does not keep.
    pub losses: Vec<Loss>,
    /// The BLAKE3 digest, if a single file was copied and read.
    pub digest: Option<Digest>,
    /// The digests of the files that the user named, each with the index of its root, if there were several.
    pub digests: Vec<(u16, Digest)>,
    /// The first [`DIFFERENCES_KEPT_MAX`] differences found by a run that compares, sorted.
    pub differences: Vec<Difference>,
    /// The total size in bytes of the pieces that differ.
    pub differing_bytes: u64,
    /// Examples of entries that only the target has, from a run that counts them.
    pub only_in_target: Vec<EntryPath>,
    /// The first [`DELETIONS_KEPT_MAX`] deleted entries of the target.
    pub deleted: Vec<EntryPath>,
    /// The number of lanes that worked.
    pub lanes: u16,
    /// The compression levels used.
    pub levels: Levels,
    /// The time from the first opened lane to the end of the scan, in nanoseconds.
    pub scan_ns: u64,
    /// The time from the first opened lane to the end of the run, in nanoseconds.
    pub transfer_ns: u64,
    /// The requests that the ends were sent.
    pub requests: RunRequests,
    /// The requests that the changes of a plan would take.
    pub planned_requests: RunRequests,
}

impl RunSummary {
    /// Adds the failures of an earlier part of the same run. That part did other work, so this part does not make up
    /// for its failures. An entry that failed in both is counted once.
    pub fn add_failures(&mut self, earlier: &RunSummary) {
        let known: HashSet<&[u8]> = self.failures.iter().map(|failure| &failure.path[..]).collect();
        let (again, new): (Vec<_>, Vec<_>) =
            earlier.failures.iter().partition(|failure| known.contains(&failure.path[..]));
        // Failures beyond the kept ones cannot be matched by path.
        let count = earlier.counters.entries_failed.max(earlier.failures.len() as u64);
        let count = count.saturating_sub(again.len() as u64);
        self.counters.entries_failed = self.counters.entries_failed.saturating_add(count);
        let of_source = again.iter().filter(|failure| failure.error.is_source_change()).count() as u64;
        let of_source = earlier.failures_of_source.saturating_sub(of_source);
        self.failures_of_source = self.failures_of_source.saturating_add(of_source);
        let room = FAILURES_KEPT_MAX.saturating_sub(self.failures.len());
        let new: Vec<Failure> = new.into_iter().take(room).cloned().collect();
        self.failures.extend(new);
    }
}

/// The record of a run in progress.
#[derive(Debug)]
pub(super) struct RunRecord {
    /// A snapshot with the properties of the endpoints, and all counters zero.
    ends: CounterTotals,
    pub lanes: Vec<LaneCounters>,
    planned_requests: Mutex<RunRequests>,
    failures: Mutex<Vec<Failure>>,
    failures_of_source: AtomicU64,
    fatal: OnceLock<Error>,
    losses: Mutex<BTreeMap<LossKind, Loss>>,
    digest: OnceLock<Digest>,
    digests: Mutex<Vec<(u16, Digest)>>,
    room: Room,
    plans_changes: AtomicBool,
    plans_removals: AtomicBool,
    /// The numbers of directories that the source and the target were asked for.
    looked_at_directories: [AtomicU64; 2],
    differences: Mutex<Vec<Difference>>,
    differing_bytes: AtomicU64,
    only_in_target: Mutex<Vec<EntryPath>>,
    /// Deleted entries, and the bytes of their paths.
    deleted: Mutex<(Vec<EntryPath>, usize)>,
    lanes_open: AtomicU64,
    compression: Mutex<(Levels, ReportedChoices)>,
    started_ns: OnceLock<u64>,
    scan_ended_ns: OnceLock<u64>,
    paused_ns: AtomicU64,
    plan_bytes: AtomicU64,
    directories_with_drafts: AtomicU64,
    has_failed_links: AtomicBool,
}

impl RunRecord {
    pub fn new(lanes: usize, source: &Capabilities, target: &Capabilities) -> Self {
        Self {
            ends: CounterTotals {
                remote: target.remote,
                source_answer_ns: source.answer_ns,
                target_answer_ns: target.answer_ns,
                ..CounterTotals::default()
            },
            lanes: (0..lanes).map(|_| LaneCounters::default()).collect(),
            planned_requests: Mutex::default(),
            failures: Mutex::default(),
            failures_of_source: AtomicU64::new(0),
            fatal: OnceLock::new(),
            losses: Mutex::default(),
            digest: OnceLock::new(),
            digests: Mutex::default(),
            room: Room::default(),
            plans_changes: AtomicBool::new(false),
            plans_removals: AtomicBool::new(false),
            looked_at_directories: Default::default(),
            differences: Mutex::default(),
            differing_bytes: AtomicU64::new(0),
            only_in_target: Mutex::default(),
            deleted: Mutex::default(),
            lanes_open: AtomicU64::new(0),
            compression: Mutex::default(),
            started_ns: OnceLock::new(),
            scan_ended_ns: OnceLock::new(),
            paused_ns: AtomicU64::new(0),
            plan_bytes: AtomicU64::new(0),
            directories_with_drafts: AtomicU64::new(0),
            has_failed_links: AtomicBool::new(false),
        }
    }

    /// Records that a source directory holds drafts, which are left out. Returns the number of earlier ones.
    pub fn directory_with_drafts(&self) -> u64 {
        self.directories_with_drafts.fetch_add(1, Relaxed)
    }

    /// Records that a hard link could not be created. Returns true the first time.
    pub fn link_failed(&self) -> bool {
        !self.has_failed_links.swap(true, Relaxed)
    }

    pub fn fatal(&self, error: Error) {
        let _first_wins = self.fatal.set(error);
    }

    pub fn lane_opened(&self, now_ns: u64) {
        self.lanes_open.fetch_add(1, Relaxed);
        self.started_ns.get_or_init(|| now_ns);
    }

    /// Returns the number of lanes that were opened so far.
    pub fn lanes_open(&self) -> usize {
        usize::try_from(self.lanes_open.load(Relaxed)).unwrap_or(usize::MAX)
    }

    pub fn scan_ended(&self, now_ns: u64) {
        self.scan_ended_ns.get_or_init(|| now_ns);
    }

    /// Records a lane's choice of compression levels, a rare event. Returns the choice if it is to be reported.
    pub fn compressed(&self, lane: &CompressionStats, now_ns: u64) -> Option<LevelChoice> {
        let mut known = self.compression.lock().unwrap_or_else(PoisonError::into_inner);
        known.0.merge(lane.levels);
        lane.choice.filter(|choice| known.1.tells(choice, now_ns))
    }

    /// Returns the space that the run needs at the target.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Records a change found by a dry run, and the number of bytes to transfer for it.
    pub fn plan_change(&self, bytes: u64) {
        self.plan_bytes.fetch_add(bytes, Relaxed);
        self.plans_changes.store(true, Relaxed);
    }

    /// Records requests that planned changes would take.
    pub fn plan_requests(&self, requests: &RunRequests) {
        self.planned_requests.lock().unwrap_or_else(PoisonError::into_inner).merge(requests);
    }

    /// Returns the requests that planned changes would take.
    pub fn planned_requests(&self) -> RunRequests {
        *self.planned_requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that an end was asked for a directory.
    pub fn look_at_directory(&self, at_target: bool) {
        self.looked_at_directories[usize::from(at_target)].fetch_add(1, Relaxed);
    }

    /// Returns the numbers of directories that the source and the target were asked for.
    pub fn looked_at_directories(&self) -> [u64; 2] {
        [0, 1].map(|end| self.looked_at_directories[end].load(Relaxed))
    }

    /// Records that a dry run found something to delete.
    pub fn plan_removal(&self) {
        self.plans_removals.store(true, Relaxed);
    }

    /// Returns true if a dry run found anything to delete.
    pub fn plans_removals(&self) -> bool {
        self.plans_removals.load(Relaxed)
    }

    /// Returns true if a dry run found any change.
    pub fn plans_changes(&self) -> bool {
        self.plans_changes.load(Relaxed)
    }

    /// Keeps the first paths as examples.
    pub fn only_in_target(&self, path: &EntryPath) {
        let mut kept = self.only_in_target.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < ONLY_IN_TARGET_KEPT_MAX {
            kept.push(path.clone());
        }
    }

    /// Keeps the first paths that were deleted.
    pub fn deleted<'p>(&self, paths: impl IntoIterator<Item = &'p EntryPath>) {
        let mut kept = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, bytes) = &mut *kept;
        for path in paths {
            if kept.len() >= DELETIONS_KEPT_MAX || *bytes >= DELETIONS_KEPT_BYTES {
                return;
            }
            *bytes += path.as_bytes().len();
            kept.push(path.clone());
        }
    }

    pub fn digest(&self, digest: Digest) {
        let _only_one = self.digest.set(digest);
    }

    pub fn digest_of(&self, root: u16, digest: Digest) {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.len() < FAILURES_KEPT_MAX {
            digests.push((root, digest));
        }
    }

    /// Records a difference. The pieces of a chunk come in order, so adjacent ones are merged into one range.
    pub fn difference(&self, difference: Difference) {
        let mut differences = self.differences.lock().unwrap_or_else(PoisonError::into_inner);
        if let Different::Range(extent) = difference.what {
            self.differing_bytes.fetch_add(extent.length, Relaxed);
            let lately = differences.iter_mut().rev().take(LANES_MAX.into());
            for known in lately.filter(|known| known.path == difference.path) {
                if let Different::Range(range) = &mut known.what
                    && range.end() == extent.offset
                {
                    range.length += extent.length;
                    return;
                }
            }
        }
        if differences.len() < DIFFERENCES_KEPT_MAX {
            differences.push(difference);
        }
    }

    pub fn failure(&self, failure: &Failure) {
        if failure.error.is_source_change() {
            self.failures_of_source.fetch_add(1, Relaxed);
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_KEPT_MAX {
            failures.push(failure.clone());
        }
    }

    /// Returns true if nothing has failed so far.
    pub fn is_clean(&self) -> bool {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn losses(&self, losses: Vec<Loss>) {
        if losses.is_empty() {
            return;
        }
        let mut sums = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        for loss in losses {
            match sums.get_mut(&loss.what) {
                Some(sum) => sum.count = sum.count.saturating_add(loss.count),
                None => {
                    sums.insert(loss.what, loss);
                }
            }
        }
    }

    /// Adds to the time in which a timetable paused the run, in nanoseconds.
    pub fn paused(&self, paused_ns: u64) {
        self.paused_ns.fetch_add(paused_ns, Relaxed);
    }

    pub fn snapshot(&self, scan_done: bool) -> CounterTotals {
        let mut sum = CounterTotals {
            scan_done,
            paused_ns: self.paused_ns.load(Relaxed),
            planned_bytes: self.plan_bytes.load(Relaxed),
            ..self.ends.clone()
        };
        self.lanes.iter().for_each(|lane| sum.add(lane));
        sum
    }

    pub fn into_summary(self, now_ns: u64) -> RunSummary {
        let started = self.started_ns.get().copied().unwrap_or(now_ns);
        let scan_ended = self.scan_ended_ns.get().copied().unwrap_or(now_ns);
        RunSummary {
            counters: self.snapshot(self.scan_ended_ns.get().is_some()),
            failures: self.failures.into_inner().unwrap_or_else(PoisonError::into_inner),
            failures_of_source: self.failures_of_source.into_inner(),
            fatal: self.fatal.into_inner(),
            losses: self.losses.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect(),
            digest: self.digest.into_inner(),
            digests: self.digests.into_inner().unwrap_or_else(PoisonError::into_inner),
            differences: in_order(self.differences.into_inner().unwrap_or_else(PoisonError::into_inner)),
            differing_bytes: self.differing_bytes.into_inner(),
            only_in_target: self.only_in_target.into_inner().unwrap_or_else(PoisonError::into_inner),
            deleted: self.deleted.into_inner().unwrap_or_else(PoisonError::into_inner).0,
            lanes: self.lanes_open.into_inner() as u16,
            levels: self.compression.into_inner().unwrap_or_else(PoisonError::into_inner).0,
            scan_ns: scan_ended.saturating_sub(started),
            transfer_ns: now_ns.saturating_sub(started),
            requests: RunRequests::default(),
            planned_requests: RunRequests::default(),
        }
    }
}

/// Sorts differences, and merges ranges that touch.
fn in_order(mut ranges: Vec<Difference>) -> Vec<Difference> {
    ranges.sort();
    ranges.dedup_by(|next, before| match (&next.what, &mut before.what) {
        (Different::Range(next_range), Different::Range(range))
            if next.path == before.path && range.end() == next_range.offset =>
        {
            range.length += next_range.length;
            true
        }
        _ => false,
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::extent::Extent;

    fn record() -> RunRecord {
        let able = Capabilities::posix(true);
        RunRecord::new(1, &able, &able)
    }

    fn failure(path: &str, kind: ErrorKind) -> Failure {
        Failure { path: path.into(), error: Error::new(kind, "copying", "") }
    }

    fn range(path: &str, offset: u64, length: u64) -> Difference {
        Difference::new(path, Different::Range(Extent { offset, length }))
    }

    fn summary(failures: &[Failure]) -> RunSummary {
        let record = record();
        failures.iter().for_each(|failure| record.failure(failure));
        record.lanes[0].entries_failed.add(failures.len() as u64);
        record.into_summary(0)
    }

    #[test]
    fn what_fails_in_both_parts_of_a_run_is_counted_once() {
        use ErrorKind::{Io, SourceChanged, SourceVanished};
        let earlier = summary(&[failure("a", Io), failure("b", SourceChanged), failure("c", SourceVanished)]);
        let mut later = summary(&[failure("b", SourceChanged), failure("d", Io)]);
        assert_eq!((earlier.failures_of_source, later.failures_of_source), (2, 1));
        later.add_failures(&earlier);
        let paths: Vec<_> = later.failures.iter().map(|failure| &failure.path[..]).collect();
        assert_eq!(paths, [b"b", b"d", b"a", b"c"]);
        assert_eq!((later.counters.entries_failed, later.failures_of_source), (4, 2));
    }

    #[test]
    fn failures_that_are_not_kept_are_counted_all_the_same() {
        let mut earlier = summary(&[failure("a", ErrorKind::Io)]);
        earlier.counters.entries_failed = 50_000;
        let mut later = summary(&[failure("a", ErrorKind::Io)]);
        later.failures = vec![failure("x", ErrorKind::Io); FAILURES_KEPT_MAX];
        later.add_failures(&earlier);
        assert_eq!(later.failures.len(), FAILURES_KEPT_MAX);
        assert_eq!(later.counters.entries_failed, 50_001);
        let record = record();
        (0..=FAILURES_KEPT_MAX).for_each(|_| record.failure(&failure("a", ErrorKind::SourceChanged)));
        assert!(!record.is_clean());
        let summary = record.into_summary(0);
        assert_eq!(summary.failures.len(), FAILURES_KEPT_MAX);
        assert_eq!(summary.failures_of_source, FAILURES_KEPT_MAX as u64 + 1);
    }

    #[test]
    fn ranges_that_touch_become_one_and_all_bytes_count() {
        let record = record();
        for difference in [range("b", 10, 5), range("a", 20, 10), range("a", 0, 10), range("a", 10, 5)] {
            record.difference(difference);
        }
        // With several lanes comparing, the end of a range may come before its beginning.
        record.difference(range("a", 15, 5));
        record.difference(Difference::new(*b"a", Different::Mode));
        let summary = record.into_summary(0);
        let mode = Difference::new(*b"a", Different::Mode);
        let mut expected = vec![range("a", 0, 30), mode, range("b", 10, 5)];
        expected.sort();
        assert_eq!((summary.differences, summary.differing_bytes), (expected, 35));
    }

    #[test]
    fn ranges_of_different_files_or_with_a_gap_stay_apart() {
        let record = record();
        let all = [range("a", 0, 10), range("a", 11, 10), range("b", 21, 10)];
        all.iter().for_each(|difference| record.difference(difference.clone()));
        assert_eq!(record.into_summary(0).differences, all);
    }

    #[test]
    fn no_more_is_kept_than_the_limits_say() {
        let record = record();
        for index in 0..=DIFFERENCES_KEPT_MAX as u64 {
            record.difference(range("a", 2 * index, 1));
        }
        for index in 0..=ONLY_IN_TARGET_KEPT_MAX {
            record.only_in_target(&EntryPath::new(format!("e{index:02}")).unwrap());
        }
        for index in 0..=DELETIONS_KEPT_MAX {
            record.deleted([&EntryPath::new(format!("d{index}")).unwrap()]);
        }
        let summary = record.into_summary(0);
        assert_eq!(summary.deleted.len(), DELETIONS_KEPT_MAX);
        let (record, long) = (self::record(), EntryPath::new(["x"; 1000].join("/")).unwrap());
        (0..DELETIONS_KEPT_MAX).for_each(|_| record.deleted([&long]));
        assert_eq!(record.into_summary(0).deleted.len(), DELETIONS_KEPT_BYTES / 1999 + 1);
        assert_eq!(summary.differences.len(), DIFFERENCES_KEPT_MAX);
        assert_eq!(summary.differing_bytes, DIFFERENCES_KEPT_MAX as u64 + 1);
        assert_eq!(summary.only_in_target.len(), ONLY_IN_TARGET_KEPT_MAX);
        assert_eq!(summary.only_in_target[9].as_bytes(), b"e09");
    }

    #[test]
    fn what_a_plan_needs_is_added_up() {
        let record = record();
        assert!(record.is_clean() && !record.plans_changes());
        record.plan_change(9);
        record.plan_change(0);
        assert!(record.plans_changes());
        assert_eq!(record.snapshot(false).planned_bytes, 9);
        assert_eq!([record.directory_with_drafts(), record.directory_with_drafts()], [0, 1]);
    }

    #[test]
    fn losses_are_counted_by_kind_with_the_first_example() {
        let loss =
            |what, count, example: &str| Loss { what, count, at_target: false, example: example.into() };
        let record = record();
        record.losses(Vec::new());
        record.losses(vec![loss(LossKind::Owner, 2, "a"), loss(LossKind::Acl, 1, "b")]);
        record.losses(vec![loss(LossKind::Owner, 3, "c")]);
        let expected = [loss(LossKind::Acl, 1, "b"), loss(LossKind::Owner, 5, "a")];
        assert_eq!(record.into_summary(0).losses, expected);
    }

    #[test]
    fn the_first_fatal_error_and_the_first_digest_count() {
        let record = record();
        let error = |kind| Error::new(kind, "copying", "");
        record.fatal(error(ErrorKind::NoSpace));
        record.fatal(error(ErrorKind::Cancelled));
        record.digest([1; 32]);
        record.digest([2; 32]);
        record.digest_of(0, [3; 32]);
        record.digest_of(1, [4; 32]);
        record.lane_opened(100);
        record.lane_opened(150);
        record.scan_ended(300);
        record.scan_ended(400);
        record.paused(7);
        record.paused(8);
        let summary = record.into_summary(1000);
        assert_eq!(summary.fatal.map(|error| error.kind), Some(ErrorKind::NoSpace));
        assert_eq!((summary.digest, summary.digests), (Some([1; 32]), vec![(0, [3; 32]), (1, [4; 32])]));
        assert_eq!((summary.lanes, summary.scan_ns, summary.transfer_ns), (2, 200, 900));
        assert!(summary.counters.scan_done && summary.counters.paused_ns == 15);
    }
}
