//! Fills a ledger for tests of the page: `fill_ledger FOLDER FAILURES` adds a broker that is away, and a run that ended with so
//! many failures, and with losses.

#![allow(clippy::print_stdout, reason = "a tool of tests: its result goes to standard output")]

use std::path::Path;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Failure;
use hakobu_core::losses::{Loss, LossKind};
use hakobu_fleet::broker::BrokerSighting;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange, UnitResult};
use hakobu_fleet::data_folder::DataFolder;
use hakobu_fleet::failure::FailureRow;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::ids::{RunId, UnitKey};
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::ledger::place::LEDGER_FILE;
use hakobu_fleet::ledger::sqlite::SqliteLedger;
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::run::{NewRun, RunEnd, RunOutcome};
use hakobu_fleet::run_figures::RunFigures;
use hakobu_fleet::run_losses::RunLosses;
use hakobu_fleet::run_request::{FleetRequest, LocationText};
use hakobu_fleet::transition::UnitTransition;
use hakobu_fleet::unit::UnitWork;
use hakobu_fleet::unit_counters::UnitCounters;

/// The number of failures that one commit adds.
const AT_ONCE: usize = 50_000;
const KINDS: [ErrorKind; 4] =
    [ErrorKind::PermissionDenied, ErrorKind::SourceVanished, ErrorKind::NoSpace, ErrorKind::Io];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(count)) = (arguments.next(), arguments.next().and_then(|text| text.parse().ok()))
    else {
        return Err(Error::new(ErrorKind::Usage, "filling a ledger", "usage: fill_ledger FOLDER FAILURES"));
    };
    let mut ledger = SqliteLedger::open(&DataFolder::open(Path::new(&folder))?.path().join(LEDGER_FILE))?;
    see_broker(&mut ledger)?;
    println!("{}", fill(&mut ledger, count)?);
    Ok(())
}

/// Adds a broker that was there an hour ago.
fn see_broker(ledger: &mut dyn Ledger) -> Result<()> {
    let now = MachineClock.moment().minus_ms(3_600_000);
    let (name, group) = (BrokerName::new("spare")?, GroupName::new("local")?);
    apply(ledger, LedgerChange::SeeBroker(BrokerSighting { name, group, version: "0".to_owned(), now }))?;
    Ok(())
}

fn fill(ledger: &mut dyn Ledger, count: usize) -> Result<RunId> {
    let (group, broker) = (GroupName::new("local")?, BrokerName::new("built-in")?);
    let location = |text: &str| LocationText(text.as_bytes().to_vec());
    let request = FleetRequest {
        sources: vec![location("/srv/archive/")],
        target: location("/mnt/new"),
        ..FleetRequest::default()
    };
    let started = MachineClock.moment();
    let units = vec![UnitWork::All; count.div_ceil(AT_ONCE)];
    let new = NewRun { relationship: None, group: group.clone(), request: request.json()?, started, units };
    let LedgerAnswer::RunStarted(run) = apply(ledger, LedgerChange::StartRun(Box::new(new)))? else {
        return Err(unexpected());
    };
    for (index, unit) in ledger.ready_units(run, None, count)?.into_iter().enumerate() {
        let (key, epoch): (UnitKey, _) = (unit.key, unit.state.epoch);
        let (now, deadline) = (started, started.plus_ms(3_600_000));
        let lease =
            UnitTransition::Lease { broker: broker.clone(), group: group.clone(), epoch, now, deadline };
        let LedgerAnswer::Leased(lease) = apply(ledger, LedgerChange::Unit(key, lease))? else {
            return Err(unexpected());
        };
        let first = index * AT_ONCE;
        let failures: Vec<_> = (first..count.min(first + AT_ONCE)).map(failure).collect();
        let counters = UnitCounters {
            entries_scanned: 2 * failures.len() as u64,
            entries_created: failures.len() as u64,
            entries_failed: failures.len() as u64,
            ..UnitCounters::default()
        };
        let losses = losses(failures.len() as u64);
        let result = Box::new(UnitResult { counters, failures, losses, ..UnitResult::default() });
        apply(ledger, LedgerChange::Commit { key, broker: broker.clone(), epoch: lease.epoch, result })?;
    }
    let end = RunEnd {
        run,
        ended: MachineClock.moment(),
        outcome: RunOutcome::Partial,
        dropped: RunFigures::default(),
        report: b"{}".to_vec(),
    };
    apply(ledger, LedgerChange::EndRun(Box::new(end)))?;
    Ok(run)
}

fn failure(number: usize) -> FailureRow {
    let path = format!("projects/{:03}/data/{number:07}.bin", number % 997).into_bytes();
    let kind = KINDS[number % KINDS.len()];
    let error = Error::new(kind, "reading", "the file could not be read").at(&path);
    FailureRow::new(0, &Failure { path, error })
}

fn losses(count: u64) -> RunLosses {
    let example = "projects/000/notes.txt".as_bytes();
    let loss = |what, count| Loss { what, count, at_target: false, example: example.to_vec() };
    RunLosses::new(&[loss(LossKind::Acl, count), loss(LossKind::HardLinks, count / 2)])
}

fn apply(ledger: &mut dyn Ledger, change: LedgerChange) -> Result<LedgerAnswer> {
    match ledger.apply(&[change])?.pop() {
        Some(LedgerAnswer::Refused(_)) | None => Err(unexpected()),
        Some(answer) => Ok(answer),
    }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Conflict, "filling a ledger", "the ledger gave another answer")
}
