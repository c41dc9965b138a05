//! The roots of a source as seen by one lane, with a cache of recently used directories.

use std::sync::Arc;

use hakobu_core::entry::EntryKind;
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::errno::source_fault;
use super::lru_cache::LruCache;
use super::metadata;
use super::resolve_beneath::{STEP, TreeRoot};
use super::shared_devices::SharedDevices;
use crate::common::time_steps::TimeSteps;

/// The number of directories that a lane keeps open.
const DIRECTORIES_KEPT: usize = 8;

/// The roots as seen by one lane, with the directories that it used last.
#[derive(Debug)]
pub(crate) struct RootReader {
    roots: Arc<[TreeRoot]>,
    directories: LruCache<(u16, EntryPath), OwnedFd>,
    noatime: NoAtime,
    /// The kinds of metadata that no entry may lose.
    require: Arc<[LossKind]>,
    devices: Arc<SharedDevices>,
    steps: TimeSteps,
    /// True if block devices must not be read.
    files_only: bool,
}

impl RootReader {
    /// Creates a reader of these roots with an empty cache.
    pub(super) fn new(
        roots: Arc<[TreeRoot]>,
        require: Arc<[LossKind]>,
        devices: Arc<SharedDevices>,
        steps: TimeSteps,
        files_only: bool,
    ) -> Self {
        let (directories, noatime) = (LruCache::new(DIRECTORIES_KEPT), NoAtime::new());
        Self { roots, directories, noatime, require, devices, steps, files_only }
    }

    /// Refuses block devices if only files may be read.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub(crate) fn check_kind(&self, kind: EntryKind) -> Result<()> {
        metadata::check_kind(self.files_only, kind, "opening")
    }

    /// Returns the kinds of metadata that no entry may lose.
    pub(crate) fn require(&self) -> Arc<[LossKind]> {
        Arc::clone(&self.require)
    }

    /// Returns the granularity of file times at both ends.
    pub(crate) fn steps(&self) -> TimeSteps {
        self.steps.clone()
    }

    /// Returns the devices that all lanes read.
    pub(crate) fn devices(&self) -> Arc<SharedDevices> {
        Arc::clone(&self.devices)
    }

    /// Returns the root of that number.
    pub(crate) fn root(&self, index: u16) -> Result<&TreeRoot> {
        find_root(&self.roots, index)
    }

    /// Returns the root of that number, and the state for opening its files.
    pub(crate) fn root_for_reading(&mut self, index: u16) -> Result<(&TreeRoot, &mut NoAtime)> {
        Ok((find_root(&self.roots, index)?, &mut self.noatime))
    }

    /// Calls `then` with a directory, which is opened unless it is cached.
    pub(crate) fn with_directory<T>(
        &mut self,
        root: u16,
        path: &EntryPath,
        then: impl FnOnce(&OwnedFd, &mut NoAtime) -> T,
    ) -> Result<T> {
        if self.directories.find(|key| key.0 == root && key.1 == *path).is_none() {
            let opened = self.root(root)?.open_beneath(path, STEP);
            let opened = opened.map_err(|errno| source_fault("opening the directory", errno).at(path))?;
            self.directories.insert((root, path.clone()), opened);
        }
        match self.directories.find(|key| key.0 == root && key.1 == *path) {
            Some(directory) => Ok(then(directory, &mut self.noatime)),
            None => Err(Error::new(ErrorKind::Io, "opening the directory", "").at(path)),
        }
    }
}

fn find_root(roots: &[TreeRoot], index: u16) -> Result<&TreeRoot> {
    let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {index}"));
    roots.get(usize::from(index)).ok_or_else(missing)
}

/// Opens files without changing the time of their last access, if possible. This requires their owner or root, and even
/// then some file systems refuse.
#[derive(Debug)]
pub(crate) struct NoAtime {
    user: u32,
    refused: bool,
}

impl NoAtime {
    fn new() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), refused: false }
    }

    /// Opens a file for reading with `open`, which receives the flags.
    pub(crate) fn open(
        &mut self,
        owner: u32,
        open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        // A FIFO in the place of a file must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if self.refused || (self.user != 0 && self.user != owner) {
            return open(flags);
        }
        match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => {
                self.refused = true;
                open(flags)
            }
            other => other,
        }
    }
}
