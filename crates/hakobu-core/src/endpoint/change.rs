//! Changes at a target that carry no content.

use crate::entry::Attributes;
use crate::extended::Extended;
use crate::path::EntryPath;

/// A change at the target that carries no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Ensures that a directory exists.
    MakeDirectory {
        /// The directory.
        path: EntryPath,
        /// The permissions of a new directory.
        mode: u32,
    },
    /// Ensures that a directory exists, and sets its attributes.
    Directory {
        /// The directory.
        path: EntryPath,
        /// The attributes to set.
        attributes: Attributes,
        /// The extended attributes to set; `None` leaves them unchanged.
        extended: Option<Extended>,
    },
    /// Sets the attributes of a file or a symbolic link.
    Attributes {
        /// The entry.
        path: EntryPath,
        /// The attributes to set.
        attributes: Attributes,
        /// The extended attributes to set; `None` leaves them unchanged.
        extended: Option<Extended>,
    },
    /// Creates a hard link to a complete file.
    Link {
        /// The new name.
        path: EntryPath,
        /// An existing name of the file.
        to: EntryPath,
        /// True if the target already has an entry of the new name, which is replaced.
        replaces: bool,
    },
    /// Removes an entry that the source does not have. It is no error if the entry is already gone.
    Remove {
        /// The entry.
        path: EntryPath,
        /// True if it is a directory, which must be empty by now except for abandoned drafts.
        directory: bool,
        /// The number of leading names of the path that form the directory that is kept. Nothing on another file system
        /// than that directory is removed.
        kept_names: u16,
    },
    /// Changes the case of an entry's name at a target where both are the same name.
    Rename {
        /// The new name.
        path: EntryPath,
        /// The current name, in the same directory.
        from: EntryPath,
    },
}

impl Change {
    /// Returns the extended attributes to set, if any.
    pub fn extended(&self) -> Option<&Extended> {
        match self {
            Change::Directory { extended, .. } | Change::Attributes { extended, .. } => extended.as_ref(),
            Change::MakeDirectory { .. }
            | Change::Link { .. }
            | Change::Remove { .. }
            | Change::Rename { .. } => None,
        }
    }

    /// Returns the path that is changed.
    pub fn path(&self) -> &EntryPath {
        match self {
            Change::MakeDirectory { path, .. }
            | Change::Directory { path, .. }
            | Change::Attributes { path, .. }
            | Change::Link { path, .. }
            | Change::Remove { path, .. }
            | Change::Rename { path, .. } => path,
        }
    }
}
