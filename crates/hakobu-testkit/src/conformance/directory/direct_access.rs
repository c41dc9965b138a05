//! Direct access to the directory of a place.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hakobu_core::entry::{Attributes, FileTime};

use crate::conformance::bench::{PATIENCE, Workplace};

/// Returns the names in a directory, sorted, including drafts.
pub(super) fn names(directory: &Path) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect();
    names.sort();
    names
}

/// Waits until a directory has exactly these names. The remote host may need a moment to clean up after a connection
/// that ended.
pub(super) fn settles_to(directory: &Path, expected: &[&[u8]]) {
    let deadline = Instant::now() + PATIENCE;
    while names(directory) != expected {
        assert!(Instant::now() < deadline, "left behind: {:?}", names(directory));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks the attributes of an entry on disk.
pub(super) fn check(bench: &Workplace<'_>, at: &str, wanted: &Attributes) {
    let found = fs::symlink_metadata(bench.root().join(at)).unwrap();
    let mtime = FileTime { seconds: found.mtime(), nanoseconds: found.mtime_nsec() as u32 };
    let found = Attributes { mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid(), mtime };
    let wanted = Attributes { mtime: bench.abilities.kept_time(wanted.mtime), ..*wanted };
    assert_eq!(found, wanted, "{at}");
}

/// Waits long enough for a change to get a different time. Changes within one step of the clock cannot be detected.
pub(super) fn tick(bench: &Workplace<'_>) {
    let step = Duration::from_nanos(bench.abilities.source.time_step_ns.into());
    std::thread::sleep(step + Duration::from_millis(20));
}
