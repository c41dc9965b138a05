//! The inodes of a file system in memory, and path resolution.

use std::collections::BTreeMap;

use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime, Inode};
use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::ticks::Ticks;
use crate::store::{EntryContent, conflict, missing};

/// The number of the root inode.
pub(crate) const ROOT: u64 = 1;
/// The mode of directories that are created as parents.
const PRIVATE: u32 = 0o700;
const MAKING: &str = "making the entry";

/// The entries of a directory by name. Names of directories end in a slash, which gives the order of listings.
pub(crate) type DirectoryNames = BTreeMap<Vec<u8>, u64>;

/// The contents of an inode.
#[derive(Debug)]
pub(crate) enum InodeBody {
    Content(EntryContent),
    Directory(DirectoryNames),
}

#[derive(Debug)]
pub(crate) struct MemoryNode {
    pub(crate) attributes: Attributes,
    pub(crate) ctime: FileTime,
    pub(crate) links: u32,
    pub(crate) body: InodeBody,
}

/// All inodes.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The inodes by number. A tree map is never moved as a whole.
    pub(crate) nodes: BTreeMap<u64, MemoryNode>,
    pub(crate) ticks: Ticks,
    /// The number of the file system.
    device: u64,
    last: u64,
}

/// Returns the key of an entry in its directory.
pub(crate) fn key(name: &[u8], is_directory: bool) -> Vec<u8> {
    let slash: &[u8] = if is_directory { b"/" } else { b"" };
    [name, slash].concat()
}

impl Tree {
    /// Creates an empty tree.
    pub(crate) fn new(device: u64) -> Self {
        let mut tree = Self { nodes: BTreeMap::new(), ticks: Ticks::default(), device, last: ROOT - 1 };
        tree.add(InodeBody::Directory(DirectoryNames::new()), own(0o755));
        tree
    }

    /// Adds an inode without a name.
    pub(crate) fn add(&mut self, body: InodeBody, attributes: Attributes) -> u64 {
        self.last += 1;
        let ctime = self.ticks.next();
        self.nodes.insert(self.last, MemoryNode { attributes, ctime, links: 1, body });
        self.last
    }

    pub(crate) fn node(&self, number: u64) -> Result<&MemoryNode> {
        self.nodes.get(&number).ok_or_else(|| missing("looking at"))
    }

    pub(crate) fn node_mut(&mut self, number: u64) -> Result<&mut MemoryNode> {
        self.nodes.get_mut(&number).ok_or_else(|| missing("looking at"))
    }

    /// Returns the description of an inode.
    pub(crate) fn metadata(&self, number: u64) -> Result<EntryMetadata> {
        let node = self.node(number)?;
        let (kind, size_bytes, device) = match &node.body {
            InodeBody::Directory(_) => (EntryKind::Directory, 0, 0),
            InodeBody::Content(EntryContent::File(bytes)) => (EntryKind::File, bytes.len() as u64, 0),
            InodeBody::Content(EntryContent::Symlink(text)) => (EntryKind::Symlink, text.len() as u64, 0),
            InodeBody::Content(EntryContent::Special(kind, device)) => (*kind, 0, *device),
        };
        let Attributes { mode, uid, gid, mtime } = node.attributes;
        let mode = if kind == EntryKind::Symlink { 0o777 } else { mode };
        let inode = (node.links > 1).then_some(Inode { file_system: self.device, number });
        let (ctime, links) = (node.ctime, node.links);
        Ok(EntryMetadata {
            mode,
            uid,
            gid,
            size_bytes,
            mtime,
            ctime,
            links,
            device,
            inode,
            ..EntryMetadata::new(kind)
        })
    }

    /// Returns the names in a directory.
    pub(crate) fn names(&self, directory: u64) -> Result<&DirectoryNames> {
        match &self.node(directory)?.body {
            InodeBody::Directory(names) => Ok(names),
            InodeBody::Content(EntryContent::Symlink(_)) => {
                Err(conflict("looking at", "a symbolic link is in the way"))
            }
            InodeBody::Content(_) => {
                Err(conflict("looking at", "something that is no directory is in the way"))
            }
        }
    }

    fn names_mut(&mut self, directory: u64) -> Result<&mut DirectoryNames> {
        match &mut self.node_mut(directory)?.body {
            InodeBody::Directory(names) => Ok(names),
            InodeBody::Content(_) => {
                Err(conflict("looking at", "something that is no directory is in the way"))
            }
        }
    }

    /// Returns the inode of a name in a directory.
    pub(crate) fn child(&self, directory: u64, name: &[u8]) -> Result<Option<u64>> {
        let names = self.names(directory)?;
        Ok(names.get(name).or_else(|| names.get(&key(name, true))).copied())
    }

    /// Resolves a path without following symbolic links.
    ///
    /// # Errors
    /// `NotFound`, or `Conflict` if the path leads through something that is not a directory.
    pub(crate) fn find(&self, path: &EntryPath) -> Result<u64> {
        let mut at = ROOT;
        for name in path.names() {
            at = self.child(at, name)?.ok_or_else(|| missing("looking at"))?;
        }
        Ok(at)
    }

    pub(crate) fn is_directory(&self, number: u64) -> bool {
        matches!(self.nodes.get(&number), Some(MemoryNode { body: InodeBody::Directory(_), .. }))
    }

    fn is_symlink(&self, number: u64) -> bool {
        matches!(
            self.nodes.get(&number),
            Some(MemoryNode { body: InodeBody::Content(EntryContent::Symlink(_)), .. })
        )
    }

    /// Returns the directory at this path. Missing directories are created, and other entries are replaced if allowed.
    ///
    /// # Errors
    /// `Conflict`, or `NotFound` for directories that the grant does not allow to be created.
    pub(crate) fn reach(&mut self, path: &EntryPath, mode: u32, grant: &Grant) -> Result<u64> {
        let (mut at, mut way) = (ROOT, EntryPath::root());
        for name in path.names() {
            way = way.join(name)?;
            let found = self.child(at, name)?;
            at = match found {
                Some(found) if self.is_directory(found) => found,
                Some(found) if !self.is_symlink(found) && grant.check_remove(&way).is_err() => {
                    return Err(conflict(MAKING, "something that is no directory is in the way"));
                }
                _ => {
                    grant.check_write(&way).map_err(|_| leads())?;
                    if found.is_some() {
                        self.unname(at, name)?;
                    }
                    let made = self.add(InodeBody::Directory(DirectoryNames::new()), own(mode));
                    self.name(at, name, made)?;
                    made
                }
            };
        }
        Ok(at)
    }

    /// Returns the parent directory of a path, which is created if it is missing, and the last name.
    pub(crate) fn reach_parent<'a>(&mut self, path: &'a EntryPath, grant: &Grant) -> Result<(u64, &'a [u8])> {
        let Some((parent, _)) = path.split_last() else {
            return Err(conflict(MAKING, "the target itself is a directory"));
        };
        let name = path.names().last().unwrap_or_default();
        Ok((self.reach(&parent, PRIVATE, grant)?, name))
    }

    /// Gives an inode a name in a directory, replacing an existing entry that is not a directory.
    ///
    /// # Errors
    /// `Conflict` if a directory has that name.
    pub(crate) fn name(&mut self, directory: u64, name: &[u8], number: u64) -> Result<()> {
        match self.child(directory, name)? {
            Some(there) if self.is_directory(there) => {
                return Err(conflict(MAKING, "a directory is in the way"));
            }
            Some(_) => self.unname(directory, name)?,
            None => {}
        }
        let key = key(name, self.is_directory(number));
        self.names_mut(directory)?.insert(key, number);
        self.touch(directory)
    }

    /// Moves a name to another directory, or gives it another name.
    pub(crate) fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<()> {
        let names = self.names_mut(from.0)?;
        let number = names.remove(from.1).or_else(|| names.remove(&key(from.1, true)));
        let number = number.ok_or_else(|| missing("renaming"))?;
        self.name(to.0, to.1, number)?;
        let ctime = self.ticks.next();
        self.node_mut(number)?.ctime = ctime;
        self.touch(from.0)
    }

    /// Removes a name, and the inode with its last name.
    pub(crate) fn unname(&mut self, directory: u64, name: &[u8]) -> Result<()> {
        let names = self.names_mut(directory)?;
        let Some(number) = names.remove(name).or_else(|| names.remove(&key(name, true))) else {
            return Ok(());
        };
        let ctime = self.ticks.next();
        if let Some(node) = self.nodes.get_mut(&number) {
            (node.links, node.ctime) = (node.links.saturating_sub(1), ctime);
            if node.links == 0 {
                self.nodes.remove(&number);
            }
        }
        self.touch(directory)
    }

    /// Updates the times of a directory that has changed.
    fn touch(&mut self, directory: u64) -> Result<()> {
        let now = self.ticks.next();
        let node = self.node_mut(directory)?;
        (node.attributes.mtime, node.ctime) = (now, now);
        Ok(())
    }
}

/// Returns the default attributes.
pub(crate) fn own(mode: u32) -> Attributes {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Attributes { mode, uid, gid, mtime: FileTime::default() }
}

/// Returns the error for a missing directory that only leads to a granted path.
fn leads() -> Error {
    Error::new(
        ErrorKind::NotFound,
        MAKING,
        "a directory on the way to it is missing, and the job does not make it",
    )
}
