//! The target's directories: found or created, beneath the root and within the grant.

use std::sync::Arc;

use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, fgetxattr, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::attributes::Owner;
use super::shared::LocalTargetState;
use crate::local::errno::{creation_fault, fault};
use crate::local::file_system::{Stability, stability};
use crate::local::lru_cache::LruCache;
use crate::local::metadata;
use crate::local::resolve_beneath::STEP;
use hakobu_core::entry::EntryKind;

/// The number of directories that a lane keeps open.
const DIRECTORIES_KEPT: usize = 8;
/// The number of attempts to reach a directory while other lanes or processes change its path.
const TRIES: usize = 8;
/// The mode of a directory that is created as a parent. Its own mode is applied after its children were created.
pub(crate) const PASSING_MODE: u32 = 0o700;

/// An open directory of the target, with its known properties.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The path below the root.
    pub(crate) path: EntryPath,
    /// The descriptor.
    pub(crate) fd: Arc<OwnedFd>,
    /// The number of its file system's device.
    pub(crate) device: u64,
    /// True if new files get the mode with which they are created.
    pub(crate) keeps_modes: bool,
    /// True if new entries inherit no access list.
    pub(crate) is_bare: bool,
    /// The method by which content gets to stable storage there.
    pub(crate) stability: Stability,
    /// True if files without a name can be created in it.
    pub(crate) nameless: bool,
    /// The number of leading names of its path that lead to a directory known to be on the same file system.
    pub(crate) on_one_system_from: Option<u16>,
    /// The owner of new files, once one was created. Set-group-ID directories and some mounts give files another owner.
    pub(crate) new_owner: Option<Owner>,
}

/// The directories that a lane used last.
#[derive(Debug)]
pub(crate) struct DirectoryCache {
    recent: LruCache<EntryPath, Directory>,
    /// The devices that this lane has reported to the others, with the method of getting content to stable storage
    /// there.
    known: Vec<(u64, Stability)>,
}

impl DirectoryCache {
    /// Creates an empty cache.
    pub(crate) fn new() -> Self {
        Self { recent: LruCache::new(DIRECTORIES_KEPT), known: Vec::new() }
    }

    /// Opens a directory. It and its missing parents are created.
    pub(crate) fn enter(&mut self, shared: &LocalTargetState, path: &EntryPath) -> Result<&mut Directory> {
        shared.grant.check_enter(path)?;
        if self.recent.find(|key| key == path).is_none() {
            let mut directory = Directory::open(shared, path)?;
            directory.stability = match self.known.iter().find(|(device, _)| *device == directory.device) {
                Some((_, stability)) => *stability,
                None => {
                    let stability = stability(directory.fd.as_fd());
                    self.known.push((directory.device, stability));
                    shared.devices.remember(directory.device, &directory.fd);
                    stability
                }
            };
            self.recent.insert(path.clone(), directory);
        }
        let missing = || Error::new(ErrorKind::Io, "opening the directory", "").at(path);
        self.recent.find(|key| key == path).ok_or_else(missing)
    }

    /// Opens a directory if it exists, without creating anything.
    pub(crate) fn find(
        &mut self,
        shared: &LocalTargetState,
        path: &EntryPath,
    ) -> Result<Option<&mut Directory>> {
        if self.recent.find(|key| key == path).is_none() {
            match shared.root.open_beneath(path, STEP) {
                Ok(_) => {}
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Err(errno) => return Err(fault("opening the directory", errno).at(path)),
            }
        }
        self.enter(shared, path).map(Some)
    }

    /// Removes a directory from the cache, because it has changed.
    pub(crate) fn forget(&mut self, path: &EntryPath) {
        self.recent.forget(|key| key == path);
    }
}

impl Directory {
    fn open(shared: &LocalTargetState, path: &EntryPath) -> Result<Self> {
        let fd = reach(shared, path, PASSING_MODE)?;
        let failed = |errno| fault("opening the directory", errno).at(path);
        // Flushing its file system and reading its default access list require an open for reading. A directory that is
        // not readable may still be writable.
        let readable = openat(&fd, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let (fd, is_bare) = match readable {
            Ok(fd) => {
                let list = fgetxattr(&fd, c"system.posix_acl_default", &mut [0u8; 16][..]);
                (fd, matches!(list, Err(Errno::NODATA | Errno::OPNOTSUPP)))
            }
            Err(Errno::ACCESS) => (fd, false),
            Err(errno) => return Err(failed(errno)),
        };
        let found = fstat(&fd).map_err(failed)?;
        shared.root.check_apart_as((found.st_dev, found.st_ino)).map_err(|error| error.at(path))?;
        let device = found.st_dev;
        let path = path.clone();
        let (fd, keeps_modes, nameless) = (Arc::new(fd), is_bare, shared.nameless);
        let (on_one_system_from, new_owner, stability) = (None, None, Stability::Flushed);
        Ok(Self {
            path,
            fd,
            device,
            keeps_modes,
            is_bare,
            stability,
            nameless,
            on_one_system_from,
            new_owner,
        })
    }

    /// Records that the directory reached by that many names of the path is on the same file system.
    pub(crate) fn seen_on_one_system(&mut self, names: u16) -> &mut Self {
        self.on_one_system_from = Some(names);
        self
    }

    /// Returns the owner of a new file in this directory. The first new file determines the owner, and whether files
    /// keep the mode with which they are created.
    pub(crate) fn owner_of_new(&mut self, file: &OwnedFd, created_mode: u32) -> Result<Owner, Errno> {
        if let Some(owner) = self.new_owner {
            return Ok(owner);
        }
        let found = metadata::of_file(file)?;
        if found.mode != created_mode {
            self.keeps_modes = false;
        }
        let owner = Owner { uid: found.uid, gid: found.gid };
        self.new_owner = Some(owner);
        Ok(owner)
    }
}

/// Opens a directory with `O_PATH`, creating it and its parents if needed. `mode`, less the umask, is for the last
/// name.
pub(crate) fn reach(shared: &LocalTargetState, path: &EntryPath, mode: u32) -> Result<OwnedFd> {
    let mut last = Errno::NOENT;
    for _ in 0..TRIES {
        match shared.root.open_beneath(path, STEP) {
            Ok(fd) => return Ok(fd),
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => last = errno,
            Err(errno) => return Err(fault("opening the directory", errno).at(path)),
        }
        let Some((parent, name)) = path.split_last() else { break };
        // Usually only the last name is missing.
        let parent_fd = match shared.root.open_beneath(&parent, STEP) {
            Ok(fd) => fd,
            Err(_) => reach_from_root(shared, &parent)?,
        };
        if let Some(fd) = step(shared, &parent_fd, path, name, mode)? {
            return Ok(fd);
        }
    }
    Err(fault("making the directory", last).at(path))
}

fn reach_from_root(shared: &LocalTargetState, path: &EntryPath) -> Result<OwnedFd> {
    let mut here = shared
        .root
        .open_beneath(&EntryPath::root(), STEP)
        .map_err(|errno| fault("opening the directory", errno))?;
    let mut so_far = EntryPath::root();
    for name in path.names() {
        so_far = so_far.join(name)?;
        let mut next = None;
        for _ in 0..TRIES {
            next = step(shared, &here, &so_far, name, PASSING_MODE)?;
            if next.is_some() {
                break;
            }
        }
        let missing = || Error::new(ErrorKind::Conflict, "making the directory", "its place keeps changing");
        here = next.ok_or_else(|| missing().at(&so_far))?;
    }
    Ok(here)
}

/// Opens the directory `name` in `parent`. If it is missing, it is created, and replaces a symbolic link of that name.
/// Returns `None` if another process was faster and the caller must look again.
fn step(
    shared: &LocalTargetState,
    parent: &OwnedFd,
    path: &EntryPath,
    name: &[u8],
    mode: u32,
) -> Result<Option<OwnedFd>> {
    let during = "making the directory";
    match openat(parent, name, STEP, Mode::empty()) {
        Ok(fd) => return Ok(Some(fd)),
        Err(Errno::NOENT) => {}
        Err(Errno::NOTDIR | Errno::LOOP) => {
            match metadata::of_name(parent, name) {
                Ok(found) if found.kind == EntryKind::Symlink => {}
                Ok(found)
                    if found.kind != EntryKind::Directory && shared.grant.check_remove(path).is_ok() => {}
                Ok(found) => {
                    let words = format!("{} is in its place", found.kind.words());
                    return Err(Error::new(ErrorKind::Conflict, during, words).at(path));
                }
                Err(_) => return Ok(None),
            }
            may_make(shared, path)?;
            match unlinkat(parent, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => return Ok(None),
                Err(errno) => return Err(fault("removing what is in its place", errno).at(path)),
            }
        }
        Err(errno) => return Err(fault("opening the directory", errno).at(path)),
    }
    may_make(shared, path)?;
    shared.makes_entry();
    match mkdirat(parent, name, Mode::from_raw_mode(mode & 0o7777)) {
        Ok(()) => {}
        Err(Errno::EXIST) => shared.made_by_another(),
        Err(errno) => return Err(creation_fault(during, errno, parent).at(path)),
    }
    match openat(parent, name, STEP, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(_) => Ok(None),
    }
}

/// Fails if a missing directory must not be created. One that only leads to a granted path must exist.
fn may_make(shared: &LocalTargetState, path: &EntryPath) -> Result<()> {
    let leads = || Error::new(ErrorKind::NotFound, "opening the directory", "no such directory").at(path);
    shared.grant.check_write(path).map_err(|_| leads())?;
    shared.grant.check_time()
}
