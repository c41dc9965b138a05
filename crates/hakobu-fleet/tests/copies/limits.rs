//! Limits over several brokers and runs, measured at the real engines.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hakobu_fleet::bus::BrokerBus;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::ids::RunId;
use hakobu_fleet::leader::Leader;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::names::GroupName;
use hakobu_fleet::run::{RunOutcome, RunRow};
use hakobu_fleet::run_figures::RunFigures;
use hakobu_fleet::unit::UnitWork;

use crate::fleet::{Fleet, group};
use crate::tests::request;
use crate::trees;

const LIMIT: Duration = Duration::from_secs(180);
const BROKERS: usize = 3;
/// The limit of the bytes, which two runs share.
const BYTES_PER_SECOND: u64 = 4_000_000;
/// The limit of the operations.
const OPERATIONS_PER_SECOND: u64 = 700;
/// The bytes that an engine sends at a time.
const PIECE_BYTES: u64 = 256 << 10;
/// The time over which a rate is looked at while runs go on, and the time by which reports of brokers are late.
const WINDOW: Duration = Duration::from_secs(3);
const REPORTS_MS: u64 = 700;

fn other_group() -> GroupName {
    GroupName::new("other").unwrap()
}

/// Makes a tree of so many directories, each with so many files of a size. Returns the operations at the source to copy it: each
/// entry is listed, each directory is opened, and each file is read.
fn make(root: &Path, directories: u64, files: u64, bytes: usize) -> u64 {
    for directory in 0..directories {
        let folder = root.join(format!("d{directory}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..files {
            fs::write(folder.join(format!("f{file}")), vec![file as u8 | 1; bytes]).unwrap();
        }
    }
    1 + 2 * directories + 2 * directories * files
}

/// Two trees and a fleet of three brokers, of which one may belong to another group than the other two.
struct TwoRuns {
    folder: tempfile::TempDir,
    fleet: Fleet,
    groups: [GroupName; 2],
    operations: u64,
}

impl TwoRuns {
    fn new(groups: [GroupName; 2], directories: u64, files: u64, bytes: usize) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let trees = ["one", "two"].map(|name| folder.path().join("sources").join(name));
        let operations = trees.iter().map(|tree| make(tree, directories, files, bytes)).sum();
        let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
        for broker in 0..BROKERS {
            let bus = fleet.plane.local().broker(&groups[broker % 2]);
            fleet.add_broker_at(&format!("b{broker}"), Arc::new(bus) as Arc<dyn BrokerBus>);
        }
        Self { folder, fleet, groups, operations }
    }

    fn sources(&self) -> PathBuf {
        self.folder.path().join("sources")
    }

    fn change(&self, change: LedgerChange) {
        self.fleet.plane.handle().apply(change).unwrap();
    }

    /// Copies both trees at a time; looks at the figures of both meanwhile. Returns their rows.
    fn copy(&self, mut look: impl FnMut(RunFigures, BTreeSet<String>)) -> [RunRow; 2] {
        let started = [("one", &self.groups[0]), ("two", &self.groups[1])].map(|(name, group)| {
            let request = request(&self.sources().join(name), &self.folder.path().join(name));
            self.fleet.start_in(group.clone(), &request, UnitWork::All)
        });
        let began = Instant::now();
        let figures = move |leader: &mut Leader| {
            let row = |run: RunId| leader.ledger().run(run).unwrap().unwrap();
            let rows = started.map(row);
            let active = leader.active_runs();
            let under_way = rows.iter().filter_map(|row| active.get(&row.id));
            let brokers: BTreeSet<_> =
                under_way.clone().flat_map(|run| run.brokers()).map(ToString::to_string).collect();
            let figures = rows.iter().map(|row| row.counters.figures());
            let figures = figures.chain(under_way.map(|run| run.under_way()));
            let is_over = rows.iter().all(|row| row.ended.is_some());
            (figures.fold(RunFigures::default(), RunFigures::plus), brokers, is_over)
        };
        loop {
            let (figures, brokers, is_over) = self.fleet.plane.handle().ask(figures).unwrap();
            look(figures, brokers);
            if is_over {
                break;
            }
            assert!(began.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(100));
        }
        let rows = started.map(|run| self.fleet.finish(run, LIMIT));
        for (row, name) in rows.iter().zip(["one", "two"]) {
            assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
            trees::assert_equal(&self.sources().join(name), &self.folder.path().join(name));
        }
        rows
    }
}

/// Returns the time from the start of the first run to the end of the last one in milliseconds.
fn elapsed_ms(rows: &[RunRow; 2]) -> u64 {
    let started = rows.iter().map(|row| row.started.get()).min().unwrap();
    rows.iter().map(|row| row.ended.unwrap().get()).max().unwrap() - started
}

/// Copies two trees under a limit of the rate, and checks the rate over all brokers: of the whole time, and of any three seconds.
/// More than the limit is only what each engine sends at once when it begins, a piece.
fn measure_bytes(runs: &TwoRuns) {
    let mut seen: VecDeque<(Instant, u64)> = VecDeque::new();
    let mut all = BTreeSet::new();
    let burst = BROKERS as u64 * PIECE_BYTES;
    let mut most = 0;
    let rows = runs.copy(|figures, brokers| {
        let now = Instant::now();
        seen.push_back((now, figures.bytes_done));
        while seen.front().is_some_and(|(at, _)| now - *at > WINDOW) {
            seen.pop_front();
        }
        let (from, bytes) = seen[0];
        let may = BYTES_PER_SECOND * ((now - from).as_millis() as u64 + REPORTS_MS) / 1000 + burst;
        assert!(
            figures.bytes_done - bytes <= may,
            "{} bytes in {:?}",
            figures.bytes_done - bytes,
            now - from
        );
        most = most.max(brokers.len());
        all.extend(brokers);
    });
    assert_eq!((all.len(), most), (BROKERS, BROKERS), "all brokers work at a time");
    let bytes: u64 = rows.iter().map(|row| row.counters.target_written_bytes).sum();
    let may = BYTES_PER_SECOND * elapsed_ms(&rows) / 1000;
    println!("{bytes} bytes in {} ms: {} %", elapsed_ms(&rows), bytes * 100 / may);
    assert!(bytes <= may + burst, "{bytes} bytes, {may} are allowed");
    assert!(bytes * 100 >= may * 80, "{bytes} bytes, {may} are allowed");
}

/// Copies two trees under a limit of the operations. More than the limit is only what each engine does at once when it begins: the
/// operations of a twentieth of a second, and a batch of a tenth.
fn measure_operations(runs: &TwoRuns) {
    let mut all = BTreeSet::new();
    let rows = runs.copy(|_, brokers| all.extend(brokers));
    assert_eq!(all.len(), BROKERS, "all brokers work");
    let may = OPERATIONS_PER_SECOND * elapsed_ms(&rows) / 1000;
    println!("{} operations in {} ms: {} %", runs.operations, elapsed_ms(&rows), runs.operations * 100 / may);
    let burst = OPERATIONS_PER_SECOND * 15 / 100;
    assert!(runs.operations <= may + burst, "{} operations, {may} are allowed", runs.operations);
    assert!(runs.operations * 100 >= may * 80, "{} operations, {may} are allowed", runs.operations);
}

fn bytes_limit() -> String {
    format!(r#"{{"version":1,"bytes_per_second":{BYTES_PER_SECOND}}}"#)
}

fn operations_limit() -> String {
    format!(r#"{{"version":1,"operations_per_second":{OPERATIONS_PER_SECOND}}}"#)
}

#[test]
fn two_runs_of_a_group_keep_its_rate() {
    let runs = TwoRuns::new([group(), group()], 200, 5, 25_000);
    runs.change(LedgerChange::LimitGroup(group(), Some(bytes_limit())));
    measure_bytes(&runs);
}

#[test]
fn two_runs_of_a_group_keep_its_operations() {
    let runs = TwoRuns::new([group(), group()], 60, 50, 1_000);
    runs.change(LedgerChange::LimitGroup(group(), Some(operations_limit())));
    measure_operations(&runs);
}

#[test]
fn runs_of_two_groups_keep_the_rate_of_an_endpoint() {
    let runs = TwoRuns::new([group(), other_group()], 200, 5, 25_000);
    let location = runs.sources().as_os_str().as_bytes().to_vec();
    runs.change(LedgerChange::LimitEndpoint(location, Some(bytes_limit())));
    measure_bytes(&runs);
}

#[test]
fn runs_of_two_groups_keep_the_operations_of_an_endpoint() {
    let runs = TwoRuns::new([group(), other_group()], 60, 50, 1_000);
    let location = runs.sources().as_os_str().as_bytes().to_vec();
    runs.change(LedgerChange::LimitEndpoint(location, Some(operations_limit())));
    measure_operations(&runs);
}

/// No read takes less than 10 us. So each broker yields, if it knows the limit in microseconds.
#[test]
fn each_broker_yields_to_others_at_the_source_of_a_group() {
    let runs = TwoRuns::new([group(), group()], 40, 50, 60_000);
    runs.change(LedgerChange::LimitGroup(
        group(),
        Some(r#"{"version":1,"source_p99_ms":0.01,"operations_per_second":1500}"#.to_owned()),
    ));
    let started = ["one", "two"]
        .map(|name| runs.fleet.start(&request(&runs.sources().join(name), &runs.folder.path().join(name))));
    let slow = |leader: &mut Leader| {
        let units = leader.active_runs().values().flat_map(|run| run.leased.values());
        let slow = units.filter(|unit| {
            unit.progress.as_ref().is_some_and(|progress| progress.limited_by == "source latency limit")
        });
        slow.map(|unit| unit.broker.to_string()).collect::<Vec<_>>()
    };
    let (began, mut yielded) = (Instant::now(), BTreeSet::new());
    while yielded.len() < BROKERS {
        assert!(began.elapsed() < LIMIT, "only {yielded:?}");
        yielded.extend(runs.fleet.plane.handle().ask(slow).unwrap());
        std::thread::sleep(Duration::from_millis(50));
    }
    runs.change(LedgerChange::LimitGroup(group(), None));
    for run in started {
        assert_eq!(runs.fleet.finish(run, LIMIT).outcome, Some(RunOutcome::Complete));
    }
}
