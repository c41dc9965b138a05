//! The recorded names of files with several, and the packs in which they are linked.

use hakobu_core::entry::Inode;
use hakobu_core::error::Result;
use hakobu_core::path::{EntryPath, PATH_BYTES_MAX};
use serde::{Deserialize, Serialize};

use crate::limits::{DETAIL_BYTES_MAX, check_at_most, check_number, malformed};

/// A name of a file with further hard links in the tree: the copying units leave it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkNameRow {
    /// The inode at the source.
    pub inode: Inode,
    /// The size of the file in bytes.
    pub size: u64,
    /// The index of the source's root.
    pub root: u16,
    /// The path below that root.
    pub path: EntryPath,
    /// The rest of its share, as [`crate::kept_shares`] keeps it.
    pub detail: Vec<u8>,
}

impl LinkNameRow {
    /// Checks what cannot be kept.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        if self.path.is_root() {
            return Err(malformed("the name of a link", "it is the root itself"));
        }
        check_at_most("the bytes of a link's place", self.detail.len(), DETAIL_BYTES_MAX)?;
        check_number("the size of a file", self.size)
    }

    /// Returns its place among the names of a run.
    pub fn position(&self) -> LinkPosition {
        LinkPosition {
            file_system: self.inode.file_system.cast_signed(),
            inode: self.inode.number.cast_signed(),
            root: self.root,
            path: self.path.as_bytes().to_vec(),
        }
    }
}

/// The place of a name among those of a run: those of one inode are neighbours. Inodes are ordered as databases order them, as
/// signed numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LinkPosition {
    /// The file system's number.
    pub file_system: i64,
    /// The inode's number.
    pub inode: i64,
    /// The index of the source's root.
    pub root: u16,
    /// The path below that root.
    pub path: Vec<u8>,
}

impl LinkPosition {
    /// The place before all others.
    pub const FIRST: Self = Self { file_system: i64::MIN, inode: i64::MIN, root: 0, path: Vec::new() };

    /// Returns the place before all names of an inode: no name is the root itself.
    pub fn before(inode: Inode) -> Self {
        let (file_system, inode) = (inode.file_system.cast_signed(), inode.number.cast_signed());
        Self { file_system, inode, root: 0, path: Vec::new() }
    }

    /// Returns the name at this place.
    ///
    /// # Errors
    /// Those of [`EntryPath::new`].
    pub(crate) fn row(&self, size: u64, detail: Vec<u8>) -> Result<LinkNameRow> {
        let path = EntryPath::new(self.path.clone())?;
        Ok(LinkNameRow { inode: self.inode(), size, root: self.root, path, detail })
    }

    /// Returns the inode.
    pub fn inode(&self) -> Inode {
        Inode { file_system: self.file_system.cast_unsigned(), number: self.inode.cast_unsigned() }
    }
}

/// A range of the names of a run: the work of one unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRange {
    /// The place behind which it begins; the first name if there is none.
    pub after: Option<LinkPosition>,
    /// Its last name.
    pub until: LinkPosition,
}

impl LinkRange {
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

/// The names of one inode in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeGroup {
    /// The inode at the source.
    pub inode: Inode,
    /// The name that was linked to by an earlier pack, if the group has more names than one pack.
    pub earlier: Option<LinkNameRow>,
    /// The names.
    pub names: Vec<LinkNameRow>,
}

/// A pack of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPack {
    /// The groups. Each is whole, except one that alone is larger than a pack.
    pub groups: Vec<InodeGroup>,
    /// The place of the last name.
    pub last: LinkPosition,
    /// True if the last group has names behind this pack. They can be linked only after it.
    pub is_continued: bool,
}

/// The limits of one pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackLimits {
    /// The maximum number of names, at least 1.
    pub names: usize,
    /// The number of bytes of paths after which a pack ends.
    pub path_bytes: usize,
    /// True if a pack of directories may have several depths.
    pub mixes_depths: bool,
}

impl PackLimits {
    /// The limits of a pack that was limited when it was made.
    pub(crate) const NONE: Self = Self { names: usize::MAX, path_bytes: usize::MAX, mixes_depths: true };
}

impl Default for PackLimits {
    fn default() -> Self {
        Self { names: 2000, path_bytes: 512 << 10, mixes_depths: false }
    }
}

impl LinkPack {
    /// Returns the inode of the first group if it has names before this pack, which begins behind a place.
    pub(crate) fn continues(&self, after: Option<&LinkPosition>) -> Option<Inode> {
        let first = self.groups.first()?.inode;
        (after?.inode() == first).then_some(first)
    }

    /// Notes the name that an earlier pack linked to.
    pub(crate) fn set_earlier(&mut self, first: Option<LinkNameRow>) {
        if let Some(group) = self.groups.first_mut() {
            group.earlier = first;
        }
    }

    /// Takes names in order until the pack is full, and returns it; `None` if there are none. No more than one pack is held
    /// in memory, and one more name is read.
    ///
    /// # Errors
    /// Those of reading the names.
    pub fn collect(
        names: impl Iterator<Item = Result<LinkNameRow>>,
        limits: PackLimits,
    ) -> Result<Option<Self>> {
        let (mut groups, mut bytes, mut count): (Vec<InodeGroup>, usize, usize) = (Vec::new(), 0, 0);
        let mut beyond = None;
        for name in names {
            let name = name?;
            if count >= limits.names.max(1) || count > 0 && bytes >= limits.path_bytes {
                beyond = Some(name.inode);
                break;
            }
            bytes += name.path.as_bytes().len();
            count += 1;
            match groups.last_mut().filter(|group| group.inode == name.inode) {
                Some(group) => group.names.push(name),
                None => groups.push(InodeGroup { inode: name.inode, earlier: None, names: vec![name] }),
            }
        }
        let mut is_continued = beyond.is_some() && groups.last().map(|group| group.inode) == beyond;
        if is_continued && groups.len() > 1 {
            groups.pop();
            is_continued = false;
        }
        let last = groups.last().and_then(|group| group.names.last().map(LinkNameRow::position));
        Ok(last.map(|last| Self { groups, last, is_continued }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(inodes: &[u64], names: usize, path_bytes: usize) -> Option<LinkPack> {
        let row = |(index, number): (usize, &u64)| {
            let inode = Inode { file_system: 1, number: *number };
            let path = EntryPath::new(format!("n{index}")).unwrap();
            Ok(LinkNameRow { inode, size: 5, root: 0, path, detail: Vec::new() })
        };
        LinkPack::collect(
            inodes.iter().enumerate().map(row),
            PackLimits { names, path_bytes, mixes_depths: false },
        )
        .unwrap()
    }

    fn sizes(pack: &LinkPack) -> Vec<usize> {
        pack.groups.iter().map(|group| group.names.len()).collect()
    }

    #[test]
    fn a_pack_has_whole_groups() {
        assert_eq!(pack(&[], 9, 99), None);
        let all = pack(&[1, 1, 2, 2, 2], 5, 99).unwrap();
        assert_eq!((sizes(&all), all.is_continued, &all.last.path[..]), (vec![2, 3], false, &b"n4"[..]));
        let first = pack(&[1, 1, 2, 2, 2], 4, 99).unwrap();
        assert_eq!((sizes(&first), first.is_continued, &first.last.path[..]), (vec![2], false, &b"n1"[..]));
        let exact = pack(&[1, 1, 2, 2, 2], 2, 99).unwrap();
        assert_eq!((sizes(&exact), exact.is_continued), (vec![2], false));
    }

    #[test]
    fn a_group_that_is_larger_than_a_pack_is_continued() {
        let part = pack(&[1, 1, 1, 2], 2, 99).unwrap();
        assert_eq!((sizes(&part), part.is_continued, &part.last.path[..]), (vec![2], true, &b"n1"[..]));
        let by_bytes = pack(&[1, 1, 1], 99, 3).unwrap();
        assert_eq!((sizes(&by_bytes), by_bytes.is_continued), (vec![2], true));
    }
}
