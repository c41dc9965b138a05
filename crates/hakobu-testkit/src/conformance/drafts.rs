//! Drafts: invisible until they are complete, and gone if they never are.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hakobu_core::endpoint::{Begin, DraftKind, TargetOp};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::grant::Grant;
use hakobu_core::path::is_draft_name;

use super::bench::*;
use super::case::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("a draft cannot be seen before it is finished", invisible),
    Case::new("an abandoned draft leaves nothing", abandoned),
    Case::new("an endpoint that is dropped leaves no draft", dropped),
    Case::new("a draft with missing bytes cannot be finished", incomplete),
    Case::new("bytes beyond a draft's size are refused", oversized),
    Case::new("bytes are written once", twice),
    Case::new("a draft that was never begun takes nothing", unknown),
    Case::new("two lanes write chunks of one draft", two_lanes),
    Case::new("many drafts are open at once", many),
    Case::new("null, zero and full take content, other devices do not", devices),
];

fn invisible(bench: &Bench<'_>) {
    let target = bench.target();
    fs::write(target.root.join("file"), "old").unwrap();
    let mut lane = lane(&target);
    begin(&mut *lane, 1, "file", 3).unwrap();
    begin(&mut *lane, 2, "fresh", 3).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    write(&mut *lane, 2, 3, 0, b"new").unwrap();
    assert_eq!(fs::read(target.root.join("file")).unwrap(), b"old");
    assert!(!target.root.join("fresh").exists());
    for name in names(&target.root).iter().filter(|name| *name != b"file") {
        assert!(is_draft_name(name), "{name:?}");
        let draft = fs::metadata(target.root.join(str::from_utf8(name).unwrap())).unwrap();
        assert_eq!(draft.mode() & 0o777, 0o600);
    }
    assert_eq!(list(&mut *lane, "").unwrap().len(), 1, "drafts are not listed");
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    finish(&mut *lane, 2, attributes(0o644)).unwrap();
    assert_eq!(fs::read(target.root.join("file")).unwrap(), b"new");
    assert_eq!(names(&target.root), [&b"file"[..], b"fresh"]);
}

fn abandoned(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    begin(&mut *lane, 1, "file", 3).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    done(&ask(&mut *lane, TargetOp::Abandon { draft: 1, keep: false }).unwrap()).unwrap();
    settles_to(&target.root, &[]);
    assert!(finish(&mut *lane, 1, attributes(0o644)).is_err());
    // The path and the number are free again.
    begin(&mut *lane, 1, "file", 0).unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    assert_eq!(names(&target.root), [b"file"]);
}

fn dropped(bench: &Bench<'_>) {
    let target = bench.target();
    let root = target.root.clone();
    let mut lane = lane(&target);
    begin(&mut *lane, 1, "a", 3).unwrap();
    begin(&mut *lane, 2, "b", 0).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    drop(lane);
    drop(target);
    settles_to(&root, &[]);
}

fn incomplete(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    let size_bytes = 2 * PIECE_BYTES;
    begin(&mut *lane, 1, "half", size_bytes).unwrap();
    write(&mut *lane, 1, size_bytes, PIECE_BYTES, &content(PIECE_BYTES)).unwrap();
    assert!(finish(&mut *lane, 1, attributes(0o644)).is_err());
    drop(lane);
    let root = target.root.clone();
    drop(target);
    settles_to(&root, &[]);
}

fn oversized(bench: &Bench<'_>) {
    for (offset, length) in [(0, 4), (3, 1), (2, 2), (u64::MAX, 1), (u64::MAX - 1, 4)] {
        let target = bench.target();
        let mut lane = lane(&target);
        begin(&mut *lane, 1, "file", 3).unwrap();
        assert!(write(&mut *lane, 1, 3, offset, &content(length)).is_err(), "{length} bytes at {offset}");
    }
    assert!(names(&bench.directory("target")).iter().all(|name| is_draft_name(name)));
    let target = bench.target();
    assert!(begin(&mut *lane(&target), 1, "file", u64::MAX).is_err());
}

fn twice(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    let size_bytes = 2 * PIECE_BYTES;
    begin(&mut *lane, 1, "file", size_bytes).unwrap();
    write(&mut *lane, 1, size_bytes, 0, &content(PIECE_BYTES)).unwrap();
    assert!(write(&mut *lane, 1, size_bytes, 0, &content(PIECE_BYTES)).is_err());
    drop(lane);
    let root = target.root.clone();
    drop(target);
    settles_to(&root, &[]);
}

fn unknown(bench: &Bench<'_>) {
    let target = bench.target();
    assert!(write(&mut *lane(&target), 7, 1, 0, b"x").is_err());
    let target = bench.target();
    assert!(finish(&mut *lane(&target), 7, attributes(0o644)).is_err());
    let target = bench.target();
    let mut lane = lane(&target);
    begin(&mut *lane, 7, "a", 0).unwrap();
    assert!(begin(&mut *lane, 7, "b", 0).is_err(), "a number is used once at a time");
}

fn two_lanes(bench: &Bench<'_>) {
    let target = bench.target();
    let size_bytes = 40 * PIECE_BYTES + 123;
    let bytes = content(size_bytes);
    let mut first = target.open_target_lane(0).unwrap();
    begin(&mut *first, 9, "big", size_bytes).unwrap();
    std::thread::scope(|scope| {
        let (target, bytes) = (&target, &bytes);
        for number in 0..2 {
            scope.spawn(move || {
                let mut lane = target.open_target_lane(number).unwrap();
                for (index, piece) in bytes.chunks(PIECE_BYTES as usize).enumerate().skip(number).step_by(2) {
                    write(&mut *lane, 9, size_bytes, index as u64 * PIECE_BYTES, piece).unwrap();
                }
            });
        }
    });
    finish(&mut *first, 9, attributes(0o644)).unwrap();
    assert!(fs::read(target.root.join("big")).unwrap() == bytes);
}

fn many(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    for draft in 0..100 {
        begin(&mut *lane, draft, &format!("{draft}"), 1).unwrap();
    }
    for draft in (0..100).rev() {
        write(&mut *lane, draft, 1, 0, &[draft as u8]).unwrap();
        finish(&mut *lane, draft, attributes(0o644)).unwrap();
    }
    assert_eq!(names(&target.root).len(), 100);
    assert_eq!(fs::read(target.root.join("42")).unwrap(), [42]);
}

fn devices(bench: &Bench<'_>) {
    if !bench.target().capabilities().special_files {
        return;
    }
    let open = |name: &str| {
        let target = bench.target_at(Path::new("/dev"), Grant::everything());
        let mut lane = lane(&target);
        let begin = Begin { kind: DraftKind::Sink, ..Begin::file(path(name), PIECE_BYTES) };
        let begin = TargetOp::Begin { draft: 1, begin };
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
