//! Several engines copy ranges of one large file, and the result is that of a single engine.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hakobu_core::counters::CounterTotals;
use hakobu_core::engine::{RunSummary, Setup, run};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::NoObserver;
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryShare, DirectorySlice, NameShare, WorkDemand, WorkExchange, WorkShare,
};
use hakobu_core::extent::{CHUNK_BYTES, Extent, JOURNALED_FROM_BYTES};
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::job::Job;
use hakobu_core::open_file::{OpenFileEnd, OpenFileRange, OpenLargeFile};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_core::target_lease::TargetLease;
use hakobu_endpoints::local::{LocalSource, LocalTarget, SourceRoot, TargetOptions};
use hakobu_testkit::faults::OperationKind::{Confirm, Read, Write};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan, Faulty};

use crate::bench::{Counter, Order, Place, Watchdog};
use crate::exchange::{figures, run_one};
use crate::tree::{Numbers, content, dress_all, stamp};
use crate::view::{assert_same, drafts};

const CHUNK: usize = CHUNK_BYTES as usize;

/// One unit of work, and what its run gives away.
#[derive(Default)]
struct RangeUnit {
    begins: Mutex<Option<Vec<WorkShare>>>,
    range_bytes: Option<u64>,
    is_repeated: bool,
    files: Mutex<Vec<(OpenLargeFile, Vec<Extent>)>>,
    torn: Mutex<Vec<Error>>,
    ends: Mutex<Vec<DirectoryEnd>>,
    lease: Option<TargetLease>,
}

impl WorkExchange for RangeUnit {
    fn begin(&self) -> Option<Vec<WorkShare>> {
        self.begins.lock().unwrap().take()
    }

    fn demand(&self, _entries: u64, _bytes: u64) -> WorkDemand {
        WorkDemand::Nothing
    }

    fn give(&self, _shares: Vec<DirectoryShare>) {
        panic!("nothing was wanted");
    }

    fn slice_demand(&self, _entries: u64) -> WorkDemand {
        WorkDemand::Nothing
    }

    fn give_slices(&self, _slices: Vec<DirectorySlice>) {
        panic!("nothing was wanted");
    }

    fn takes_names(&self) -> bool {
        false
    }

    fn give_names(&self, _names: Vec<NameShare>) {
        panic!("nothing was wanted");
    }

    fn range_bytes(&self, _left_bytes: u64) -> Option<u64> {
        self.range_bytes
    }

    fn give_ranges(&self, file: OpenLargeFile, ranges: Vec<Extent>) {
        self.files.lock().unwrap().push((file, ranges));
    }

    fn tear(&self, _file: &OpenLargeFile, error: Error) {
        self.torn.lock().unwrap().push(error);
    }

    fn leave_open(&self, directories: Vec<DirectoryEnd>) {
        self.ends.lock().unwrap().extend(directories);
    }

    fn lease(&self) -> &TargetLease {
        self.lease.as_ref().unwrap()
    }
}

/// Copies one source to one target in units, each under a lease of its own.
struct Together<'a> {
    place: &'a Place,
    job: Job,
    /// The key of the job.
    key: u8,
    grant: Grant,
    leases: AtomicU64,
    totals: Mutex<CounterTotals>,
}

impl<'a> Together<'a> {
    fn new(place: &'a Place) -> Self {
        let job = Job { clone: false, ..Order::contents(2).job };
        let (leases, totals) = (AtomicU64::new(1), Mutex::default());
        Self { place, job, key: 5, grant: Grant::everything(), leases, totals }
    }

    /// Runs a unit whose source and target have faults.
    fn run(&self, unit: &mut RangeUnit, source: FaultPlan, target: FaultPlan) -> RunSummary {
        let lease = TargetLease::endless(self.leases.fetch_add(1, Relaxed).to_le_bytes());
        let begins_with_items = unit.begins.lock().unwrap().is_none();
        let lease = if begins_with_items { lease.of_items() } else { lease };
        let lease = if unit.is_repeated { lease.repeated() } else { lease };
        unit.lease = Some(lease.clone());
        let local = LocalSource::open(&[SourceRoot { path: self.place.source() }]).unwrap();
        let mut key = [self.key; 32];
        key[8..16].copy_from_slice(&lease.key());
        let options = TargetOptions { job: key, durable: true, state: None };
        let grant = Grant { lease: Some(lease), ..self.grant.clone() };
        let summary = run(&Setup {
            source: &Faulty::new(local, source),
            target: &Faulty::new(LocalTarget::open(&self.place.target(), grant, options).unwrap(), target),
            job: &self.job,
            observer: &NoObserver,
            clock: &Counter::default(),
            tagger: Tagger::new(TagKey([3; TAG_KEY_BYTES])).unwrap(),
            changes: &(),
            cancel: &false.into(),
            exchange: Some(unit),
        });
        if summary.fatal.is_none() {
            self.totals.lock().unwrap().merge(&summary.counters);
        }
        summary
    }

    /// Begins with everything. Returns the file that is open, with its ranges, and the ends of directories.
    fn begin(&self, range_bytes: u64) -> (OpenLargeFile, Vec<Extent>, Vec<DirectoryEnd>) {
        let mut unit = RangeUnit { range_bytes: Some(range_bytes), ..RangeUnit::default() };
        let summary = self.run(&mut unit, FaultPlan::new(1), FaultPlan::new(2));
        assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
        let mut files = unit.files.into_inner().unwrap();
        let (file, ranges) = files.pop().expect("a file is open");
        assert!(files.is_empty() && !ranges.is_empty());
        (file, ranges, unit.ends.into_inner().unwrap())
    }

    /// Copies a range. Returns what tore the file.
    fn range(&self, file: &OpenLargeFile, extent: Extent) -> Vec<Error> {
        let (summary, torn) = self.range_with(file, extent, false, (FaultPlan::new(1), FaultPlan::new(2)));
        assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
        torn
    }

    fn range_with(
        &self,
        file: &OpenLargeFile,
        extent: Extent,
        is_repeated: bool,
        (source, target): (FaultPlan, FaultPlan),
    ) -> (RunSummary, Vec<Error>) {
        let share = WorkShare::Range(OpenFileRange { file: file.clone(), extent });
        // A range is divided no further.
        let range_bytes = Some(CHUNK_BYTES);
        let begins = Mutex::new(Some(vec![share]));
        let mut unit = RangeUnit { begins, range_bytes, is_repeated, ..RangeUnit::default() };
        let summary = self.run(&mut unit, source, target);
        assert!(unit.files.into_inner().unwrap().is_empty() && unit.ends.into_inner().unwrap().is_empty());
        (summary, unit.torn.into_inner().unwrap())
    }

    /// Ends the file, and then the directories. Returns the failures.
    fn end(
        &self,
        file: &OpenLargeFile,
        torn: Option<Error>,
        mut ends: Vec<DirectoryEnd>,
    ) -> Vec<(String, ErrorKind)> {
        ends.sort_by_key(|end| std::cmp::Reverse(end.place.target.names().count()));
        let end = vec![WorkShare::File(OpenFileEnd { file: file.clone(), torn })];
        let mut failures = Vec::new();
        for shares in [end, ends.into_iter().map(WorkShare::End).collect()] {
            let mut unit = RangeUnit { begins: Mutex::new(Some(shares)), ..RangeUnit::default() };
            let summary = self.run(&mut unit, FaultPlan::new(1), FaultPlan::new(2));
            assert!(summary.fatal.is_none(), "{summary:?}");
            assert!(unit.torn.into_inner().unwrap().is_empty() && unit.ends.into_inner().unwrap().is_empty());
            failures.extend(
                summary
                    .failures
                    .iter()
                    .map(|failure| (String::from_utf8_lossy(&failure.path).into_owned(), failure.error.kind)),
            );
        }
        failures
    }
}

/// Makes a tree with one large file, which has data, zeros, and holes within and between chunks.
fn tree(root: &Path, chunks: usize) -> PathBuf {
    let numbers = &mut Numbers(9);
    fs::create_dir_all(root.join("d/e")).unwrap();
    fs::write(root.join("d/small"), "small").unwrap();
    let large = root.join("d/e/large");
    let file = fs::File::create(&large).unwrap();
    file.set_len((chunks * CHUNK + 4321) as u64).unwrap();
    for chunk in 0..=chunks {
        let (at, length) = match chunk % 4 {
            0 => (0, CHUNK),
            1 => (CHUNK / 2 + 77, 300_000),
            2 => continue,
            _ => (0, 9000),
        };
        let length = length.min(chunks * CHUNK + 4321 - chunk * CHUNK);
        file.write_all_at(&content(numbers, length), (chunk * CHUNK + at) as u64).unwrap();
    }
    file.write_all_at(b"end", (chunks * CHUNK + 4318) as u64).unwrap();
    dress_all(root, numbers);
    large
}

fn blocks(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks()
}

#[test]
fn engines_that_share_a_large_file_copy_what_one_copies() {
    for (range_chunks, engines) in [(1, 3), (5, 2)] {
        let _watchdog = Watchdog::new();
        let (alone, place) = (Place::new(), Place::new());
        let large = tree(&place.source(), 20);
        let together = Together::new(&place);
        let (expected, _) = run_one(&place.source(), &alone.target(), &together.job, None);
        let (file, ranges, ends) = together.begin(range_chunks * CHUNK_BYTES);
        assert!(!place.target().join("d/e/large").exists());
        let covered: u64 = ranges.iter().map(|range| range.length).sum();
        assert!(ranges.len() >= 3 && covered >= 15 * CHUNK_BYTES, "{ranges:?}");
        let waiting = Mutex::new(ranges);
        std::thread::scope(|scope| {
            for _ in 0..engines {
                scope.spawn(|| {
                    while let Some(range) = { waiting.lock().unwrap().pop() } {
                        assert_eq!(together.range(&file, range), []);
                    }
                });
            }
        });
        assert!(!place.target().join("d/e/large").exists(), "it is not complete");
        assert_eq!(drafts(&place.target()).len(), 2, "the draft and the journal of the first unit");
        assert_eq!(together.end(&file, None, ends), []);
        assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
        assert_same(&place.source_view(), &place.target_view());
        assert_same(&alone.target_view(), &place.target_view());
        let (copied, original) = (blocks(&place.target().join("d/e/large")), blocks(&large));
        assert!(copied <= original, "{copied} blocks of {original}: holes are kept");
        assert_eq!(figures(&expected.counters), figures(&together.totals.lock().unwrap()));
    }
}

/// A range that another lease has written in part, or all of it, is written again.
#[test]
fn a_range_is_copied_again_after_its_lease_was_lost() {
    let _watchdog = Watchdog::new();
    let place = Place::new();
    let large = tree(&place.source(), 8);
    let together = Together::new(&place);
    let (file, ranges, ends) = together.begin(8 * CHUNK_BYTES);
    let [range] = ranges[..] else { panic!("{ranges:?}") };
    let lost = FaultPlan::new(2).on(Write, FaultCondition::Nth(3), FaultEffect::LaneLost);
    let (summary, torn) = together.range_with(&file, range, false, (FaultPlan::new(1), lost));
    assert_eq!((summary.fatal.unwrap().kind, torn), (ErrorKind::ConnectionLost, vec![]));
    assert_eq!(drafts(&place.target()).len(), 1, "it is left to the next lease");
    // Whatever was written where the source has a hole is not the version that is copied.
    let draft = fs::File::options().write(true).open(&drafts(&place.target())[0]).unwrap();
    draft.write_all_at(&[7; 9], 2 * CHUNK_BYTES + 5).unwrap();
    for _ in 0..2 {
        let none = (FaultPlan::new(1), FaultPlan::new(2));
        let (summary, torn) = together.range_with(&file, range, true, none);
        assert!(summary.fatal.is_none() && torn.is_empty(), "{summary:?}");
    }
    assert_eq!(together.end(&file, None, ends), []);
    assert_same(&place.source_view(), &place.target_view());
    assert!(blocks(&place.target().join("d/e/large")) <= blocks(&large));
}

/// Writes other content into a file.
fn change(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(b"changed", 9).unwrap();
    file.write_all_at(b"changed", 5 * CHUNK_BYTES).unwrap();
    drop(file);
    stamp(path, 1_234_567_890, 1);
}

#[test]
fn a_file_that_changes_is_copied_anew() {
    // Before the first range, after it, and before the end; at the end without anybody having told.
    for changes_at in 0..4 {
        let _watchdog = Watchdog::new();
        let place = Place::new();
        let large = tree(&place.source(), 8);
        let together = Together::new(&place);
        let (file, ranges, ends) = together.begin(3 * CHUNK_BYTES);
        let mut torn = Vec::new();
        for (number, range) in ranges.iter().enumerate() {
            if number == changes_at {
                change(&large);
            }
            torn.extend(together.range(&file, *range));
        }
        assert!(torn.iter().all(|error| error.kind == ErrorKind::SourceChanged), "{torn:?}");
        assert_eq!(torn.len(), ranges.len().saturating_sub(changes_at));
        if changes_at >= ranges.len() {
            change(&large);
        }
        assert_eq!(together.end(&file, torn.pop(), ends), []);
        assert_same(&place.source_view(), &place.target_view());
        assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
        let totals = together.totals.lock().unwrap();
        assert_eq!((totals.entries_scanned, totals.entries_created), (5, 4), "each once");
    }
}

/// The source may change while a range of it is read, and after that.
#[test]
fn a_file_that_changes_while_a_range_is_copied_is_torn() {
    for (kind, number) in [(Read, 2), (Confirm, 1)] {
        let _watchdog = Watchdog::new();
        let place = Place::new();
        let large = tree(&place.source(), 8);
        let together = Together::new(&place);
        let (file, ranges, ends) = together.begin(8 * CHUNK_BYTES);
        let changed = large.clone();
        let changes = FaultEffect::Call(std::sync::Arc::new(move || change(&changed)));
        let source = FaultPlan::new(1).on(kind, FaultCondition::Nth(number), changes);
        let (summary, mut torn) = together.range_with(&file, ranges[0], false, (source, FaultPlan::new(2)));
        assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
        let kinds: Vec<_> = torn.iter().map(|error| error.kind).collect();
        assert_eq!(kinds, [ErrorKind::SourceChanged], "{kind:?}");
        assert_eq!(together.end(&file, torn.pop(), ends), []);
        assert_same(&place.source_view(), &place.target_view());
    }
}

#[test]
fn a_file_that_is_gone_fails() {
    let _watchdog = Watchdog::new();
    let place = Place::new();
    let large = tree(&place.source(), 8);
    let together = Together::new(&place);
    let (file, ranges, ends) = together.begin(8 * CHUNK_BYTES);
    fs::remove_file(large).unwrap();
    let torn = together.range(&file, ranges[0]).pop().unwrap();
    let failures = together.end(&file, Some(torn), ends);
    assert_eq!(failures, [("d/e/large".to_owned(), ErrorKind::NotFound)]);
    assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
}

#[test]
fn a_range_that_cannot_be_read_fails_its_file_once() {
    let _watchdog = Watchdog::new();
    let place = Place::new();
    tree(&place.source(), 8);
    let together = Together::new(&place);
    let (file, ranges, ends) = together.begin(3 * CHUNK_BYTES);
    let mut torn = Vec::new();
    for range in &ranges {
        let source = FaultPlan::new(1).on(Read, FaultCondition::Nth(2), FaultEffect::Error(ErrorKind::Io));
        let (summary, why) = together.range_with(&file, *range, false, (source, FaultPlan::new(2)));
        assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
        assert_eq!(summary.counters.entries_failed, 0);
        torn.extend(why);
    }
    assert!(torn.len() > 1 && torn.iter().all(|error| error.kind == ErrorKind::Io), "{torn:?}");
    let failures = together.end(&file, torn.pop(), ends);
    assert_eq!(failures, [("d/e/large".to_owned(), ErrorKind::Io)]);
    assert!(!place.target().join("d/e/large").exists() && place.target().join("d/small").exists());
    assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
    let totals = together.totals.lock().unwrap();
    assert_eq!((totals.entries_failed, totals.entries_created), (1, 3));
}

#[test]
fn a_file_whose_draft_is_gone_is_copied_anew() {
    for is_told in [true, false] {
        let _watchdog = Watchdog::new();
        let place = Place::new();
        tree(&place.source(), 8);
        let together = Together::new(&place);
        let (file, ranges, ends) = together.begin(8 * CHUNK_BYTES);
        if !is_told {
            assert_eq!(together.range(&file, ranges[0]), []);
        }
        drafts(&place.target()).iter().for_each(|draft| fs::remove_file(draft).unwrap());
        let torn = if is_told { together.range(&file, ranges[0]).pop() } else { None };
        assert_eq!(torn.as_ref().map(|error| error.kind), is_told.then_some(ErrorKind::NotFound));
        assert_eq!(together.end(&file, torn, ends), []);
        assert_same(&place.source_view(), &place.target_view());
    }
}

/// Shares come from outside.
#[test]
fn ranges_of_other_files_are_not_written() {
    let _watchdog = Watchdog::new();
    let place = Place::new();
    let large = tree(&place.source(), 8);
    let together = Together::new(&place);
    let (file, ranges, ends) = together.begin(8 * CHUNK_BYTES);
    let mine = place.target().join("d/e/mine");
    fs::write(&mine, "a user's").unwrap();
    fs::File::options().write(true).open(&mine).unwrap().set_len(fs::metadata(large).unwrap().len()).unwrap();
    // A name like that of a draft is no proof.
    let name = String::from_utf8(file.draft.clone()).unwrap();
    let imitated = name.replace(&name[9..11], "aa");
    assert_ne!(imitated, name);
    fs::copy(&mine, place.target().join("d/e").join(&imitated)).unwrap();
    for draft in ["mine", "../e/mine", "", ".", &imitated] {
        let other = OpenLargeFile { draft: draft.as_bytes().to_vec(), ..file.clone() };
        let torn = together.range(&other, ranges[0]);
        assert_eq!(torn.iter().map(|error| error.kind).collect::<Vec<_>>(), [ErrorKind::NotFound], "{draft}");
    }
    assert!(fs::read(&mine).unwrap().starts_with(b"a user's\0"));
    fs::remove_file(&mine).unwrap();
    fs::remove_file(place.target().join("d/e").join(&imitated)).unwrap();
    let size_bytes = file.version.size_bytes;
    for (offset, length) in [(0, size_bytes + 1), (size_bytes, 1), (1, 5), (0, 0), (CHUNK_BYTES, u64::MAX)] {
        let none = (FaultPlan::new(1), FaultPlan::new(2));
        let (summary, _) = together.range_with(&file, Extent { offset, length }, false, none);
        assert_eq!(summary.fatal.unwrap().kind, ErrorKind::Protocol, "{offset} {length}");
    }
    assert_eq!(together.range(&file, ranges[0]), []);
    assert_eq!(together.end(&file, None, ends), []);
    assert_same(&place.source_view(), &place.target_view());
}

/// A file that the user named, in a directory that nobody lists. What is left beside it is removed at the end of a run.
#[test]
fn a_file_that_the_user_named_is_shared_as_well() {
    let _watchdog = Watchdog::new();
    let place = Place::new();
    tree(&place.source(), 8);
    let mut together = Together::new(&place);
    together.job.items = Order::items(2, &[("d/e/large", "large")]).job.items;
    together.grant.places = vec![GrantedPlace::new(EntryPath::new("large").unwrap(), false)];
    let (file, ranges, ends) = together.begin(2 * CHUNK_BYTES);
    assert_eq!((drafts(&place.target()).len(), &ends[..]), (1, &[][..]));
    for range in ranges {
        assert_eq!(together.range(&file, range), []);
    }
    assert_eq!(together.end(&file, None, ends), []);
    let (source, target) = (place.source().join("d/e/large"), place.target().join("large"));
    assert!(fs::read(source).unwrap() == fs::read(target).unwrap());
    assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
}

/// A run that was cancelled: the next one of the job goes on with what its first unit has recorded, and another job removes it.
#[test]
fn a_draft_that_nobody_finishes_is_taken_over_or_removed() {
    for is_same_job in [true, false] {
        let _watchdog = Watchdog::new();
        let place = Place::new();
        let large = tree(&place.source(), JOURNALED_FROM_BYTES as usize / CHUNK + 3);
        let mut together = Together::new(&place);
        together.job.lanes = 1;
        let (file, ranges, _) = together.begin(8 * CHUNK_BYTES);
        assert_eq!(together.range(&file, ranges[0]), []);
        assert_eq!(drafts(&place.target()).len(), 2, "a draft and its journal");
        if !is_same_job {
            together.key = 6;
        }
        let summary = together.run(&mut RangeUnit::default(), FaultPlan::new(1), FaultPlan::new(2));
        assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
        assert_eq!(summary.counters.bytes_resumed > 0, is_same_job, "{summary:?}");
        assert_same(&place.source_view(), &place.target_view());
        assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
        assert!(large.exists());
    }
}

/// Whatever went wrong before, the source as it is now counts.
#[test]
fn a_file_that_is_torn_and_has_changed_is_copied_anew() {
    let _watchdog = Watchdog::new();
    let place = Place::new();
    let large = tree(&place.source(), 8);
    let together = Together::new(&place);
    let (file, _, ends) = together.begin(3 * CHUNK_BYTES);
    change(&large);
    let torn = Error::new(ErrorKind::Io, "reading", "a bad sector");
    assert_eq!(together.end(&file, Some(torn), ends), []);
    assert_same(&place.source_view(), &place.target_view());
    assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
}

/// The lease of the last unit may end between the attributes and the name.
#[test]
fn a_complete_draft_with_the_attributes_of_the_file_is_finished() {
    let _watchdog = Watchdog::new();
    let place = Place::new();
    tree(&place.source(), (JOURNALED_FROM_BYTES / CHUNK_BYTES) as usize + 4);
    let together = Together::new(&place);
    let (file, ranges, ends) = together.begin(9 * CHUNK_BYTES);
    for range in ranges {
        assert_eq!(together.range(&file, range), []);
    }
    let is_draft = |path: &&PathBuf| fs::metadata(path).unwrap().len() == file.version.size_bytes;
    let left = drafts(&place.target());
    let draft = left.iter().find(is_draft).unwrap();
    fs::set_permissions(draft, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let written = together.totals.lock().unwrap().target_written_bytes;
    assert_eq!(together.end(&file, None, ends), []);
    assert_eq!(together.totals.lock().unwrap().target_written_bytes, written, "nothing is copied again");
    assert_same(&place.source_view(), &place.target_view());
    assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
}
