//! Large files whose drafts several units write, each a range, and which a last unit finishes.

use hakobu_core::error::Result;
use hakobu_core::extent::Extent;
use hakobu_core::open_file::is_range_of;
use hakobu_core::path::EntryPath;
use serde::{Deserialize, Serialize};

use crate::limits::{DETAIL_BYTES_MAX, check_at_most, check_number, malformed};

/// A row of an open file: the file, or the reason for which a range of it could not be copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenFileRow {
    /// The place of the file.
    pub position: OpenFilePosition,
    /// True if it is the reason.
    pub is_torn: bool,
    /// The rest of the file or the error, as [`crate::kept_shares`] keeps it.
    pub detail: Vec<u8>,
}

/// The place of an open file among those of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenFilePosition {
    /// The index of the source's root.
    pub root: u16,
    /// The path below that root.
    pub path: EntryPath,
}

/// All that is known of an open file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFileRecord {
    /// The rest of the file.
    pub detail: Vec<u8>,
    /// The last reason for which a range could not be copied.
    pub torn: Option<Vec<u8>>,
}

/// A range of an open file, as part of an item of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ItemRange {
    /// The offset of the first byte.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
    /// The size of the file in bytes.
    pub size_bytes: u64,
    /// The rest of the file, as in its row.
    pub detail: Vec<u8>,
}

impl OpenFileRow {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_at_most("the bytes of an open file", self.detail.len(), DETAIL_BYTES_MAX)
    }
}

impl OpenFileRecord {
    /// Adds a row; `None` if there is no row of the file itself.
    pub fn of(rows: impl Iterator<Item = (bool, Vec<u8>)>) -> Option<Self> {
        let (mut detail, mut torn) = (None, None);
        for (is_torn, bytes) in rows {
            *(if is_torn { &mut torn } else { &mut detail }) = Some(bytes);
        }
        detail.map(|detail| Self { detail, torn })
    }
}

impl ItemRange {
    /// Returns the range.
    pub fn extent(&self) -> Extent {
        Extent { offset: self.offset, length: self.length }
    }

    /// Checks the numbers and the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_number("the size of a file", self.size_bytes)?;
        check_at_most("the bytes of an open file", self.detail.len(), DETAIL_BYTES_MAX)?;
        if is_range_of(self.extent(), self.size_bytes) {
            return Ok(());
        }
        let Self { offset, length, size_bytes, .. } = self;
        Err(malformed("a range of a file", format!("{length} bytes from {offset} of {size_bytes} bytes")))
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::extent::CHUNK_BYTES;

    use super::*;

    #[test]
    fn ranges_beyond_the_size_are_refused() {
        let range = |offset, length, size_bytes| ItemRange { offset, length, size_bytes, detail: Vec::new() };
        assert!(range(CHUNK_BYTES, 5, CHUNK_BYTES + 5).check().is_ok());
        for range in [
            range(0, CHUNK_BYTES, 5),
            range(0, 0, 5),
            range(CHUNK_BYTES, u64::MAX, CHUNK_BYTES + 5),
            range(1, 4, 5),
            range(0, u64::MAX, u64::MAX),
            ItemRange { detail: vec![0; DETAIL_BYTES_MAX + 1], ..range(0, 5, 5) },
        ] {
            assert!(range.check().is_err(), "{range:?}");
        }
    }

    #[test]
    fn a_reason_alone_is_no_file() {
        let rows = |rows: &[(bool, u8)]| {
            OpenFileRecord::of(rows.iter().map(|(is_torn, byte)| (*is_torn, vec![*byte])))
        };
        assert_eq!(rows(&[(true, 1)]), None);
        assert_eq!(rows(&[(false, 1)]), Some(OpenFileRecord { detail: vec![1], torn: None }));
        let both = Some(OpenFileRecord { detail: vec![1], torn: Some(vec![2]) });
        assert_eq!((rows(&[(false, 1), (true, 2)]), rows(&[(true, 2), (false, 1)])), (both.clone(), both));
    }
}
