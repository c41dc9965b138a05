//! A file system in memory.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, SET_ID};
use hakobu_core::extended::Classes;
use hakobu_core::grant::Grant;
use hakobu_core::listing::Listing;
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;

use super::tree::{InodeBody, Tree, own};
use crate::store::{
    EntryContent, ObjectPlace, Position, StorePage, StoredEntry, conflict, missing, unsupported,
};

/// The device number of the next file system.
static NEXT_DEVICE: AtomicU64 = AtomicU64::new(1 << 40);

/// Directories, files, symbolic links and special files in memory, with modes, owners, times and hard links.
#[derive(Debug)]
pub struct MemoryFileSystem(Mutex<Tree>);

impl Default for MemoryFileSystem {
    fn default() -> Self {
        Self(Mutex::new(Tree::new(NEXT_DEVICE.fetch_add(1, Relaxed))))
    }
}

impl MemoryFileSystem {
    /// Creates an empty file system.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Renames an entry within its file system, to a name that does not exist. The times of what is in a directory stay.
    ///
    /// # Errors
    /// `NotFound` if one of the directories or the entry does not exist.
    pub fn rename(&self, from: &EntryPath, to: &EntryPath) -> Result<()> {
        let mut tree = self.tree();
        let absent = || missing("renaming");
        let (old, name) = from.split_last().ok_or_else(absent)?;
        let (new, new_name) = to.split_last().ok_or_else(absent)?;
        let (old, new) = (tree.find(&old)?, tree.find(&new)?);
        tree.rename((old, name), (new, new_name))
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectPlace for MemoryFileSystem {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            extended: Classes::NONE,
            account_names: false,
            writes_in_place: false,
            hashes: false,
            reads_medium: false,
            compresses: false,
            tells_room: false,
            ..Capabilities::posix(true)
        }
    }

    fn inspect(&self, path: &EntryPath) -> Option<EntryMetadata> {
        let tree = self.tree();
        tree.find(path).and_then(|found| tree.metadata(found)).ok()
    }

    fn page(&self, directory: &EntryPath, after: Option<&Position>, most: usize) -> Result<StorePage> {
        let tree = self.tree();
        let names = tree.names(tree.find(directory)?)?;
        let behind = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.0.as_slice()));
        let mut rest = names.range::<[u8], _>((behind, Bound::Unbounded));
        let (mut listing, mut last) = (Listing::default(), None);
        for (key, number) in rest.by_ref().take(most) {
            listing.push(key.strip_suffix(b"/").unwrap_or(key), tree.metadata(*number)?)?;
            last = Some(key);
        }
        let next = last.filter(|_| rest.next().is_some()).map(|key| Position(key.clone()));
        Ok(StorePage { listing, next, below: Vec::new() })
    }

    fn get(&self, path: &EntryPath) -> Result<StoredEntry> {
        let tree = self.tree();
        let number = tree.find(path)?;
        match &tree.node(number)?.body {
            InodeBody::Content(content) => {
                Ok(StoredEntry { metadata: tree.metadata(number)?, content: content.clone() })
            }
            InodeBody::Directory(_) => Err(conflict("reading", "a directory is in its place")),
        }
    }

    fn put(
        &self,
        path: &EntryPath,
        content: EntryContent,
        attributes: &Attributes,
        grant: &Grant,
    ) -> Result<Vec<LossKind>> {
        if matches!(content, EntryContent::Special(kind, _) if kind != EntryKind::Fifo)
            && !grant.may_make_devices
        {
            return Err(unsupported("the job does not allow device nodes"));
        }
        let mut tree = self.tree();
        let (directory, name) = tree.reach_parent(path, grant)?;
        let (attributes, lost) = allowed(attributes, grant, matches!(content, EntryContent::Symlink(_)));
        let made = tree.add(InodeBody::Content(content), attributes);
        let named = tree.name(directory, name, made);
        if named.is_err() {
            tree.nodes.remove(&made);
        }
        named.map(|()| lost)
    }

    fn apply(&self, change: &Change, grant: &Grant) -> Result<Vec<LossKind>> {
        let mut tree = self.tree();
        match change {
            Change::MakeDirectory { path, mode } => tree.reach(path, *mode, grant).map(|_| Vec::new()),
            Change::Directory { path, attributes, .. } => {
                let directory = tree.reach(path, own(0o700).mode, grant)?;
                set(&mut tree, directory, attributes, grant)
            }
            Change::Attributes { path, attributes, .. } => {
                let found = tree.find(path).map_err(|_| missing("setting the attributes"))?;
                set(&mut tree, found, attributes, grant)
            }
            Change::Link { path, to, .. } => {
                let linked = tree.find(to)?;
                if tree.is_directory(linked) {
                    return Err(conflict("making the link", "a directory has one name"));
                }
                let (directory, name) = tree.reach_parent(path, grant)?;
                if tree.child(directory, name)? == Some(linked) {
                    return Ok(Vec::new());
                }
                tree.name(directory, name, linked)?;
                let ctime = tree.ticks.next();
                let node = tree.node_mut(linked)?;
                (node.links, node.ctime) = (node.links + 1, ctime);
                Ok(Vec::new())
            }
            Change::Remove { path, directory, .. } => {
                remove(&mut tree, path, *directory).map(|()| Vec::new())
            }
            Change::Rename { .. } => Err(unsupported("names differ by case")),
        }
    }
}

/// Sets attributes as far as the grant allows, and returns the losses.
fn set(tree: &mut Tree, number: u64, wanted: &Attributes, grant: &Grant) -> Result<Vec<LossKind>> {
    let ctime = tree.ticks.next();
    let node = tree.node_mut(number)?;
    let without_mode =
        matches!(node.body, InodeBody::Content(EntryContent::Symlink(_)) | InodeBody::Directory(_));
    let (attributes, lost) = allowed(wanted, grant, without_mode);
    (node.attributes, node.ctime) = (attributes, ctime);
    Ok(lost)
}

/// Returns the attributes that may be set, and the losses. With `keeps_bits`, set-ID bits give no privilege.
fn allowed(wanted: &Attributes, grant: &Grant, keeps_bits: bool) -> (Attributes, Vec<LossKind>) {
    let (mut attributes, mut lost) = (*wanted, Vec::new());
    let mine = own(0);
    if !grant.may_chown && (wanted.uid, wanted.gid) != (mine.uid, mine.gid) {
        (attributes.uid, attributes.gid) = (mine.uid, mine.gid);
        lost.push(LossKind::Owner);
    }
    // Without its owner, a set-ID bit would give the rights of another user.
    if !keeps_bits && wanted.mode & SET_ID != 0 && (!grant.may_set_id || !lost.is_empty()) {
        attributes.mode &= !SET_ID;
        lost.push(LossKind::SetId);
    }
    (attributes, lost)
}

fn remove(tree: &mut Tree, path: &EntryPath, directory: bool) -> Result<()> {
    let Some((parent, name)) = path.split_last() else {
        return Err(conflict("removing", "the target itself is never removed"));
    };
    // A path through a symbolic link or a file does not exist.
    let Ok(parent) = tree.find(&parent) else { return Ok(()) };
    let Ok(Some(found)) = tree.child(parent, name) else { return Ok(()) };
    match (directory, tree.is_directory(found)) {
        (true, true) if !tree.names(found)?.is_empty() => {
            Err(conflict("removing", "the directory is not empty"))
        }
        (true, true) | (false, false) => tree.unname(parent, name),
        _ => Err(conflict("removing", "another kind of entry is in its place")),
    }
}
