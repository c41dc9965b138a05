//! Cases about rows of the whole ledger, which every ledger passes: limits of groups and endpoints, marks, ends to be told.

use hakobu_core::error::ErrorKind;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange};
use hakobu_fleet::ids::RelationshipId;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::names::GroupName;
use hakobu_fleet::run::RunOutcome;

use crate::conformance::save;
use crate::samples::*;

pub fn limits_of_groups_are_replaced_and_removed(ledger: &mut dyn Ledger) {
    let (one, two) = (GroupName::new("one").unwrap(), GroupName::new("two").unwrap());
    let limit = |group: &GroupName, limits: Option<&str>| {
        LedgerChange::LimitGroup(group.clone(), limits.map(str::to_owned))
    };
    for change in [limit(&two, Some("[1]")), limit(&one, Some("[2]")), limit(&two, Some("{}"))] {
        assert_eq!(apply(ledger, change), LedgerAnswer::Done);
    }
    let both = [(one.clone(), "[2]".to_owned()), (two.clone(), "{}".to_owned())];
    assert_eq!(ledger.group_limits().unwrap(), both);
    for _twice in 0..2 {
        assert_eq!(apply(ledger, limit(&one, None)), LedgerAnswer::Done);
    }
    assert_eq!(ledger.group_limits().unwrap(), both[1..]);
}

pub fn limits_of_endpoints_are_replaced_and_removed(ledger: &mut dyn Ledger) {
    // Locations are bytes, and are in their order.
    let (one, two) = (b"/srv/\xff".to_vec(), b"nas:".to_vec());
    let limit = |location: &[u8], limits: Option<&str>| {
        LedgerChange::LimitEndpoint(location.to_vec(), limits.map(str::to_owned))
    };
    for change in [limit(&two, Some("[1]")), limit(&one, Some("[2]")), limit(&two, Some("{}"))] {
        assert_eq!(apply(ledger, change), LedgerAnswer::Done);
    }
    let both = [(one.clone(), "[2]".to_owned()), (two, "{}".to_owned())];
    assert_eq!(ledger.endpoint_limits().unwrap(), both);
    for _twice in 0..2 {
        assert_eq!(apply(ledger, limit(&one, None)), LedgerAnswer::Done);
    }
    assert_eq!(ledger.endpoint_limits().unwrap(), both[1..]);
    for wrong in [limit(&[b'a'; 1025], Some("{}")), limit(b"/a", Some("no JSON"))] {
        assert_eq!(ledger.apply(&[wrong]).unwrap_err().kind, ErrorKind::Usage);
    }
}

pub fn ends_that_are_to_be_told_are_kept_until_they_are(ledger: &mut dyn Ledger) {
    let told = r#"{"version":1,"kinds":["run_failed"],"mail_to":["a@b.org"]}"#;
    let LedgerChange::SaveRelationship { now, mut relationship, .. } = save("told", None) else { panic!() };
    relationship.notification = Some(told.to_owned());
    let change = LedgerChange::SaveRelationship { replaces: None, now, relationship };
    let LedgerAnswer::RelationshipSaved(of, _) = apply(ledger, change) else { panic!() };
    let LedgerAnswer::RelationshipSaved(silent, _) = apply(ledger, save("silent", None)) else { panic!() };
    let mut ended = |of: Option<RelationshipId>, outcome| {
        let LedgerChange::StartRun(mut run) = new_run(vec![work(&["a"])]) else { panic!() };
        run.relationship = of;
        let LedgerAnswer::RunStarted(run) = apply(ledger, LedgerChange::StartRun(run)) else { panic!() };
        assert_eq!(apply(ledger, end(run, outcome)), LedgerAnswer::Done);
        (run, ledger.untold_runs().unwrap())
    };
    for (of, outcome) in
        [(None, RunOutcome::Failed), (Some(silent), RunOutcome::Failed), (Some(of), RunOutcome::Cancelled)]
    {
        assert!(ended(of, outcome).1.is_empty());
    }
    let (first, untold) = ended(Some(of), RunOutcome::Failed);
    assert_eq!(untold, [first]);
    let (second, untold) = ended(Some(of), RunOutcome::Failed);
    assert_eq!(untold, [first, second]);
    for _twice in 0..2 {
        assert_eq!(apply(ledger, LedgerChange::TellRun(first)), LedgerAnswer::Done);
    }
    assert_eq!(ledger.untold_runs().unwrap(), [second]);
}

pub fn marks_are_replaced(ledger: &mut dyn Ledger) {
    assert_eq!(ledger.mark("key").unwrap(), None);
    for value in ["one", "two"] {
        let changes = ["key", "other"].map(|name| LedgerChange::SetMark(name, format!("{name} {value}")));
        assert_eq!(ledger.apply(&changes).unwrap(), [LedgerAnswer::Done, LedgerAnswer::Done]);
        assert_eq!(ledger.mark("key").unwrap(), Some(format!("key {value}")));
    }
    assert_eq!(ledger.mark("other").unwrap(), Some("other two".to_owned()));
    let long = LedgerChange::SetMark("key", "x".repeat(2000));
    assert_eq!(ledger.apply(&[long]).unwrap_err().kind, ErrorKind::Usage);
}
