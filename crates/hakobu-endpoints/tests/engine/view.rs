//! A view of a directory, made with only the standard library, and comparisons of two views.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::bench::Made;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub what: What,
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: (i64, i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    File {
        size_bytes: u64,
        blake3: blake3::Hash,
    },
    Directory,
    Link(Vec<u8>),
    Socket,
    Fifo,
    /// A device node with its number.
    Node(u64),
}

/// All entries below a directory, and under the empty path the directory itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View(pub BTreeMap<Vec<u8>, Entry>);

impl View {
    pub fn of(root: &Path) -> Self {
        let mut view = Self::default();
        view.add(root, root);
        view
    }

    fn add(&mut self, root: &Path, path: &Path) {
        let found = fs::symlink_metadata(path).unwrap();
        let kind = found.file_type();
        let what = if kind.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                self.add(root, &entry.unwrap().path());
            }
            What::Directory
        } else if kind.is_file() {
            let content = fs::read(path).unwrap();
            What::File { size_bytes: content.len() as u64, blake3: blake3::hash(&content) }
        } else if kind.is_symlink() {
            What::Link(fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec())
        } else if kind.is_socket() {
            What::Socket
        } else if kind.is_fifo() {
            What::Fifo
        } else {
            What::Node(found.rdev())
        };
        let entry = Entry {
            // The permissions of a symbolic link have no meaning.
            mode: if kind.is_symlink() { 0 } else { found.mode() & 0o7777 },
            owner: (found.uid(), found.gid()),
            mtime: (found.mtime(), found.mtime_nsec()),
            what,
        };
        let below = path.strip_prefix(root).unwrap().as_os_str().as_bytes();
        self.0.insert(below.to_vec(), entry);
    }

    /// Returns the view without entries that are never copied.
    pub fn copied(mut self) -> Self {
        self.0.retain(|_, entry| entry.what != What::Socket);
        self
    }

    /// Returns the number of bytes of all files.
    pub fn bytes(&self) -> u64 {
        let size = |entry: &Entry| match entry.what {
            What::File { size_bytes, .. } => size_bytes,
            _ => 0,
        };
        self.0.values().map(size).sum()
    }

    pub fn is_directory(&self, path: &[u8]) -> bool {
        self.0.get(path).is_some_and(|entry| entry.what == What::Directory)
    }
}

/// Fails with the first entries in which two views differ.
pub fn assert_same(source: &View, target: &View) {
    let paths = source.0.keys().chain(target.0.keys());
    let mut differences: Vec<_> = paths
        .filter(|path| source.0.get(*path) != target.0.get(*path))
        .map(|path| {
            let (here, there) = (source.0.get(path), target.0.get(path));
            format!("{}: source {here:?}, target {there:?}", String::from_utf8_lossy(path))
        })
        .collect();
    differences.dedup();
    differences.truncate(10);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Checks the result of a run with faults from `source` to a target that contained `before`: nothing is partial or
/// wrong, and every deviation is reported.
pub fn assert_honest(source: &View, before: &View, after: &View, made: &Made) {
    let failed = made.failed_paths();
    for (path, entry) in &after.0 {
        let name = String::from_utf8_lossy(path);
        if entry.what == What::Directory && source.is_directory(path) {
            continue;
        }
        let is_new = source.0.get(path) == Some(entry);
        // Unchanged content, possibly with attributes that are not set yet.
        let is_old = before.0.get(path) == Some(entry);
        assert!(is_new || is_old, "{name} is neither as before nor as at the source: {entry:?}");
    }
    // Every entry that is reported as created exists.
    let new = after.0.keys().filter(|path| !before.0.contains_key(*path)).count() as u64;
    let created = made.summary.counters.entries_created;
    assert!(created <= new, "{created} created, {new} are there");
    if made.summary.fatal.is_some() {
        return;
    }
    let told = |path: &[u8]| {
        failed.iter().any(|failed| {
            let below = path.len() > failed.len() && path.starts_with(failed) && path[failed.len()] == b'/';
            path == failed || below || failed.is_empty()
        })
    };
    for (path, entry) in &source.0 {
        let name = String::from_utf8_lossy(path);
        match entry.what {
            What::Socket => assert!(!failed.contains(path), "{name} is a socket"),
            _ if after.0.get(path) == Some(entry) => {}
            _ => {
                assert!(told(path), "{name} was not copied, untold: {entry:?}, {:?}", after.0.get(path));
            }
        }
    }
    let sums = Sums::of(made);
    assert_eq!(sums.scanned, sums.told);
}

/// The number of scanned entries, and the number of entries with a reported result.
#[derive(Debug)]
pub struct Sums {
    pub scanned: u64,
    pub told: u64,
}

impl Sums {
    pub fn of(made: &Made) -> Self {
        let it = &made.summary.counters;
        let told = it.entries_created
            + it.entries_updated
            + it.entries_unchanged
            + it.entries_attributes_only
            + it.entries_skipped
            + it.entries_failed;
        Self { scanned: it.entries_scanned, told }
    }
}

/// Returns the drafts below a directory.
pub fn drafts(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.map(Result::unwrap) {
            if entry.file_name().as_bytes().starts_with(b".hakobu.") {
                found.push(entry.path());
            }
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            }
        }
    }
    found
}
