//! Tests with a remote target: many operations are requested at once, and are answered in any order.

use std::collections::HashSet;
use std::fs;

use hakobu_testkit::faults::{FaultPlan, OperationKind};

use crate::bench::{Made, Order, Place};
use crate::tree::{Numbers, everything, small, write};
use crate::view::{assert_honest, assert_same};

#[test]
fn a_target_far_away_gets_the_same() {
    for lanes in [1, 2, 5] {
        let place = Place::new();
        everything(&place.source(), 90);
        // Entries to compare with on every level.
        let source = place.source();
        for index in 0..20 {
            let inner = place.target().join(format!("many/directory-{index}/inner"));
            fs::create_dir_all(inner.join("innermost/only")).unwrap();
            fs::copy(
                source.join(format!("many/directory-{index}/inner/innermost/file")),
                inner.join("innermost/file"),
            )
            .unwrap();
        }
        let near = Place::new();
        let mut copy = std::process::Command::new("cp");
        copy.arg("-a").arg(place.target().join(".")).arg(near.target());
        assert!(copy.status().unwrap().success());
        let far_plan = FaultPlan::new(u64::from(lanes)).reorder(40).full_queue(200);
        let far = place.run(&Order::contents(lanes).remote().target(far_plan));
        let here = near.run_from(&source, &Order::contents(lanes));
        assert_eq!(far.summary.fatal, None);
        assert_eq!(far.failed_paths(), here.failed_paths());
        assert_same(&near.target_view(), &place.target_view());
        let figures = |made: &Made| {
            let it = &made.summary.counters;
            let entries = [it.entries_scanned, it.entries_created, it.entries_updated, it.entries_unchanged];
            (entries, it.entries_attributes_only, it.entries_only_in_target, it.target_written_bytes)
        };
        assert_eq!(figures(&far), figures(&here));
    }
}

/// Depth costs no round trips: listings that the target sends along are used on all levels.
#[test]
fn listings_that_were_sent_along_are_not_asked_for_again() {
    let place = Place::new();
    let mut deep = place.source();
    for level in 0..30 {
        deep.push(format!("level-{level}"));
        fs::create_dir(&deep).unwrap();
        write(&deep.join("file"), &mut Numbers(level), 10);
    }
    place.run(&Order::contents(2));
    let made = place.run(&Order::contents(2).remote());
    assert!(made.writes().is_empty());
    let lists = made.target_log.iter().filter(|logged| logged.kind == OperationKind::List).count();
    assert_eq!(lists, 1);
}

/// Every open draft costs the target a descriptor, of which a process has 1024 by default.
#[test]
fn few_drafts_are_open_at_a_time() {
    let place = Place::new();
    for index in 0..700 {
        fs::File::create(place.source().join(format!("file-{index}"))).unwrap().set_len(9 << 20).unwrap();
    }
    let plan = FaultPlan::new(4).late();
    let order = Order::contents(8).remote().job(|job| job.digest = false).target(plan);
    let cancel = order.cancel.clone();
    let made = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        place.run(&order)
    });
    let (mut open, mut most) = (HashSet::new(), 0);
    for logged in &made.target_log {
        match logged.kind {
            OperationKind::Begin => drop(open.insert(logged.draft)),
            OperationKind::Finish | OperationKind::Abandon => drop(open.remove(&logged.draft)),
            _ => {}
        }
        most = most.max(open.len());
    }
    assert!(most > 0 && most <= 512, "{most} drafts were open");
}

#[test]
fn answers_in_any_order_and_a_queue_that_is_full_change_nothing() {
    for seed in 0..12 {
        let place = Place::new();
        small(&place.source(), 80 + seed % 3);
        let before = place.target_view();
        let plan = FaultPlan::new(seed).reorder([2, 30, 190][seed as usize % 3]).full_queue(400);
        let mut order = Order::contents([1, 2, 5][seed as usize / 3 % 3]).target(plan);
        order.remote = seed % 2 == 0;
        order.job.clone = seed % 4 < 2;
        order.job.durable = true;
        let made = place.run(&order);
        assert_eq!(made.summary.fatal, None);
        assert_honest(&place.source_view(), &before, &place.target_view(), &made);
        assert_same(&place.source_view().copied(), &place.target_view());
        assert_eq!(made.count(OperationKind::Barrier), 1);
    }
}
