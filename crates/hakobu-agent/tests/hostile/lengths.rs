//! Lengths beyond their limits: a declared length is never trusted.

use hakobu_core::endpoint::DraftParameters;
use hakobu_core::pack::PACK_RECORDS_MAX;
use hakobu_proto::control::Cipher;
use hakobu_proto::data::{self, CHANGES_MAX, LIST_DIRECTORIES_MAX, kind};
use hakobu_proto::frame::{HEADER_BYTES, META_LIMIT_BYTES, PAYLOAD_LIMIT_BYTES, SEAL_BYTES};

use crate::bench::{Peer, Session, attributes, grant, pack};

/// Sends a header that no sender of ours would make, on a connection without records, so that it arrives unchanged. Its
/// lengths are checked before its seal.
fn send_header(peer: &Peer, meta_bytes: u32, payload_bytes: u32, reserved: u16) {
    let mut header = vec![kind::STAT, 0];
    header.extend_from_slice(&reserved.to_le_bytes());
    header.extend_from_slice(&meta_bytes.to_le_bytes());
    header.extend_from_slice(&payload_bytes.to_le_bytes());
    header.resize(HEADER_BYTES + SEAL_BYTES, 0);
    rustix::io::write(&peer.connection, &header).unwrap();
}

#[test]
fn headers_that_announce_too_much() {
    let session = Session::with(grant(), Cipher::None, |_, _| {});
    let (meta, payload) = (META_LIMIT_BYTES as u32, PAYLOAD_LIMIT_BYTES as u32);
    for (meta, payload, reserved) in [
        (meta + 1, 0, 0),
        (u32::MAX, 0, 0),
        (0, payload + 1, 0),
        (0, u32::MAX, 0),
        (u32::MAX, u32::MAX, 0),
        (0, 0, 1),
    ] {
        let mut peer = session.peer();
        peer.connection.flush().unwrap();
        send_header(&peer, meta, payload, reserved);
        peer.is_cut_off("a header beyond the limits");
    }
    // Within the limits, but without the key.
    let mut peer = session.peer();
    send_header(&peer, 0, 0, 0);
    peer.is_cut_off("a header without its seal");
    session.end(&[]);
}

#[test]
fn a_pack_of_too_many_records() {
    let session = Session::new();
    let mut many = vec![1, 4, 0];
    many.extend_from_slice(b"tree");
    let one = &pack("tree", "file", &attributes(0o644), b"x")[7..];
    (0..=PACK_RECORDS_MAX).for_each(|_| many.extend_from_slice(one));
    session.peer().breaks("too many records", kind::WRITE_PACK, &[], &many);
    session.end(&[]);
}

#[test]
fn records_that_end_early() {
    let session = Session::new();
    let whole = pack("tree", "file", &attributes(0o644), b"content");
    for end in 1..whole.len() {
        if end != 7 {
            session.peer().breaks("a record that ends early", kind::WRITE_PACK, &[], &whole[..end]);
        }
    }
    let mut huge = whole.clone();
    let length_at = 7 + 28;
    huge[length_at..length_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    session.peer().breaks("content longer than the pack", kind::WRITE_PACK, &[], &huge);
    session.end(&[]);
}

#[test]
fn too_many_directories_at_once() {
    let session = Session::new();
    let mut directories = Vec::new();
    data::encode(&vec!["tree"; LIST_DIRECTORIES_MAX + 1], &mut directories).unwrap();
    session.peer().breaks("too many directories", kind::LIST, &[0, 0, 0], &directories);
    session.end(&[]);
}

#[test]
fn too_many_changes_at_once() {
    let session = Session::new();
    let mut changes = Vec::new();
    data::encode(&vec![(0u8, "tree/new", 0o755u32); CHANGES_MAX + 1], &mut changes).unwrap();
    session.peer().breaks("too many changes", kind::APPLY, &[], &changes);
    session.end(&[]);
}

#[test]
fn too_many_names_and_digests_at_once() {
    let session = Session::new();
    let (mut names, mut digests) = (Vec::new(), Vec::new());
    let name = data::ByteBuf(b"x".to_vec());
    data::encode(&vec![(0u8, 0u32, &name); data::NAMES_MAX + 1], &mut names).unwrap();
    session.peer().breaks("too many names", kind::NUMBERS, &[], &names);
    data::encode(&("tree", vec![&name; CHANGES_MAX + 1]), &mut digests).unwrap();
    session.peer().breaks("too many digests", kind::DIGEST, &[], &digests);
    session.end(&[]);
}

#[test]
fn lists_that_claim_more_than_they_hold() {
    let session = Session::new();
    // 2^63 elements, none of which exists.
    let claim = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    session.peer().breaks("a list without elements", kind::LIST, &[0, 0, 0], &claim);
    session.peer().breaks("changes that are not there", kind::APPLY, &[], &claim);
    session.peer().breaks("a path that is not there", kind::STAT, &claim, &[]);
    session.end(&[]);
}

#[test]
fn metas_that_end_early_or_go_on() {
    let session = Session::new();
    let mut begin = Vec::new();
    let path = hakobu_core::path::EntryPath::new("tree/file").unwrap();
    data::encode(&data::BeginDraft { draft: 300, begin: DraftParameters::file(path, 5) }, &mut begin)
        .unwrap();
    for end in 0..begin.len() {
        session.peer().breaks("a meta that ends early", kind::BEGIN, &begin[..end], &[]);
    }
    begin.push(0);
    session.peer().breaks("a meta that goes on", kind::BEGIN, &begin, &[]);
    session.peer().breaks("a number for nothing", kind::WRITE, &[0; 64], b"x");
    session.end(&[]);
}

#[test]
fn the_largest_budget_is_not_given() {
    let session = Session::new();
    let mut peer = session.peer();
    let (mut budget, mut directories) = (Vec::new(), Vec::new());
    data::encode(&(u32::MAX, false, 0u8), &mut budget).unwrap();
    data::encode(&vec!["tree"], &mut directories).unwrap();
    peer.send_bytes(kind::LIST, 0, &budget, &directories);
    assert_eq!(peer.answer().kind, kind::LISTED);
    session.end(&[]);
}
