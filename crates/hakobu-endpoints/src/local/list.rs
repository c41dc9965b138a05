//! Listings of directories: complete or an error, without an allocation per entry.

use std::collections::{HashSet, VecDeque};

use hakobu_core::Result;
use hakobu_core::endpoint::Detail;
use hakobu_core::entry::{Kind, Metadata};
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::EntryPath;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

use super::beneath::Root;
use super::describe::{Describer, undescribed};
use super::draft_proof::is_ours;
use super::extended::ExtendedReader;
use super::fault::Fault;
use super::file_system::is_deleted_on_nfs;
use super::helpers::Described;
use super::run_mark::is_mark;

/// The bytes that one `getdents` may fill: about 1 000 entries.
const NAMES_BYTES: usize = 32 * 1024;
const DURING: &str = "listing the directory";
/// How many drafts, and directories with marks of runs, are remembered from one list to the next.
const MET_MAX: usize = 1024;

/// The reused parts of listing.
#[derive(Debug, Default)]
pub(crate) struct Lister {
    names: Vec<u8>,
    /// The entries of the last directory: the next one is often about as large.
    expected: usize,
    extended: ExtendedReader,
    /// Drafts and journals that no listing shows, with their directories.
    met_drafts: Vec<(EntryPath, Vec<u8>)>,
    /// Directories in which a run has left its mark.
    met_marks: Vec<EntryPath>,
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
    /// The drafts and journals that were met since it was asked last.
    pub(crate) fn met_drafts(&mut self) -> Vec<(EntryPath, Vec<u8>)> {
        std::mem::take(&mut self.met_drafts)
    }

    /// The directories, listed since it was asked last, in which there are marks of runs.
    pub(crate) fn met_marks(&mut self) -> Vec<EntryPath> {
        std::mem::take(&mut self.met_marks)
    }

    /// Lists `directories`, and then descendants, level by level, as long as all together stay
    /// below `budget` entries. `enter` says which directories may be entered.
    pub(crate) fn list_all(
        &mut self,
        root: &Root,
        directories: Vec<EntryPath>,
        Ask { budget, detail }: Ask,
        enter: impl Fn(&EntryPath) -> Result<()>,
        fault: Fault,
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
                // Whoever asks for it by name is told.
                Err(_) => {}
            }
        }
        listings
    }

    /// Lists one directory, or gives `None` if it has more than `entries_max` entries.
    fn list(
        &mut self,
        root: &Root,
        path: &EntryPath,
        (entries_max, detail): (usize, Detail),
        fault: Fault,
    ) -> Result<Option<Listing>> {
        let directory = open(root, path, fault)?;
        let amount = Amount { entries_max, portion: usize::MAX };
        let read = self.read((&directory, path), amount, detail, fault)?;
        Ok(read.map(|(listing, _)| listing))
    }

    /// Lists about so many entries of a directory, those behind what an earlier portion left. In no order but within
    /// the portion; of a directory that is changed meanwhile an entry may come twice, as the system says.
    pub(crate) fn portion(
        &mut self,
        root: &Root,
        path: &EntryPath,
        from: Option<OwnedFd>,
        (portion, detail): (usize, Detail),
        fault: Fault,
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

    /// Reads a directory on from where it is. `None`: it has more than `entries_max` entries. With the entries, whether
    /// there may be more.
    fn read(
        &mut self,
        (directory, path): (&OwnedFd, &EntryPath),
        Amount { entries_max, portion }: Amount,
        detail: Detail,
        fault: Fault,
    ) -> Result<Option<(Listing, bool)>> {
        let failed = |errno| fault(DURING, errno).at(path);
        let (mut taken, mut drafts, mut more) = (0, 0, false);
        let mut listing = Listing::with_capacity(self.expected.min(entries_max));
        self.names.reserve_exact(NAMES_BYTES);
        let mut names = RawDir::new(directory, self.names.spare_capacity_mut());
        let mut describer = Describer::new(directory, (entries_max, detail), &mut self.extended);
        let mut gone = Vec::new();
        let mut keep = |name: &[u8], described: Described| {
            let metadata = match described {
                Ok(metadata) => metadata,
                Err(Errno::NOENT) => {
                    gone.push(name.to_vec());
                    return Ok(true);
                }
                Err(errno) => return Err(fault(DURING, errno).at(super::fault::place(path, name))),
            };
            let has_room = listing.len() < entries_max || entries_max >= ENTRIES_MAX;
            if has_room {
                listing.push(name, metadata).map_err(|error| error.at(path))?;
            }
            Ok(has_room)
        };
        loop {
            // What is in the buffer the system would not tell again.
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

/// How much of a directory is read.
#[derive(Clone, Copy, Debug)]
struct Amount {
    /// With more entries than this nothing is wanted.
    entries_max: usize,
    /// After about so many entries the rest stays for later.
    portion: usize,
}

/// Those of the names that a directory still lists, although the system has said that they are not there: they have not
/// gone, or are there once more, and do not count as missing.
fn still_listed(
    directory: &OwnedFd,
    gone: &[Vec<u8>],
) -> std::result::Result<Vec<(Vec<u8>, Metadata)>, Errno> {
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

fn open(root: &Root, path: &EntryPath, fault: Fault) -> Result<OwnedFd> {
    let opened = root.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY);
    let opened = opened.map_err(|errno| fault(DURING, errno).at(path))?;
    root.check_apart(&opened).map_err(|error| error.at(path))?;
    Ok(opened)
}

/// Queues the directories of a listing, if there is a budget for going down at all.
fn collect_directories(path: &EntryPath, listing: &Listing, budget: u32, below: &mut VecDeque<EntryPath>) {
    let room = (budget as usize).saturating_sub(below.len());
    let directories = (0..listing.len()).filter(|&index| listing.metadata(index).kind == Kind::Directory);
    below.extend(directories.take(room).filter_map(|index| path.join(listing.name(index)).ok()));
}
