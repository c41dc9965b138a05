//! An rsync daemon with a module, a tree, and a check by rsync itself.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hakobu_testkit::rsyncd::{Module, Rsyncd};
use tempfile::TempDir;

use crate::program::{Copy, place, tree};

/// A daemon with a module `m`, and a directory for sources and targets.
pub struct Bench {
    pub place: TempDir,
    pub daemon: Rsyncd,
}

impl Bench {
    pub fn new() -> Self {
        Self::with("")
    }

    /// Starts a daemon with these lines for the module.
    pub fn with(lines: &str) -> Self {
        let place = place();
        let module = place.path().join("module");
        std::fs::create_dir(&module).unwrap();
        let daemon = Rsyncd::start(&[Module { name: "m", path: &module, lines }]).unwrap();
        Self { place, daemon }
    }

    pub fn url(&self, place: &str) -> String {
        self.daemon.url(place)
    }

    /// Returns a path in the module.
    pub fn module(&self, path: &str) -> PathBuf {
        self.place.path().join("module").join(path)
    }

    /// Returns a path outside of the module.
    pub fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    /// Creates a tree with all that trees can have, hard links among them.
    pub fn tree(&self, path: &str) -> PathBuf {
        let tree = tree(&self.path(path));
        std::fs::write(tree.join("one"), "of three names").unwrap();
        std::fs::create_dir(tree.join("further")).unwrap();
        for name in ["two", "further/three"] {
            std::fs::hard_link(tree.join("one"), tree.join(name)).unwrap();
        }
        for name in ["#no comment", ";nor this", "-n", "back\\#123slash", "a -> b", "line\nend", " blank "] {
            std::fs::write(tree.join(name), name).unwrap();
        }
        tree
    }
}

/// Fails unless rsync finds nothing to do between the contents of two directories.
#[track_caller]
pub fn assert_nothing_to_do(source: &Path, target: &Path) {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHn", "--delete", "--itemize-changes"]);
    let output = rsync.arg(source.join("")).arg(target.join("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let left = String::from_utf8_lossy(&output.stdout);
    assert!(left.is_empty(), "rsync would still do this:\n{left}");
}

/// Creates a directory for the beginning of PATH with an `rsync` that runs this script before the real one, which is
/// `$REAL`.
pub fn wrapper(at: &Path, script: &str) -> String {
    std::fs::create_dir_all(at).unwrap();
    let real = Command::new("sh").args(["-c", "command -v rsync"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let text = format!("#!/bin/sh\nREAL={}\n{script}\nexec \"$REAL\" \"$@\"\n", real.trim());
    std::fs::write(at.join("rsync"), text).unwrap();
    std::fs::set_permissions(at.join("rsync"), std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", at.display(), std::env::var("PATH").unwrap())
}

/// Prepares a copy by this program between two places.
pub fn copy(source: impl AsRef<std::ffi::OsStr>, target: impl AsRef<std::ffi::OsStr>) -> Copy {
    Copy::new().arg(source).arg(target)
}
