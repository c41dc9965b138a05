//! Paths and names that would lead out of the target, in every message that contains one.

use hakobu_proto::data::{self, kind};
use serde::Serialize;

use crate::bench::Session;

/// Returns paths that no entry below a root can have.
fn bad_paths() -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = [
        &b".."[..],
        b"../outside/secret",
        b"tree/..",
        b"tree/../private",
        b"tree/../../outside/secret",
        b"tree/.",
        b"./tree/x",
        b"/etc/passwd",
        b"/",
        b"tree//x",
        b"tree/",
        b"tree/a\0b",
        b"\0",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    paths.push([b"tree/".to_vec(), vec![b'n'; 256]].concat());
    paths.push(vec![b'n'; 256]);
    paths.push([b"tree".to_vec(), b"/0123456789".repeat(372)].concat());
    paths
}

/// Returns names that no entry can have. All but the last three are also invalid paths.
fn bad_names() -> Vec<Vec<u8>> {
    let mut names = bad_paths();
    names.extend([&b""[..], b".", b"inner/file"].map(<[u8]>::to_vec));
    names
}

/// Mode, user, group, and the seconds and nanoseconds of the time.
type RawAttributes = (u32, u32, u32, (i64, u32));

/// A `Change` whose path is any bytes.
#[derive(Serialize)]
enum RawChange<'a> {
    MakeDirectory { path: &'a [u8], mode: u32 },
    Directory { path: &'a [u8], attributes: RawAttributes, extended: Option<()> },
    Attributes { path: &'a [u8], attributes: RawAttributes, extended: Option<()> },
    Link { path: &'a [u8], to: &'a [u8], replaces: bool },
}

fn encoded(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    data::encode(message, &mut bytes).unwrap();
    bytes
}

fn why(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[test]
fn inspect() {
    let session = Session::new();
    for path in bad_paths() {
        session.peer().breaks(&why(&path), kind::STAT, &encoded(&(&path[..], 0u8)), &[]);
    }
    session.end(&[]);
}

#[test]
fn list() {
    let session = Session::new();
    for path in bad_paths() {
        let directories = encoded(&vec![&b"tree"[..], &path]);
        session.peer().breaks(&why(&path), kind::LIST, &encoded(&(10u32, false, 0u8)), &directories);
        let names = encoded(&(&path[..], vec![&b"old"[..]]));
        session.peer().breaks(&why(&path), kind::DIGEST, &[], &names);
    }
    session.end(&[]);
}

#[test]
fn begin() {
    let session = Session::new();
    for path in bad_paths() {
        for device in [false, true] {
            let begin = encoded(&(1u64, &path[..], 3u64, device));
            session.peer().breaks(&why(&path), kind::BEGIN, &begin, &[]);
        }
    }
    session.end(&[]);
}

#[test]
fn apply() {
    let session = Session::new();
    for path in bad_paths() {
        let (path, attributes) = (&path[..], (0o777, 0, 0, (1_700_000_000, 0)));
        for change in [
            RawChange::MakeDirectory { path, mode: 0o777 },
            RawChange::Directory { path, attributes, extended: None },
            RawChange::Attributes { path, attributes, extended: None },
            RawChange::Link { path, to: b"tree/old", replaces: false },
            RawChange::Link { path: b"tree/new", to: path, replaces: false },
        ] {
            let good = RawChange::MakeDirectory { path: b"tree/good", mode: 0o755 };
            session.peer().breaks(&why(path), kind::APPLY, &[], &encoded(&vec![good, change]));
        }
    }
    // No change in such a list is carried out, not even those before the invalid one.
    session.end(&[]);
}

fn directory_record(path: &[u8]) -> Vec<u8> {
    [&[1][..], &(path.len() as u16).to_le_bytes(), path].concat()
}

/// Returns a record of a file (2) or symbolic link (3).
fn record(tag: u8, name: &[u8], content: &[u8]) -> Vec<u8> {
    let mut record = vec![tag, 0];
    record.extend_from_slice(&(name.len() as u16).to_le_bytes());
    record.extend_from_slice(&0o777u32.to_le_bytes());
    record.extend_from_slice(&[0; 20]);
    record.extend_from_slice(&(content.len() as u32).to_le_bytes());
    [record, name.to_vec(), content.to_vec()].concat()
}

#[test]
fn store_into_a_directory() {
    let session = Session::new();
    for path in bad_paths() {
        let good = [directory_record(b"tree"), record(2, b"good", b"x")].concat();
        let pack = [good, directory_record(&path), record(2, b"file", b"owned")].concat();
        session.peer().breaks(&why(&path), kind::WRITE_PACK, &[], &pack);
    }
    // A pack is validated before anything of it is written.
    session.end(&[]);
}

#[test]
fn store_under_a_name() {
    let session = Session::new();
    for name in bad_names() {
        for tag in [2, 3] {
            let good = [directory_record(b"tree"), record(2, b"good", b"x")].concat();
            let pack = [good, record(tag, &name, b"owned")].concat();
            session.peer().breaks(&why(&name), kind::WRITE_PACK, &[], &pack);
        }
    }
    session.end(&[]);
}

#[test]
fn links_whose_text_cannot_be_one() {
    let session = Session::new();
    for text in [&b""[..], b"a\0b", &[b'n'; 4096]] {
        let pack = [directory_record(b"tree"), record(3, b"link", text)].concat();
        session.peer().breaks(&why(text), kind::WRITE_PACK, &[], &pack);
    }
    session.end(&[]);
}

#[test]
fn a_record_before_any_directory() {
    let session = Session::new();
    session.peer().breaks("no directory", kind::WRITE_PACK, &[], &record(2, b"name", b"owned"));
    session.end(&[]);
}
