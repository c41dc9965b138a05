//! Answers of the control plane that come late.

use std::fs;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use hakobu_core::error::Result;
use hakobu_fleet::bus::local::LocalBrokerBus;
use hakobu_fleet::bus::{BrokerBus, HeldOffer};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{BrokerCall, BrokerRequest};
use hakobu_fleet::message_form::decode;
use hakobu_fleet::run::RunOutcome;

use crate::fleet::{Fleet, group};
use crate::tests::request;
use crate::trees;

/// Longer than a broker takes to report twice.
const LATE: Duration = Duration::from_millis(1500);

/// A bus on which answers about results come late.
struct LateAnswers(LocalBrokerBus);

impl BrokerBus for LateAnswers {
    fn call(&self, bytes: Vec<u8>, limit: Duration) -> Result<Vec<u8>> {
        let call = decode::<BrokerCall>(&bytes);
        let answer = self.0.call(bytes, limit);
        if call.is_ok_and(|call| matches!(call.request, BrokerRequest::Commit { .. })) {
            sleep(LATE);
        }
        answer
    }

    fn next_offer(&self, limit: Duration) -> Result<Option<Box<dyn HeldOffer>>> {
        self.0.next_offer(limit)
    }
}

/// The leader does not know the unit any more, and says so to the reports that come before its answer.
#[test]
fn a_result_that_was_taken_is_not_told_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 3, 5);
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    let bus = LateAnswers(fleet.plane.local().broker(&group()));
    fleet.add_broker_at("b0", Arc::new(bus));
    let run = fleet.start(&request(&source, &target));
    let row = fleet.finish(run, Duration::from_secs(60));
    assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
    fleet.end_brokers();
    let notices = fleet.notices.all();
    assert!(!notices.iter().any(|words| words.contains("no longer")), "{notices:?}");
    trees::assert_equal(&source, &target);
}
