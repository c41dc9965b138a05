//! Compares large files that may consist mostly of holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::tree_difference::at;

const READ_BYTES: u64 = 256 * 1024;

/// Returns the offset of the first byte in which two files differ. If one file is a prefix of the other, this is its
/// end. Holes that both files have are skipped, so the duration depends on the amount of data.
///
/// # Errors
///
/// One of the files cannot be read.
pub fn first_difference(left_path: &Path, right_path: &Path) -> io::Result<Option<u64>> {
    let open = |path| File::open(path).map_err(at("open", path));
    let (left, right) = (open(left_path)?, open(right_path)?);
    let size = |file: &File, path| file.metadata().map(|found| found.len()).map_err(at("examine", path));
    let sizes = (size(&left, left_path)?, size(&right, right_path)?);
    let size_bytes = sizes.0.min(sizes.1);
    let mut buffers = (vec![0; READ_BYTES as usize], vec![0; READ_BYTES as usize]);
    let mut offset = 0;
    loop {
        let left_data = next_data(&left, offset, size_bytes).map_err(at("read", left_path))?;
        let right_data = next_data(&right, offset, size_bytes).map_err(at("read", right_path))?;
        offset = left_data.min(right_data);
        if offset >= size_bytes {
            return Ok((sizes.0 != sizes.1).then_some(size_bytes));
        }
        let length = (size_bytes - offset).min(READ_BYTES) as usize;
        let (found, other) = (&mut buffers.0[..length], &mut buffers.1[..length]);
        left.read_exact_at(found, offset).map_err(at("read", left_path))?;
        right.read_exact_at(other, offset).map_err(at("read", right_path))?;
        if found != other {
            let same = found.iter().zip(other).take_while(|(a, b)| a == b).count();
            return Ok(Some(offset + same as u64));
        }
        offset += length as u64;
    }
}

/// Returns the offset of the next data at or after `offset`. If the file system does not report holes, everything is
/// data.
fn next_data(file: &File, offset: u64, size_bytes: u64) -> io::Result<u64> {
    if offset >= size_bytes {
        return Ok(size_bytes);
    }
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(data),
        Err(Errno::NXIO) => Ok(size_bytes),
        Err(Errno::INVAL) => Ok(offset),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn differences_are_found_between_holes() {
        let place = tempfile::tempdir().unwrap();
        let (left, right) = (place.path().join("left"), place.path().join("right"));
        let files = [&left, &right].map(|path| File::create(path).unwrap());
        for file in &files {
            // Reading this much would take too long.
            file.set_len(4000 * GIB).unwrap();
            file.write_all_at(b"same", 3 * GIB + 5).unwrap();
        }
        assert_eq!(first_difference(&left, &right).unwrap(), None);
        // Written zeros are equal to a hole.
        files[0].write_all_at(&[0; 100_000], GIB).unwrap();
        assert_eq!(first_difference(&left, &right).unwrap(), None);
        files[0].write_all_at(b"x", 2000 * GIB + 7).unwrap();
        assert_eq!(first_difference(&left, &right).unwrap(), Some(2000 * GIB + 7));
        files[1].write_all_at(b"y", 1000 * GIB).unwrap();
        assert_eq!(first_difference(&left, &right).unwrap(), Some(1000 * GIB));
    }

    #[test]
    fn a_shorter_file_differs_at_its_end() {
        let place = tempfile::tempdir().unwrap();
        let (left, right) = (place.path().join("left"), place.path().join("right"));
        std::fs::write(&left, [1; 300_000]).unwrap();
        std::fs::write(&right, [1; 299_999]).unwrap();
        assert_eq!(first_difference(&left, &right).unwrap(), Some(299_999));
        assert!(first_difference(&left, &place.path().join("none")).is_err());
    }
}
