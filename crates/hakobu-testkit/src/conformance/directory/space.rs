//! Cases about full, read-only and small file systems.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::path::Path;

use hakobu_core::endpoint::{DraftParameters, TargetOp};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{Extent, PIECE_BYTES};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use super::direct_access::{names, settles_to};
use crate::conformance::bench::*;
use crate::conformance::case::{ConformanceCase, Requirement};

/// The requirements of cases about free space. A target that knows its free space can distinguish a full file system
/// from other failures.
const FULL: &[Requirement] = &[Requirement::Root, Requirement::Room];

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("a full file system stops a pack and leaves no partial file", full_pack).needs(FULL),
    ConformanceCase::new("a draft that cannot fit is refused before any data", too_large).needs(FULL),
    ConformanceCase::new("a draft with holes that fits is taken, whatever its size", larger_than_all)
        .needs(&[Requirement::Root]),
    ConformanceCase::new("a file system that fills up under a draft leaves nothing", full_draft).needs(FULL),
    ConformanceCase::new("a file system without inodes says so", no_inodes).needs(FULL),
    ConformanceCase::new("a read-only file system says so", read_only).needs(FULL),
];

/// A small file system in memory that is mounted on the place.
struct SmallFileSystem<'a>(&'a Path);

impl<'a> SmallFileSystem<'a> {
    fn new(bench: &'a Workplace<'_>, options: &str) -> Self {
        let options = std::ffi::CString::new(options).unwrap();
        mount("none", bench.root(), "tmpfs", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        Self(bench.root())
    }

    fn path(&self) -> &Path {
        self.0
    }
}

impl Drop for SmallFileSystem<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

fn full_pack(bench: &Workplace<'_>) {
    let small = SmallFileSystem::new(bench, "size=256k");
    let target = bench.target();
    let bytes = content(100_000);
    let files: Vec<(&[u8], &[u8])> = vec![(b"a", &bytes), (b"b", &bytes), (b"c", &bytes), (b"d", &bytes)];
    let stored = store(&mut *lane(&*target), pack("", &files));
    assert_eq!(kind(stored), ErrorKind::NoSpace);
    drop(target);
    for name in names(small.path()) {
        let found = std::fs::read(small.path().join(str::from_utf8(&name).unwrap())).unwrap();
        assert!(found == bytes, "{name:?} has {} bytes of 100 000", found.len());
    }
}

fn too_large(bench: &Workplace<'_>) {
    let small = SmallFileSystem::new(bench, "size=1m");
    let target = bench.target();
    let free_bytes = target.capabilities().free_bytes.unwrap();
    assert!((900_000..=1 << 20).contains(&free_bytes), "{free_bytes}");
    let mut lane = lane(&*target);
    assert_eq!(kind(begin(&mut *lane, 1, "big", 2 << 20)), ErrorKind::NoSpace);
    settles_to(small.path(), &[]);
}

fn larger_than_all(bench: &Workplace<'_>) {
    let small = SmallFileSystem::new(bench, "size=1m");
    let target = bench.target();
    let mut lane = lane(&*target);
    let (size_bytes, bytes) = (64 << 20, content(PIECE_BYTES));
    let begin = DraftParameters { sparse: true, ..DraftParameters::file(path("holes"), size_bytes) };
    done(&ask(&mut *lane, TargetOp::Begin { draft: 1, begin, attributes: None }).unwrap()).unwrap();
    write(&mut *lane, 1, size_bytes, 0, &bytes).unwrap();
    let extent = Extent { offset: PIECE_BYTES, length: size_bytes - PIECE_BYTES };
    let zero = TargetOp::Zero { draft: 1, extent, acknowledge: true };
    done(&ask(&mut *lane, zero).unwrap()).unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    let found = std::fs::metadata(small.path().join("holes")).unwrap();
    assert_eq!(found.len(), size_bytes);
}

fn full_draft(bench: &Workplace<'_>) {
    let small = SmallFileSystem::new(bench, "size=1m");
    let target = bench.target();
    let mut lane = lane(&*target);
    let size_bytes = 3 * PIECE_BYTES;
    begin(&mut *lane, 1, "big", size_bytes).unwrap();
    // Another program takes the space.
    std::fs::write(small.path().join("other"), content(600_000)).unwrap();
    let written = (0..3)
        .try_for_each(|index| write(&mut *lane, 1, size_bytes, index * PIECE_BYTES, &content(PIECE_BYTES)));
    assert_eq!(kind(written), ErrorKind::NoSpace);
    assert!(finish(&mut *lane, 1, attributes(0o644)).is_err());
    let _ = lane.submit(1, TargetOp::Abandon { draft: 1, keep: false });
    drop(lane);
    drop(target);
    settles_to(small.path(), &[b"other"]);
}

fn no_inodes(bench: &Workplace<'_>) {
    let _small = SmallFileSystem::new(bench, "size=10m,nr_inodes=8");
    let target = bench.target();
    assert!(target.capabilities().free_inodes.unwrap() <= 8);
    let files: Vec<_> = (b'a'..=b'z').map(|letter| [letter]).collect();
    let files: Vec<(&[u8], &[u8])> = files.iter().map(|name| (&name[..], &b"x"[..])).collect();
    assert_eq!(kind(store(&mut *lane(&*target), pack("", &files))), ErrorKind::NoInodes);
    let target = bench.target();
    assert_eq!(kind(begin(&mut *lane(&*target), 1, "big", 1)), ErrorKind::NoInodes);
}

fn read_only(bench: &Workplace<'_>) {
    let small = SmallFileSystem::new(bench, "size=1m");
    mount_remount(small.path(), MountFlags::RDONLY, c"").unwrap();
    let target = bench.target();
    assert_eq!(kind(store(&mut *lane(&*target), pack("", &[(b"a", b"x")]))), ErrorKind::ReadOnly);
    let target = bench.target();
    assert_eq!(kind(begin(&mut *lane(&*target), 1, "a", 1)), ErrorKind::ReadOnly);
}
