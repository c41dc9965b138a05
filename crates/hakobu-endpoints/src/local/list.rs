//! Listings of directories: complete or an error, without an allocation per entry.

use std::collections::{HashSet, VecDeque};

use hakobu_core::Result;
use hakobu_core::endpoint::Detail;
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::EntryPath;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

use super::describe::{Describer, undescribed};
use super::draft_proof::is_ours;
use super::errno::ErrnoContext;
use super::extended::ExtendedReader;
use super::file_system::is_deleted_on_nfs;
use super::helpers::DescribedEntry;
use super::resolve_beneath::TreeRoot;
use super::run_mark::is_mark;

/// The buffer size of one `getdents` in bytes, which holds about 1,000 entries.
const NAMES_BYTES: usize = 32 * 1024;
const DURING: &str = "listing the directory";
/// The maximum number of drafts, and of directories with run marks, that are remembered between queries.
const MET_MAX: usize = 1024;

/// The reusable state of listing.
#[derive(Debug, Default)]
pub(crate) struct Lister {
    names: Vec<u8>,
    /// The number of entries of the last directory. The next one is often about as large.
    expected: usize,
    extended: ExtendedReader,
    /// Drafts and journals, which are left out of listings, with their directories.
    met_drafts: Vec<(EntryPath, Vec<u8>)>,
    /// Directories that contain a run mark.
    met_marks: Vec<EntryPath>,
}

/// The parameters of listing many directories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListParameters {
    /// The maximum number of entries to add by descending.
    pub(crate) budget: u32,
    /// The details to report for each entry.
    pub(crate) detail: Detail,
}

impl Lister {
    /// Returns the drafts and journals that were found since the last call.
    pub(crate) fn met_drafts(&mut self) -> Vec<(EntryPath, Vec<u8>)> {
        std::mem::take(&mut self.met_drafts)
    }

    /// Returns the directories with run marks that were listed since the last call.
    pub(crate) fn met_marks(&mut self) -> Vec<EntryPath> {
        std::mem::take(&mut self.met_marks)
    }

    /// Lists `directories`, and then their descendants level by level, as long as the total stays below `budget`
    /// entries. `enter` decides which directories may be entered.
    pub(crate) fn list_all(
        &mut self,
        root: &TreeRoot,
        directories: Vec<EntryPath>,
        ListParameters { budget, detail }: ListParameters,
        enter: impl Fn(&EntryPath) -> Result<()>,
        fault: ErrnoContext,
    ) -> Vec<DirectoryListing> {
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
                // An explicit request for this directory reports the error.
                Err(_) => {}
            }
        }
        listings
    }

    /// Lists one directory. Returns `None` if it has more than `entries_max` entries.
    fn list(
        &mut self,
        root: &TreeRoot,
        path: &EntryPath,
        (entries_max, detail): (usize, Detail),
        fault: ErrnoContext,
    ) -> Result<Option<Listing>> {
        let directory = open(root, path, fault)?;
        let amount = Amount { entries_max, portion: usize::MAX };
        let read = self.read((&directory, path), amount, detail, fault)?;
        Ok(read.map(|(listing, _)| listing))
    }

    /// Lists about `portion` entries of a directory, continuing after the previous portion. Entries are sorted only
    /// within a portion. If the directory changes meanwhile, an entry may be listed twice, depending on the system.
    pub(crate) fn portion(
        &mut self,
        root: &TreeRoot,
        path: &EntryPath,
        from: Option<OwnedFd>,
        (portion, detail): (usize, Detail),
        fault: ErrnoContext,
    ) -> Result<(Listing, Option<OwnedFd>)> {
        let directory = match from {
            Some(directory) => directory,
            None => open(root, path, fault)?,
        };
        let amount = Amount { entries_max: usize::MAX, portion };
        let read = self.read((&directory, path), amount, detail, fault)?;
        let (listing, more) = read.unwrap_or_default();
        Ok((listing, more.then_some(directory)))
    }

    /// Reads a directory from its current position. Returns `None` if it has more than `entries_max` entries. The flag
    /// is true if there may be more entries.
    fn read(
        &mut self,
        (directory, path): (&OwnedFd, &EntryPath),
        Amount { entries_max, portion }: Amount,
        detail: Detail,
        fault: ErrnoContext,
    ) -> Result<Option<(Listing, bool)>> {
        let failed = |errno| fault(DURING, errno).at(path);
        let (mut taken, mut drafts, mut more) = (0, 0, false);
        let mut listing = Listing::with_capacity(self.expected.min(entries_max));
        self.names.reserve_exact(NAMES_BYTES);
        let mut names = RawDir::new(directory, self.names.spare_capacity_mut());
        let mut describer = Describer::new(directory, (entries_max, detail), &mut self.extended);
        let mut gone = Vec::new();
        let mut keep = |name: &[u8], described: DescribedEntry| {
            let metadata = match described {
                Ok(metadata) => metadata,
                Err(Errno::NOENT) => {
                    gone.push(name.to_vec());
                    return Ok(true);
                }
                Err(errno) => return Err(fault(DURING, errno).at(super::errno::place(path, name))),
            };
            let has_room = listing.len() < entries_max || entries_max >= ENTRIES_MAX;
            if has_room {
                listing.push(name, metadata).map_err(|error| error.at(path))?;
            }
            Ok(has_room)
        };
        loop {
            // The system would not return the rest of the buffer again.
            if taken >= portion && names.is_buffer_empty() {
                more = true;
                break;
            }
            let Some(entry) = names.next() else { break };
            let entry = entry.map_err(failed)?;
            taken += 1;
            let bytes = entry.file_name().to_bytes();
            if bytes == b"." || bytes == b".." || is_deleted_on_nfs(directory.as_fd(), bytes) {
                continue;
            }
            if is_mark(directory, bytes) {
                if self.met_marks.last() != Some(path) && self.met_marks.len() < MET_MAX {
                    self.met_marks.push(path.clone());
                }
                continue;
            }
            if is_ours(directory, bytes) {
                drafts += 1;
                if self.met_drafts.len() < MET_MAX {
                    self.met_drafts.push((path.clone(), bytes.to_vec()));
                }
                continue;
            }
            if !describer.entry(entry.file_name(), entry.file_type(), &mut keep)? {
                return Ok(None);
            }
        }
        if !describer.rest(&mut keep)? {
            return Ok(None);
        }
        listing.count_drafts(drafts);
        for (name, metadata) in still_listed(directory, &gone).map_err(failed)? {
            listing.push(&name, metadata).map_err(|error| error.at(path))?;
        }
        listing.sort();
        self.expected = listing.len().min(4096);
        Ok(Some((listing, more)))
    }
}

/// The amount of a directory that is read.
#[derive(Clone, Copy, Debug)]
struct Amount {
    /// The maximum number of entries, above which no listing is wanted.
    entries_max: usize,
    /// The approximate number of entries after which the rest is left for later.
    portion: usize,
}

/// Returns those of the names in `gone` that the directory still lists although the system reported them missing. They
/// exist, perhaps again, so they do not count as missing.
fn still_listed(
    directory: &OwnedFd,
    gone: &[Vec<u8>],
) -> std::result::Result<Vec<(Vec<u8>, EntryMetadata)>, Errno> {
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let anew = openat(directory, c".", flags, Mode::empty())?;
    let gone: HashSet<&[u8]> = gone.iter().map(Vec::as_slice).collect();
    let mut found = Vec::new();
    for entry in Dir::read_from(anew)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if gone.contains(name)
            && let Some(metadata) = undescribed(entry.file_type())
        {
            found.push((name.to_vec(), metadata));
        }
    }
    Ok(found)
}

fn open(root: &TreeRoot, path: &EntryPath, fault: ErrnoContext) -> Result<OwnedFd> {
    let opened = root.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY);
    let opened = opened.map_err(|errno| fault(DURING, errno).at(path))?;
    root.check_apart(&opened).map_err(|error| error.at(path))?;
    Ok(opened)
}

/// Queues the directories of a listing as far as the budget allows.
fn collect_directories(path: &EntryPath, listing: &Listing, budget: u32, below: &mut VecDeque<EntryPath>) {
    let room = (budget as usize).saturating_sub(below.len());
    let directories =
        (0..listing.len()).filter(|&index| listing.metadata(index).kind == EntryKind::Directory);
    below.extend(directories.take(room).filter_map(|index| path.join(listing.name(index)).ok()));
}
