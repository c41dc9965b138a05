//! Tracks inodes with several names, so that an inode number alone does not identify an inode.
//!
//! A FUSE file system may use one number for several files, and any file system reuses the number of a deleted file.
//! Names with one number are therefore treated as names of one inode only if everything else that the listings report
//! is the same as for its first name.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::entry::{EntryMetadata, Inode};
use crate::path::EntryPath;

/// The maximum number of inodes known at a time, at about 150 bytes each. Names of others become separate files.
pub(super) const GROUPS_MAX: usize = 1_000_000;

/// The relation of a name to the other names with its inode number.
#[derive(Debug)]
pub(super) enum NameRelation {
    /// The first name with this number, or one that agrees with the first.
    Agrees,
    /// A name that agrees with this first name, on a file system where another file may agree as well.
    Perhaps(Box<FirstName>),
    /// A name of another inode, or one that cannot be decided.
    Differs,
    /// The first name with its number, but another number has the same metadata: probably one file to whose names a
    /// program behind FUSE gives different numbers.
    Apart,
}

/// The first name of an inode that was found.
#[derive(Clone, Debug)]
pub(super) struct FirstName {
    pub root: u16,
    pub directory: EntryPath,
    pub name: Vec<u8>,
    pub metadata: EntryMetadata,
}

#[derive(Debug)]
struct KnownInode {
    /// A hash of the metadata that the listing reported.
    said: u64,
    first: Option<Box<FirstName>>,
}

/// The inodes with names that have not been found yet.
#[derive(Debug, Default)]
pub(super) struct Inodes(Mutex<InodeState>);

#[derive(Debug, Default)]
struct InodeState {
    known: HashMap<Inode, KnownInode>,
    /// The metadata hashes of inodes whose numbers are not reliable.
    uncertain: HashSet<u64>,
}

impl Inodes {
    /// Records a name with this inode number.
    pub fn meet(
        &self,
        inode: Inode,
        (root, directory, name): (u16, &EntryPath, &[u8]),
        metadata: &EntryMetadata,
    ) -> NameRelation {
        let said = metadata.said();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let InodeState { known, uncertain } = &mut *state;
        let Some(it) = known.get_mut(&inode) else {
            if known.len() >= GROUPS_MAX {
                return NameRelation::Differs;
            }
            let first = metadata.uncertain.then(|| {
                let (directory, name) = (directory.clone(), name.to_vec());
                Box::new(FirstName { root, directory, name, metadata: *metadata })
            });
            known.insert(inode, KnownInode { said, first });
            // With times in whole seconds many files share one change time, so equal metadata proves nothing.
            let tells = metadata.uncertain && metadata.ctime.nanoseconds != 0;
            let is_new = !tells || uncertain.len() >= GROUPS_MAX || uncertain.insert(said);
            return if is_new { NameRelation::Agrees } else { NameRelation::Apart };
        };
        if it.said != said {
            return NameRelation::Differs;
        }
        match &it.first {
            Some(first) => NameRelation::Perhaps(first.clone()),
            None => NameRelation::Agrees,
        }
    }

    /// Forgets an inode after all of its names have been handled: its number may be reused.
    pub fn forget(&self, inode: Inode) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).known.remove(&inode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryKind;

    const INODE: Inode = Inode { file_system: 1, number: 2 };

    fn file(size_bytes: u64) -> EntryMetadata {
        EntryMetadata { links: 3, size_bytes, inode: Some(INODE), ..EntryMetadata::new(EntryKind::File) }
    }

    fn meet(inodes: &Inodes, metadata: &EntryMetadata) -> NameRelation {
        inodes.meet(INODE, (0, &EntryPath::root(), b"name"), metadata)
    }

    #[test]
    fn a_number_is_an_inode_only_where_all_else_agrees() {
        let inodes = Inodes::default();
        assert!(matches!(meet(&inodes, &file(5)), NameRelation::Agrees));
        let mut changed = file(5);
        changed.ctime.nanoseconds = 1;
        for other in
            [file(6), changed, EntryMetadata { links: 2, ..file(5) }, EntryMetadata { mode: 1, ..file(5) }]
        {
            assert!(matches!(meet(&inodes, &other), NameRelation::Differs));
        }
        assert!(matches!(meet(&inodes, &file(5)), NameRelation::Agrees));
        assert!(matches!(meet(&inodes, &file(5)), NameRelation::Agrees));
        inodes.forget(INODE);
        assert!(matches!(meet(&inodes, &file(6)), NameRelation::Agrees));
    }

    #[test]
    fn where_numbers_may_lie_the_first_name_is_told() {
        let inodes = Inodes::default();
        let uncertain = EntryMetadata { uncertain: true, ..file(5) };
        assert!(matches!(meet(&inodes, &uncertain), NameRelation::Agrees));
        assert!(matches!(meet(&inodes, &uncertain), NameRelation::Perhaps(first) if first.name == b"name"));
    }

    #[test]
    fn one_file_of_two_numbers_is_told() {
        let at = |nanoseconds| EntryMetadata {
            ctime: crate::entry::FileTime { seconds: 5, nanoseconds },
            uncertain: true,
            ..file(5)
        };
        let inodes = Inodes::default();
        let meet = |number: u64, metadata: &EntryMetadata| {
            let place = (0, &EntryPath::root(), &b"name"[..]);
            inodes.meet(Inode { number, ..INODE }, place, metadata)
        };
        assert!(matches!(meet(1, &at(7)), NameRelation::Agrees));
        assert!(matches!(meet(2, &at(7)), NameRelation::Apart));
        assert!(matches!(meet(3, &at(8)), NameRelation::Agrees));
        assert!(matches!(meet(4, &at(0)), NameRelation::Agrees));
        assert!(matches!(meet(5, &at(0)), NameRelation::Agrees));
        assert!(matches!(meet(6, &EntryMetadata { uncertain: false, ..at(7) }), NameRelation::Agrees));
    }
}
