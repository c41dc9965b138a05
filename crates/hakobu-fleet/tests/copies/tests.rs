use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hakobu_core::path::EntryPath;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::leader::Leader;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::limits_setting::LimitsSetting;
use hakobu_fleet::run::RunOutcome;
use hakobu_fleet::run_figures::RunFigures;
use hakobu_fleet::run_request::{FleetRequest, LocationText, RunVerb};
use hakobu_fleet::unit::UnitWork;

use crate::fleet::{Fleet, group};
use crate::trees;

const LIMIT: Duration = Duration::from_secs(120);

pub fn request(source: &Path, target: &Path) -> FleetRequest {
    let text = |path: &Path| LocationText(path.as_os_str().as_bytes().to_vec());
    let mut source = text(source);
    source.0.push(b'/');
    FleetRequest { sources: vec![source], target: text(target), ..FleetRequest::default() }
}

#[test]
fn brokers_copy_a_tree_together() {
    for brokers in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        fs::create_dir(&source).unwrap();
        trees::make(&source, 60, 40);
        let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
        (0..brokers).for_each(|broker| fleet.add_broker(&format!("b{broker}")));
        let run = fleet.start(&request(&source, &target));
        let row = fleet.finish(run, LIMIT);
        println!("{brokers} brokers: {:?} {} ms", row.units, row.ended.unwrap().get() - row.started.get());
        assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0));
        trees::assert_equal(&source, &target);
        // Again: nothing is written.
        let run = fleet.start(&request(&source, &target));
        let row = fleet.finish(run, LIMIT);
        println!("{brokers} brokers: {:?} {} ms", row.units, row.ended.unwrap().get() - row.started.get());
        assert_eq!(row.counters.target_written_bytes, 0, "{row:?}");
        assert_eq!(row.outcome, Some(RunOutcome::Complete));
    }
}

/// A directory of many files is the work of several brokers, and each file counts once.
#[test]
fn brokers_copy_a_directory_of_many_files_together() {
    const FILES: u64 = 6_000;
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    for number in 0..FILES {
        let name = [format!("f{number}").as_bytes(), &[0xff][..number as usize % 2]].concat();
        fs::write(source.join(OsStr::from_bytes(&name)), vec![b'x'; number as usize % 900]).unwrap();
    }
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    (0..2).for_each(|broker| fleet.add_broker(&format!("b{broker}")));
    // Before the run begins, or else it might end before the limit arrives.
    let limits = LimitsSetting { operations_per_second: Some(3000), ..LimitsSetting::default() };
    let limits = serde_json::to_string(&limits).unwrap();
    fleet.plane.handle().apply(LedgerChange::LimitGroup(group(), Some(limits))).unwrap();
    let run = fleet.start(&request(&source, &target));
    let (mut together, mut last) = (0, RunFigures::default());
    let look = move |leader: &mut Leader| {
        let run = leader.active_runs().get(&run)?;
        let figures = run.row.counters.figures().plus(run.under_way());
        Some((run.brokers().collect::<BTreeSet<_>>().len(), figures))
    };
    while let Some((count, figures)) = fleet.plane.handle().ask(look).unwrap() {
        together += usize::from(count > 1);
        // Entries that wait in a slice were found, and are not done. Nothing counts twice.
        assert!(
            figures.entries_done <= figures.entries_found && figures.entries_found <= FILES + 1,
            "{figures:?}"
        );
        last = figures;
        std::thread::sleep(Duration::from_millis(20));
    }
    let row = fleet.finish(run, LIMIT);
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
    assert!(row.units.committed >= 5 && together > 5, "{:?} {together}", row.units);
    assert_eq!((row.counters.entries_scanned, row.counters.entries_created), (FILES + 1, FILES + 1));
    let figures = row.counters.figures();
    assert_eq!((figures.entries_found, figures.entries_done), (FILES + 1, FILES + 1));
    assert!(last.entries_done <= figures.entries_done && last.bytes_done <= figures.bytes_done, "{last:?}");
    trees::assert_equal(&source, &target);
}

#[test]
fn what_failed_is_copied_again_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 8, 5);
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    fleet.add_broker("b0");
    let request = request(&source, &target);
    let run = fleet.start(&request);
    assert_eq!(fleet.finish(run, LIMIT).outcome, Some(RunOutcome::Complete));
    fs::write(source.join("d1/e1/f2"), "new").unwrap();
    fs::remove_file(target.join("d2/e2/f3")).unwrap();
    fs::remove_dir_all(target.join("d3/e3")).unwrap();
    fs::write(source.join("d4/e4/f4"), "other").unwrap();
    let path = |text: &str| (0, EntryPath::new(text).unwrap());
    let again = ["d1/e1/f2", "d2/e2/f3", "d3/e3", "d3/gone"].map(path).to_vec();
    let run = fleet.start_with(&request, UnitWork::Again(again));
    let row = fleet.finish(run, LIMIT);
    // One is no longer there.
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Partial), 1), "{row:?}");
    assert_eq!(fs::read(target.join("d1/e1/f2")).unwrap(), b"new");
    assert!(target.join("d2/e2/f3").exists() && target.join("d3/e3/f4").exists());
    assert_ne!(fs::read(target.join("d4/e4/f4")).unwrap(), b"other", "nobody asked for it");
    let run = fleet.start(&request);
    assert_eq!(fleet.finish(run, LIMIT).outcome, Some(RunOutcome::Complete));
    trees::assert_equal(&source, &target);
}

#[test]
fn all_names_of_a_file_are_linked_in_a_retry_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 3, 5);
    for name in ["d1/other", "third"] {
        fs::hard_link(source.join("d0/e0/f0"), source.join(name)).unwrap();
    }
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    fleet.add_broker("b0");
    let request = request(&source, &target);
    let run = fleet.start(&request);
    assert_eq!(fleet.finish(run, LIMIT).outcome, Some(RunOutcome::Complete));
    fs::remove_file(target.join("d1/other")).unwrap();
    let again = UnitWork::Again(vec![(0, EntryPath::new("d1/other").unwrap())]);
    let run = fleet.start_with(&FleetRequest { is_retry: true, ..request }, again);
    let row = fleet.finish(run, LIMIT);
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
    let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
    assert_eq!((inode("d1/other"), inode("third")), (inode("d0/e0/f0"), inode("d0/e0/f0")));
    // Files with one name are not counted, as they did not fail.
    let figures = row.counters.figures().shown();
    assert_eq!((figures.entries_found, row.counters.entries_created), (figures.entries_done, 1));
    assert!(figures.entries_done < trees::paths(&source).len() as u64, "{figures:?}");
    trees::assert_equal(&source, &target);
}

#[test]
fn what_a_removal_makes_way_for_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 3, 5);
    fs::create_dir_all(target.join("d1/e1/f2")).unwrap();
    fs::write(target.join("d1/e1/f2/extra"), "x").unwrap();
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    fleet.add_broker("b0");
    let run = fleet.start(&FleetRequest { verb: RunVerb::Sync, ..request(&source, &target) });
    let row = fleet.finish(run, LIMIT);
    assert_eq!(row.outcome, Some(RunOutcome::Complete), "{row:?}");
    trees::assert_equal(&source, &target);
    let counters = &row.counters;
    let done = counters.entries_created + counters.entries_unchanged + counters.entries_attributes_only;
    assert_eq!((done, counters.entries_deleted), (trees::paths(&source).len() as u64, 2), "{counters:?}");
}

#[test]
fn what_was_just_copied_does_not_allow_more_to_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 3, 5);
    fs::create_dir_all(target.join("another/tree")).unwrap();
    fs::write(target.join("another/tree/file"), "x").unwrap();
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    fleet.add_broker("b0");
    let run = fleet.start(&FleetRequest { verb: RunVerb::Sync, ..request(&source, &target) });
    let row = fleet.finish(run, LIMIT);
    assert_eq!((row.outcome, row.counters.entries_deleted), (Some(RunOutcome::Failed), 0), "{row:?}");
    assert!(target.join("another/tree/file").exists(), "three of three is more than half");
}

#[test]
fn a_comparison_after_a_copy_leaves_extra_entries_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 3, 5);
    fs::write(source.join("large"), vec![b'x'; 10 << 20]).unwrap();
    fs::create_dir_all(target.join("only here")).unwrap();
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    fleet.add_broker("b0");
    let request = FleetRequest { verify: true, ..request(&source, &target) };
    let run = fleet.start(&request);
    let row = fleet.finish(run, LIMIT);
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
    // Each file that differs is a failure, also one that is compared in pieces.
    for name in ["d1/e1/f2", "large"] {
        let changed = fs::File::options().write(true).open(target.join(name)).unwrap();
        let metadata = changed.metadata().unwrap();
        for at in [0, metadata.len() - 1] {
            std::os::unix::fs::FileExt::write_all_at(&changed, b"!", at).unwrap();
        }
        changed.set_modified(metadata.modified().unwrap()).unwrap();
    }
    let run = fleet.start(&request);
    let row = fleet.finish(run, LIMIT);
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Partial), 2), "{row:?}");
}

#[test]
fn units_tell_their_lanes_and_what_limits_them() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    (0..40).for_each(|file| fs::write(source.join(format!("f{file}")), [7; 40_000]).unwrap());
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    let run = fleet.start(&request(&source, &target));
    let limits = r#"{"version":1,"bytes_per_second":200000}"#.to_owned();
    fleet.plane.handle().apply(LedgerChange::LimitRun(run, Some(limits))).unwrap();
    fleet.add_broker("b0");
    let began = Instant::now();
    loop {
        let progress = fleet.plane.handle().ask(move |leader| {
            let unit = leader.active_runs().get(&run)?.leased.values().next()?;
            unit.progress.clone()
        });
        let progress = progress.unwrap();
        match progress {
            Some(unit) if unit.lanes > 0 && unit.limited_by == "rate limit" => break,
            _ => assert!(began.elapsed() < LIMIT, "{progress:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    fleet.plane.handle().apply(LedgerChange::LimitRun(run, None)).unwrap();
    assert_eq!(fleet.finish(run, LIMIT).outcome, Some(RunOutcome::Complete));
}
