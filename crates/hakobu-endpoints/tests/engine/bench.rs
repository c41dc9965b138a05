//! A test environment with a source and a target, and runs between them with a watchdog.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::DraftKind;
use hakobu_core::engine::{Clock, RunSummary, Setup, run};
use hakobu_core::event::{Event, Observer};
use hakobu_core::extended::Classes;
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, JobItem, Removal};
use hakobu_core::names::NameRules;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_endpoints::local::{LocalSource, LocalTarget, SourceRoot, TargetOptions};
use hakobu_testkit::faults::{FaultPlan, Faulty, LoggedOperation, OperationKind};
use tempfile::TempDir;

use crate::view::{View, drafts};

/// The maximum time of a run, far longer than any run of these tests takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A source and a target directory.
pub struct Place {
    base: TempDir,
}

/// The parameters of a run.
#[derive(Clone)]
pub struct Order {
    pub job: Job,
    pub source: FaultPlan,
    pub target: FaultPlan,
    /// True if the target claims to be on another machine.
    pub remote: bool,
    /// The name rules that the target claims.
    pub names: Option<NameRules>,
    /// The extended attributes that the target claims to support.
    pub extended: Option<Classes>,
    /// The number of further entries for which the target claims to have space.
    pub free_inodes: Option<u64>,
    /// True if the source claims that its inode numbers identify files.
    pub source_inodes: bool,
    /// True if the grant allows setting owners.
    pub may_chown: bool,
    /// Further changes to the capabilities that the target claims.
    pub shows: fn(&mut Capabilities),
    pub cancel: Arc<AtomicBool>,
}

/// The result of a run.
pub struct Made {
    pub summary: RunSummary,
    pub source_log: Vec<LoggedOperation>,
    pub target_log: Vec<LoggedOperation>,
    pub events: Vec<Event>,
    pub interrupted: bool,
    /// The number of entries that the target reports as possibly created.
    pub entries_made: u64,
}

impl Place {
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        let place = Self { base };
        std::fs::create_dir(place.source()).unwrap();
        std::fs::create_dir(place.target()).unwrap();
        place
    }

    pub fn source(&self) -> PathBuf {
        self.base.path().join("source")
    }

    pub fn target(&self) -> PathBuf {
        self.base.path().join("target")
    }

    /// Makes a run, which must not leave a draft, whatever its result.
    pub fn run(&self, order: &Order) -> Made {
        self.run_from(&self.source(), order)
    }

    /// Makes a run from another source.
    pub fn run_from(&self, source: &Path, order: &Order) -> Made {
        self.run_from_three(&[source; 3], order)
    }

    /// Makes a run with three sources, which the order's items use in turn.
    pub fn run_from_three(&self, sources: &[&Path; 3], order: &Order) -> Made {
        let made = run_between(sources, &self.target(), order);
        assert_eq!(drafts(&self.target()), Vec::<PathBuf>::new(), "drafts were left");
        made
    }

    /// Makes a run from another source that may leave data for a later run.
    pub fn run_leaving(&self, source: &Path, order: &Order) -> Made {
        run_between(&[source; 3], &self.target(), order)
    }

    /// Makes a run whose target is below a system directory.
    pub fn run_device(&self, target: &Path, order: &Order) -> Made {
        run_between(&[&self.source(); 3], target, order)
    }

    pub fn source_view(&self) -> View {
        View::of(&self.source())
    }

    pub fn target_view(&self) -> View {
        View::of(&self.target())
    }
}

fn run_between(sources: &[&Path; 3], target: &Path, order: &Order) -> Made {
    let _watchdog = Watchdog::new();
    let roots = sources.map(|path| SourceRoot { path: path.to_path_buf() });
    let local = LocalSource::open(&roots).unwrap();
    let source = Faulty::new(local, order.source.clone()).showing(|able| able.inodes &= order.source_inodes);
    let options = TargetOptions { job: [5; 32], durable: order.job.durable, state: None };
    let may_remove = order.job.removal != Removal::Leave;
    let grant = Grant { may_remove, may_chown: order.may_chown, ..Grant::everything() };
    let local = LocalTarget::open(target, grant, options).unwrap();
    let faulty = Faulty::new(local, order.target.clone()).showing(|able| {
        able.remote |= order.remote;
        able.names = order.names.unwrap_or(able.names);
        able.extended = order.extended.unwrap_or(able.extended);
        able.free_inodes = order.free_inodes.or(able.free_inodes);
        (order.shows)(able);
    });
    let events = Events::default();
    let setup = Setup {
        source: &source,
        target: &faulty,
        job: &order.job,
        observer: &events,
        clock: &Counter::default(),
        tagger: Tagger::new(TagKey([3; TAG_KEY_BYTES])).unwrap(),
        changes: &(),
        cancel: &order.cancel,
        exchange: None,
    };
    let summary = run(&setup);
    Made {
        summary,
        source_log: source.log(),
        target_log: faulty.log(),
        events: events.0.into_inner().unwrap(),
        interrupted: faulty.was_interrupted(),
        entries_made: faulty.inner().entries_made(),
    }
}

impl Order {
    /// Copies the contents of the source into the target.
    pub fn contents(lanes: u16) -> Self {
        Self::items(lanes, &[("", "")])
    }

    /// Copies entries of the source to names in the target.
    pub fn items(lanes: u16, items: &[(&str, &str)]) -> Self {
        let path = |text: &str| EntryPath::new(text).unwrap();
        let item = |(index, (source, target)): (usize, &(&str, &str))| JobItem {
            root: index as u16 % 3,
            source: path(source),
            target: path(target),
            place: DraftKind::File,
        };
        let job = Job {
            items: items.iter().enumerate().map(item).collect(),
            make_directory: None,
            lanes,
            digest: true,
            clone: true,
            durable: false,
            dry_run: false,
            require: Vec::new(),
            ..Job::default()
        };
        Self {
            job,
            source: FaultPlan::new(1),
            target: FaultPlan::new(2),
            remote: false,
            names: None,
            extended: None,
            free_inodes: None,
            source_inodes: true,
            may_chown: true,
            shows: |_| (),
            cancel: Arc::new(AtomicBool::new(false)),
        }
    }

    pub fn source(mut self, plan: FaultPlan) -> Self {
        self.source = plan;
        self
    }

    pub fn target(mut self, plan: FaultPlan) -> Self {
        self.target = plan;
        self
    }

    pub fn remote(mut self) -> Self {
        self.remote = true;
        self
    }

    pub fn job(mut self, change: impl FnOnce(&mut Job)) -> Self {
        change(&mut self.job);
        self
    }
}

impl Made {
    /// Returns the operations that changed, or would have changed, the target.
    pub fn writes(&self) -> Vec<&LoggedOperation> {
        self.target_log.iter().filter(|logged| logged.kind.writes()).collect()
    }

    pub fn count(&self, kind: OperationKind) -> usize {
        let logs = self.source_log.iter().chain(&self.target_log);
        logs.filter(|logged| logged.kind == kind).count()
    }

    /// Returns the failed paths, none of which may occur twice.
    pub fn failed_paths(&self) -> Vec<Vec<u8>> {
        let mut paths: Vec<_> = self.summary.failures.iter().map(|failure| failure.path.clone()).collect();
        paths.sort();
        for pair in paths.windows(2) {
            let twice = String::from_utf8_lossy(&pair[0]);
            assert!(pair[0] != pair[1], "{twice} failed twice: {:?}", self.summary.failures);
        }
        let failed = self.summary.counters.entries_failed;
        assert_eq!(paths.len() as u64, failed, "failures counted and failures told");
        let told = self.events.iter().filter(|event| matches!(event, Event::Failure(_))).count();
        assert_eq!(told as u64, failed, "failures counted and failures that the observer saw");
        paths
    }
}

/// A clock that advances whenever it is read.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Clock for Counter {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1000, Relaxed)
    }
}

#[derive(Default)]
struct Events(Mutex<Vec<Event>>);

impl Observer for Events {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// Ends the whole test program if a run does not end, because a deadlock cannot be resolved otherwise.
pub struct Watchdog(Option<mpsc::Sender<()>>);

impl Watchdog {
    pub fn new() -> Self {
        let (alive, ended) = mpsc::channel::<()>();
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{name}: a run did not end");
                std::process::abort();
            }
        });
        Self(Some(alive))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.take();
    }
}
