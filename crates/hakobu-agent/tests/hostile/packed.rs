//! Invalid compressed content, and content that differs from its declaration.

use hakobu_core::block_table::Copied;
use hakobu_core::checksum::crc64;
use hakobu_core::digest::piece_value;
use hakobu_core::endpoint::{DraftKind, DraftParameters};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{Extent, PIECE_BYTES};
use hakobu_core::pack::PACK_BYTES_MAX;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::Cipher;
use hakobu_proto::data::{self, Assemble, FLAG_ACKNOWLEDGE, FLAG_COMPRESSED, Patch, kind};
use serde::Serialize;

use crate::bench::{Peer, Session, attributes, grant, pack};

const CIPHERS: [Cipher; 2] = [Cipher::Aes128Gcm, Cipher::None];
const PIECE: usize = PIECE_BYTES as usize;

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(content, 1).unwrap()
}

/// Builds a payload whose declaration need not be true. `value` is what the content is checked against if frames are
/// sealed.
fn payload(peer: &Peer, told_bytes: usize, value: [u8; 32], packed: &[u8]) -> Vec<u8> {
    let mut payload = (told_bytes as u32).to_le_bytes().to_vec();
    if peer.connection.is_sealed() {
        payload.extend_from_slice(&value);
    }
    payload.extend_from_slice(packed);
    payload
}

fn send(peer: &mut Peer, kind: u8, flags: u8, meta: &impl Serialize, payload: &[u8], crc: u64) {
    let mut encoded = Vec::new();
    data::encode(meta, &mut encoded).unwrap();
    let digest = *blake3::hash(payload).as_bytes();
    peer.send_checked(kind, flags | FLAG_COMPRESSED, &encoded, payload, crc, digest);
}

/// Sends valid content that is not a piece of a file.
fn send_sound(peer: &mut Peer, kind: u8, meta: &impl Serialize, content: &[u8]) {
    let value = *blake3::hash(content).as_bytes();
    let payload = payload(peer, content.len(), value, &zstd(content));
    send(peer, kind, 0, meta, &payload, crc64(content));
}

/// Writes the only piece of a file, of which anything may be wrong.
fn write(peer: &mut Peer, draft: u64, told_bytes: usize, packed: &[u8], content: &[u8]) {
    let value = piece_value(content.len() as u64, 0, content);
    let payload = payload(peer, told_bytes, value, packed);
    send(
        peer,
        kind::WRITE,
        FLAG_ACKNOWLEDGE,
        &data::WritePiece { draft, offset: 0 },
        &payload,
        crc64(content),
    );
}

#[test]
fn content_of_every_kind_arrives_as_it_was() {
    for cipher in CIPHERS {
        let session = Session::with(grant(), cipher, |_, _| {});
        let mut peer = session.peer();
        let content = b"all the same ".repeat(PIECE / 13);
        peer.begin(1, "tree/written", content.len() as u64).unwrap();
        write(&mut peer, 1, content.len(), &zstd(&content), &content);
        assert_eq!(peer.answer().kind, kind::DONE);
        peer.finish(1, &attributes(0o644)).unwrap();
        assert_eq!(std::fs::read(session.path("root/tree/written")).unwrap(), content);

        send_sound(&mut peer, kind::WRITE_PACK, &(), &pack("tree", "stored", &attributes(0o644), &content));
        assert_eq!(peer.answer().kind, kind::PACK_WRITTEN);
        assert_eq!(std::fs::read(session.path("root/tree/stored")).unwrap(), content);

        let content = vec![b'p'; 10_000];
        let extent = Extent { offset: 0, length: 10_000 };
        let value = piece_value(10_000, 0, &content);
        let path = EntryPath::new("tree/old").unwrap();
        let begin = DraftParameters { kind: DraftKind::Update, ..DraftParameters::file(path, 10_000) };
        let complete = |draft| data::Complete { draft, extent, value: None, kept: true };
        for draft in [2, 3] {
            peer.send(kind::BEGIN, 0, &data::BeginDraft { draft, begin: begin.clone() }, &[]);
            assert_eq!(peer.answer().kind, kind::BEGUN);
            if draft == 2 {
                let patch = Patch { draft, extent, changed: 0b111, value };
                send_sound(&mut peer, kind::PATCH, &patch, &content);
            } else {
                let value = *blake3::hash(&value).as_bytes();
                let assemble = Assemble { draft, extent, copies: Vec::<Copied>::new(), value };
                send_sound(&mut peer, kind::ASSEMBLE, &assemble, &content);
            }
            peer.send(kind::COMPLETE, 0, &complete(draft), &[]);
            assert_eq!(peer.answer().kind, kind::DONE, "{draft}");
            peer.finish(draft, &attributes(0o644)).unwrap();
            assert_eq!(std::fs::read(session.path("root/tree/old")).unwrap(), content);
        }
        session.end(&["root/tree/written", "root/tree/stored", "root/tree/old"]);
    }
}

#[test]
fn payloads_that_are_none_end_the_connection() {
    let content = b"all the same ".repeat(1000);
    let packed = zstd(&content);
    let bomb = zstd(&vec![0; 512 << 20]);
    assert!(bomb.len() < PIECE, "{}", bomb.len());
    let all = content.len();
    let halves = [zstd(&content[..6000]), zstd(&content[6000..])].concat();
    let cases: [(&str, usize, &[u8]); 13] = [
        ("more than a piece", PIECE + 1, &packed),
        ("more than anybody has", u32::MAX as usize, &packed),
        ("not shrunk", packed.len() + 4, &packed),
        ("not shrunk at all", 0, &packed),
        ("more comes out", all - 1, &packed),
        ("less comes out", all + 1, &packed),
        ("a bomb", PIECE, &bomb),
        ("cut short", all, &packed[..packed.len() - 1]),
        ("without its beginning", all, &packed[1..]),
        ("nothing", all, &[]),
        ("no zstd", all, &[0x55; 100]),
        ("two frames", all, &halves),
        ("another frame behind it", all, &[&packed[..], &zstd(b"more")].concat()),
    ];
    for cipher in CIPHERS {
        let session = Session::with(grant(), cipher, |_, _| {});
        for (index, (why, told_bytes, packed)) in cases.iter().enumerate() {
            let draft = index as u64 + 1;
            let mut peer = session.peer();
            peer.begin(draft, &format!("tree/{index}"), all as u64).unwrap();
            write(&mut peer, draft, *told_bytes, packed, &content);
            peer.is_cut_off(why);
        }
        let mut peer = session.peer();
        peer.begin(100, "tree/cut", all as u64).unwrap();
        let meta = data::WritePiece { draft: 100, offset: 0 };
        send(&mut peer, kind::WRITE, FLAG_ACKNOWLEDGE, &meta, &[1, 2, 3], 0);
        peer.is_cut_off("no head");
        // Repeat the checks for packs, which may be longer.
        for (why, told_bytes) in [("a long pack", PACK_BYTES_MAX + 1), ("less comes out", PACK_BYTES_MAX)] {
            let mut peer = session.peer();
            let payload = payload(&peer, told_bytes, [0; 32], &packed);
            send(&mut peer, kind::WRITE_PACK, 0, &(), &payload, 0);
            peer.is_cut_off(why);
        }
        for kind in [kind::PATCH, kind::ASSEMBLE] {
            let mut peer = session.peer();
            let extent = Extent { offset: 0, length: all as u64 };
            let payload = payload(&peer, PIECE + 1, [0; 32], &packed);
            match kind {
                kind::PATCH => {
                    let patch = Patch { draft: 1, extent, changed: 1, value: [0; 32] };
                    send(&mut peer, kind, 0, &patch, &payload, 0);
                }
                _ => {
                    let assemble = Assemble { draft: 1, extent, copies: Vec::new(), value: [0; 32] };
                    send(&mut peer, kind, 0, &assemble, &payload, 0);
                }
            }
            peer.is_cut_off("more than a piece");
        }
        session.end(&[]);
    }
}

#[test]
fn what_is_no_content_is_never_compressed() {
    let session = Session::new();
    for kind in 1..=64 {
        if !hakobu_proto::compressed::is_content(kind) {
            let mut peer = session.peer();
            let payload = payload(&peer, 1000, [0; 32], &zstd(&[0; 1000]));
            peer.send_bytes(kind, FLAG_ACKNOWLEDGE | FLAG_COMPRESSED, &[], &payload);
            peer.is_cut_off("compression where it does not belong");
        }
    }
    session.end(&[]);
}

/// Tests content that has the declared length but differs.
#[test]
fn other_content_than_was_sent_fails_the_draft_alone() {
    let (content, other) = (vec![1; 5000], vec![2; 5000]);
    for cipher in CIPHERS {
        let session = Session::with(grant(), cipher, |_, _| {});
        let mut peer = session.peer();
        peer.begin(1, "tree/new", 5000).unwrap();
        write(&mut peer, 1, 5000, &zstd(&other), &content);
        assert_eq!(peer.answer().error().kind, ErrorKind::Corrupt);
        assert!(peer.finish(1, &attributes(0o644)).is_err());
        session.end(&[]);
    }
}

/// Without encryption, the decompressor must get only data that the sender has authenticated.
#[test]
fn a_sealed_payload_is_checked_before_it_is_unpacked() {
    let session = Session::with(grant(), Cipher::None, |_, _| {});
    let mut peer = session.peer();
    let content = vec![1; 5000];
    for (draft, packed) in [(1, zstd(&content)), (2, vec![0x55; 100])] {
        peer.begin(draft, &format!("tree/new{draft}"), 5000).unwrap();
        let mut meta = Vec::new();
        data::encode(&data::WritePiece { draft, offset: 0 }, &mut meta).unwrap();
        let payload = payload(&peer, 5000, piece_value(5000, 0, &content), &packed);
        let flags = FLAG_ACKNOWLEDGE | FLAG_COMPRESSED;
        peer.send_checked(kind::WRITE, flags, &meta, &payload, 0, [7; 32]);
        // The decompressor would have rejected the second one, which ends the connection.
        assert_eq!(peer.answer().error().kind, ErrorKind::Corrupt);
        assert!(peer.finish(draft, &attributes(0o644)).is_err());
    }
    session.end(&[]);
}
