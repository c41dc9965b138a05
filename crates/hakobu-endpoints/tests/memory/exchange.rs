//! Several runs copy one tree to an object store together, and the times of the uploads prove as much as those of one run.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use hakobu_core::counters::CounterTotals;
use hakobu_core::endpoint::Change;
use hakobu_core::error::ErrorKind;
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryShare, DirectorySlice, NameShare, WorkDemand, WorkExchange, WorkShare,
};
use hakobu_core::grant::Grant;
use hakobu_core::target_lease::TargetLease;
use hakobu_endpoints::memory::{MemoryFileSystem, MemoryMetadataStore};
use hakobu_endpoints::store::{EntryContent, ObjectPlace, StoreSource, StoreTarget};
use hakobu_testkit::faults::{FaultPlan, Faulty};

use crate::bench::{bytes, contents, copy, path, run_sharing};
use crate::examined::{add, all_of, attributes, done, store, tree};

/// Gives everything away, so that each run scans few directories.
struct Generous {
    begin: Mutex<Option<Vec<WorkShare>>>,
    given: Mutex<Vec<DirectoryShare>>,
    slices: Mutex<Vec<DirectorySlice>>,
    ends: Mutex<Vec<DirectoryEnd>>,
    lease: TargetLease,
}

impl Generous {
    fn beginning_with(shares: Option<Vec<WorkShare>>) -> Self {
        let (given, slices, ends) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { begin: Mutex::new(shares), given, slices, ends, lease: TargetLease::endless([1; 8]) }
    }
}

impl WorkExchange for Generous {
    fn begin(&self) -> Option<Vec<WorkShare>> {
        self.begin.lock().unwrap().take()
    }

    fn demand(&self, _entries: u64, _bytes: u64) -> WorkDemand {
        WorkDemand::All
    }

    fn give(&self, shares: Vec<DirectoryShare>) {
        self.given.lock().unwrap().extend(shares);
    }

    fn slice_demand(&self, entries: u64) -> WorkDemand {
        // A slice is not only passed on.
        if entries > 0 { WorkDemand::All } else { WorkDemand::Nothing }
    }

    fn give_slices(&self, slices: Vec<DirectorySlice>) {
        self.slices.lock().unwrap().extend(slices);
    }

    fn takes_names(&self) -> bool {
        false
    }

    fn give_names(&self, _names: Vec<NameShare>) {
        panic!("no names were wanted");
    }

    fn leave_open(&self, directories: Vec<DirectoryEnd>) {
        self.ends.lock().unwrap().extend(directories);
    }

    fn lease(&self) -> &TargetLease {
        &self.lease
    }
}

type Stores = (Arc<MemoryFileSystem>, Arc<MemoryMetadataStore>);

/// Runs shares, or at first the whole job. Returns the sums and what was given away.
fn run_unit(
    (from, to): &Stores,
    shares: Option<Vec<WorkShare>>,
    plan: &FaultPlan,
) -> (CounterTotals, Generous) {
    let exchange = Generous::beginning_with(shares);
    let from = StoreSource::new(Arc::clone(from) as Arc<dyn ObjectPlace>);
    let to = Arc::clone(to) as Arc<dyn ObjectPlace>;
    let to = StoreTarget::open(to, &path(""), &Grant::everything()).unwrap();
    let to = Faulty::new(to, plan.clone());
    let made = run_sharing(&from, &to, &contents(), (&AtomicBool::new(false), Some(&exchange)));
    assert!(made.fatal.is_none(), "{:?}", made.fatal);
    (made.counters, exchange)
}

/// Copies each directory in a run of its own. Returns the sums, the directories that are open, and the number of runs.
fn copy_in_shares(stores: &Stores, plan: &FaultPlan) -> (CounterTotals, Vec<DirectoryEnd>, usize) {
    let (mut sums, mut ends, mut units) = (CounterTotals::default(), Vec::new(), 0);
    let mut waiting: VecDeque<Option<Vec<WorkShare>>> = VecDeque::from([None]);
    while let Some(shares) = waiting.pop_front() {
        let (counters, exchange) = run_unit(stores, shares, plan);
        sums.merge(&counters);
        units += 1;
        let given = exchange.given.into_inner().unwrap().into_iter();
        waiting.extend(given.map(|share| Some(vec![WorkShare::Directory(share)])));
        let slices = exchange.slices.into_inner().unwrap().into_iter();
        waiting.extend(slices.map(|slice| Some(vec![WorkShare::Slice(slice)])));
        ends.extend(exchange.ends.into_inner().unwrap());
    }
    (sums, ends, units)
}

/// Sets the attributes of the directories that are open.
fn end(stores: &Stores, mut ends: Vec<DirectoryEnd>) -> CounterTotals {
    ends.sort_by_key(|end| std::cmp::Reverse(end.place.target.names().count()));
    let shares = ends.into_iter().map(WorkShare::End).collect();
    run_unit(stores, Some(shares), &FaultPlan::new(1)).0
}

fn made(sums: &CounterTotals) -> (u64, u64, u64) {
    let all = sums.entries_created + sums.entries_updated;
    (all, sums.entries_attributes_only, sums.entries_examined)
}

/// Replaces a file by an older one of its size. Its directory may be another one as well, so all in it is examined.
fn replace(source: &MemoryFileSystem, seed: u64) {
    let content = EntryContent::File(bytes(4096, seed).into());
    source.put(&path("b/d"), content, &attributes(0o640, 900_000_000), &Grant::everything()).unwrap();
    let attributes = attributes(0o711, 1_000_000_123);
    let change = Change::Directory { path: path("b"), attributes, extended: None };
    source.apply(&change, &Grant::everything()).unwrap();
}

/// Returns a tree in which several directories have further ones beside them, which are given away.
fn wide_tree() -> Arc<MemoryFileSystem> {
    let source = tree();
    for at in ["e/i/x", "e/f/j/y"] {
        add(&*source, at, EntryContent::File(bytes(20, 3).into()));
    }
    // More than are listed at a time.
    let many = (0..60).map(|number| format!("e/p{number:02}"));
    many.clone().for_each(|at| add(&*source, &format!("{at}/x"), EntryContent::File(bytes(9, 4).into())));
    for at in many.chain(["e/i", "e/f/j", "e/f", "e", ""].map(str::to_owned)) {
        let attributes = attributes(0o755, 1_000_000_123);
        let change = Change::Directory { path: path(&at), attributes, extended: None };
        source.apply(&change, &Grant::everything()).unwrap();
    }
    source
}

#[test]
fn a_tree_that_was_copied_in_shares_is_proven() {
    let (stores, none) = ((wide_tree(), store()), FaultPlan::new(1));
    let (source, objects) = &stores;
    let (sums, ends, units) = copy_in_shares(&stores, &none);
    assert!(units >= 5, "{units}");
    let open: Vec<_> = ends.iter().map(|end| end.place.target.to_string()).collect();
    assert!(open.contains(&String::new()) && open.contains(&"e/f".to_owned()), "{open:?}");
    let last = end(&stores, ends);
    let alone = store();
    let expected = copy(source, &alone, &contents()).counters;
    for figure in [
        |sums: &CounterTotals| sums.entries_created,
        |sums: &CounterTotals| sums.entries_attributes_only,
        |sums: &CounterTotals| sums.entries_scanned,
        |sums: &CounterTotals| sums.directories_created,
    ] {
        assert_eq!(figure(&sums) + figure(&last), figure(&expected));
    }
    assert_eq!(all_of(&**source), all_of(&**objects));
    assert_eq!(done(&copy(source, objects, &contents())), (0, 0, 0));
    // The proofs count in shares as well.
    let (sums, ends, _) = copy_in_shares(&stores, &none);
    assert_eq!((made(&sums), made(&end(&stores, ends))), ((0, 0, 0), (0, 0, 0)));
}

#[test]
fn what_changed_is_examined_in_shares_and_then_proven() {
    let (stores, none) = ((wide_tree(), store()), FaultPlan::new(1));
    let (source, objects) = &stores;
    copy(source, objects, &contents());
    replace(source, 5);
    let (sums, ends, units) = copy_in_shares(&stores, &none);
    assert!(units > 5, "{units}");
    assert_eq!(made(&sums), (1, 0, 7));
    assert_eq!(made(&end(&stores, ends)), (0, 0, 0));
    assert_eq!(all_of(&**source), all_of(&**objects));
    assert_eq!(done(&copy(source, objects, &contents())), (0, 0, 0));
}

/// The top has changed, so that everything below it is examined, by other runs.
#[test]
fn a_directory_is_proven_when_its_shares_are_done_and_not_before() {
    for (ends_are_set, is_examined, examined) in
        [(false, true, true), (true, false, true), (true, true, false)]
    {
        let (stores, none) = ((wide_tree(), store()), FaultPlan::new(1));
        let (source, objects) = &stores;
        copy(source, objects, &contents());
        add(&**source, "e/new", EntryContent::File(bytes(10, 1).into()));
        let attributes = attributes(0o755, 1_000_000_123);
        let change = Change::Directory { path: path("e"), attributes, extended: None };
        source.apply(&change, &Grant::everything()).unwrap();
        let (sums, mut ends, _) = copy_in_shares(&stores, &none);
        // Below a directory that may be another one, old times prove nothing.
        assert_eq!((sums.entries_created, sums.entries_failed), (1, 0));
        assert!(sums.entries_examined >= 1, "{sums:?}");
        assert!(ends.iter().any(|end| end.is_unproven));
        ends.iter_mut().for_each(|end| end.is_examined &= is_examined);
        if ends_are_set {
            end(&stores, ends);
        }
        let again = copy(source, objects, &contents());
        assert_eq!(again.counters.entries_examined > 0, examined, "{ends_are_set} {is_examined}");
        assert_eq!(all_of(&**source), all_of(&**objects));
        assert_eq!(done(&copy(source, objects, &contents())), (0, 0, 0));
    }
}

/// A directory that changed after it was listed is not proven, although its end is set much later.
#[test]
fn a_directory_that_changed_after_it_was_listed_is_not_proven() {
    let (stores, none) = ((wide_tree(), store()), FaultPlan::new(1));
    let (source, objects) = &stores;
    let (_, ends, _) = copy_in_shares(&stores, &none);
    add(&**source, "e/f/late", EntryContent::File(bytes(10, 1).into()));
    let shares = ends.into_iter().map(WorkShare::End).collect();
    let exchange = Generous::beginning_with(Some(shares));
    let from = StoreSource::new(Arc::clone(source) as Arc<dyn ObjectPlace>);
    let to = Arc::clone(objects) as Arc<dyn ObjectPlace>;
    let to = StoreTarget::open(to, &path(""), &Grant::everything()).unwrap();
    let made = run_sharing(&from, &to, &contents(), (&AtomicBool::new(false), Some(&exchange)));
    let failed: Vec<_> = made.failures.iter().map(|it| (&it.path[..], it.error.kind)).collect();
    assert_eq!(failed, [(&b"e/f"[..], ErrorKind::SourceChanged)]);
    let again = copy(source, objects, &contents());
    assert!(again.failures.is_empty() && again.counters.entries_created == 1, "{:?}", again.counters);
    assert_eq!(all_of(&**source), all_of(&**objects));
}

/// Below a directory that was renamed nothing has changed itself, and only the one who gave it away knows.
#[test]
fn what_a_directory_brings_along_is_examined_by_whoever_is_given_it() {
    let (stores, none) = ((Arc::new(MemoryFileSystem::new()), store()), FaultPlan::new(1));
    let (source, objects) = &stores;
    for (top, seed) in [("d", 1), ("e", 2)] {
        let directories = (0..60).map(|number| format!("{top}/p{number:02}"));
        for at in directories.clone() {
            let (content, attributes) = (bytes(100, seed), attributes(0o640, 1_000_000_000 + seed as i64));
            let file = EntryContent::File(content.into());
            source.put(&path(&format!("{at}/x")), file, &attributes, &Grant::everything()).unwrap();
        }
        for at in directories.chain([top.to_owned()]) {
            let attributes = attributes(0o755, 1_000_000_123);
            let change = Change::Directory { path: path(&at), attributes, extended: None };
            source.apply(&change, &Grant::everything()).unwrap();
        }
    }
    copy(source, objects, &contents());
    for (from, to) in [("d", "t"), ("e", "d"), ("t", "e")] {
        source.rename(&path(from), &path(to)).unwrap();
    }
    let (sums, ends, units) = copy_in_shares(&stores, &none);
    assert!(units > 20, "{units}");
    assert_eq!(made(&sums).0, 120, "the files of both directories");
    end(&stores, ends);
    assert_eq!(all_of(&**source), all_of(&**objects));
    assert_eq!(done(&copy(source, objects, &contents())), (0, 0, 0));
}

/// Below one key there are so many that they are given away by their names.
#[test]
fn a_large_directory_that_was_copied_in_slices_is_proven() {
    let (stores, none) = ((tree(), store()), FaultPlan::new(1));
    let (source, objects) = &stores;
    for number in 0..2500 {
        let content = EntryContent::File(bytes(20 + number % 7, number as u64).into());
        add(&**source, &format!("b/many/f{number}"), content);
    }
    for at in ["b/many", "b"] {
        let change = Change::Directory {
            path: path(at),
            attributes: attributes(0o755, 1_000_000_123),
            extended: None,
        };
        source.apply(&change, &Grant::everything()).unwrap();
    }
    let (sums, ends, units) = copy_in_shares(&stores, &none);
    assert!(units > 4, "{units}");
    assert!(ends.iter().any(|end| end.has_slices));
    let last = end(&stores, ends);
    let alone = store();
    let expected = copy(source, &alone, &contents()).counters;
    for figure in [
        |sums: &CounterTotals| sums.entries_created,
        |sums: &CounterTotals| sums.entries_scanned,
        |sums: &CounterTotals| sums.entries_absent,
        |sums: &CounterTotals| sums.bytes_scanned,
        |sums: &CounterTotals| sums.target_written_bytes,
    ] {
        assert_eq!(figure(&sums) + figure(&last), figure(&expected));
    }
    assert_eq!(all_of(&**source), all_of(&**objects));
    assert_eq!(done(&copy(source, objects, &contents())), (0, 0, 0));
    replace(source, 5);
    let (sums, ends, _) = copy_in_shares(&stores, &none);
    assert_eq!(made(&sums).0, 1);
    end(&stores, ends);
    assert_eq!(all_of(&**source), all_of(&**objects));
    assert_eq!(done(&copy(source, objects, &contents())), (0, 0, 0));
}
