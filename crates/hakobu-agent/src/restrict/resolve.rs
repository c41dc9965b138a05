//! Resolves paths without accessing anything outside of one directory. The directory is open, and everything is
//! accessed beneath its descriptor. A resolved path contains no symbolic links and is opened beneath the same
//! descriptor; if a link is put there meanwhile, opening fails.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hakobu_core::error::Result as CoreResult;
use hakobu_endpoints::local::Confinement;
use rustix::fs::{OFlags, readlinkat};

/// The most symbolic links followed while one path is resolved, as in the kernel.
const LINKS_MAX: u32 = 40;

/// A directory, and access to everything beneath it.
#[derive(Debug)]
pub(super) struct ConfinedDirectory {
    root: Confinement,
    /// The absolute path as typed.
    typed: PathBuf,
}

/// The error for a path that leads out of the directory, or cannot be resolved within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutsideError;

impl ConfinedDirectory {
    /// Opens the directory.
    ///
    /// # Errors
    /// It does not exist or cannot be opened.
    pub(super) fn new(path: &Path) -> CoreResult<Self> {
        let typed = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { root: Confinement::open(path)?, typed })
    }

    /// Returns the directory, to open files beneath it.
    pub(super) fn confinement(&self) -> &Confinement {
        &self.root
    }

    /// Returns the path of the directory, with symbolic links resolved.
    pub(super) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Opens a resolved path without following symbolic links.
    ///
    /// # Errors
    /// `EXDEV` if it is outside; otherwise the system's error.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(self.root.open_at(path, flags)?)
    }

    /// Returns the metadata of a resolved path without following symbolic links.
    ///
    /// # Errors
    /// The errors of [`ConfinedDirectory::open`].
    pub(super) fn lstat(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open(path, OFlags::PATH)?).metadata()
    }

    /// Returns a path for functions that take only paths, and the descriptor that must stay open for it: renaming does
    /// not change what it leads to.
    ///
    /// # Errors
    /// The errors of [`ConfinedDirectory::open`].
    pub(super) fn hold(&self, path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        let way = |fd: &OwnedFd| PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        if self.lstat(path)?.is_dir() {
            let fd = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let path = way(&fd).join(".");
            return Ok((fd, path));
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let fd = self.open(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        let path = way(&fd).join(name);
        Ok((fd, path))
    }

    /// Opens like [`ConfinedDirectory::hold`] the directory with this path, or the nearest existing one above.
    ///
    /// # Errors
    /// The errors of [`ConfinedDirectory::open`].
    pub(super) fn hold_directory(&self, path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        let mut held = path.ancestors().take_while(|above| self.holds(above));
        let there = held.find(|above| self.lstat(above).is_ok_and(|found| found.is_dir()));
        self.hold(there.unwrap_or(self.path()))
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let link = self.open(path, OFlags::PATH)?;
        let led_to = readlinkat(&link, c"", Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(led_to.into_bytes())))
    }

    /// Returns true if a path without symbolic links is the directory or beneath it.
    pub(super) fn holds(&self, path: &Path) -> bool {
        path.starts_with(self.path())
    }

    /// Resolves a path, which need not exist. A relative path is relative to the directory. A symbolic link in the last
    /// component is followed if `follow` is set or a slash comes after it.
    ///
    /// Nothing outside is accessed, so the result reveals nothing about it.
    pub(super) fn resolve(&self, path: &[u8], follow: bool) -> Result<PathBuf, OutsideError> {
        let mut ahead = VecDeque::new();
        prepend(&mut ahead, self.relative(path).ok_or(OutsideError)?);
        let follow = follow || path.ends_with(b"/") || path.ends_with(b"/.");
        let mut at: Vec<Vec<u8>> = Vec::new();
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == b".." {
                at.pop().ok_or(OutsideError)?;
                continue;
            }
            at.push(name);
            if ahead.is_empty() && !follow {
                break;
            }
            let Ok(led_to) = self.read_link(&self.below(&at)) else { continue };
            links += 1;
            if links > LINKS_MAX {
                return Err(OutsideError);
            }
            at.pop();
            let led_to = led_to.as_os_str().as_bytes();
            if led_to.starts_with(b"/") {
                at.clear();
            }
            prepend(&mut ahead, self.relative(led_to).ok_or(OutsideError)?);
        }
        Ok(self.below(&at))
    }

    fn below(&self, names: &[Vec<u8>]) -> PathBuf {
        let mut path = self.path().to_owned();
        names.iter().for_each(|name| path.push(OsStr::from_bytes(name)));
        path
    }

    /// Returns the components of a path below the directory. Nothing is accessed: an absolute path must begin with the
    /// directory's own path.
    fn relative<'a>(&self, path: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let names: Vec<&[u8]> = names(path).collect();
        if !path.starts_with(b"/") {
            return Some(names);
        }
        [self.path(), &self.typed].into_iter().find_map(|root| {
            let own: Vec<_> = self::names(root.as_os_str().as_bytes()).collect();
            names.starts_with(&own).then(|| names.iter().skip(own.len()).copied().collect())
        })
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

fn prepend(ahead: &mut VecDeque<Vec<u8>>, names: Vec<&[u8]>) {
    names.into_iter().rev().for_each(|name| ahead.push_front(name.to_vec()));
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place {
        directory: tempfile::TempDir,
        root: PathBuf,
        beneath: ConfinedDirectory,
    }

    /// Creates a directory with symbolic links in it, opened through a symbolic link.
    fn place() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let above = fs::canonicalize(directory.path()).unwrap();
        let root = above.join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(above.join("rootless")).unwrap();
        fs::write(above.join("secret"), "x").unwrap();
        symlink("root", above.join("typed")).unwrap();
        for (link, led_to) in [
            ("up", ".."),
            ("out", "/etc"),
            ("nowhere", "/no/such/thing"),
            ("around", "a/../../root"),
            ("near", "a/b"),
            ("loop", "loop"),
            ("a/back", "../near"),
        ] {
            symlink(led_to, root.join(link)).unwrap();
        }
        symlink(root.join("a"), root.join("absolute")).unwrap();
        symlink(above.join("typed/a"), root.join("by-the-typed-name")).unwrap();
        let beneath = ConfinedDirectory::new(&above.join("typed")).unwrap();
        Place { directory, root, beneath }
    }

    #[test]
    fn what_stays_within_is_found_by_every_name() {
        let Place { root, beneath, directory: _directory } = place();
        let typed = beneath.typed.clone();
        assert_eq!(beneath.path(), root);
        for (path, place) in [
            ("", ""),
            (".", ""),
            ("a/b", "a/b"),
            ("./a//b/", "a/b"),
            ("a/../a/b", "a/b"),
            ("near/x", "a/b/x"),
            ("a/back/../x", "a/x"),
            ("absolute/b", "a/b"),
            ("by-the-typed-name/b", "a/b"),
            ("near", "near"),
            ("near/", "a/b"),
            ("out", "out"),
            ("new/deeper/still", "new/deeper/still"),
        ] {
            // Joining an empty path would append a slash.
            let expected = if place.is_empty() { root.clone() } else { root.join(place) };
            assert_eq!(beneath.resolve(path.as_bytes(), false), Ok(expected.clone()), "{path}");
            for start in [&root, &typed] {
                let absolute = [start.as_os_str().as_bytes(), b"/", path.as_bytes()].concat();
                if !path.is_empty() {
                    assert_eq!(beneath.resolve(&absolute, false), Ok(expected.clone()), "{path}");
                }
            }
        }
        assert_eq!(beneath.resolve(b"near", true), Ok(root.join("a/b")));
    }

    #[test]
    fn what_leads_out_is_refused_whether_or_not_it_is_there() {
        let Place { root, beneath, directory: _directory } = place();
        let beside = [root.as_os_str().as_bytes(), b"less"].concat();
        let above = [root.as_os_str().as_bytes(), b"/../secret"].concat();
        for path in [
            &b".."[..],
            b"../secret",
            b"../none",
            b"a/../../secret",
            b"new/../../secret",
            b"/",
            b"/etc/passwd",
            b"/no/such/thing",
            b"up/secret",
            b"up/none",
            b"out/passwd",
            b"out/none",
            b"out/",
            b"nowhere/x",
            b"around/a",
            b"loop/x",
            &beside,
            &above,
        ] {
            assert_eq!(beneath.resolve(path, false), Err(OutsideError), "{}", String::from_utf8_lossy(path));
        }
        for path in [&b"up"[..], b"out", b"nowhere", b"loop"] {
            assert_eq!(beneath.resolve(path, true), Err(OutsideError), "{}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn the_root_of_all_holds_everything() {
        let beneath = ConfinedDirectory::new(Path::new("/")).unwrap();
        assert_eq!(beneath.resolve(b"/usr/../nothing here", false), Ok(PathBuf::from("/nothing here")));
        assert_eq!(beneath.resolve(b"/..", false), Err(OutsideError));
    }
}
