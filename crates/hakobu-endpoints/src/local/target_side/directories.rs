//! The target's directories: found, or made, beneath the root and within the grant.

use std::sync::Arc;

use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, fgetxattr, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::attributes::Owner;
use super::shared::Shared;
use crate::local::beneath::STEP;
use crate::local::fault::{creation_fault, fault};
use crate::local::file_system::{Stability, stability};
use crate::local::metadata;
use crate::local::recent::Recent;
use hakobu_core::entry::Kind;

/// How many directories a lane keeps open.
const DIRECTORIES_KEPT: usize = 8;
/// How often the way to a directory is tried again when another lane or process changes it.
const TRIES: usize = 8;
/// The mode of a directory that is made on the way; its own is applied when its children are there.
pub(crate) const PASSING_MODE: u32 = 0o700;

/// An open directory of the target, with what was learned about it.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Its path below the root.
    pub(crate) path: EntryPath,
    /// The descriptor.
    pub(crate) fd: Arc<OwnedFd>,
    /// The device it is on.
    pub(crate) device: u64,
    /// Whether new files get the mode they are created with.
    pub(crate) keeps_modes: bool,
    /// Whether new entries inherit no access list.
    pub(crate) is_bare: bool,
    /// How content gets to stable storage there.
    pub(crate) stability: Stability,
    /// Whether files without a name can be made in it.
    pub(crate) nameless: bool,
    /// How many names of its path lead to a directory that was found to be on the same file system.
    pub(crate) on_one_system_from: Option<u16>,
    /// Who new files belong to, once one was made: set-group-ID directories and some mounts give
    /// them to others than the process.
    pub(crate) new_owner: Option<Owner>,
}

/// The directories that a lane used last.
#[derive(Debug)]
pub(crate) struct Directories {
    recent: Recent<EntryPath, Directory>,
    /// The devices that this lane has told the others about, and how content gets to stable storage there.
    known: Vec<(u64, Stability)>,
}

impl Directories {
    /// None open.
    pub(crate) fn new() -> Self {
        Self { recent: Recent::new(DIRECTORIES_KEPT), known: Vec::new() }
    }

    /// Opens a directory, making it and what is missing above it.
    pub(crate) fn enter(&mut self, shared: &Shared, path: &EntryPath) -> Result<&mut Directory> {
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

    /// Opens a directory if it is there; nothing is made.
    pub(crate) fn find(&mut self, shared: &Shared, path: &EntryPath) -> Result<Option<&mut Directory>> {
        if self.recent.find(|key| key == path).is_none() {
            match shared.root.open_beneath(path, STEP) {
                Ok(_) => {}
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Err(errno) => return Err(fault("opening the directory", errno).at(path)),
            }
        }
        self.enter(shared, path).map(Some)
    }

    /// Forgets a directory, because it has changed.
    pub(crate) fn forget(&mut self, path: &EntryPath) {
        self.recent.forget(|key| key == path);
    }
}

impl Directory {
    fn open(shared: &Shared, path: &EntryPath) -> Result<Self> {
        let fd = reach(shared, path, PASSING_MODE)?;
        let failed = |errno| fault("opening the directory", errno).at(path);
        // To flush its file system and to read its default access list it must be open for
        // reading; a directory that is not readable can be written to all the same.
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

    /// Takes note that it is on the file system of the directory that so many names of its path lead to.
    pub(crate) fn seen_on_one_system(&mut self, names: u16) -> &mut Self {
        self.on_one_system_from = Some(names);
        self
    }

    /// Who a new file, just made here, belongs to. The first one is asked, and whether its mode is
    /// the one it was created with.
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

/// Makes sure that a directory is there, and opens it with `O_PATH`. `mode` is for the last name
/// only; the process's umask applies.
pub(crate) fn reach(shared: &Shared, path: &EntryPath, mode: u32) -> Result<OwnedFd> {
    let mut last = Errno::NOENT;
    for _ in 0..TRIES {
        match shared.root.open_beneath(path, STEP) {
            Ok(fd) => return Ok(fd),
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => last = errno,
            Err(errno) => return Err(fault("opening the directory", errno).at(path)),
        }
        let Some((parent, name)) = path.split_last() else { break };
        // Most often only the last name is missing.
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

fn reach_from_root(shared: &Shared, path: &EntryPath) -> Result<OwnedFd> {
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

/// Opens the directory `name` in `parent`, or makes it, in the place of a link if there is one.
/// `None` when someone else was faster: look again.
fn step(
    shared: &Shared,
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
                Ok(found) if found.kind == Kind::Symlink => {}
                Ok(found) if found.kind != Kind::Directory && shared.grant.check_remove(path).is_ok() => {}
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
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(creation_fault(during, errno, parent).at(path)),
    }
    match openat(parent, name, STEP, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(_) => Ok(None),
    }
}

/// Whether a missing directory may be made. One that only leads to a granted place has to be there.
fn may_make(shared: &Shared, path: &EntryPath) -> Result<()> {
    let leads = || Error::new(ErrorKind::NotFound, "opening the directory", "no such directory").at(path);
    shared.grant.check_write(path).map_err(|_| leads())
}
