//! Removing what the source does not have.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use hakobu_core::Result;
use hakobu_core::endpoint::{Change, TargetLane, TargetOp, TargetOutcome};
use hakobu_core::error::ErrorKind;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::path::draft_name;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::bench::*;
use super::case::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("entries are removed, and links are not followed", removed),
    Case::new("what is gone already is removed", gone),
    Case::new("a directory goes only when it is empty but for drafts", directories),
    Case::new("nothing is removed without leave, and never the place itself", leave),
    Case::new("a directory takes the place of a file only where something may be removed", file_in_the_way),
    Case::root("what is on another file system stays", mounted),
];

fn remove(lane: &mut dyn TargetLane, at: &str, directory: bool, kept_names: u16) -> Result<()> {
    let change = Change::Remove { path: path(at), directory, kept_names };
    match ask(lane, TargetOp::Apply { changes: vec![change] })? {
        TargetOutcome::Stored { mut failures, .. } => failures.pop().map_or(Ok(()), |(_, error)| Err(error)),
        other => panic!("not the answer to changes: {other:?}"),
    }
}

fn removed(bench: &Bench<'_>) {
    let target = bench.target();
    let root = &target.root;
    let outside = bench.directory("outside");
    fs::write(outside.join("file"), "keep").unwrap();
    fs::create_dir_all(root.join("a/b/empty")).unwrap();
    fs::write(root.join("a/b/file"), "x").unwrap();
    symlink(&outside, root.join("a/b/link")).unwrap();
    symlink(&outside, root.join("a/out")).unwrap();
    mknodat(CWD, root.join("a/b/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let mut lane = lane(&target);
    for name in ["file", "link", "fifo"] {
        remove(&mut *lane, &format!("a/b/{name}"), false, 1).unwrap();
    }
    remove(&mut *lane, "a/b/empty", true, 1).unwrap();
    assert!(names(&root.join("a/b")).is_empty());
    remove(&mut *lane, "a/b", true, 1).unwrap();
    // What is beyond a link is not below the root: it is not there.
    remove(&mut *lane, "a/out/file", false, 1).unwrap();
    assert_eq!(names(&root.join("a")), [b"out"]);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"keep");
}

fn gone(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    for (at, directory) in [("x", false), ("x", true), ("x/y/z", false), ("x/y", true)] {
        remove(&mut *lane, at, directory, 0).unwrap();
    }
    assert!(names(&target.root).is_empty(), "nothing is made on the way");
}

fn directories(bench: &Bench<'_>) {
    let target = bench.target();
    let root = &target.root;
    fs::create_dir_all(root.join("full")).unwrap();
    fs::write(root.join("full/file"), "x").unwrap();
    fs::create_dir(root.join("left")).unwrap();
    let draft = String::from_utf8(draft_name(b"any")).unwrap();
    fs::write(root.join("left").join(draft), "half").unwrap();
    // Only looks like a draft, so it is a user's.
    fs::create_dir_all(root.join("named")).unwrap();
    fs::write(root.join("named/.hakobu.abcdefghijklmnopqrstuvwxyz"), "mine").unwrap();
    let mut lane = lane(&target);
    assert_eq!(kind(remove(&mut *lane, "full", true, 0)), ErrorKind::Conflict);
    assert_eq!(fs::read(root.join("full/file")).unwrap(), b"x");
    remove(&mut *lane, "left", true, 0).unwrap();
    // Each kind by its own name only.
    assert!(remove(&mut *lane, "full", false, 0).is_err());
    assert!(remove(&mut *lane, "full/file", true, 0).is_err());
    assert_eq!(fs::read(root.join("full/file")).unwrap(), b"x");
    assert_eq!(kind(remove(&mut *lane, "named", true, 0)), ErrorKind::Conflict);
    assert_eq!(fs::read(root.join("named/.hakobu.abcdefghijklmnopqrstuvwxyz")).unwrap(), b"mine");
    assert_eq!(list(&mut *lane, "named").unwrap().len(), 1);
    assert_eq!(names(root), [&b"full"[..], b"named"]);
}

fn granted(may_remove: bool) -> Grant {
    let places = vec![GrantedPlace::new(path("in/tree"), true), GrantedPlace::new(path("in/name"), false)];
    Grant { places, may_remove, ..Grant::everything() }
}

fn leave(bench: &Bench<'_>) {
    let root = bench.directory("target");
    fs::create_dir_all(root.join("in/tree/empty")).unwrap();
    fs::create_dir_all(root.join("in/other")).unwrap();
    fs::write(root.join("in/name"), "x").unwrap();
    let refused = |may_remove: bool, at: &str, directory: bool| {
        let target = bench.target_with(granted(may_remove));
        assert_eq!(kind(remove(&mut *lane(&target), at, directory, 0)), ErrorKind::BeyondGrant, "{at}");
    };
    refused(false, "in/tree/empty", true);
    refused(true, "in/tree", true);
    refused(true, "in/other", true);
    refused(true, "in/name", false);
    assert_eq!(names(&root.join("in")), [&b"name"[..], b"other", b"tree"]);
    let target = bench.target_with(granted(true));
    remove(&mut *lane(&target), "in/tree/empty", true, 2).unwrap();
    assert!(names(&root.join("in/tree")).is_empty());
}

fn file_in_the_way(bench: &Bench<'_>) {
    for may_remove in [false, true] {
        let target = bench.target_with(Grant { may_remove, ..Grant::everything() });
        fs::write(target.root.join("place"), "old").unwrap();
        let stored = store(&mut *lane(&target), pack("place", &[(b"x", b"1")])).unwrap();
        if may_remove {
            assert_eq!(stored, (Vec::new(), Vec::new()));
            assert_eq!(fs::read(target.root.join("place/x")).unwrap(), b"1");
        } else {
            assert_eq!(stored.0, [(0, ErrorKind::Conflict)]);
            assert_eq!(fs::read(target.root.join("place")).unwrap(), b"old");
        }
    }
}

fn mounted(bench: &Bench<'_>) {
    struct Mounted(std::path::PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let target = bench.target();
    // What tells how much room there is tells file systems apart as well.
    if target.capabilities().free_bytes.is_none() {
        return;
    }
    let disk = target.root.join("old/disk");
    fs::create_dir_all(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&disk).status();
    assert!(mount.expect("mount is needed").success());
    let _mounted = Mounted(disk.clone());
    fs::write(disk.join("file"), "keep").unwrap();
    let mut lane = lane(&target);
    // `old` is only at the target; the top stays.
    assert_eq!(kind(remove(&mut *lane, "old/disk/file", false, 0)), ErrorKind::Refused);
    assert_eq!(kind(remove(&mut *lane, "old/disk", true, 0)), ErrorKind::Refused);
    assert_eq!(fs::read(disk.join("file")).unwrap(), b"keep");
    // Where the source has the mounted directory as well, what is in it is like anything else.
    remove(&mut *lane, "old/disk/file", false, 2).unwrap();
    assert!(names(&disk).is_empty());
}
