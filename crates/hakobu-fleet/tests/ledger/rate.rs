//! The rate at which units pass through a ledger, and the space that they take.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hakobu_core::entry::Inode;
use hakobu_fleet::change::{LedgerAnswer, UnitResult};
use hakobu_fleet::ids::RunId;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::ledger::sqlite::SqliteLedger;
use hakobu_fleet::link_name::{LinkNameRow, PackLimits};
use hakobu_fleet::run::RunOutcome;
use hakobu_testkit::postgres::{PostgresOptions, PostgresServer};

use crate::database::leading;
use crate::samples::*;

/// The units that the leader takes together: those of 20 ms at 1 000 a second.
const BATCH: usize = 20;
/// A path of usual length.
const DIRECTORY: &str = "some/directory/of-a-tree/with-a-number-1234";

/// Leases and commits units in batches, each of which adds as many. Returns the time and the number of units.
fn pass(ledger: &mut dyn Ledger, run: RunId, units: u64) -> Duration {
    let begun = Instant::now();
    for batch in 0..units / BATCH as u64 {
        let ready = ledger.ready_units(run, None, BATCH).unwrap();
        assert_eq!(ready.len(), BATCH);
        let leases = ready
            .iter()
            .map(|unit| lease_change(unit.key, "one", unit.state.epoch.get(), batch, batch + 30_000));
        let answers = ledger.apply(&leases.collect::<Vec<_>>()).unwrap();
        let commits = answers.iter().map(|answer| {
            let LedgerAnswer::Leased(lease) = answer else { panic!("{answer:?}") };
            let result = UnitResult { children: vec![work(&[DIRECTORY])], ..Default::default() };
            commit_change(lease.key, "one", lease.epoch, result)
        });
        let answers = ledger.apply(&commits.collect::<Vec<_>>()).unwrap();
        assert!(answers.iter().all(|answer| *answer == LedgerAnswer::Committed));
    }
    begun.elapsed()
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

/// Returns the time that this thread's process spent on processors.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn measure(units: u64) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = directory.path().join("ledger.db");
    let mut ledger = SqliteLedger::open(&file).unwrap();
    let run = start(&mut ledger, vec![work(&[DIRECTORY]); BATCH]);
    let before = processor_time();
    let time = pass(&mut ledger, run, units);
    let busy = processor_time() - before;
    let copy = directory.path().join("compact");
    ledger.back_up(&copy).unwrap();
    let during = size(&copy) / units;
    apply(&mut ledger, end(run, RunOutcome::Cancelled));
    let swept = Instant::now();
    while ledger.sweep(10_000).unwrap() {}
    let swept = swept.elapsed();
    let copy = directory.path().join("ended");
    ledger.back_up(&copy).unwrap();
    println!(
        "{units} units: {:.0} a second, {:.2} ms of a processor each, {during} bytes each during the run, \
         {} bytes in all after it, swept in {swept:?}",
        units as f64 / time.as_secs_f64(),
        busy.as_secs_f64() * 1e3 / units as f64,
        size(&copy),
    );
    assert!(during <= 200, "{during} bytes of each unit");
    assert!(size(&copy) <= 1 << 20, "an ended run leaves little");
}

#[test]
fn committed_units_take_little_space() {
    measure(4_000);
}

/// Measures, and is worth running in a release build on a disk that is not busy.
#[test]
#[ignore = "takes long"]
fn long_rate_of_units() {
    measure(200_000);
}

/// The variable of the process whose memory is measured.
const MEASURED: &str = "HAKOBU_TEST_LINKS";
/// The memory of a process with a ledger at most. The names of a million groups take more in any form.
const PEAK_KIB_MAX: u64 = 64 << 10;

#[test]
#[ignore = "takes long"]
fn long_million_groups_of_links() {
    if std::env::var_os(MEASURED).is_some() {
        return pass_million_groups();
    }
    // Other tests of this process use memory as well.
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "rate::long_million_groups_of_links", "--ignored", "--nocapture"]);
    assert!(alone.env(MEASURED, "1").status().unwrap().success());
}

/// Returns the most memory that this process had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

fn pass_million_groups() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = directory.path().join("ledger.db");
    let mut ledger = SqliteLedger::open(&file).unwrap();
    let run = start(&mut ledger, vec![work(&[""]); 100]);
    let begun = Instant::now();
    for (batch, unit) in (0u64..).zip(ledger.ready_units(run, None, 100).unwrap()) {
        let names = (0..20_000u64).map(|name| {
            // Both names of a group are recorded by different units, far apart.
            let number = (batch * 20_000 + name) % 1_000_000;
            let inode = Inode { file_system: 64, number: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
            let path = path(&format!("tree/directory-{:04}/name-{batch}-{name}", name / 100));
            LinkNameRow { inode, size: 4096, root: 0, path, detail: vec![0, 0, 2] }
        });
        let result = UnitResult { link_names: names.collect(), ..Default::default() };
        let leased = lease(&mut ledger, unit.key, "one", 0);
        let answer = apply(&mut ledger, commit_change(unit.key, "one", leased.epoch, result));
        assert_eq!(answer, LedgerAnswer::Committed);
    }
    let recorded = begun.elapsed();
    let begun = Instant::now();
    let (mut after, mut groups, mut packs) = (None, 0, 0);
    while let Some(pack) = ledger.link_pack(run, after.as_ref(), PackLimits::default()).unwrap() {
        assert!(pack.groups.iter().all(|group| group.names.len() == 2));
        (groups, packs) = (groups + pack.groups.len(), packs + 1);
        after = Some(pack.last);
    }
    let peak = peak_kib();
    println!(
        "recorded in {recorded:?}, read in {packs} packs in {:?}, {} bytes, {peak} KiB of memory",
        begun.elapsed(),
        size(&file)
    );
    assert_eq!(groups, 1_000_000);
    assert!(peak <= PEAK_KIB_MAX, "{peak} KiB");
}

/// Measures with a server that syncs each commit to a disk.
fn measure_database(units: u64) {
    let within = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let options = PostgresOptions { within: Some(within), ..Default::default() };
    let server = PostgresServer::start_with(&options).unwrap();
    let (mut ledger, _leadership) = leading(&server.url());
    let run = start(&mut ledger, vec![work(&[DIRECTORY]); BATCH]);
    pass(&mut ledger, run, 1000);
    let before = processor_time();
    let time = pass(&mut ledger, run, units);
    let busy = processor_time() - before;
    let size = |server: &PostgresServer| -> u64 {
        server.sql("VACUUM FULL").unwrap();
        let sql = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
        server.sql(sql).unwrap().trim().parse().unwrap()
    };
    let during = size(&server) / (units + 1000);
    apply(&mut ledger, end(run, RunOutcome::Cancelled));
    let swept = Instant::now();
    while ledger.sweep(10_000).unwrap() {}
    let swept = swept.elapsed();
    let after = size(&server);
    println!(
        "{units} units in PostgreSQL: {:.0} a second, {:.2} ms of a processor each beside the server, {during} bytes each during \
         the run, {after} bytes in all after it, swept in {swept:?}",
        units as f64 / time.as_secs_f64(),
        busy.as_secs_f64() * 1e3 / units as f64,
    );
    assert!(during <= 200, "{during} bytes of each unit");
    assert!(after <= 1 << 20, "an ended run leaves little");
}

#[test]
fn committed_units_take_little_space_in_a_database() {
    measure_database(4_000);
}

/// Measures, and is worth running in a release build on a disk that is not busy.
#[test]
#[ignore = "takes long"]
fn long_rate_of_units_in_a_database() {
    measure_database(60_000);
}
