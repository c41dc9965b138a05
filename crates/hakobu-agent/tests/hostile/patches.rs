//! Patches that cannot be: the draft fails, or the connection ends, and the old file stays as it is.

use hakobu_core::digest::piece_value;
use hakobu_core::endpoint::{Begin, DraftKind};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{BLOCK_BYTES, Extent, PIECE_BYTES};
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::Cipher;
use hakobu_proto::data::{self, Patch, kind};

use crate::bench::{Peer, Session, attributes, grant};

const SIZE_BYTES: u64 = 2 * BLOCK_BYTES + 10;

fn begin(peer: &mut Peer, draft: u64, kind: DraftKind) -> u8 {
    let path = EntryPath::new("tree/old").unwrap();
    let begin = Begin { kind, ..Begin::file(path, SIZE_BYTES) };
    peer.send(kind::BEGIN, 0, &data::Begin { draft, begin }, &[]);
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
        // A breach ends the connection, once it has been answered.
        let mut peer = session.peer();
        assert_eq!(begin(&mut peer, draft, DraftKind::Update), kind::BEGUN, "{what}");
        peer.send(kind::PATCH, 0, &Patch { draft, ..patch }, &vec![1; bytes as usize]);
        let complete = data::Complete { draft, extent: whole(), value: None, kept: true };
        peer.send(kind::COMPLETE, 0, &complete, &[]);
        assert_eq!(peer.answer().kind, kind::FAILED, "{what}");
        let mut other = session.peer();
        assert!(other.finish(draft, &attributes(0o600)).is_err(), "{what}");
    }
    // To a draft that is not there nothing happens, as to one of which the beginning failed.
    peer.send(kind::PATCH, 0, &Patch { draft: 99, ..right }, &[1; SIZE_BYTES as usize]);
    // What was not signed is not there to be kept.
    assert_eq!(begin(&mut peer, 50, DraftKind::Update), kind::BEGUN);
    let value = piece_value(SIZE_BYTES, 0, &[1; SIZE_BYTES as usize]);
    peer.send(kind::PATCH, 0, &Patch { draft: 50, value, ..right }, &[1; SIZE_BYTES as usize]);
    peer.abandon(50);
    session.end(&[]);
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
    // A file that the user named is another thing.
    let named = Begin { kind: DraftKind::InPlace, ..Begin::file(EntryPath::new("private").unwrap(), 4) };
    peer.send(kind::BEGIN, 0, &data::Begin { draft: 2, begin: named }, &[]);
    assert_eq!(peer.answer().error().kind, ErrorKind::BeyondGrant);
    session.end(&[]);
}
