//! Units that are given up, and errors that end a run.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_fleet::bus::local::LocalBrokerBus;
use hakobu_fleet::bus::{BrokerBus, HeldOffer};
use hakobu_fleet::change::{LedgerAnswer, LedgerChange};
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::ids::RunId;
use hakobu_fleet::lease::ATTEMPTS_MAX;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{BrokerCall, BrokerRequest, SentError};
use hakobu_fleet::message_form::{decode, encode};
use hakobu_fleet::names::BrokerName;
use hakobu_fleet::run::{RunOutcome, RunRow};
use hakobu_fleet::run_request::FleetRequest;
use hakobu_fleet::transition::{RefuseCause, UnitTransition};
use serde_json::Value;

use crate::fleet::{Fleet, group};
use crate::tests::request;
use crate::trees;

const LIMIT: Duration = Duration::from_secs(30);

/// A bus on which each unit fails.
struct FailingUnits(LocalBrokerBus);

impl BrokerBus for FailingUnits {
    fn call(&self, bytes: Vec<u8>, limit: Duration) -> Result<Vec<u8>> {
        let mut call = decode::<BrokerCall>(&bytes)?;
        if let BrokerRequest::Commit { lease, .. } = call.request {
            let error = Error::new(ErrorKind::TimedOut, "writing", "no answer").at(b"/t");
            let (cause, error) = (RefuseCause::Failed, Some(SentError::from(&error)));
            call.request = BrokerRequest::Return { lease, cause, error };
        }
        self.0.call(encode(&call)?, limit)
    }

    fn next_offer(&self, limit: Duration) -> Result<Option<Box<dyn HeldOffer>>> {
        self.0.next_offer(limit)
    }
}

/// Lets all attempts of the only unit of a run fail but the last.
fn fail_but_once(fleet: &Fleet, run: RunId) {
    let key = fleet.plane.handle().ask(move |leader| leader.ledger().ready_units(run, None, 1));
    let key = key.unwrap().unwrap()[0].key;
    let broker = BrokerName::new("earlier").unwrap();
    for attempt in 1..ATTEMPTS_MAX {
        let state = fleet.plane.handle().ask(move |leader| leader.ledger().ready_units(run, None, 1));
        let (epoch, now) = (state.unwrap().unwrap()[0].state.epoch, MachineClock.moment());
        let lease = UnitTransition::Lease {
            broker: broker.clone(),
            group: group(),
            epoch,
            now,
            deadline: now.plus_ms(60_000),
        };
        let leased = fleet.plane.handle().apply(LedgerChange::Unit(key, lease)).unwrap();
        assert!(matches!(leased, LedgerAnswer::Leased(_)), "{leased:?}");
        let refuse = (RefuseCause::Failed, None);
        let refuse = LedgerChange::refuse(key, broker.clone(), epoch.next().unwrap(), refuse);
        let ready = fleet.plane.handle().apply(refuse).unwrap();
        assert!(matches!(ready, LedgerAnswer::Ready(_)), "{attempt}: {ready:?}");
    }
}

fn report(fleet: &Fleet, run: RunId) -> Value {
    let report = fleet.plane.handle().ask(move |leader| leader.ledger().report(run));
    serde_json::from_slice(&report.unwrap().unwrap().unwrap()).unwrap()
}

#[test]
fn a_run_without_any_result_fails_with_the_last_error_and_is_not_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 2, 2);
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    let run = fleet.start(&FleetRequest { verify: true, ..request(&source, &target) });
    fail_but_once(&fleet, run);
    let bus = FailingUnits(fleet.plane.local().broker(&group()));
    fleet.add_broker_at("b0", Arc::new(bus));
    let RunRow { outcome, failures, .. } = fleet.finish(run, LIMIT);
    assert_eq!((outcome, failures), (Some(RunOutcome::Failed), 1));
    let report = report(&fleet, run);
    let words = format!("writing /t: no answer ({ATTEMPTS_MAX} attempts)");
    assert_eq!(report["error"], words.as_str(), "{report}");
    assert_eq!(report["first_failures"][0]["kind"], "timed_out", "{report}");
}

#[test]
fn an_error_that_no_attempt_mends_ends_a_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 2, 2);
    fs::write(&target, "a file").unwrap();
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    fleet.add_broker("b0");
    let run = fleet.start(&request(&source, &target));
    let row = fleet.finish(run, LIMIT);
    assert_eq!((row.outcome, row.units.given_up), (Some(RunOutcome::Failed), 0), "{row:?}");
    assert_eq!(report(&fleet, run)["problem"]["kind"], "conflict");
}
