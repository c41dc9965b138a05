//! Cases about drafts on disk, and about devices, which are written in place.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hakobu_core::endpoint::{DraftKind, DraftParameters, TargetOp};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::grant::Grant;
use hakobu_core::path::is_draft_name;

use super::direct_access::{check, names, settles_to};
use crate::conformance::bench::*;
use crate::conformance::case::{ConformanceCase, Requirement};
use crate::conformance::drafts::{abandoned, begin_two, dropped, incomplete, oversized, twice};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("a draft on the disk has a draft's name and is private", on_disk),
    ConformanceCase::new("drafts that come to nothing leave no file on the disk", leave_nothing),
    ConformanceCase::new("null, zero and full take content, other devices do not", devices)
        .needs(&[Requirement::SpecialFiles]),
];

fn on_disk(bench: &Workplace<'_>) {
    let root = bench.root();
    fs::write(root.join("file"), "old").unwrap();
    let target = bench.target();
    let mut lane = lane(&*target);
    begin_two(&mut *lane);
    assert_eq!(fs::read(root.join("file")).unwrap(), b"old");
    assert!(!root.join("fresh").exists());
    for name in names(root).iter().filter(|name| *name != b"file") {
        assert!(is_draft_name(name), "{name:?}");
        let draft = fs::metadata(root.join(str::from_utf8(name).unwrap())).unwrap();
        assert_eq!(draft.mode() & 0o777, 0o600);
    }
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    finish(&mut *lane, 2, attributes(0o644)).unwrap();
    assert_eq!(names(root), [&b"file"[..], b"fresh"]);
    for name in ["file", "fresh"] {
        assert_eq!(fs::read(root.join(name)).unwrap(), b"new");
        check(bench, name, &attributes(0o644));
    }
}

fn leave_nothing(bench: &Workplace<'_>) {
    for scenario in [dropped, incomplete, oversized, twice] {
        scenario(bench);
        settles_to(bench.root(), &[]);
    }
    abandoned(bench);
    settles_to(bench.root(), &[b"file"]);
}

fn devices(bench: &Workplace<'_>) {
    let place = bench.over(Path::new("/dev"));
    let open = |name: &str| {
        let target = place.target(Grant::everything());
        let mut lane = lane(&*target);
        let begin =
            DraftParameters { kind: DraftKind::Sink, ..DraftParameters::file(path(name), PIECE_BYTES) };
        let begin = TargetOp::Begin { draft: 1, begin, attributes: None };
        ask(&mut *lane, begin)?;
        write(&mut *lane, 1, PIECE_BYTES, 0, &content(PIECE_BYTES))?;
        finish(&mut *lane, 1, attributes(0o644))
    };
    let before = fs::metadata("/dev/null").unwrap();
    open("null").unwrap();
    open("zero").unwrap();
    let after = fs::metadata("/dev/null").unwrap();
    assert_eq!((before.mode(), before.rdev(), before.ino()), (after.mode(), after.rdev(), after.ino()));
    assert_eq!(kind(open("full")), ErrorKind::NoSpace);
    assert_eq!(kind(open("urandom")), ErrorKind::Refused);
    assert_eq!(kind(open("hakobu-has-no-such-device")), ErrorKind::NotFound);
}
