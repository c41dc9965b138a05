//! Files that nobody sees: they have no name, so nothing of them stays, however the process ends.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::path::draft_name;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

/// A directory in which scratch files are made.
pub(super) struct Scratch {
    directory: OwnedFd,
    /// Whether the file system makes files without a name, as far as is known.
    nameless: AtomicBool,
}

impl Scratch {
    /// # Errors
    /// When the directory cannot be opened.
    pub fn within(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(rustix::fs::CWD, directory, flags, Mode::empty())?;
        Ok(Self { directory, nameless: AtomicBool::new(true) })
    }

    /// The directory.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// A new empty file. Where it has to have a name, that is gone when this returns.
    ///
    /// # Errors
    /// Those of the system: no rights, no room, mounted for reading only.
    pub fn file(&self) -> io::Result<File> {
        if self.nameless.load(Relaxed) {
            match self.without_name() {
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                    self.nameless.store(false, Relaxed);
                }
                made => return Ok(made?),
            }
        }
        Ok(self.with_name_removed()?)
    }

    fn without_name(&self) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        openat(&self.directory, ".", flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }

    fn with_name_removed(&self) -> Result<File, Errno> {
        let name = name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, name.as_slice(), flags, Mode::RUSR | Mode::WUSR)?;
        unlinkat(&self.directory, name.as_slice(), AtFlags::empty())?;
        Ok(file.into())
    }
}

/// The name of a draft that nobody else has: scans leave such files out.
fn name() -> Vec<u8> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let own = u128::from(std::process::id()) << 64 | u128::from(NUMBER.fetch_add(1, Relaxed));
    draft_name(&(time ^ own.rotate_left(40)).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use hakobu_core::path::is_draft_name;

    use super::*;

    #[test]
    fn a_scratch_file_has_no_name() {
        let place = tempfile::tempdir().unwrap();
        for nameless in [true, false] {
            let scratch = Scratch::within(place.path()).unwrap();
            scratch.nameless.store(nameless, Relaxed);
            let mut file = scratch.file().unwrap();
            file.write_all(b"content").unwrap();
            file.rewind().unwrap();
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            assert_eq!((content.as_str(), std::fs::read_dir(place.path()).unwrap().count()), ("content", 0));
        }
        assert!(Scratch::within(&place.path().join("none")).is_err());
    }

    #[test]
    fn names_are_those_of_drafts_and_never_the_same() {
        let (one, other) = (name(), name());
        assert!(is_draft_name(&one) && is_draft_name(&other) && one != other, "{one:?} {other:?}");
    }
}
