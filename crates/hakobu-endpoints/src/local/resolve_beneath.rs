//! A directory that is opened once, and paths resolved beneath it. No symbolic link is followed, and no path leaves it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hakobu_core::entry::Inode;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, major, minor, openat, openat2};
use rustix::io::Errno;

use super::errno::fault;

/// The flags with which parent directories of a path are opened.
pub(crate) const STEP: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A root: the directory that the user typed, opened once.
#[derive(Debug)]
pub(crate) struct TreeRoot {
    fd: OwnedFd,
    /// True if the kernel or a sandbox does not offer `openat2`, so that paths are resolved name by name.
    walk: bool,
    /// Directories of the other end of the copy, which are not entered.
    other_end: Arc<[Inode]>,
    /// The name of `fd` in the root, if the root is a directory that must not be opened itself. It begins every path.
    only: Option<Vec<u8>>,
}

/// A directory to which a whole process is confined, opened once. The kernel resolves every path of a peer beneath this
/// descriptor, without symbolic links, so a path cannot change its meaning after it was checked.
#[derive(Clone, Debug)]
pub struct Confinement(Arc<ConfinedProcess>);

#[derive(Debug)]
struct ConfinedProcess {
    fd: OwnedFd,
    path: PathBuf,
}

impl Confinement {
    /// Opens the directory. Symbolic links in `path` are followed, because the user who started the process typed it.
    ///
    /// # Errors
    /// If it is missing or is not a directory; `Unsupported` if the kernel cannot resolve beneath a descriptor.
    pub fn open(path: &Path) -> Result<Self> {
        const DURING: &str = "opening the directory";
        let typed = path.as_os_str().as_bytes();
        let failed = |errno: Errno| fault(DURING, errno).at(typed);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        let path = std::fs::canonicalize(path).map_err(|error| Error::io(DURING, &error).at(typed))?;
        match openat2(&fd, c".", STEP, Mode::empty(), resolve()) {
            Ok(_) => Ok(Self(Arc::new(ConfinedProcess { fd, path }))),
            Err(errno) => {
                let words =
                    format!("the kernel cannot resolve paths beneath it (openat2 of Linux 5.6: {errno})");
                Err(Error::new(ErrorKind::Unsupported, DURING, words).at(typed))
            }
        }
    }

    /// Returns the directory's path, with symbolic links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the descriptor of the directory.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.0.fd
    }

    /// Opens `path`, which must begin with the directory's own path. No symbolic link is followed: one as the last name
    /// gives `ELOOP`, unless `flags` has `O_PATH`.
    ///
    /// # Errors
    /// `EXDEV` for a path outside the directory; otherwise the system's.
    pub fn open_at(&self, path: &Path, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
        let below = path.strip_prefix(&self.0.path).map_err(|_| Errno::XDEV)?;
        let below = if below.as_os_str().is_empty() { OsStr::new(".") } else { below.as_os_str() };
        openat2(&self.0.fd, below, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve())
    }

    /// Returns true if `path` is the parent of the confinement's directory.
    fn is_above(&self, path: &Path) -> bool {
        self.0.path.parent() == Some(path)
    }
}

impl TreeRoot {
    /// Opens `path`. Symbolic links in it are followed, because the user typed it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match openat(CWD, path, OFlags::RDONLY | flags, Mode::empty()) {
            // A directory may be searchable without being readable.
            Err(Errno::ACCESS) => openat(CWD, path, OFlags::PATH | flags, Mode::empty()),
            other => other,
        };
        let place = path.as_os_str().as_encoded_bytes();
        let fd = opened.map_err(|errno| fault("opening the directory", errno).at(place))?;
        let probe = openat2(&fd, c".", STEP, Mode::empty(), resolve());
        let walk = matches!(probe, Err(Errno::NOSYS | Errno::PERM));
        Ok(Self { fd, walk, other_end: Arc::new([]), only: None })
    }

    /// Opens `path` beneath a confinement. Symbolic links in it are not followed.
    ///
    /// # Errors
    /// `PermissionDenied` if it is outside; otherwise as for [`TreeRoot::open`].
    pub(crate) fn open_within(confinement: &Confinement, path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = confinement.open_at(path, flags).or_else(|errno| match errno {
            // A directory may be searchable without being readable.
            Errno::ACCESS => confinement.open_at(path, OFlags::PATH | OFlags::DIRECTORY),
            _ => Err(errno),
        });
        let failed = |errno| match errno {
            Errno::XDEV | Errno::LOOP => outside(),
            _ => fault("opening the directory", errno),
        };
        let fd = fd.map_err(|errno| failed(errno).at(path.as_os_str().as_bytes()))?;
        Ok(Self { fd, walk: false, other_end: Arc::new([]), only: None })
    }

    /// Opens `path` beneath a confinement for reading. In addition to the paths of [`TreeRoot::open_within`], it accepts
    /// the parent of the confinement's directory as a root that contains only that directory.
    ///
    /// # Errors
    /// As for [`TreeRoot::open_within`].
    pub(crate) fn open_source_within(confinement: &Confinement, path: &Path) -> Result<Self> {
        let name = confinement.path().file_name().map(|name| name.as_bytes().to_vec());
        match name {
            Some(name) if confinement.is_above(path) => {
                let own = Self::open_within(confinement, confinement.path())?;
                Ok(Self { only: Some(name), ..own })
            }
            _ => Self::open_within(confinement, path),
        }
    }

    /// Excludes these directories of the other end of the copy, which a mount may make reachable.
    pub(crate) fn hold_apart(&mut self, directories: &[Inode]) {
        self.other_end = directories.into();
    }

    /// Refuses an open directory that belongs to the other end.
    pub(crate) fn check_apart(&self, directory: impl AsFd) -> Result<()> {
        if self.other_end.is_empty() {
            return Ok(());
        }
        let found = fstat(directory).map_err(|errno| fault("opening the directory", errno))?;
        self.check_apart_as((found.st_dev, found.st_ino))
    }

    /// Refuses a directory with this device and inode number if it belongs to the other end.
    pub(crate) fn check_apart_as(&self, (device, number): (u64, u64)) -> Result<()> {
        let file_system = u64::from(major(device)) << 32 | u64::from(minor(device));
        if !self.other_end.contains(&Inode { file_system, number }) {
            return Ok(());
        }
        let words = "source and target are one place here, by a mount or another name; it is left alone: unmount it, or leave \
                     it out (--exclude)";
        Err(Error::new(ErrorKind::Refused, "opening the directory", words))
    }

    /// Disables `openat2` from now on.
    #[cfg(test)]
    pub(crate) fn walk_only(&mut self) {
        self.walk = true;
    }

    /// Returns the descriptor of the directory.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Opens the entry at `path`. A symbolic link as the last name gives `ELOOP`, unless `flags` has `O_PATH`, which
    /// opens the link itself. A symbolic link earlier in the path gives `ELOOP` or `ENOTDIR`.
    pub(crate) fn open_beneath(&self, path: &EntryPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if self.walk {
            return self.walk_to(path, flags);
        }
        let bytes = match &self.only {
            None => path.as_bytes(),
            Some(only) => match path.as_bytes().strip_prefix(only.as_slice()) {
                Some([]) => b"",
                Some([b'/', below @ ..]) => below,
                _ => return Err(Errno::ACCESS),
            },
        };
        let bytes = if bytes.is_empty() { b"." } else { bytes };
        openat2(&self.fd, bytes, flags, Mode::empty(), resolve())
    }

    fn walk_to(&self, path: &EntryPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut names = path.names().peekable();
        let Some(mut name) = names.next() else {
            return openat(&self.fd, c".", flags, Mode::empty());
        };
        let mut step: Option<OwnedFd> = None;
        loop {
            let here = step.as_ref().unwrap_or(&self.fd);
            match names.next() {
                Some(next) => {
                    step = Some(openat(here, name, STEP, Mode::empty())?);
                    name = next;
                }
                None => return openat(here, name, flags, Mode::empty()),
            }
        }
    }
}

fn outside() -> Error {
    let words = "a link is in its place, or it is not beneath the directory of this login";
    Error::new(ErrorKind::PermissionDenied, "opening the directory", words)
}

fn resolve() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Runs a check with both methods of resolution over the same tree with symbolic links planted in it.
    fn both_ways(check: impl Fn(&TreeRoot)) {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "inside").unwrap();
        fs::create_dir(base.path().join("outside")).unwrap();
        fs::write(base.path().join("outside/file"), "outside").unwrap();
        symlink(base.path().join("outside"), root.join("out")).unwrap();
        symlink("b", root.join("a/near")).unwrap();
        symlink("file", root.join("a/b/link")).unwrap();
        symlink(&root, base.path().join("typed")).unwrap();
        let mut opened = TreeRoot::open(&base.path().join("typed")).unwrap();
        for walk in [false, true] {
            opened.walk = walk;
            check(&opened);
        }
    }

    fn path(text: &str) -> EntryPath {
        EntryPath::new(text).unwrap()
    }

    #[test]
    fn no_link_is_followed_below_the_root() {
        both_ways(|root| {
            for planted in ["out/file", "a/near/file", "a/b/link"] {
                let errno = root.open_beneath(&path(planted), OFlags::RDONLY).unwrap_err();
                assert!(matches!(errno, Errno::LOOP | Errno::NOTDIR), "{planted}: {errno}");
            }
            assert!(root.open_beneath(&path("out"), OFlags::PATH).is_ok());
            assert!(root.open_beneath(&path("out"), STEP).is_err());
        });
    }

    #[test]
    fn plain_paths_and_the_root_itself_open() {
        both_ways(|root| {
            root.open_beneath(&path("a/b/file"), OFlags::RDONLY).unwrap();
            root.open_beneath(&path("a/b"), STEP).unwrap();
            root.open_beneath(&EntryPath::root(), OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
            assert_eq!(root.open_beneath(&path("a/none/x"), STEP).unwrap_err(), Errno::NOENT);
        });
    }
}
