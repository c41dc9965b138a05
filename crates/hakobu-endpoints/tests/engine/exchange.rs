//! Several engines copy one tree together, and the result is that of a single one.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::counters::CounterTotals;
use hakobu_core::engine::{RunSummary, Setup, run};
use hakobu_core::error::ErrorKind;
use hakobu_core::event::{Event, Observer};
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryShare, DirectorySlice, EntryShare, NameShare, SLICE_NAMES_MAX, WorkDemand,
    WorkExchange, WorkShare,
};
use hakobu_core::filter::FilterRule;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, Mode, Removal};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_core::target_lease::TargetLease;
use hakobu_endpoints::local::{LocalSource, LocalTarget, SourceRoot, TargetOptions};
use hakobu_testkit::faults::{FaultPlan, Faulty};

use crate::bench::{Counter, Order, Place, Watchdog};
use crate::tree::{Numbers, dress_all, stamp, write};
use crate::view::{View, assert_same, drafts};

/// How much a unit gives away.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// Whatever the figures are, by chance.
    Chance(u64),
    /// All after so many entries, and half while others are idle.
    Budget(u64),
}

/// The shares that wait, for several engines.
#[derive(Debug)]
struct Pool {
    state: Mutex<PoolState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
pub struct PoolState {
    waiting: VecDeque<Vec<WorkShare>>,
    /// The number of units that are being run.
    busy: usize,
    idle: usize,
    names: Vec<NameShare>,
    ends: Vec<DirectoryEnd>,
    units: usize,
    given: usize,
    /// The number of slices of directories that were given away.
    pub slices: usize,
    pub totals: CounterTotals,
    pub changed: Vec<Vec<u8>>,
    pub failures: Vec<String>,
}

/// One unit of work, and what its run gives away.
struct Unit<'a> {
    pool: &'a Pool,
    policy: Policy,
    numbers: Mutex<Numbers>,
    shares: Mutex<Option<Vec<WorkShare>>>,
    takes_names: bool,
    lease: TargetLease,
}

impl WorkExchange for Unit<'_> {
    fn begin(&self) -> Option<Vec<WorkShare>> {
        self.shares.lock().unwrap().take()
    }

    fn demand(&self, entries: u64, _bytes: u64) -> WorkDemand {
        let state = self.pool.state.lock().unwrap();
        match self.policy {
            Policy::Budget(most) if entries > most => WorkDemand::All,
            Policy::Budget(_) if state.idle > state.waiting.len() => WorkDemand::Half,
            Policy::Budget(_) => WorkDemand::Nothing,
            Policy::Chance(_) => {
                let demands = [WorkDemand::Nothing, WorkDemand::Nothing, WorkDemand::Half, WorkDemand::All];
                *self.numbers.lock().unwrap().one_of(&demands)
            }
        }
    }

    fn give(&self, shares: Vec<DirectoryShare>) {
        assert!(!shares.is_empty());
        let mut state = self.pool.state.lock().unwrap();
        state.given += shares.len();
        let mut numbers = self.numbers.lock().unwrap();
        let mut shares: VecDeque<_> = shares.into_iter().map(WorkShare::Directory).collect();
        while !shares.is_empty() {
            let count = shares.len().min(1 + numbers.below(30));
            state.waiting.push_back(shares.drain(..count).collect());
        }
        self.pool.wake.notify_all();
    }

    fn slice_demand(&self, entries: u64) -> WorkDemand {
        match self.policy {
            // A slice is not only passed on.
            Policy::Budget(_) if entries == 0 => WorkDemand::Nothing,
            _ => self.demand(entries, 0),
        }
    }

    fn give_slices(&self, slices: Vec<DirectorySlice>) {
        assert!(!slices.is_empty());
        let mut state = self.pool.state.lock().unwrap();
        state.slices += slices.len();
        for slice in slices {
            assert!(!slice.names.is_empty() && slice.names.len() <= SLICE_NAMES_MAX);
            state.waiting.push_back(vec![WorkShare::Slice(slice)]);
        }
        self.pool.wake.notify_all();
    }

    fn takes_names(&self) -> bool {
        self.takes_names
    }

    fn give_names(&self, names: Vec<NameShare>) {
        self.pool.state.lock().unwrap().names.extend(names);
    }

    fn leave_open(&self, directories: Vec<DirectoryEnd>) {
        self.pool.state.lock().unwrap().ends.extend(directories);
    }

    fn lease(&self) -> &TargetLease {
        &self.lease
    }
}

/// Keeps the changes of a run.
#[derive(Default)]
struct Changes(Mutex<Vec<Vec<u8>>>);

impl Observer for Changes {
    fn event(&self, event: Event) {
        if let Event::Changed(change) = event {
            self.0.lock().unwrap().push(change.path);
        }
    }
}

/// The key of the lease of the unit that begins with the items of the job.
const FIRST_UNIT: [u8; 8] = 1u64.to_le_bytes();

/// Returns the summary of a run, and the paths that it changed.
pub fn run_one(
    source: &Path,
    target: &Path,
    job: &Job,
    exchange: Option<&dyn WorkExchange>,
) -> (RunSummary, Vec<Vec<u8>>) {
    run_with((source, target), job, exchange, |_| ())
}

/// Makes a run whose target claims other capabilities.
pub fn run_with(
    (source, target): (&Path, &Path),
    job: &Job,
    exchange: Option<&dyn WorkExchange>,
    shows: fn(&mut Capabilities),
) -> (RunSummary, Vec<Vec<u8>>) {
    let roots = [SourceRoot { path: source.to_path_buf() }];
    let source = LocalSource::open(&roots).unwrap();
    let mut key = [5; 32];
    let lease = exchange.map(WorkExchange::lease);
    lease.iter().for_each(|lease| key[8..16].copy_from_slice(&lease.key()));
    let options = TargetOptions { job: key, durable: false, state: None };
    let grant = Grant { lease: lease.cloned(), ..Grant::everything() };
    let target = LocalTarget::open(target, grant, options).unwrap();
    let target = Faulty::new(target, FaultPlan::new(1)).showing(shows);
    let changes = Changes::default();
    let summary = run(&Setup {
        source: &source,
        target: &target,
        job,
        observer: &changes,
        clock: &Counter::default(),
        tagger: Tagger::new(TagKey([3; TAG_KEY_BYTES])).unwrap(),
        changes: &(),
        cancel: &false.into(),
        exchange,
    });
    (summary, changes.0.into_inner().unwrap())
}

impl Pool {
    fn new() -> Self {
        Self { state: Mutex::default(), wake: Condvar::new() }
    }

    /// Runs all units that wait, and those that they lead to, with several engines.
    fn work(&self, engines: usize, takes_names: bool, policy: Policy, run: &(dyn Fn(&Unit<'_>) + Sync)) {
        std::thread::scope(|scope| {
            for _ in 0..engines {
                scope.spawn(move || {
                    while let Some((number, shares)) = self.take() {
                        let seed = match policy {
                            Policy::Chance(seed) => seed,
                            Policy::Budget(_) => 0,
                        };
                        let unit = Unit {
                            pool: self,
                            policy,
                            numbers: Mutex::new(Numbers(seed.wrapping_add(number as u64 * 977))),
                            // The first unit begins with the items of the job.
                            shares: Mutex::new((!shares.is_empty()).then_some(shares)),
                            takes_names,
                            lease: TargetLease::endless((number as u64).to_le_bytes()),
                        };
                        run(&unit);
                        self.state.lock().unwrap().busy -= 1;
                        self.wake.notify_all();
                    }
                });
            }
        });
    }

    fn take(&self) -> Option<(usize, Vec<WorkShare>)> {
        let mut state = self.state.lock().unwrap();
        state.idle += 1;
        let taken = loop {
            if let Some(shares) = state.waiting.pop_front() {
                state.busy += 1;
                state.units += 1;
                break Some((state.units, shares));
            }
            if state.busy == 0 {
                break None;
            }
            state = self.wake.wait(state).unwrap();
        };
        state.idle -= 1;
        drop(state);
        self.wake.notify_all();
        taken
    }
}

/// Copies with several engines: first the tree, then names of files with several, then the directories that stayed open.
pub fn copy_together(source: &Path, target: &Path, job: &Job, engines: usize, policy: Policy) -> PoolState {
    copy_together_with((source, target), job, (engines, policy), |_| (), &|| ())
}

/// Copies to a target that claims other capabilities, and does something after the first unit.
pub fn copy_together_with(
    (source, target): (&Path, &Path),
    job: &Job,
    (engines, policy): (usize, Policy),
    shows: fn(&mut Capabilities),
    after_first: &(dyn Fn() + Sync),
) -> PoolState {
    let pool = Pool::new();
    let run = |unit: &Unit<'_>| {
        let (summary, changed) = run_with((source, target), job, Some(unit), shows);
        if unit.lease.key() == FIRST_UNIT {
            after_first();
        }
        let mut state = pool.state.lock().unwrap();
        assert!(summary.fatal.is_none(), "{:?}", summary.fatal);
        state.totals.merge(&summary.counters);
        state.changed.extend(changed);
        state.failures.extend(summary.failures.iter().map(|failure| format!("{failure:?}")));
    };
    pool.state.lock().unwrap().waiting.push_back(Vec::new());
    pool.work(engines, job.hard_links, policy, &run);
    let mut names = std::mem::take(&mut pool.state.lock().unwrap().names);
    names.sort_by_key(|name| name.inode);
    let groups: Vec<&[NameShare]> = names.chunk_by(|a, b| a.inode == b.inode).collect();
    for pack in groups.chunks(7) {
        let shares = pack.concat().into_iter().map(WorkShare::Name).collect();
        pool.state.lock().unwrap().waiting.push_back(shares);
    }
    pool.work(engines, false, policy, &run);
    let mut ends = std::mem::take(&mut pool.state.lock().unwrap().ends);
    let depth = |end: &DirectoryEnd| end.place.target.names().count();
    ends.sort_by_key(|end| std::cmp::Reverse(depth(end)));
    let mut again: Vec<_> = ends.iter().map(|end| end.place.target.clone()).collect();
    again.sort();
    again.dedup();
    assert_eq!(again.len(), ends.len(), "each directory is left open once");
    for level in ends.chunk_by(|a, b| depth(a) == depth(b)) {
        for pack in level.chunks(50) {
            let shares = pack.iter().cloned().map(WorkShare::End).collect();
            pool.state.lock().unwrap().waiting.push_back(shares);
        }
        pool.work(engines, false, policy, &run);
    }
    let state = pool.state.into_inner().unwrap();
    assert!(state.ends.is_empty() && state.names.is_empty());
    assert_eq!(drafts(target), Vec::<std::path::PathBuf>::new());
    let mut changed = state.changed.clone();
    changed.sort();
    let twice = changed.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone());
    assert_eq!(twice.map(|path| String::from_utf8_lossy(&path).into_owned()), None, "changed twice");
    state
}

/// Makes a tree with few different names, so that a path below one directory exists below others as well.
fn tree(root: &Path, numbers: &mut Numbers, directories: usize) {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut all = vec![root.to_path_buf()];
    while all.len() < directories {
        // Mostly near the last ones, so that it becomes deep.
        let first = if numbers.below(3) == 0 { 0 } else { all.len().saturating_sub(20) };
        let above = &all[first + numbers.below(all.len() - first)];
        if numbers.below(40) == 0 {
            fs::create_dir_all(above.join("skip/a")).unwrap();
            write(&above.join("skip/file"), numbers, 30);
        }
        let directory = above.join(numbers.one_of(&NAMES));
        if fs::create_dir(&directory).is_ok() {
            all.push(directory);
        }
    }
    let mut names = Vec::new();
    for number in 0..directories {
        let path = numbers.one_of(&all).join(format!("file-{number}"));
        match numbers.below(12) {
            0 => std::os::unix::fs::symlink("a/b", path).unwrap(),
            1 if !names.is_empty() => fs::hard_link(numbers.one_of(&names), &path).unwrap(),
            size => {
                write(&path, numbers, size * 40);
                names.push(path);
            }
        }
    }
    write(&root.join("large"), numbers, 5 << 20);
    fs::hard_link(root.join("large"), all[all.len() / 2].join("large")).unwrap();
    dress_all(root, numbers);
}

/// Changes a tree here and there.
fn change(root: &Path, numbers: &mut Numbers) {
    let mut all = vec![root.to_path_buf()];
    let mut next = 0;
    while let Some(directory) = all.get(next).cloned() {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        all.extend(entries.filter(|it| it.file_type().unwrap().is_dir()).map(|entry| entry.path()));
        next += 1;
    }
    for number in 0..all.len() / 10 {
        let directory = numbers.one_of(&all).clone();
        match numbers.below(4) {
            0 => write(&directory.join(format!("new-{number}")), numbers, 100),
            1 => stamp(&directory, 1_234_567_890 + number as i64, 5),
            2 => {
                fs::create_dir_all(directory.join(format!("new-{number}/inner"))).unwrap();
                fs::hard_link(root.join("large"), directory.join(format!("link-{number}"))).unwrap();
            }
            _ => dress_all(
                &directory.join("a").exists().then_some("a").map_or(directory.clone(), |a| directory.join(a)),
                numbers,
            ),
        }
    }
}

/// Returns the names of each file with several, by the first one.
pub fn links(root: &Path) -> Vec<Vec<Vec<u8>>> {
    let mut by_inode: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            let found = fs::symlink_metadata(entry.path()).unwrap();
            if found.is_dir() {
                open.push(entry.path());
            } else if found.nlink() > 1 {
                let name = entry.path().strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
                by_inode.entry(found.ino()).or_default().push(name);
            }
        }
    }
    let mut groups: Vec<_> = by_inode.into_values().collect();
    groups.iter_mut().for_each(|names| names.sort());
    groups.sort();
    groups
}

/// Returns the counters that do not depend on the number of engines.
pub fn figures(totals: &CounterTotals) -> [(&'static str, u64); 14] {
    [
        ("scanned", totals.entries_scanned),
        ("bytes scanned", totals.bytes_scanned),
        ("created", totals.entries_created),
        ("updated", totals.entries_updated),
        ("unchanged", totals.entries_unchanged),
        ("bytes unchanged", totals.bytes_unchanged),
        ("attributes only", totals.entries_attributes_only),
        ("directories", totals.directories_created),
        ("absent", totals.entries_absent),
        ("skipped", totals.entries_skipped),
        ("failed", totals.entries_failed),
        ("only in target", totals.entries_only_in_target),
        ("in target", totals.entries_in_target),
        ("written", totals.target_written_bytes),
    ]
}

pub fn exclude(pattern: &str) -> FilterRule {
    FilterRule::exclude(pattern, "a test".to_owned())
}

/// Returns a job that leaves out a part of the tree.
fn job(lanes: u16, items: &[(&str, &str)]) -> Job {
    let mut job = Order::items(lanes, items).job;
    (job.itemize, job.hard_links, job.removal) = (true, true, Removal::Count);
    job.filter.rules = ["/a/b/c/", "/b/file-*", "skip/", "h/*1"].map(exclude).into();
    job
}

/// Copies with one engine and with several, from one tree into targets that begin with the same contents.
fn compare(
    (engines, policy): (usize, Policy),
    items: &[(&str, &str)],
    directories: usize,
    seed: u64,
) -> usize {
    let _watchdog = Watchdog::new();
    let numbers = &mut Numbers(seed);
    let (alone, together) = (Place::new(), Place::new());
    let source = alone.source();
    let (named, job) = (items.first().map_or("", |item| item.0), job(1 + (seed % 3) as u16, items));
    fs::create_dir_all(source.join(named)).unwrap();
    tree(&source.join(named), numbers, directories);
    let mut given = 0;
    // Where an entry is named, the target itself is not copied.
    let seen = |place: &Place| View::of(&place.target().join(items.first().map_or("", |item| item.1)));
    for round in 0..3 {
        let (expected, _) = run_one(&source, &alone.target(), &job, None);
        assert!(expected.fatal.is_none() && expected.failures.is_empty(), "{expected:?}");
        let state = copy_together(&source, &together.target(), &job, engines, policy);
        let what = format!("{policy:?}, {engines} engines, seed {seed}, round {round}");
        assert_eq!(state.failures, Vec::<String>::new(), "{what}");
        assert_same(&seen(&alone), &seen(&together));
        assert_eq!(links(&alone.target()), links(&together.target()), "{what}");
        assert_eq!(figures(&expected.counters), figures(&state.totals), "{what}");
        let copied = expected.counters.entries_scanned - expected.counters.entries_skipped;
        assert!(2 * copied > directories as u64, "{what}: only {copied} entries take part");
        given += state.given;
        match round {
            0 => change(&source.join(named), numbers),
            1 => {}
            _ => assert_eq!(state.changed, Vec::<Vec<u8>>::new(), "{what}"),
        }
    }
    given
}

#[test]
fn engines_that_share_a_tree_copy_what_one_copies() {
    for (engines, policy) in [(1, Policy::Budget(60)), (2, Policy::Budget(400)), (4, Policy::Budget(150))] {
        let given = compare((engines, policy), &[("", "")], 1500, 5 + engines as u64);
        assert!(given > 50, "{given} were given by {engines} engines");
    }
}

#[test]
fn a_tree_that_the_user_named_is_shared_as_well() {
    let given = compare((3, Policy::Budget(100)), &[("tree", "landed")], 600, 31);
    assert!(given > 20, "{given}");
}

#[test]
fn whatever_is_given_away_the_tree_is_the_same() {
    let mut given = 0;
    for seed in 0..12 {
        let engines = 1 + (seed % 4) as usize;
        given +=
            compare((engines, Policy::Chance(seed * 31)), &[("", "")], 60 + (seed as usize % 5) * 40, seed);
    }
    assert!(given > 200, "{given}");
}

/// Entries that failed are copied by themselves, and nothing else is looked at.
#[test]
fn single_entries_are_copied_by_themselves() {
    // Below the root, the root itself, and as something that the user named.
    for (from, to) in [("", ""), ("", "within/it"), ("top", "other")] {
        let place = Place::new();
        let base = place.source().join(from);
        for directory in ["a/b/c", "a/gone/deep", "d"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        let mut numbers = Numbers(5);
        let files = ["a/b/c/one", "a/b/c/two", "a/b/beside", "a/gone/deep/three", "a/gone/four", "d/five"];
        files.iter().for_each(|file| write(&base.join(file), &mut numbers, 500));
        fs::create_dir_all(place.target().join(to).parent().unwrap()).unwrap();
        dress_all(&place.source(), &mut numbers);
        let mut job = Order::items(2, &[(from, to)]).job;
        job.itemize = true;
        let copy_by = |job: &Job, shares: Option<Vec<WorkShare>>| {
            let pool = Pool::new();
            let unit = Unit {
                pool: &pool,
                policy: Policy::Budget(1000),
                numbers: Mutex::new(Numbers(1)),
                shares: Mutex::new(shares),
                takes_names: false,
                lease: TargetLease::endless([0; 8]),
            };
            let (summary, mut changed) = run_one(&place.source(), &place.target(), job, Some(&unit));
            assert!(summary.fatal.is_none(), "{:?}", summary.fatal);
            changed.sort();
            (summary, changed)
        };
        let copy = |shares| copy_by(&job, shares);
        copy(None);
        let target = place.target().join(to);
        let same = || assert_same(&View::of(&base), &View::of(&target));
        same();
        for lost in ["a/b/c/one", "d/five"] {
            fs::remove_file(target.join(lost)).unwrap();
        }
        fs::remove_dir_all(target.join("a/gone")).unwrap();
        fs::write(target.join("a/b/beside"), "not asked for").unwrap();
        let entry = |path: &str| {
            let source = EntryPath::new([from, path].join("/").trim_matches('/').to_owned()).unwrap();
            WorkShare::Entry(EntryShare { root: 0, source })
        };
        let (summary, changed) =
            copy(Some(["a/b/c/one", "a/gone", "a/b/c/two", "missing"].map(entry).to_vec()));
        assert_eq!(summary.counters.entries_created, 5, "{changed:?}");
        assert_eq!((summary.counters.entries_unchanged, summary.counters.entries_scanned), (1, 6));
        assert_eq!(summary.failures.len(), 1, "{:?}", summary.failures);
        assert_eq!(summary.failures[0].error.kind, ErrorKind::NotFound);
        assert_eq!(fs::read(target.join("a/b/beside")).unwrap(), b"not asked for");
        assert!(!target.join("d/five").exists());
        copy(Some(vec![entry("d/five")]));
        copy(Some(vec![entry("a/b/beside")]));
        same();
        fs::create_dir(target.join("a/extra")).unwrap();
        fs::write(target.join("a/extra/file"), "only here").unwrap();
        let counting = Job { removal: Removal::Count, ..job.clone() };
        let (summary, changed) =
            copy_by(&counting, Some(["a/extra", "a/none", "none/at/all"].map(entry).to_vec()));
        assert_eq!((&summary.failures[..], &changed[..]), (&[][..], &[][..]));
        assert_eq!(summary.counters.entries_only_in_target, 2, "to be removed");
        fs::remove_dir_all(&target).unwrap();
        if to.is_empty() {
            fs::create_dir(&target).unwrap();
        }
        copy(Some(vec![entry("")]));
        same();
    }
}

#[test]
fn a_run_that_needs_the_whole_tree_is_refused() {
    let place = Place::new();
    fs::write(place.source().join("file"), "content").unwrap();
    let changes: [fn(&mut Job); 3] =
        [|job| job.dry_run = true, |job| job.mode = Mode::Compare, |job| job.removal = Removal::Remove];
    for change in changes {
        let mut job = job(1, &[("", "")]);
        change(&mut job);
        let pool = Pool::new();
        let unit = Unit {
            pool: &pool,
            policy: Policy::Budget(0),
            numbers: Mutex::new(Numbers(1)),
            shares: Mutex::default(),
            takes_names: true,
            lease: TargetLease::endless([0; 8]),
        };
        let (summary, _) = run_one(&place.source(), &place.target(), &job, Some(&unit));
        assert_eq!(summary.fatal.map(|error| error.kind), Some(ErrorKind::Unsupported));
        assert_eq!(fs::read_dir(place.target()).unwrap().count(), 0);
    }
}
