//! A directory opened once, and paths resolved beneath it: no link is followed, nothing leaves it.

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

use super::fault::fault;

/// How a directory is opened on the way to something below it.
pub(crate) const STEP: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A root: the directory that the user typed, opened once.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    /// Whether this kernel, or its sandbox, has no `openat2`, so that paths are walked.
    walk: bool,
    /// Directories that are left alone, for they are of the other end of the copy.
    other_end: Arc<[Inode]>,
    /// The name that `fd` has in the root, where the root is a directory that must not be opened: all paths begin with it.
    only: Option<Vec<u8>>,
}

/// A directory that a whole process is held to, opened once. Whatever is opened for a peer is resolved beneath the
/// descriptor by the kernel, without links, so that nothing depends on what a path led to when it was checked.
#[derive(Clone, Debug)]
pub struct Confinement(Arc<Confined>);

#[derive(Debug)]
struct Confined {
    fd: OwnedFd,
    path: PathBuf,
}

impl Confinement {
    /// Opens the directory. Links in `path` are followed: who starts the process typed it.
    ///
    /// # Errors
    /// When it is missing or is no directory, and `Unsupported` where the kernel cannot resolve beneath a descriptor.
    pub fn open(path: &Path) -> Result<Self> {
        const DURING: &str = "opening the directory";
        let typed = path.as_os_str().as_bytes();
        let failed = |errno: Errno| fault(DURING, errno).at(typed);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        let path = std::fs::canonicalize(path).map_err(|error| Error::io(DURING, &error).at(typed))?;
        match openat2(&fd, c".", STEP, Mode::empty(), resolve()) {
            Ok(_) => Ok(Self(Arc::new(Confined { fd, path }))),
            Err(errno) => {
                let words =
                    format!("the kernel cannot resolve paths beneath it (openat2 of Linux 5.6: {errno})");
                Err(Error::new(ErrorKind::Unsupported, DURING, words).at(typed))
            }
        }
    }

    /// The directory's path, links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The directory itself.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.0.fd
    }

    /// Opens what has this path, which begins with the directory's own. No link is followed: one as the last name gives
    /// `ELOOP`, unless `flags` has `O_PATH`.
    ///
    /// # Errors
    /// `EXDEV` for what is elsewhere; otherwise the system's.
    pub fn open_at(&self, path: &Path, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
        let below = path.strip_prefix(&self.0.path).map_err(|_| Errno::XDEV)?;
        let below = if below.as_os_str().is_empty() { OsStr::new(".") } else { below.as_os_str() };
        openat2(&self.0.fd, below, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve())
    }

    /// Whether `path` is the directory that holds the one of the confinement.
    fn is_above(&self, path: &Path) -> bool {
        self.0.path.parent() == Some(path)
    }
}

impl Root {
    /// Opens `path`. Links in it are followed: the user typed it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match openat(CWD, path, OFlags::RDONLY | flags, Mode::empty()) {
            // A directory may be entered without being readable.
            Err(Errno::ACCESS) => openat(CWD, path, OFlags::PATH | flags, Mode::empty()),
            other => other,
        };
        let place = path.as_os_str().as_encoded_bytes();
        let fd = opened.map_err(|errno| fault("opening the directory", errno).at(place))?;
        let probe = openat2(&fd, c".", STEP, Mode::empty(), resolve());
        let walk = matches!(probe, Err(Errno::NOSYS | Errno::PERM));
        Ok(Self { fd, walk, other_end: Arc::new([]), only: None })
    }

    /// Opens `path` beneath a confinement. Links in it are not followed.
    ///
    /// # Errors
    /// `PermissionDenied` when it is elsewhere; otherwise as [`Root::open`].
    pub(crate) fn open_within(confinement: &Confinement, path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = confinement.open_at(path, flags).or_else(|errno| match errno {
            // A directory may be entered without being readable.
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

    /// As [`Root::open_within`] for what is read: the directory that holds the confinement's is a root as well, of which
    /// nothing but that one is there.
    ///
    /// # Errors
    /// As [`Root::open_within`].
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

    /// Leaves these directories alone, which are of the other end of the copy: a mount may lead to them.
    pub(crate) fn hold_apart(&mut self, directories: &[Inode]) {
        self.other_end = directories.into();
    }

    /// Refuses an open directory that is one of the other end.
    pub(crate) fn check_apart(&self, directory: impl AsFd) -> Result<()> {
        if self.other_end.is_empty() {
            return Ok(());
        }
        let found = fstat(directory).map_err(|errno| fault("opening the directory", errno))?;
        self.check_apart_as((found.st_dev, found.st_ino))
    }

    /// The same of a directory with this device and inode number.
    pub(crate) fn check_apart_as(&self, (device, number): (u64, u64)) -> Result<()> {
        let file_system = u64::from(major(device)) << 32 | u64::from(minor(device));
        if !self.other_end.contains(&Inode { file_system, number }) {
            return Ok(());
        }
        let words = "source and target are one place here, by a mount or another name; it is left alone: unmount it, or leave \
                     it out (--exclude)";
        Err(Error::new(ErrorKind::Refused, "opening the directory", words))
    }

    /// Behaves as without `openat2` from now on.
    #[cfg(test)]
    pub(crate) fn walk_only(&mut self) {
        self.walk = true;
    }

    /// The directory itself.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Opens what is at `path`. A link as the last name gives `ELOOP`, unless `flags` has
    /// `O_PATH`, which opens the link itself; a link before gives `ELOOP` or `ENOTDIR`.
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

    /// The two ways of resolving, over the same tree with links planted in it.
    fn both_ways(check: impl Fn(&Root)) {
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
        let mut opened = Root::open(&base.path().join("typed")).unwrap();
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
