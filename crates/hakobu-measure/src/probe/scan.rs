//! Lists a tree for a limited time: its contents, the rate of listing, and some of its files.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hakobu_core::path::is_draft_name;
use hakobu_core::probe::TreeFigures;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::clock::{WorkEnd, on_threads};

/// The size in bytes below which a file is small. Small files are sent in packs, and their fixed cost outweighs the
/// cost of their bytes.
pub const SMALL_BYTES: u64 = 256 << 10;
/// The unit in which the system reports the allocated space, in bytes.
pub(super) const BLOCK_BYTES: u64 = 512;
/// The number of large files to keep, the largest ones.
const LARGE_KEPT: usize = 8;
/// The numbers of small files to keep in total, and per directory.
const SMALL_KEPT: usize = 8000;
const SMALL_OF_ONE: usize = 40;
/// The pause of a thread that waits for others to find directories.
const PAUSE: Duration = Duration::from_micros(200);

/// The result of a scan.
#[derive(Default)]
pub(super) struct ProbeScan {
    pub tree: TreeFigures,
    /// The largest files, with their sizes in bytes.
    pub large: Vec<(u64, PathBuf)>,
    /// A selection of small files from the whole tree.
    pub small: Vec<PathBuf>,
    /// The number of directories that could not be read.
    pub unread: u64,
    /// The number of these for which the user lacks permission, and the path of one.
    pub denied: (u64, Option<PathBuf>),
}

struct ScanState<'a> {
    open: Mutex<Vec<PathBuf>>,
    /// The number of directories that are open or waiting.
    pending: AtomicUsize,
    found: Mutex<ProbeScan>,
    until: WorkEnd<'a>,
}

/// Returns true if the user lacks permission.
pub(super) fn is_denied(error: Errno) -> bool {
    matches!(error, Errno::ACCESS | Errno::PERM)
}

/// Lists the tree below a directory for at most `limit`.
pub(super) fn scan(root: &Path, threads: usize, limit: Duration, cancel: &AtomicBool) -> ProbeScan {
    let shared = ScanState {
        open: Mutex::new(vec![root.to_owned()]),
        pending: AtomicUsize::new(1),
        found: Mutex::new(ProbeScan::default()),
        until: WorkEnd::after(limit, cancel),
    };
    let work = on_threads(threads, |_| shared.work());
    let complete = shared.pending.load(SeqCst) == 0;
    let mut found = shared.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    (found.tree.scan, found.tree.complete) = (work, complete);
    found
}

impl ScanState<'_> {
    /// Reads directories until there are none left or the time is over. Returns the number of entries.
    fn work(&self) -> (u64, u64) {
        let mut count = 0;
        while self.pending.load(SeqCst) > 0 && !self.until.is_over() {
            let Some(directory) = lock(&self.open).pop() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            match self.read(&directory) {
                Ok(entries) => count += entries,
                Err(error) => lock(&self.found).lacks(directory, error),
            }
            if !self.until.is_over() {
                self.pending.fetch_sub(1, SeqCst);
            }
        }
        (count, 0)
    }

    fn read(&self, path: &Path) -> Result<u64, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty())?;
        let (mut own, mut below) = (ProbeScan::default(), Vec::new());
        for entry in Dir::read_from(&directory)? {
            let Ok(entry) = entry else { break };
            if matches!(entry.file_name().to_bytes(), b"." | b"..")
                || is_draft_name(entry.file_name().to_bytes())
            {
                continue;
            }
            let Ok(stat) = statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => below.push(within(path, entry.file_name())),
                FileType::RegularFile => {
                    let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
                    let on_medium = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES);
                    own.tree.allocated_bytes =
                        own.tree.allocated_bytes.saturating_add(on_medium.min(size_bytes));
                    own.count(path, entry.file_name(), size_bytes);
                }
                _ => own.tree.others += 1,
            }
            if self.until.is_over() {
                break;
            }
        }
        own.tree.directories = below.len() as u64;
        let entries = own.tree.entries();
        lock(&self.found).add(own);
        self.pending.fetch_add(below.len(), SeqCst);
        lock(&self.open).append(&mut below);
        Ok(entries)
    }
}

impl ProbeScan {
    fn lacks(&mut self, directory: PathBuf, error: Errno) {
        self.unread += 1;
        if is_denied(error) {
            self.denied.0 += 1;
            self.denied.1.get_or_insert(directory);
        }
    }

    fn count(&mut self, directory: &Path, name: &CStr, size_bytes: u64) {
        self.tree.files += 1;
        self.tree.bytes = self.tree.bytes.saturating_add(size_bytes);
        if size_bytes < SMALL_BYTES {
            self.tree.small_files += 1;
            self.tree.small_bytes = self.tree.small_bytes.saturating_add(size_bytes);
            if self.small.len() < SMALL_OF_ONE && size_bytes > 0 {
                self.small.push(within(directory, name));
            }
        } else if self.large.len() < LARGE_KEPT || self.large.iter().any(|(kept, _)| *kept < size_bytes) {
            self.keep(size_bytes, within(directory, name));
        }
    }

    fn keep(&mut self, size_bytes: u64, path: PathBuf) {
        self.large.push((size_bytes, path));
        self.large.sort_by_key(|(size_bytes, _)| std::cmp::Reverse(*size_bytes));
        self.large.truncate(LARGE_KEPT);
    }

    fn add(&mut self, own: ProbeScan) {
        let sum = &mut self.tree;
        sum.files += own.tree.files;
        sum.directories += own.tree.directories;
        sum.others += own.tree.others;
        sum.bytes = sum.bytes.saturating_add(own.tree.bytes);
        sum.allocated_bytes = sum.allocated_bytes.saturating_add(own.tree.allocated_bytes);
        sum.small_files += own.tree.small_files;
        sum.small_bytes = sum.small_bytes.saturating_add(own.tree.small_bytes);
        own.large.into_iter().for_each(|(size_bytes, path)| self.keep(size_bytes, path));
        // Later directories replace some of the earlier ones, so that the whole tree is represented.
        for (index, path) in own.small.into_iter().enumerate() {
            if self.small.len() < SMALL_KEPT {
                self.small.push(path);
            } else if let Some(place) =
                self.small.get_mut((self.tree.directories as usize * 7 + index) % SMALL_KEPT)
            {
                *place = path;
            }
        }
    }
}

fn within(directory: &Path, name: &CStr) -> PathBuf {
    directory.join(OsStr::from_bytes(name.to_bytes()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_counted_once_by_any_number_of_threads() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..40 {
            let directory = place.path().join(format!("{}/{number}", number % 7));
            std::fs::create_dir_all(&directory).unwrap();
            for file in 0..number {
                std::fs::write(directory.join(format!("file {file}")), vec![1; 100]).unwrap();
            }
        }
        std::fs::write(place.path().join("large"), vec![0; 2 << 20]).unwrap();
        std::os::unix::fs::symlink("large", place.path().join("link")).unwrap();
        let draft = String::from_utf8(hakobu_core::path::draft_name(b"any")).unwrap();
        std::fs::write(place.path().join(draft), "a draft").unwrap();
        for threads in [1, 4] {
            let found = scan(place.path(), threads, Duration::from_secs(60), &AtomicBool::new(false));
            let tree = found.tree;
            assert_eq!((tree.files, tree.directories, tree.others), (781, 47, 1));
            assert_eq!((tree.bytes, tree.small_files, tree.small_bytes), (78_000 + (2 << 20), 780, 78_000));
            assert!(tree.allocated_bytes <= tree.bytes, "{tree:?}");
            assert!(tree.complete && tree.scan.count == 829 && found.unread == 0, "{tree:?}");
            assert_eq!(found.large, [(2 << 20, place.path().join("large"))]);
            assert!(found.small.len() > 100);
        }
    }

    #[test]
    fn what_there_was_no_time_for_is_said() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("below")).unwrap();
        let found = scan(place.path(), 1, Duration::from_secs(60), &AtomicBool::new(true));
        assert!(!found.tree.complete);
        let found = scan(&place.path().join("none"), 2, Duration::from_secs(60), &AtomicBool::new(false));
        assert_eq!((found.unread, found.tree.entries()), (1, 0));
    }
}
