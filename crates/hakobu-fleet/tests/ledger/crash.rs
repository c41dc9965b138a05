//! A process with a ledger that is killed in the middle.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hakobu_fleet::change::{LedgerAnswer, UnitResult};
use hakobu_fleet::ids::RunId;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::ledger::sqlite::SqliteLedger;

use crate::samples::*;

/// The variable with the file, for the process that is killed.
const FILE: &str = "HAKOBU_TEST_LEDGER";
const ROUNDS: u64 = 12;

/// Commits units, each of which adds one, and tells of each that it is durable.
fn commit_for_ever(ledger: &mut dyn Ledger, run: RunId) {
    loop {
        let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
        let leased = lease(ledger, key, "one", 0);
        let result = UnitResult {
            children: vec![work(&["a"])],
            open_directories: vec![open_directory("a")],
            link_names: vec![link_name(leased.key.unit.get(), "a/l")],
            ..Default::default()
        };
        let answer = apply(ledger, commit_change(key, "one", leased.epoch, result));
        assert_eq!(answer, LedgerAnswer::Committed);
        println!("{}", key.unit);
        std::io::stdout().flush().unwrap();
    }
}

/// Started by the test below, which kills it.
#[test]
fn a_process_to_kill() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let mut ledger = SqliteLedger::open(Path::new(&file)).unwrap();
    let run = ledger.open_runs().unwrap()[0].id;
    commit_for_ever(&mut ledger, run);
}

/// Lets the process commit for a while and kills it. Returns the last unit of which it told.
fn kill_after(file: &Path, after: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::a_process_to_kill", "--nocapture", "--test-threads=1"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0;
    // The name of the test and the first number may share a line.
    let number = |line: &str| line.split_whitespace().next_back().and_then(|word| word.parse::<u64>().ok());
    let begun = Instant::now();
    let mut first = None;
    for line in lines.by_ref() {
        last = number(&line.unwrap()).unwrap_or(last);
        if last > 0 && first.get_or_insert_with(Instant::now).elapsed() >= after {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "it commits nothing");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // It may have told of more before it was killed.
    lines.map_while(Result::ok).filter_map(|line| number(&line)).last().unwrap_or(last)
}

#[test]
fn nothing_that_was_told_is_lost_when_the_process_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger.db");
    let run = start(&mut SqliteLedger::open(&file).unwrap(), vec![work(&["a"])]);
    let mut total = 0;
    for round in 0..ROUNDS {
        let last = kill_after(&file, Duration::from_millis(7 * round));
        let mut ledger = SqliteLedger::open(&file).unwrap();
        ledger.check_integrity().unwrap();
        let units = ledger.run(run).unwrap().unwrap().units;
        assert!(units.committed >= last && units.committed <= last + 1, "{units:?} after {last}");
        assert_eq!(units.open(), 1, "each commit added one unit with itself, or neither");
        // A lease without a commit is still there, and can be expired.
        for unit in ledger.leased_units(None, 9).unwrap() {
            let (epoch, now) = (unit.state.epoch, moment(99_999));
            let expire = hakobu_fleet::transition::UnitTransition::Expire { epoch, now };
            let change = hakobu_fleet::change::LedgerChange::Unit(unit.key, expire);
            assert!(matches!(apply(&mut ledger, change), LedgerAnswer::Ready(_) | LedgerAnswer::GivenUp));
        }
        assert!(last > total, "round {round} committed something");
        total = last;
    }
}
