//! The roots of a source as one lane sees them, with the directories that it used last.

use std::sync::Arc;

use hakobu_core::entry::Kind;
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::beneath::{Root, STEP};
use super::fault::source_fault;
use super::metadata;
use super::recent::Recent;
use super::shared_devices::SharedDevices;
use crate::common::time_steps::TimeSteps;

/// How many directories a lane keeps open.
const DIRECTORIES_KEPT: usize = 8;

/// The roots as one lane sees them, with the directories it used last.
#[derive(Debug)]
pub(crate) struct Reader {
    roots: Arc<[Root]>,
    directories: Recent<(u16, EntryPath), OwnedFd>,
    noatime: NoAtime,
    /// What no entry may lose.
    require: Arc<[LossKind]>,
    devices: Arc<SharedDevices>,
    steps: TimeSteps,
    /// Whether no block device may be read.
    files_only: bool,
}

impl Reader {
    /// The roots, none of whose directories has been used.
    pub(super) fn new(
        roots: Arc<[Root]>,
        require: Arc<[LossKind]>,
        devices: Arc<SharedDevices>,
        steps: TimeSteps,
        files_only: bool,
    ) -> Self {
        let (directories, noatime) = (Recent::new(DIRECTORIES_KEPT), NoAtime::new());
        Self { roots, directories, noatime, require, devices, steps, files_only }
    }

    /// Refuses block devices where only files may be read.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub(crate) fn check_kind(&self, kind: Kind) -> Result<()> {
        metadata::check_kind(self.files_only, kind, "opening")
    }

    /// What no entry may lose.
    pub(crate) fn require(&self) -> Arc<[LossKind]> {
        Arc::clone(&self.require)
    }

    /// The steps in which the ends keep times.
    pub(crate) fn steps(&self) -> TimeSteps {
        self.steps.clone()
    }

    /// The devices that all lanes read.
    pub(crate) fn devices(&self) -> Arc<SharedDevices> {
        Arc::clone(&self.devices)
    }

    /// The root of that number.
    pub(crate) fn root(&self, index: u16) -> Result<&Root> {
        find_root(&self.roots, index)
    }

    /// The root of that number, and how its files are opened.
    pub(crate) fn root_for_reading(&mut self, index: u16) -> Result<(&Root, &mut NoAtime)> {
        Ok((find_root(&self.roots, index)?, &mut self.noatime))
    }

    /// Opens a directory, or finds it among the last ones used.
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

fn find_root(roots: &[Root], index: u16) -> Result<&Root> {
    let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {index}"));
    roots.get(usize::from(index)).ok_or_else(missing)
}

/// Whether files can be opened without changing the time of their last access. That takes their
/// owner or root, and even then some file systems refuse.
#[derive(Debug)]
pub(crate) struct NoAtime {
    user: u32,
    refused: bool,
}

impl NoAtime {
    fn new() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), refused: false }
    }

    /// Opens a file for reading with `open`, which is given the flags.
    pub(crate) fn open(
        &mut self,
        owner: u32,
        open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        // A FIFO in the place of a file must not hold us up.
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
