//! Copies a million keys under one prefix to a file system and back. Memory use stays flat, and the first entry is
//! copied before all are listed.
//!
//! A process seldom returns memory that it has used, so each measurement has its own process.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hakobu_core::grant::Grant;
use hakobu_endpoints::memory::{MemoryFileSystem, MemoryObjectStore};
use hakobu_endpoints::null::NullStore;
use hakobu_endpoints::store::{ObjectPlace, StoreSource, StoreTarget};
use hakobu_testkit::faults::OperationKind::{List, Store as StorePack};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan, Faulty};

use crate::bench::{contents, contents_of, path, run_between};

const KEYS: u64 = 1_000_000;
/// The maximum memory use in KiB in addition to what the stores hold.
const ABOVE_MAX_KIB: u64 = 64 * 1024;

#[test]
#[ignore = "long"]
fn long_a_million_keys_take_no_memory_of_their_own() {
    for part in ["there_and_back", "again", "directories", "large_file"] {
        let name = format!("million::part_{part}");
        let mut process = Command::new(std::env::current_exe().unwrap());
        let status = process.args(["--ignored", "--exact", "--nocapture", &name]).status().unwrap();
        assert!(status.success(), "{name}");
    }
}

/// Returns a figure of this process in KiB.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The cost of copying everything.
#[derive(Debug)]
struct Copied {
    /// The peak memory use above that before the run, in KiB.
    above_before_kib: u64,
    /// The peak memory use above that after the run, which the stores hold, in KiB.
    above_after_kib: u64,
    /// The number of requested listings when the first pack arrived, and in total.
    listings: (u64, u64),
}

fn copied(source: Arc<dyn ObjectPlace>, target: Arc<dyn ObjectPlace>) -> Copied {
    let (listings, by_then) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&listings);
    let counted = FaultEffect::Call(Arc::new(move || {
        count.fetch_add(1, Relaxed);
    }));
    let (all, first) = (Arc::clone(&listings), Arc::clone(&by_then));
    let noted = FaultEffect::Call(Arc::new(move || first.store(all.load(Relaxed), Relaxed)));
    let source =
        Faulty::new(StoreSource::new(source), FaultPlan::new(1).on(List, FaultCondition::Always, counted));
    let opened = StoreTarget::open(target, &path(""), &Grant::everything()).unwrap();
    let target = Faulty::new(opened, FaultPlan::new(2).on(StorePack, FaultCondition::Nth(1), noted));
    // Resets the peak.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let made = run_between(&source, &target, &contents(), &AtomicBool::new(false));
    let most = status("VmHWM:");
    assert!(made.fatal.is_none() && made.failures.is_empty(), "{:?} {:?}", made.fatal, made.failures);
    Copied {
        above_before_kib: most.saturating_sub(before),
        above_after_kib: most.saturating_sub(status("VmRSS:")),
        listings: (by_then.load(Relaxed), listings.load(Relaxed)),
    }
}

fn a_million_objects() -> Arc<MemoryObjectStore> {
    let objects = Arc::new(MemoryObjectStore::new());
    for number in 0..KEYS {
        objects.upload(format!("prefix/{number:07}").as_bytes(), &number.to_le_bytes());
    }
    objects
}

#[test]
#[ignore = "a part of another test"]
fn part_there_and_back() {
    let objects = a_million_objects();
    // If nothing is kept, all memory is used by the engine.
    let engine = copied(objects.clone(), Arc::new(NullStore));
    let files = Arc::new(MemoryFileSystem::new());
    let there = copied(objects.clone(), files.clone());
    let back = Arc::new(MemoryObjectStore::new());
    let again = copied(files, back.clone());
    println!("to nowhere: {engine:?}\nthere: {there:?}\nback: {again:?}");
    assert!(engine.above_before_kib <= ABOVE_MAX_KIB);
    for made in [there, again] {
        assert!(made.above_after_kib <= ABOVE_MAX_KIB);
        assert!(made.listings.0 < made.listings.1, "all portions were listed by then");
    }
    assert_eq!(contents_of(&*objects), contents_of(&*back));
}

/// If both ends have everything, neither listing is held as a whole.
#[test]
#[ignore = "a part of another test"]
fn part_again() {
    let (source, target) = (a_million_objects(), a_million_objects());
    let made = copied(source, target);
    println!("with nothing to be done: {made:?}");
    assert!(made.above_before_kib <= ABOVE_MAX_KIB);
    assert!(made.listings.1 > 100, "{} listings", made.listings.1);
}

/// The tasks of all directories below one are not queued at the same time.
#[test]
#[ignore = "a part of another test"]
fn part_directories() {
    let objects = Arc::new(MemoryObjectStore::new());
    for number in 0..KEYS {
        objects.upload(format!("prefix/{number:07}/object").as_bytes(), &number.to_le_bytes());
    }
    // The fault injector would keep a log of all operations.
    let target = StoreTarget::open(Arc::new(NullStore), &path(""), &Grant::everything()).unwrap();
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let made = run_between(&StoreSource::new(objects), &target, &contents(), &AtomicBool::new(false));
    let above_kib = status("VmHWM:").saturating_sub(before);
    assert!(made.fatal.is_none() && made.failures.is_empty(), "{:?} {:?}", made.fatal, made.failures);
    println!("a million directories: {above_kib} KiB");
    assert!(above_kib <= ABOVE_MAX_KIB);
}

/// A store that keeps nothing does not hold a large file while it is written.
#[test]
#[ignore = "a part of another test"]
fn part_large_file() {
    let files = Arc::new(MemoryFileSystem::new());
    crate::bench::put(&*files, "large", &vec![7; 300 << 20]);
    let made = copied(files, Arc::new(NullStore));
    println!("a large file: {made:?}");
    assert!(made.above_before_kib <= ABOVE_MAX_KIB);
}
