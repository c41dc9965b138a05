//! Cases about removing entries that the source does not have.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::error::ErrorKind;
use hakobu_core::grant::{Grant, GrantedPlace};

use super::bench::*;
use super::case::{ConformanceCase, Requirement};
use super::drafts::leave_half;
use super::tree_reader::reader;
use super::tree_writer::writer;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("entries are removed", removed).needs(&[Requirement::Directories]),
    ConformanceCase::new("what is gone already is removed", gone).of_refusals(),
    ConformanceCase::new("a directory goes only when it is empty", directories),
    ConformanceCase::new("a directory with what was kept of a draft goes", kept_draft),
    ConformanceCase::new("nothing is removed without leave, and never the place itself", leave)
        .needs(&[Requirement::Directories]),
];

fn removed(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    let mut names = vec!["a/b/file", "a/b/other"];
    preparing.directories(["a/b", "a/b/empty"]);
    preparing.file("a/b/file", b"x");
    preparing.file("a/b/other", b"x");
    preparing.file("a/stays", b"x");
    if bench.abilities.target.symlinks {
        preparing.symlink("a/b/link", b"../stays");
        names.push("a/b/link");
    }
    if bench.abilities.target.special_files {
        preparing.pipe("a/b/pipe");
        names.push("a/b/pipe");
    }
    drop(preparing);
    let target = bench.target();
    let mut lane = lane(&*target);
    for name in names {
        remove(&mut *lane, name, false, 1).unwrap();
        assert_eq!(reader(bench).inspect(name), None, "{name}");
    }
    remove(&mut *lane, "a/b/empty", true, 1).unwrap();
    assert!(reader(bench).names("a/b").is_empty());
    remove(&mut *lane, "a/b", true, 1).unwrap();
    let mut seen = reader(bench);
    assert_eq!(seen.names("a"), [b"stays"]);
    assert_eq!(seen.content("a/stays"), b"x");
}

fn gone(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    for (at, directory) in [("x", false), ("x", true), ("x/y/z", false), ("x/y", true)] {
        remove(&mut *lane, at, directory, 0).unwrap();
    }
    assert!(reader(bench).names("").is_empty(), "nothing is made on the way");
}

fn directories(bench: &Workplace<'_>) {
    // It only looks like a draft, so it belongs to the user.
    const NAMED: &str = "named/.hakobu.abcdefghijklmnopqrstuvwxyz";
    let mut preparing = writer(bench);
    preparing.file("full/file", b"x");
    preparing.file(NAMED, b"mine");
    drop(preparing);
    let target = bench.target();
    let mut lane = lane(&*target);
    assert_eq!(kind(remove(&mut *lane, "full", true, 0)), ErrorKind::Conflict);
    // Files and directories are each removed only as what they are.
    let may_be_missing = bench.abilities.target.shared_names;
    assert!(remove(&mut *lane, "full", false, 0).is_err() || may_be_missing);
    assert!(remove(&mut *lane, "full/file", true, 0).is_err() || may_be_missing);
    assert_eq!(kind(remove(&mut *lane, "named", true, 0)), ErrorKind::Conflict);
    let mut seen = reader(bench);
    assert_eq!((seen.content("full/file"), seen.content(NAMED)), (b"x".to_vec(), b"mine".to_vec()));
    assert_eq!(list(&mut *lane, "named").unwrap().len(), 1);
    assert_eq!(seen.names(""), [&b"full"[..], b"named"]);
}

fn kept_draft(bench: &Workplace<'_>) {
    leave_half(bench, "left/file");
    let target = bench.target();
    remove(&mut *lane(&*target), "left", true, 0).unwrap();
    assert!(reader(bench).names("").is_empty());
}

fn granted(may_remove: bool) -> Grant {
    let places = vec![GrantedPlace::new(path("in/tree"), true), GrantedPlace::new(path("in/name"), false)];
    Grant { places, may_remove, ..Grant::everything() }
}

fn leave(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    preparing.directories(["in/tree", "in/tree/empty", "in/other"]);
    preparing.file("in/name", b"x");
    drop(preparing);
    let refused = |may_remove: bool, at: &str, directory: bool| {
        let target = bench.target_with(granted(may_remove));
        assert_eq!(kind(remove(&mut *lane(&*target), at, directory, 0)), ErrorKind::BeyondGrant, "{at}");
    };
    refused(false, "in/tree/empty", true);
    refused(true, "in/tree", true);
    refused(true, "in/other", true);
    refused(true, "in/name", false);
    assert_eq!(reader(bench).names("in"), [&b"name"[..], b"other", b"tree"]);
    assert_eq!(reader(bench).names("in/tree"), [b"empty"]);
    let target = bench.target_with(granted(true));
    remove(&mut *lane(&*target), "in/tree/empty", true, 2).unwrap();
    assert!(reader(bench).names("in/tree").is_empty());
}
