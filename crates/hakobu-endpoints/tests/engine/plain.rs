//! Tests without faults: the target becomes equal to the source, and the counters agree.

use std::fs;

use hakobu_testkit::faults::{FaultPlan, OperationKind};

use crate::bench::{Made, Order, Place};
use crate::tree::{Numbers, everything, small, write};
use crate::view::{Sums, What, assert_same};

const LANES: [u16; 3] = [1, 2, 5];

pub fn assert_whole(made: &Made, failed: &[&[u8]]) {
    assert_eq!(made.summary.fatal, None);
    assert_eq!(made.failed_paths(), failed);
    let sums = Sums::of(made);
    assert_eq!(sums.scanned, sums.told);
}

#[test]
fn the_target_becomes_the_source() {
    let place = Place::new();
    everything(&place.source(), 7);
    let view = place.source_view();
    for lanes in LANES {
        fs::remove_dir_all(place.target()).unwrap();
        fs::create_dir(place.target()).unwrap();
        let made = place.run(&Order::contents(lanes));
        assert_whole(&made, &[]);
        assert_same(&view.clone().copied(), &place.target_view());
        let it = &made.summary.counters;
        assert_eq!(it.entries_scanned, view.0.len() as u64);
        assert_eq!((it.entries_skipped, it.entries_failed), (1, 0));
        // The target itself existed with other permissions.
        assert_eq!((it.entries_created, it.entries_attributes_only), (it.entries_scanned - 2, 1));
        assert_eq!((it.entries_updated, it.entries_unchanged, it.entries_only_in_target), (0, 0, 0));
        for bytes in [it.bytes_scanned, it.source_read_bytes, it.target_written_bytes] {
            assert_eq!(bytes, view.bytes());
        }
        assert_eq!(made.summary.lanes, lanes);
        assert!(it.scan_done);
    }
}

#[test]
fn a_second_run_changes_nothing() {
    let place = Place::new();
    everything(&place.source(), 8);
    for lanes in LANES {
        for remote in [false, true] {
            place.run(&Order::contents(lanes));
            let before = place.target_view();
            let mut order = Order::contents(lanes);
            order.remote = remote;
            let made = place.run(&order);
            assert_whole(&made, &[]);
            assert!(made.writes().is_empty(), "{:?}", made.writes());
            assert_eq!(made.count(OperationKind::Extended), 0, "what is equal is not opened");
            assert_same(&before, &place.target_view());
            let it = &made.summary.counters;
            assert_eq!(it.entries_unchanged, it.entries_scanned - 1);
            assert_eq!((it.source_read_bytes, it.target_written_bytes), (0, 0));
            assert_eq!(it.bytes_unchanged, it.bytes_scanned);
        }
    }
}

#[test]
fn changes_are_brought_over_and_nothing_else() {
    for lanes in LANES {
        let place = Place::new();
        small(&place.source(), 40 + u64::from(lanes));
        place.run(&Order::contents(lanes));
        let (source, numbers) = (place.source(), &mut Numbers(3));
        for name in ["one", "two"] {
            fs::create_dir(source.join(name)).unwrap();
        }
        write(&source.join("one/new"), numbers, 400);
        fs::remove_file(source.join("link-to-nothing")).unwrap();
        write(&source.join("link-to-nothing"), numbers, 5_000_000);
        crate::tree::dress(&source.join("link-far-away"), numbers);
        fs::create_dir(place.target().join("only")).unwrap();
        write(&place.target().join("only/below"), numbers, 9);
        write(&place.target().join("only-too"), numbers, 9);
        let made = place.run(&Order::contents(lanes));
        assert_whole(&made, &[]);
        let it = &made.summary.counters;
        assert_eq!(it.entries_only_in_target, 2);
        assert_eq!((it.entries_created, it.entries_updated), (3, 2));
        assert_eq!(it.source_read_bytes, 5_000_400);
        let mut target = place.target_view();
        target.0.retain(|path, _| !path.starts_with(b"only"));
        assert_same(&place.source_view().copied(), &target);
    }
}

#[test]
fn attributes_alone_are_set_without_reading() {
    let place = Place::new();
    small(&place.source(), 11);
    place.run(&Order::contents(2));
    let mut changed = 0;
    let numbers = &mut Numbers(5);
    for (path, entry) in &place.source_view().copied().0 {
        let is_file = matches!(entry.what, What::File { .. });
        if is_file {
            use std::os::unix::ffi::OsStrExt;
            let path = place.source().join(std::ffi::OsStr::from_bytes(path));
            use std::os::unix::fs::PermissionsExt;
            let mode = 0o640 + (entry.mode & 1) + numbers.below(1) as u32;
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            changed += 1;
        }
    }
    let made = place.run(&Order::contents(2));
    assert_whole(&made, &[]);
    assert_eq!(made.summary.counters.entries_attributes_only, changed);
    assert_eq!(made.summary.counters.source_read_bytes, 0);
    assert_same(&place.source_view().copied(), &place.target_view());
}

#[test]
fn the_digest_of_a_single_file_is_the_standard_one() {
    let place = Place::new();
    for (index, size) in [0, 1, 1 << 18, (1 << 18) + 1, 9_000_001].into_iter().enumerate() {
        let bytes = crate::tree::content(&mut Numbers(index as u64), size);
        fs::write(place.source().join("file"), &bytes).unwrap();
        for lanes in LANES {
            let made = place.run(&Order::items(lanes, &[("file", "other-name")]));
            assert_whole(&made, &[]);
            assert_eq!(made.summary.digest, Some(*blake3::hash(&bytes).as_bytes()));
            assert_eq!(made.summary.counters.target_written_bytes, size as u64);
            assert!(fs::read(place.target().join("other-name")).unwrap() == bytes);
            fs::remove_file(place.target().join("other-name")).unwrap();
        }
    }
}

#[test]
fn blocks_that_can_be_shared_are_not_read() {
    for lanes in LANES {
        for order in [FaultPlan::new(3).clones(), FaultPlan::new(3).clones().reorder(9).full_queue(300)] {
            let place = Place::new();
            small(&place.source(), 60);
            let made = place.run(&Order::contents(lanes).target(order));
            assert_whole(&made, &[]);
            assert_same(&place.source_view().copied(), &place.target_view());
            let it = &made.summary.counters;
            assert!(it.cloned_bytes > 0 && made.count(OperationKind::Read) == 0);
            assert_eq!(it.cloned_bytes + it.source_read_bytes, it.bytes_scanned);
            assert_eq!(it.target_written_bytes, it.bytes_scanned);
        }
    }
}

#[test]
fn digests_are_taken_where_somebody_looks_at_them() {
    let place = Place::new();
    write(&place.source().join("file"), &mut Numbers(5), 9 << 20);
    let taken = |made: &Made| made.target_log.iter().filter(|logged| logged.has_digest).count();
    let in_a_tree = place.run(&Order::contents(2));
    assert_whole(&in_a_tree, &[]);
    assert_eq!((taken(&in_a_tree), in_a_tree.count(OperationKind::Write)), (0, 36));
    let named = place.run(&Order::items(2, &[("file", "named")]));
    assert_whole(&named, &[]);
    assert!(named.summary.digest.is_some() && taken(&named) == 36);
}
