//! Large files that several runs of the engine copy together, each some ranges of one draft.
//!
//! The run that has met the file begins the draft, and leaves it *open*: it gives ranges away that it has not begun. Whoever begins
//! with such a range writes it into the draft. Once all ranges are done, another run begins with the [`OpenFileEnd`]: it compares
//! the source with the version that was begun, and gives the draft its attributes and its final name.

use crate::entry::{EntryKind, EntryMetadata, FileTime};
use crate::error::{Error, ErrorKind};
use crate::exchange::SharePlace;
use crate::extent::{CHUNK_BYTES, Extent};

/// A large file whose draft is written by several runs. It has been found, filtered and counted as scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLargeFile {
    /// The file.
    pub place: SharePlace,
    /// The version of the source that is copied.
    pub version: OpenFileVersion,
    /// The name of the draft, in the directory of the file at the target.
    pub draft: Vec<u8>,
    /// True if the target has an entry of this name.
    pub replaces: bool,
}

/// The version of the source of an open file. It holds on any machine that reads the same file system, so the number of that is
/// not among it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileVersion {
    /// The size in bytes.
    pub size_bytes: u64,
    /// The time of the last content change.
    pub mtime: FileTime,
    /// The time of the last change to anything about the inode.
    pub ctime: FileTime,
    /// The number of the inode, if it is known.
    pub inode: Option<u64>,
}

/// A range of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFileRange {
    /// The file.
    pub file: OpenLargeFile,
    /// The range: whole chunks, except at the end of the file.
    pub extent: Extent,
}

/// The last step of an open file, all ranges of which are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFileEnd {
    /// The file.
    pub file: OpenLargeFile,
    /// The reason for which a range could not be copied.
    pub torn: Option<Error>,
}

impl OpenFileVersion {
    /// Returns the version of a file.
    pub fn of(metadata: &EntryMetadata) -> Self {
        let EntryMetadata { size_bytes, mtime, ctime, inode, .. } = *metadata;
        Self { size_bytes, mtime, ctime, inode: inode.map(|inode| inode.number) }
    }

    /// Returns true if an entry of the source is this version.
    pub fn is_that_of(&self, metadata: &EntryMetadata) -> bool {
        metadata.kind == EntryKind::File && Self::of(metadata) == *self
    }
}

impl OpenFileRange {
    /// Returns true if the range can be one of the file.
    pub fn is_sound(&self) -> bool {
        is_range_of(self.extent, self.file.version.size_bytes)
    }
}

impl OpenFileEnd {
    /// Returns true if the draft is of no use, and the file has to be copied anew: it may be another one by now.
    pub fn is_copied_anew(&self) -> bool {
        let may_be_another = |error: &Error| error.is_source_change() || error.kind == ErrorKind::NotFound;
        self.torn.as_ref().is_some_and(may_be_another)
    }
}

/// Returns true if a range can be one of a file of `size_bytes`: whole chunks, except at its end.
pub fn is_range_of(extent: Extent, size_bytes: u64) -> bool {
    let Extent { offset, length } = extent;
    let is_whole = |end: u64| end == size_bytes || end < size_bytes && end.is_multiple_of(CHUNK_BYTES);
    length > 0 && offset.is_multiple_of(CHUNK_BYTES) && offset.checked_add(length).is_some_and(is_whole)
}

/// Divides ranges of a file into parts of at most `length_bytes`, rounded up to whole chunks.
pub fn divide(ranges: &[Extent], length_bytes: u64) -> Vec<Extent> {
    let length_bytes = length_bytes.max(1).checked_next_multiple_of(CHUNK_BYTES).unwrap_or(u64::MAX);
    let mut divided = Vec::new();
    for range in ranges {
        let mut offset = range.offset;
        while offset < range.end() {
            let length = length_bytes.min(range.end() - offset);
            divided.push(Extent { offset, length });
            offset += length;
        }
    }
    divided
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_whole_chunks_within_the_file() {
        let (chunk, size) = (CHUNK_BYTES, 3 * CHUNK_BYTES + 5);
        let is_range = |offset, length| is_range_of(Extent { offset, length }, size);
        for (offset, length) in
            [(0, size), (0, chunk), (chunk, 2 * chunk), (3 * chunk, 5), (2 * chunk, chunk + 5)]
        {
            assert!(is_range(offset, length), "{offset} {length}");
        }
        for (offset, length) in [
            (0, 0),
            (0, size + 1),
            (0, 5),
            (5, chunk),
            (3 * chunk, 4),
            (3 * chunk, chunk),
            (4 * chunk, chunk),
            (chunk, u64::MAX),
            (u64::MAX / chunk * chunk, u64::MAX),
        ] {
            assert!(!is_range(offset, length), "{offset} {length}");
        }
    }

    #[test]
    fn ranges_are_divided_into_whole_chunks() {
        let extent = |offset, length| Extent { offset, length };
        let (chunk, size) = (CHUNK_BYTES, 3 * CHUNK_BYTES + 5);
        assert_eq!(
            divide(&[extent(chunk, size - chunk)], 1),
            [extent(chunk, chunk), extent(2 * chunk, chunk), extent(3 * chunk, 5)]
        );
        let two = [extent(0, 2 * chunk), extent(3 * chunk, 5)];
        assert_eq!(divide(&two, chunk + 1), two);
        assert_eq!(divide(&two, u64::MAX), two);
        assert_eq!(divide(&[], 1), []);
    }

    #[test]
    fn a_version_is_told_from_others() {
        let time = |seconds| FileTime { seconds, nanoseconds: 7 };
        let file = EntryMetadata {
            size_bytes: 9,
            mtime: time(1),
            ctime: time(2),
            ..EntryMetadata::new(EntryKind::File)
        };
        let version = OpenFileVersion::of(&file);
        assert!(version.is_that_of(&file) && version.is_that_of(&EntryMetadata { mode: 0o600, ..file }));
        for other in [
            EntryMetadata { size_bytes: 8, ..file },
            EntryMetadata { mtime: time(2), ..file },
            EntryMetadata { ctime: time(3), ..file },
            EntryMetadata { kind: EntryKind::Symlink, ..file },
        ] {
            assert!(!version.is_that_of(&other), "{other:?}");
        }
    }
}
