use super::super::node::{CountedDirectory, TouchedAttributes};
use super::*;
use crate::entry::{EntryMetadata, FileTime};

fn file(chunks: u64) -> LargeFile {
    file_as(chunks * CHUNK_BYTES, DraftKind::File, true)
}

fn file_as(size_bytes: u64, kind: DraftKind, named: bool) -> LargeFile {
    let mtime = FileTime::default();
    file_of(
        EntryMetadata { size_bytes, mtime, ctime: mtime, ..EntryMetadata::new(EntryKind::File) },
        kind,
        named,
    )
}

fn file_of(metadata: EntryMetadata, kind: DraftKind, named: bool) -> LargeFile {
    let path = EntryPath::new("f").unwrap();
    let node = DirectoryNode::new(
        (Vec::new(), EntryPath::root()),
        (None, CountedDirectory::Not),
        None,
        TouchedAttributes::Not,
    );
    let source = SourceFile { root: 0, path: path.clone(), metadata, tolerant: false };
    let how = LargeFileMode { kind, replaces: false, named, digest: true };
    LargeFile::new(node, source, path, 1, how)
}

#[test]
fn a_run_is_some_chunks_and_all_runs_cover_the_file_once() {
    for (chunks, run) in [(1, 3), (3, 3), (7, 3), (8, 2), (5, 1)] {
        let file = file_as(chunks * CHUNK_BYTES - 5, DraftKind::File, true);
        file.set_run_bytes(run * CHUNK_BYTES);
        let mut end = 0;
        while let Some(taken) = file.take_run() {
            assert_eq!(taken.offset, end);
            assert!(taken.length == run * CHUNK_BYTES || taken.end() == file.size_bytes());
            end = taken.end();
            // A hole is left to the lanes, which take whole runs.
            assert!(run == 1 || file.take_chunks_until(file.size_bytes()).is_none());
        }
        assert_eq!(end, file.size_bytes());
    }
}

#[test]
fn chunks_are_taken_once_and_the_last_answer_finishes() {
    let file = file(3);
    let taken: Vec<_> = std::iter::from_fn(|| file.take_chunk()).map(|extent| extent.offset).collect();
    assert_eq!(taken, [0, CHUNK_BYTES, 2 * CHUNK_BYTES]);
    assert_eq!(file.count_done(2), ChunkProgress::More);
    assert_eq!(file.count_done(1), ChunkProgress::Finish);
}

#[test]
fn a_failure_gives_up_what_was_not_taken_and_waits_for_what_was() {
    let file = file(9);
    file.take_chunk();
    file.take_chunk();
    let (first, given_up) = file.fail(false);
    assert!(first && given_up == 7);
    assert_eq!(file.count_done(given_up), ChunkProgress::More);
    assert_eq!(file.fail(false), (false, 0));
    assert_eq!(file.count_done(2), ChunkProgress::Abandon);
    assert!(file.take_chunk().is_none());
}

#[test]
fn what_an_earlier_run_has_done_is_not_taken_again() {
    let file = file(5);
    let done = |offset, length| Extent { offset: offset * CHUNK_BYTES, length: length * CHUNK_BYTES };
    let begun = EarlierWork { done: vec![done(0, 1), done(3, 1)], ..EarlierWork::default() };
    assert_eq!(file.begun(begun).unwrap(), ChunkProgress::More);
    let taken: Vec<_> = std::iter::from_fn(|| file.take_chunk()).map(|extent| extent.offset).collect();
    assert_eq!(taken, [CHUNK_BYTES, 2 * CHUNK_BYTES, 4 * CHUNK_BYTES]);
    assert_eq!(file.count_done(3), ChunkProgress::Finish);
}

#[test]
fn what_an_earlier_run_cannot_have_done_is_refused() {
    let (half, chunk) = (CHUNK_BYTES / 2, CHUNK_BYTES);
    for done in [
        vec![(0, half)],
        vec![(0, 0)],
        vec![(half, chunk)],
        // Adjacent ranges would have been merged into one.
        vec![(0, chunk), (chunk, chunk)],
        vec![(0, 2 * chunk), (chunk, chunk)],
        vec![(4 * chunk, 2 * chunk)],
        vec![(chunk, chunk), (0, chunk)],
        vec![(u64::MAX - chunk + 1, chunk)],
    ] {
        let done = done.into_iter().map(|(offset, length)| Extent { offset, length }).collect();
        assert!(file(5).begun(EarlierWork { done, ..EarlierWork::default() }).is_err());
    }
}

#[test]
fn a_hole_is_taken_at_once() {
    let file = file(9);
    file.take_chunk();
    let hole = file.take_chunks_until(5 * CHUNK_BYTES + 1).unwrap();
    assert_eq!((hole.offset, hole.end()), (CHUNK_BYTES, 5 * CHUNK_BYTES));
    assert_eq!(file.take_chunks_until(5 * CHUNK_BYTES), None);
    assert_eq!(file.take_chunk().unwrap().offset, 5 * CHUNK_BYTES);
}

#[test]
fn a_hole_leaves_the_last_chunk_if_that_is_short() {
    let file = file_as(3 * CHUNK_BYTES + 5, DraftKind::File, true);
    let hole = file.take_chunks_until(3 * CHUNK_BYTES + 5).unwrap();
    assert_eq!((hole.offset, hole.length), (0, 3 * CHUNK_BYTES));
    assert_eq!(file.take_chunk(), Some(Extent { offset: 3 * CHUNK_BYTES, length: 5 }));
}

#[test]
fn what_is_left_is_known_to_the_byte() {
    let file = file_as(2 * CHUNK_BYTES + 5, DraftKind::File, true);
    let mut left = Vec::new();
    loop {
        left.push((file.bytes_left(), file.has_chunks_left()));
        if file.take_chunk().is_none() {
            break;
        }
    }
    let expected = [2 * CHUNK_BYTES + 5, CHUNK_BYTES + 5, 5, 0].map(|bytes| (bytes, bytes > 0));
    assert_eq!(left, expected);
    assert_eq!(file.chunks(), 3);
    file.enter();
    file.enter();
    file.leave();
    assert_eq!(file.lanes(), 1);
}

#[test]
fn a_stream_is_done_when_its_end_and_all_chunks_are() {
    for end_comes_last in [false, true] {
        let file = file_as(UNKNOWN_BYTES, DraftKind::Stream, true);
        assert!(file.is_open_ended() && file.take_read() && file.take_read());
        assert_eq!(file.count_done(1), ChunkProgress::More);
        let end = || file.ends_at(CHUNK_BYTES + 3);
        let ended = if end_comes_last {
            assert_eq!(file.count_done(1), ChunkProgress::More);
            end()
        } else {
            assert_eq!(end(), ChunkProgress::More);
            file.count_done(1)
        };
        assert_eq!((ended, file.size_bytes()), (ChunkProgress::Finish, CHUNK_BYTES + 3));
        // A stream ends only once.
        assert_eq!((file.ends_at(9), file.size_bytes()), (ChunkProgress::More, CHUNK_BYTES + 3));
    }
    assert!(!file(1).is_open_ended());
}

#[test]
fn of_a_stream_that_fails_only_what_was_read_is_waited_for() {
    let file = file_as(UNKNOWN_BYTES, DraftKind::Stream, true);
    assert!(file.take_read() && file.take_read());
    assert_eq!(file.fail(false), (true, 0));
    assert!(!file.take_read() && file.size_bytes() == 2 * CHUNK_BYTES);
    assert_eq!((file.count_done(1), file.count_done(1)), (ChunkProgress::More, ChunkProgress::Abandon));
}

#[test]
fn once_of_no_use_always_of_no_use() {
    let file = file(3);
    assert!(!file.has_failed());
    file.fail(false);
    assert!(file.has_failed() && !file.is_of_no_use());
    file.fail(true);
    file.fail(false);
    assert!(file.is_of_no_use());
}

#[test]
fn a_file_is_begun_anew_once() {
    let file = file(1);
    assert_eq!((file.begins_anew(), file.begins_anew()), (false, true));
    assert!(!file.has_changed());
    file.changes();
    assert!(file.has_changed());
}

#[test]
fn only_where_most_blocks_are_equal_they_are_compared_on() {
    let all = BLOCKS_TRIED;
    for (compared, differ, pay) in [
        (all - 1, 0, None),
        (all, 0, Some(true)),
        (all, all / 4 * 3, Some(true)),
        (all, all / 4 * 3 + 1, Some(false)),
    ] {
        let file = file(1);
        file.compared_blocks(compared - 1, 0);
        file.compared_blocks(1, differ);
        assert_eq!(file.blocks_pay(), pay, "{differ} of {compared}");
    }
}

#[test]
fn comparing_goes_on_as_long_as_anything_is_found_to_be_equal() {
    let (tried, blocks) = (PIECES_TRIED, BLOCKS_TRIED);
    for (kind, pieces, equal, differ, pays) in [
        (DraftKind::Update, tried - 1, 0, blocks, true),
        (DraftKind::Update, tried, 0, blocks, false),
        (DraftKind::Update, tried, tried / 16, blocks, false),
        (DraftKind::Update, tried, tried / 16 + 1, blocks, true),
        (DraftKind::Update, tried, 0, blocks / 2, true),
        (DraftKind::InPlace, tried, 0, blocks, true),
    ] {
        let file = file_as(CHUNK_BYTES, kind, false);
        file.compared(pieces, equal);
        file.compared_blocks(blocks, differ);
        assert_eq!(file.comparing_pays(), pays, "{kind:?}: {equal} of {pieces}, {differ} of {blocks}");
        assert_eq!(file.compared_bytes(), pieces * PIECE_BYTES);
    }
}

#[test]
fn only_of_a_large_new_file_without_holes_all_may_be_sent() {
    let large = 1 << 30;
    let sparse = EntryMetadata { size_bytes: large, sparse: true, ..EntryMetadata::new(EntryKind::File) };
    assert!(file_as(large, DraftKind::Update, false).may_go_whole());
    assert!(!file_as(CHUNK_BYTES, DraftKind::Update, false).may_go_whole());
    assert!(!file_as(large, DraftKind::InPlace, false).may_go_whole());
    assert!(!file_of(sparse, DraftKind::Update, false).may_go_whole());
}

#[test]
fn tags_and_digests_belong_to_their_kinds_of_files() {
    for (kind, named, tags, hashed) in [
        (DraftKind::File, false, false, false),
        (DraftKind::Update, false, true, false),
        (DraftKind::Update, true, false, false),
        (DraftKind::Compare, false, true, false),
        (DraftKind::Compare, true, false, false),
        (DraftKind::InPlace, false, false, false),
        (DraftKind::Sink, false, false, true),
        (DraftKind::Sink, true, false, false),
    ] {
        let file = file_as(PIECE_BYTES, kind, named);
        assert_eq!((file.is_compared_by_tags(), file.is_only_hashed()), (tags, hashed), "{kind:?} {named}");
        // No digest is computed if tags are compared.
        file.add_values(0, &[[7; 32]]);
        assert_eq!(file.digest().is_none(), tags, "{kind:?} {named}");
    }
    assert!(file_of(EntryMetadata::new(EntryKind::BlockDevice), DraftKind::Device, true).is_of_disk());
    assert!(!file(1).is_of_disk());
}

#[test]
fn the_digest_is_of_pieces_in_their_places() {
    let size_bytes = CHUNK_BYTES + PIECE_BYTES + 7;
    let bytes: Vec<u8> = (0..size_bytes).map(|at| (at / 1000) as u8).collect();
    let file = file_as(size_bytes, DraftKind::File, true);
    while let Some(chunk) = file.take_chunk() {
        let value = |piece: Extent| {
            let bytes = &bytes[piece.offset as usize..piece.end() as usize];
            crate::digest::piece_value(size_bytes, piece.offset, bytes)
        };
        assert_eq!(file.digest(), None);
        file.add_values(chunk.offset, &chunk.pieces().map(value).collect::<Vec<_>>());
    }
    assert_eq!(file.digest(), Some(*blake3::hash(&bytes).as_bytes()));
    file.forget_digest();
    assert_eq!(file.digest(), None);
}

#[test]
fn holes_are_added_up() {
    let file = file(9);
    assert_eq!((file.hole(5), file.hole(CHUNK_BYTES)), (5, CHUNK_BYTES + 5));
}

#[test]
fn a_file_that_is_there_already_is_finished_at_once() {
    let file = file(3);
    assert!(!file.completes() && !file.is_resumed());
    let done = vec![Extent { offset: 0, length: 3 * CHUNK_BYTES }];
    assert_eq!(file.begun(EarlierWork { done, ..EarlierWork::default() }).unwrap(), ChunkProgress::Finish);
    assert!(file.completes() && file.is_resumed());
    assert_eq!((file.take_chunks_until(3 * CHUNK_BYTES), file.take_chunk()), (None, None));
    let new = self::file(3);
    assert_eq!(new.begun(EarlierWork::default()).unwrap(), ChunkProgress::More);
    assert!(new.completes() && !new.is_resumed());
}

fn chunks(from: u64, until: u64) -> Extent {
    Extent { offset: from * CHUNK_BYTES, length: (until - from) * CHUNK_BYTES }
}

#[test]
fn what_nobody_has_taken_and_no_earlier_run_has_done_is_given_away() {
    let file = file_as(9 * CHUNK_BYTES + 5, DraftKind::File, true);
    let done = vec![chunks(0, 1), chunks(3, 4), chunks(7, 8)];
    assert_eq!(file.begun(EarlierWork { done, ..EarlierWork::default() }).unwrap(), ChunkProgress::More);
    assert_eq!((file.take_chunk(), file.take_chunk()), (Some(chunks(1, 2)), Some(chunks(2, 3))));
    assert!(file.given().is_none() && !file.is_finished_elsewhere());
    let given = file.give_rest();
    let last = Extent { offset: 8 * CHUNK_BYTES, length: CHUNK_BYTES + 5 };
    assert_eq!((given, file.given()), (5, Some(&[chunks(4, 7), last][..])));
    assert!(file.is_finished_elsewhere() && !file.has_chunks_left());
    assert_eq!((file.take_chunk(), file.take_run(), file.give_rest()), (None, None, 0));
    assert_eq!(file.take_chunks_until(9 * CHUNK_BYTES), None);
    assert_eq!((file.count_done(given), file.fail(false)), (ChunkProgress::More, (true, 0)));
    assert_eq!(file.count_done(2), ChunkProgress::Abandon);
    let whole = self::file(9);
    whole.give_rest();
    assert_eq!(whole.take_chunks_until(9 * CHUNK_BYTES), None);
    let taken = self::file(1);
    taken.take_chunk();
    assert_eq!((taken.give_rest(), taken.given()), (0, None));
}

#[test]
fn a_range_is_taken_from_its_beginning_to_its_end() {
    let place = crate::exchange::SharePlace {
        root: 0,
        source: EntryPath::root(),
        target: EntryPath::root(),
        top_names: 0,
    };
    let of = |range: Extent| {
        let mut file = file_as(9 * CHUNK_BYTES + 5, DraftKind::File, false);
        let version = crate::open_file::OpenFileVersion::of(&file.source.metadata);
        let open = OpenLargeFile { place: place.clone(), version, draft: Vec::new(), replaces: false };
        file.limit_to(Arc::new(open), range);
        file
    };
    let file = of(chunks(2, 5));
    assert_eq!((file.bytes_left(), file.chunks_left()), (3 * CHUNK_BYTES, 3));
    assert_eq!(file.take_chunk(), Some(chunks(2, 3)));
    // A hole may go on behind the range.
    assert_eq!(file.take_chunks_until(9 * CHUNK_BYTES), Some(chunks(3, 5)));
    assert_eq!((file.take_chunk(), file.bytes_left()), (None, 0));
    assert_eq!((file.count_done(2), file.count_done(1)), (ChunkProgress::More, ChunkProgress::Finish));
    let file = of(chunks(2, 5));
    file.set_run_bytes(2 * CHUNK_BYTES);
    assert_eq!((file.take_run(), file.take_run()), (Some(chunks(2, 4)), Some(chunks(4, 5))));
    assert!(file.take_run().is_none());
    let last = Extent { offset: 8 * CHUNK_BYTES, length: CHUNK_BYTES + 5 };
    let file = of(last);
    assert_eq!((file.fail(false), file.count_done(2)), ((true, 2), ChunkProgress::Abandon));
}
