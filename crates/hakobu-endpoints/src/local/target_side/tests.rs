//! Tests of properties that the conformance suite cannot observe.

use std::fs;
use std::path::Path;

use hakobu_core::ErrorKind;
use hakobu_core::content::content_sum;
use hakobu_core::digest::{chunk_value, piece_value};
use hakobu_core::endpoint::{
    CompletionWait, DraftKind, DraftParameters, Earlier, Lane, TargetOp, TargetOutcome,
};
use hakobu_core::entry::{Attributes, FileTime};
use hakobu_core::extent::{CHUNK_BYTES, Extent, JOURNALED_FROM_BYTES, PIECE_BYTES};
use hakobu_core::grant::Grant;
use hakobu_core::pack::{PackBuilder, RecordHead};
use hakobu_core::path::EntryPath;

use super::*;

fn target(root: &Path, plain: bool) -> LocalTarget {
    let options = TargetOptions { job: [3; 32], durable: false, state: None };
    let open = if plain { LocalTarget::open_plain } else { LocalTarget::open };
    open(root, Grant::everything(), options).unwrap()
}

fn attributes() -> Attributes {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Attributes { mode: 0o644, uid, gid, mtime: FileTime::default() }
}

fn ask(lane: &mut LocalTargetLane, operation: TargetOp) -> Result<TargetOutcome> {
    assert!(lane.submit(1, operation).is_ok());
    lane.reap(CompletionWait::Now).unwrap().result
}

fn begin(lane: &mut LocalTargetLane, draft: u64, name: &str, size_bytes: u64) -> Result<TargetOutcome> {
    ask(
        lane,
        TargetOp::Begin {
            draft,
            begin: DraftParameters::file(EntryPath::new(name).unwrap(), size_bytes),
            attributes: None,
        },
    )
}

fn finish(lane: &mut LocalTargetLane, draft: u64) -> Result<TargetOutcome> {
    ask(lane, TargetOp::Finish { draft, attributes: attributes(), extended: None, digest: None })
}

fn pack(directory: &str, name: &str, content: &[u8]) -> TargetOp {
    let mut pack = PackBuilder::default();
    pack.directory(&EntryPath::new(directory).unwrap());
    pack.whole_file(&RecordHead::new(name.as_bytes(), attributes()), content, content_sum(content));
    TargetOp::WritePack { pack: pack.finish(), inodes: Vec::new() }
}

fn assert_stored(outcome: TargetOutcome) {
    let TargetOutcome::PackWritten { failures, losses } = outcome else { panic!("{outcome:?}") };
    assert!(failures.is_empty() && losses.is_empty(), "{failures:?} {losses:?}");
}

#[test]
fn many_fragments_are_written_as_one() {
    let root = tempfile::tempdir().unwrap();
    let target = target(root.path(), false);
    let mut lane = target.lane();
    let bytes: Vec<u8> = (0..1000u32).map(|index| (index % 251) as u8).collect();
    begin(&mut lane, 1, "file", 1000).unwrap();
    let draft = Arc::clone(lane.draft_writer(1).unwrap().draft());
    let fragments: Vec<&[u8]> = bytes[500..].chunks(7).collect();
    draft.write_all_at(500, &fragments).unwrap();
    draft.write_all_at(0, &[&bytes[..500], &[]]).unwrap();
    assert_eq!(draft.missing_bytes(), 0);
    finish(&mut lane, 1).unwrap();
    assert!(fs::read(root.path().join("file")).unwrap() == bytes);
    assert_eq!(draft.write_all_at(0, &[b"late"]).unwrap_err().kind, ErrorKind::NotFound);
    assert!(lane.draft_writer(1).is_err());
}

#[test]
fn bytes_that_failed_their_check_are_written_again() {
    let root = tempfile::tempdir().unwrap();
    let target = target(root.path(), false);
    let mut lane = target.lane();
    begin(&mut lane, 1, "file", 8).unwrap();
    let draft = Arc::clone(lane.draft_writer(1).unwrap().draft());
    draft.write_all_at(0, &[b"abcdWRNG"]).unwrap();
    assert_eq!(draft.write_all_at(4, &[b"efgh"]).unwrap_err().kind, ErrorKind::Protocol);
    draft.write_again(4, 4).unwrap();
    assert!(draft.write_again(4, 4).is_err());
    assert_eq!(draft.missing_bytes(), 4);
    draft.write_all_at(4, &[b"efgh"]).unwrap();
    finish(&mut lane, 1).unwrap();
    assert_eq!(fs::read(root.path().join("file")).unwrap(), b"abcdefgh");
}

#[test]
fn a_write_that_failed_is_remembered() {
    let root = tempfile::tempdir().unwrap();
    let target = LocalTarget::open(
        Path::new("/dev"),
        Grant::everything(),
        target(root.path(), false).shared.options.clone(),
    );
    let target = target.unwrap();
    let mut lane = target.lane();
    let full = EntryPath::new("full").unwrap();
    let begin = DraftParameters { kind: DraftKind::Sink, ..DraftParameters::file(full, 9) };
    ask(&mut lane, TargetOp::Begin { draft: 1, begin, attributes: None }).unwrap();
    let draft = Arc::clone(lane.draft_writer(1).unwrap().draft());
    for _ in 0..2 {
        assert_eq!(draft.write_all_at(0, &[b"x"]).unwrap_err().kind, ErrorKind::NoSpace);
    }
    assert_eq!(finish(&mut lane, 1).unwrap_err().kind, ErrorKind::NoSpace);
}

#[test]
fn one_path_has_one_draft_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    let target = target(root.path(), false);
    let (mut lane, mut other) = (target.lane(), target.lane());
    begin(&mut lane, 1, "file", 0).unwrap();
    assert_eq!(begin(&mut other, 2, "file", 0).unwrap_err().kind, ErrorKind::Conflict);
    finish(&mut other, 1).unwrap();
    begin(&mut other, 2, "file", 0).unwrap();
    drop(target);
    assert_eq!(begin(&mut lane, 3, "more", 0).unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn drafts_are_limited() {
    let root = tempfile::tempdir().unwrap();
    let target = target(root.path(), false);
    for id in 0..drafts::DRAFTS_MAX as u64 {
        target.shared.drafts.reserve(id, &EntryPath::new(format!("{id}")).unwrap(), 1).unwrap();
    }
    assert_eq!(begin(&mut target.lane(), 9999, "more", 0).unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn a_file_with_holes_takes_no_room_from_others() {
    let root = tempfile::tempdir().unwrap();
    let target = target(root.path(), false);
    let mut lane = target.lane();
    let large =
        DraftParameters { sparse: true, ..DraftParameters::file(EntryPath::new("holes").unwrap(), 1 << 42) };
    ask(&mut lane, TargetOp::Begin { draft: 1, begin: large, attributes: None }).unwrap();
    begin(&mut lane, 2, "file", 5).unwrap();
    // A file that is not sparse does need the space.
    let full = begin(&mut lane, 3, "full", 1 << 42).unwrap_err();
    assert_eq!(full.kind, ErrorKind::NoSpace);
}

#[test]
fn a_draft_left_by_an_earlier_run_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    let first = target(root.path(), false);
    let mut lane = first.lane();
    begin(&mut lane, 1, "file", 5).unwrap();
    let name = fs::read_dir(root.path()).unwrap().next().unwrap().unwrap().path();
    drop((lane, first));
    fs::write(&name, "what a killed run left").unwrap();
    let second = target(root.path(), false);
    let mut lane = second.lane();
    begin(&mut lane, 1, "file", 0).unwrap();
    finish(&mut lane, 1).unwrap();
    assert_eq!(fs::read(root.path().join("file")).unwrap(), b"");
    assert!(!name.exists());
}

#[test]
fn lanes_that_store_one_path_at_once_leave_one_whole_file() {
    for plain in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let target = target(root.path(), plain);
        let contents = [vec![1; 100_000], vec![2; 100_000]];
        std::thread::scope(|scope| {
            for content in &contents {
                let target = &target;
                scope.spawn(move || {
                    let mut lane = target.lane();
                    (0..200).for_each(|_| assert_stored(ask(&mut lane, pack("d", "file", content)).unwrap()));
                });
            }
        });
        let found = fs::read(root.path().join("d/file")).unwrap();
        assert!(contents.contains(&found), "{} bytes", found.len());
        assert_eq!(fs::read_dir(root.path().join("d")).unwrap().count(), 1);
    }
}

#[test]
fn a_directory_that_was_removed_meanwhile_is_made_again() {
    for plain in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let target = target(root.path(), plain);
        let mut lane = target.lane();
        assert_stored(ask(&mut lane, pack("d", "one", b"1")).unwrap());
        fs::remove_dir_all(root.path().join("d")).unwrap();
        assert_stored(ask(&mut lane, pack("d", "two", b"2")).unwrap());
        assert_eq!(fs::read(root.path().join("d/two")).unwrap(), b"2");
    }
}

/// Begins or resumes a draft with a journal. Returns the number of chunks that an earlier run has completed.
fn begin_journaled(lane: &mut LocalTargetLane, version: u8, earlier: Earlier) -> Result<usize> {
    let path = EntryPath::new("file").unwrap();
    let begin = DraftParameters {
        version: Some([version; 32]),
        earlier,
        sparse: true,
        ..DraftParameters::file(path, JOURNALED_BYTES)
    };
    match ask(lane, TargetOp::Begin { draft: 1, begin, attributes: None })? {
        TargetOutcome::Begun(begun) => {
            Ok(begun.done.iter().map(|extent| extent.length / CHUNK_BYTES).sum::<u64>() as usize)
        }
        other => panic!("{other:?}"),
    }
}

const JOURNALED_BYTES: u64 = JOURNALED_FROM_BYTES + 5;

/// Writes one chunk, of zeros or other content.
fn chunk(lane: &mut LocalTargetLane, index: u64, zeros: bool) {
    let extent = Extent { offset: index * CHUNK_BYTES, length: CHUNK_BYTES };
    let bytes = vec![u8::from(!zeros); PIECE_BYTES as usize];
    let value = |piece: Extent| piece_value(JOURNALED_BYTES, piece.offset, &bytes);
    let value = chunk_value(&extent.pieces().map(value).collect::<Vec<_>>());
    let writer = lane.draft_writer(1).unwrap();
    match zeros {
        true => writer.zero(extent).unwrap(),
        false => extent.pieces().for_each(|piece| writer.write(piece.offset, &bytes).unwrap()),
    }
    ask(lane, TargetOp::Complete { draft: 1, extent, value, kept: true }).unwrap();
}

/// A draft has no final length while it is written: zeros at its end do not exist yet, but count as zeros.
#[test]
fn zeros_at_the_end_of_a_draft_are_gone_on_with() {
    let root = tempfile::tempdir().unwrap();
    {
        let target = target(root.path(), false);
        let mut lane = target.lane();
        assert_eq!(begin_journaled(&mut lane, 1, Earlier::Refuse).unwrap(), 0);
        chunk(&mut lane, 0, false);
        chunk(&mut lane, 1, true);
        chunk(&mut lane, 2, true);
    }
    let target = target(root.path(), false);
    assert_eq!(begin_journaled(&mut target.lane(), 1, Earlier::Refuse).unwrap(), 3);
}

#[test]
fn what_another_version_has_left_stays_until_it_is_forgotten() {
    let root = tempfile::tempdir().unwrap();
    let again = |version, earlier| {
        let target = target(root.path(), false);
        begin_journaled(&mut target.lane(), version, earlier)
    };
    {
        let target = target(root.path(), false);
        let mut lane = target.lane();
        begin_journaled(&mut lane, 1, Earlier::Refuse).unwrap();
        chunk(&mut lane, 0, false);
    }
    for _ in 0..2 {
        assert_eq!(again(2, Earlier::Refuse).unwrap_err().kind, ErrorKind::SourceChanged);
    }
    assert_eq!(again(1, Earlier::Refuse).unwrap(), 1);
    assert_eq!(again(2, Earlier::Continue).unwrap(), 0);
    assert_eq!(again(1, Earlier::Refuse).unwrap(), 0);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn what_was_overwritten_is_not_gone_on_with() {
    let root = tempfile::tempdir().unwrap();
    let left = |what: &str| {
        let target = target(root.path(), false);
        let mut lane = target.lane();
        assert_eq!(begin_journaled(&mut lane, 1, Earlier::Refuse).unwrap(), 0, "{what}");
        chunk(&mut lane, 0, false);
        chunk(&mut lane, 1, false);
        chunk(&mut lane, 3, false);
        drop(target);
        fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    for (what, offset) in [("the first", 0), ("another", CHUNK_BYTES + 9), ("the last", 4 * CHUNK_BYTES - 1)]
    {
        let files = left(what);
        let draft = files.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
        let file = fs::File::options().write(true).open(draft).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"x", offset).unwrap();
    }
    left("by nobody");
    let target = target(root.path(), false);
    assert_eq!(begin_journaled(&mut target.lane(), 1, Earlier::Refuse).unwrap(), 3);
}

/// Files beside the mark of a run whose machine failed may have lost content. Only listing the directory shows this.
#[test]
fn what_lies_beside_a_mark_that_a_listing_meets_is_doubted() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;

    use hakobu_core::endpoint::Detail;

    use crate::local::run_mark::{MARK_BYTES, NAMES};

    let root = tempfile::tempdir().unwrap();
    for name in ["sound", "doubtful"] {
        fs::create_dir(root.path().join(name)).unwrap();
        fs::write(root.path().join(name).join("file"), "x").unwrap();
    }
    let mark = root.path().join("doubtful").join(OsStr::from_bytes(&NAMES[0]));
    fs::write(&mark, [0; MARK_BYTES]).unwrap();
    fs::set_permissions(&mark, fs::Permissions::from_mode(0o600)).unwrap();
    let target = target(root.path(), false);
    let mut lane = target.lane();
    let directories = ["sound", "doubtful"].map(|name| EntryPath::new(name).unwrap()).to_vec();
    let list = TargetOp::List { directories, budget: 0, detail: Detail::default() };
    let TargetOutcome::Listed(listed) = ask(&mut lane, list).unwrap() else { panic!("no listing") };
    let found: Vec<_> = listed
        .into_iter()
        .map(|directory| {
            let listing = directory.result.unwrap();
            assert_eq!(listing.len(), 1, "the mark is no entry");
            listing.metadata(0).doubted
        })
        .collect();
    assert_eq!(found, [false, true]);
}

/// A restarted run may reach its target by another name.
#[test]
fn a_root_is_known_by_its_whole_path() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap().join("real");
    fs::create_dir(&real).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("real", &link).unwrap();
    let bytes = real.into_os_string().into_encoded_bytes();
    assert_eq!(whole_path(&link), bytes);
    let missing = folder.path().join("missing");
    assert_eq!(whole_path(&missing), missing.as_os_str().as_encoded_bytes());
}

/// Buffered bytes are written when a step is full, before zeros, and at the end.
#[test]
fn a_stream_gets_its_bytes_in_order_and_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let stream = |size_bytes| {
        let output = fs::File::create(&path).unwrap();
        let target = target(folder.path(), false).with_stream(output.into());
        let begin = DraftParameters {
            kind: DraftKind::Stream,
            ..DraftParameters::file(EntryPath::new("out").unwrap(), size_bytes)
        };
        let mut lane = target.lane();
        ask(&mut lane, TargetOp::Begin { draft: 1, begin, attributes: None }).unwrap();
        (target, lane)
    };
    let piece = PIECE_BYTES as usize;
    let size = 11 * piece + 5;
    let mut bytes: Vec<u8> = (0..size).map(|at| (at / 999) as u8).collect();
    let (_target, mut lane) = stream(size as u64);
    let writer = lane.draft_writer(1).unwrap();
    // A step is as long as four pieces.
    (0..9).for_each(|at| writer.write((at * piece) as u64, &bytes[at * piece..][..piece]).unwrap());
    writer.zero(Extent { offset: 9 * PIECE_BYTES, length: PIECE_BYTES }).unwrap();
    bytes[9 * piece..10 * piece].fill(0);
    let there = fs::read(&path).unwrap();
    assert!(there == bytes[..10 * piece], "{} bytes", there.len());
    writer.write(10 * PIECE_BYTES, &bytes[10 * piece..]).unwrap();
    writer.flush().unwrap();
    finish(&mut lane, 1).unwrap();
    assert!(fs::read(&path).unwrap() == bytes);
    // Bytes that are out of order cannot be rearranged.
    let (_target, mut lane) = stream(2 * PIECE_BYTES);
    let writer = lane.draft_writer(1).unwrap();
    writer.write(PIECE_BYTES, &bytes[..piece]).unwrap();
    assert_eq!(writer.flush().unwrap_err().kind, ErrorKind::Protocol);
    assert!(finish(&mut lane, 1).is_err());
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}
