//! Cases of large files whose ranges are units: they hold for every ledger.

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::extent::CHUNK_BYTES;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange, UnitResult};
use hakobu_fleet::ids::RunId;
use hakobu_fleet::kept_shares::torn_error;
use hakobu_fleet::lease::ATTEMPTS_MAX;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::open_file::{ItemRange, OpenFilePosition, OpenFileRecord, OpenFileRow};
use hakobu_fleet::run::{RunOutcome, RunPhase};
use hakobu_fleet::transition::{RefuseCause, UnitRefusal};
use hakobu_fleet::unit::{ItemPart, UnitItem, UnitWork};

use crate::conformance::{longest, refused, step, with_rows};
use crate::samples::*;

fn position(text: &str) -> OpenFilePosition {
    OpenFilePosition { root: 0, path: path(text) }
}

pub fn open_file(text: &str) -> OpenFileRow {
    OpenFileRow { position: position(text), is_torn: false, detail: text.as_bytes().to_vec() }
}

fn torn(text: &str, words: &'static str) -> OpenFileRow {
    OpenFileRow::torn(position(text), &Error::new(ErrorKind::Io, "reading", words)).unwrap()
}

/// Returns the work of a range of a file of two chunks.
fn range(text: &str, chunk: u64) -> UnitWork {
    let (offset, size_bytes) = (chunk * CHUNK_BYTES, 2 * CHUNK_BYTES);
    let range = ItemRange { offset, length: CHUNK_BYTES, size_bytes, detail: text.as_bytes().to_vec() };
    UnitWork::Items(vec![UnitItem { part: ItemPart::Range(range), ..UnitItem::whole(0, path(text)) }])
}

fn words_of(record: OpenFileRecord) -> Option<String> {
    record.torn.map(|torn| torn_error(&torn).unwrap().detail)
}

pub fn open_files_are_listed_in_order_and_read(ledger: &mut dyn Ledger) {
    let long = OpenFilePosition { root: 2, path: longest(b'z') };
    let mut rows = ["b/c", "a", "b", "b\u{ff}"].map(open_file).to_vec();
    rows.push(OpenFileRow { position: long.clone(), is_torn: false, detail: vec![1] });
    rows.push(OpenFileRow { position: long.clone(), is_torn: false, detail: vec![2] });
    // Of all roots.
    let run = start(ledger, vec![UnitWork::All]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let leased = lease(ledger, key, "one", 0);
    let result = UnitResult { open_files: rows, ..Default::default() };
    assert_eq!(apply(ledger, commit_change(key, "one", leased.epoch, result)), LedgerAnswer::Committed);
    let other = with_rows(ledger, UnitResult { open_files: vec![open_file("a")], ..Default::default() });
    let order = [position("a"), position("b"), position("b/c"), position("b\u{ff}"), long.clone()];
    for limit in [1, 2, 9] {
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let files = ledger.open_files(run, after.as_ref(), limit).unwrap();
            let Some(last) = files.last() else { break };
            assert!(files.len() <= limit && seen.len() < order.len(), "it goes back");
            after = Some(last.clone());
            seen.extend(files);
        }
        assert_eq!(seen, order);
    }
    let read = |ledger: &mut dyn Ledger, run, at: &OpenFilePosition| ledger.open_file(run, at).unwrap();
    assert_eq!(read(ledger, run, &long).unwrap().detail, [2], "the last one stays");
    assert_eq!(read(ledger, other, &position("a")).unwrap().detail, b"a");
    assert_eq!((read(ledger, other, &position("b")), read(ledger, run, &position("c"))), (None, None));
    assert_eq!(read(ledger, run, &OpenFilePosition { root: 1, ..position("a") }), None);
    apply(ledger, end(run, RunOutcome::Cancelled));
    while ledger.sweep(2).unwrap() {}
    assert_eq!(ledger.open_files(run, None, 9).unwrap(), []);
    assert_eq!(ledger.open_files(other, None, 9).unwrap(), [position("a")]);
}

/// Starts a run with an open file and two ranges of it.
fn with_ranges(ledger: &mut dyn Ledger) -> RunId {
    let children = vec![range("d/f", 0), range("d/f", 1)];
    with_rows(ledger, UnitResult { children, open_files: vec![open_file("d/f")], ..Default::default() })
}

pub fn a_range_tears_its_own_file_only(ledger: &mut dyn Ledger) {
    let run = with_ranges(ledger);
    let units = ledger.ready_units(run, None, 9).unwrap();
    let leased: Vec<_> = units.iter().map(|unit| lease(ledger, unit.key, "one", 0)).collect();
    assert_eq!(
        leased.iter().map(|lease| lease.work.clone()).collect::<Vec<_>>(),
        [range("d/f", 0), range("d/f", 1)]
    );
    for result in [
        UnitResult { open_files: vec![torn("d/g", "other")], ..Default::default() },
        UnitResult { open_files: vec![torn("d", "other")], ..Default::default() },
        UnitResult { open_files: vec![open_file("d/f")], ..Default::default() },
        UnitResult {
            open_files: vec![open_file("d/f")],
            children: vec![range("d/f", 1)],
            ..Default::default()
        },
        UnitResult { children: vec![work(&["d/f"])], ..Default::default() },
    ] {
        let commit = commit_change(leased[0].key, "one", leased[0].epoch, result);
        assert_eq!(apply(ledger, commit), refused(UnitRefusal::OutsideUnit));
    }
    for (leased, words) in leased.iter().zip(["bad", "worse"]) {
        let result = UnitResult { open_files: vec![torn("d/f", words)], ..Default::default() };
        let commit = commit_change(leased.key, "one", leased.epoch, result);
        assert_eq!(apply(ledger, commit), LedgerAnswer::Committed);
    }
    let record = ledger.open_file(run, &position("d/f")).unwrap().unwrap();
    assert_eq!((&record.detail[..], words_of(record.clone()).as_deref()), (&b"d/f"[..], Some("worse")));
    assert_eq!(ledger.run(run).unwrap().unwrap().failures, 0, "it fails once, in the end");
    assert_eq!(ledger.open_files(run, None, 9).unwrap(), [position("d/f")]);
}

pub fn ranges_that_cannot_be_are_refused(ledger: &mut dyn Ledger) {
    let run = start(ledger, vec![work(&["d"])]);
    let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
    let leased = lease(ledger, key, "one", 0);
    let beyond = range("d/f", 2);
    let mut other_file = range("d/f", 0);
    if let UnitWork::Items(items) = &mut other_file {
        items[0].path = path("d/g");
    }
    let both = UnitWork::Items(
        [range("d/f", 0), range("d/f", 1)]
            .into_iter()
            .flat_map(|work| if let UnitWork::Items(items) = work { items } else { vec![] })
            .collect(),
    );
    for child in [beyond, other_file, both] {
        let result =
            UnitResult { children: vec![child], open_files: vec![open_file("d/f")], ..Default::default() };
        let commit = commit_change(key, "one", leased.epoch, result);
        assert_eq!(ledger.apply(&[commit]).unwrap_err().kind, ErrorKind::Usage);
    }
    // Nobody would finish it.
    let result = UnitResult { children: vec![range("d/f", 0)], ..Default::default() };
    let commit = commit_change(key, "one", leased.epoch, result);
    assert_eq!(ledger.apply(&[commit]).unwrap_err().kind, ErrorKind::Usage);
    assert_eq!(ledger.run(run).unwrap().unwrap().units.committed, 0);
}

pub fn a_range_that_is_given_up_tears_its_file(ledger: &mut dyn Ledger) {
    let run = with_ranges(ledger);
    let give_up = |ledger: &mut dyn Ledger| {
        let unit = ledger.ready_units(run, None, 9).unwrap()[0].key;
        for attempt in 1..=ATTEMPTS_MAX {
            let leased = lease(ledger, unit, "one", 0);
            let refuse = LedgerChange::refuse(unit, broker("one"), leased.epoch, (RefuseCause::Failed, None));
            let answer = apply(ledger, refuse);
            assert_eq!(answer == LedgerAnswer::GivenUp, attempt == ATTEMPTS_MAX);
        }
    };
    give_up(ledger);
    assert_eq!(ledger.run(run).unwrap().unwrap().failures, 0, "its file fails, once");
    let record = ledger.open_file(run, &position("d/f")).unwrap().unwrap();
    assert!(words_of(record).unwrap().contains("16 attempts"));
    give_up(ledger);
    let end = vec![UnitWork::File(position("d/f"))];
    assert_eq!(apply(ledger, step(run, 0, RunPhase::Copy, end)), LedgerAnswer::Done);
    give_up(ledger);
    let failures = ledger.failures(run, None, None, 9).unwrap();
    let paths: Vec<_> = failures.iter().map(|row| &row.row.failure.path[..]).collect();
    assert_eq!((paths, ledger.run(run).unwrap().unwrap().units.given_up), (vec![&b"d/f"[..]], 3));
}
