//! The ground that a place stands on: its directory, seen as it is.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hakobu_core::entry::{Attributes, Time};

use crate::conformance::bench::{Bench, PATIENCE};

/// The names in a directory, sorted, with drafts among them.
pub(super) fn names(directory: &Path) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect();
    names.sort();
    names
}

/// Waits until a directory holds these names and no others: the far side may need a moment to clean up behind a
/// connection that ended.
pub(super) fn settles_to(directory: &Path, expected: &[&[u8]]) {
    let deadline = Instant::now() + PATIENCE;
    while names(directory) != expected {
        assert!(Instant::now() < deadline, "left behind: {:?}", names(directory));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Insists on the attributes of what is there.
pub(super) fn check(bench: &Bench<'_>, at: &str, wanted: &Attributes) {
    let found = fs::symlink_metadata(bench.root().join(at)).unwrap();
    let mtime = Time { seconds: found.mtime(), nanoseconds: found.mtime_nsec() as u32 };
    let found = Attributes { mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid(), mtime };
    let wanted = Attributes { mtime: bench.abilities.kept_time(wanted.mtime), ..*wanted };
    assert_eq!(found, wanted, "{at}");
}

/// Waits until a change can be told by its time: within one step of it nobody sees any.
pub(super) fn tick(bench: &Bench<'_>) {
    let step = Duration::from_nanos(bench.abilities.source.time_step_ns.into());
    std::thread::sleep(step + Duration::from_millis(20));
}
