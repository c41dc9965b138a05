//! Values that several tests need.

use hakobu_core::entry::Inode;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::Failure;
use hakobu_core::losses::{Loss, LossKind};
use hakobu_core::path::EntryPath;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange, UnitResult};
use hakobu_fleet::failure::FailureRow;
use hakobu_fleet::ids::{Epoch, Moment, RunId, UnitId, UnitKey};
use hakobu_fleet::lease::Lease;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::link_name::LinkNameRow;
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::open_directory::OpenDirectoryRow;
use hakobu_fleet::run::{NewRun, RunEnd, RunOutcome};
use hakobu_fleet::run_figures::RunFigures;
use hakobu_fleet::run_losses::RunLosses;
use hakobu_fleet::transition::UnitTransition;
use hakobu_fleet::unit::{UnitItem, UnitWork};

pub fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

pub fn moment(milliseconds: u64) -> Moment {
    Moment::new(milliseconds).unwrap()
}

pub fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

pub fn broker(name: &str) -> BrokerName {
    BrokerName::new(name).unwrap()
}

pub fn group() -> GroupName {
    GroupName::new("site-a").unwrap()
}

pub fn key(run: RunId, unit: u64) -> UnitKey {
    UnitKey { run, unit: UnitId::new(unit).unwrap() }
}

/// Work on directories of the first root.
pub fn work(paths: &[&str]) -> UnitWork {
    UnitWork::Items(paths.iter().map(|text| UnitItem::whole(0, path(text))).collect())
}

pub fn new_run(units: Vec<UnitWork>) -> LedgerChange {
    LedgerChange::StartRun(Box::new(NewRun {
        relationship: None,
        group: group(),
        request: r#"{"command":"copy"}"#.to_owned(),
        started: moment(1000),
        units,
    }))
}

/// Applies one change and returns its answer.
pub fn apply(ledger: &mut dyn Ledger, change: LedgerChange) -> LedgerAnswer {
    ledger.apply(&[change]).unwrap().pop().unwrap()
}

pub fn start(ledger: &mut dyn Ledger, units: Vec<UnitWork>) -> RunId {
    match apply(ledger, new_run(units)) {
        LedgerAnswer::RunStarted(run) => run,
        other => panic!("{other:?}"),
    }
}

pub fn lease_change(key: UnitKey, by: &str, from: u64, now: u64, deadline: u64) -> LedgerChange {
    let (broker, epoch, now, deadline) = (broker(by), epoch(from), moment(now), moment(deadline));
    LedgerChange::Unit(key, UnitTransition::Lease { broker, group: group(), epoch, now, deadline })
}

/// Leases a unit that is ready for ten seconds.
pub fn lease(ledger: &mut dyn Ledger, key: UnitKey, by: &str, now: u64) -> Lease {
    let unit = ledger.unit(key).unwrap().expect("it is not committed");
    match apply(ledger, lease_change(key, by, unit.state.epoch.get(), now, now + 10_000)) {
        LedgerAnswer::Leased(lease) => *lease,
        other => panic!("{other:?}"),
    }
}

pub fn commit_change(key: UnitKey, by: &str, epoch: Epoch, result: UnitResult) -> LedgerChange {
    LedgerChange::Commit { key, broker: broker(by), epoch, result: Box::new(result) }
}

pub fn end(run: RunId, outcome: RunOutcome) -> LedgerChange {
    LedgerChange::EndRun(Box::new(RunEnd {
        run,
        ended: moment(9000),
        outcome,
        dropped: RunFigures {
            entries_found: 3,
            entries_done: 2,
            bytes_done: u64::from(outcome == RunOutcome::Cancelled),
        },
        report: b"{}".to_vec(),
    }))
}

pub fn open_directory(text: &str) -> OpenDirectoryRow {
    OpenDirectoryRow { root: 0, path: path(text), detail: text.as_bytes().to_vec() }
}

pub fn link_name(number: u64, text: &str) -> LinkNameRow {
    LinkNameRow {
        inode: Inode { file_system: u64::MAX, number },
        size: 5,
        root: 0,
        path: path(text),
        detail: text.as_bytes().to_vec(),
    }
}

/// Returns losses of two kinds.
pub fn losses() -> RunLosses {
    let loss = |what, count, example: &[u8]| Loss { what, count, at_target: true, example: example.to_vec() };
    RunLosses::new(&[loss(LossKind::Owner, 3, b"a/x\xff\0"), loss(LossKind::Acl, 1, b"")])
}

pub fn failure(kind: ErrorKind, bytes: &[u8]) -> FailureRow {
    let error = Error::new(kind, "reading", "it went wrong").at(b"x\xff").hint("try again");
    FailureRow { root: 0, failure: Failure { path: bytes.to_vec(), error } }
}
