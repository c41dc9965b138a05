//! Tests with large files whose content moved: data that the old version has elsewhere is not sent.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{CHUNK_BYTES, PIECE_BYTES};
use hakobu_core::job::{Mode, Update};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan, OperationKind};

use crate::bench::{Made, Order, Place};
use crate::tree::{Numbers, content};
use crate::view::assert_same;

const PIECE: usize = PIECE_BYTES as usize;
const CHUNK: usize = CHUNK_BYTES as usize;
/// The block size for files as small as these.
const BLOCK: u64 = 4096;

fn order(lanes: u16, plan: FaultPlan) -> Order {
    let order = Order::contents(lanes).remote().target(plan.reorder(40));
    order.job(|job| {
        job.mode = Mode::Delta;
        (job.update, job.blocks, job.clone) = (Update::Changes, true, false);
    })
}

fn put(place: &Place, old: &[u8], new: &[u8]) {
    let target = place.target().join("file");
    fs::write(&target, old).unwrap();
    set_age(&target);
    fs::write(place.source().join("file"), new).unwrap();
}

fn set_age(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
}

fn run(place: &Place, order: &Order) -> Made {
    let made = place.run(order);
    assert!(made.summary.fatal.is_none() && made.failed_paths().is_empty(), "{:?}", made.summary);
    assert_same(&place.source_view().copied(), &place.target_view());
    made
}

/// Returns the number of bytes that were sent for the new content.
fn travelled(old: &[u8], new: &[u8], lanes: u16) -> u64 {
    let place = Place::new();
    put(&place, old, new);
    let made = run(&place, &order(lanes, FaultPlan::new(u64::from(lanes))));
    assert!(fs::read(place.target().join("file")).unwrap() == new);
    assert_eq!(made.summary.counters.entries_updated, 1);
    made.summary.counters.target_written_bytes
}

#[track_caller]
fn assert_at_most(bytes: u64, most: u64) {
    assert!(bytes <= most, "{bytes} bytes, at most {most} were expected");
}

#[test]
fn what_moved_does_not_travel() {
    let old = content(&mut Numbers(1), 5 * CHUNK + 3 * PIECE + 12_345);
    let middle = 2 * CHUNK + 1000;
    let more = content(&mut Numbers(2), 777);
    for lanes in [1, 3] {
        // One byte more at the beginning: costs that byte, and the rest of the old file's last block.
        let shifted = [b"x", &old[..]].concat();
        assert_at_most(travelled(&old, &shifted, lanes), 2 * BLOCK);
        // A few bytes less.
        assert_at_most(travelled(&old, &old[100..], lanes), 2 * BLOCK);
        // An insertion after an equal part.
        let inserted = [&old[..middle], &more, &old[middle..]].concat();
        assert_at_most(travelled(&old, &inserted, lanes), 777 + 3 * BLOCK);
        // Two parts exchanged, far from their old offsets.
        let exchanged = [&old[middle..], &old[..middle]].concat();
        assert_at_most(travelled(&old, &exchanged, lanes), 3 * BLOCK);
        // A part twice, and zeros, of which those in a piece with other data are sent.
        let twice = [&old[..middle], &vec![0; CHUNK], &old[1000..], &old[..middle]].concat();
        assert_at_most(travelled(&old, &twice, lanes), PIECE_BYTES + 4 * BLOCK);
    }
}

/// For a small part of the file, not all of the old one is read.
#[test]
fn a_small_part_is_not_looked_for() {
    let old = content(&mut Numbers(3), 40 * CHUNK);
    let mut new = old.clone();
    // 8 MiB of 160 repeat the beginning of the file.
    new[9 * CHUNK..11 * CHUNK].copy_from_slice(&old[..2 * CHUNK]);
    assert_eq!(travelled(&old, &new, 2), 2 * CHUNK_BYTES);
    // If the whole file is that new, all of it is searched for, and not found.
    let other = content(&mut Numbers(4), 5 * CHUNK + 99);
    assert_eq!(travelled(&old[..5 * CHUNK], &other, 2), other.len() as u64);
}

#[test]
fn whatever_moved_the_new_file_is_right() {
    let mut numbers = Numbers(12);
    let mut saved = 0;
    for round in 0..40 {
        let old_size = CHUNK + numbers.below(3 * CHUNK);
        let old = content(&mut numbers, old_size);
        let mut new = Vec::new();
        while new.len() < CHUNK {
            let begin = numbers.below(old.len());
            let end = (begin + 1 + numbers.below(2 * CHUNK)).min(old.len());
            match numbers.below(5) {
                0 => new.extend(vec![0; numbers.below(2 * PIECE)]),
                1 => {
                    let size = numbers.below(PIECE);
                    new.extend(content(&mut numbers, size));
                }
                _ => new.extend_from_slice(&old[begin..end]),
            }
        }
        let place = Place::new();
        put(&place, &old, &new);
        let made = run(&place, &order(1 + numbers.below(4) as u16, FaultPlan::new(round)));
        assert!(fs::read(place.target().join("file")).unwrap() == new, "{round}");
        let counters = &made.summary.counters;
        saved += new.len() as u64 - counters.target_written_bytes - counters.zeros_skipped_bytes;
    }
    assert!(saved > 40 * CHUNK_BYTES / 2, "{saved}");
}

/// An old file that changes after it was read causes no wrong content: wrong ranges are sent whole.
#[test]
fn an_old_file_that_changes_meanwhile_does_no_harm() {
    let old = content(&mut Numbers(6), 3 * CHUNK);
    let shifted = [b"x", &old[..]].concat();
    let place = Place::new();
    put(&place, &old, &shifted);
    let target = place.target().join("file");
    let change = FaultEffect::Call(Arc::new(move || fs::write(&target, vec![7; 2 * CHUNK]).unwrap()));
    let plan = FaultPlan::new(3).on(OperationKind::Write, FaultCondition::Nth(1), change);
    let made = run(&place, &order(1, plan));
    assert!(fs::read(place.target().join("file")).unwrap() == shifted);
    assert!(made.summary.counters.target_written_bytes >= 3 * CHUNK_BYTES);
}

/// An error during the run fails its file, or is retried, and nothing waits forever.
#[test]
fn failures_on_the_way_end_the_file_and_nothing_else() {
    let old = content(&mut Numbers(5), 6 * CHUNK);
    let shifted = [b"x", &old[..]].concat();
    let cases = [
        (OperationKind::Sign, 1),
        (OperationKind::Sign, 3),
        (OperationKind::Sign, 9),
        (OperationKind::Write, 1),
        (OperationKind::Complete, 2),
        (OperationKind::Read, 30),
    ];
    for (kind, nth) in cases {
        for lanes in [1, 3] {
            let place = Place::new();
            put(&place, &old, &shifted);
            fs::write(place.source().join("other"), "small").unwrap();
            let fault = FaultEffect::Error(ErrorKind::Io);
            let plan = FaultPlan::new(nth).on(kind, FaultCondition::Nth(nth), fault);
            let made = match kind {
                OperationKind::Read => place.run(&order(lanes, FaultPlan::new(7)).source(plan)),
                _ => place.run(&order(lanes, plan)),
            };
            assert!(made.summary.fatal.is_none(), "{kind:?} {nth}: {:?}", made.summary);
            assert_eq!(made.failed_paths(), [b"file".to_vec()], "{kind:?} {nth} {lanes}");
            assert!(fs::read(place.target().join("file")).unwrap() == old, "{kind:?} {nth}");
            assert_eq!(fs::read(place.target().join("other")).unwrap(), b"small");
            // No leftovers hinder another run.
            run(&place, &order(lanes, FaultPlan::new(1)));
        }
    }
}
