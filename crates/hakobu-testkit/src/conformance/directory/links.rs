//! Cases about symbolic links out of the root: they are replaced, never followed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use hakobu_core::endpoint::Change;
use hakobu_core::entry::EntryKind;
use tempfile::TempDir;

use super::direct_access::names;
use crate::conformance::bench::*;
use crate::conformance::case::ConformanceCase;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new(
        "a link out of the root in the place of a file is replaced, not written through",
        link_to_file,
    ),
    ConformanceCase::new(
        "a link out of the root in the place of a directory is replaced, not entered",
        link_to_directory,
    ),
    ConformanceCase::new(
        "a link out of the root deep in the path is replaced, not entered",
        link_in_the_middle,
    ),
    ConformanceCase::new("attributes are not set through a link out of the root", attributes_through_a_link),
    ConformanceCase::new("a list does not enter through a link out of the root", list_through_a_link),
];

/// Creates a directory outside of the target, with a file in it that must not change.
fn outside() -> TempDir {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "untouched").unwrap();
    outside
}

fn untouched(outside: &Path) {
    assert_eq!(names(outside), [b"file"]);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"untouched");
}

fn link_to_file(bench: &Workplace<'_>) {
    let (root, target, kept) = (bench.root(), bench.target(), outside());
    let outside = kept.path();
    let mut lane = lane(&*target);
    for name in ["announced", "not announced", "draft"] {
        symlink(outside.join("file"), root.join(name)).unwrap();
    }
    let mut pack = pack("", &[]);
    add_file(&mut pack, b"announced", &attributes(0o644), true, b"new");
    add_file(&mut pack, b"not announced", &attributes(0o644), false, b"new");
    store_all(&mut *lane, pack);
    begin(&mut *lane, 1, "draft", 3).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    for name in ["announced", "not announced", "draft"] {
        assert!(fs::symlink_metadata(root.join(name)).unwrap().is_file());
        assert_eq!(fs::read(root.join(name)).unwrap(), b"new");
    }
    untouched(outside);
}

fn link_to_directory(bench: &Workplace<'_>) {
    let (root, target, kept) = (bench.root(), bench.target(), outside());
    let outside = kept.path();
    for name in ["pack", "draft", "made", "attributes"] {
        symlink(outside, root.join(name)).unwrap();
    }
    let mut lane = lane(&*target);
    store_all(&mut *lane, pack("pack", &[(b"file", b"new")]));
    begin(&mut *lane, 1, "draft/file", 3).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    let changes = vec![
        Change::MakeDirectory { path: path("made"), mode: 0o755 },
        Change::Directory { path: path("attributes"), attributes: attributes(0o755), extended: None },
    ];
    assert_eq!(apply(&mut *lane, changes).unwrap(), (Vec::new(), Vec::new()));
    for name in ["pack", "draft", "made", "attributes"] {
        assert!(fs::symlink_metadata(root.join(name)).unwrap().is_dir(), "{name}");
    }
    assert_eq!(fs::read(root.join("pack/file")).unwrap(), b"new");
    assert_eq!(fs::read(root.join("draft/file")).unwrap(), b"new");
    untouched(outside);
}

fn link_in_the_middle(bench: &Workplace<'_>) {
    let (root, target, kept) = (bench.root(), bench.target(), outside());
    let outside = kept.path();
    fs::create_dir(outside.join("b")).unwrap();
    symlink(outside, root.join("a")).unwrap();
    store_all(&mut *lane(&*target), pack("a/b/c", &[(b"file", b"new")]));
    assert_eq!(fs::read(root.join("a/b/c/file")).unwrap(), b"new");
    assert!(fs::symlink_metadata(root.join("a")).unwrap().is_dir());
    assert!(names(&outside.join("b")).is_empty());
}

fn attributes_through_a_link(bench: &Workplace<'_>) {
    let (root, target, kept) = (bench.root(), bench.target(), outside());
    let outside = kept.path();
    let before = fs::metadata(outside.join("file")).unwrap();
    symlink(outside.join("file"), root.join("link")).unwrap();
    symlink(outside, root.join("way")).unwrap();
    let changes = vec![
        Change::Attributes { path: path("link"), attributes: attributes(0o4777), extended: None },
        Change::Attributes { path: path("way/file"), attributes: attributes(0o4777), extended: None },
    ];
    let (failures, _) = apply(&mut *lane(&*target), changes).unwrap();
    assert_eq!(failures.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1]);
    let after = fs::metadata(outside.join("file")).unwrap();
    assert_eq!(
        (before.mode(), before.mtime_nsec(), before.ctime_nsec()),
        (after.mode(), after.mtime_nsec(), after.ctime_nsec())
    );
}

fn list_through_a_link(bench: &Workplace<'_>) {
    let (root, target, kept) = (bench.root(), bench.target(), outside());
    let outside = kept.path();
    symlink(outside, root.join("way")).unwrap();
    fs::create_dir(outside.join("b")).unwrap();
    let mut lane = lane(&*target);
    assert!(list(&mut *lane, "way").is_err());
    assert!(list(&mut *lane, "way/b").is_err());
    assert_eq!(inspect(&mut *lane, "way/file").unwrap(), None);
    assert_eq!(inspect(&mut *lane, "way").unwrap().unwrap().kind, EntryKind::Symlink);
}
