//! Tests of resuming the copy of a failing disk.

use std::fs;
use std::path::Path;

use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{CHUNK_BYTES, JOURNALED_FROM_BYTES};
use hakobu_testkit::devices::LoopDevice;
use hakobu_testkit::faults::OperationKind::{Read, Write};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan};
use hakobu_testkit::sshd::no_root;

use crate::bench::{Order, Place};
use crate::view::drafts;

/// Some chunks are read again, to check that the disk is the same. A chunk that has become unreadable was already
/// copied, and is no reason to start over or to give up.
#[test]
fn what_cannot_be_read_any_more_has_been_brought_over() {
    if no_root() {
        return;
    }
    let size_bytes = JOURNALED_FROM_BYTES + 4 * CHUNK_BYTES;
    let disk = LoopDevice::new(size_bytes).unwrap();
    let mut content = vec![0; size_bytes as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    fs::write(disk.file(), &content).unwrap();
    let name = disk.name();
    for tolerant in [false, true] {
        let place = Place::new();
        let copy = |source: FaultPlan, target: FaultPlan| {
            let order = Order::items(1, &[(&name, "image")]).source(source).target(target);
            let order = order.job(|job| (job.clone, job.skip_unreadable) = (false, tolerant));
            place.run_leaving(Path::new("/dev"), &order)
        };
        let cut = FaultPlan::new(1).on(Write, FaultCondition::Nth(150), FaultEffect::LaneLost);
        assert_eq!(copy(FaultPlan::new(1), cut).summary.fatal.unwrap().kind, ErrorKind::ConnectionLost);
        assert_eq!(drafts(&place.target()).len(), 2, "a draft and its journal");
        let unreadable =
            FaultPlan::new(1).on(Read, FaultCondition::Nth(3), FaultEffect::Error(ErrorKind::Io));
        let made = copy(unreadable, FaultPlan::new(1));
        assert!(made.summary.fatal.is_none() && made.failed_paths().is_empty(), "{:?}", made.summary);
        assert!(made.summary.counters.bytes_resumed > 0);
        assert!(fs::read(place.target().join("image")).unwrap() == content);
        assert!(drafts(&place.target()).is_empty());
        // Elsewhere it is a reason.
        fs::remove_file(place.target().join("image")).unwrap();
        let unreadable =
            FaultPlan::new(1).on(Read, FaultCondition::Nth(3), FaultEffect::Error(ErrorKind::Io));
        assert_eq!(copy(unreadable, FaultPlan::new(1)).failed_paths(), [name.as_bytes()]);
    }
}
