//! Changes of trees while hakobu works on them.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The content of the files that symbolic links made by [`meddle`] lead to. It must not appear in any target.
pub const SECRET: &[u8] = b"this must not be copied: it is not in the source\n";

/// A `SplitMix64` generator.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

/// Returns the files and the directories below a tree, without the tree itself. Leaves out what vanishes meanwhile.
fn entries(tree: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    let mut left = vec![tree.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    left.push(entry.path());
                    directories.push(entry.path());
                }
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    directories.sort();
    (files, directories)
}

/// Changes a source until `enough` is set, and returns the changed paths below it. Symbolic links lead to `outside`.
pub(super) fn meddle(source: &Path, outside: &Path, seed: u64, enough: &AtomicBool) -> Vec<PathBuf> {
    let mut random = SplitMix64::new(seed);
    let mut changed = Vec::new();
    let _ = fs::create_dir_all(outside);
    let _ = fs::write(outside.join("secret"), SECRET);
    while !enough.load(Ordering::Relaxed) && changed.len() < 200 {
        let (files, directories) = entries(source);
        // Directories rarely, since their change is a change of everything in them.
        let kind = if random.below(20) > 0 { random.below(10) } else { 10 + random.below(2) };
        let path = if kind < 10 { random.pick(&files) } else { random.pick(&directories) };
        // On an error the change happened partly or not at all. Both are possible changes.
        if let Some(path) = path {
            let _ = change(path, kind, outside, &mut random);
            changed.push(path.strip_prefix(source).unwrap_or(path).to_owned());
        }
        thread::sleep(Duration::from_micros(random.next() % 3_000));
    }
    changed
}

fn change(path: &Path, kind: usize, outside: &Path, random: &mut SplitMix64) -> std::io::Result<()> {
    let open = || fs::OpenOptions::new().read(true).write(true).open(path);
    let beside = path.with_extension("meddled");
    match kind {
        0..=2 => {
            let file = open()?;
            let length = file.metadata()?.len();
            let part = random.bytes(4_096.min(length as usize));
            file.write_all_at(&part, random.next() % (length + 1 - part.len() as u64))
        }
        3 | 4 => {
            let file = open()?;
            let length = file.metadata()?.len();
            file.set_len(random.next() % (length + 1))
        }
        5 | 6 => {
            let file = open()?;
            let more = random.below(9_000);
            let more = random.bytes(more);
            file.write_all_at(&more, file.metadata()?.len())
        }
        7 => {
            let length = random.below(300_000);
            let content = random.bytes(length);
            fs::write(&beside, content)?;
            fs::rename(&beside, path)
        }
        8 => {
            symlink(outside.join("secret"), &beside)?;
            fs::rename(&beside, path)
        }
        9 => fs::remove_file(path),
        10 => fs::rename(path, &beside),
        _ => {
            fs::rename(path, &beside)?;
            symlink(outside, path)
        }
    }
}

/// The change of a directory of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectoryChange {
    /// Renames it, and puts a symbolic link to `outside` in its place.
    Swap,
    /// Renames it.
    Rename,
    /// Removes it.
    Remove,
}

/// Changes one directory below the target. Returns its path, or `None` if there is none or the change fails.
pub(super) fn tamper(target: &Path, outside: &Path, seed: u64, deed: DirectoryChange) -> Option<PathBuf> {
    let directory = SplitMix64::new(seed).pick(&entries(target).1)?.clone();
    let beside = directory.with_extension("tampered");
    let done = match deed {
        // A new entry may stop the removal, but what was removed before is gone.
        DirectoryChange::Remove => fs::remove_dir_all(&directory).or(Ok(())),
        DirectoryChange::Rename => fs::rename(&directory, beside),
        DirectoryChange::Swap => fs::create_dir_all(outside)
            .and_then(|()| fs::rename(&directory, beside))
            .and_then(|()| symlink(outside, &directory)),
    };
    done.ok()?;
    Some(directory.strip_prefix(target).unwrap_or(&directory).to_owned())
}
