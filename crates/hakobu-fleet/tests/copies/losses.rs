//! A fleet loses the properties that one process would lose, and reports each once.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hakobu_core::live_limits::LiveLimits;
use hakobu_core::losses::Loss;
use hakobu_core::outcome::RunEnvironment;
use hakobu_core::pace::RunLimits;
use hakobu_core::prompts::NoPrompts;
use hakobu_endpoints::memory::object_store;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::run::RunOutcome;
use hakobu_fleet::run_report::RunReport;
use hakobu_fleet::run_request::RequestReader;
use hakobu_transfer::copy::copy;

use crate::fleet::{Fleet, PlainReader, PrintedNotices};
use crate::tests::request;

/// Returns losses without examples, which are any of the entries.
fn numbers<'a>(losses: impl Iterator<Item = &'a Loss>) -> Vec<(&'static str, u64, bool)> {
    let mut numbers: Vec<_> = losses.map(|loss| (loss.what.name(), loss.count, loss.at_target)).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the losses of a copy by this process alone.
fn alone(source: &Path, target: &str) -> Vec<(&'static str, u64, bool)> {
    let copying = PlainReader.read(&request(source, Path::new(target))).unwrap();
    let mut environment = RunEnvironment {
        prompts: &mut NoPrompts,
        observer: &PrintedNotices::default(),
        cancel: Arc::default(),
        limits: Arc::new(LiveLimits::new(RunLimits::default(), Instant::now)),
    };
    let summary = copy(&copying, &mut environment).summary;
    assert!(summary.fatal.is_none() && summary.failures.is_empty(), "{summary:?}");
    numbers(summary.losses.iter())
}

#[test]
fn a_fleet_reports_the_losses_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    for directory in 0..40 {
        let place = source.join(format!("d{}/e{directory}", directory % 5));
        fs::create_dir_all(&place).unwrap();
        (0..60).for_each(|file| fs::write(place.join(format!("f{file}")), "text").unwrap());
        // Names of one file, near and far.
        fs::hard_link(place.join("f0"), place.join("near")).unwrap();
        fs::hard_link(place.join("f1"), source.join(format!("far{directory}"))).unwrap();
    }
    let _stores = [&b"lost-alone"[..], b"lost-shared"].map(object_store);
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    (0..3).for_each(|broker| fleet.add_broker(&format!("b{broker}")));
    // In the second round nothing is written.
    for round in 0..2 {
        let expected = alone(&source, "memory://lost-alone");
        assert!(expected.len() > 1, "{expected:?}");
        let run = fleet.start(&request(&source, Path::new("memory://lost-shared")));
        // Slow enough to be divided.
        let limits = r#"{"version":1,"operations_per_second":2000}"#.to_owned();
        fleet.plane.handle().apply(LedgerChange::LimitRun(run, Some(limits))).unwrap();
        let row = fleet.finish(run, Duration::from_secs(60));
        assert_eq!(row.outcome, Some(RunOutcome::Complete), "{row:?}");
        assert!(round > 0 || row.units.committed > 3, "several units report losses: {row:?}");
        assert_eq!(numbers(row.losses.iter()), expected, "round {round}: {row:?}");
        let report = fleet.plane.handle().ask(move |leader| leader.ledger().report(run)).unwrap().unwrap();
        let report: RunReport = serde_json::from_slice(&report.unwrap()).unwrap();
        assert_eq!(report.losses, row.losses.reported());
    }
}
