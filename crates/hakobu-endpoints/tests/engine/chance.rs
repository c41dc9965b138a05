//! Tests with many runs and many faults at once, all derived from a seed.

use hakobu_core::error::ErrorKind;
use hakobu_testkit::faults::OperationKind::{self, *};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan};

use crate::bench::{Order, Place};
use crate::tree::{Numbers, small};
use crate::view::{assert_honest, assert_same};

const MILD: [ErrorKind; 7] = [
    ErrorKind::PermissionDenied,
    ErrorKind::Io,
    ErrorKind::NotFound,
    ErrorKind::Conflict,
    ErrorKind::Corrupt,
    ErrorKind::SourceChanged,
    ErrorKind::SourceVanished,
];

/// Returns faults that affect any of these operations.
fn plan(numbers: &mut Numbers, operations: &[OperationKind], grave: bool) -> FaultPlan {
    let mut plan = FaultPlan::new(numbers.next()).reorder(*numbers.one_of(&[0, 1, 12, 100]));
    plan = plan.full_queue(*numbers.one_of(&[0, 50, 500]));
    for _ in 0..1 + numbers.below(4) {
        let kind = *numbers.one_of(&MILD);
        let faults = [
            FaultEffect::Error(kind),
            FaultEffect::Error(kind),
            FaultEffect::Unheard(kind),
            FaultEffect::OneEntry(kind),
        ];
        let fault = numbers.one_of(&faults).clone();
        let when = FaultCondition::PerMille(*numbers.one_of(&[5, 40, 200, 600]));
        let operation = *numbers.one_of(operations);
        let fault = if operation == Read && numbers.below(3) == 0 { FaultEffect::ShortRead } else { fault };
        plan = plan.on(operation, when, fault);
    }
    if grave {
        let nth = FaultCondition::Nth(1 + numbers.below(120) as u64);
        let fault = match numbers.below(3) {
            0 => FaultEffect::LaneLost,
            _ => FaultEffect::Error(*numbers.one_of(&[
                ErrorKind::NoSpace,
                ErrorKind::TimedOut,
                ErrorKind::Protocol,
            ])),
        };
        plan = plan.on_any(nth, fault);
    }
    plan
}

fn one(seed: u64) {
    let numbers = &mut Numbers(seed);
    let place = Place::new();
    small(&place.source(), numbers.next());
    if seed.is_multiple_of(3) {
        // A part of the tree already exists.
        let plan = FaultPlan::new(seed).on_any(FaultCondition::Nth(30), FaultEffect::LaneLost);
        place.run(&Order::contents(1).target(plan));
    }
    let before = place.target_view();
    let grave = seed % 4 == 3;
    let mut order = Order::contents(*numbers.one_of(&[1, 2, 3, 5]))
        .source(plan(numbers, &[List, Fetch, Read, Open, Confirm], false))
        .target(plan(numbers, &[List, Store, Begin, Write, Clone, Finish, Apply], grave));
    order.remote = numbers.below(2) == 0;
    order.job.clone = numbers.below(2) == 0;
    order.job.digest = numbers.below(2) == 0;
    if numbers.below(4) == 0 {
        order.target = order.target.clones();
    }
    let made = place.run(&order);
    if !grave {
        assert_eq!(made.summary.fatal, None);
    }
    let source = place.source_view();
    assert_honest(&source, &before, &place.target_view(), &made);
    let again = place.run(&Order::contents(2));
    assert_eq!(again.summary.fatal, None);
    assert_same(&source.copied(), &place.target_view());
    let third = place.run(&Order::contents(2));
    assert!(third.writes().is_empty());
}

#[test]
fn whatever_fails_the_run_ends_and_tells_the_truth() {
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || {
                for seed in (half..70).step_by(2) {
                    let result = std::panic::catch_unwind(|| one(seed));
                    assert!(result.is_ok(), "with seed {seed}");
                }
            });
        }
    });
}
