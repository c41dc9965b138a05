//! Symbolic links in the target's tree, created by others or by the peer itself: none is followed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use hakobu_core::endpoint::Change;
use hakobu_core::entry::EntryKind;
use hakobu_core::error::ErrorKind;
use hakobu_core::extended::Classes;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::pack::{PackBuilder, RecordHead};
use hakobu_core::path::EntryPath;
use hakobu_proto::control::Cipher;
use hakobu_proto::data::{self, kind};
use hakobu_proto::listings::Assembler;

use crate::bench::{Session, attributes, grant, pack};

/// Creates `door`, a link to the directory outside, and `leak`, a link to a file there, in the tree.
fn plant(root: &Path, outside: &Path) {
    symlink(outside, root.join("tree/door")).unwrap();
    symlink(outside.join("secret"), root.join("tree/leak")).unwrap();
}

fn session() -> Session {
    Session::with(grant(), Cipher::Aes128Gcm, plant)
}

fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

#[test]
fn a_pack_goes_into_a_new_directory_instead_of_the_link() {
    let session = session();
    let mut peer = session.peer();
    let failures = peer.store(&pack("tree/door/inner", "file", &attributes(0o600), b"mine")).unwrap();
    assert_eq!(failures, []);
    assert_eq!(fs::read(session.path("root/tree/door/inner/file")).unwrap(), b"mine");
    assert!(fs::symlink_metadata(session.path("root/tree/door")).unwrap().is_dir());
    session.end(&["root/tree/door"]);
}

#[test]
fn a_file_takes_the_place_of_the_link() {
    let session = session();
    let mut peer = session.peer();
    assert_eq!(peer.store(&pack("tree", "leak", &attributes(0o600), b"mine")).unwrap(), []);
    assert!(fs::symlink_metadata(session.path("root/tree/leak")).unwrap().is_file());
    session.end(&["root/tree/leak"]);
}

#[test]
fn a_draft_takes_the_place_of_the_link() {
    let session = session();
    let mut peer = session.peer();
    for (draft, at) in [(1, "tree/leak"), (2, "tree/door/secret"), (3, "tree/door/inner/file")] {
        peer.begin(draft, at, 4).unwrap();
        peer.write(draft, 0, b"mine", 4).unwrap();
        peer.finish(draft, &attributes(0o600)).unwrap();
        assert!(fs::symlink_metadata(session.path("root").join(at)).unwrap().is_file(), "{at}");
    }
    session.end(&["root/tree/leak", "root/tree/door"]);
}

#[test]
fn a_link_that_the_peer_made_is_no_way_out_either() {
    let session = Session::new();
    let mut peer = session.peer();
    let mut both = PackBuilder::default();
    both.directory(&path("tree"));
    let outside = session.path("outside").into_os_string().into_encoded_bytes();
    both.symlink(&RecordHead::new(b"door", attributes(0o777)), &outside);
    let mut both = both.finish();
    both.extend(pack("tree/door", "secret", &attributes(0o600), b"mine"));
    assert_eq!(peer.store(&both).unwrap(), []);
    // Repeat it from another connection, which knows the directory as it was.
    let mut link = PackBuilder::default();
    link.directory(&path("tree"));
    link.symlink(&RecordHead::new(b"other", attributes(0o777)), &outside);
    assert_eq!(peer.store(&link.finish()).unwrap(), []);
    let mut second = session.peer();
    assert_eq!(second.store(&pack("tree/other/inner", "file", &attributes(0o600), b"mine")).unwrap(), []);
    session.end(&["root/tree/door", "root/tree/other"]);
}

#[test]
fn changes_apply_to_the_link_itself_or_fail() {
    let session = session();
    let mut peer = session.peer();
    let attributes = attributes(0o4777);
    // The link's own time is set; its mode is meaningless.
    assert_eq!(
        peer.apply(&[Change::Attributes { path: path("tree/leak"), attributes, extended: None }]).unwrap(),
        []
    );
    for beyond in ["tree/door/secret", "tree/door/inner"] {
        let failures =
            peer.apply(&[Change::Attributes { path: path(beyond), attributes, extended: None }]).unwrap();
        assert_eq!(failures[0].1.kind, ErrorKind::Conflict, "{beyond}");
    }
    let made = Change::MakeDirectory { path: path("tree/door/made"), mode: 0o777 };
    assert_eq!(peer.apply(&[made]).unwrap(), []);
    assert!(fs::symlink_metadata(session.path("root/tree/door")).unwrap().is_dir());
    session.end(&["root/tree/door"]);
}

#[test]
fn nothing_behind_a_link_is_told() {
    let session = session();
    let mut peer = session.peer();
    for beyond in ["tree/door", "tree/door/inner"] {
        let mut directories = Vec::new();
        data::encode(&vec![beyond], &mut directories).unwrap();
        peer.send_bytes(kind::LIST, 0, &[0xff, 0xff, 1, 0, 15], &directories);
        let mut assembler = Assembler::new(100);
        assembler.frame(&peer.answer().payload).unwrap();
        let hakobu_core::endpoint::TargetOutcome::Listed(listed) = assembler.finish().unwrap() else {
            panic!()
        };
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].result.as_ref().unwrap_err().kind, ErrorKind::Conflict, "{beyond}");
    }
    peer.send(
        kind::STAT,
        0,
        &data::StatRequest { path: path("tree/door/secret"), extended: Classes::USUAL },
        &[],
    );
    let got = peer.answer();
    assert!(got.kind == kind::FAILED || got.meta == [0], "{got:?}");
    peer.send(kind::STAT, 0, &data::StatRequest { path: path("tree/leak"), extended: Classes::USUAL }, &[]);
    let data::StatReply(found) = data::decode(&peer.answer().meta).unwrap();
    assert_eq!(found.unwrap().kind, EntryKind::Symlink);
    session.end(&[]);
}

#[test]
fn descendants_are_not_sought_behind_links() {
    let session = session();
    let mut peer = session.peer();
    let mut directories = Vec::new();
    data::encode(&vec!["tree"], &mut directories).unwrap();
    peer.send_bytes(kind::LIST, 0, &[0xff, 0xff, 1, 0, 15], &directories);
    let mut assembler = Assembler::new(100);
    assembler.frame(&peer.answer().payload).unwrap();
    let hakobu_core::endpoint::TargetOutcome::Listed(listed) = assembler.finish().unwrap() else { panic!() };
    assert_eq!(listed.len(), 1, "only the tree itself");
    session.end(&[]);
}

/// A peer may neither replace nor follow a symbolic link in the path of the granted place.
#[test]
fn a_link_on_the_way_to_the_granted_place() {
    let places = vec![GrantedPlace::new(path("way/in"), true), grant().places[0].clone()];
    let grant = Grant { places, ..grant() };
    let session = Session::with(grant, Cipher::Aes128Gcm, |root, outside| {
        symlink(outside, root.join("way")).unwrap();
        fs::create_dir(outside.join("in")).unwrap();
    });
    let mut peer = session.peer();
    let failures = peer.store(&pack("way/in", "file", &attributes(0o600), b"mine")).unwrap();
    assert_eq!(failures.len(), 1);
    assert!(peer.begin(1, "way/in/file", 4).is_err());
    let made = Change::MakeDirectory { path: path("way/in/made"), mode: 0o777 };
    assert_eq!(peer.apply(&[made]).unwrap().len(), 1);
    session.end(&[]);
}
