//! A million keys under one prefix, to a file system and back: memory stays flat, and the first is there before all are listed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hakobu_core::grant::Grant;
use hakobu_endpoints::memory::{MemoryFileSystem, MemoryObjectStore};
use hakobu_endpoints::null::NullStore;
use hakobu_endpoints::store::{Store, StoreSource, StoreTarget};
use hakobu_testkit::faults::OperationKind::{List, Store as StorePack};
use hakobu_testkit::faults::{Fault, Faulty, Plan, When};

use crate::bench::{contents, contents_of, path, run_between};

const KEYS: u64 = 1_000_000;
/// What may be used besides what the stores hold.
const ABOVE_MAX_KIB: u64 = 64 * 1024;

/// A figure of this process, in KiB.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Copies all, and returns how much memory was used at most besides what is used in the end, in KiB, and how many listings
/// of all there were had been asked for when the first pack came.
fn copied(source: Arc<dyn Store>, target: Arc<dyn Store>) -> (u64, u64, u64) {
    let (listings, by_then) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&listings);
    let counted = Fault::Call(Arc::new(move || {
        count.fetch_add(1, Relaxed);
    }));
    let (all, first) = (Arc::clone(&listings), Arc::clone(&by_then));
    let noted = Fault::Call(Arc::new(move || first.store(all.load(Relaxed), Relaxed)));
    let source = Faulty::new(StoreSource::new(source), Plan::new(1).on(List, When::Always, counted));
    let opened = StoreTarget::open(target, &path(""), &Grant::everything()).unwrap();
    let target = Faulty::new(opened, Plan::new(2).on(StorePack, When::Nth(1), noted));
    // From here on the peak is counted anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let made = run_between(&source, &target, &contents(), &AtomicBool::new(false));
    let above = status("VmHWM:").saturating_sub(status("VmRSS:"));
    assert!(made.fatal.is_none() && made.failures.is_empty(), "{:?} {:?}", made.fatal, made.failures);
    (above, by_then.load(Relaxed), listings.load(Relaxed))
}

#[test]
#[ignore = "long"]
fn long_a_million_keys_take_no_memory_of_their_own() {
    // One after the other: the figures are of the process.
    hold_no_large_file();
    let objects = Arc::new(MemoryObjectStore::new());
    for number in 0..KEYS {
        objects.upload(format!("prefix/{number:07}").as_bytes(), &number.to_le_bytes());
    }
    // Where nothing is kept, all that is used is the engine's.
    let before = status("VmRSS:");
    copied(objects.clone(), Arc::new(NullStore));
    let engine = status("VmHWM:").saturating_sub(before);
    let files = Arc::new(MemoryFileSystem::new());
    let there = copied(objects.clone(), files.clone());
    let back = Arc::new(MemoryObjectStore::new());
    let again = copied(files, back.clone());
    println!("the engine alone: {engine} KiB");
    assert!(engine <= ABOVE_MAX_KIB, "{engine} KiB");
    println!(
        "above the stores, in KiB; listings asked for when the first came, of all: {there:?}, back {again:?}"
    );
    for (above, first, all) in [there, again] {
        assert!(above <= ABOVE_MAX_KIB, "{above} KiB");
        assert!(first < all, "all {all} portions were listed by then");
    }
    assert_eq!(contents_of(&*objects), contents_of(&*back));
}

/// What keeps nothing holds no large file while it is written.
fn hold_no_large_file() {
    let files = Arc::new(MemoryFileSystem::new());
    crate::bench::put(&*files, "large", &vec![7; 300 << 20]);
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let target = StoreTarget::open(Arc::new(NullStore), &path(""), &Grant::everything()).unwrap();
    let made = run_between(&StoreSource::new(files), &target, &contents(), &AtomicBool::new(false));
    assert!(made.fatal.is_none() && made.failures.is_empty(), "{:?} {:?}", made.fatal, made.failures);
    let above = status("VmHWM:").saturating_sub(before);
    assert!(above <= ABOVE_MAX_KIB, "{above} KiB");
}
