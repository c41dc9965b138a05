//! Test histories derived from a seed: trees, runs with faults between stores in memory, and changes of the source
//! between and during runs. The permitted results are known without the engine: whole versions of files, and in the end
//! the source.
//!
//! `HAKOBU_MEMORY_SEEDS=FIRST..LAST` selects other seeds than usual.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::endpoint::Change;
use hakobu_core::engine::RunSummary;
use hakobu_core::entry::{Attributes, EntryKind, FileTime};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{CHUNK_BYTES, PIECE_BYTES};
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, Mode, Removal};
use hakobu_core::pack::PACKED_FILE_BYTES_MAX;
use hakobu_core::path::EntryPath;
use hakobu_endpoints::memory::{MemoryFileSystem, MemoryObjectStore};
use hakobu_endpoints::store::{EntryContent, ObjectPlace, StoreSource, StoreTarget};
use hakobu_testkit::faults::OperationKind::{self, *};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan, Faulty};

use crate::bench::{Print, bytes, contents, contents_of, path, print, run_between, view};
use crate::pages::Pages;

/// The seeds that are used by default.
const USUAL: std::ops::Range<u64> = 0..200;

/// A pseudo-random number generator with a seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Every content that a path of the source has had.
#[derive(Default)]
struct Versions(Mutex<BTreeMap<Vec<u8>, Vec<Print>>>);

impl Versions {
    fn note(&self, at: &str, content: &EntryContent) {
        self.0.lock().unwrap().entry(at.as_bytes().to_vec()).or_default().push(print(content));
    }

    fn has(&self, at: &[u8], content: &Print) -> bool {
        self.0.lock().unwrap().get(at).is_some_and(|versions| versions.contains(content))
    }
}

/// A source that is changed while it is read.
struct Ground {
    source: Arc<dyn ObjectPlace>,
    keeps_all: bool,
    /// True if a name may belong to a file at one time and to a directory at another.
    changes_kinds: bool,
    versions: Versions,
}

impl Ground {
    /// Changes one path: a new file, other content, a symbolic link, or a removal.
    fn change(&self, numbers: &mut Numbers) {
        let at = some_path(numbers, self.changes_kinds);
        let everything = Grant::everything();
        if numbers.one_in(6) {
            let remove = Change::Remove { path: path(&at), directory: numbers.one_in(4), kept_names: 0 };
            let _ = self.source.apply(&remove, &everything);
            return;
        }
        let content = match numbers.below(12) {
            0 if self.keeps_all => {
                EntryContent::Symlink(vec![b'a' + (numbers.next() % 26) as u8; numbers.below(60) + 1].into())
            }
            1 if self.keeps_all => EntryContent::Special(EntryKind::Fifo, 0),
            _ => EntryContent::File(bytes(some_size(numbers), numbers.next()).into()),
        };
        if self.changes_kinds && numbers.one_in(2) {
            self.make_way(&path(&at));
        }
        // A directory stays a directory.
        if self.source.inspect(&path(&at)).is_some_and(|found| found.kind == EntryKind::Directory) {
            return;
        }
        self.versions.note(&at, &content);
        let attributes = Attributes { mode: *numbers.one_of(&[0o644, 0o600, 0o4755]), ..now() };
        let _ = self.source.put(&path(&at), content, &attributes, &Grant { may_remove: false, ..everything });
    }
}

impl Ground {
    /// Removes entries in the way of a file: a directory's contents under its name, and files in place of its parents.
    fn make_way(&self, at: &EntryPath) {
        let kind = |path: &EntryPath| self.source.inspect(path).map(|found| found.kind);
        let remove = |path: &EntryPath, directory: bool| {
            let change = Change::Remove { path: path.clone(), directory, kept_names: 0 };
            let _ = self.source.apply(&change, &Grant::everything());
        };
        let mut above = at.split_last().map(|(parent, _)| parent);
        while let Some(parent) = above.filter(|parent| !parent.is_root()) {
            if kind(&parent).is_some_and(|kind| kind != EntryKind::Directory) {
                remove(&parent, false);
            }
            above = parent.split_last().map(|(parent, _)| parent);
        }
        if kind(at) == Some(EntryKind::Directory) {
            let Ok(page) = self.source.page(at, None, usize::MAX) else { return };
            for index in 0..page.listing.len() {
                let Ok(inner) = at.join(page.listing.name(index)) else { continue };
                match kind(&inner) {
                    Some(EntryKind::Directory) => self.make_way(&inner),
                    _ => remove(&inner, false),
                }
            }
            remove(at, true);
        }
    }
}

fn now() -> Attributes {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mtime = FileTime { seconds: now.as_secs().cast_signed(), nanoseconds: now.subsec_nanos() };
    Attributes { mode: 0o755, uid: 0, gid: 0, mtime }
}

/// Returns a path out of so few that collisions are frequent.
fn some_path(numbers: &mut Numbers, changes_kinds: bool) -> String {
    let names = ["a", "b", "a-", "a.b", "é", "x y", "zz"];
    let depth = 1 + numbers.below(3);
    let all: Vec<_> = (0..depth).map(|_| *numbers.one_of(&names)).collect();
    let kind = if changes_kinds && numbers.one_in(2) { "" } else { "d" };
    let above = all[..depth - 1].iter().map(|name| format!("{kind}{name}/"));
    format!("{}{}", above.collect::<String>(), all[depth - 1])
}

/// Returns a size around one of the limits in the code.
fn some_size(numbers: &mut Numbers) -> usize {
    let limits = [0, 1, 100, 4096, PACKED_FILE_BYTES_MAX, PIECE_BYTES, 2 * PIECE_BYTES];
    let limit = match numbers.one_in(150) {
        true => CHUNK_BYTES,
        false => *numbers.one_of(&limits),
    };
    (limit as usize + numbers.below(3)).saturating_sub(1)
}

const MILD: [ErrorKind; 6] = [
    ErrorKind::PermissionDenied,
    ErrorKind::Io,
    ErrorKind::NotFound,
    ErrorKind::Conflict,
    ErrorKind::SourceChanged,
    ErrorKind::SourceVanished,
];

/// Returns the faults of one end.
fn plan(numbers: &mut Numbers, operations: &[OperationKind]) -> FaultPlan {
    let mut plan = FaultPlan::new(numbers.next()).reorder(*numbers.one_of(&[0, 1, 12, 100]));
    plan = plan.full_queue(*numbers.one_of(&[0, 50, 500]));
    for _ in 0..numbers.below(4) {
        let kind = *numbers.one_of(&MILD);
        let faults = [
            FaultEffect::Error(kind),
            FaultEffect::Error(kind),
            FaultEffect::Unheard(kind),
            FaultEffect::OneEntry(kind),
        ];
        let operation = *numbers.one_of(operations);
        let fault = match operation {
            Read if numbers.one_in(3) => FaultEffect::ShortRead,
            _ => numbers.one_of(&faults).clone(),
        };
        plan = plan.on(operation, FaultCondition::PerMille(*numbers.one_of(&[5, 40, 200, 600])), fault);
    }
    if numbers.one_in(5) {
        let grave = [ErrorKind::NoSpace, ErrorKind::TimedOut, ErrorKind::ConnectionLost];
        let fault = match numbers.one_in(2) {
            true => FaultEffect::LaneLost,
            false => FaultEffect::Error(*numbers.one_of(&grave)),
        };
        plan = plan.on_any(FaultCondition::Nth(1 + numbers.below(40) as u64), fault);
    }
    plan
}

/// A target with its properties.
struct Place {
    store: Arc<dyn ObjectPlace>,
    is_flat: bool,
}

fn place(numbers: &mut Numbers) -> Place {
    let is_flat = numbers.one_in(3);
    Place { store: store(numbers, !is_flat), is_flat }
}

/// Creates a file system or an object store, whose directories are listed completely or a few entries at a time.
fn store(numbers: &mut Numbers, is_file_system: bool) -> Arc<dyn ObjectPlace> {
    let store: Arc<dyn ObjectPlace> = match is_file_system {
        true => Arc::new(MemoryFileSystem::new()),
        false => Arc::new(MemoryObjectStore::new()),
    };
    let most = *numbers.one_of(&[1, 2, 5, usize::MAX]);
    Arc::new(Pages { store, most })
}

fn some_job(numbers: &mut Numbers) -> Job {
    let mut job = contents();
    job.lanes = *numbers.one_of(&[1, 2, 3, 5]);
    (job.digest, job.compare_content) = (numbers.one_in(2), numbers.one_in(4));
    job
}

/// Runs a job with faults at both ends, and changes of the source in the middle.
fn run_with_faults(ground: &Arc<Ground>, target: &Place, job: &Job, numbers: &mut Numbers) -> RunSummary {
    let mut reading = plan(numbers, &[List, Fetch, Read, Open, Confirm]);
    for _ in 0..numbers.below(3) {
        let (ground, seed) = (Arc::clone(ground), numbers.next());
        let change = FaultEffect::Call(Arc::new(move || ground.change(&mut Numbers(seed))));
        let operation = *numbers.one_of(&[List, Fetch, Read, Confirm]);
        reading = reading.on(operation, FaultCondition::Nth(1 + numbers.below(6) as u64), change);
    }
    let writing = plan(numbers, &[List, Store, Begin, Write, Finish, Apply, Zero, Complete]);
    let source = Faulty::new(StoreSource::new(Arc::clone(&ground.source)), reading);
    let opened = StoreTarget::open(Arc::clone(&target.store), &path(""), &Grant::everything()).unwrap();
    run_between(&source, &Faulty::new(opened, writing), job, &AtomicBool::new(false))
}

fn run_plainly(ground: &Ground, target: &Place, job: &Job) -> RunSummary {
    let source = StoreSource::new(Arc::clone(&ground.source));
    let opened = StoreTarget::open(Arc::clone(&target.store), &path(""), &Grant::everything()).unwrap();
    run_between(&source, &opened, job, &AtomicBool::new(false))
}

/// Checks that every file is a whole version of its source, or what was there before.
fn assert_whole(ground: &Ground, before: &BTreeMap<Vec<u8>, Print>, target: &Place) {
    for (at, content) in contents_of(&*target.store) {
        let is_old = before.get(&at) == Some(&content);
        assert!(is_old || ground.versions.has(&at, &content), "{} is torn", String::from_utf8_lossy(&at));
    }
}

/// Checks that a run without reported failures has copied all files that did not change meanwhile.
fn assert_earned(first: &BTreeMap<Vec<u8>, Print>, ground: &Ground, target: &Place, made: &RunSummary) {
    if made.fatal.is_some() || !made.failures.is_empty() || made.counters.entries_failed > 0 {
        return;
    }
    let (now, there) = (contents_of(&*ground.source), contents_of(&*target.store));
    for (at, content) in first.iter().filter(|(at, content)| now.get(*at) == Some(content)) {
        assert_eq!(there.get(at), Some(content), "{} was not brought over", String::from_utf8_lossy(at));
    }
}

/// Runs without faults until nothing is left to do, and checks the final state.
fn settle(ground: &Ground, target: &Place) {
    for removal in [Removal::Count, Removal::Remove, Removal::Leave] {
        let made = run_plainly(ground, target, &Job { removal, removals_max: 10_000, ..contents() });
        assert_eq!((&made.fatal, made.failures.len()), (&None, 0), "{removal:?}: {:?}", made.failures);
    }
    match target.is_flat || !ground.keeps_all {
        true => assert_eq!(contents_of(&*ground.source), contents_of(&*target.store)),
        false => assert_eq!(view(&*ground.source), view(&*target.store)),
    }
    let before = view(&*target.store);
    let again = run_plainly(ground, target, &contents()).counters;
    assert_eq!((again.entries_created, again.entries_updated, again.entries_attributes_only), (0, 0, 0));
    assert_eq!(view(&*target.store), before);
    let compared = run_plainly(ground, target, &Job { mode: Mode::Compare, ..contents() });
    assert_eq!((compared.fatal, compared.counters.entries_different), (None, 0));
}

fn one(seed: u64) {
    let numbers = &mut Numbers(seed);
    let target = place(numbers);
    let keeps_all = !target.is_flat && numbers.below(4) > 0;
    let is_file_system = keeps_all || numbers.one_in(2);
    // An object store can hold an object and a directory of one name at a time, which a file system cannot.
    let changes_kinds = is_file_system && numbers.one_in(2);
    let source = store(numbers, is_file_system);
    let ground = Arc::new(Ground { source, keeps_all, changes_kinds, versions: Versions::default() });
    for _ in 0..numbers.below(40) {
        ground.change(numbers);
    }
    for _ in 0..1 + numbers.below(3) {
        let (before, first) = (contents_of(&*target.store), contents_of(&*ground.source));
        let job = some_job(numbers);
        let made = run_with_faults(&ground, &target, &job, numbers);
        assert_whole(&ground, &before, &target);
        assert_earned(&first, &ground, &target, &made);
        if numbers.one_in(2) {
            settle(&ground, &target);
        }
        for _ in 0..numbers.below(10) {
            ground.change(numbers);
        }
    }
    settle(&ground, &target);
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("HAKOBU_MEMORY_SEEDS") else { return USUAL };
    let (first, last) = asked.split_once("..").unwrap();
    first.parse().unwrap()..last.parse::<u64>().unwrap() + 1
}

#[test]
fn whatever_happens_files_are_whole_and_the_next_run_completes() {
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || {
                for seed in seeds().filter(|seed| seed % 2 == half) {
                    let result = std::panic::catch_unwind(|| one(seed));
                    assert!(result.is_ok(), "with seed {seed}");
                }
            });
        }
    });
}
