//! Writes beyond the grant.

use std::fs;
use std::os::unix::fs::MetadataExt;

use hakobu_core::endpoint::{Change, DraftKind, DraftParameters};
use hakobu_core::entry::{Attributes, EntryKind};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::extended::Classes;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::pack::{PackBuilder, RecordHead};
use hakobu_core::path::EntryPath;
use hakobu_proto::control::Cipher;
use hakobu_proto::data::{self, kind};
use hakobu_proto::listings::Assembler;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::bench::{Session, attributes, grant, pack};

fn path(text: &str) -> EntryPath {
    EntryPath::new(text).unwrap()
}

/// Checks that the operation as a whole, or its only entry, is refused.
fn is_refused(result: Result<Vec<(u32, Error)>, Error>, what: &str) {
    let error = match result {
        Ok(mut failures) => failures.pop().unwrap_or_else(|| panic!("{what}: done")).1,
        Err(error) => error,
    };
    let refused = [ErrorKind::BeyondGrant, ErrorKind::NotFound, ErrorKind::Conflict];
    assert!(refused.contains(&error.kind), "{what}: {error}");
}

#[test]
fn other_names_and_trees() {
    let session = Session::new();
    for (directory, name) in [
        ("", "private"),
        ("", "new"),
        ("", "tree2"),
        ("name", "x"),
        ("tree2", "x"),
        ("a/b", "x"),
        ("", "nam"),
    ] {
        let mut peer = session.peer();
        is_refused(peer.store(&pack(directory, name, &attributes(0o600), b"mine")), name);
        let whole = [directory, name].join("/");
        let whole = whole.trim_start_matches('/');
        assert_eq!(peer.begin(1, whole, 4).unwrap_err().kind, ErrorKind::BeyondGrant, "{whole}");
        let (path, attributes) = (path(whole), attributes(0o777));
        for change in [
            Change::MakeDirectory { path: path.clone(), mode: 0o755 },
            Change::Directory { path: path.clone(), attributes, extended: None },
            Change::Attributes { path, attributes, extended: None },
        ] {
            is_refused(peer.apply(&[change]), whole);
        }
    }
    session.end(&[]);
}

#[test]
fn the_root_itself() {
    let session = Session::new();
    let mut peer = session.peer();
    let (path, attributes) = (EntryPath::root(), attributes(0o777));
    for change in [
        Change::MakeDirectory { path: path.clone(), mode: 0o755 },
        Change::Directory { path: path.clone(), attributes, extended: None },
        Change::Attributes { path, attributes, extended: None },
    ] {
        is_refused(peer.apply(&[change]), "the root");
    }
    assert_eq!(peer.begin(1, "", 4).unwrap_err().kind, ErrorKind::BeyondGrant);
    session.end(&[]);
}

#[test]
fn other_places_are_not_told_either() {
    let session = Session::new();
    let mut peer = session.peer();
    for beyond in ["private", "name/x", "tree2"] {
        let inspect = data::StatRequest { path: path(beyond), extended: Classes::USUAL };
        peer.send(kind::STAT, 0, &inspect, &[]);
        assert_eq!(peer.answer().error().kind, ErrorKind::BeyondGrant, "{beyond}");
        let mut directories = Vec::new();
        data::encode(&vec![beyond], &mut directories).unwrap();
        peer.send_bytes(kind::LIST, 0, &[0, 0, 0], &directories);
        let mut assembler = Assembler::new(100);
        assembler.frame(&peer.answer().payload).unwrap();
        let hakobu_core::endpoint::TargetOutcome::Listed(listed) = assembler.finish().unwrap() else {
            panic!()
        };
        assert_eq!(listed[0].result.as_ref().unwrap_err().kind, ErrorKind::BeyondGrant, "{beyond}");
    }
    session.end(&[]);
}

fn limited(bytes: u64) -> Session {
    Session::with(Grant { bytes_max: Some(bytes), ..grant() }, Cipher::Aes128Gcm, |_, _| {})
}

#[test]
fn more_bytes_than_granted() {
    let session = limited(1000);
    let mut peer = session.peer();
    let beyond = |result: Result<(), Error>| assert_eq!(result.unwrap_err().kind, ErrorKind::BeyondGrant);
    beyond(peer.begin(1, "tree/a", 1001));
    beyond(peer.begin(1, "tree/a", i64::MAX as u64));
    is_refused(peer.store(&pack("tree", "a", &attributes(0o600), &[7; 1001])), "a pack");
    peer.begin(1, "tree/a", 600).unwrap();
    beyond(peer.begin(2, "tree/b", 401));
    // Sums that overflow.
    peer.begin(2, "tree/b", 400).unwrap();
    for draft in 3..7 {
        beyond(peer.begin(draft, "tree/c", i64::MAX as u64));
    }
    beyond(peer.begin(3, "tree/c", 1));
    is_refused(peer.store(&pack("tree", "c", &attributes(0o600), b"x")), "one byte more");
    // An abandoned draft returns its bytes once.
    let mut other = session.peer();
    peer.abandon(1);
    other.abandon(1);
    peer.abandon(1);
    peer.begin(1, "tree/a", 600).unwrap();
    beyond(other.begin(3, "tree/c", 1));
    peer.abandon(1);
    peer.abandon(2);
    session.end(&[]);
}

#[test]
fn a_draft_holds_no_more_than_it_was_begun_with() {
    let session = limited(1000);
    let mut peer = session.peer();
    peer.begin(1, "tree/a", 10).unwrap();
    assert!(peer.write(1, 0, &[7; 11], 10).is_err());
    peer.is_cut_off("bytes beyond the file's size");
    session.peer().abandon(1);
    session.end(&[]);
}

/// If lanes finish and abandon the same draft at the same time, the grant must not count its bytes as returned while
/// the file exists.
#[test]
fn a_draft_ends_once() {
    let session = limited(1000);
    let mut kept = 0;
    for round in 0..40u64 {
        let (mut one, mut two) = (session.peer(), session.peer());
        let at = format!("tree/{round}");
        if one.begin(round, &at, 100).is_err() {
            break;
        }
        one.write(round, 0, &[7; 100], 100).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = one.finish(round, &attributes(0o600));
            });
            scope.spawn(|| match round % 2 {
                0 => two.abandon(round),
                _ => drop(two.finish(round, &attributes(0o600))),
            });
        });
        kept += u64::from(session.path("root").join(at).exists());
    }
    assert!(kept * 100 <= 1000, "{kept} files of 100 bytes");
    // Only the unused bytes are left.
    let mut peer = session.peer();
    assert!(peer.begin(99, "tree/rest", 1000 - kept * 100 + 1).is_err());
    for round in 0..40 {
        let _ = fs::remove_file(session.path(&format!("root/tree/{round}")));
    }
}

fn stored_mode(session: &Session, name: &str) -> u32 {
    fs::symlink_metadata(session.path("root/tree").join(name)).unwrap().mode() & 0o7777
}

#[test]
fn set_id_bits() {
    let session = Session::new();
    let mut peer = session.peer();
    let wanted = attributes(0o6755);
    assert_eq!(peer.store(&pack("tree", "packed", &wanted, b"mine")).unwrap(), []);
    peer.begin(1, "tree/large", 4).unwrap();
    peer.write(1, 0, b"mine", 4).unwrap();
    peer.finish(1, &wanted).unwrap();
    assert_eq!(peer.store(&pack("tree", "changed", &attributes(0o600), b"mine")).unwrap(), []);
    let changes = [
        Change::Attributes { path: path("tree/changed"), attributes: wanted, extended: None },
        Change::MakeDirectory { path: path("tree/made"), mode: 0o6755 },
        Change::Directory { path: path("tree/made"), attributes: wanted, extended: None },
    ];
    assert_eq!(peer.apply(&changes).unwrap(), []);
    // Bits that are not valid in a mode are dropped.
    assert_eq!(peer.store(&pack("tree", "odd", &Attributes { mode: u32::MAX, ..wanted }, b"x")).unwrap(), []);
    for name in ["packed", "large", "changed", "made"] {
        assert_eq!(stored_mode(&session, name), 0o755, "{name}");
    }
    assert_eq!(stored_mode(&session, "odd") & 0o6000, 0);
    session.end(&[
        "root/tree/packed",
        "root/tree/large",
        "root/tree/changed",
        "root/tree/made",
        "root/tree/odd",
    ]);
}

#[test]
fn owners() {
    let session = Session::new();
    let mut peer = session.peer();
    let wanted = Attributes { uid: 12345, gid: 54321, ..attributes(0o4755) };
    assert_eq!(peer.store(&pack("tree", "packed", &wanted, b"mine")).unwrap(), []);
    peer.begin(1, "tree/large", 4).unwrap();
    peer.write(1, 0, b"mine", 4).unwrap();
    peer.finish(1, &wanted).unwrap();
    assert_eq!(
        peer.apply(&[Change::Attributes { path: path("tree/old"), attributes: wanted, extended: None }])
            .unwrap(),
        []
    );
    for name in ["packed", "large", "old"] {
        let found = fs::metadata(session.path("root/tree").join(name)).unwrap();
        let mine = attributes(0);
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o6000), (mine.uid, mine.gid, 0), "{name}");
    }
    session.end(&["root/tree/packed", "root/tree/large", "root/tree/old"]);
}

/// An agent's standard output belongs to its controller: no engine can write to it.
#[test]
fn standard_output_is_not_to_be_had() {
    let session = Session::new();
    let mut peer = session.peer();
    let begin = DraftParameters { kind: DraftKind::Stream, ..DraftParameters::file(path("name"), 4) };
    peer.send(kind::BEGIN, 0, &data::BeginDraft { draft: 1, begin }, &[]);
    let answer = peer.answer();
    assert_eq!(answer.kind, kind::FAILED);
    let data::FailedReply(error) = data::decode(&answer.meta).unwrap();
    assert_eq!(error.kind, ErrorKind::Refused);
    session.end(&[]);
}

/// A grant to write to `/dev/null` does not allow replacing it by a file. Creating a device needs root.
#[test]
fn a_device_is_not_replaced() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let places = vec![GrantedPlace::new(path("null"), false), grant().places[0].clone()];
    let session = Session::with(Grant { places, ..grant() }, Cipher::Aes128Gcm, |root, _| {
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, root.join("null"), FileType::CharacterDevice, mode, makedev(1, 3)).unwrap();
    });
    let mut peer = session.peer();
    assert_eq!(peer.begin(1, "null", 4).unwrap_err().kind, ErrorKind::Refused);
    let failures = peer.store(&pack("", "null", &attributes(0o666), b"mine")).unwrap();
    assert_eq!(failures[0].1.kind, ErrorKind::Refused);
    let attributes = attributes(0o600);
    for change in [
        Change::MakeDirectory { path: path("null"), mode: 0o755 },
        Change::Directory { path: path("null"), attributes, extended: None },
        Change::Attributes { path: path("null"), attributes, extended: None },
    ] {
        assert_eq!(peer.apply(&[change]).unwrap().len(), 1);
    }
    // The granted operation works.
    peer.send(
        kind::BEGIN,
        0,
        &data::BeginDraft {
            draft: 1,
            begin: DraftParameters { kind: DraftKind::Sink, ..DraftParameters::file(path("null"), 4) },
        },
        &[],
    );
    assert_eq!(peer.answer().kind, kind::DONE);
    peer.write(1, 0, b"gone", 4).unwrap();
    peer.finish(1, &attributes).unwrap();
    session.end(&[]);
}

fn remove(text: &str, directory: bool) -> Change {
    Change::Remove { path: path(text), directory, kept_names: 0 }
}

#[test]
fn nothing_is_removed_without_leave() {
    let session = Session::new();
    let mut peer = session.peer();
    for change in
        [remove("tree/old", false), remove("tree", true), remove("name", false), remove("private", false)]
    {
        is_refused(peer.apply(std::slice::from_ref(&change)), change.path().to_string().as_str());
    }
    session.end(&[]);
}

#[test]
fn with_leave_nothing_but_what_is_in_the_tree_is_removed() {
    let session = Session::with(Grant { may_remove: true, ..grant() }, Cipher::Aes128Gcm, |root, outside| {
        std::os::unix::fs::symlink(outside, root.join("tree/out")).unwrap();
    });
    let mut peer = session.peer();
    for change in [
        remove("tree", true),
        remove("", true),
        remove("name", false),
        remove("private", false),
        // More names than the path has, and a path that is not a directory.
        Change::Remove { path: path("private"), directory: false, kept_names: u16::MAX },
        remove("tree/old", true),
    ] {
        let failed = peer.apply(std::slice::from_ref(&change));
        assert!(failed.map_or(true, |failures| failures.len() == 1), "{change:?}");
    }
    // A path beyond a symbolic link counts as missing in the tree, and the file outside is kept.
    assert!(peer.apply(&[remove("tree/out/secret", false)]).unwrap().is_empty());
    session.end(&[]);
}

#[test]
fn devices_are_neither_made_nor_changed_without_leave() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let session = Session::with(grant(), Cipher::Aes128Gcm, |root, _| {
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, root.join("tree/disk"), FileType::BlockDevice, mode, makedev(7, 999)).unwrap();
    });
    let mut peer = session.peer();
    for kind in [EntryKind::BlockDevice, EntryKind::CharDevice] {
        let mut pack = PackBuilder::default();
        pack.directory(&path("tree"));
        pack.special(&RecordHead::new(b"new", attributes(0o666)), kind, 0x0070_0000);
        assert_eq!(peer.store(&pack.finish()).unwrap().len(), 1, "{kind:?}");
    }
    let change =
        Change::Attributes { path: path("tree/disk"), attributes: attributes(0o666), extended: None };
    assert_eq!(peer.apply(&[change]).unwrap().len(), 1);
    session.end(&[]);
}
