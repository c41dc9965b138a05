//! Finds the holes of a file by asking the file system range by range. Its answers are verified with samples.

use hakobu_core::extent::Extent;
use hakobu_core::zeros::is_zero;
use rustix::fd::OwnedFd;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::positioned::read_at;

/// The number of bytes read for each sample of a hole.
const SAMPLE_BYTES: usize = 512;

/// The known ranges around the last query.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    /// A range without data.
    hole: (u64, u64),
    /// A range with data.
    data: (u64, u64),
}

impl Holes {
    /// Returns the end of the hole that contains all of `extent`, or `None` if it contains data or cannot be
    /// determined.
    pub(crate) fn hole_around(&mut self, file: &OwnedFd, extent: Extent, size_bytes: u64) -> Option<u64> {
        let (begin, end) = (extent.offset, extent.end());
        let within = |range: (u64, u64)| range.0 <= begin && end <= range.1;
        if within(self.data) {
            return None;
        }
        if !within(self.hole) {
            match seek(file, SeekFrom::Data(begin)) {
                Ok(data) if data > begin => self.found(file, (begin, data.min(size_bytes))),
                // There is only a hole up to the end.
                Err(Errno::NXIO) => self.found(file, (begin, size_bytes)),
                Ok(_) => {
                    self.data = (begin, seek(file, SeekFrom::Hole(begin)).unwrap_or(size_bytes));
                    return None;
                }
                Err(_) => {
                    self.data = (0, u64::MAX);
                    return None;
                }
            }
        }
        within(self.hole).then_some(self.hole.1)
    }

    /// Returns the end of the hole at the beginning of a range, clipped to the range. Returns the range's beginning if
    /// there is data, or if it cannot be determined.
    pub(crate) fn hole_until(&mut self, file: &OwnedFd, extent: Extent, size_bytes: u64) -> u64 {
        let begin = Extent { length: extent.length.min(1), ..extent };
        self.hole_around(file, begin, size_bytes).map_or(extent.offset, |end| end.min(extent.end()))
    }

    /// Records a hole that the file system reported. If a sample of it contains data, no further reports are trusted,
    /// and the whole file is read.
    fn found(&mut self, file: &OwnedFd, hole: (u64, u64)) {
        match is_empty(file, hole) {
            true => self.hole = hole,
            false => (self.hole, self.data) = ((0, 0), (0, u64::MAX)),
        }
    }
}

/// Returns true if a range contains only zeros at its beginning, middle and end. Returns false if it cannot be read.
fn is_empty(file: &OwnedFd, (begin, end): (u64, u64)) -> bool {
    let last = end.saturating_sub(SAMPLE_BYTES as u64).max(begin);
    [begin, begin + (last - begin) / 2, last].into_iter().all(|offset| {
        let mut room = [0; SAMPLE_BYTES];
        let length = (SAMPLE_BYTES as u64).min(end - offset) as usize;
        matches!(read_at(file, offset, &mut room[..length]), Ok(read) if read == length) && is_zero(&room)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// No file system here reports false holes, so the test supplies the report itself.
    #[test]
    fn a_hole_with_something_in_it_is_none_and_nothing_is_believed_then() {
        let size = 40 << 20;
        for offset in [0, (20 << 20) - 100, size - 1] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(size).unwrap();
            file.write_all_at(&[1], offset).unwrap();
            let file: OwnedFd = file.into();
            let mut holes = Holes::default();
            holes.found(&file, (0, size));
            let piece = |offset| Extent { offset, length: 256 << 10 };
            assert_eq!(holes.hole_around(&file, piece(0), size), None, "{offset}");
            assert_eq!(holes.hole_around(&file, piece(8 << 20), size), None, "{offset}");
        }
        // A hole that extends beyond the end of a file that was truncated.
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        assert!(is_empty(&file.try_clone().unwrap().into(), (0, size)));
        assert!(!is_empty(&file.into(), (0, size + 1)));
    }

    #[test]
    fn holes_are_found_with_their_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let file = File::create(&path).unwrap();
        let size = 40 << 20;
        file.set_len(size).unwrap();
        file.write_all_at(&[1; 4096], 20 << 20).unwrap();
        let file: OwnedFd = File::open(&path).unwrap().into();
        let mut holes = Holes::default();
        let mut ask = |offset: u64| {
            let extent = Extent { offset, length: 256 << 10 };
            holes.hole_around(&file, extent, size)
        };
        assert_eq!(ask(0), Some(20 << 20));
        assert_eq!(ask(20 << 20), None);
        assert_eq!(ask(39 << 20), Some(size));
        assert_eq!(ask(1 << 20), Some(20 << 20));
    }
}
