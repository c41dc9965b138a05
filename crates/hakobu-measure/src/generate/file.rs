//! One large file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::Pattern;
use crate::{Error, Result};

/// What one `write` takes: the buffer stays in the core's L2 cache between
/// filling it and the kernel's copying out of it.
pub(super) const WRITE_BYTES: usize = 256 * 1024;

/// What a thread takes at a time: long enough that the file system sees runs.
const CHUNK_BYTES: u64 = 8 * 1024 * 1024;

/// What a file shall be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileSpec {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// What its content follows from.
    pub seed: u64,
    /// From 0.0 (random) to 1.0 (zeros); see [`Pattern::new`].
    pub compressibility: f64,
    /// How many threads write; 0 is taken as 1.
    pub threads: usize,
}

/// Writes a new file of [`Pattern`] content. Nothing is synced.
///
/// # Errors
///
/// [`Error::NotEmpty`] where `path` is anything but absent or an empty regular
/// file; [`Error::Io`] from the system, and then a file that this call made is
/// removed again.
pub fn file(path: &Path, spec: FileSpec) -> Result<()> {
    let (file, created) = open_empty(path)?;
    let written = write_all(&file, spec).map_err(Error::io("write", path));
    if written.is_err() && created {
        // The error that matters is the first one.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Opens `path` for writing; the flag tells whether it was made here.
fn open_empty(path: &Path) -> Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => return Ok((file, true)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Error::io("create", path)(error)),
    }
    let metadata = std::fs::metadata(path).map_err(Error::io("examine", path))?;
    if !metadata.is_file() || metadata.len() > 0 {
        return Err(Error::NotEmpty(path.to_path_buf()));
    }
    let file = options.open(path).map_err(Error::io("open", path))?;
    Ok((file, false))
}

fn write_all(file: &File, spec: FileSpec) -> std::io::Result<()> {
    file.set_len(spec.size_bytes)?;
    let pattern = Pattern::new(spec.seed, spec.compressibility);
    let chunks = spec.size_bytes.div_ceil(CHUNK_BYTES);
    let threads = (spec.threads.max(1) as u64).min(chunks);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| write_chunks(file, pattern, spec.size_bytes, &next)))
            .collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn write_chunks(file: &File, pattern: Pattern, size_bytes: u64, next: &AtomicU64) -> std::io::Result<()> {
    let mut buffer = vec![0; WRITE_BYTES];
    loop {
        let start = next.fetch_add(1, Ordering::Relaxed).saturating_mul(CHUNK_BYTES);
        if start >= size_bytes {
            return Ok(());
        }
        let end = size_bytes.min(start + CHUNK_BYTES);
        let mut at = start;
        while at < end {
            let length = (end - at).min(WRITE_BYTES as u64);
            let part = &mut buffer[..length as usize];
            pattern.fill(at, part);
            if let Err(error) = file.write_all_at(part, at) {
                // Let the other threads stop at their next chunk.
                next.store(u64::MAX / 2, Ordering::Relaxed);
                return Err(error);
            }
            at += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(size_bytes: u64, threads: usize) -> FileSpec {
        FileSpec { size_bytes, seed: 42, compressibility: 0.0, threads }
    }

    #[test]
    fn content_is_the_pattern_whatever_the_threads() {
        let place = tempfile::tempdir().unwrap();
        for (size, threads) in [(0, 4), (1, 0), (5 * CHUNK_BYTES / 2 + 77, 3)] {
            let path = place.path().join(format!("{size}"));
            file(&path, spec(size, threads)).unwrap();
            let data = std::fs::read(&path).unwrap();
            assert_eq!(data.len() as u64, size);
            assert_eq!(Pattern::new(42, 0.0).first_difference(0, &data), None);
        }
    }

    #[test]
    fn what_is_there_is_not_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("kept");
        std::fs::write(&path, "data").unwrap();
        assert!(matches!(file(&path, spec(10, 1)), Err(Error::NotEmpty(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
        assert!(matches!(file(place.path(), spec(10, 1)), Err(Error::NotEmpty(_))));
        assert!(file(Path::new("/dev/null"), spec(10, 1)).is_err());
    }

    #[test]
    fn an_empty_file_is_filled() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("empty");
        std::fs::write(&path, "").unwrap();
        file(&path, spec(10, 1)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 10);
    }

    #[test]
    fn a_failed_file_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("huge");
        // Beyond the largest file offset, so that the length is refused.
        assert!(file(&path, spec(u64::MAX, 1)).is_err());
        assert!(!path.exists());
    }
}
