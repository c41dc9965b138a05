//! Directories whose attributes are set at the end, because parts of them belong to several units.

use std::cmp::Reverse;

use hakobu_core::error::Result;
use hakobu_core::path::{EntryPath, PATH_BYTES_MAX};
use serde::{Deserialize, Serialize};

use crate::limits::{DETAIL_BYTES_MAX, check_at_most};

/// A directory below which something was given away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenDirectoryRow {
    /// The index of the source's root.
    pub root: u16,
    /// The path below that root.
    pub path: EntryPath,
    /// The rest of its end, as [`crate::kept_shares`] keeps it.
    pub detail: Vec<u8>,
}

impl OpenDirectoryRow {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_at_most("the bytes of a directory's end", self.detail.len(), DETAIL_BYTES_MAX)
    }

    /// Returns the number of names in the path.
    pub fn depth(&self) -> u16 {
        // A path has at most half as many names as bytes.
        u16::try_from(self.path.names().count()).unwrap_or(u16::MAX)
    }

    /// Returns its place among the open directories of a run.
    pub fn position(&self) -> DirectoryPosition {
        DirectoryPosition { depth: self.depth(), root: self.root, path: self.path.as_bytes().to_vec() }
    }
}

/// The place of an open directory among those of a run: the deepest come first, so that no directory is closed before those in
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryPosition {
    /// The number of names in the path.
    pub depth: u16,
    /// The index of the source's root.
    pub root: u16,
    /// The path below that root.
    pub path: Vec<u8>,
}

impl DirectoryPosition {
    /// Returns true if a directory is this one, or comes before it.
    pub(crate) fn has(&self, row: &OpenDirectoryRow) -> bool {
        let position = row.position();
        (Reverse(position.depth), position.root, &position.path[..])
            <= (Reverse(self.depth), self.root, &self.path[..])
    }
}

/// A range of the open directories of a run, of one depth or the last ones of all depths: the work of one unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryRange {
    /// The place behind which it begins; the first directory if there is none.
    pub after: Option<DirectoryPosition>,
    /// Its last directory.
    pub until: DirectoryPosition,
}

impl DirectoryRange {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        [self.after.as_ref(), Some(&self.until)]
            .into_iter()
            .flatten()
            .try_for_each(|place| check_at_most("the bytes of a path", place.path.len(), PATH_BYTES_MAX))
    }
}

/// A pack of open directories. Those of one depth can be closed only after all that are deeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryPack {
    /// The directories.
    pub directories: Vec<OpenDirectoryRow>,
    /// The place of the last one.
    pub last: DirectoryPosition,
}

impl DirectoryPack {
    /// Takes directories in order until the pack is full or the depth changes; `None` if there are none.
    ///
    /// # Errors
    /// Those of reading the directories.
    pub fn collect(
        rows: impl Iterator<Item = Result<OpenDirectoryRow>>,
        limits: crate::link_name::PackLimits,
    ) -> Result<Option<Self>> {
        let (mut directories, mut bytes): (Vec<OpenDirectoryRow>, usize) = (Vec::new(), 0);
        for row in rows {
            let row = row?;
            let is_full = directories.len() >= limits.names.max(1) || bytes >= limits.path_bytes;
            let is_deeper = |first: &OpenDirectoryRow| !limits.mixes_depths && first.depth() != row.depth();
            if directories.first().is_some_and(|first| is_full || is_deeper(first)) {
                break;
            }
            bytes += row.path.as_bytes().len();
            directories.push(row);
        }
        let last = directories.last().map(OpenDirectoryRow::position);
        Ok(last.map(|last| Self { directories, last }))
    }
}
