//! Manages the scratch data on this machine and on the host. All of it is removed at the end.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::case::{BenchCase, DataDirection, DataKind, EndKinds};
use super::cleanup_shell::CleanupShell;
use super::content;
use super::error::{BenchError, BenchResult};
use super::shell::is_plain;
use crate::memory;

/// A directory that is in memory.
pub(super) const IN_MEMORY: &str = "/dev/shm";
/// A directory that is usually on a disk.
pub(super) const ON_DISK: &str = "/var/tmp";
/// The directory for symbolic links with plain names.
pub(super) const FOR_LINKS: &str = "/tmp";
/// The minimum size of a run in bytes. With less room, memory or disk is not used.
pub(super) const LEAST_BYTES: u64 = 16 << 20;
/// The maximum size of a run in bytes.
const MOST_BYTES: u64 = 4 << 30;
/// The divisors of the free space that limit the size of a run, and the total size of the sources kept for other rows
/// at each end. Both ends may be on the same machine, and other programs need space as well.
const SHARE_OF_ROOM: u64 = 24;
const SHARE_OF_SOURCES: u64 = 6;

/// A scratch directory on this machine.
#[derive(Debug)]
pub(super) struct NearDirectory {
    /// The paths to remove at the end.
    made: Vec<PathBuf>,
    /// The plain path of the directory.
    path: String,
}

impl NearDirectory {
    /// Creates a directory below `below`, with `source` and `target` in it.
    pub fn make(below: &Path, keeper: &CleanupShell) -> io::Result<Self> {
        let real = fresh(below)?;
        keeper.place(&real);
        let mut directory = Self { made: vec![real.clone()], path: String::new() };
        directory.path = match real.to_str().filter(|path| is_plain(path)) {
            Some(path) => path.to_owned(),
            None => {
                let link = fresh(Path::new(FOR_LINKS))?;
                keeper.place(&link);
                directory.made.push(link.clone());
                symlink(&real, link.join("d"))?;
                link.join("d").to_string_lossy().into_owned()
            }
        };
        for part in ["source", "target"] {
            fs::create_dir(real.join(part))?;
        }
        Ok(directory)
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the number of free bytes.
    pub fn free_bytes(&self) -> u64 {
        let free =
            rustix::fs::statvfs(&self.path).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
        // The free space of a file system in memory may exceed the available memory.
        match is_in_memory(Path::new(&self.path)) {
            true => free.min(memory::available_bytes().unwrap_or(u64::MAX)),
            false => free,
        }
    }

    /// Removes the files of the previous run.
    pub fn clear_target(&self) -> io::Result<()> {
        let target = Path::new(&self.path).join("target");
        for entry in fs::read_dir(target)? {
            remove(&entry?.path())?;
        }
        Ok(())
    }
}

impl Drop for NearDirectory {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // An error cannot be reported here.
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Creates a new directory that only this user can access.
fn fresh(below: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let below = if below.is_absolute() { below.to_owned() } else { std::env::current_dir()?.join(below) };
    loop {
        let number = COUNT.fetch_add(1, Relaxed);
        let path = below.join(format!("hakobu-bench.{}.{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {}
            Err(error) => return Err(error),
        }
    }
}

/// The scratch directories at both ends, in memory or on disk.
#[derive(Debug)]
pub(super) struct ScratchPair {
    /// The directory on this machine.
    pub near: NearDirectory,
    /// The directory on the host. Without a host, the one on this machine serves both purposes.
    pub far: Option<String>,
    /// The maximum number of bytes that one run may send.
    pub most_bytes: u64,
    /// The maximum total size of the sources at each end, in bytes.
    pub sources_bytes: u64,
}

impl ScratchPair {
    /// Creates a place, with limits that follow from the free space at each end.
    pub fn new(near: NearDirectory, far: Option<(String, u64)>) -> Self {
        let near_free = near.free_bytes();
        let mut place = Self { near, far: None, most_bytes: MOST_BYTES, sources_bytes: u64::MAX };
        place.fit(near_free);
        if let Some(far) = far {
            place.reach(far);
        }
        place
    }

    /// Adds the directory on the host, with its free space in bytes.
    pub fn reach(&mut self, (path, free_bytes): (String, u64)) {
        self.fit(free_bytes);
        self.far = Some(path);
    }

    fn fit(&mut self, free_bytes: u64) {
        self.most_bytes = self.most_bytes.min(free_bytes / SHARE_OF_ROOM);
        self.sources_bytes = self.sources_bytes.min(free_bytes / SHARE_OF_SOURCES);
    }

    /// Removes the sources on this machine if a further one of `bytes` would exceed the limit.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let sources = Path::new(self.near.path()).join("source");
        let files: Vec<_> = fs::read_dir(&sources)?.collect::<io::Result<_>>()?;
        let taken: u64 = files.iter().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum();
        if taken.saturating_add(bytes) > self.sources_bytes {
            files.iter().try_for_each(|file| fs::remove_file(file.path()))?;
        }
        Ok(())
    }
}

/// Returns the name of a file with this content and size.
pub(super) fn file_name(content: DataKind, bytes: u64) -> String {
    let content = match content {
        DataKind::Random => "random",
        DataKind::Text => "text",
        DataKind::Zeros => "zeros",
        DataKind::Gzipped => "gzipped",
    };
    format!("{content}.{bytes}")
}

/// Creates the source of a case on this machine, unless it exists. A source of one byte does not depend on the
/// content.
pub(super) fn near_source(place: &ScratchPair, content: DataKind, bytes: u64) -> BenchResult<PathBuf> {
    let path = Path::new(place.near.path()).join("source").join(file_name(content, bytes));
    if path.exists() {
        return Ok(path);
    }
    place.make_room(bytes).map_err(BenchError::io("removing sources of other rows"))?;
    let made = if bytes == 1 { content::write_least(&path) } else { content::write(&path, content, bytes) };
    made.map_err(BenchError::io(format!("making {}", path.display())))?;
    Ok(path)
}

/// Writes a file to disk, and drops it from the cache.
pub(super) fn forget(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Returns true if the source of the case is on this machine.
pub(super) fn source_is_here(case: &BenchCase) -> bool {
    case.direction != DataDirection::FromHost
}

/// Returns true if the case uses a disk.
pub(super) fn is_on_disk(case: &BenchCase) -> bool {
    case.ends == EndKinds::DiskToDisk
}

/// Returns true if a directory is in memory.
pub(super) fn is_in_memory(path: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::statfs(path).is_ok_and(|found| matches!(found.f_type as u64 & 0xffff_ffff, TMPFS | RAMFS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_an_odd_name_is_reached_by_a_plain_one_and_all_goes() {
        let keeper = CleanupShell::start().unwrap();
        let below = tempfile::Builder::new().prefix("it's a $place").tempdir().unwrap();
        let directory = NearDirectory::make(below.path(), &keeper).unwrap();
        let path = PathBuf::from(directory.path());
        assert!(is_plain(directory.path()) && directory.free_bytes() > 0);
        let real = fs::canonicalize(&path).unwrap();
        assert!(real.starts_with(below.path()));
        let place = ScratchPair::new(directory, None);
        let source = near_source(&place, DataKind::Zeros, 5000).unwrap();
        assert_eq!(near_source(&place, DataKind::Zeros, 5000).unwrap(), source);
        assert_eq!(fs::metadata(&source).unwrap().len(), 5000);
        assert_eq!(fs::metadata(near_source(&place, DataKind::Gzipped, 1).unwrap()).unwrap().len(), 1);
        forget(&source).unwrap();
        fs::create_dir(path.join("target/x")).unwrap();
        fs::write(path.join("target/y"), "").unwrap();
        place.near.clear_target().unwrap();
        assert_eq!(fs::read_dir(path.join("target")).unwrap().count(), 0);
        drop(place);
        assert!(!path.exists() && !real.exists());
        assert_eq!(fs::read_dir(below.path()).unwrap().count(), 0);
    }

    #[test]
    fn there_is_no_directory_where_none_can_be_made() {
        let keeper = CleanupShell::start().unwrap();
        assert!(NearDirectory::make(Path::new("/proc"), &keeper).is_err());
        assert!(NearDirectory::make(Path::new("/no/such"), &keeper).is_err());
        assert!(is_in_memory(Path::new(IN_MEMORY)) && !is_in_memory(Path::new("/proc")));
    }

    #[test]
    fn the_smaller_room_decides() {
        let keeper = CleanupShell::start().unwrap();
        let near = || NearDirectory::make(Path::new(IN_MEMORY), &keeper).unwrap();
        let place = ScratchPair::new(near(), Some(("/x".to_owned(), 2400)));
        assert_eq!((place.most_bytes, place.sources_bytes), (100, 400));
        // The third source exceeds the limit, so the others are removed.
        for (bytes, left) in [(150, 1), (200, 2), (151, 1)] {
            near_source(&place, DataKind::Zeros, bytes).unwrap();
            let sources = Path::new(place.near.path()).join("source");
            assert_eq!(fs::read_dir(sources).unwrap().count(), left);
        }
        assert!(ScratchPair::new(near(), None).most_bytes <= MOST_BYTES);
    }
}
