//! Tests with large files of which the target has another version: only differences are written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hakobu_core::extent::{BLOCK_BYTES, CHUNK_BYTES, PIECE_BYTES};
use hakobu_core::job::{Mode, Update};
use hakobu_core::losses::LossKind;
use hakobu_testkit::faults::FaultPlan;

use crate::bench::{Made, Order, Place};
use crate::tree::{Numbers, content};
use crate::view::assert_same;

const BLOCK: usize = BLOCK_BYTES as usize;
const PIECE: usize = PIECE_BYTES as usize;
const CHUNK: usize = CHUNK_BYTES as usize;

/// Returns an order that synchronises trees on separate machines.
fn order(update: Update, lanes: u16, blocks: bool) -> Order {
    let order = Order::contents(lanes).remote().target(FaultPlan::new(u64::from(lanes)).reorder(40));
    order.job(|job| {
        job.mode = Mode::Delta;
        (job.update, job.blocks, job.clone) = (update, blocks, false);
    })
}

fn written(made: &Made) -> u64 {
    assert!(made.summary.fatal.is_none() && made.failed_paths().is_empty(), "{:?}", made.summary);
    made.summary.counters.target_written_bytes
}

/// Creates an old version at the target, with an older time, and a new one at the source.
fn put(place: &Place, old: &[u8], new: &[u8]) {
    fs::write(place.target().join("file"), old).unwrap();
    set_age(&place.target().join("file"));
    fs::write(place.source().join("file"), new).unwrap();
}

/// Returns a directory outside the source and the target.
fn above(place: &Place) -> PathBuf {
    place.target().parent().unwrap().to_owned()
}

fn set_age(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
}

/// Changes an old version so that the cases differ. Returns the new version, and the bytes to write in pieces and in
/// blocks.
fn changed(old: &[u8]) -> (Vec<u8>, u64, u64) {
    let mut new = old.to_vec();
    // One byte; two blocks of one piece; a piece almost whole; one that becomes zeros; a byte of the last, short block.
    new[PIECE + 7] ^= 1;
    new[3 * PIECE] ^= 1;
    new[4 * PIECE - 1] ^= 1;
    new[5 * PIECE + BLOCK..6 * PIECE].iter_mut().for_each(|byte| *byte ^= 0x55);
    new[7 * PIECE..8 * PIECE].fill(0);
    *new.last_mut().unwrap() ^= 1;
    let last_piece = (old.len() % PIECE) as u64;
    let last_block = (old.len() % BLOCK) as u64;
    (new, 3 * PIECE_BYTES + last_piece, 3 * BLOCK_BYTES + PIECE_BYTES + last_block)
}

#[test]
fn only_what_differs_is_written() {
    for update in [Update::Changes, Update::InPlace] {
        for (lanes, blocks) in [(1, false), (3, false), (1, true), (3, true)] {
            let place = Place::new();
            let old = content(&mut Numbers(4), 2 * CHUNK + 3 * PIECE + BLOCK + 100);
            let (new, in_pieces, in_blocks) = changed(&old);
            put(&place, &old, &new);
            let snapshot = above(&place).join("snapshot");
            // A file of several names is not updated in place.
            if update == Update::Changes {
                fs::hard_link(place.target().join("file"), &snapshot).unwrap();
            }
            let inode = fs::metadata(place.target().join("file")).unwrap().ino();
            let made = place.run(&order(update, lanes, blocks));
            // If blocks are searched, the unchanged block of the almost completely changed piece is found as well.
            let found = if blocks && update == Update::Changes { BLOCK_BYTES } else { 0 };
            assert_eq!(
                written(&made) + found,
                if blocks { in_blocks } else { in_pieces },
                "{update:?} {lanes} {blocks}"
            );
            assert_eq!(made.summary.counters.zeros_skipped_bytes, PIECE_BYTES);
            assert_eq!(made.summary.counters.entries_updated, 1);
            assert_same(&place.source_view().copied(), &place.target_view());
            let kept = fs::metadata(place.target().join("file")).unwrap().ino() == inode;
            assert_eq!(kept, update == Update::InPlace);
            assert!(kept || fs::read(&snapshot).unwrap() == old);
            assert!(place.run(&order(update, lanes, blocks)).writes().is_empty());
        }
    }
}

#[test]
fn whatever_the_old_file_was_the_new_one_is_right() {
    let mut numbers = Numbers(11);
    let sizes = [1, BLOCK + 1, PIECE, PIECE + 1, CHUNK - 5, CHUNK + PIECE + 17, 2 * CHUNK];
    for round in 0..60 {
        let old_size = *numbers.one_of(&sizes);
        let mut old = content(&mut numbers, old_size);
        if numbers.below(3) == 0 {
            let begin = numbers.below(old.len());
            old[begin..].fill(0);
        }
        let mut new = old.clone();
        let new_size = *numbers.one_of(&sizes);
        let more = content(&mut numbers, new_size);
        new.extend_from_slice(&more[old.len().min(new_size)..]);
        new.truncate(new_size);
        for _ in 0..numbers.below(6) {
            let begin = numbers.below(new.len());
            let end = (begin + 1 + numbers.below(3 * PIECE)).min(new.len());
            match numbers.below(3) {
                0 => new[begin..end].fill(0),
                1 => new[begin] ^= 1,
                _ => new[begin..end].iter_mut().for_each(|byte| *byte ^= 0xa5),
            }
        }
        let place = Place::new();
        put(&place, &old, &new);
        let update = *numbers.one_of(&[Update::Changes, Update::InPlace]);
        let made = place.run(&order(update, 1 + numbers.below(3) as u16, numbers.below(2) == 0));
        assert!(
            made.summary.fatal.is_none() && made.failed_paths().is_empty(),
            "{round}: {:?}",
            made.summary
        );
        assert!(fs::read(place.target().join("file")).unwrap() == new, "{round}: {old_size} to {new_size}");
        assert_same(&place.source_view().copied(), &place.target_view());
    }
}

/// The target's entry of that name may not be a file.
#[test]
fn what_is_no_file_gives_nothing() {
    let place = Place::new();
    let new = content(&mut Numbers(5), CHUNK + 9);
    fs::write(place.source().join("file"), &new).unwrap();
    fs::write(above(&place).join("elsewhere"), &new).unwrap();
    std::os::unix::fs::symlink("../elsewhere", place.target().join("file")).unwrap();
    let made = place.run(&order(Update::Changes, 2, true));
    assert_eq!(written(&made), new.len() as u64);
    assert_same(&place.source_view().copied(), &place.target_view());
}

/// If almost nothing is equal, the rest is sent without being compared, and the result is right.
#[test]
fn comparing_ends_where_it_does_not_pay() {
    let place = Place::new();
    let size = 140 << 20;
    let (old, new) = (content(&mut Numbers(6), size), content(&mut Numbers(7), size));
    put(&place, &old, &new);
    let made = place.run(&order(Update::Changes, 1, true));
    assert_eq!(written(&made), size as u64);
    // A part was compared, and the whole file was searched for moved data.
    let compared = made.summary.counters.target_read_bytes - size as u64;
    assert!(compared < size as u64 && compared >= 64 << 20, "{compared}");
    assert!(fs::read(place.target().join("file")).unwrap() == new);
}

/// A file of equal content and another time gets the time.
#[test]
fn a_file_that_is_equal_gets_its_time() {
    for update in [Update::Changes, Update::InPlace] {
        let place = Place::new();
        let same = content(&mut Numbers(8), CHUNK + 1);
        put(&place, &same, &same);
        let made = place.run(&order(update, 2, true));
        assert_eq!((written(&made), made.summary.counters.entries_attributes_only), (0, 1));
        assert_same(&place.source_view().copied(), &place.target_view());
        assert!(made.summary.losses.iter().all(|loss| loss.what != LossKind::Holes));
    }
}

/// Small files are also written in place on request.
#[test]
fn small_files_in_place() {
    let place = Place::new();
    for (name, size) in [("one", 1), ("two", 70_000), ("new", 500), ("empty", 0)] {
        fs::write(place.source().join(name), content(&mut Numbers(size as u64), size)).unwrap();
    }
    let old = [("one", 9), ("two", 60_000), ("empty", 5)];
    for (name, size) in old {
        fs::write(place.target().join(name), content(&mut Numbers(3), size)).unwrap();
        set_age(&place.target().join(name));
    }
    let inodes = || ["one", "two"].map(|name| fs::metadata(place.target().join(name)).unwrap().ino());
    let before = inodes();
    let made = place.run(&order(Update::InPlace, 2, false));
    assert_eq!((made.summary.counters.entries_created, made.summary.counters.entries_updated), (1, 3));
    assert_eq!(inodes(), before);
    assert_same(&place.source_view().copied(), &place.target_view());
}

/// Holes at both ends are not read, and ranges that only one end has as a hole are compared.
#[test]
fn holes_of_both_sides_are_not_compared() {
    let sparse = |path: &Path, places: &[(usize, u8)]| {
        use std::os::unix::fs::FileExt;
        let file = fs::File::create(path).unwrap();
        file.set_len((16 * CHUNK + 5) as u64).unwrap();
        for (offset, byte) in places {
            file.write_all_at(&[*byte; BLOCK], *offset as u64).unwrap();
        }
    };
    for lanes in [1, 3] {
        let place = Place::new();
        let (source, target) = (place.source().join("file"), place.target().join("file"));
        sparse(&target, &[(0, 1), (9 * CHUNK, 7)]);
        sparse(&source, &[(0, 2), (5 * CHUNK, 3)]);
        set_age(&target);
        let made = place.run(&order(Update::Changes, lanes, true));
        written(&made);
        assert_same(&place.source_view().copied(), &place.target_view());
        // The first chunk, those in which one end has data, and at most their neighbours.
        let it = &made.summary.counters;
        let few = 0..=6 * CHUNK_BYTES;
        assert!(few.contains(&it.target_read_bytes), "{} read there", it.target_read_bytes);
        assert!(few.contains(&it.source_read_bytes), "{} read here", it.source_read_bytes);
    }
}
