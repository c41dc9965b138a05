//! An object store in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime};
use hakobu_core::extended::Classes;
use hakobu_core::grant::Grant;
use hakobu_core::listing::Listing;
use hakobu_core::losses::LossKind;
use hakobu_core::path::{EntryPath, check_name};

use super::ticks::Ticks;
use super::tree::own;
use crate::store::{
    EntryContent, FlatKey, ObjectPlace, Position, StorePage, StoredEntry, conflict, flat_page, missing,
    no_path, shown, unsupported,
};

const REMOVING: &str = "removing";

/// Objects in memory. Any bytes can be a key, a directory is a common prefix of keys, and an object has only its
/// content and the time of its upload.
#[derive(Debug, Default)]
pub struct MemoryObjectStore(Mutex<Objects>);

#[derive(Debug, Default)]
struct Objects {
    by_key: BTreeMap<Vec<u8>, MemoryObject>,
    ticks: Ticks,
}

#[derive(Clone, Debug)]
struct MemoryObject {
    bytes: Arc<[u8]>,
    uploaded: FileTime,
}

impl MemoryObjectStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Uploads an object under any key, including one that is not a path.
    pub fn upload(&self, key: &[u8], bytes: &[u8]) {
        self.objects().upload(key.to_vec(), bytes.into());
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects {
    fn upload(&mut self, key: Vec<u8>, bytes: Arc<[u8]>) {
        let uploaded = self.ticks.next();
        self.by_key.insert(key, MemoryObject { bytes, uploaded });
    }

    /// Checks that a directory is not empty.
    fn check_directory(&self, path: &EntryPath) -> Result<()> {
        if path.is_root() || self.has_below(path) {
            return Ok(());
        }
        Err(match self.by_key.contains_key(path.as_bytes()) {
            true => conflict("listing", "an object is in its place"),
            false => missing("listing"),
        })
    }

    /// Returns true if keys begin with this path and a slash.
    fn has_below(&self, path: &EntryPath) -> bool {
        let prefix = prefix(path);
        self.by_key.range(prefix.clone()..).next().is_some_and(|(key, _)| key.starts_with(&prefix))
    }
}

/// Returns the prefix of the keys of all entries in a directory.
fn prefix(directory: &EntryPath) -> Vec<u8> {
    match directory.is_root() {
        true => Vec::new(),
        false => [directory.as_bytes(), b"/"].concat(),
    }
}

fn metadata(object: &MemoryObject) -> EntryMetadata {
    let Attributes { mode, uid, gid, .. } = own(0o644);
    let (size_bytes, time) = (object.bytes.len() as u64, object.uploaded);
    EntryMetadata {
        mode,
        uid,
        gid,
        size_bytes,
        mtime: time,
        ctime: time,
        ..EntryMetadata::new(EntryKind::File)
    }
}

fn directory() -> EntryMetadata {
    let Attributes { mode, uid, gid, .. } = own(0o755);
    EntryMetadata { mode, uid, gid, ..EntryMetadata::new(EntryKind::Directory) }
}

impl ObjectPlace for MemoryObjectStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            set_id: false,
            extended: Classes::NONE,
            modes: false,
            directories: false,
            shared_names: true,
            keeps_times: false,
            hard_links: false,
            inodes: false,
            special_files: false,
            symlinks: false,
            sets_links: false,
            tells_file_systems: false,
            account_names: false,
            writes_in_place: false,
            hashes: false,
            reads_medium: false,
            tells_room: false,
            compresses: false,
            reads_at_once: 4,
            ..Capabilities::posix(false)
        }
    }

    fn inspect(&self, path: &EntryPath) -> Option<EntryMetadata> {
        let objects = self.objects();
        if let Some(object) = objects.by_key.get(path.as_bytes()) {
            return Some(metadata(object));
        }
        (path.is_root() || objects.has_below(path)).then(directory)
    }

    fn page(&self, path: &EntryPath, after: Option<&Position>, most: usize) -> Result<StorePage> {
        let (objects, prefix) = (self.objects(), prefix(path));
        objects.check_directory(path)?;
        let mut listing = Listing::default();
        let mut last = after.cloned();
        loop {
            let behind = behind(&prefix, last.as_ref());
            let next = objects.by_key.range((behind, Bound::Unbounded)).next();
            let Some((key, object)) = next.filter(|(key, _)| key.starts_with(&prefix)) else {
                return Ok(StorePage { listing, next: None, below: Vec::new() });
            };
            if listing.len() + listing.refused().len() >= most {
                return Ok(StorePage { listing, next: last, below: Vec::new() });
            }
            let shown = shown(&key[prefix.len()..]);
            let (name, described) = match shown.strip_suffix(b"/") {
                Some(name) => (name, directory()),
                None => (shown, metadata(object)),
            };
            match check_name(name) {
                Ok(()) => listing.push(name, described)?,
                Err(error) => listing.refuse(no_path(path, shown, &error)),
            }
            last = Some(Position(shown.to_vec()));
        }
    }

    fn flat_page(
        &self,
        path: &EntryPath,
        after: Option<&Position>,
        most: usize,
    ) -> Result<Option<StorePage>> {
        let (objects, prefix) = (self.objects(), prefix(path));
        objects.check_directory(path)?;
        let range = objects.by_key.range((behind(&prefix, after), Bound::Unbounded));
        let mut below = range.take_while(|(key, _)| key.starts_with(&prefix));
        let keys: Vec<FlatKey<'_>> =
            below.by_ref().take(most).map(|(key, object)| (&key[prefix.len()..], metadata(object))).collect();
        flat_page(path, &keys, below.next().is_some(), directory(), false).map(Some)
    }

    fn get(&self, path: &EntryPath) -> Result<StoredEntry> {
        let objects = self.objects();
        match objects.by_key.get(path.as_bytes()) {
            Some(object) => Ok(StoredEntry {
                metadata: metadata(object),
                content: EntryContent::File(Arc::clone(&object.bytes)),
            }),
            None if objects.has_below(path) => Err(conflict("reading", "a directory is in its place")),
            None => Err(missing("reading")),
        }
    }

    fn put(
        &self,
        path: &EntryPath,
        content: EntryContent,
        attributes: &Attributes,
        _grant: &Grant,
    ) -> Result<Vec<LossKind>> {
        let EntryContent::File(bytes) = content else {
            return Err(unsupported("an object store holds the content of files, and nothing else"));
        };
        if path.is_root() {
            return Err(conflict("uploading", "the target itself is a directory"));
        }
        let mine = own(0);
        let foreign = (attributes.uid, attributes.gid) != (mine.uid, mine.gid);
        self.objects().upload(path.as_bytes().to_vec(), bytes);
        Ok(if foreign { vec![LossKind::Owner] } else { Vec::new() })
    }

    fn apply(&self, change: &Change, _grant: &Grant) -> Result<Vec<LossKind>> {
        let mut objects = self.objects();
        match change {
            // Directories exist as soon as they contain an object.
            Change::Directory { .. } => Ok(Vec::new()),
            // An object of the name would stay beside it.
            Change::MakeDirectory { path, .. } => {
                objects.by_key.remove(path.as_bytes());
                Ok(Vec::new())
            }
            Change::Attributes { path, .. } => match objects.by_key.contains_key(path.as_bytes()) {
                true => Ok(Vec::new()),
                false => Err(missing("setting the attributes")),
            },
            Change::Remove { path, directory: false, .. } => {
                let removed = objects.by_key.remove(path.as_bytes());
                match removed.is_none() && objects.has_below(path) {
                    true => Err(conflict(REMOVING, "a directory is in its place")),
                    false => Ok(Vec::new()),
                }
            }
            Change::Remove { path, directory: true, .. } => {
                match (objects.has_below(path), objects.by_key.contains_key(path.as_bytes())) {
                    (true, _) => Err(conflict(REMOVING, "the directory is not empty")),
                    (false, true) => Err(conflict(REMOVING, "an object is in its place")),
                    (false, false) => Ok(Vec::new()),
                }
            }
            Change::Link { .. } => Err(unsupported("an object has one key")),
            Change::Rename { .. } => Err(unsupported("an object keeps its key")),
        }
    }
}

/// Returns the first key after the entry of a position. For a directory it follows all keys with that prefix.
fn behind(prefix: &[u8], position: Option<&Position>) -> Bound<Vec<u8>> {
    let Some(Position(shown)) = position else { return Bound::Included(prefix.to_vec()) };
    let mut key = [prefix, shown].concat();
    match key.last_mut() {
        // The byte after the slash: everything below the directory precedes it.
        Some(last @ b'/') => {
            *last = b'/' + 1;
            Bound::Included(key)
        }
        _ => Bound::Excluded(key),
    }
}
