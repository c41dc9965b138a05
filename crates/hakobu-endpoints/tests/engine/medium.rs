//! Tests with bits that change at the target between writing and reading back.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hakobu_core::digest::hex;
use hakobu_core::endpoint::DraftKind;
use hakobu_core::error::ErrorKind;
use hakobu_core::event::Event;
use hakobu_core::extent::CHUNK_BYTES;
use hakobu_core::job::Mode;
use hakobu_testkit::faults::OperationKind::Complete;
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan};

use crate::bench::{Made, Order, Place};
use crate::view::drafts;

const SIZE_BYTES: u64 = 3 * CHUNK_BYTES + 1000;

fn content() -> Vec<u8> {
    let mut content = vec![0; SIZE_BYTES as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    // A hole, which is read back as well.
    content[CHUNK_BYTES as usize + 300_000..2 * CHUNK_BYTES as usize].fill(0);
    content
}

/// Copies one file and reads it back. `flip` is called when the chunks selected by `when` are complete.
fn copy(place: &Place, mode: Mode, when: FaultCondition, flip: impl Fn() + Send + Sync + 'static) -> Made {
    fs::write(place.source().join("file"), content()).unwrap();
    let plan = FaultPlan::new(1).on(Complete, when, FaultEffect::Call(Arc::new(flip)));
    let order = Order::items(1, &[("file", "file")]).target(plan).job(|job| {
        (job.clone, job.verify_medium, job.mode) = (false, true, mode);
        if mode == Mode::Delta {
            job.items[0].place = DraftKind::InPlace;
        }
    });
    place.run(&order)
}

/// Flips a bit in the file that is being written.
fn flip(path: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    // Zeros at the end may not exist yet.
    let _ = file.read_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

fn draft(target: &Path) -> PathBuf {
    let mut drafts = drafts(target);
    assert_eq!(drafts.len(), 1);
    drafts.remove(0)
}

fn rewritten(made: &Made) -> usize {
    let said =
        |event: &&Event| matches!(event, Event::Notice { words } if words.contains("writing them again"));
    made.events.iter().filter(said).count()
}

#[test]
fn a_bit_that_flips_is_written_again() {
    // In data, in zeros, and in the last, short chunk.
    for (nth, offset) in [(1, 5), (2, CHUNK_BYTES + 700_000), (4, SIZE_BYTES - 1)] {
        let place = Place::new();
        let target = place.target();
        let made = copy(&place, Mode::Copy, FaultCondition::Nth(nth), move || flip(&draft(&target), offset));
        assert!(made.summary.fatal.is_none() && made.failed_paths().is_empty(), "{:?}", made.summary);
        assert_eq!(rewritten(&made), 1, "{nth}");
        assert!(fs::read(place.target().join("file")).unwrap() == content(), "{nth}");
        // Data that was read twice is the same, and counts once.
        let digest = made.summary.digest.map(|digest| hex(&digest));
        assert_eq!(digest, Some(blake3::hash(&content()).to_hex().to_string()), "{nth}");
    }
}

#[test]
fn a_bit_that_flips_in_place_is_written_again() {
    let place = Place::new();
    let (file, mut older) = (place.target().join("file"), content());
    older[..CHUNK_BYTES as usize].fill(1);
    fs::write(&file, &older).unwrap();
    let flipped = file.clone();
    let made = copy(&place, Mode::Delta, FaultCondition::Nth(1), move || flip(&flipped, 5));
    assert!(made.summary.fatal.is_none() && made.failed_paths().is_empty(), "{:?}", made.summary);
    assert_eq!(rewritten(&made), 1);
    assert!(fs::read(file).unwrap() == content());
    assert!(made.summary.digest.is_some());
}

#[test]
fn a_source_that_changes_meanwhile_has_no_digest() {
    let place = Place::new();
    let (target, source) = (place.target(), place.source().join("file"));
    let made = copy(&place, Mode::Copy, FaultCondition::Nth(1), move || {
        flip(&draft(&target), 5);
        // With its old time it still is the same version.
        let time = fs::metadata(&source).unwrap().modified().unwrap();
        flip(&source, 9);
        File::options().write(true).open(&source).unwrap().set_modified(time).unwrap();
    });
    let changed = made.summary.failures.iter().all(|failure| failure.error.is_source_change());
    assert!(made.summary.digest.is_none() && changed, "{:?}", made.summary);
}

#[test]
fn a_medium_that_never_keeps_it_is_given_up() {
    let place = Place::new();
    let target = place.target();
    let made = copy(&place, Mode::Copy, FaultCondition::Always, move || {
        // An abandoned draft has been removed.
        if let Some(draft) = drafts(&target).first() {
            flip(draft, 5);
        }
    });
    assert_eq!(made.failed_paths(), [b"file"]);
    assert_eq!(made.summary.failures[0].error.kind, ErrorKind::Corrupt);
    assert_eq!(rewritten(&made), 2);
    assert!(!place.target().join("file").exists());
}
