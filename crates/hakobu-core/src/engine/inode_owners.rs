//! Records which file of the source each inode of the target is that has several names, so that names of different files
//! do not stay names of one.
//!
//! Other names of an inode may be outside the tree, as in snapshots made of hard links. They belong to no file of the
//! source, so they neither count nor change.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::inodes::GROUPS_MAX;
use crate::entry::Inode;

#[derive(Debug)]
struct InodeOwner {
    /// The inode of the source's file; `None` for a file with a single name.
    file: Option<Inode>,
    /// The number of names that have not been found yet.
    left: u32,
}

/// The inodes of the target with names that have not been found yet, at most [`GROUPS_MAX`]: names of others stay as they
/// are.
#[derive(Debug, Default)]
pub(super) struct InodeOwners(Mutex<HashMap<Inode, InodeOwner>>);

impl InodeOwners {
    /// Records that a file of the source has a name of an inode of the target with this number of names. Returns false if
    /// the inode is that of another file. `file`: the inode of the source, or `None` for a file with a single name.
    pub fn take(&self, there: Inode, names: u32, file: Option<Inode>) -> bool {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(owner) = owners.get_mut(&there) else {
            if owners.len() < GROUPS_MAX {
                owners.insert(there, InodeOwner { file, left: names.saturating_sub(1) });
            }
            return true;
        };
        owner.left = owner.left.saturating_sub(1);
        let is_owner = file.is_some() && owner.file == file;
        if owner.left == 0 {
            owners.remove(&there);
        }
        is_owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: Inode = Inode { file_system: 7, number: 8 };
    const FILE: Inode = Inode { file_system: 1, number: 2 };

    #[test]
    fn an_inode_belongs_to_the_first_file_that_has_a_name_of_it() {
        let other = Inode { number: 3, ..FILE };
        for (first, others) in [
            (Some(FILE), [(Some(FILE), true), (None, false), (Some(other), false)]),
            (None, [(None, false); 3]),
        ] {
            let owners = InodeOwners::default();
            assert!(owners.take(THERE, 5, first));
            for (file, agrees) in others {
                assert_eq!(owners.take(THERE, 5, file), agrees, "{first:?} {file:?}");
            }
            assert!(owners.take(Inode { number: 9, ..THERE }, 2, None));
        }
    }

    #[test]
    fn an_inode_is_forgotten_after_its_last_name() {
        let owners = InodeOwners::default();
        assert!(owners.take(THERE, 3, None));
        assert!(!owners.take(THERE, 3, None));
        assert!(!owners.take(THERE, 3, None));
        assert!(owners.0.lock().unwrap().is_empty());
        assert!(owners.take(THERE, 3, None));
    }
}
