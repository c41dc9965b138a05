//! What a store in memory does. Each call is one step that nobody sees half done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, Kind, Metadata, Time};
use hakobu_core::grant::Grant;
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

/// How many entries a listing is put together from at a time.
const PAGE_ENTRIES: usize = 1000;

/// What is in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes of a file.
    File(Arc<[u8]>),
    /// The text of a symbolic link.
    Symlink(Arc<[u8]>),
    /// A named pipe or a device node, with the device's number.
    Special(Kind, u32),
}

/// An entry with its content.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its description.
    pub metadata: Metadata,
    /// Its content.
    pub content: Content,
}

/// Where a listing goes on: behind the entry of this name, which ends with a slash if it is a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position(pub(crate) Vec<u8>);

/// Some entries of a directory, in the order of [`Listing`].
#[derive(Debug)]
pub struct Page {
    /// The entries.
    pub listing: Listing,
    /// Where the next page begins, if there may be one.
    pub next: Option<Position>,
}

/// A place that holds entries.
pub trait Store: Send + Sync + 'static {
    /// Returns what it can do.
    fn capabilities(&self) -> Capabilities;

    /// Returns the description of an entry; nothing if there is no such entry.
    fn inspect(&self, path: &EntryPath) -> Option<Metadata>;

    /// Returns the entries of a directory behind `after`, at most `most`.
    ///
    /// # Errors
    /// `NotFound`, or `Conflict` where the path leads to something else.
    fn page(&self, directory: &EntryPath, after: Option<&Position>, most: usize) -> Result<Page>;

    /// Returns an entry that is no directory.
    ///
    /// # Errors
    /// `NotFound`, or `Conflict` where it is a directory.
    fn get(&self, path: &EntryPath) -> Result<Held>;

    /// Puts an entry into its place, whole, and returns what it lost by that. Missing directories above it are made.
    ///
    /// # Errors
    /// `Conflict` where something is in the way that may not go, `Unsupported` for what the store cannot hold.
    fn put(
        &self,
        path: &EntryPath,
        content: Content,
        attributes: &Attributes,
        grant: &Grant,
    ) -> Result<Vec<LossKind>>;

    /// Makes a change that carries no content, and returns what was lost by that.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, or `Unsupported` for what the store cannot do.
    fn apply(&self, change: &Change, grant: &Grant) -> Result<Vec<LossKind>>;
}

/// Lists a directory as a whole.
pub(crate) fn list(store: &dyn Store, directory: &EntryPath, entries_max: usize) -> Result<Option<Listing>> {
    let mut whole = Listing::default();
    let mut after = None;
    loop {
        let page = store.page(directory, after.as_ref(), PAGE_ENTRIES)?;
        for index in 0..page.listing.len() {
            if whole.len() >= entries_max {
                return Ok(None);
            }
            whole.push(page.listing.name(index), *page.listing.metadata(index))?;
        }
        page.listing.refused().iter().for_each(|refused| whole.refuse(refused.clone()));
        after = page.next;
        if after.is_none() {
            return Ok(Some(whole));
        }
    }
}

/// Lists directories, and then descendants, as long as all together stay below `budget` entries. `fault` says what an error
/// means to who asks.
pub(crate) fn list_all(
    store: &dyn Store,
    directories: Vec<EntryPath>,
    budget: u32,
    fault: fn(Error) -> Error,
) -> Vec<DirectoryListing> {
    let mut listings = Vec::with_capacity(directories.len());
    let (mut below, mut entries) = (VecDeque::new(), 0);
    let mut found = |path: &EntryPath, listing: &Listing, below: &mut VecDeque<EntryPath>| {
        entries += listing.len();
        let is_directory = |index: &usize| listing.metadata(*index).kind == Kind::Directory;
        let directories = (0..listing.len()).filter(is_directory);
        below.extend(directories.filter_map(|index| path.join(listing.name(index)).ok()));
        entries
    };
    let mut used = 0;
    for path in directories {
        let result = list(store, &path, ENTRIES_MAX)
            .map(Option::unwrap_or_default)
            .map_err(|error| fault(error).at(&path));
        if let Ok(listing) = &result {
            used = found(&path, listing, &mut below);
        }
        listings.push(DirectoryListing { path, result });
    }
    while let Some(path) = below.pop_front() {
        let room = (budget as usize).saturating_sub(used);
        match list(store, &path, room) {
            Ok(Some(listing)) if room > 0 => {
                used = found(&path, &listing, &mut below);
                listings.push(DirectoryListing { path, result: Ok(listing) });
            }
            // Who asks for it by name is told.
            Err(_) => {}
            Ok(_) => break,
        }
    }
    listings
}

/// A clock of which no two times are the same, so that any change can be told.
#[derive(Debug, Default)]
pub(crate) struct Ticks(Time);

impl Ticks {
    /// Returns the time now, or one later than the last where that is not later.
    pub(crate) fn next(&mut self) -> Time {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Time { seconds: now.as_secs().cast_signed(), nanoseconds: now.subsec_nanos() };
        let after = match self.0.nanoseconds {
            999_999_999 => Time { seconds: self.0.seconds + 1, nanoseconds: 0 },
            nanoseconds => Time { nanoseconds: nanoseconds + 1, ..self.0 },
        };
        self.0 = now.max(after);
        self.0
    }
}

pub(crate) fn missing(during: &'static str) -> Error {
    Error::new(ErrorKind::NotFound, during, "there is no such file or directory")
}

pub(crate) fn conflict(during: &'static str, words: &'static str) -> Error {
    Error::new(ErrorKind::Conflict, during, words)
}

pub(crate) fn unsupported(words: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, "working in memory", words)
}
