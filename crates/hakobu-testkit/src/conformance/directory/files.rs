//! Cases about stored entries as the disk has them, which detect errors that a target and a source have in common.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, FileTime};
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::pack::RecordHead;

use super::direct_access::{check, names};
use crate::conformance::bench::*;
use crate::conformance::case::{ConformanceCase, Requirement};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("what arrives is on the disk, under its names and with its attributes", on_disk),
    ConformanceCase::new("attributes that change are those on the disk", changed),
    ConformanceCase::new("owners and set-ID bits are those on the disk", owners)
        .needs(&[Requirement::Root, Requirement::Owners]),
    ConformanceCase::new("a file that others gave another name keeps its content under that", replaces),
    ConformanceCase::new("missing directories above a file are private on the disk", parents),
];

fn on_disk(bench: &Workplace<'_>) {
    let (root, target) = (bench.root(), bench.target());
    let mut lane = lane(&*target);
    let long = [b'n'; 255];
    let nasty: [&[u8]; 8] =
        [b" ", b"...", b".hakobu.short", b"\x01", b"\xff\xfe", b"\xe9\x81", "名前".as_bytes(), &long];
    let early = Attributes { mtime: FileTime { seconds: -1, nanoseconds: 500_000_000 }, ..attributes(0o444) };
    let mut pack = pack("some/where", &[]);
    nasty.iter().for_each(|name| add_file(&mut pack, name, &early, false, name));
    pack.symlink(&RecordHead::new(b"link", early), b"\xff../x");
    store_all(&mut *lane, pack);
    let bytes = content(PIECE_BYTES + 17);
    begin(&mut *lane, 1, "big", PIECE_BYTES + 17).unwrap();
    for (index, piece) in bytes.chunks(PIECE_BYTES as usize).enumerate() {
        write(&mut *lane, 1, PIECE_BYTES + 17, index as u64 * PIECE_BYTES, piece).unwrap();
    }
    finish(&mut *lane, 1, attributes(0o640)).unwrap();
    assert_eq!(names(root), [&b"big"[..], b"some"]);
    assert!(fs::read(root.join("big")).unwrap() == bytes);
    check(bench, "big", &attributes(0o640));
    let directory = root.join("some/where");
    assert_eq!(names(&directory).len(), nasty.len() + 1);
    for name in nasty {
        let at = directory.join(OsStr::from_bytes(name));
        assert_eq!(fs::read(&at).unwrap(), name);
        if let Ok(name) = str::from_utf8(name) {
            check(bench, &format!("some/where/{name}"), &early);
        }
    }
    let link = directory.join("link");
    assert_eq!(fs::read_link(&link).unwrap().as_os_str().as_bytes(), b"\xff../x");
    if bench.abilities.target.sets_links {
        let (kept, found) = (bench.abilities.kept_time(early.mtime), fs::symlink_metadata(&link).unwrap());
        assert_eq!((found.mtime(), found.mtime_nsec() as u32), (kept.seconds, kept.nanoseconds));
    }
}

fn changed(bench: &Workplace<'_>) {
    let root = bench.root();
    fs::create_dir(root.join("there")).unwrap();
    fs::write(root.join("file"), "x").unwrap();
    symlink("file", root.join("link")).unwrap();
    let late = |mode| Attributes { mtime: FileTime { seconds: 5, nanoseconds: 7 }, ..attributes(mode) };
    let changes = vec![
        Change::Attributes { path: path("link"), attributes: late(0o700), extended: None },
        Change::Attributes { path: path("file"), attributes: attributes(0o604), extended: None },
        Change::Directory { path: path("new/below"), attributes: attributes(0o2750), extended: None },
        Change::Directory { path: path("new"), attributes: late(0o711), extended: None },
        Change::Directory { path: path("there"), attributes: attributes(0o555), extended: None },
    ];
    assert_eq!(apply(&mut *lane(&*bench.target()), changes).unwrap(), (Vec::new(), Vec::new()));
    if bench.abilities.target.sets_links {
        let (kept, found) =
            (bench.abilities.kept_time(late(0).mtime), fs::symlink_metadata(root.join("link")).unwrap());
        assert_eq!((found.mtime(), found.mtime_nsec() as u32), (kept.seconds, kept.nanoseconds));
    }
    check(bench, "file", &attributes(0o604));
    check(bench, "new/below", &attributes(0o2750));
    check(bench, "new", &late(0o711));
    check(bench, "there", &attributes(0o555));
}

fn owners(bench: &Workplace<'_>) {
    let target = bench.target();
    let wanted = Attributes { uid: 4711, gid: 815, ..attributes(0o6755) };
    let mut pack = pack("", &[]);
    add_file(&mut pack, b"packed", &wanted, false, b"x");
    if bench.abilities.target.sets_links {
        pack.symlink(&RecordHead::new(b"link", wanted), b"x");
    }
    let mut lane = lane(&*target);
    store_all(&mut *lane, pack);
    let directory = Change::Directory { path: path("directory"), attributes: wanted, extended: None };
    change(&mut *lane, directory).unwrap();
    ["packed", "directory"].iter().for_each(|name| check(bench, name, &wanted));
    if bench.abilities.target.sets_links {
        let link = fs::symlink_metadata(bench.root().join("link")).unwrap();
        assert_eq!((link.uid(), link.gid()), (4711, 815));
    }
}

fn replaces(bench: &Workplace<'_>) {
    let (root, target) = (bench.root(), bench.target());
    let mut lane = lane(&*target);
    for replaces in [true, false] {
        for name in ["file", "other"] {
            fs::write(root.join(name), "old and longer").unwrap();
            fs::hard_link(root.join(name), root.join(format!("{name}2"))).unwrap();
        }
        let mut pack = pack("", &[]);
        add_file(&mut pack, b"file", &attributes(0o600), replaces, b"new");
        pack.symlink(&RecordHead::new(b"other", attributes(0o777)).replacing(replaces), b"file");
        store_all(&mut *lane, pack);
        assert_eq!(fs::read(root.join("file")).unwrap(), b"new");
        check(bench, "file", &attributes(0o600));
        assert_eq!(fs::read_link(root.join("other")).unwrap(), Path::new("file"));
        // The entry was replaced, not written into.
        for name in ["file2", "other2"] {
            assert_eq!(fs::read(root.join(name)).unwrap(), b"old and longer");
        }
        assert_eq!(names(root), [&b"file"[..], b"file2", b"other", b"other2"]);
        names(root).iter().for_each(|name| fs::remove_file(root.join(OsStr::from_bytes(name))).unwrap());
    }
}

fn parents(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    store_all(&mut *lane, pack("a/b", &[(b"file", b"x")]));
    begin(&mut *lane, 1, "d/e/file", 0).unwrap();
    for made in ["a", "a/b", "d", "d/e"] {
        let mode = fs::metadata(bench.root().join(made)).unwrap().mode() & 0o7777;
        assert_eq!(mode & !0o2000, 0o700, "{made}");
    }
}
