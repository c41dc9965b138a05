//! Generates a tree of many files.

use std::fs;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags, fsetxattr};

use super::Pattern;
use super::disk::WRITE_BYTES;
use super::plan::{DataPlan, TreeSpec};
use crate::MeasureError;
use crate::MeasureResult;

/// The maximum number of files that a thread takes at a time.
const FILES_AT_A_TIME: u64 = 256;

/// The contents of a generated tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeSummary {
    /// The number of regular files.
    pub files: u64,
    /// The number of directories below the root, including empty ones.
    pub directories: u64,
    /// The number of symbolic links.
    pub links: u64,
    /// The number of second hard links.
    pub hard_links: u64,
    /// The total size of all regular files in bytes.
    pub bytes: u64,
}

/// Creates a new tree below `path`. The directory `path` is created if missing, with its parents, and is part of the
/// tree: its mode and times are set as well. The process owns all entries, and nothing is synced.
///
/// # Errors
///
/// [`MeasureError::NotEmpty`] if `path` exists and is anything but an empty directory, [`MeasureError::Specification`] if `spec`
/// cannot be met, [`MeasureError::Io`] for system errors; entries that were created remain.
pub fn tree(path: &Path, spec: &TreeSpec) -> MeasureResult<TreeSummary> {
    let plan = DataPlan::new(spec)?;
    make_root(path)?;
    for directory in 1..plan.directories() {
        let below = plan.directory_path(path, directory);
        fs::create_dir(&below).map_err(MeasureError::io("create", &below))?;
    }
    let maker = TreeMaker {
        root: path,
        plan: &plan,
        compressibility: spec.compressibility,
        bytes: AtomicU64::new(0),
        links: AtomicU64::new(0),
    };
    let holders = plan.holders();
    let slices = Slices::new(spec, holders.end - holders.start);
    in_parallel(spec.threads, slices.count(), |unit, buffer| {
        let (holder, slice) = slices.at(unit);
        maker.fill_directory(holders.start + holder, slice, buffer)
    })?;
    in_parallel(spec.threads, spec.hard_links, |link, _| maker.link_again(link))?;
    // From here on nothing changes the time of a directory.
    in_parallel(spec.threads, plan.directories(), |directory, _| maker.finish_directory(directory))?;
    Ok(TreeSummary {
        files: spec.files,
        directories: plan.directories() - 1,
        links: maker.links.into_inner(),
        hard_links: spec.hard_links,
        bytes: maker.bytes.into_inner(),
    })
}

fn make_root(path: &Path) -> MeasureResult<()> {
    fs::create_dir_all(path).map_err(|cause| match path.symlink_metadata() {
        Ok(_) => MeasureError::NotEmpty(path.to_path_buf()),
        Err(_) => MeasureError::io("create", path)(cause),
    })?;
    let mut entries = fs::read_dir(path).map_err(MeasureError::io("list", path))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(MeasureError::NotEmpty(path.to_path_buf())),
    }
}

/// Divides the work: every directory into slices, few enough to cost nothing and many enough to keep all threads busy
/// with few large files.
struct Slices {
    holders: u64,
    per_holder: u64,
    files: u64,
}

impl Slices {
    fn new(spec: &TreeSpec, holders: u64) -> Self {
        let share = spec.files / (spec.threads.max(1) as u64 * 8);
        let files = share.clamp(1, FILES_AT_A_TIME);
        Self { holders, per_holder: spec.files.div_ceil(holders).div_ceil(files).max(1), files }
    }

    fn count(&self) -> u64 {
        self.holders.saturating_mul(self.per_holder)
    }

    /// Returns the directory of a unit, and the range of its files, counted from 0.
    fn at(&self, unit: u64) -> (u64, Range<u64>) {
        let first = unit % self.per_holder * self.files;
        (unit / self.per_holder, first..first + self.files)
    }
}

struct TreeMaker<'a> {
    root: &'a Path,
    plan: &'a DataPlan<'a>,
    compressibility: f64,
    bytes: AtomicU64,
    links: AtomicU64,
}

impl TreeMaker<'_> {
    fn fill_directory(&self, directory: u64, slice: Range<u64>, buffer: &mut [u8]) -> MeasureResult<()> {
        let path = self.plan.directory_path(self.root, directory);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened =
            rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(MeasureError::io("open", &path))?;
        let files = self.plan.files_in(directory);
        let end = files.end.min(files.start + slice.end);
        let mut bytes = 0;
        for file in files.start + slice.start..end {
            bytes += self.make_file(opened.as_fd(), file, buffer).map_err(|cause| {
                let path = path.join(self.plan.file_name(file));
                MeasureError::io("create", &path)(cause)
            })?;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if slice.start == 0 {
            self.make_links(&opened, directory).map_err(MeasureError::io("create a link in", &path))?;
        }
        Ok(())
    }

    fn make_file(&self, directory: BorrowedFd<'_>, file: u64, buffer: &mut [u8]) -> rustix::io::Result<u64> {
        let mode = Mode::from_raw_mode(self.plan.file_mode(file));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // Extended attributes can only be set on a writable file.
        let opened =
            rustix::fs::openat(directory, self.plan.file_name(file), flags, Mode::RUSR | Mode::WUSR)?;
        let size = self.plan.file_size(file);
        let pattern = Pattern::new(self.plan.file_seed(file), self.compressibility);
        let mut at = 0;
        while at < size {
            let length = (size - at).min(buffer.len() as u64) as usize;
            let part = buffer.get_mut(..length).unwrap_or_default();
            pattern.fill(at, part);
            write_all(&opened, at, part)?;
            at += length as u64;
        }
        for (name, value) in self.plan.file_attributes(file) {
            fsetxattr(&opened, name, &value, XattrFlags::empty())?;
        }
        rustix::fs::fchmod(&opened, mode)?;
        rustix::fs::futimens(&opened, &self.plan.file_times(file))?;
        Ok(size)
    }

    fn make_links(&self, opened: &OwnedFd, directory: u64) -> rustix::io::Result<()> {
        let count = self.plan.links_in(directory);
        for link in 0..count {
            let (name, target, times) = self.plan.link(directory, link);
            rustix::fs::symlinkat(&target, opened, &name)?;
            rustix::fs::utimensat(opened, &name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        self.links.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    fn link_again(&self, link: u64) -> MeasureResult<()> {
        let (holder, file, other, name) = self.plan.hard_link(link);
        let [first, second] = [holder, other].map(|directory| self.plan.directory_path(self.root, directory));
        let (first, second) = (first.join(self.plan.file_name(file)), second.join(name));
        fs::hard_link(first, &second).map_err(MeasureError::io("create", &second))
    }

    fn finish_directory(&self, directory: u64) -> MeasureResult<()> {
        let path = self.plan.directory_path(self.root, directory);
        for (name, value) in self.plan.directory_attributes(directory) {
            rustix::fs::setxattr(&path, name, &value, XattrFlags::empty())
                .map_err(MeasureError::io("set an attribute of", &path))?;
        }
        let mode = Mode::from_raw_mode(self.plan.directory_mode(directory));
        let times = self.plan.directory_times(directory);
        rustix::fs::chmod(&path, mode)
            .and_then(|()| rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()))
            .map_err(MeasureError::io("finish", &path))
    }
}

fn write_all(file: &OwnedFd, mut offset: u64, mut data: &[u8]) -> rustix::io::Result<()> {
    while !data.is_empty() {
        match rustix::io::pwrite(file, data, offset) {
            Ok(0) => return Err(rustix::io::Errno::IO),
            Ok(written) => {
                offset += written as u64;
                data = data.get(written..).unwrap_or_default();
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Calls `work` for every number below `count` on several threads, each with its own buffer, until all are done or
/// one fails. Returns the first error.
fn in_parallel<W>(threads: usize, count: u64, work: W) -> MeasureResult<()>
where
    W: Fn(u64, &mut [u8]) -> MeasureResult<()> + Sync,
{
    let next = AtomicU64::new(0);
    let run = || {
        let mut buffer = vec![0; WRITE_BYTES];
        loop {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            if unit >= count {
                return Ok(());
            }
            if let Err(error) = work(unit, &mut buffer) {
                next.store(count, Ordering::Relaxed);
                return Err(error);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(run)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
