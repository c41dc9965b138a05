//! Nothing gets its name after the end of a lease, and what one lease has left another goes on with or removes.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use hakobu_core::engine::{RunSummary, Setup, run};
use hakobu_core::entry::Inode;
use hakobu_core::error::ErrorKind;
use hakobu_core::event::NoObserver;
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryShare, DirectorySlice, NameShare, SharePlace, WorkDemand, WorkExchange, WorkShare,
};
use hakobu_core::extent::{CHUNK_BYTES, JOURNALED_FROM_BYTES};
use hakobu_core::grant::Grant;
use hakobu_core::job::Job;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_core::target_lease::TargetLease;
use hakobu_endpoints::local::{LocalSource, LocalTarget, SourceRoot, TargetOptions};
use hakobu_testkit::faults::OperationKind::Write;
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan, Faulty};
use rustix::fs::{FlockOperation, flock};

use crate::bench::{Counter, Order, Place, Watchdog};
use crate::tree::{Numbers, write};
use crate::view::{View, assert_same, drafts};

/// A run of its own, under a lease, or one that begins with shares with which another run began before.
struct Alone {
    lease: TargetLease,
    repeats: Option<Vec<WorkShare>>,
}

impl Alone {
    fn new(lease: TargetLease) -> Self {
        Self { lease, repeats: None }
    }
}

impl WorkExchange for Alone {
    fn begin(&self) -> Option<Vec<WorkShare>> {
        self.repeats.clone()
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

    fn leave_open(&self, _directories: Vec<DirectoryEnd>) {
        panic!("nothing was given away");
    }

    fn lease(&self) -> &TargetLease {
        &self.lease
    }
}

/// Makes one run of the job under a lease.
fn run_leased(place: &Place, job: &Job, lease: TargetLease, plan: FaultPlan) -> RunSummary {
    run_shared(place, job, &Alone::new(lease), plan)
}

fn run_shared(place: &Place, job: &Job, exchange: &dyn WorkExchange, plan: FaultPlan) -> RunSummary {
    run_between((&place.source(), &place.target()), job, exchange, plan)
}

fn run_between(
    (source, target): (&Path, &Path),
    job: &Job,
    exchange: &dyn WorkExchange,
    plan: FaultPlan,
) -> RunSummary {
    let lease = exchange.lease();
    let _watchdog = Watchdog::new();
    let source = LocalSource::open(&[SourceRoot { path: source.to_path_buf() }]).unwrap();
    let mut key = [5; 32];
    key[8..16].copy_from_slice(&lease.key());
    let options = TargetOptions { job: key, durable: false, state: None };
    let grant = Grant { lease: Some(lease.clone()), ..Grant::everything() };
    let target = Faulty::new(LocalTarget::open(target, grant, options).unwrap(), plan);
    run(&Setup {
        source: &source,
        target: &target,
        job,
        observer: &NoObserver,
        clock: &Counter::default(),
        tagger: Tagger::new(TagKey([3; TAG_KEY_BYTES])).unwrap(),
        changes: &(),
        cancel: &false.into(),
        exchange: Some(exchange),
    })
}

/// The clock counts how often it is read, and takes the names that are there at the end of the lease.
static READ: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
static AT_END: Mutex<(Option<PathBuf>, BTreeSet<PathBuf>)> = Mutex::new((None, BTreeSet::new()));

fn counting() -> u64 {
    let now = READ.fetch_add(1, SeqCst);
    if now == END.load(SeqCst) {
        let mut at_end = AT_END.lock().unwrap();
        at_end.1 = at_end.0.as_ref().map(|root| names(root)).unwrap_or_default();
    }
    now
}

fn names(root: &Path) -> BTreeSet<PathBuf> {
    let mut names = BTreeSet::new();
    let mut below = vec![root.to_path_buf()];
    while let Some(directory) = below.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                below.push(entry.path());
            }
            let is_draft = hakobu_core::path::is_draft_name(entry.file_name().as_encoded_bytes());
            names.extend((!is_draft).then(|| entry.path()));
        }
    }
    names
}

fn small_tree(place: &Place) {
    let mut numbers = Numbers(11);
    for directory in ["", "a", "a/b", "c"] {
        fs::create_dir_all(place.source().join(directory)).unwrap();
        for file in 0..40 {
            write(&place.source().join(directory).join(format!("f{file}")), &mut numbers, 3000);
        }
        std::os::unix::fs::symlink("f1", place.source().join(directory).join("link")).unwrap();
    }
}

#[test]
fn after_the_end_of_a_lease_nothing_gets_its_name() {
    let mut made = 0;
    for replaces in [false, true] {
        // Each file reads the clock, and so does each operation.
        for end in (0..400).step_by(23) {
            let place = Place::new();
            small_tree(&place);
            if replaces {
                for name in names(&place.source()) {
                    let there = place.target().join(name.strip_prefix(place.source()).unwrap());
                    if name.is_dir() {
                        fs::create_dir_all(&there).unwrap();
                    } else {
                        fs::create_dir_all(there.parent().unwrap()).unwrap();
                        fs::write(there, "older").unwrap();
                    }
                }
            }
            READ.store(0, SeqCst);
            END.store(end, SeqCst);
            *AT_END.lock().unwrap() = (Some(place.target()), BTreeSet::new());
            let contents = || -> Vec<_> {
                names(&place.target()).into_iter().map(|name| fs::read(&name).unwrap_or_default()).collect()
            };
            let lease = TargetLease::new([1; 8], counting, end);
            let job = Order::contents(1).job;
            let summary = run_leased(&place, &job, lease, FaultPlan::new(1));
            let at_end = AT_END.lock().unwrap().1.clone();
            if let Some(error) = summary.fatal {
                assert_eq!(error.kind, ErrorKind::BeyondGrant, "{error}");
                assert_eq!(names(&place.target()), at_end, "{end}");
                made += usize::from(contents().iter().any(|content| content.len() > 5));
            }
            assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
            let summary = run_leased(&place, &job, TargetLease::endless([2; 8]), FaultPlan::new(1));
            assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
            assert_same(&View::of(&place.source()), &View::of(&place.target()));
        }
    }
    assert!(made > 10, "{made} ended in the middle");
}

/// Leaves a draft of a large file and its journal, as a process that was killed does.
pub fn leave_large((source, target): (&Path, &Path), job: &Job) {
    let cut = FaultPlan::new(1).on(Write, FaultCondition::Nth(150), FaultEffect::LaneLost);
    let summary = run_between((source, target), job, &Alone::new(TargetLease::endless([1; 8])), cut);
    assert_eq!(summary.fatal.unwrap().kind, ErrorKind::ConnectionLost);
    assert_eq!(drafts(target).len(), 2, "a draft and its journal");
}

/// Makes a large file.
pub fn large_file(path: &Path) -> Vec<u8> {
    let mut content = vec![0; (JOURNALED_FROM_BYTES + 4 * CHUNK_BYTES) as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    fs::write(path, &content).unwrap();
    content
}

#[test]
fn another_lease_goes_on_with_a_large_file_unless_somebody_has_it() {
    for is_held in [false, true] {
        let place = Place::new();
        let content = large_file(&place.source().join("large"));
        let mut job = Order::contents(1).job;
        job.clone = false;
        leave_large((&place.source(), &place.target()), &job);
        let held: Vec<OwnedFd> = match is_held {
            true => {
                drafts(&place.target()).iter().map(|draft| fs::File::open(draft).unwrap().into()).collect()
            }
            false => Vec::new(),
        };
        held.iter().for_each(|draft| flock(draft, FlockOperation::LockExclusive).unwrap());
        let summary = run_leased(&place, &job, TargetLease::endless([2; 8]), FaultPlan::new(1));
        assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
        assert_eq!(summary.counters.bytes_resumed > 0, !is_held);
        assert!(fs::read(place.target().join("large")).unwrap() == content);
        assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new(), "its rename would fail now");
    }
}

/// Names of files with several come without the listings of their directories.
#[test]
fn another_lease_goes_on_with_a_large_file_that_has_two_names() {
    let place = Place::new();
    let size_bytes = JOURNALED_FROM_BYTES + 4 * CHUNK_BYTES;
    let (folder, target) = (place.source().join("d"), place.target().join("d"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&target).unwrap();
    let content = large_file(&folder.join("large"));
    fs::hard_link(folder.join("large"), folder.join("other")).unwrap();
    let metadata = fs::metadata(folder.join("large")).unwrap();
    let names = || {
        let share = |name: &str| {
            let path = EntryPath::new(format!("d/{name}")).unwrap();
            let place = SharePlace { root: 0, source: path.clone(), target: path, top_names: 0 };
            let inode = Inode { file_system: metadata.dev(), number: metadata.ino() };
            WorkShare::Name(NameShare { place, inode, size_bytes, links: 2 })
        };
        vec![share("large"), share("other")]
    };
    let again = |lease| Alone { lease: TargetLease::endless([lease; 8]).repeated(), repeats: Some(names()) };
    let mut job = Order::contents(1).job;
    job.clone = false;
    let cut = || FaultPlan::new(1).on(Write, FaultCondition::Nth(150), FaultEffect::LaneLost);
    assert!(run_shared(&place, &job, &again(1), cut()).fatal.is_some());
    let left = drafts(&place.target());
    assert_eq!(left.len(), 2, "a draft and its journal");
    // One that somebody has is not taken over, and there may be several.
    let draft: OwnedFd =
        fs::File::open(left.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap())
            .unwrap()
            .into();
    flock(&draft, FlockOperation::NonBlockingLockExclusive).unwrap();
    let once = Alone { lease: TargetLease::endless([2; 8]), repeats: Some(names()) };
    assert!(run_shared(&place, &job, &once, cut()).fatal.is_some());
    assert_eq!(drafts(&place.target()).len(), 4, "of two leases");
    let summary = run_shared(&place, &job, &again(3), FaultPlan::new(1));
    assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
    assert!(summary.counters.bytes_resumed > 0, "{summary:?}");
    assert!(fs::read(target.join("other")).unwrap() == content);
    assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
}

/// Another unit may have other names of the same directory.
#[test]
fn repeated_names_leave_the_drafts_of_other_files_alone() {
    let place = Place::new();
    let (folder, target) = (place.source().join("d"), place.target().join("d"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&target).unwrap();
    for name in ["large", "other"] {
        large_file(&folder.join(name));
        fs::hard_link(folder.join(name), folder.join(format!("{name}2"))).unwrap();
    }
    let begin = |name: &str, lease| {
        let path = |name: &str| EntryPath::new(format!("d/{name}")).unwrap();
        let metadata = fs::metadata(folder.join(name)).unwrap();
        let inode = Inode { file_system: metadata.dev(), number: metadata.ino() };
        let shares = [name.to_owned(), format!("{name}2")].map(|name| {
            let place = SharePlace { root: 0, source: path(&name), target: path(&name), top_names: 0 };
            WorkShare::Name(NameShare { place, inode, size_bytes: metadata.len(), links: 2 })
        });
        Alone { lease: TargetLease::endless([lease; 8]).repeated(), repeats: Some(shares.to_vec()) }
    };
    let mut job = Order::contents(1).job;
    job.clone = false;
    let cut = FaultPlan::new(1).on(Write, FaultCondition::Nth(150), FaultEffect::LaneLost);
    assert!(run_shared(&place, &job, &begin("other", 1), cut).fatal.is_some());
    let left = drafts(&place.target());
    // Somebody still writes to it.
    let held: Vec<OwnedFd> = left.iter().map(|path| fs::File::open(path).unwrap().into()).collect();
    held.iter().for_each(|file| flock(file, FlockOperation::NonBlockingLockExclusive).unwrap());
    let summary = run_shared(&place, &job, &begin("large", 2), FaultPlan::new(1));
    assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
    assert_eq!(drafts(&place.target()), left);
}

/// The end of a lease is no interruption: another run has the work, and would not look for progress of this one.
#[test]
fn a_large_file_is_discarded_after_the_end_of_its_lease() {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    let place = Place::new();
    fs::write(place.source().join("large"), vec![7; (JOURNALED_FROM_BYTES + 4 * CHUNK_BYTES) as usize])
        .unwrap();
    let mut job = Order::contents(1).job;
    job.clone = false;
    let lease = TargetLease::new([1; 8], || ENDED.fetch_add(1, SeqCst), 100);
    assert_eq!(
        run_leased(&place, &job, lease, FaultPlan::new(1)).fatal.unwrap().kind,
        ErrorKind::BeyondGrant
    );
    assert!(ENDED.load(SeqCst) > 100);
    assert_eq!(drafts(&place.target()), Vec::<PathBuf>::new());
}
