//! Creates scratch files without a name, of which nothing remains however the process ends.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hakobu_core::path::draft_name;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

/// The number of attempts to remove a directory that is not empty yet, and the pause between them.
const REMOVALS: u32 = 100;
const REMOVE_AGAIN: Duration = Duration::from_millis(20);

/// A directory for scratch files.
pub(super) struct Scratch {
    directory: OwnedFd,
    /// True if the file system supports files without a name, as far as known.
    nameless: AtomicBool,
}

impl Scratch {
    /// # Errors
    /// If the directory cannot be opened.
    pub fn within(directory: &Path) -> io::Result<Self> {
        // A directory that cannot be listed may still be writable.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(rustix::fs::CWD, directory, flags, Mode::empty())?;
        Ok(Self { directory, nameless: AtomicBool::new(true) })
    }

    /// Returns the directory.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Creates an empty file. If it needs a name, the name is removed before this returns.
    ///
    /// # Errors
    /// System errors: missing permission, no space, a read-only file system.
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

    /// Returns a directory in which one thread creates files. A server creates the files in one directory one after
    /// another, while the files of a copy are in many. So if files need a name, the thread gets its own directory,
    /// which is removed when the value is dropped.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn apart(&self) -> io::Result<ThreadScratch<'_>> {
        // The first file shows whether files need a name.
        if self.nameless.load(Relaxed) {
            let directory = self.directory.try_clone()?;
            let scratch = Self { directory, nameless: AtomicBool::new(true) };
            return Ok(ThreadScratch { scratch, within: None });
        }
        let name = name();
        mkdirat(&self.directory, name.as_slice(), Mode::RWXU)?;
        let within = Some((&self.directory, name.clone()));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.directory, name.as_slice(), flags, Mode::empty()) {
            Ok(directory) => {
                Ok(ThreadScratch { scratch: Self { directory, nameless: AtomicBool::new(false) }, within })
            }
            Err(error) => {
                remove(&self.directory, &name);
                Err(error.into())
            }
        }
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

/// A directory in which one thread creates scratch files.
pub(super) struct ThreadScratch<'a> {
    pub scratch: Scratch,
    /// The parent directory and the name, if the directory is to be removed.
    within: Option<(&'a OwnedFd, Vec<u8>)>,
}

impl Drop for ThreadScratch<'_> {
    fn drop(&mut self) {
        if let Some((directory, name)) = &self.within {
            remove(directory, name);
        }
    }
}

/// Removes an empty directory. On FUSE a recently closed file may still have a name in it.
fn remove(directory: &OwnedFd, name: &[u8]) {
    for _ in 0..REMOVALS {
        match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => std::thread::sleep(REMOVE_AGAIN),
            _ => return,
        }
    }
}

/// Returns a unique draft name. Scans ignore files with such names.
pub(super) fn name() -> Vec<u8> {
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
    fn a_thread_has_a_directory_of_its_own_where_files_have_names() {
        let place = tempfile::tempdir().unwrap();
        let entries = || std::fs::read_dir(place.path()).unwrap().flatten().collect::<Vec<_>>();
        for (nameless, directories) in [(true, 0), (false, 2)] {
            let scratch = Scratch::within(place.path()).unwrap();
            scratch.nameless.store(nameless, Relaxed);
            let own = [scratch.apart().unwrap(), scratch.apart().unwrap()];
            assert_eq!(entries().len(), directories);
            assert!(entries().iter().all(|entry| is_draft_name(entry.file_name().as_encoded_bytes())));
            own[0].scratch.file().unwrap();
            drop(own);
            assert_eq!(entries().len(), 0);
        }
    }

    #[test]
    fn names_are_those_of_drafts_and_never_the_same() {
        let (one, other) = (name(), name());
        assert!(is_draft_name(&one) && is_draft_name(&other) && one != other, "{one:?} {other:?}");
    }
}
