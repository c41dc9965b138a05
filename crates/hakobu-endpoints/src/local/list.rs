//! Listings of directories: complete or an error, without an allocation per entry.

use std::collections::VecDeque;

use hakobu_core::Result;
use hakobu_core::endpoint::{Detail, Outcome};
use hakobu_core::entry::{Kind, Metadata};
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::{EntryPath, is_draft_name};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{OFlags, RawDir, RawDirEntry};
use rustix::io::Errno;

use super::beneath::Root;
use super::extended::{ExtendedReader, Place};
use super::file_system::is_deleted_on_nfs;
use super::metadata;

/// The bytes that one `getdents` may fill: about 1 000 entries.
const NAMES_BYTES: usize = 32 * 1024;

/// Turns an error number into an error, as it means something else at the source and the target.
pub(crate) type Fault = fn(&'static str, Errno) -> hakobu_core::Error;

/// The reused parts of listing.
#[derive(Debug, Default)]
pub(crate) struct Lister {
    names: Vec<u8>,
    /// The entries of the last directory: the next one is often about as large.
    expected: usize,
    extended: ExtendedReader,
}

/// What is asked about many directories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// How many entries may be added on the way down.
    pub(crate) budget: u32,
    /// What is told of each entry.
    pub(crate) detail: Detail,
}

impl Lister {
    /// Lists `directories`, and then descendants, level by level, as long as all together stay
    /// below `budget` entries. `enter` says which directories may be entered.
    pub(crate) fn list_all(
        &mut self,
        root: &Root,
        directories: Vec<EntryPath>,
        Ask { budget, detail }: Ask,
        enter: impl Fn(&EntryPath) -> Result<()>,
        fault: Fault,
    ) -> Outcome {
        let mut listings = Vec::with_capacity(directories.len());
        let mut below = VecDeque::new();
        let mut entries = 0;
        for path in directories {
            let listed = enter(&path).and_then(|()| self.list(root, &path, (ENTRIES_MAX, detail), fault));
            let result = listed.map(Option::unwrap_or_default);
            if let Ok(listing) = &result {
                entries += listing.len();
                collect_directories(&path, listing, budget, &mut below);
            }
            listings.push(DirectoryListing { path, result });
        }
        while let Some(path) = below.pop_front() {
            let Some(room) = (budget as usize).checked_sub(entries).filter(|room| *room > 0) else { break };
            if enter(&path).is_err() {
                continue;
            }
            match self.list(root, &path, (room - 1, detail), fault) {
                Ok(Some(listing)) => {
                    entries += listing.len();
                    collect_directories(&path, &listing, budget, &mut below);
                    listings.push(DirectoryListing { path, result: Ok(listing) });
                }
                Ok(None) => break,
                // Whoever asks for it by name is told.
                Err(_) => {}
            }
        }
        Outcome::Listed(listings)
    }

    /// Lists one directory, or gives `None` if it has more than `entries_max` entries.
    fn list(
        &mut self,
        root: &Root,
        path: &EntryPath,
        (entries_max, detail): (usize, Detail),
        fault: Fault,
    ) -> Result<Option<Listing>> {
        let during = "listing the directory";
        let failed = |errno| fault(during, errno).at(path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = root.open_beneath(path, flags).map_err(failed)?;
        let mut listing = Listing::with_capacity(self.expected.min(entries_max));
        self.names.reserve_exact(NAMES_BYTES);
        let mut names = RawDir::new(&directory, self.names.spare_capacity_mut());
        let mut describe = Describe { directory: &directory, on: None, extended: &mut self.extended, detail };
        while let Some(entry) = names.next() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let bytes = name.to_bytes();
            if bytes == b"."
                || bytes == b".."
                || is_draft_name(bytes)
                || is_deleted_on_nfs(directory.as_fd(), bytes)
            {
                continue;
            }
            let metadata = match describe.entry(&entry) {
                Ok(metadata) => metadata,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(fault(during, errno).at(super::fault::place(path, bytes))),
            };
            if listing.len() == entries_max && entries_max < ENTRIES_MAX {
                return Ok(None);
            }
            listing.push(bytes, metadata).map_err(|error| error.at(path))?;
        }
        listing.sort();
        self.expected = listing.len().min(4096);
        Ok(Some(listing))
    }
}

/// Describes the entries of one directory.
struct Describe<'a> {
    directory: &'a OwnedFd,
    /// The file system that it is on, once that was asked.
    on: Option<u64>,
    extended: &'a mut ExtendedReader,
    detail: Detail,
}

impl Describe<'_> {
    fn entry(&mut self, entry: &RawDirEntry<'_>) -> std::result::Result<Metadata, Errno> {
        let name = entry.file_name();
        if self.detail.kinds_only
            && let Ok(kind) = metadata::kind(entry.file_type())
        {
            return Ok(Metadata::new(kind));
        }
        let (mut found, on) = metadata::of_name_on(self.directory, name)?;
        if found.kind == Kind::Directory {
            let here = match self.on {
                Some(here) => here,
                None => *self.on.insert(metadata::file_system_of(self.directory)?),
            };
            found.mount_point = on != here;
        }
        if !self.detail.extended.is_empty() {
            let place = Place::Named(self.directory.as_fd(), name);
            found.extended = self.extended.digest(place, self.detail.extended);
        }
        Ok(found)
    }
}

/// Queues the directories of a listing, if there is a budget for going down at all.
fn collect_directories(path: &EntryPath, listing: &Listing, budget: u32, below: &mut VecDeque<EntryPath>) {
    let room = (budget as usize).saturating_sub(below.len());
    let directories = (0..listing.len()).filter(|&index| listing.metadata(index).kind == Kind::Directory);
    below.extend(directories.take(room).filter_map(|index| path.join(listing.name(index)).ok()));
}
