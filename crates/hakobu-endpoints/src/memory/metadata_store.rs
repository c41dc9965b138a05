//! An object store in memory that keeps all attributes and lists none.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime};
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::grant::Grant;
use hakobu_core::listed::{ListedAttributes, StoreClock};
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::requests::{RequestCosts, RequestCounts};

use super::MemoryFileSystem;
use super::ticks::Ticks;
use super::tree::own;
use crate::store::{EntryContent, ObjectPlace, Position, StorePage, StoredEntry};

const NONE: RequestCounts = RequestCounts::NONE;
/// Objects are stored as a whole, and deleted one by one.
const COSTS: RequestCosts = RequestCosts {
    whole_bytes_max: u64::MAX,
    part_bytes: u64::MAX,
    parts_max: 1,
    range_bytes: PIECE_BYTES,
    copy_bytes_max: 0,
    copied_part_bytes: u64::MAX,
    keys_per_deletion: 1,
    upload: NONE,
    part: NONE,
    attributes: RequestCounts { copy: 1, ..NONE },
    directory: RequestCounts { put: 1, ..NONE },
    existing_directory: RequestCounts { put: 1, ..NONE },
    kept_attributes: NONE,
    removed_directory: RequestCounts { delete: 1, ..NONE },
    directory_look: RequestCounts { head: 1, ..NONE },
};

/// Objects in memory with modes, owners and times in their metadata, which listings do not show. Listings have the time
/// of the upload instead, by the store's own clock. Symbolic links and special files are listed as files. A directory
/// is an object of its own, a marker, or exists because something is in it.
#[derive(Debug)]
pub struct MemoryMetadataStore {
    entries: MemoryFileSystem,
    uploads: Mutex<Uploads>,
    /// The time by which the store's clock is behind, in nanoseconds.
    behind_ns: i64,
    /// The clock as it was measured.
    clock: Option<StoreClock>,
    requests: Mutex<RequestCounts>,
}

/// The time of the upload of each object, by path.
#[derive(Debug, Default)]
struct Uploads {
    by_path: BTreeMap<Vec<u8>, FileTime>,
    ticks: Ticks,
}

impl MemoryMetadataStore {
    /// Creates an empty store whose clock is behind by that many nanoseconds. `clock`: the clock as it was measured.
    #[must_use]
    pub fn new(behind_ns: i64, clock: Option<StoreClock>) -> Self {
        Self {
            entries: MemoryFileSystem::new(),
            uploads: Mutex::default(),
            behind_ns,
            clock,
            requests: Mutex::default(),
        }
    }

    fn count(&self, request: impl FnOnce(&mut RequestCounts)) {
        request(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uploaded(&self, path: &EntryPath) {
        let mut uploads = self.uploads();
        let now = uploads.ticks.next();
        let now_ns = now.as_nanoseconds() - i128::from(self.behind_ns);
        let seconds = i64::try_from(now_ns.div_euclid(1_000_000_000)).unwrap_or(0);
        let nanoseconds = u32::try_from(now_ns.rem_euclid(1_000_000_000)).unwrap_or(0);
        uploads.by_path.insert(path.as_bytes().to_vec(), FileTime { seconds, nanoseconds });
    }

    /// Returns the time of an upload; that of a directory without a marker is in 1970.
    fn upload_of(&self, path: &EntryPath) -> FileTime {
        self.uploads().by_path.get(path.as_bytes()).copied().unwrap_or_default()
    }

    /// Returns the metadata of one entry from what the file system has.
    fn stored(&self, path: &EntryPath, found: &EntryMetadata) -> EntryMetadata {
        EntryMetadata { ctime: self.upload_of(path), links: 1, inode: None, ..*found }
    }

    /// Returns the metadata of an entry in a listing.
    fn listed(&self, path: &EntryPath, found: &EntryMetadata) -> EntryMetadata {
        let is_directory = found.kind == EntryKind::Directory;
        let kind = if is_directory { EntryKind::Directory } else { EntryKind::File };
        let Attributes { mode, uid, gid, .. } = own(if is_directory { 0o755 } else { 0o644 });
        let (time, size_bytes) = (self.upload_of(path), found.size_bytes);
        EntryMetadata { mode, uid, gid, size_bytes, mtime: time, ctime: time, ..EntryMetadata::new(kind) }
    }
}

impl ObjectPlace for MemoryMetadataStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            hard_links: false,
            inodes: false,
            tells_file_systems: false,
            listed: ListedAttributes::NONE,
            clock: self.clock,
            request_costs: Some(&COSTS),
            ..self.entries.capabilities()
        }
    }

    fn requests(&self) -> RequestCounts {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inspect(&self, path: &EntryPath) -> Option<EntryMetadata> {
        self.count(|requests| requests.head += 1);
        self.entries.inspect(path).map(|found| self.stored(path, &found))
    }

    fn page(&self, directory: &EntryPath, after: Option<&Position>, most: usize) -> Result<StorePage> {
        self.count(|requests| requests.list += 1);
        let mut page = self.entries.page(directory, after, most)?;
        for index in 0..page.listing.len() {
            let path = directory.join(page.listing.name(index))?;
            if let Some(metadata) = page.listing.metadata_mut(index) {
                *metadata = self.listed(&path, metadata);
            }
        }
        Ok(page)
    }

    fn get(&self, path: &EntryPath) -> Result<StoredEntry> {
        self.count(|requests| requests.get += 1);
        let StoredEntry { metadata, content } = self.entries.get(path)?;
        Ok(StoredEntry { metadata: self.stored(path, &metadata), content })
    }

    fn put(
        &self,
        path: &EntryPath,
        content: EntryContent,
        attributes: &Attributes,
        grant: &Grant,
    ) -> Result<Vec<LossKind>> {
        self.count(|requests| requests.put += 1);
        let lost = self.entries.put(path, content, attributes, grant)?;
        self.uploaded(path);
        Ok(lost)
    }

    fn apply(&self, change: &Change, grant: &Grant) -> Result<Vec<LossKind>> {
        self.count(|requests| match change {
            Change::Directory { .. } => requests.put += 1,
            Change::Attributes { .. } => requests.copy += 1,
            Change::Remove { .. } => requests.delete += 1,
            Change::MakeDirectory { .. } | Change::Link { .. } | Change::Rename { .. } => {}
        });
        let lost = self.entries.apply(change, grant)?;
        match change {
            Change::Directory { path, .. } | Change::Attributes { path, .. } => self.uploaded(path),
            Change::Remove { path, .. } => drop(self.uploads().by_path.remove(path.as_bytes())),
            Change::MakeDirectory { .. } | Change::Link { .. } | Change::Rename { .. } => {}
        }
        Ok(lost)
    }
}
