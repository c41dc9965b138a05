//! Generates one large file.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::disk::{self, DiskSpec, Output};
use crate::MeasureError;
use crate::MeasureResult;

/// The specification of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileSpec {
    /// The size in bytes.
    pub size_bytes: u64,
    /// The seed of the content.
    pub seed: u64,
    /// The compressibility, from 0.0 (random) to 1.0 (zeros); see [`super::Pattern::new`].
    pub compressibility: f64,
    /// The number of writing threads; 0 means 1.
    pub threads: usize,
}

/// Writes a new file with [`super::Pattern`] content, without syncing it.
///
/// # Errors
///
/// [`MeasureError::NotEmpty`] if `path` is anything but absent or an empty regular file. [`MeasureError::Io`] for system errors; a
/// file that this call created is then removed.
pub fn file(path: &Path, spec: FileSpec) -> MeasureResult<()> {
    let (file, created) = open_empty(path)?;
    let written = write_all(&file, path, spec).map_err(MeasureError::io("write", path));
    if written.is_err() && created {
        // The first error is the relevant one.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Opens `path` for writing. The flag is true if it was created here.
fn open_empty(path: &Path) -> MeasureResult<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => return Ok((file, true)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(MeasureError::io("create", path)(error)),
    }
    let metadata = std::fs::metadata(path).map_err(MeasureError::io("examine", path))?;
    if !metadata.is_file() || metadata.len() > 0 {
        return Err(MeasureError::NotEmpty(path.to_path_buf()));
    }
    let file = options.open(path).map_err(MeasureError::io("open", path))?;
    Ok((file, false))
}

fn write_all(file: &File, path: &Path, spec: FileSpec) -> std::io::Result<()> {
    file.set_len(spec.size_bytes)?;
    let FileSpec { size_bytes, seed, compressibility, threads } = spec;
    let spec = DiskSpec { size_bytes, seed, compressibility, threads, ..DiskSpec::default() };
    let (stop, done_bytes) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let output = Output { file, path, is_empty: true, is_device: false, stop, done_bytes };
    disk::write(&output, &spec).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::disk::CHUNK_BYTES;
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
        assert!(matches!(file(&path, spec(10, 1)), Err(MeasureError::NotEmpty(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
        assert!(matches!(file(place.path(), spec(10, 1)), Err(MeasureError::NotEmpty(_))));
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
        // The size exceeds the largest file offset, so setting the length fails.
        assert!(file(&path, spec(u64::MAX, 1)).is_err());
        assert!(!path.exists());
    }
}
