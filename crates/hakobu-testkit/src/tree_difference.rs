//! Compares two trees entry by entry, as a check on copies.
//!
//! It shares no code with the copier: one thread and the standard library, without optimisations.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

const READ_BYTES: usize = 256 * 1024;

/// A difference between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeDifference {
    /// The path relative to both roots; empty for the roots themselves.
    pub path: PathBuf,
    /// The kind of difference.
    pub what: EntryDifference,
}

/// The difference of an entry. If there are two values, the left tree's is first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryDifference {
    /// Only the left tree has the entry; entries below it are not listed.
    OnlyLeft,
    /// Only the right tree has the entry; entries below it are not listed.
    OnlyRight,
    /// The kinds of entry: file, directory, link…; nothing else is compared then.
    Kind(&'static str, &'static str),
    /// The sizes of two files in bytes; their content is not compared then.
    Size(u64, u64),
    /// The offset of the first different byte.
    Content(u64),
    /// The permission bits, setuid, setgid and sticky. Not compared for symbolic links.
    Mode(u32, u32),
    /// The owner.
    Uid(u32, u32),
    /// The group.
    Gid(u32, u32),
    /// The modification times: seconds since 1970 and nanoseconds.
    ModificationTime((i64, i64), (i64, i64)),
    /// The targets of two symbolic links.
    LinkTarget(PathBuf, PathBuf),
    /// The device numbers of two device nodes.
    Device(u64, u64),
}

impl fmt::Display for TreeDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Debug escapes characters that must not reach a terminal or a log unescaped.
        write!(f, "{:?}: {:?}", self.path, self.what)
    }
}

/// Compares two trees (or two files) completely: names, kinds, content, modes, owners, modification times with
/// nanoseconds (also of directories and symbolic links), targets of symbolic links and device numbers. Symbolic links
/// are never followed. Access and change times, extended attributes, hard links and holes are not compared. The list
/// is sorted by path, a directory before its entries.
///
/// # Errors
///
/// Anything that cannot be read; the list is never silently shortened.
pub fn compare(left: &Path, right: &Path) -> io::Result<Vec<TreeDifference>> {
    let mut comparison = Comparison {
        left,
        right,
        differences: Vec::new(),
        buffers: (vec![0; READ_BYTES], vec![0; READ_BYTES]),
    };
    // A stack of paths that both sides have, which avoids recursion in deep trees.
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        if comparison.entry(&path)? {
            let mut both = comparison.names(&path)?;
            both.reverse();
            open.append(&mut both);
        }
    }
    comparison.differences.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(comparison.differences)
}

struct Comparison<'a> {
    left: &'a Path,
    right: &'a Path,
    differences: Vec<TreeDifference>,
    buffers: (Vec<u8>, Vec<u8>),
}

impl Comparison<'_> {
    /// Returns the full paths on both sides. Joining an empty path would append a slash, which follows symbolic
    /// links.
    fn sides(&self, path: &Path) -> (PathBuf, PathBuf) {
        match path.as_os_str().is_empty() {
            true => (self.left.to_path_buf(), self.right.to_path_buf()),
            false => (self.left.join(path), self.right.join(path)),
        }
    }

    fn found(&mut self, path: &Path, what: EntryDifference) {
        self.differences.push(TreeDifference { path: path.to_path_buf(), what });
    }

    /// Compares one entry. Returns true if both are directories.
    fn entry(&mut self, path: &Path) -> io::Result<bool> {
        let (left_path, right_path) = self.sides(path);
        let left = examine(&left_path)?;
        let right = examine(&right_path)?;
        let (left_kind, right_kind) = (kind(&left), kind(&right));
        if left_kind != right_kind {
            self.found(path, EntryDifference::Kind(left_kind, right_kind));
            return Ok(false);
        }
        self.attributes(path, &left, &right);
        if left.is_symlink() {
            let left = fs::read_link(&left_path).map_err(at("read", &left_path))?;
            let right = fs::read_link(&right_path).map_err(at("read", &right_path))?;
            if left != right {
                self.found(path, EntryDifference::LinkTarget(left, right));
            }
        } else if left.is_file() && left.len() != right.len() {
            self.found(path, EntryDifference::Size(left.len(), right.len()));
        } else if left.is_file() && left.len() > 0 {
            self.content(path, &left_path, &right_path)?;
        } else if left.rdev() != right.rdev() {
            self.found(path, EntryDifference::Device(left.rdev(), right.rdev()));
        }
        Ok(left.is_dir())
    }

    fn attributes(&mut self, path: &Path, left: &Metadata, right: &Metadata) {
        let modes = (left.mode() & 0o7777, right.mode() & 0o7777);
        if modes.0 != modes.1 && !left.is_symlink() {
            self.found(path, EntryDifference::Mode(modes.0, modes.1));
        }
        if left.uid() != right.uid() {
            self.found(path, EntryDifference::Uid(left.uid(), right.uid()));
        }
        if left.gid() != right.gid() {
            self.found(path, EntryDifference::Gid(left.gid(), right.gid()));
        }
        let left_time = (left.mtime(), left.mtime_nsec());
        let right_time = (right.mtime(), right.mtime_nsec());
        if left_time != right_time {
            self.found(path, EntryDifference::ModificationTime(left_time, right_time));
        }
    }

    fn content(&mut self, path: &Path, left_path: &Path, right_path: &Path) -> io::Result<()> {
        let mut left = File::open(left_path).map_err(at("open", left_path))?;
        let mut right = File::open(right_path).map_err(at("open", right_path))?;
        let mut offset = 0;
        loop {
            let (left_buffer, right_buffer) = &mut self.buffers;
            let got = fill(&mut left, left_buffer).map_err(at("read", left_path))?;
            let other = fill(&mut right, right_buffer).map_err(at("read", right_path))?;
            if got != other {
                let same = got.iter().zip(other).take_while(|(a, b)| a == b).count();
                self.found(path, EntryDifference::Content(offset + same as u64));
                return Ok(());
            }
            if got.is_empty() {
                return Ok(());
            }
            offset += got.len() as u64;
        }
    }

    /// Returns the names that both directories have, and records those that only one has.
    fn names(&mut self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let (left_path, right_path) = self.sides(path);
        let mut sides: BTreeMap<OsString, (bool, bool)> = BTreeMap::new();
        for name in list(&left_path)? {
            sides.entry(name).or_default().0 = true;
        }
        for name in list(&right_path)? {
            sides.entry(name).or_default().1 = true;
        }
        let mut both = Vec::new();
        for (name, side) in sides {
            let below = path.join(name);
            match side {
                (true, true) => both.push(below),
                (true, false) => self.found(&below, EntryDifference::OnlyLeft),
                (false, _) => self.found(&below, EntryDifference::OnlyRight),
            }
        }
        Ok(both)
    }
}

/// Names the operation and its path in an error; for `map_err`.
pub(crate) fn at(during: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{during} {}: {error}", path.display()))
}

fn examine(path: &Path) -> io::Result<Metadata> {
    fs::symlink_metadata(path).map_err(at("examine", path))
}

fn list(path: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
        .map_err(at("list", path))
}

/// Reads until the buffer is full or the file ends.
fn fill<'a>(file: &mut File, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => "file",
        () if kind.is_dir() => "directory",
        () if kind.is_symlink() => "symbolic link",
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () if kind.is_block_device() => "block device",
        () if kind.is_char_device() => "character device",
        () => "unknown",
    }
}

#[cfg(test)]
#[path = "tree_difference_tests.rs"]
mod tests;
