//! Cases about drafts: invisible until they are complete, and removed if they never are.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::digest::{Digest, piece_value};
use hakobu_core::endpoint::{DraftKind, DraftParameters, TargetLane, TargetOp, TargetOutcome};
use hakobu_core::extent::{CHUNK_BYTES, Extent, PIECE_BYTES};

use super::bench::*;
use super::case::ConformanceCase;
use super::tree_reader::{reader, settles_to};
use super::tree_writer::writer;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("a draft cannot be seen before it is finished", invisible),
    ConformanceCase::new("an abandoned draft leaves nothing", abandoned),
    ConformanceCase::new("an endpoint that is dropped leaves no draft", dropped).of_refusals(),
    ConformanceCase::new("a draft with missing bytes cannot be finished", incomplete).of_refusals(),
    ConformanceCase::new("bytes beyond a draft's size are refused", oversized).of_refusals(),
    ConformanceCase::new("bytes are written once", twice).of_refusals(),
    ConformanceCase::new("a draft that was never begun takes nothing", unknown).of_refusals(),
    ConformanceCase::new("a draft that is kept for a later run cannot be seen", kept_for_later),
    ConformanceCase::new("two lanes write chunks of one draft", two_lanes),
    ConformanceCase::new("many drafts are open at once", many),
    ConformanceCase::new("what is compared has no content beyond its end", compared_beyond_the_end),
];

fn invisible(bench: &Workplace<'_>) {
    writer(bench).file("file", b"old");
    let target = bench.target();
    let mut lane = lane(&*target);
    begin_two(&mut *lane);
    let mut seen = reader(bench);
    assert_eq!(seen.content("file"), b"old");
    assert_eq!(seen.inspect("fresh"), None);
    assert_eq!(seen.names(""), [b"file"], "drafts are not listed");
    assert_eq!(list(&mut *lane, "").unwrap().len(), 1, "drafts are not listed");
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    finish(&mut *lane, 2, attributes(0o644)).unwrap();
    let mut seen = reader(bench);
    assert_eq!((seen.content("file"), seen.content("fresh")), (b"new".to_vec(), b"new".to_vec()));
    settles_to(bench, "", &[b"file", b"fresh"]);
}

/// Writes two drafts, `file` and `fresh`, without finishing them.
pub(super) fn begin_two(lane: &mut dyn TargetLane) {
    begin(lane, 1, "file", 3).unwrap();
    begin(lane, 2, "fresh", 3).unwrap();
    write(lane, 1, 3, 0, b"new").unwrap();
    write(lane, 2, 3, 0, b"new").unwrap();
}

/// Leaves an empty `file` behind.
pub(super) fn abandoned(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    begin(&mut *lane, 1, "file", 3).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    done(&ask(&mut *lane, TargetOp::Abandon { draft: 1, keep: false }).unwrap()).unwrap();
    settles_to(bench, "", &[]);
    assert!(finish(&mut *lane, 1, attributes(0o644)).is_err());
    // The path and the draft number can be used again.
    begin(&mut *lane, 1, "file", 0).unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    assert_eq!(reader(bench).names(""), [b"file"]);
}

/// Leaves nothing behind.
pub(super) fn dropped(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    begin(&mut *lane, 1, "a", 3).unwrap();
    begin(&mut *lane, 2, "b", 0).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    drop(lane);
    drop(target);
    settles_to(bench, "", &[]);
}

/// Leaves nothing behind.
pub(super) fn incomplete(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    let size_bytes = 2 * PIECE_BYTES;
    begin(&mut *lane, 1, "half", size_bytes).unwrap();
    write(&mut *lane, 1, size_bytes, PIECE_BYTES, &content(PIECE_BYTES)).unwrap();
    assert!(finish(&mut *lane, 1, attributes(0o644)).is_err());
    drop(lane);
    drop(target);
    settles_to(bench, "", &[]);
}

/// Leaves nothing behind.
pub(super) fn oversized(bench: &Workplace<'_>) {
    for (offset, length) in [(0, 4), (3, 1), (2, 2), (u64::MAX, 1), (u64::MAX - 1, 4)] {
        let target = bench.target();
        let mut lane = lane(&*target);
        begin(&mut *lane, 1, "file", 3).unwrap();
        assert!(write(&mut *lane, 1, 3, offset, &content(length)).is_err(), "{length} bytes at {offset}");
    }
    assert!(reader(bench).names("").is_empty());
    let target = bench.target();
    assert!(begin(&mut *lane(&*target), 1, "file", u64::MAX).is_err());
    drop(target);
    settles_to(bench, "", &[]);
}

/// Leaves nothing behind.
pub(super) fn twice(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    let size_bytes = 2 * PIECE_BYTES;
    begin(&mut *lane, 1, "file", size_bytes).unwrap();
    write(&mut *lane, 1, size_bytes, 0, &content(PIECE_BYTES)).unwrap();
    assert!(write(&mut *lane, 1, size_bytes, 0, &content(PIECE_BYTES)).is_err());
    drop(lane);
    drop(target);
    settles_to(bench, "", &[]);
}

fn unknown(bench: &Workplace<'_>) {
    let target = bench.target();
    assert!(write(&mut *lane(&*target), 7, 1, 0, b"x").is_err());
    let target = bench.target();
    assert!(finish(&mut *lane(&*target), 7, attributes(0o644)).is_err());
    let target = bench.target();
    let mut lane = lane(&*target);
    begin(&mut *lane, 7, "a", 0).unwrap();
    assert!(begin(&mut *lane, 7, "b", 0).is_err(), "a number is used once at a time");
}

/// Writes one of two chunks of a draft, and keeps it for a later run.
pub(super) fn leave_half(bench: &Workplace<'_>, at: &str) {
    let target = bench.target();
    let mut lane = lane(&*target);
    let (size_bytes, chunk) = (2 * CHUNK_BYTES, Extent { offset: 0, length: CHUNK_BYTES });
    let begin =
        DraftParameters { version: Some(Digest::default()), ..DraftParameters::file(path(at), size_bytes) };
    let begun = ask(&mut *lane, TargetOp::Begin { draft: 1, begin, attributes: None }).unwrap();
    assert!(matches!(begun, TargetOutcome::Begun(_) | TargetOutcome::Done), "{begun:?}");
    let bytes = content(PIECE_BYTES);
    for piece in chunk.pieces() {
        write(&mut *lane, 1, size_bytes, piece.offset, &bytes).unwrap();
    }
    let complete = TargetOp::Complete { draft: 1, extent: chunk, value: None, kept: true };
    done(&ask(&mut *lane, complete).unwrap()).unwrap();
    done(&ask(&mut *lane, TargetOp::Abandon { draft: 1, keep: true }).unwrap()).unwrap();
}

fn kept_for_later(bench: &Workplace<'_>) {
    leave_half(bench, "file");
    let mut seen = reader(bench);
    assert_eq!((seen.inspect("file"), seen.names("")), (None, Vec::new()));
    // Another job writes the file, regardless of the kept draft.
    writer(bench).file("file", b"whole");
    let mut seen = reader(bench);
    assert_eq!((seen.content("file"), seen.names("")), (b"whole".to_vec(), vec![b"file".to_vec()]));
}

fn two_lanes(bench: &Workplace<'_>) {
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
    assert!(reader(bench).content("big") == bytes);
}

fn many(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    for draft in 0..100 {
        begin(&mut *lane, draft, &format!("{draft}"), 1).unwrap();
    }
    for draft in (0..100).rev() {
        write(&mut *lane, draft, 1, 0, &[draft as u8]).unwrap();
        finish(&mut *lane, draft, attributes(0o644)).unwrap();
    }
    let found = reader(bench).contents("");
    assert_eq!(found.len(), 100);
    for (name, bytes) in found {
        assert_eq!(String::from_utf8(name).unwrap(), bytes[0].to_string());
    }
}

fn compared_beyond_the_end(bench: &Workplace<'_>) {
    let size_bytes = 2 * CHUNK_BYTES + 1;
    let bytes = content(size_bytes);
    let of = |piece: Extent| &bytes[piece.offset as usize..piece.end() as usize];
    for there in [0, 1, PIECE_BYTES + 5, CHUNK_BYTES] {
        writer(bench).file("file", of(Extent { offset: 0, length: there }));
        let target = bench.target();
        let mut lane = lane(&*target);
        let kind = DraftKind::Compare;
        let begin = DraftParameters { kind, ..DraftParameters::file(path("file"), size_bytes) };
        let begun = ask(&mut *lane, TargetOp::Begin { draft: 1, begin, attributes: None }).unwrap();
        assert!(matches!(begun, TargetOutcome::Begun(_) | TargetOutcome::Done), "{begun:?}");
        for offset in [0, CHUNK_BYTES, 2 * CHUNK_BYTES] {
            let extent = Extent { offset, length: CHUNK_BYTES.min(size_bytes - offset) };
            let told = ask(&mut *lane, TargetOp::HashRange { draft: 1, extent, blocks: false }).unwrap();
            let TargetOutcome::Hashes(values) = told else { panic!("{told:?}") };
            assert_eq!(values.len(), extent.pieces().count(), "{there} bytes, from {offset}");
            for (piece, value) in extent.pieces().zip(values) {
                let is_equal = value == piece_value(size_bytes, piece.offset, of(piece));
                assert_eq!(is_equal, piece.end() <= there, "{there} bytes, at {}", piece.offset);
            }
        }
        done(&ask(&mut *lane, TargetOp::Abandon { draft: 1, keep: false }).unwrap()).unwrap();
    }
}
