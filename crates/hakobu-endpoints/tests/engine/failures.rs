//! Tests with faults of single entries: each is reported once, and everything else is copied.

use std::sync::Arc;

use hakobu_core::error::ErrorKind;
use hakobu_core::event::Failure;
use hakobu_testkit::faults::FaultEffect::{self, Error, OneEntry, ShortRead, Unheard};
use hakobu_testkit::faults::OperationKind::{self, *};
use hakobu_testkit::faults::{FaultCondition, FaultPlan};

use crate::bench::{Made, Order, Place};
use crate::tree::{Numbers, small, write};
use crate::view::{View, assert_honest, assert_same};

/// Makes a run with one rule into an empty target, and then one without it.
fn run_with(
    source_side: bool,
    kind: OperationKind,
    when: &FaultCondition,
    fault: &FaultEffect,
    lanes: u16,
) -> Made {
    let place = Place::new();
    small(&place.source(), 51);
    let plan = FaultPlan::new(u64::from(lanes)).on(kind, when.clone(), fault.clone());
    let order = Order::contents(lanes);
    let order = if source_side { order.source(plan) } else { order.target(plan) };
    let source = place.source_view();
    let made = place.run(&order);
    let what = format!("{kind:?} {when:?} {fault:?} with {lanes} lanes");
    assert_eq!(made.summary.fatal, None, "{what}");
    let after = place.target_view();
    assert_honest(&source, &View::default(), &after, &made);
    // Everything else was copied: only reported entries are missing.
    let failed = made.failed_paths();
    let there = source.0.iter().filter(|(path, entry)| after.0.get(*path) == Some(*entry)).count();
    let told = source.0.keys().filter(|path| {
        failed.iter().any(|failed| {
            path == &failed || failed.is_empty() || path.starts_with(&[&failed[..], b"/"].concat()[..])
        })
    });
    assert!(there + told.count() + 1 >= source.0.len(), "{what}: more is missing than was told");
    let again = place.run(&Order::contents(lanes));
    assert_eq!(again.summary.fatal, None, "{what}");
    assert_same(&source.copied(), &place.target_view());
    made
}

#[test]
fn one_failed_operation_is_one_failure() {
    let on_source = [List, Fetch, Read, Open, Confirm];
    let on_target = [List, Store, Begin, Write, Clone, Finish, Apply];
    for lanes in [1, 3] {
        for (source_side, kinds) in [(true, &on_source[..]), (false, &on_target[..])] {
            for &kind in kinds {
                for nth in [1, 3] {
                    let made = run_with(
                        source_side,
                        kind,
                        &FaultCondition::Nth(nth),
                        &Error(ErrorKind::PermissionDenied),
                        lanes,
                    );
                    let log = if source_side { &made.source_log } else { &made.target_log };
                    let struck = log.iter().filter(|logged| logged.kind == kind).count() as u64 >= nth;
                    let planned = |failure: &Failure| failure.error.detail == "a planned fault";
                    let told = made.summary.failures.iter().any(planned);
                    assert_eq!(told, struck, "{kind:?} {nth} {:?}", made.summary.failures);
                    // The error's location is the one at the target, if it occurred there.
                    for failure in made.summary.failures.iter().filter(|failure| planned(failure)) {
                        let at = match &failure.path[..] {
                            _ if source_side => b"",
                            b"" => &b"."[..],
                            path => path,
                        };
                        assert_eq!(failure.error.at, at, "{kind:?} {failure:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_failed_entry_of_many_fails_alone() {
    for lanes in [1, 2, 5] {
        for (source_side, kind) in [(true, Fetch), (true, List), (false, Store), (false, Apply)] {
            // The first list operation is of the directory that contains everything.
            let nth = if kind == List { 2 } else { 1 };
            let made =
                run_with(source_side, kind, &FaultCondition::Nth(nth), &OneEntry(ErrorKind::Io), lanes);
            assert_eq!(made.failed_paths().len(), 1, "{kind:?}");
        }
    }
}

#[test]
fn everything_of_a_kind_fails() {
    for (source_side, kind) in [
        (true, Fetch),
        (true, Read),
        (true, Confirm),
        (false, Store),
        (false, Begin),
        (false, Write),
        (false, Finish),
        (false, Apply),
    ] {
        for error in [ErrorKind::Io, ErrorKind::SourceChanged, ErrorKind::NotFound] {
            run_with(source_side, kind, &FaultCondition::Always, &Error(error), 3);
        }
    }
}

#[test]
fn answers_that_are_not_heard_count_as_failures() {
    for kind in [Store, Begin, Write, Finish, Apply] {
        for lanes in [1, 5] {
            run_with(false, kind, &FaultCondition::Nth(2), &Unheard(ErrorKind::Io), lanes);
        }
    }
}

#[test]
fn a_directory_that_cannot_be_listed_fails_with_what_is_in_it() {
    let place = Place::new();
    small(&place.source(), 52);
    let source = place.source_view();
    let directories = source.0.keys().filter(|path| !path.is_empty() && source.is_directory(path));
    for path in directories {
        let plan = FaultPlan::new(1).on(
            List,
            FaultCondition::At(path.clone()),
            OneEntry(ErrorKind::PermissionDenied),
        );
        let made = place.run(&Order::contents(2).source(plan));
        assert_eq!(made.summary.fatal, None);
        assert_eq!(made.failed_paths().len(), 1);
        assert!(made.failed_paths().contains(path));
    }
    // Each fault affected only one run, so everything is complete.
    assert_same(&source.copied(), &place.target_view());
}

#[test]
fn a_target_directory_that_cannot_be_listed_is_told_and_left_alone() {
    let place = Place::new();
    small(&place.source(), 53);
    place.run(&Order::contents(2));
    let before = place.target_view();
    write(&place.source().join("directory-0/new"), &mut Numbers(1), 5);
    for remote in [false, true] {
        let rule =
            |kind| FaultPlan::new(1).on(List, FaultCondition::At(b"directory-0".to_vec()), OneEntry(kind));
        let mut order = Order::contents(2).target(rule(ErrorKind::PermissionDenied));
        order.remote = remote;
        let made = place.run(&order);
        // On a remote target the listing may have been sent along with another one.
        assert_eq!(made.summary.fatal, None);
        if !remote {
            assert!(made.failed_paths().contains(&b"directory-0".to_vec()));
            let mut after = place.target_view();
            after.0.remove(&b"directory-0"[..]);
            let mut before = before.clone();
            before.0.remove(&b"directory-0"[..]);
            assert_same(&before, &after);
        }
    }
}

#[test]
fn a_short_read_is_a_source_that_changed() {
    for lanes in [1, 2, 5] {
        for nth in [1, 2, 20] {
            let made = run_with(true, Read, &FaultCondition::Nth(nth), &ShortRead, lanes);
            assert_eq!(made.failed_paths().len(), 1);
            assert_eq!(made.summary.failures_of_source, 1);
        }
    }
}

#[test]
fn a_source_that_changes_while_it_is_read_is_told() {
    for lanes in [1, 3] {
        let place = Place::new();
        let numbers = &mut Numbers(6);
        write(&place.source().join("changing"), numbers, 13_000_000);
        write(&place.source().join("constant"), numbers, 5_000_000);
        let path = place.source().join("changing");
        let change = FaultEffect::Call(Arc::new(move || {
            use std::os::unix::fs::FileExt;
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(b"changed", 12_999_000).unwrap();
        }));
        let plan = FaultPlan::new(1).on(Read, FaultCondition::Nth(4), change);
        let made = place.run(&Order::contents(lanes).source(plan));
        assert_eq!(made.summary.fatal, None);
        assert_eq!(made.failed_paths(), [b"changing"]);
        assert_eq!(made.summary.failures_of_source, 1);
        assert!(!place.target().join("changing").exists() && place.target().join("constant").exists());
    }
}

/// A single file has no pack: an empty one is begun and finished without a piece in between.
#[test]
fn a_single_file_that_fails_is_told_once() {
    for size in [0, 10, 5_000_000, 13_000_000] {
        let place = Place::new();
        write(&place.source().join("file"), &mut Numbers(2), size);
        for (source_side, kind) in
            [(false, Begin), (false, Write), (false, Finish), (true, Confirm), (true, Read), (true, Inspect)]
        {
            for lanes in [1, 3] {
                let plan =
                    FaultPlan::new(1).on(kind, FaultCondition::Nth(1), Error(ErrorKind::PermissionDenied));
                let order = Order::items(lanes, &[("file", "file")]).job(|job| job.clone = size % 2 == 1);
                let order = if source_side { order.source(plan) } else { order.target(plan.reorder(5)) };
                let made = place.run(&order);
                assert_eq!(made.summary.fatal, None);
                let struck = made.count(kind) > 0;
                let expected = if struck { vec![b"file".to_vec()] } else { Vec::new() };
                assert_eq!(made.failed_paths(), expected, "{size} bytes, {kind:?}");
                assert_eq!(place.target().join("file").exists(), !struck);
                assert_eq!(made.summary.digest.is_some(), !struck);
                let _removed = std::fs::remove_file(place.target().join("file"));
            }
        }
    }
}

/// If one of several items cannot be inspected, the others are still copied.
#[test]
fn an_item_that_cannot_be_looked_at_fails_alone() {
    for source_side in [false, true] {
        let place = Place::new();
        for name in ["a", "b", "c"] {
            write(&place.source().join(name), &mut Numbers(2), 10);
        }
        let plan = FaultPlan::new(1).on(
            Inspect,
            FaultCondition::At(b"b".to_vec()),
            Error(ErrorKind::PermissionDenied),
        );
        let order = Order::items(2, &[("a", "a"), ("b", "b"), ("c", "c")]);
        let order = if source_side { order.source(plan) } else { order.target(plan) };
        let made = place.run(&order);
        assert_eq!(made.summary.fatal, None);
        assert_eq!(made.failed_paths(), [b"b"]);
        assert!(place.target().join("a").exists() && place.target().join("c").exists());
    }
}
