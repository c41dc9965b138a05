//! Where a file has holes, asked of the file system piece by piece.

use hakobu_core::extent::Extent;
use rustix::fd::OwnedFd;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// What is known about the surroundings of the last place that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    /// A range without data.
    hole: (u64, u64),
    /// A range with data.
    data: (u64, u64),
}

impl Holes {
    /// Where the hole ends that all of `extent` lies in, or `None` if there is data in it, or
    /// nothing can be known.
    pub(crate) fn hole_around(&mut self, file: &OwnedFd, extent: Extent, size_bytes: u64) -> Option<u64> {
        let (begin, end) = (extent.offset, extent.end());
        let within = |range: (u64, u64)| range.0 <= begin && end <= range.1;
        if within(self.data) {
            return None;
        }
        if !within(self.hole) {
            match seek(file, SeekFrom::Data(begin)) {
                Ok(data) if data > begin => self.hole = (begin, data.min(size_bytes)),
                // Nothing but a hole up to the end.
                Err(Errno::NXIO) => self.hole = (begin, size_bytes),
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
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

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
