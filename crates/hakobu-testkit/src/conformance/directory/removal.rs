//! Cases about removal with symbolic links out of the root, drafts of others, and mounts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use hakobu_core::error::ErrorKind;
use hakobu_core::path::draft_name;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::direct_access::names;
use crate::conformance::bench::*;
use crate::conformance::case::{ConformanceCase, Requirement};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("entries that others made are removed, and links are not followed", removed),
    ConformanceCase::new("a directory goes when it is empty but for drafts", directories),
    ConformanceCase::new("what is on another file system stays", mounted).needs(&[
        Requirement::Root,
        // A target that knows its free space also distinguishes file systems.
        Requirement::Room,
    ]),
];

fn removed(bench: &Workplace<'_>) {
    let (root, outside) = (bench.root(), tempfile::tempdir().unwrap());
    let outside = outside.path();
    fs::write(outside.join("file"), "keep").unwrap();
    fs::create_dir_all(root.join("a/b/empty")).unwrap();
    fs::write(root.join("a/b/file"), "x").unwrap();
    symlink(outside, root.join("a/b/link")).unwrap();
    symlink(outside, root.join("a/out")).unwrap();
    mknodat(CWD, root.join("a/b/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let target = bench.target();
    let mut lane = lane(&*target);
    for name in ["file", "link", "fifo"] {
        remove(&mut *lane, &format!("a/b/{name}"), false, 1).unwrap();
    }
    remove(&mut *lane, "a/b/empty", true, 1).unwrap();
    assert!(names(&root.join("a/b")).is_empty());
    remove(&mut *lane, "a/b", true, 1).unwrap();
    // An entry beyond a symbolic link is not below the root, so it does not exist.
    remove(&mut *lane, "a/out/file", false, 1).unwrap();
    assert_eq!(names(&root.join("a")), [b"out"]);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"keep");
}

fn directories(bench: &Workplace<'_>) {
    let root = bench.root();
    fs::create_dir_all(root.join("full")).unwrap();
    fs::write(root.join("full/file"), "x").unwrap();
    fs::create_dir(root.join("left")).unwrap();
    let draft = String::from_utf8(draft_name(b"any")).unwrap();
    fs::write(root.join("left").join(draft), "half").unwrap();
    // It only looks like a draft, so it belongs to the user.
    fs::create_dir_all(root.join("named")).unwrap();
    fs::write(root.join("named/.hakobu.abcdefghijklmnopqrstuvwxyz"), "mine").unwrap();
    let target = bench.target();
    let mut lane = lane(&*target);
    assert_eq!(kind(remove(&mut *lane, "full", true, 0)), ErrorKind::Conflict);
    assert_eq!(fs::read(root.join("full/file")).unwrap(), b"x");
    remove(&mut *lane, "left", true, 0).unwrap();
    // Files and directories are each removed only as what they are.
    assert!(remove(&mut *lane, "full", false, 0).is_err());
    assert!(remove(&mut *lane, "full/file", true, 0).is_err());
    assert_eq!(fs::read(root.join("full/file")).unwrap(), b"x");
    assert_eq!(kind(remove(&mut *lane, "named", true, 0)), ErrorKind::Conflict);
    assert_eq!(fs::read(root.join("named/.hakobu.abcdefghijklmnopqrstuvwxyz")).unwrap(), b"mine");
    assert_eq!(list(&mut *lane, "named").unwrap().len(), 1);
    assert_eq!(names(root), [&b"full"[..], b"named"]);
}

fn mounted(bench: &Workplace<'_>) {
    struct MountedDirectory(std::path::PathBuf);
    impl Drop for MountedDirectory {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let disk = bench.root().join("old/disk");
    fs::create_dir_all(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&disk).status();
    assert!(mount.expect("mount is needed").success());
    let _mounted = MountedDirectory(disk.clone());
    fs::write(disk.join("file"), "keep").unwrap();
    let target = bench.target();
    let mut lane = lane(&*target);
    // The source lacks `old`, so only the root is kept.
    assert_eq!(kind(remove(&mut *lane, "old/disk/file", false, 0)), ErrorKind::Refused);
    assert_eq!(kind(remove(&mut *lane, "old/disk", true, 0)), ErrorKind::Refused);
    assert_eq!(fs::read(disk.join("file")).unwrap(), b"keep");
    // If the source has the mounted directory as well, entries in it are treated like any others.
    remove(&mut *lane, "old/disk/file", false, 2).unwrap();
    assert!(names(&disk).is_empty());
}
