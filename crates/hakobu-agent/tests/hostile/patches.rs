//! Invalid patches and assembled pieces: the draft fails, or the connection ends, and the old file stays unchanged.

use hakobu_core::block_table::Copied;
use hakobu_core::digest::piece_value;
use hakobu_core::endpoint::{DraftKind, DraftParameters};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{BLOCK_BYTES, Extent, PIECE_BYTES};
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TAG_KEY_BYTES, TagKey, Tagger};
use hakobu_proto::control::Cipher;
use hakobu_proto::data::{self, Assemble, HashRange, Patch, WeakSums, kind};

use crate::bench::{Peer, Session, attributes, grant};

const SIZE_BYTES: u64 = 2 * BLOCK_BYTES + 10;

fn begin(peer: &mut Peer, draft: u64, kind: DraftKind) -> u8 {
    let path = EntryPath::new("tree/old").unwrap();
    let begin = DraftParameters { kind, ..DraftParameters::file(path, SIZE_BYTES) };
    peer.send(kind::BEGIN, 0, &data::BeginDraft { draft, begin }, &[]);
    peer.answer().kind
}

fn whole() -> Extent {
    Extent { offset: 0, length: SIZE_BYTES }
}

#[test]
fn what_cannot_be_fails_the_draft_and_nothing_else() {
    let session = Session::new();
    let mut peer = session.peer();
    let right = Patch { draft: 0, extent: whole(), changed: 0b111, value: [7; 32] };
    let cases: [(&str, Patch, u64); 6] = [
        ("a value that is another", right, SIZE_BYTES),
        ("no block", Patch { changed: 0, ..right }, SIZE_BYTES),
        ("a block behind the end", Patch { changed: 0b1011, ..right }, SIZE_BYTES),
        ("too few bytes", right, SIZE_BYTES - 1),
        ("too many bytes", right, SIZE_BYTES + 1),
        ("beyond the size", Patch { extent: Extent { offset: PIECE_BYTES, length: 10 }, ..right }, 10),
    ];
    for (index, (what, patch, bytes)) in cases.into_iter().enumerate() {
        let draft = index as u64 + 1;
        // A violation ends the connection after it has been answered.
        let mut peer = session.peer();
        assert_eq!(begin(&mut peer, draft, DraftKind::Update), kind::BEGUN, "{what}");
        peer.send(kind::PATCH, 0, &Patch { draft, ..patch }, &vec![1; bytes as usize]);
        let complete = data::Complete { draft, extent: whole(), value: None, kept: true };
        peer.send(kind::COMPLETE, 0, &complete, &[]);
        assert_eq!(peer.answer().kind, kind::FAILED, "{what}");
        let mut other = session.peer();
        assert!(other.finish(draft, &attributes(0o600)).is_err(), "{what}");
    }
    // A message for a missing draft is ignored, since the draft's beginning may have failed.
    peer.send(kind::PATCH, 0, &Patch { draft: 99, ..right }, &[1; SIZE_BYTES as usize]);
    // A patch for a range that was never signed is ignored too.
    assert_eq!(begin(&mut peer, 50, DraftKind::Update), kind::BEGUN);
    let value = piece_value(SIZE_BYTES, 0, &[1; SIZE_BYTES as usize]);
    peer.send(kind::PATCH, 0, &Patch { draft: 50, value, ..right }, &[1; SIZE_BYTES as usize]);
    peer.abandon(50);
    session.end(&[]);
}

/// Signed ranges with tags are patched by them, without being read again, and no other value is accepted.
#[test]
fn a_patch_has_to_have_the_tag_that_it_claims() {
    let key = TagKey([9; TAG_KEY_BYTES]);
    let tagger = Tagger::new(key).unwrap();
    let old = vec![5; SIZE_BYTES as usize];
    let session = Session::with(grant(), Cipher::Aes128Gcm, |root, _| {
        std::fs::write(root.join("tree/old"), vec![5; SIZE_BYTES as usize]).unwrap();
    });
    let before = tagger.blocks_of(&old).unwrap();
    let new_block = [6; BLOCK_BYTES as usize];
    let mut after = before;
    tagger.replace(&mut after, 1, &new_block).unwrap();
    let blocks: Vec<_> = tagger.blocks(&before).collect();
    let right = tagger.piece(&after).unwrap();
    let cases = [
        (
            "that of BLAKE3",
            piece_value(SIZE_BYTES, 0, &[&old[..4096], &new_block, &old[8192..]].concat()),
            false,
        ),
        ("that of before", tagger.piece(&before).unwrap(), false),
        ("the right one", right, true),
    ];
    for (draft, (what, value, is_right)) in (1..).zip(cases) {
        let mut peer = session.peer();
        let path = EntryPath::new("tree/old").unwrap();
        let begin = DraftParameters {
            kind: DraftKind::Update,
            tag_key: Some(key),
            ..DraftParameters::file(path, SIZE_BYTES)
        };
        peer.send(kind::BEGIN, 0, &data::BeginDraft { draft, begin }, &[]);
        assert_eq!(peer.answer().kind, kind::BEGUN, "{what}");
        peer.send(kind::HASH_RANGE, 0, &HashRange { draft, extent: whole(), blocks: false }, &[]);
        assert_eq!(peer.answer().payload, tagger.piece(&before).unwrap(), "{what}");
        peer.send(kind::HASH_RANGE, 0, &HashRange { draft, extent: whole(), blocks: true }, &[]);
        assert_eq!(peer.answer().payload, blocks.as_flattened(), "{what}");
        let patch = Patch { draft, extent: whole(), changed: 0b010, value };
        peer.send(kind::PATCH, 0, &patch, &new_block);
        let complete = data::Complete { draft, extent: whole(), value: None, kept: true };
        peer.send(kind::COMPLETE, 0, &complete, &[]);
        assert_eq!(peer.answer().kind == kind::DONE, is_right, "{what}");
        assert_eq!(session.peer().finish(draft, &attributes(0o600)).is_ok(), is_right, "{what}");
    }
    session.end(&["root/tree/old"]);
}

#[test]
fn frames_that_are_none_end_the_connection() {
    let session = Session::new();
    let sound = Patch { draft: 1, extent: whole(), changed: 1, value: [0; 32] };
    let odd = Patch { extent: Extent { offset: 4096, length: 10 }, ..sound };
    let cases = [
        ("no bytes", sound, 0),
        ("more than a piece", sound, PIECE_BYTES as usize + 1),
        ("a piece that begins in the middle of one", odd, 10),
    ];
    for (why, patch, bytes) in cases {
        let mut meta = Vec::new();
        data::encode(&patch, &mut meta).unwrap();
        session.peer().breaks(why, kind::PATCH, &meta, &vec![0; bytes]);
    }
    session.end(&[]);
}

#[test]
fn files_of_a_tree_are_changed_where_they_lie_only_with_leave() {
    let session = Session::new();
    assert_eq!(begin(&mut session.peer(), 1, DraftKind::InPlace), kind::FAILED);
    session.end(&[]);
    let allowed = Grant { may_write_in_place: true, ..grant() };
    let session = Session::with(allowed, Cipher::Aes128Gcm, |_, _| {});
    let mut peer = session.peer();
    assert_eq!(begin(&mut peer, 1, DraftKind::InPlace), kind::BEGUN);
    peer.abandon(1);
    // A file outside of the granted tree is not included.
    let named = DraftParameters {
        kind: DraftKind::InPlace,
        ..DraftParameters::file(EntryPath::new("private").unwrap(), 4)
    };
    peer.send(kind::BEGIN, 0, &data::BeginDraft { draft: 2, begin: named }, &[]);
    assert_eq!(peer.answer().error().kind, ErrorKind::BeyondGrant);
    session.end(&[]);
}

fn assemble(draft: u64, copies: Vec<Copied>, content: &[u8]) -> Assemble {
    let value = *blake3::hash(&piece_value(SIZE_BYTES, 0, content)).as_bytes();
    Assemble { draft, extent: whole(), copies, value }
}

/// An assembled file is checked as a whole, and may be written again if it is wrong.
#[test]
fn what_is_not_as_the_old_file_has_it_is_written_again() {
    let session = Session::new();
    let old = std::fs::read(session.path("root/tree/old")).unwrap();
    let taken = old.len().min(100);
    let mut content = vec![1; SIZE_BYTES as usize];
    content[7..7 + taken].copy_from_slice(&old[..taken]);
    let copies = vec![Copied { at: 7, length: taken as u32, from: 0 }];
    let mut peer = session.peer();
    let complete = |draft| data::Complete { draft, extent: whole(), value: None, kept: true };
    // Correct at once.
    assert_eq!(begin(&mut peer, 1, DraftKind::Update), kind::BEGUN);
    let literal = vec![1; content.len() - taken];
    peer.send(kind::ASSEMBLE, 0, &assemble(1, copies.clone(), &content), &literal);
    peer.send(kind::COMPLETE, 0, &complete(1), &[]);
    assert_eq!(peer.answer().kind, kind::DONE);
    peer.abandon(1);
    // Wrong, and then written correctly.
    assert_eq!(begin(&mut peer, 2, DraftKind::Update), kind::BEGUN);
    let elsewhere = vec![Copied { from: 1 << 40, ..copies[0] }];
    peer.send(kind::ASSEMBLE, 0, &assemble(2, elsewhere, &content), &literal);
    peer.send(kind::COMPLETE, 0, &complete(2), &[]);
    assert_eq!(peer.answer().error().kind, ErrorKind::Corrupt);
    peer.write(2, 0, &content, SIZE_BYTES).unwrap();
    peer.send(kind::COMPLETE, 0, &complete(2), &[]);
    assert_eq!(peer.answer().kind, kind::DONE);
    peer.finish(2, &attributes(0o644)).unwrap();
    assert_eq!(std::fs::read(session.path("root/tree/old")).unwrap(), content);
    session.end(&["root/tree/old"]);
}

#[test]
fn pieces_that_cannot_be_put_together_fail_the_draft() {
    let session = Session::new();
    let one = Copied { at: 10, length: 20, from: 0 };
    let cases: [(&str, Vec<Copied>, u64); 7] = [
        ("too few bytes", vec![one], SIZE_BYTES - 21),
        ("too many bytes", vec![one], SIZE_BYTES - 19),
        ("one over another", vec![one, Copied { at: 29, ..one }], SIZE_BYTES - 40),
        ("not in order", vec![Copied { at: 50, ..one }, one], SIZE_BYTES - 40),
        ("behind the end", vec![Copied { at: SIZE_BYTES as u32 - 19, ..one }], SIZE_BYTES - 20),
        ("of no length", vec![Copied { length: 0, ..one }], SIZE_BYTES),
        ("of no place", vec![Copied { from: u64::MAX - 3, ..one }], SIZE_BYTES - 20),
    ];
    for (index, (what, copies, bytes)) in cases.into_iter().enumerate() {
        let draft = index as u64 + 1;
        let mut peer = session.peer();
        assert_eq!(begin(&mut peer, draft, DraftKind::Update), kind::BEGUN, "{what}");
        peer.send(kind::ASSEMBLE, 0, &assemble(draft, copies, &[]), &vec![1; bytes as usize]);
        let complete = data::Complete { draft, extent: whole(), value: None, kept: true };
        peer.send(kind::COMPLETE, 0, &complete, &[]);
        assert_eq!(peer.answer().kind, kind::FAILED, "{what}");
        assert!(session.peer().finish(draft, &attributes(0o600)).is_err(), "{what}");
    }
    // A draft that is not based on an old file.
    let mut peer = session.peer();
    let path = EntryPath::new("tree/new").unwrap();
    let fresh = DraftParameters { kind: DraftKind::File, ..DraftParameters::file(path, SIZE_BYTES) };
    peer.send(kind::BEGIN, 0, &data::BeginDraft { draft: 90, begin: fresh }, &[]);
    assert_eq!(peer.answer().kind, kind::DONE);
    peer.send(kind::ASSEMBLE, 0, &assemble(90, vec![one], &[]), &vec![1; SIZE_BYTES as usize - 20]);
    assert!(session.peer().finish(90, &attributes(0o600)).is_err());
    session.end(&[]);
}

#[test]
fn sums_that_cannot_be_are_refused() {
    let session = Session::new();
    let range = Extent { offset: 0, length: 4 << 20 };
    let sound = WeakSums { draft: 1, extent: range, block_bytes: 4096 };
    for (what, sum) in [
        ("blocks of no length", WeakSums { block_bytes: 0, ..sound }),
        ("blocks that are too short", WeakSums { block_bytes: 2048, ..sound }),
        ("an odd length", WeakSums { block_bytes: 5000, ..sound }),
        ("blocks that are too long", WeakSums { block_bytes: 8 << 20, ..sound }),
        ("too long a range", WeakSums { extent: Extent { length: (4 << 20) + 1, ..range }, ..sound }),
        ("a range in the middle", WeakSums { extent: Extent { offset: PIECE_BYTES, ..range }, ..sound }),
        ("no draft", WeakSums { draft: 77, ..sound }),
    ] {
        let mut peer = session.peer();
        assert_eq!(begin(&mut peer, 1, DraftKind::Update), kind::BEGUN);
        peer.send(kind::WEAK_SUMS, 0, &sum, &[]);
        assert_eq!(peer.answer().kind, kind::FAILED, "{what}");
        session.peer().abandon(1);
    }
    // There are none beyond the end of the old file.
    let mut peer = session.peer();
    assert_eq!(begin(&mut peer, 2, DraftKind::Update), kind::BEGUN);
    peer.send(
        kind::WEAK_SUMS,
        0,
        &WeakSums { draft: 2, extent: Extent { offset: 1 << 40, ..range }, ..sound },
        &[],
    );
    let answer = peer.answer();
    assert_eq!((answer.kind, answer.payload.len()), (kind::SUMS, 0));
    peer.abandon(2);
    session.end(&[]);
}
