//! Tests of copies to object stores, and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hakobu_core::error::ErrorKind;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, Mode, Removal};
use hakobu_core::losses::LossKind;
use hakobu_endpoints::memory::{MemoryFileSystem, MemoryObjectStore};
use hakobu_endpoints::store::{ObjectPlace, StoreSource, StoreTarget};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan, Faulty, OperationKind};

use crate::bench::{bytes, contents, contents_of, copy, path, put, run_between, view};

fn files() -> Arc<MemoryFileSystem> {
    let store = Arc::new(MemoryFileSystem::new());
    for number in 0..50_usize {
        put(
            &*store,
            &format!("d{}/e{}/f{number}", number % 3, number % 5),
            &bytes(number * 997, number as u64),
        );
    }
    put(&*store, "large", &bytes(20_000_000, 3));
    store
}

#[test]
fn files_go_to_an_object_store_and_come_back() {
    let (source, objects) = (files(), Arc::new(MemoryObjectStore::new()));
    let first = copy(&source, &objects, &contents());
    assert!(first.fatal.is_none() && first.failures.is_empty(), "{:?} {:?}", first.fatal, first.failures);
    assert_eq!(contents_of(&*source), contents_of(&*objects));
    let lost: Vec<_> = first.losses.iter().map(|loss| (loss.what, loss.count)).collect();
    assert!(lost.contains(&(LossKind::Times, 51)), "{lost:?}");
    // An object that was uploaded after the source changed is up to date.
    let before = view(&*objects);
    let again = copy(&source, &objects, &contents());
    let counters = &again.counters;
    assert_eq!((counters.entries_created, counters.entries_updated), (0, 0));
    assert_eq!(view(&*objects), before);
    let mut verify = contents();
    verify.mode = Mode::Compare;
    let compared = copy(&source, &objects, &verify);
    assert_eq!((compared.counters.entries_different, compared.counters.entries_failed), (0, 0));
    let back = Arc::new(MemoryFileSystem::new());
    let last = copy(&objects, &back, &contents());
    assert!(last.fatal.is_none() && last.failures.is_empty(), "{:?} {:?}", last.fatal, last.failures);
    assert_eq!(contents_of(&*source), contents_of(&*back));
    let counters = copy(&objects, &back, &contents()).counters;
    assert_eq!((counters.entries_created, counters.entries_updated), (0, 0));
}

#[test]
fn what_changed_is_uploaded_again_and_what_is_gone_removed() {
    let (source, objects) = (files(), Arc::new(MemoryObjectStore::new()));
    copy(&source, &objects, &contents());
    objects.upload(b"d0/extra/key", b"x");
    objects.upload(b"only here", b"y");
    put(&*source, "d0/e0/f0", b"longer");
    let mut removing = contents();
    (removing.removal, removing.removals_max) = (Removal::Remove, 100);
    let removed = copy(&source, &objects, &removing);
    assert!(removed.failures.is_empty(), "{:?}", removed.failures);
    assert_eq!(copy(&source, &objects, &contents()).counters.entries_updated, 1);
    assert_eq!(contents_of(&*source), contents_of(&*objects));
    assert!(objects.inspect(&path("d0/extra")).is_none());
}

#[test]
fn a_key_that_is_no_path_fails_by_itself() {
    let objects = Arc::new(MemoryObjectStore::new());
    let long = [b'l'; 300];
    let keys: [&[u8]; 7] = [b"a//b", b"a/ok", b"/top", b"..", b"x/./y", &long, b"end/"];
    keys.iter().for_each(|key| objects.upload(key, b"content"));
    let target = Arc::new(MemoryFileSystem::new());
    let made = copy(&objects, &target, &contents());
    assert!(made.fatal.is_none());
    let mut failed: Vec<_> = made.failures.iter().map(|failure| failure.path.clone()).collect();
    failed.sort();
    let expected: [&[u8]; 6] = [b"..", b"/", b"a//", b"end/", &long, b"x/./"];
    assert_eq!(failed, expected);
    assert!(made.failures.iter().all(|failure| !matches!(failure.error.kind, ErrorKind::Io)));
    assert_eq!(contents_of(&*target).len(), 1);
}

/// The first portion of a large directory is inspected once.
#[test]
fn a_key_that_is_no_path_fails_once_in_a_directory_of_many_portions() {
    let objects = Arc::new(MemoryObjectStore::new());
    objects.upload(b"prefix//x", b"");
    for number in 0..20_000 {
        objects.upload(format!("prefix/{number:05}").as_bytes(), b"");
    }
    let target = Arc::new(MemoryFileSystem::new());
    let made = copy(&objects, &target, &contents());
    let failed: Vec<_> = made.failures.iter().map(|failure| &failure.path[..]).collect();
    assert_eq!((failed, made.counters.entries_failed), (vec![&b"prefix//"[..]], 1));
    assert_eq!(contents_of(&*target).len(), 20_000);
}

#[test]
fn a_key_and_what_is_below_it_do_not_end_the_run() {
    let objects = Arc::new(MemoryObjectStore::new());
    for key in [&b"a"[..], b"a/b", b"a/c", b"d"] {
        objects.upload(key, key);
    }
    let target = Arc::new(MemoryFileSystem::new());
    // So many keys between the two that they are not in one portion.
    for (round, between) in [0, 20_000].into_iter().enumerate() {
        (0..between).for_each(|number| objects.upload(format!("a-{number}").as_bytes(), b""));
        let made = copy(&objects, &target, &contents());
        assert!(made.fatal.is_none(), "{:?}", made.fatal);
        let failed: Vec<_> =
            made.failures.iter().map(|failure| (&failure.path[..], failure.error.kind)).collect();
        assert_eq!(failed, [(&b"a"[..], ErrorKind::Conflict)], "round {round}");
        assert_eq!(contents_of(&*target).len(), 2 + between);
    }
    let other = Arc::new(MemoryFileSystem::new());
    assert_eq!(copy(&objects, &other, &contents()).counters.entries_failed, 1);
    assert_eq!(contents_of(&*other), contents_of(&*target));
    // If a store can hold both, both are copied.
    let copied = Arc::new(MemoryObjectStore::new());
    assert!(copy(&objects, &copied, &contents()).failures.is_empty());
    assert_eq!(contents_of(&*copied), contents_of(&*objects));
}

/// In a store, a directory does not take the place of an object, but exists beside it.
#[test]
fn an_object_in_the_place_of_a_directory_is_removed() {
    let (source, objects) = (files(), Arc::new(MemoryObjectStore::new()));
    for key in [&b"d0/e0"[..], b"d1"] {
        objects.upload(key, key);
    }
    let refused = copy(&source, &objects, &contents());
    assert_eq!(refused.counters.entries_failed, 2);
    let replacing = Job { removal: Removal::Count, ..contents() };
    let made = copy(&source, &objects, &replacing);
    assert!(made.fatal.is_none() && made.failures.is_empty(), "{:?} {:?}", made.fatal, made.failures);
    assert_eq!(contents_of(&*objects), contents_of(&*source));

    // An entry that the source has beside the directory stays.
    let (both, copied) = (Arc::new(MemoryObjectStore::new()), Arc::new(MemoryObjectStore::new()));
    both.upload(b"a", b"object");
    both.upload(b"a/b", b"in a directory");
    copied.upload(b"a", b"object");
    assert!(copy(&both, &copied, &replacing).failures.is_empty());
    assert_eq!(contents_of(&*copied), contents_of(&*both));
}

/// If a store lists everything below a directory at once, its directories are not requested individually.
#[test]
fn directories_come_along_with_what_they_are_in() {
    let objects = Arc::new(MemoryObjectStore::new());
    for number in 0..20_000 {
        objects.upload(format!("a/{}/b/{number}", number / 100).as_bytes(), b"content");
    }
    let files: Arc<dyn ObjectPlace> = Arc::new(MemoryFileSystem::new());
    let back: Arc<dyn ObjectPlace> = Arc::new(MemoryObjectStore::new());
    // The source lists 402 directories in three portions, and a few that were cut off are listed again. The target is
    // listed as well once it exists.
    for (target, times) in [(&files, [1, 1]), (&back, [1, 2])] {
        for times in times {
            let listings = Arc::new(AtomicU64::new(0));
            let count = |plan: FaultPlan| {
                let listings = Arc::clone(&listings);
                let counted = FaultEffect::Call(Arc::new(move || {
                    listings.fetch_add(1, Relaxed);
                }));
                plan.on(OperationKind::List, FaultCondition::Always, counted)
            };
            let source = Faulty::new(StoreSource::new(objects.clone()), count(FaultPlan::new(1)));
            let opened = StoreTarget::open(Arc::clone(target), &path(""), &Grant::everything()).unwrap();
            // A file system lists each directory separately.
            let plan = if Arc::ptr_eq(target, &back) { count(FaultPlan::new(2)) } else { FaultPlan::new(2) };
            let target = Faulty::new(opened, plan);
            let made = run_between(&source, &target, &contents(), &AtomicBool::new(false));
            assert!(made.fatal.is_none() && made.failures.is_empty(), "{:?}", made.failures);
            let asked = listings.load(Relaxed);
            assert!((3..=10 * times).contains(&asked), "{asked} listings");
        }
        assert_eq!(contents_of(&*objects), contents_of(&**target));
    }
}
