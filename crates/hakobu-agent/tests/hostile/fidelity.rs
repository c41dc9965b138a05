//! Hard links, extended attributes and digests that a peer must not have.

use std::fs;
use std::os::unix::fs::MetadataExt;

use hakobu_core::content::content_sum;
use hakobu_core::endpoint::Change;
use hakobu_core::error::ErrorKind;
use hakobu_core::extended::{Classes, EXTENDED_BYTES_MAX, Extended};
use hakobu_core::grant::Grant;
use hakobu_core::pack::{PackBuilder, RecordHead};
use hakobu_core::path::EntryPath;
use hakobu_proto::control::Cipher;
use hakobu_proto::data::{self, StoredReply, kind};
use rustix::fs::lgetxattr;

use crate::bench::{Session, attributes, grant, pack};

fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

fn link(at: &str, to: &str, replaces: bool) -> Change {
    Change::Link { path: path(at), to: path(to), replaces }
}

#[test]
fn links_of_what_is_not_granted() {
    let session = Session::new();
    let mut peer = session.peer();
    for (at, to) in [
        ("tree/new", "private"),
        ("private", "tree/old"),
        ("new", "tree/old"),
        ("tree/new", "tree2/x"),
        ("tree/new", "name/x"),
    ] {
        for replaces in [false, true] {
            let failed = match peer.apply(&[link(at, to, replaces)]) {
                Ok(mut failures) => failures.remove(0).1,
                Err(error) => error,
            };
            assert_eq!(failed.kind, ErrorKind::BeyondGrant, "{at} to {to}");
        }
    }
    session.end(&[]);
}

#[test]
fn links_through_links_and_of_directories() {
    let session = Session::with(grant(), Cipher::Aes128Gcm, |root, outside| {
        std::os::unix::fs::symlink(outside, root.join("tree/door")).unwrap();
        fs::create_dir(root.join("tree/dir")).unwrap();
    });
    let mut peer = session.peer();
    // A directory replaces the symbolic link in the path, and is empty.
    for (at, to) in [("tree/new", "tree/door/secret"), ("tree/new", "tree/dir"), ("tree/new", "tree/none")] {
        let failures = peer.apply(&[link(at, to, false)]).unwrap();
        assert_eq!(failures.len(), 1, "{at} to {to}");
    }
    assert_eq!(peer.apply(&[link("tree/other", "tree/old", false)]).unwrap(), []);
    // A repeated link, or a link to itself, changes nothing.
    assert_eq!(peer.apply(&[link("tree/other", "tree/old", true)]).unwrap(), []);
    assert_eq!(peer.apply(&[link("tree/old", "tree/old", true)]).unwrap(), []);
    let inode = |name: &str| fs::metadata(session.path("root/tree").join(name)).unwrap().ino();
    assert_eq!(inode("old"), inode("other"));
    session.end(&["root/tree/door", "root/tree/other"]);
}

fn extended(name: &str, value: &[u8]) -> Extended {
    Extended::new(Classes::USUAL, &mut [(name.as_bytes().to_vec(), value.to_vec())]).unwrap()
}

/// A capability in the kernel's second format, with all bits set.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 0, 255, 1, 0, 0, 0, 0, 0, 0];

#[test]
fn attributes_that_give_rights() {
    let session = Session::new();
    let mut peer = session.peer();
    for (index, (name, value)) in
        [("security.capability", &CAPABILITY[..]), ("trusted.hakobu", b"x"), ("security.other", b"x")]
            .into_iter()
            .enumerate()
    {
        let block = extended(name, value);
        let mut packed = PackBuilder::default();
        packed.directory(&path("tree"));
        let head =
            RecordHead { extended: Some(block.as_ref()), ..RecordHead::new(b"packed", attributes(0o700)) };
        packed.whole_file(&head.replacing(index > 0), b"", content_sum(b""));
        assert_eq!(peer.store(&packed.finish()).unwrap(), [], "{name}");
        peer.begin(1, "tree/large", 4).unwrap();
        peer.write(1, 0, b"mine", 4).unwrap();
        let finish = data::Finish { draft: 1, attributes: attributes(0o700), digest: None };
        peer.send(kind::FINISH, 0, &finish, block.as_bytes());
        let lost: StoredReply = peer.answer().payload();
        assert_eq!(lost.losses.len(), 1, "{name}");
        let attributes = attributes(0o600);
        let change = Change::Attributes { path: path("tree/old"), attributes, extended: Some(block.clone()) };
        assert_eq!(peer.apply(&[change]).unwrap(), []);
        let change = Change::Directory { path: path("tree"), attributes, extended: Some(block) };
        assert_eq!(peer.apply(&[change]).unwrap(), []);
        for entry in ["packed", "large", "old", ""] {
            let mut room = [0; 64];
            assert!(
                lgetxattr(session.path("root/tree").join(entry), name, &mut room[..]).is_err(),
                "{entry}"
            );
        }
    }
    session.end(&["root/tree/packed", "root/tree/large", "root/tree/old", "root/tree"]);
}

#[test]
fn attributes_that_are_none() {
    let session = Session::new();
    let begun = |peer: &mut crate::bench::Peer, draft: u64| {
        peer.begin(draft, &format!("tree/large-{draft}"), 0).unwrap();
        let mut meta = Vec::new();
        let finish = data::Finish { draft, attributes: attributes(0o600), digest: None };
        data::encode(&finish, &mut meta).unwrap();
        meta
    };
    let mut other_class = extended("user.x", b"y").into_bytes();
    other_class[0] = 2;
    let mut cut = extended("user.x", b"y").into_bytes();
    cut.pop();
    for (draft, (why, payload)) in [
        ("too long", vec![0; EXTENDED_BYTES_MAX + 1]),
        ("no count", vec![1]),
        ("another class", other_class),
        ("an early end", cut),
    ]
    .into_iter()
    .enumerate()
    {
        let mut peer = session.peer();
        let meta = begun(&mut peer, draft as u64);
        peer.breaks(why, kind::FINISH, &meta, &payload);
    }
    session.end(&[]);
}

#[test]
fn digests_of_what_is_not_granted() {
    let session = Session::with(grant(), Cipher::Aes128Gcm, |root, outside| {
        std::os::unix::fs::symlink(outside, root.join("tree/door")).unwrap();
    });
    let mut peer = session.peer();
    let mut ask = |directory: &str, name: &str| {
        let names = vec![data::ByteBuf(name.as_bytes().to_vec())];
        let mut payload = Vec::new();
        data::encode(&data::Digests { directory: path(directory), names, key: None }, &mut payload).unwrap();
        peer.send(kind::DIGEST, 0, &(), &payload);
        let got = peer.answer();
        match got.kind {
            kind::DIGESTED => got.payload::<data::DigestReply>().0.remove(0),
            _ => Err(got.error()),
        }
    };
    let old = fs::read(session.path("root/tree/old")).unwrap();
    assert_eq!(ask("tree", "old").unwrap(), *blake3::hash(&old).as_bytes());
    assert_eq!(ask("", "private").unwrap_err().kind, ErrorKind::BeyondGrant);
    assert_eq!(ask("tree2", "x").unwrap_err().kind, ErrorKind::BeyondGrant);
    assert!(ask("tree/door", "secret").is_err());
    for name in ["..", "", "a/b", "."] {
        assert!(ask("tree", name).is_err(), "{name}");
    }
    session.end(&[]);
}

#[test]
fn writing_where_only_reading_was_granted() {
    let only = Grant { only_reads: true, may_remove: true, ..grant() };
    let session = Session::with(only, Cipher::Aes128Gcm, |_, _| {});
    let mut peer = session.peer();
    let refused = |result: Result<Vec<(u32, hakobu_core::Error)>, hakobu_core::Error>| {
        assert_eq!(result.unwrap_err().kind, ErrorKind::BeyondGrant);
    };
    refused(peer.store(&pack("tree", "new", &attributes(0o600), b"mine")));
    refused(peer.apply(&[Change::MakeDirectory { path: path("tree/new"), mode: 0o700 }]));
    refused(peer.apply(&[Change::Remove { path: path("tree/old"), directory: false, kept_names: 1 }]));
    refused(peer.apply(&[link("tree/new", "tree/old", false)]));
    assert_eq!(peer.begin(1, "tree/new", 4).unwrap_err().kind, ErrorKind::BeyondGrant);
    session.end_unwritten(&[]);
}
