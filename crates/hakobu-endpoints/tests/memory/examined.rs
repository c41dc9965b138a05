//! Tests of copies to and from an object store that keeps all attributes and lists none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hakobu_core::counters::CounterTotals;
use hakobu_core::endpoint::Change;
use hakobu_core::engine::RunSummary;
use hakobu_core::entry::{Attributes, EntryKind, FileTime};
use hakobu_core::error::ErrorKind;
use hakobu_core::filter::FilterRules;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, Mode, Removal};
use hakobu_core::listed::StoreClock;
use hakobu_core::requests::{RequestCounts, RunRequests};
use hakobu_endpoints::memory::{MemoryFileSystem, MemoryMetadataStore};
use hakobu_endpoints::store::{EntryContent, ObjectPlace, StoreSource, StoreTarget};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan, Faulty, OperationKind};

use crate::bench::{Seen, bytes, contents, copy, path, put, run_between, view};

const HOUR_NS: i64 = 3_600_000_000_000;

/// Returns a store whose clock is an hour behind, and measured exactly.
pub fn store() -> Arc<MemoryMetadataStore> {
    let clock = StoreClock { behind_ns: HOUR_NS, uncertainty_ns: 0 };
    Arc::new(MemoryMetadataStore::new(HOUR_NS, Some(clock)))
}

/// Returns a store whose clock is unknown.
fn store_without_clock() -> Arc<MemoryMetadataStore> {
    Arc::new(MemoryMetadataStore::new(HOUR_NS, None))
}

pub fn attributes(mode: u32, seconds: i64) -> Attributes {
    Attributes { mode, uid: 5, gid: 6, mtime: FileTime { seconds, nanoseconds: 9 } }
}

pub fn add(store: &dyn ObjectPlace, at: &str, content: EntryContent) {
    store.put(&path(at), content, &attributes(0o640, 1_000_000_000), &Grant::everything()).unwrap();
}

fn change(store: &dyn ObjectPlace, change: &Change) {
    store.apply(change, &Grant::everything()).unwrap();
}

fn set_mode(store: &dyn ObjectPlace, at: &str, mode: u32) {
    let attributes = attributes(mode, 1_000_000_000);
    change(store, &Change::Attributes { path: path(at), attributes, extended: None });
}

/// Returns a tree with entries of all kinds, small and large.
pub fn tree() -> Arc<MemoryFileSystem> {
    let store = Arc::new(MemoryFileSystem::new());
    for (at, length) in
        [("a", 0), ("b/c", 1), ("b/d", 4096), ("b/large", 700_000), ("e/f/g/h", 300_000), ("z", 262_144)]
    {
        add(&*store, at, EntryContent::File(bytes(length, length as u64).into()));
    }
    add(&*store, "b/link", EntryContent::Symlink(b"../z"[..].into()));
    add(&*store, "b/pipe", EntryContent::Special(EntryKind::Fifo, 0));
    add(&*store, "b/device", EntryContent::Special(EntryKind::CharDevice, 7));
    for (at, mode) in
        [("empty", 0o500), ("b", 0o711), ("e", 0o755), ("e/f", 0o755), ("e/f/g", 0o700), ("", 0o755)]
    {
        let attributes = attributes(mode, 1_000_000_123);
        change(&*store, &Change::Directory { path: path(at), attributes, extended: None });
    }
    store
}

/// Returns everything in a store with the attributes of each entry when it is asked for by itself.
pub fn all_of(store: &dyn ObjectPlace) -> Vec<(Vec<u8>, Seen)> {
    let stored = |(at, seen): (Vec<u8>, Seen)| {
        let bare = std::str::from_utf8(&at).unwrap().trim_end_matches('/');
        let found = store.inspect(&path(bare)).unwrap();
        (at, Seen { kind: found.kind, mode: found.mode, mtime: found.mtime, ..seen })
    };
    view(store).into_iter().map(stored).collect()
}

#[track_caller]
fn sound(summary: &RunSummary) -> &CounterTotals {
    assert!(
        summary.fatal.is_none() && summary.failures.is_empty(),
        "{:?} {:?}",
        summary.fatal,
        summary.failures
    );
    &summary.counters
}

/// Returns how many entries were written, how many got attributes, and how many were examined.
#[track_caller]
pub fn done(summary: &RunSummary) -> (u64, u64, u64) {
    let sum = sound(summary);
    (sum.entries_created + sum.entries_updated, sum.entries_attributes_only, sum.entries_examined)
}

#[test]
fn all_of_a_tree_goes_to_the_store_and_comes_back() {
    let (source, objects, back) = (tree(), store(), Arc::new(MemoryFileSystem::new()));
    let made = copy(&source, &objects, &contents());
    assert_eq!(done(&made).2, 0, "what is new is not examined");
    assert!(made.losses.is_empty(), "{:?}", made.losses);
    assert_eq!(all_of(&*source), all_of(&*objects));
    // The times of the uploads prove that nothing has changed.
    assert_eq!(done(&copy(&source, &objects, &contents())), (0, 0, 0));
    let made = copy(&objects, &back, &contents());
    // Large files and directories need their attributes. Those of small files come along with their content.
    assert_eq!(done(&made).2, 3 + 5 - 1);
    assert_eq!(all_of(&*source), all_of(&*back));
    // Files with times of their own may be a backup that was restored since.
    assert_eq!(done(&copy(&objects, &back, &contents())), (0, 0, 14));
    // Between stores, too.
    let other = store();
    copy(&objects, &other, &contents());
    assert_eq!(all_of(&*source), all_of(&*other));
    // The other store may lack attributes, so everything is examined.
    assert_eq!(done(&copy(&objects, &other, &contents())), (0, 0, 14));
    for (from, to) in [(&objects, &other), (&other, &objects)] {
        let verify = Job { mode: Mode::Compare, ..contents() };
        let compared = copy(from, to, &verify);
        assert_eq!((sound(&compared).entries_different, compared.counters.entries_examined), (0, 14));
    }
}

#[test]
fn without_a_clock_everything_of_equal_size_is_examined() {
    let (source, objects, back) = (tree(), store_without_clock(), Arc::new(MemoryFileSystem::new()));
    copy(&source, &objects, &contents());
    let before = all_of(&*objects);
    for job in [contents(), Job { dry_run: true, ..contents() }] {
        assert_eq!(done(&copy(&source, &objects, &job)), (0, 0, 14));
    }
    // Examined, they are told apart exactly.
    set_mode(&*source, "b/c", 0o600);
    add(&*source, "z", EntryContent::File(bytes(262_144, 1).into()));
    set_mode(&*source, "z", 0o640);
    let planned = copy(&source, &objects, &Job { dry_run: true, ..contents() });
    assert_eq!(done(&planned), (0, 1, 14));
    assert_eq!(all_of(&*objects), before);
    assert_eq!(done(&copy(&source, &objects, &contents())), (0, 1, 14));
    copy(&objects, &back, &contents());
    assert_eq!(done(&copy(&objects, &back, &contents())), (0, 0, 14));
}

/// A file that replaces another one of its size is noticed, however old it is.
#[test]
fn what_changed_after_the_upload_is_examined() {
    let (source, objects) = (tree(), store());
    copy(&source, &objects, &contents());
    let content = |seed| EntryContent::File(bytes(4096, seed).into());
    let old = attributes(0o640, 900_000_000);
    source.put(&path("b/d"), content(5), &old, &Grant::everything()).unwrap();
    change(
        &*source,
        &Change::Directory { path: path("b"), attributes: attributes(0o711, 1_000_000_123), extended: None },
    );
    // The directory may be another one as well, so all files in it are examined.
    assert_eq!(done(&copy(&source, &objects, &contents())), (1, 0, 7));
    assert_eq!(all_of(&*source), all_of(&*objects));
    assert_eq!(done(&copy(&source, &objects, &contents())), (0, 0, 0));
    // A link, a pipe and a file are told apart though their objects have one size.
    add(&*source, "b/link", EntryContent::File(b"../z"[..].into()));
    add(&*source, "b/pipe", EntryContent::File(b""[..].into()));
    add(&*source, "a", EntryContent::Special(EntryKind::Fifo, 0));
    set_mode(&*source, "b/c", 0o644);
    let made = copy(&source, &objects, &contents());
    assert_eq!((done(&made).0, done(&made).1), (3, 1));
    assert_eq!(all_of(&*source), all_of(&*objects));
    assert_eq!(done(&copy(&source, &objects, &contents())), (0, 0, 0));
}

/// Files that come with their directory have old times, and have not changed themselves.
#[test]
fn what_a_directory_brings_along_is_examined() {
    let (source, objects) = (Arc::new(MemoryFileSystem::new()), store());
    let tree = |top: &str, seed| {
        for at in ["f", "s/g", "s/t/h"] {
            add(&*source, &format!("{top}/{at}"), EntryContent::File(bytes(100, seed).into()));
        }
        for at in ["/s/t", "/s", ""] {
            let attributes = attributes(0o755, 1_000_000_000);
            change(
                &*source,
                &Change::Directory { path: path(&format!("{top}{at}")), attributes, extended: None },
            );
        }
    };
    tree("d", 1);
    tree("e", 2);
    // Same times, but other content: what rsync would not find either is left out here.
    for at in ["e/f", "e/s/g", "e/s/t/h"] {
        let attributes = attributes(0o640, 1_000_000_001);
        change(&*source, &Change::Attributes { path: path(at), attributes, extended: None });
    }
    let only_d = Job { filter: rules(&["/e"]), ..contents() };
    copy(&source, &objects, &only_d);
    assert_eq!(done(&copy(&source, &objects, &contents())).0, 6);
    for (from, to) in [("d", "t"), ("e", "d"), ("t", "e")] {
        source.rename(&path(from), &path(to)).unwrap();
    }
    let made = copy(&source, &objects, &contents());
    assert_eq!(done(&made).0, 6, "the files of both directories");
    assert_eq!(all_of(&*source), all_of(&*objects));
    assert_eq!(done(&copy(&source, &objects, &contents())), (0, 0, 0));
}

fn rules(excluded: &[&str]) -> FilterRules {
    let rule =
        |line: &&str| hakobu_core::filter::FilterRule { line: (*line).to_owned(), from: "test".to_owned() };
    FilterRules { rules: excluded.iter().map(rule).collect(), ..FilterRules::default() }
}

/// The limits of a filter are about attributes that the listing does not show.
#[test]
fn limits_of_size_and_age_hold_for_what_is_stored() {
    let objects = store();
    copy(&tree(), &objects, &contents());
    let old = attributes(0o640, 900_000_000);
    objects.put(&path("old"), EntryContent::File(b"x"[..].into()), &old, &Grant::everything()).unwrap();
    let since = Some(FileTime { seconds: 950_000_000, nanoseconds: 0 });
    for (filter, kept) in [
        (
            FilterRules { newer_than: since, ..FilterRules::default() },
            "a b/c b/d b/device b/large b/link b/pipe e/f/g/h z",
        ),
        (FilterRules { older_than: since, ..FilterRules::default() }, "b/device b/link b/pipe old"),
        (
            FilterRules { bytes_min: Some(1000), ..FilterRules::default() },
            "b/d b/device b/large b/link b/pipe e/f/g/h z",
        ),
    ] {
        let target = Arc::new(MemoryFileSystem::new());
        sound(&copy(&objects, &target, &Job { filter, ..contents() }));
        let files: Vec<String> =
            view(&*target).into_keys().map(|at| String::from_utf8(at).unwrap()).collect();
        let files: Vec<&str> = files.iter().map(|at| &**at).filter(|at| !at.ends_with('/')).collect();
        assert_eq!(files.join(" "), kept);
    }
}

#[test]
fn a_target_that_was_changed_gets_what_the_store_has() {
    let (objects, target) = (store(), Arc::new(MemoryFileSystem::new()));
    copy(&tree(), &objects, &contents());
    copy(&objects, &target, &contents());
    let before = all_of(&*target);
    // An edit of the same size, and a file of another kind.
    let now = Attributes {
        mode: 0o640,
        uid: 5,
        gid: 6,
        mtime: FileTime { seconds: 4_000_000_000, nanoseconds: 0 },
    };
    target.put(&path("b/d"), EntryContent::File(bytes(4096, 77).into()), &now, &Grant::everything()).unwrap();
    target.put(&path("b/link"), EntryContent::File(b"1234"[..].into()), &now, &Grant::everything()).unwrap();
    add(&*target, "extra/deep", EntryContent::File(b"x"[..].into()));
    let removing = Job { removal: Removal::Remove, removals_max: 100, ..contents() };
    sound(&copy(&objects, &target, &removing));
    let made = copy(&objects, &target, &contents());
    assert_eq!(done(&made).0, 2);
    assert_eq!(all_of(&*target), before);
}

#[test]
fn extra_objects_of_any_kind_are_removed() {
    let (source, objects) = (tree(), store());
    copy(&source, &objects, &contents());
    let before = all_of(&*objects);
    add(&*objects, "extra/link", EntryContent::Symlink(b"nowhere"[..].into()));
    add(&*objects, "b/pipe too", EntryContent::Special(EntryKind::Fifo, 0));
    let removing = Job { removal: Removal::Remove, removals_max: 100, ..contents() };
    let removed = copy(&source, &objects, &removing);
    assert_eq!((sound(&removed).entries_deleted, removed.counters.entries_examined), (3, 0));
    let modes = |all: Vec<(Vec<u8>, Seen)>| {
        all.into_iter().map(|(at, seen)| (at, seen.kind, seen.mode)).collect::<Vec<_>>()
    };
    assert_eq!(modes(all_of(&*objects)), modes(before), "also those of directories, which no listing shows");
}

/// Entries that cannot be examined fail by themselves, and their directory is examined again.
#[test]
fn what_cannot_be_examined_fails_and_the_rest_is_compared() {
    let (source, objects) = (tree(), store_without_clock());
    copy(&source, &objects, &contents());
    for of_target in [true, false] {
        let refused = FaultCondition::At(b"b/d".to_vec());
        let plan = FaultPlan::new(1).on(OperationKind::Inspect, refused, FaultEffect::Error(ErrorKind::Io));
        let plans = if of_target { (FaultPlan::new(2), plan) } else { (plan, FaultPlan::new(2)) };
        let (from, to): (Arc<dyn ObjectPlace>, Arc<dyn ObjectPlace>) =
            if of_target { (source.clone(), objects.clone()) } else { (objects.clone(), source.clone()) };
        let from = Faulty::new(StoreSource::new(from), plans.0);
        let to = StoreTarget::open(to, &path(""), &Grant::everything()).unwrap();
        let to = Faulty::new(to, plans.1);
        let made = run_between(&from, &to, &contents(), &AtomicBool::new(false));
        assert!(made.fatal.is_none());
        let failed: Vec<_> = made.failures.iter().map(|failure| failure.error.kind).collect();
        assert_eq!((failed, made.counters.entries_unchanged), (vec![ErrorKind::Io], 14), "{of_target}");
    }
}

/// More entries than are asked for at a time, in one directory and in many.
#[test]
fn many_entries_are_examined() {
    let (source, objects) = (Arc::new(MemoryFileSystem::new()), store_without_clock());
    for number in 0..20_000 {
        put(&*source, &format!("flat/{number}"), b"x");
    }
    for number in 0..2000 {
        put(&*source, &format!("deep/{}/{}/{number}", number % 7, number % 100), b"y");
    }
    sound(&copy(&source, &objects, &contents()));
    let again = copy(&source, &objects, &contents());
    let all = 20_000 + 2000 + 2 + 7 + 700;
    assert_eq!(done(&again), (0, 0, all));
    let back = Arc::new(MemoryFileSystem::new());
    sound(&copy(&objects, &back, &contents()));
    assert_eq!(done(&copy(&objects, &back, &contents())), (0, 0, all));
    assert_eq!(all_of(&*source), all_of(&*back));
}

/// Copies a tree to a store, and calls a function before each upload of small entries or at the end of a large one.
fn copy_while(
    source: &Arc<MemoryFileSystem>,
    objects: &Arc<MemoryMetadataStore>,
    (when, condition): (OperationKind, FaultCondition),
    change: impl Fn() + Send + Sync + 'static,
) -> RunSummary {
    let plan = FaultPlan::new(1).on(when, condition, FaultEffect::Call(Arc::new(change)));
    let from = StoreSource::new(Arc::clone(source) as Arc<dyn ObjectPlace>);
    let to = Arc::clone(objects) as Arc<dyn ObjectPlace>;
    let to = Faulty::new(StoreTarget::open(to, &path(""), &Grant::everything()).unwrap(), plan);
    run_between(&from, &to, &contents(), &AtomicBool::new(false))
}

/// Changes a file, but neither its size nor its time of the last change of content.
fn edit(source: &MemoryFileSystem, at: &str, seed: u64) {
    let length = if at == "b/d" { 4096 } else { 700_000 };
    add(source, at, EntryContent::File(bytes(length, seed).into()));
}

/// The operation that uploads a small file, and the one that makes a large file visible.
fn uploads() -> [(OperationKind, FaultCondition, &'static str); 2] {
    [
        (OperationKind::Store, FaultCondition::At(b"b".to_vec()), "b/d"),
        (OperationKind::Finish, FaultCondition::At(b"b/large".to_vec()), "b/large"),
    ]
}

#[test]
fn what_changes_while_it_is_uploaded_is_sent_again() {
    for (when, condition, at) in uploads() {
        let (source, objects) = (tree(), store());
        let (edited, is_done) = (Arc::clone(&source), AtomicBool::new(false));
        let made = copy_while(&source, &objects, (when, condition), move || {
            if !is_done.swap(true, Relaxed) {
                edit(&edited, at, 99);
            }
        });
        // The directory changed as well. What its entries are is known, but not that it will hold them.
        let failed: Vec<_> = made.failures.iter().map(|it| (&it.path[..], it.error.kind)).collect();
        assert_eq!(failed, [(&b"b"[..], ErrorKind::SourceChanged)], "{when:?}");
        // Each of the other entries counts once, as what was done for it.
        let entries = all_of(&*source).len() as u64 - 1;
        assert_eq!((made.counters.entries_created, made.counters.entries_updated), (entries, 0), "{when:?}");
        let contents_of = |store: &dyn ObjectPlace| {
            all_of(store).into_iter().map(|(at, seen)| (at, seen.content)).collect::<Vec<_>>()
        };
        assert_eq!(contents_of(&*source), contents_of(&*objects), "{when:?}");
        // After the failure, the directories that existed before are not proven.
        let again = copy(&source, &objects, &contents());
        assert_eq!((sound(&again).entries_updated, again.counters.entries_examined), (0, 14), "{when:?}");
        assert_eq!(all_of(&*source), all_of(&*objects), "{when:?}");
        assert_eq!(done(&copy(&source, &objects, &contents())), (0, 0, 0));
    }
}

#[test]
fn what_keeps_changing_while_it_is_uploaded_fails() {
    for (when, condition, at) in uploads() {
        let (source, objects) = (tree(), store());
        let (edited, count) = (Arc::clone(&source), AtomicU64::new(0));
        let made = copy_while(&source, &objects, (when, condition), move || {
            edit(&edited, at, count.fetch_add(1, Relaxed));
        });
        let failed: Vec<_> = made.failures.iter().map(|it| (&it.path[..], it.error.kind)).collect();
        assert!(failed.contains(&(at.as_bytes(), ErrorKind::SourceChanged)), "{failed:?}");
        assert!(made.failures.iter().all(|it| it.error.is_source_change()), "{failed:?}");
    }
    // Where the times prove nothing, no upload is checked.
    let (source, objects) = (tree(), store_without_clock());
    let edited = Arc::clone(&source);
    let [(when, condition, at), _] = uploads();
    sound(&copy_while(&source, &objects, (when, condition), move || edit(&edited, at, 7)));
}

/// A plan says how many requests its changes take, and the run takes as many.
#[test]
fn requests_are_counted_and_planned() {
    let (source, objects, back) = (tree(), store(), Arc::new(MemoryFileSystem::new()));
    let plan = Job { dry_run: true, ..contents() };
    for (from_store, changes) in [(false, 14), (true, 9)] {
        let run = |job: &Job| match from_store {
            false => copy(&source, &objects, job),
            true => copy(&objects, &back, job),
        };
        let (planned, made, again) = (run(&plan), run(&contents()), run(&contents()));
        let end = |requests: &RunRequests| if from_store { requests.source } else { requests.target };
        let other = |requests: &RunRequests| if from_store { requests.target } else { requests.source };
        assert!(other(&planned.planned_requests).is_empty() && other(&made.requests).is_empty());
        let writes = |counts: RequestCounts| counts.put + counts.copy + counts.delete;
        let (expected, counted) = (end(&planned.planned_requests), end(&made.requests));
        match from_store {
            // The root gets its attributes as well.
            false => assert_eq!((writes(expected), writes(counted)), (changes + 1, changes + 1)),
            // Large files are read in pieces.
            true => {
                assert!(expected.get >= changes && counted.get >= changes && writes(counted) == 0);
            }
        }
        assert!(end(&made.requests).list > 0);
        assert!(planned.requests.target.put == 0 && planned.requests.source.get == 0);
        // An unchanged tree takes listings, and a look at its root; from a store also one at each entry.
        let RequestCounts { list, head, .. } = end(&again.requests);
        assert_eq!(end(&again.requests), RequestCounts { list, head, ..RequestCounts::default() });
        let heads = if from_store { 14..=16 } else { 1..=2 };
        assert!(list >= 6 && heads.contains(&head), "{list} {head}");
        assert!(again.planned_requests.source.is_empty() && again.planned_requests.target.is_empty());
    }
}
