//! Messages out of order, and pieces that do not fit.

use std::fs;

use hakobu_core::checksum::crc64;
use hakobu_core::digest::piece_value;
use hakobu_core::endpoint::DraftParameters;
use hakobu_core::error::ErrorKind;
use hakobu_core::extended::Classes;
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::Cipher;
use hakobu_proto::data::{self, kind};
use serde::Serialize;

use crate::bench::{Peer, Session, attributes, eventually, grant, pack};

const PIECE: usize = PIECE_BYTES as usize;

fn encoded(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    data::encode(message, &mut bytes).unwrap();
    bytes
}

/// Returns a complete and valid frame of each operation: kind, meta, payload.
fn operations() -> Vec<(u8, Vec<u8>, Vec<u8>)> {
    let path = EntryPath::new("tree/file").unwrap();
    let begin = data::BeginDraft { draft: 1, begin: DraftParameters::file(path.clone(), 4) };
    let finish = data::Finish { draft: 1, attributes: attributes(0o600), digest: None };
    vec![
        (kind::STAT, encoded(&data::StatRequest { path: path.clone(), extended: Classes::NONE }), Vec::new()),
        (kind::LIST, encoded(&(0u32, false, 0u8)), encoded(&data::ListRequest(vec![path]))),
        (kind::WRITE_PACK, Vec::new(), pack("tree", "file", &attributes(0o600), b"mine")),
        (kind::BEGIN, encoded(&begin), Vec::new()),
        (kind::WRITE, encoded(&data::WritePiece { draft: 1, offset: 0 }), b"mine".to_vec()),
        (kind::FINISH, encoded(&finish), Vec::new()),
        (kind::ABANDON, encoded(&data::Abandon { draft: 1, keep: false }), Vec::new()),
        (kind::APPLY, Vec::new(), encoded(&vec![(0u8, "tree/made", 0o755u32)])),
        (kind::BARRIER, encoded(&data::Barrier { durable: true, whole: true }), Vec::new()),
    ]
}

#[test]
fn an_operation_before_hello() {
    let session = Session::new();
    for (kind, meta, payload) in operations() {
        session.silent_peer().breaks("no hello", kind, &meta, &payload);
    }
    session.end(&[]);
}

#[test]
fn hello_twice_too_high_or_with_more_behind_it() {
    let session = Session::new();
    session.peer().breaks("hello twice", kind::HELLO, &encoded(&data::Hello { lane: 0 }), &[]);
    session.silent_peer().breaks("lane 64", kind::HELLO, &encoded(&data::Hello { lane: 64 }), &[]);
    session.silent_peer().breaks("a payload", kind::HELLO, &encoded(&data::Hello { lane: 0 }), b"x");
    session.silent_peer().breaks("two numbers", kind::HELLO, &[0, 0], &[]);
    session.end(&[]);
}

#[test]
fn answers_and_unknown_kinds_as_operations() {
    let session = Session::new();
    for kind in [11, 12, 63, 64, 65, 66, 67, 68, 69, 128, 255] {
        session.peer().breaks(&format!("kind {kind}"), kind, &[], &[]);
        session.peer().breaks(&format!("kind {kind} with more"), kind, b"meta", b"payload");
    }
    session.end(&[]);
}

#[test]
fn payloads_where_none_belong_and_none_where_they_do() {
    let session = Session::new();
    for (kind, meta, payload) in operations() {
        if payload.is_empty() {
            session.peer().breaks(&format!("a payload for kind {kind}"), kind, &meta, b"x");
        } else if kind != kind::WRITE_PACK {
            session.peer().breaks(&format!("no payload for kind {kind}"), kind, &meta, &[]);
        }
    }
    session.end(&[]);
}

#[test]
fn drafts_that_are_not_there() {
    let session = Session::new();
    let mut peer = session.peer();
    assert_eq!(peer.write(7, 0, b"mine", 4).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(peer.finish(7, &attributes(0o600)).unwrap_err().kind, ErrorKind::NotFound);
    peer.abandon(7);
    peer.begin(7, "tree/file", 4).unwrap();
    peer.write(7, 0, b"mine", 4).unwrap();
    peer.finish(7, &attributes(0o600)).unwrap();
    // It is finished: neither this connection nor another can write to it or finish it again.
    for mut peer in [peer, session.peer()] {
        assert_eq!(peer.write(7, 0, b"thin", 4).unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(peer.finish(7, &attributes(0o777)).unwrap_err().kind, ErrorKind::NotFound);
        peer.abandon(7);
    }
    assert_eq!(fs::read(session.path("root/tree/file")).unwrap(), b"mine");
    session.end(&["root/tree/file"]);
}

#[test]
fn drafts_that_are_there_already() {
    let session = Session::new();
    let mut peer = session.peer();
    peer.begin(7, "tree/file", 4).unwrap();
    assert_eq!(peer.begin(8, "tree/file", 4).unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(peer.begin(7, "tree/other", 4).unwrap_err().kind, ErrorKind::Protocol);
    peer.is_cut_off("a number twice");
    // The first draft is unaffected.
    let mut peer = session.peer();
    peer.write(7, 0, b"mine", 4).unwrap();
    peer.finish(7, &attributes(0o600)).unwrap();
    session.end(&["root/tree/file"]);
}

#[test]
fn an_unfinished_draft_is_never_seen() {
    let session = Session::new();
    let mut peer = session.peer();
    peer.begin(7, "tree/old", PIECE_BYTES + 1).unwrap();
    peer.write(7, 0, &[7; PIECE], PIECE_BYTES + 1).unwrap();
    assert_eq!(peer.finish(7, &attributes(0o600)).unwrap_err().kind, ErrorKind::Protocol);
    peer.is_cut_off("a byte is missing");
    session.end(&[]);
}

/// Begins a draft of two pieces, sends an invalid one, and checks that the draft never gets its name.
fn spoils(cipher: Cipher, why: &str, send: impl FnOnce(&mut Peer)) {
    let session = Session::with(grant(), cipher, |_, _| {});
    let mut peer = session.peer();
    let size = 2 * PIECE_BYTES;
    peer.begin(7, "tree/old", size).unwrap();
    send(&mut peer);
    // The error arrives at once if an answer was requested; the connection may be closed.
    let told = peer.receive().map(|got| got.error().kind);
    assert!(!matches!(told, Ok(ErrorKind::NotFound)), "{why}: {told:?}");
    // The rest may be sent correctly on another connection, but the draft is spoiled, or at least incomplete.
    let mut other = session.peer();
    let finished = other.finish(7, &attributes(0o600));
    assert!(finished.is_err(), "{why}");
    session.end(&[]);
}

fn piece(peer: &mut Peer, offset: u64, bytes: &[u8], crc: u64, value: [u8; 32]) {
    let meta = encoded(&data::WritePiece { draft: 7, offset });
    peer.send_checked(kind::WRITE, data::FLAG_ACKNOWLEDGE, &meta, bytes, crc, value);
}

fn sound_piece(peer: &mut Peer, offset: u64, bytes: &[u8]) {
    piece(peer, offset, bytes, crc64(bytes), [0; 32]);
}

#[test]
fn a_piece_that_begins_in_the_middle_of_one() {
    for offset in [1, PIECE_BYTES - 1, PIECE_BYTES + 1, u64::MAX] {
        spoils(Cipher::Aes128Gcm, "not aligned", |peer| sound_piece(peer, offset, b"mine"));
    }
}

#[test]
fn a_piece_that_is_too_long_or_empty() {
    spoils(Cipher::Aes128Gcm, "too long", |peer| sound_piece(peer, 0, &vec![7; PIECE + 1]));
    spoils(Cipher::Aes128Gcm, "empty", |peer| piece(peer, 0, &[], 0, [0; 32]));
}

#[test]
fn a_piece_beyond_the_size() {
    let last = u64::MAX / PIECE_BYTES * PIECE_BYTES;
    for offset in [2 * PIECE_BYTES, 1 << 62, last] {
        for cipher in [Cipher::Aes128Gcm, Cipher::None] {
            spoils(cipher, "beyond the size", |peer| sound_piece(peer, offset, &vec![7; PIECE]));
        }
    }
}

#[test]
fn pieces_that_overlap() {
    spoils(Cipher::Aes128Gcm, "twice the same", |peer| {
        sound_piece(peer, 0, &[7; 100]);
        assert_eq!(peer.answer().kind, kind::DONE);
        sound_piece(peer, 0, &vec![8; PIECE]);
    });
}

#[test]
fn a_piece_with_the_wrong_checksum() {
    let bytes = vec![7; PIECE];
    spoils(Cipher::Aes128Gcm, "wrong checksum", |peer| piece(peer, 0, &bytes, crc64(&bytes) ^ 1, [0; 32]));
    spoils(Cipher::Aes128Gcm, "no checksum", |peer| piece(peer, 0, &bytes, 0, [0; 32]));
}

#[test]
fn a_piece_with_the_wrong_digest() {
    let bytes = vec![7; PIECE];
    let mut value = piece_value(2 * PIECE_BYTES, 0, &bytes);
    value[31] ^= 1;
    spoils(Cipher::None, "wrong digest", |peer| piece(peer, 0, &bytes, 0, value));
    // The value of the same bytes elsewhere in the file, and their plain digest.
    let elsewhere = piece_value(2 * PIECE_BYTES, PIECE_BYTES, &bytes);
    spoils(Cipher::None, "the digest of another place", |peer| piece(peer, 0, &bytes, 0, elsewhere));
    let plain = *blake3::hash(&bytes).as_bytes();
    spoils(Cipher::None, "the plain digest", |peer| piece(peer, 0, &bytes, 0, plain));
}

#[test]
fn a_wrong_piece_is_not_made_good_by_a_right_one() {
    spoils(Cipher::Aes128Gcm, "wrong, then right", |peer| {
        let bytes = vec![7; PIECE];
        // No acknowledgement is requested, so the answer to the next piece must report the error.
        let meta = encoded(&data::WritePiece { draft: 7, offset: 0 });
        peer.send_checked(kind::WRITE, 0, &meta, &bytes, crc64(&bytes) ^ 1, [0; 32]);
        sound_piece(peer, PIECE_BYTES, &bytes);
    });
}

#[test]
fn payloads_that_do_not_match_their_checks() {
    for cipher in [Cipher::Aes128Gcm, Cipher::None] {
        let session = Session::with(grant(), cipher, |_, _| {});
        for (kind, meta, payload) in operations() {
            if payload.is_empty() || kind == kind::WRITE {
                continue;
            }
            let mut peer = session.peer();
            peer.send_checked(kind, 0, &meta, &payload, crc64(&payload) ^ 1, [1; 32]);
            assert_eq!(peer.answer().error().kind, ErrorKind::Corrupt, "kind {kind}");
            assert!(peer.receive().is_err());
        }
        session.end(&[]);
    }
}

#[test]
fn times_that_cannot_be() {
    let session = Session::new();
    let mut wrong = attributes(0o600);
    wrong.mtime.nanoseconds = 1_000_000_000;
    session.peer().breaks("a pack", kind::WRITE_PACK, &[], &pack("tree", "file", &wrong, b"mine"));
    let mut peer = session.peer();
    peer.begin(1, "tree/file", 0).unwrap();
    let finish = encoded(&data::Finish { draft: 1, attributes: wrong, digest: None });
    peer.breaks("a draft", kind::FINISH, &finish, &[]);
    session.peer().abandon(1);
    // Times outside the range of the file system are clamped.
    let mut far = attributes(0o600);
    for seconds in [i64::MIN, i64::MAX] {
        far.mtime.seconds = seconds;
        let _ = session.peer().store(&pack("tree", "file", &far, b"mine"));
    }
    session.end(&["root/tree/file"]);
}

#[test]
fn too_many_drafts() {
    let session = Session::new();
    let mut peer = session.peer();
    let begun = (0..5000).take_while(|draft| peer.begin(*draft, &format!("tree/{draft}"), 1).is_ok()).count();
    assert!((100..=4096).contains(&begun), "{begun} drafts");
    // Other connections can begin drafts again once these are abandoned.
    eventually("giving up drafts", || {
        let mut peer = session.peer();
        (0..begun as u64).for_each(|draft| peer.abandon(draft));
        true
    });
    session.end(&[]);
}
