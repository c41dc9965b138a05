//! Credentials reach the broker of a unit, or end its run with a reason.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use hakobu_fleet::change::{LedgerAnswer, LedgerChange};
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::key_file::SealingKeys;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::relationship::{CredentialReference, Relationship};
use hakobu_fleet::run::{NewRun, RunOutcome};
use hakobu_fleet::secret_bytes::SecretBytes;
use hakobu_fleet::sent_credentials::CREDENTIALS_PURPOSE;
use hakobu_fleet::unit::UnitWork;

use crate::fleet::{Fleet, group};
use crate::tests::request;
use crate::trees;

/// Runs a relationship with a credential, and returns its outcome with its report.
fn outcome(credential: CredentialReference, keys: Option<SealingKeys>) -> (RunOutcome, String) {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 2, 2);
    let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
    if let Some(keys) = keys {
        fleet.plane.handle().ask(move |leader| leader.set_keys(Arc::new(keys))).unwrap();
    }
    fleet.add_broker("b0");
    let request = request(&source, &target);
    let relationship = Relationship {
        name: "r".to_owned(),
        group: group(),
        sources: request.sources.iter().map(|source| source.0.clone()).collect(),
        target: request.target.0.clone(),
        options: "{}".to_owned(),
        schedule: None,
        limits: None,
        notification: None,
        owner: String::new(),
        credentials: vec![credential],
    };
    let now = MachineClock.moment();
    let save = LedgerChange::SaveRelationship { replaces: None, now, relationship: Box::new(relationship) };
    let LedgerAnswer::RelationshipSaved(id, _) = fleet.plane.handle().apply(save).unwrap() else { panic!() };
    let run = NewRun {
        relationship: Some(id),
        group: group(),
        request: request.json().unwrap(),
        started: now,
        units: vec![UnitWork::All],
    };
    let started = fleet.plane.handle().apply(LedgerChange::StartRun(Box::new(run))).unwrap();
    let LedgerAnswer::RunStarted(run) = started else { panic!("{started:?}") };
    let row = fleet.finish(run, Duration::from_secs(60));
    let report = fleet.plane.handle().ask(move |leader| leader.ledger().report(run)).unwrap().unwrap();
    (row.outcome.unwrap(), String::from_utf8(report.unwrap()).unwrap())
}

fn sealed(purpose: &str) -> (CredentialReference, SealingKeys) {
    let folder = tempfile::tempdir().unwrap();
    let keys = SealingKeys::create(&folder.path().join("key")).unwrap();
    let secret = SecretBytes::new(b"AWS_SECRET_ACCESS_KEY=sesame".to_vec());
    (CredentialReference::Sealed(keys.seal(purpose, &secret).unwrap()), keys)
}

#[test]
fn sealed_credentials_are_opened_by_the_broker() {
    let (credential, keys) = sealed(CREDENTIALS_PURPOSE);
    let (outcome, report) = outcome(credential, Some(keys));
    assert_eq!(outcome, RunOutcome::Complete, "{report}");
    assert!(!report.contains("sesame"));
}

#[test]
fn a_run_whose_credentials_cannot_be_read_fails_with_the_reason() {
    let (other, keys) = sealed("something else");
    let (lone, _) = sealed(CREDENTIALS_PURPOSE);
    for (credential, keys, words) in [
        (CredentialReference::File("/etc/passwd".to_owned()), None, "secrets may be read"),
        (CredentialReference::Environment("HOME".to_owned()), None, "may not be read"),
        (lone, None, "there is no key file"),
        (other, Some(keys), "sealed"),
    ] {
        let (outcome, report) = outcome(credential, keys);
        assert_eq!(outcome, RunOutcome::Failed, "{report}");
        assert!(report.contains(words) && !report.contains("sesame"), "{words}: {report}");
    }
}
