//! Changes at a target that carry no content.

use crate::entry::Attributes;
use crate::extended::Extended;
use crate::path::EntryPath;

/// A change at the target that carries no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Make sure that a directory is there.
    MakeDirectory {
        /// Where.
        path: EntryPath,
        /// The permissions of a new one.
        mode: u32,
    },
    /// Make sure that a directory is there, and set its attributes.
    Directory {
        /// Where.
        path: EntryPath,
        /// What to set.
        attributes: Attributes,
        /// The extended attributes to set; without, they are left as they are.
        extended: Option<Extended>,
    },
    /// Set the attributes of a file or a link.
    Attributes {
        /// Where.
        path: EntryPath,
        /// What to set.
        attributes: Attributes,
        /// The extended attributes to set; without, they are left as they are.
        extended: Option<Extended>,
    },
    /// Give a file, which is complete, one more name.
    Link {
        /// The new name.
        path: EntryPath,
        /// A name that it has.
        to: EntryPath,
        /// Whether the target has an entry of the new name already, which is replaced.
        replaces: bool,
    },
    /// Remove an entry that the source does not have. One that is gone is removed.
    Remove {
        /// Which.
        path: EntryPath,
        /// Whether it is a directory, which has to be empty by now but for drafts that were given up.
        directory: bool,
        /// How many names of the path lead to the directory that stays. Nothing is removed that is on another file
        /// system than that.
        kept_names: u16,
    },
    /// Write the name of an entry in another case, where that is the same name.
    Rename {
        /// The name as it shall be.
        path: EntryPath,
        /// The name as it is, in the same directory.
        from: EntryPath,
    },
}

impl Change {
    /// The extended attributes that are set, if any are.
    pub fn extended(&self) -> Option<&Extended> {
        match self {
            Change::Directory { extended, .. } | Change::Attributes { extended, .. } => extended.as_ref(),
            Change::MakeDirectory { .. }
            | Change::Link { .. }
            | Change::Remove { .. }
            | Change::Rename { .. } => None,
        }
    }

    /// The path that is changed.
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
