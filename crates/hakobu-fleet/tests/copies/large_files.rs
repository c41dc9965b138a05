//! Brokers copy ranges of large files together.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use hakobu_core::path::is_draft_name;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::ids::RunId;
use hakobu_fleet::leader::Leader;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::run::{RunOutcome, RunRow};
use hakobu_fleet::run_request::FleetRequest;
use hakobu_fleet::worker::RangeSizes;

use crate::fleet::{Fleet, group};
use crate::tests::request;
use crate::trees;

const LIMIT: Duration = Duration::from_secs(120);
const MIB: usize = 1 << 20;
/// The size of the file: its last chunk is short.
const SIZE_BYTES: usize = 160 * MIB + 12_345;

/// Makes a file of data and holes.
fn make(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(SIZE_BYTES as u64).unwrap();
    for block in (0..SIZE_BYTES / MIB).filter(|block| block % 3 != 1) {
        let bytes: Vec<u8> = (0..MIB).map(|at| (at * 7 + at / 251 + block * 13) as u8).collect();
        file.write_all_at(&bytes, (block * MIB) as u64).unwrap();
    }
    file.write_all_at(b"the end", SIZE_BYTES as u64 - 7).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 987_654_321);
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
}

/// A fleet that divides files early, and a folder with a large file to copy.
struct Place {
    folder: tempfile::TempDir,
    fleet: Fleet,
    request: FleetRequest,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("d")).unwrap();
        make(&source.join("d/large"));
        fs::write(source.join("d/small"), "small").unwrap();
        let request = request(&source, &folder.path().join("target"));
        let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
        let (from_bytes, least_bytes) = (16 << 20, 8 << 20);
        fleet.ranges = RangeSizes { from_bytes, least_bytes, ..RangeSizes::default() };
        (0..3).for_each(|broker| fleet.add_broker(&format!("b{broker}")));
        Self { folder, fleet, request }
    }

    fn source(&self) -> std::path::PathBuf {
        self.folder.path().join("source")
    }

    fn target(&self) -> std::path::PathBuf {
        self.folder.path().join("target")
    }

    /// Starts a run that takes some seconds.
    fn start_slowly(&self) -> RunId {
        self.limit(Some(r#"{"version":1,"bytes_per_second":10000000}"#));
        self.fleet.start(&self.request)
    }

    /// Waits until so many units are committed.
    fn wait_for_units(&self, run: RunId, committed: u64) {
        let began = Instant::now();
        let units = move |leader: &mut Leader| leader.ledger().run(run).unwrap().unwrap().units.committed;
        while self.fleet.plane.handle().ask(units).unwrap() < committed {
            assert!(began.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lets a run go on without limits to its end.
    fn finish(&self, run: RunId) -> RunRow {
        self.limit(None);
        self.fleet.finish(run, LIMIT)
    }

    fn limit(&self, limits: Option<&str>) {
        let change = LedgerChange::LimitGroup(group(), limits.map(str::to_owned));
        self.fleet.plane.handle().apply(change).unwrap();
    }

    fn assert_equal(&self) {
        trees::assert_equal(&self.source(), &self.target());
        let blocks = |root: &Path| fs::metadata(root.join("d/large")).unwrap().blocks();
        assert!(blocks(&self.target()) <= blocks(&self.source()) + 64, "holes are kept");
        assert_eq!(self.drafts(), 0);
    }

    /// Returns the number of drafts at the target.
    fn drafts(&self) -> usize {
        let names = trees::paths(&self.target());
        names.iter().filter(|path| is_draft_name(path.file_name().unwrap().as_encoded_bytes())).count()
    }
}

#[test]
fn brokers_copy_one_large_file_together() {
    let place = Place::new();
    let run = place.start_slowly();
    let mut together = BTreeSet::new();
    let brokers = move |leader: &mut Leader| {
        let run = leader.active_runs().get(&run)?;
        let wrote = |unit: &&hakobu_fleet::leader::LeasedUnit| {
            unit.progress.as_ref().is_some_and(|progress| progress.bytes > 0)
        };
        Some(run.leased.values().filter(wrote).map(|unit| unit.broker.clone()).collect::<Vec<_>>())
    };
    while let Some(found) = place.fleet.plane.handle().ask(brokers).unwrap() {
        together.extend(found);
        std::thread::sleep(Duration::from_millis(20));
    }
    let row = place.fleet.finish(run, LIMIT);
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
    assert_eq!(together.len(), 3, "each broker wrote some of it");
    assert!(row.units.committed >= 8, "{:?}", row.units);
    let counters = row.counters;
    assert_eq!((counters.entries_scanned, counters.entries_created), (4, 4), "{counters:?}");
    assert!(counters.target_written_bytes < SIZE_BYTES as u64, "nothing is written twice: {counters:?}");
    place.assert_equal();
    // Again: nothing is written.
    let row = place.finish(place.start_slowly());
    assert_eq!((row.outcome, row.counters.target_written_bytes), (Some(RunOutcome::Complete), 0));
}

#[test]
fn a_large_file_that_changes_in_the_middle_is_copied_as_it_is_then() {
    let place = Place::new();
    let run = place.start_slowly();
    place.wait_for_units(run, 3);
    let file = File::options().write(true).open(place.source().join("d/large")).unwrap();
    file.write_all_at(b"changed", 5).unwrap();
    file.write_all_at(b"changed", SIZE_BYTES as u64 - 9).unwrap();
    drop(file);
    let row = place.finish(run);
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
    assert_eq!((row.counters.entries_scanned, row.counters.entries_created), (4, 4), "{row:?}");
    place.assert_equal();
}

#[test]
fn a_run_after_one_that_was_cancelled_leaves_no_draft() {
    let place = Place::new();
    let run = place.start_slowly();
    place.wait_for_units(run, 3);
    let cancel = move |leader: &mut Leader| {
        leader.cancel_run(run, |change| change, Box::new(|answer| drop(answer.unwrap())));
    };
    place.fleet.plane.handle().ask(cancel).unwrap();
    assert_eq!(place.fleet.finish(run, LIMIT).outcome, Some(RunOutcome::Cancelled));
    assert!(!place.target().join("d/large").exists() && place.drafts() > 0);
    // Brokers learn of it with their next report.
    std::thread::sleep(Duration::from_secs(1));
    let row = place.finish(place.start_slowly());
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
    place.assert_equal();
}

/// Something at the target is in the way of the final name.
#[test]
fn a_large_file_that_cannot_be_finished_fails_once() {
    let place = Place::new();
    let run = place.start_slowly();
    place.wait_for_units(run, 3);
    fs::create_dir_all(place.target().join("d/large/in the way")).unwrap();
    let row = place.finish(run);
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Partial), 1), "{row:?}");
    let failures = move |leader: &mut Leader| leader.ledger().failures(run, None, None, 9).unwrap();
    let failures = place.fleet.plane.handle().ask(failures).unwrap();
    assert_eq!(failures[0].row.failure.path, b"d/large");
    assert!(place.target().join("d/small").exists() && place.drafts() == 0);
}

/// The units of open files come in their order, and one that meets a directory finds further large files.
#[test]
fn a_large_file_that_becomes_a_directory_is_copied_with_all_that_is_in_it() {
    let place = Place::new();
    make(&place.source().join("d/z"));
    let run = place.start_slowly();
    place.wait_for_units(run, 3);
    let (folder, large) = (place.source().join("d"), place.source().join("d/large"));
    // The directory was listed before.
    let listed = fs::metadata(&folder).unwrap().modified().unwrap();
    fs::remove_file(&large).unwrap();
    fs::create_dir_all(large.join("sub")).unwrap();
    make(&large.join("sub/inner"));
    File::open(folder).unwrap().set_times(FileTimes::new().set_modified(listed)).unwrap();
    let row = place.finish(run);
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
    trees::assert_equal(&place.source(), &place.target());
    assert_eq!(place.drafts(), 0);
}
