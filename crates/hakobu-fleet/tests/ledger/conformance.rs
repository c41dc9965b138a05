//! Cases that hold for every ledger. Each runs against each implementation.

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::path::EntryPath;
use hakobu_fleet::audit::AuditEntry;
use hakobu_fleet::broker::BrokerSighting;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange, LedgerRefusal, UnitResult};
use hakobu_fleet::ids::{RelationshipId, Revision, RunId};
use hakobu_fleet::lease::ATTEMPTS_MAX;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::ledger::sqlite::SqliteLedger;
use hakobu_fleet::ledger::{Ledger, PAGE_ROWS_MAX};
use hakobu_fleet::link_name::{LinkNameRow, LinkRange, PackLimits};
use hakobu_fleet::names::GroupName;
use hakobu_fleet::open_directory::{DirectoryRange, OpenDirectoryRow};
use hakobu_fleet::relationship::{CredentialReference, Relationship};
use hakobu_fleet::run::{RunOutcome, RunPhase, RunStep};
use hakobu_fleet::token::{NewToken, TokenHash, TokenRole};
use hakobu_fleet::transition::{RefuseCause, UnitRefusal, UnitTransition};
use hakobu_fleet::unit::UnitWork;
use hakobu_fleet::unit_counters::UnitCounters;

use crate::open_files::{
    a_range_tears_its_own_file_only, a_range_that_is_given_up_tears_its_file, open_file,
    open_files_are_listed_in_order_and_read, ranges_that_cannot_be_are_refused,
};
use crate::samples::*;
use crate::whole_ledger::{
    ends_that_are_to_be_told_are_kept_until_they_are, limits_of_endpoints_are_replaced_and_removed,
    limits_of_groups_are_replaced_and_removed, marks_are_replaced,
};

macro_rules! cases {
    ($( $case:ident ),* $(,)?) => {
        mod memory {
            use super::*;
            $( #[test] fn $case() { super::$case(&mut MemoryLedger::new()); } )*
        }
        mod sqlite {
            use super::*;
            $( #[test] fn $case() {
                let directory = tempfile::tempdir().unwrap();
                let mut ledger = SqliteLedger::open(&directory.path().join("ledger.db")).unwrap();
                super::$case(&mut ledger);
                ledger.check_integrity().unwrap();
            } )*
        }
        mod postgres {
            $( #[test] fn $case() {
                let (mut ledger, _leadership) = crate::database::leading(&crate::database::place());
                super::$case(&mut ledger);
            } )*
        }
    };
}

cases!(
    a_unit_is_leased_and_committed_once,
    a_repeated_commit_is_answered_as_before,
    a_zombie_is_refused,
    a_lease_that_ends_is_ready_again,
    a_commit_adds_everything_at_once,
    a_result_outside_its_unit_is_refused,
    a_unit_that_fails_too_often_is_given_up,
    another_group_gets_nothing,
    phases_follow_when_no_unit_is_left,
    a_run_that_ends_leaves_its_history,
    open_files_are_listed_in_order_and_read,
    a_range_tears_its_own_file_only,
    ranges_that_cannot_be_are_refused,
    a_range_that_is_given_up_tears_its_file,
    links_come_in_packs_of_groups,
    directories_come_deepest_first,
    failures_are_paged_and_counted,
    relationships_are_changed_in_their_revision,
    runs_are_listed_latest_first,
    a_relationship_has_one_run_at_a_time,
    a_relationship_whose_run_is_under_way_stays,
    packs_that_are_given_up_are_failures,
    brokers_are_seen_and_drained,
    limits_of_endpoints_are_replaced_and_removed,
    limits_of_groups_are_replaced_and_removed,
    marks_are_replaced,
    ends_that_are_to_be_told_are_kept_until_they_are,
    tokens_are_used_and_end,
    the_audit_log_has_the_outcome,
    a_change_that_is_malformed_changes_nothing,
    a_refusal_leaves_the_rest_of_the_batch,
    the_longest_paths_are_kept,
    texts_with_zero_bytes_are_kept,
    a_commit_with_many_rows_is_kept,
    a_unit_that_is_added_in_a_batch_is_leased_in_it,
);

pub fn refused(refusal: UnitRefusal) -> LedgerAnswer {
    LedgerAnswer::Refused(LedgerRefusal::Unit(refusal))
}

fn a_unit_is_leased_and_committed_once(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a", "b"]), work(&["c"])]);
    let ready = ledger.ready_units(run, None, 10).unwrap();
    assert_eq!(ready.len(), 2);
    assert_eq!(ledger.ready_units(run, Some(ready[0].key.unit), 10).unwrap(), ready[1..]);
    assert_eq!(ledger.ready_units(run, None, 1).unwrap(), ready[..1]);
    let key = ready[0].key;
    let leased = lease(ledger, key, "one", 100);
    assert_eq!((leased.work, leased.epoch, leased.deadline), (work(&["a", "b"]), epoch(1), moment(10_100)));
    assert_eq!(ledger.ready_units(run, None, 10).unwrap(), ready[1..]);
    assert_eq!(ledger.leased_units(None, 10).unwrap().len(), 1);
    assert_eq!(apply(ledger, lease_change(key, "two", 1, 100, 9000)), refused(UnitRefusal::OtherBroker));
    let commit = commit_change(key, "one", epoch(1), UnitResult::default());
    assert_eq!(apply(ledger, commit), LedgerAnswer::Committed);
    assert_eq!(ledger.unit(key).unwrap(), None);
    assert_eq!(ledger.work(key).unwrap(), None);
    assert_eq!(apply(ledger, lease_change(key, "two", 1, 100, 9000)), refused(UnitRefusal::Committed));
    let units = ledger.run(run).unwrap().unwrap().units;
    assert_eq!((units.added, units.committed, units.open()), (2, 1, 1));
}

fn a_repeated_commit_is_answered_as_before(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"])]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let leased = lease(ledger, key, "one", 0);
    let counters = UnitCounters { entries_created: 7, ..Default::default() };
    let result = UnitResult { children: vec![work(&["a/x"])], counters, ..Default::default() };
    let commit = commit_change(key, "one", leased.epoch, result);
    // In one batch and in two.
    let answers = ledger.apply(&[commit.clone(), commit.clone()]).unwrap();
    assert_eq!(answers, [LedgerAnswer::Committed, LedgerAnswer::Committed]);
    assert_eq!(apply(ledger, commit), LedgerAnswer::Committed);
    let record = ledger.run(run).unwrap().unwrap();
    assert_eq!((record.units.added, record.units.committed, record.counters.entries_created), (2, 1, 7));
    let other = commit_change(key, "one", epoch(leased.epoch.get() - 1), UnitResult::default());
    assert_eq!(apply(ledger, other), refused(UnitRefusal::Committed));
}

fn a_zombie_is_refused(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"])]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let zombie = lease(ledger, key, "one", 0);
    let expire =
        |now| LedgerChange::Unit(key, UnitTransition::Expire { epoch: zombie.epoch, now: moment(now) });
    assert_eq!(apply(ledger, expire(9_999)), refused(UnitRefusal::NotDue));
    assert_eq!(apply(ledger, expire(10_000)), LedgerAnswer::Ready(epoch(2)));
    assert_eq!(apply(ledger, expire(10_000)), refused(UnitRefusal::StaleEpoch));
    let commit = |by: &str, epoch| commit_change(key, by, epoch, UnitResult::default());
    assert_eq!(apply(ledger, commit("one", zombie.epoch)), refused(UnitRefusal::StaleEpoch));
    let second = lease(ledger, key, "two", 10_000);
    assert_eq!(second.epoch, epoch(3));
    assert_eq!(apply(ledger, commit("one", zombie.epoch)), refused(UnitRefusal::StaleEpoch));
    assert_eq!(apply(ledger, commit("one", second.epoch)), refused(UnitRefusal::OtherBroker));
    assert_eq!(apply(ledger, commit("two", second.epoch)), LedgerAnswer::Committed);
    assert_eq!(apply(ledger, commit("one", zombie.epoch)), refused(UnitRefusal::Committed));
}

fn a_lease_that_ends_is_ready_again(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"]), work(&["b"]), work(&["c"])]);
    let keys: Vec<_> = ledger.ready_units(run, None, 9).unwrap().iter().map(|unit| unit.key).collect();
    lease(ledger, keys[0], "one", 500);
    lease(ledger, keys[1], "one", 0);
    let leased = ledger.leased_units(None, 9).unwrap();
    assert_eq!(leased.iter().map(|unit| unit.key).collect::<Vec<_>>(), keys[..2]);
    assert_eq!(ledger.leased_units(None, 1).unwrap(), leased[..1]);
    let drain = LedgerChange::refuse(keys[0], broker("one"), epoch(1), (RefuseCause::Draining, None));
    assert_eq!(apply(ledger, drain.clone()), LedgerAnswer::Ready(epoch(2)));
    assert_eq!(apply(ledger, drain), refused(UnitRefusal::StaleEpoch));
    let expire = UnitTransition::Expire { epoch: epoch(1), now: moment(10_000) };
    assert_eq!(apply(ledger, LedgerChange::Unit(keys[1], expire)), LedgerAnswer::Ready(epoch(2)));
    let attempts: Vec<_> =
        ledger.ready_units(run, None, 9).unwrap().iter().map(|unit| unit.state.attempts).collect();
    assert_eq!(attempts, [0, 1, 0]);
}

fn a_commit_adds_everything_at_once(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&[""])]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let leased = lease(ledger, key, "one", 0);
    let result = UnitResult {
        children: vec![work(&["a/b", "a/c"]), work(&["d"])],
        counters: UnitCounters { bytes_scanned: u64::MAX, ..Default::default() },
        open_directories: vec![open_directory("a"), open_directory(""), open_directory("a")],
        open_files: vec![open_file("h")],
        link_names: vec![link_name(9, "e"), link_name(9, "f")],
        failures: vec![failure(ErrorKind::PermissionDenied, b"g\xff\n")],
        losses: losses(),
    };
    assert_eq!(apply(ledger, commit_change(key, "one", leased.epoch, result)), LedgerAnswer::Committed);
    let ready = ledger.ready_units(run, None, 9).unwrap();
    assert_eq!(ledger.work(ready[0].key).unwrap(), Some(work(&["a/b", "a/c"])));
    assert_eq!(ledger.work(ready[1].key).unwrap(), Some(work(&["d"])));
    let record = ledger.run(run).unwrap().unwrap();
    assert_eq!((record.units.added, record.units.committed, record.failures), (3, 1, 1));
    assert_eq!(record.counters.bytes_scanned, u64::MAX);
    assert_eq!(record.losses, losses());
    let links = ledger.link_pack(run, None, PackLimits::default()).unwrap().unwrap();
    assert_eq!((links.groups.len(), links.groups[0].names.len(), links.groups[0].names[0].size), (1, 2, 5));
    assert_eq!(links.groups[0].inode.file_system, u64::MAX);
    let failures = ledger.failures(run, None, None, 9).unwrap();
    assert_eq!(failures[0].row, failure(ErrorKind::PermissionDenied, b"g\xff\n"));
    let directories = ledger.directory_pack(run, None, PackLimits::default()).unwrap().unwrap();
    assert_eq!(directories.directories, [open_directory("a")]);
}

fn a_result_outside_its_unit_is_refused(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"])]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let leased = lease(ledger, key, "one", 0);
    for result in [
        UnitResult { children: vec![work(&["b"])], ..Default::default() },
        UnitResult { open_directories: vec![open_directory("")], ..Default::default() },
        UnitResult { link_names: vec![link_name(1, "ab")], ..Default::default() },
        UnitResult { open_files: vec![open_file("b")], ..Default::default() },
    ] {
        let commit = commit_change(key, "one", leased.epoch, result);
        assert_eq!(apply(ledger, commit), refused(UnitRefusal::OutsideUnit));
    }
    assert_eq!(ledger.run(run).unwrap().unwrap().units.committed, 0);
}

fn a_unit_that_fails_too_often_is_given_up(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a", "b"])]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    for attempt in 1..=ATTEMPTS_MAX {
        let leased = lease(ledger, key, "one", 0);
        let last = Error::new(ErrorKind::TimedOut, "writing", "no answer").at(b"/t").hint("wait");
        let failed = (RefuseCause::Failed, Some(last));
        let answer = apply(ledger, LedgerChange::refuse(key, broker("one"), leased.epoch, failed));
        match attempt < ATTEMPTS_MAX {
            true => assert!(matches!(answer, LedgerAnswer::Ready(_)), "{answer:?}"),
            false => assert_eq!(answer, LedgerAnswer::GivenUp),
        }
    }
    let record = ledger.run(run).unwrap().unwrap();
    assert_eq!((record.units.given_up, record.units.open(), record.failures), (1, 0, 2));
    let failures = ledger.failures(run, None, None, 9).unwrap();
    let paths: Vec<_> = failures.iter().map(|row| &row.row.failure.path[..]).collect();
    assert_eq!(paths, [&b"a"[..], b"b"]);
    // The cause is the last error.
    let error = &failures[0].row.failure.error;
    assert_eq!((error.kind, &error.at[..]), (ErrorKind::TimedOut, &b"/t"[..]));
    assert_eq!(error.detail, format!("no answer ({ATTEMPTS_MAX} attempts)"));
    assert_eq!(apply(ledger, lease_change(key, "one", 9, 0, 9)), refused(UnitRefusal::Unknown));
}

fn another_group_gets_nothing(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"])]);
    let unit = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let lease = UnitTransition::Lease {
        broker: broker("one"),
        group: GroupName::new("site-b").unwrap(),
        epoch: epoch(0),
        now: moment(0),
        deadline: moment(9),
    };
    assert_eq!(apply(ledger, LedgerChange::Unit(unit, lease)), refused(UnitRefusal::OtherGroup));
    // A unit is known by its run as well.
    let elsewhere = key(RunId::new(run.get() + 1).unwrap(), unit.unit.get());
    assert_eq!(apply(ledger, lease_change(elsewhere, "one", 0, 0, 9)), refused(UnitRefusal::Unknown));
    let second = start(ledger, vec![]);
    let elsewhere = key(second, unit.unit.get());
    assert_eq!(apply(ledger, lease_change(elsewhere, "one", 0, 0, 9)), refused(UnitRefusal::Unknown));
}

pub fn step(run: RunId, step: u64, phase: RunPhase, units: Vec<UnitWork>) -> LedgerChange {
    LedgerChange::StepRun(Box::new(RunStep { run, step, phase, cursor: b"here".to_vec(), units }))
}

fn phases_follow_when_no_unit_is_left(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"])]);
    let refused = |refusal| LedgerAnswer::Refused(refusal);
    assert_eq!(apply(ledger, step(run, 0, RunPhase::Links, vec![])), refused(LedgerRefusal::UnitsLeft));
    assert_eq!(apply(ledger, step(run, 0, RunPhase::Copy, vec![work(&["b"])])), LedgerAnswer::Done);
    assert_eq!(
        apply(ledger, step(run, 0, RunPhase::Copy, vec![work(&["b"])])),
        refused(LedgerRefusal::OtherStep)
    );
    for unit in ledger.ready_units(run, None, 9).unwrap() {
        let leased = lease(ledger, unit.key, "one", 0);
        apply(ledger, commit_change(unit.key, "one", leased.epoch, UnitResult::default()));
    }
    assert_eq!(apply(ledger, step(run, 1, RunPhase::Directories, vec![])), LedgerAnswer::Done);
    assert_eq!(apply(ledger, step(run, 2, RunPhase::Links, vec![])), refused(LedgerRefusal::PhaseGoesBack));
    let record = ledger.run(run).unwrap().unwrap();
    assert_eq!((record.phase, record.step, &record.cursor[..]), (RunPhase::Directories, 2, &b"here"[..]));
    let unknown = RunId::new(77).unwrap();
    assert_eq!(apply(ledger, step(unknown, 0, RunPhase::Links, vec![])), refused(LedgerRefusal::UnknownRun));
    assert_eq!(apply(ledger, step(run, 2, RunPhase::Ended, vec![])), refused(LedgerRefusal::UnitsLeft));
}

fn a_run_that_ends_leaves_its_history(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"]), work(&["b"]), work(&["c"])]);
    let other = start(ledger, vec![work(&["z"])]);
    let keys: Vec<_> = ledger.ready_units(run, None, 9).unwrap().iter().map(|unit| unit.key).collect();
    let first = lease(ledger, keys[0], "one", 0);
    let result = UnitResult {
        open_directories: vec![open_directory("a"), open_directory("a/b")],
        link_names: vec![link_name(1, "a/x"), link_name(1, "a/y"), link_name(2, "a/z")],
        failures: vec![failure(ErrorKind::Io, b"a/q")],
        ..Default::default()
    };
    let commit = commit_change(keys[0], "one", first.epoch, result);
    apply(ledger, commit.clone());
    lease(ledger, keys[1], "one", 0);
    let left = LedgerAnswer::Refused(LedgerRefusal::UnitsLeft);
    assert_eq!(apply(ledger, end(run, RunOutcome::Complete)), left);
    assert_eq!(ledger.report(run).unwrap(), None);
    assert_eq!(apply(ledger, end(run, RunOutcome::Cancelled)), LedgerAnswer::Done);
    assert_eq!(
        apply(ledger, end(run, RunOutcome::Cancelled)),
        LedgerAnswer::Refused(LedgerRefusal::RunEnded)
    );
    // Nothing of it is offered or accepted, whether swept or not.
    for _ in 0..2 {
        assert_eq!(ledger.ready_units(run, None, 9).unwrap(), []);
        assert_eq!(ledger.leased_units(None, 9).unwrap(), []);
        assert_eq!(apply(ledger, lease_change(keys[2], "one", 0, 0, 9)), refused(UnitRefusal::Unknown));
        assert_eq!(apply(ledger, commit.clone()), refused(UnitRefusal::Unknown));
        let mut rounds = 0;
        while ledger.sweep(2).unwrap() {
            rounds += 1;
            assert!(rounds < 1000, "it does not end");
        }
    }
    assert_eq!(ledger.link_pack(run, None, PackLimits::default()).unwrap(), None);
    assert_eq!(ledger.directory_pack(run, None, PackLimits::default()).unwrap(), None);
    assert_eq!(ledger.work(keys[2]).unwrap(), None);
    assert_eq!(ledger.report(run).unwrap().unwrap(), b"{}");
    assert_eq!(ledger.failures(run, None, None, 9).unwrap().len(), 1);
    let record = ledger.run(run).unwrap().unwrap();
    assert_eq!((record.outcome, record.ended), (Some(RunOutcome::Cancelled), Some(moment(9000))));
    assert_eq!(ledger.open_runs().unwrap().iter().map(|run| run.id).collect::<Vec<_>>(), [other]);
    assert_eq!(ledger.ready_units(other, None, 9).unwrap().len(), 1);
    // No number is given twice.
    let next = start(ledger, vec![work(&["n"])]);
    assert!(ledger.ready_units(next, None, 1).unwrap()[0].key.unit > keys[2].unit);
}

pub fn with_rows(ledger: &mut dyn Ledger, result: UnitResult) -> RunId {
    let run = start(ledger, vec![work(&[""])]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let leased = lease(ledger, key, "one", 0);
    assert_eq!(apply(ledger, commit_change(key, "one", leased.epoch, result)), LedgerAnswer::Committed);
    run
}

fn links_come_in_packs_of_groups(ledger: &mut dyn Ledger) {
    let mut names = Vec::new();
    for group in 0..10u64 {
        // Inode numbers of all 64 bits, and names that are added in no order.
        let inode = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        names.extend((0..=group % 4).rev().map(|name| link_name(inode, &format!("d{group}/n{name}"))));
    }
    let total = names.len();
    let run = with_rows(ledger, UnitResult { link_names: names.clone(), ..Default::default() });
    // Recorded again: the row is replaced.
    let same = with_rows(ledger, UnitResult { link_names: names.clone(), ..Default::default() });
    assert_ne!(run, same);
    for limit in [1, 2, 3, 5, 100] {
        let limits = PackLimits { names: limit, path_bytes: 1 << 20, mixes_depths: false };
        let (mut after, mut seen, mut groups) = (None, 0, 0);
        while let Some(pack) = ledger.link_pack(run, after.as_ref(), limits).unwrap() {
            let count: usize = pack.groups.iter().map(|group| group.names.len()).sum();
            assert!(count <= limit && count > 0);
            assert!(pack.groups.len() == 1 || !pack.is_continued);
            let range = LinkRange { after: after.clone(), until: pack.last.clone() };
            let mut again = ledger.links_in(run, &range).unwrap().unwrap();
            again.is_continued = pack.is_continued;
            assert_eq!(again, pack);
            for group in &pack.groups {
                groups += usize::from(group.earlier.is_none());
                if let Some(earlier) = &group.earlier {
                    assert!(earlier.root == 0 && earlier.path.as_bytes().ends_with(b"/n0"), "{earlier:?}");
                }
            }
            seen += count;
            assert!(seen <= total, "it goes back");
            after = Some(pack.last);
        }
        assert_eq!((seen, groups), (total, 10), "packs of {limit}");
    }
}

fn directories_come_deepest_first(ledger: &mut dyn Ledger) {
    let rows = ["", "a", "b", "a/b", "a/b/c", "b/z", "a/a\u{ff}"].map(open_directory);
    let run = with_rows(ledger, UnitResult { open_directories: rows.to_vec(), ..Default::default() });
    for limit in [1, 2, 100] {
        let limits = PackLimits { names: limit, path_bytes: 1 << 20, mixes_depths: false };
        let (mut after, mut seen) = (None, Vec::new());
        while let Some(pack) = ledger.directory_pack(run, after.as_ref(), limits).unwrap() {
            assert!(pack.directories.len() <= limit);
            assert!(pack.directories.iter().all(|row| row.depth() == pack.last.depth));
            let range = DirectoryRange { after: after.clone(), until: pack.last.clone() };
            assert_eq!(ledger.directories_in(run, &range).unwrap().unwrap(), pack);
            seen.extend(pack.directories);
            assert!(seen.len() <= rows.len(), "it goes back");
            after = Some(pack.last);
        }
        let order = ["a/b/c", "a/a\u{ff}", "a/b", "b/z", "a", "b", ""].map(open_directory);
        assert_eq!(seen, order);
    }
}

fn failures_are_paged_and_counted(ledger: &mut dyn Ledger) {
    let kinds = [ErrorKind::Io, ErrorKind::NoSpace, ErrorKind::Io, ErrorKind::Corrupt, ErrorKind::Io];
    let rows =
        kinds.iter().enumerate().map(|(at, kind)| failure(*kind, format!("f{at}").as_bytes())).collect();
    let run = with_rows(ledger, UnitResult { failures: rows, ..Default::default() });
    let first = ledger.failures(run, None, None, 2).unwrap();
    let rest = ledger.failures(run, None, Some(first[1].number), 9).unwrap();
    assert_eq!((first.len(), rest.len()), (2, 3));
    assert_eq!(rest[0].row.failure.path, b"f2");
    let io = ledger.failures(run, Some(ErrorKind::Io), Some(first[0].number), 9).unwrap();
    assert_eq!(io.iter().map(|row| row.number.get()).collect::<Vec<_>>(), [3, 5]);
    let counts = ledger.failure_counts(run).unwrap();
    assert_eq!(counts.len(), 3);
    assert!(counts.contains(&(ErrorKind::Io, 3)) && counts.contains(&(ErrorKind::Corrupt, 1)));
}

fn relationship(name: &str) -> Relationship {
    Relationship {
        name: name.to_owned(),
        group: group(),
        sources: vec![b"host:/a\xff".to_vec(), b"/b".to_vec()],
        target: b"s3://bucket/p".to_vec(),
        options: r#"{"sync":true}"#.to_owned(),
        schedule: Some(r#"{"cron":"0 3 * * *","zone":"Asia/Tokyo"}"#.to_owned()),
        limits: None,
        notification: Some("{}".to_owned()),
        owner: "ops".to_owned(),
        credentials: vec![CredentialReference::Environment("KEY".to_owned())],
    }
}

pub fn save(name: &str, replaces: Option<(RelationshipId, Revision)>) -> LedgerChange {
    LedgerChange::SaveRelationship { replaces, now: moment(5), relationship: Box::new(relationship(name)) }
}

fn relationships_are_changed_in_their_revision(ledger: &mut dyn Ledger) {
    let refused = |refusal| LedgerAnswer::Refused(refusal);
    let LedgerAnswer::RelationshipSaved(id, first) = apply(ledger, save("one", None)) else { panic!() };
    assert_eq!(apply(ledger, save("one", None)), refused(LedgerRefusal::NameTaken));
    let LedgerAnswer::RelationshipSaved(other, _) = apply(ledger, save("two", None)) else { panic!() };
    assert_eq!(apply(ledger, save("two", Some((id, first)))), refused(LedgerRefusal::NameTaken));
    let LedgerAnswer::RelationshipSaved(_, second) = apply(ledger, save("uno", Some((id, first)))) else {
        panic!()
    };
    assert_eq!(apply(ledger, save("uno", Some((id, first)))), refused(LedgerRefusal::OtherRevision));
    let record = ledger.relationship(id).unwrap().unwrap();
    assert_eq!((record.relationship, record.revision), (relationship("uno"), second));
    assert_eq!(ledger.relationships(Some(id), 9).unwrap().len(), 1);
    assert_eq!(ledger.relationships(None, 1).unwrap()[0].id, id);
    let remove = |id, revision| LedgerChange::RemoveRelationship(id, revision);
    assert_eq!(apply(ledger, remove(id, first)), refused(LedgerRefusal::OtherRevision));
    assert_eq!(apply(ledger, remove(id, second)), LedgerAnswer::Done);
    assert_eq!(apply(ledger, remove(id, second)), refused(LedgerRefusal::UnknownRelationship));
    assert_eq!(ledger.relationships(None, 9).unwrap().iter().map(|row| row.id).collect::<Vec<_>>(), [other]);
}

fn runs_are_listed_latest_first(ledger: &mut dyn Ledger) {
    let LedgerAnswer::RelationshipSaved(of, _) = apply(ledger, save("one", None)) else { panic!() };
    let mut runs = Vec::new();
    for number in 0..5 {
        let LedgerChange::StartRun(mut run) = new_run(vec![]) else { panic!() };
        run.relationship = (number % 2 == 0).then_some(of);
        let LedgerAnswer::RunStarted(run) = apply(ledger, LedgerChange::StartRun(run)) else { panic!() };
        if number < 4 {
            apply(ledger, end(run, RunOutcome::Complete));
        }
        runs.push(run);
    }
    let ids = |runs: Vec<hakobu_fleet::run::RunRow>| runs.iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(ids(ledger.runs(None, None, 2).unwrap()), [runs[4], runs[3]]);
    assert_eq!(ids(ledger.runs(None, Some(runs[1]), 9).unwrap()), [runs[0]]);
    assert_eq!(ids(ledger.runs(Some(of), Some(runs[4]), 9).unwrap()), [runs[2], runs[0]]);
    let forecast = LedgerChange::SetForecast(runs[4], Some(r#"{"p50":1}"#.to_owned()));
    assert_eq!(apply(ledger, forecast), LedgerAnswer::Done);
    assert_eq!(ledger.run(runs[4]).unwrap().unwrap().forecast.as_deref(), Some(r#"{"p50":1}"#));
}

fn a_relationship_has_one_run_at_a_time(ledger: &mut dyn Ledger) {
    let LedgerAnswer::RelationshipSaved(of, _) = apply(ledger, save("one", None)) else { panic!() };
    let run_of = |of| {
        let LedgerChange::StartRun(mut run) = new_run(vec![work(&["a"])]) else { panic!() };
        run.relationship = Some(of);
        LedgerChange::StartRun(run)
    };
    let refused = |refusal| LedgerAnswer::Refused(refusal);
    let unknown = RelationshipId::new(of.get() + 1).unwrap();
    assert_eq!(apply(ledger, run_of(unknown)), refused(LedgerRefusal::UnknownRelationship));
    let answers = ledger.apply(&[run_of(of), run_of(of)]).unwrap();
    let LedgerAnswer::RunStarted(first) = answers[0] else { panic!("{answers:?}") };
    assert_eq!(answers[1], refused(LedgerRefusal::RunOpen(first)));
    assert_eq!(apply(ledger, run_of(of)), refused(LedgerRefusal::RunOpen(first)));
    let answers = ledger.apply(&[end(first, RunOutcome::Cancelled), run_of(of), run_of(of)]).unwrap();
    let LedgerAnswer::RunStarted(second) = answers[1] else { panic!("{answers:?}") };
    assert_eq!(answers[2], refused(LedgerRefusal::RunOpen(second)));
}

fn a_relationship_whose_run_is_under_way_stays(ledger: &mut dyn Ledger) {
    let LedgerAnswer::RelationshipSaved(of, revision) = apply(ledger, save("one", None)) else { panic!() };
    let LedgerChange::StartRun(mut run) = new_run(vec![work(&["a"])]) else { panic!() };
    run.relationship = Some(of);
    let LedgerAnswer::RunStarted(run) = apply(ledger, LedgerChange::StartRun(run)) else { panic!() };
    let remove = || LedgerChange::RemoveRelationship(of, revision);
    assert_eq!(apply(ledger, remove()), LedgerAnswer::Refused(LedgerRefusal::RunOpen(run)));
    assert!(ledger.relationship(of).unwrap().is_some());
    // The end of the run in the same transaction comes first.
    let answers = ledger.apply(&[end(run, RunOutcome::Cancelled), remove()]).unwrap();
    assert_eq!(answers, [LedgerAnswer::Done, LedgerAnswer::Done]);
    assert!(ledger.relationship(of).unwrap().is_none());
}

fn packs_that_are_given_up_are_failures(ledger: &mut dyn Ledger) {
    let result = UnitResult {
        link_names: vec![link_name(1, "a"), link_name(1, "b"), link_name(2, "c")],
        open_directories: vec![open_directory("d"), open_directory("e")],
        ..Default::default()
    };
    let run = with_rows(ledger, result);
    let limits = PackLimits::default();
    let links = ledger.link_pack(run, None, limits).unwrap().unwrap();
    let directories = ledger.directory_pack(run, None, limits).unwrap().unwrap();
    let units = vec![
        UnitWork::Links(LinkRange { after: None, until: links.last }),
        UnitWork::Directories(DirectoryRange { after: None, until: directories.last }),
    ];
    assert_eq!(apply(ledger, step(run, 0, RunPhase::Links, units)), LedgerAnswer::Done);
    for unit in ledger.ready_units(run, None, 9).unwrap() {
        for _ in 0..ATTEMPTS_MAX {
            let leased = lease(ledger, unit.key, "one", 0);
            let refuse =
                LedgerChange::refuse(unit.key, broker("one"), leased.epoch, (RefuseCause::Failed, None));
            apply(ledger, refuse);
        }
    }
    let failures = ledger.failures(run, None, None, 9).unwrap();
    let paths: Vec<_> = failures.iter().map(|row| &row.row.failure.path[..]).collect();
    assert_eq!(paths, [&b"a"[..], b"b", b"c", b"d", b"e"]);
    assert_eq!(ledger.run(run).unwrap().unwrap().units.given_up, 2);
}

fn brokers_are_seen_and_drained(ledger: &mut dyn Ledger) {
    let see = |name: &str, now| {
        LedgerChange::SeeBroker(BrokerSighting {
            name: broker(name),
            group: group(),
            version: "0.2.0".to_owned(),
            now: moment(now),
        })
    };
    for (name, now) in [("b", 5), ("a", 6), ("b", 9), ("b", 7)] {
        assert_eq!(apply(ledger, see(name, now)), LedgerAnswer::Done);
    }
    assert_eq!(apply(ledger, LedgerChange::DrainBroker(broker("b"), true)), LedgerAnswer::Done);
    apply(ledger, see("b", 10));
    let all = ledger.brokers(None, None, 9).unwrap();
    assert_eq!(all.iter().map(|broker| broker.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((all[1].first_seen, all[1].last_seen, all[1].is_draining), (moment(5), moment(10), true));
    assert_eq!(ledger.brokers(Some(&group()), Some(&broker("a")), 9).unwrap(), all[1..]);
    assert_eq!(ledger.brokers(Some(&GroupName::new("x").unwrap()), None, 9).unwrap(), []);
    assert_eq!(apply(ledger, LedgerChange::ForgetBroker(broker("b"))), LedgerAnswer::Done);
    let unknown = LedgerAnswer::Refused(LedgerRefusal::UnknownBroker);
    assert_eq!(apply(ledger, LedgerChange::ForgetBroker(broker("b"))), unknown);
    assert_eq!(apply(ledger, LedgerChange::DrainBroker(broker("b"), true)), unknown);
}

fn tokens_are_used_and_end(ledger: &mut dyn Ledger) {
    let token = |secret: &str, is_single_use| NewToken {
        hash: TokenHash::of(secret.as_bytes()),
        label: secret.to_owned(),
        role: TokenRole::Operator,
        created: moment(1),
        expires: Some(moment(100)),
        is_single_use,
    };
    let used = |secret: &str, now| LedgerChange::UseToken(TokenHash::of(secret.as_bytes()), moment(now));
    let unknown = LedgerAnswer::Refused(LedgerRefusal::UnknownToken);
    let LedgerAnswer::TokenAdded(id) = apply(ledger, LedgerChange::AddToken(token("long", false))) else {
        panic!()
    };
    let again = apply(ledger, LedgerChange::AddToken(token("long", false)));
    assert_eq!(again, LedgerAnswer::Refused(LedgerRefusal::TokenTaken));
    apply(ledger, LedgerChange::AddToken(token("once", true)));
    for _ in 0..2 {
        let LedgerAnswer::TokenUsed(record) = apply(ledger, used("long", 50)) else { panic!() };
        assert_eq!(
            (record.id, record.token.clone(), record.last_used),
            (id, token("long", false), Some(moment(50)))
        );
    }
    assert_eq!(ledger.tokens().unwrap()[0].last_used, Some(moment(50)));
    assert_eq!(apply(ledger, used("long", 100)), unknown);
    assert_eq!(apply(ledger, used("wrong", 50)), unknown);
    assert!(matches!(apply(ledger, used("once", 50)), LedgerAnswer::TokenUsed(_)));
    assert_eq!(apply(ledger, used("once", 50)), unknown);
    assert_eq!(apply(ledger, LedgerChange::RevokeToken(id)), LedgerAnswer::Done);
    assert_eq!(apply(ledger, LedgerChange::RevokeToken(id)), unknown);
    assert_eq!(apply(ledger, used("long", 50)), unknown);
}

fn the_audit_log_has_the_outcome(ledger: &mut dyn Ledger) {
    let entry = |action: &str| AuditEntry {
        when: moment(7),
        who: "token 1".to_owned(),
        action: action.to_owned(),
        object: b"r\xff".to_vec(),
        detail: String::new(),
    };
    let audited = |action: &str, change| LedgerChange::Audited(Box::new(entry(action)), Box::new(change));
    let saved = apply(ledger, audited("save", save("one", None)));
    assert!(matches!(saved, LedgerAnswer::RelationshipSaved(..)));
    apply(ledger, audited("save again", save("one", None)));
    let log = ledger.audit(None, 9).unwrap();
    assert_eq!((log[0].refused.as_deref(), &log[0].entry), (Some("name_taken"), &entry("save again")));
    assert_eq!((log[1].refused.as_deref(), &log[1].entry), (None, &entry("save")));
    assert_eq!(ledger.audit(Some(log[0].number), 9).unwrap(), log[1..]);
    let twice = audited("a", audited("b", save("x", None)));
    assert_eq!(ledger.apply(&[twice]).unwrap_err().kind, ErrorKind::Usage);
}

fn a_change_that_is_malformed_changes_nothing(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"])]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let lease = lease_change(key, "one", 0, 0, 9);
    let large = UnitResult { link_names: vec![link_name(1, "a/x")], ..Default::default() };
    let mut too_large = large.clone();
    too_large.link_names[0].size = u64::MAX;
    let mut largest = large;
    largest.link_names[0].size = i64::MAX as u64;
    let commit = |result| commit_change(key, "one", epoch(1), result);
    let error = ledger.apply(&[lease.clone(), commit(too_large)]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert_eq!(ledger.ready_units(run, None, 1).unwrap().len(), 1, "the lease before it was not applied");
    let answers = ledger.apply(&[lease, commit(largest)]).unwrap();
    assert_eq!(answers[1], LedgerAnswer::Committed);
    let pack = ledger.link_pack(run, None, PackLimits::default()).unwrap().unwrap();
    assert_eq!(pack.groups[0].names[0].size, i64::MAX as u64);
}

fn a_refusal_leaves_the_rest_of_the_batch(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"]), work(&["b"])]);
    let keys: Vec<_> = ledger.ready_units(run, None, 9).unwrap().iter().map(|unit| unit.key).collect();
    let answers = ledger
        .apply(&[
            lease_change(keys[0], "one", 5, 0, 9),
            lease_change(keys[1], "one", 0, 0, 9),
            commit_change(keys[1], "two", epoch(1), UnitResult::default()),
            commit_change(keys[1], "one", epoch(1), UnitResult::default()),
        ])
        .unwrap();
    assert_eq!(answers[0], refused(UnitRefusal::StaleEpoch));
    assert!(matches!(answers[1], LedgerAnswer::Leased(_)));
    assert_eq!(answers[2], refused(UnitRefusal::OtherBroker));
    assert_eq!(answers[3], LedgerAnswer::Committed);
}

/// Returns a path of 4095 bytes that no compression shortens much, with this end.
pub fn longest(end: u8) -> EntryPath {
    let mut state = 7u64;
    let mut bytes: Vec<u8> = (0..4094)
        .map(|index| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if index % 200 == 199 { b'/' } else { b'0' + ((state >> 33) % 200) as u8 }
        })
        .collect();
    bytes.push(end);
    EntryPath::new(bytes).unwrap()
}

fn the_longest_paths_are_kept(ledger: &mut dyn Ledger) {
    let paths = [longest(b'a'), longest(b'b')];
    let directory = |path: &EntryPath| OpenDirectoryRow { root: 0, path: path.clone(), detail: vec![1] };
    let link = |path: &EntryPath| LinkNameRow { path: path.clone(), ..link_name(1, "x") };
    let result = UnitResult {
        open_directories: paths.iter().rev().chain(&paths).map(directory).collect(),
        link_names: paths.iter().rev().chain(&paths).map(link).collect(),
        ..Default::default()
    };
    let run = with_rows(ledger, result.clone());
    let again = result;
    let added = step(run, 0, RunPhase::Copy, vec![work(&[""])]);
    assert_eq!(apply(ledger, added), LedgerAnswer::Done);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let leased = lease(ledger, key, "one", 0);
    assert_eq!(apply(ledger, commit_change(key, "one", leased.epoch, again)), LedgerAnswer::Committed);
    for limit in [1, 9] {
        let limits = PackLimits { names: limit, path_bytes: 1 << 20, mixes_depths: false };
        let (mut after, mut seen) = (None, Vec::new());
        while let Some(pack) = ledger.directory_pack(run, after.as_ref(), limits).unwrap() {
            seen.extend(pack.directories.into_iter().map(|row| row.path));
            after = Some(pack.last);
            assert!(seen.len() <= 2, "it goes back");
        }
        assert_eq!(seen, paths);
        let (mut after, mut seen) = (None, Vec::new());
        while let Some(pack) = ledger.link_pack(run, after.as_ref(), limits).unwrap() {
            seen.extend(pack.groups.into_iter().flat_map(|group| group.names).map(|row| row.path));
            after = Some(pack.last);
            assert!(seen.len() <= 2, "it goes back");
        }
        assert_eq!(seen, paths);
    }
}

fn texts_with_zero_bytes_are_kept(ledger: &mut dyn Ledger) {
    let mut row = failure(ErrorKind::Io, b"a\0b");
    row.failure.error.detail = "x\0y".to_owned();
    row.failure.error.hint = Some("z\0".into());
    let run = with_rows(ledger, UnitResult { failures: vec![row], ..Default::default() });
    let kept = ledger.failures(run, None, None, 9).unwrap().remove(0).row.failure;
    assert_eq!(kept.path, b"a\0b");
    // A database may have another character for it.
    assert_eq!(kept.error.detail.replace('\u{fffd}', "\0"), "x\0y");
}

fn a_commit_with_many_rows_is_kept(ledger: &mut dyn Ledger) {
    let count = 12_000u64;
    let name = |number: u64| format!("d/{number:06}");
    let result = UnitResult {
        open_directories: (0..count).map(|number| open_directory(&name(number))).collect(),
        link_names: (0..count).map(|number| link_name(number / 2, &name(number))).collect(),
        failures: (0..count).map(|number| failure(ErrorKind::Io, name(number).as_bytes())).collect(),
        ..Default::default()
    };
    let run = with_rows(ledger, result);
    assert_eq!(ledger.failure_counts(run).unwrap(), [(ErrorKind::Io, count)]);
    assert_eq!(ledger.failures(run, None, None, usize::MAX).unwrap().len(), PAGE_ROWS_MAX);
    let limits = PackLimits { names: 5000, path_bytes: 1 << 30, mixes_depths: false };
    let (mut after, mut names) = (None, 0);
    while let Some(pack) = ledger.link_pack(run, after.as_ref(), limits).unwrap() {
        names += pack.groups.iter().map(|group| group.names.len()).sum::<usize>();
        after = Some(pack.last);
    }
    let (mut after, mut directories) = (None, 0);
    while let Some(pack) = ledger.directory_pack(run, after.as_ref(), limits).unwrap() {
        directories += pack.directories.len();
        after = Some(pack.last);
    }
    assert_eq!((names, directories), (12_000, 12_000));
}

fn a_unit_that_is_added_in_a_batch_is_leased_in_it(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["a"])]);
    let first = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let next = key(run, first.unit.get() + 1);
    let answers = ledger
        .apply(&[
            step(run, 0, RunPhase::Copy, vec![work(&["b"])]),
            lease_change(next, "one", 0, 0, 9),
            lease_change(first, "one", 0, 0, 9),
            commit_change(first, "one", epoch(1), UnitResult::default()),
            lease_change(first, "one", 1, 0, 9),
        ])
        .unwrap();
    assert!(matches!(&answers[1], LedgerAnswer::Leased(lease) if lease.work == work(&["b"])), "{answers:?}");
    assert_eq!(answers[3..], [LedgerAnswer::Committed, refused(UnitRefusal::Committed)]);
    let leased = ledger.leased_units(None, 9).unwrap();
    assert_eq!(leased.iter().map(|unit| unit.key).collect::<Vec<_>>(), [next]);
    assert_eq!(ledger.work(next).unwrap(), Some(work(&["b"])));
}
