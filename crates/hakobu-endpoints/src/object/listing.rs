//! Listings of directories, from keys that are listed without regard to slashes.

use std::collections::{HashMap, VecDeque};

use futures_util::future::join_all;
use hakobu_core::endpoint::ListingPage;
use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime};
use hakobu_core::handle::Cursor;
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::{EntryPath, check_name};
use hakobu_core::{Error, ErrorKind, Result};

use super::api::{ListStart, ObjectApi};
use super::entry::{described, listed, plain};
use super::key_pages::KeyPages;
use super::key_ranges::{KeyEntry, PAGES_PER_RANGE, list_ranges};
use super::key_space::KeyAlphabet;
use super::keys::KeyRoot;
use super::metadata::sidecar::SIDECAR_DIRECTORY;
use crate::local::errno::foreign;
use crate::store::{FlatKey, Position, StorePage, flat_page, no_path, shown};

/// The entries of a directory of which one tells which characters its keys consist of.
const ALPHABET_STEP: usize = 16;

/// The objects of directories that one lane asks for at a time.
const HEADS_AT_ONCE: usize = 64;

/// Lists directories of a bucket.
#[derive(Clone, Copy)]
pub(crate) struct KeyLister<'a> {
    pub(crate) api: &'a dyn ObjectApi,
    pub(crate) root: &'a KeyRoot,
    /// Returns the error for a directory that does not exist.
    pub(crate) missing: fn() -> Error,
}

impl KeyLister<'_> {
    /// Lists a directory from `after` on: as many keys as `entries`, unless it ends before. Includes complete listings
    /// of directories below it. A directory exists if a key is in it; the root always does.
    async fn flat(
        &self,
        directory: &EntryPath,
        after: Option<&Position>,
        entries: usize,
    ) -> Result<StorePage> {
        let (limits, prefix) = (self.api.limits(), self.root.directory(directory)?);
        let behind = after.map(|position| behind(&prefix, position, limits.key_bytes_max)).transpose()?;
        let first = behind.as_deref().map_or(ListStart::First, ListStart::After);
        let (mut keys, mut counted) = (Vec::new(), 0);
        let mut pages = KeyPages::new(self.api, &prefix, first);
        let more = loop {
            for object in pages.next(entries.saturating_sub(counted)).await? {
                if !self.root.is_sidecar(&object.key) {
                    // The directory's own object is no entry of it.
                    counted += usize::from(object.key != prefix);
                    keys.push(object);
                }
            }
            if pages.is_over || counted >= entries.max(1) {
                break !pages.is_over;
            }
        };
        if keys.is_empty() && after.is_none() && !directory.is_root() {
            return Err((self.missing)());
        }
        let (mut names, mut refused) = (Vec::with_capacity(keys.len()), Vec::new());
        for object in &keys {
            let relative = &object.key[prefix.len()..];
            match self.root.read(relative) {
                Ok(name) => names.push((name, listed(limits, object, object.key.ends_with('/')))),
                Err(error) => refused.push(no_path(directory, relative.as_bytes(), &error)),
            }
        }
        let relative: Vec<FlatKey<'_>> =
            names.iter().map(|(name, metadata)| (&name[..], *metadata)).collect();
        let mut page = flat_page(directory, &relative, more, directory_listed(), true)?;
        refused.into_iter().for_each(|refused| page.listing.refuse(refused));
        // The store goes on after a key, not after a name.
        let last = keys.last().filter(|_| more).map(|last| last.key.as_bytes()[prefix.len()..].to_vec());
        page.next = last.map(|last| Position(shown(&last).to_vec()));
        Ok(page)
    }

    /// Lists a page of a directory, of at most `entries` entries.
    pub(crate) async fn page(
        &self,
        directory: &EntryPath,
        from: Option<Cursor>,
        entries: usize,
    ) -> Result<ListingPage> {
        let from: Option<Position> =
            from.map(|cursor| cursor.into_position().ok_or_else(foreign)).transpose()?;
        let page = self.flat(directory, from.as_ref(), entries).await?;
        Ok(ListingPage { listing: page.listing, rest: page.next.map(Cursor::new), below: page.below })
    }

    /// Lists directories completely, and as many of the directories below as come along or fit into `budget` entries.
    pub(crate) async fn list_all(&self, directories: Vec<EntryPath>, budget: u32) -> Vec<DirectoryListing> {
        let (mut listings, mut along) = (Vec::with_capacity(directories.len()), VecDeque::new());
        let mut used = 0;
        for path in directories {
            let result = self.whole(&path, budget as usize, &mut along).await;
            let result = result.map_err(|error| error.at(&path));
            used += result.as_ref().map_or(0, Listing::len);
            listings.push(DirectoryListing { path, result });
        }
        for listing in along {
            // A listing comes before those of directories below it, so none may be left out between others.
            used += listing.result.as_ref().map_or(0, Listing::len);
            if used > budget as usize {
                break;
            }
            listings.push(listing);
        }
        listings
    }

    async fn whole(
        &self,
        directory: &EntryPath,
        budget: usize,
        along: &mut VecDeque<DirectoryListing>,
    ) -> Result<Listing> {
        // A request for less than a page of the store costs as much.
        let page = self.api.limits().list_page.max(1);
        let entries = (budget / page).max(1) * page;
        let (mut listing, mut after) = (Listing::default(), None::<Position>);
        loop {
            if let Some(Position(last)) = after.as_ref().filter(|_| self.is_wide(&listing)) {
                self.rest(directory, last, &mut listing).await?;
                if !listing.is_sorted() {
                    listing.sort();
                }
                return Ok(listing);
            }
            let page = self.flat(directory, after.as_ref(), entries).await?;
            for index in 0..page.listing.len() {
                listing.push(page.listing.name(index), *page.listing.metadata(index))?;
            }
            page.listing.refused().iter().for_each(|refused| listing.refuse(refused.clone()));
            along.extend(page.below);
            after = page.next;
            if after.is_none() {
                // Keys are in order, which names that are spelled differently are not.
                if !listing.is_sorted() {
                    listing.sort();
                }
                return Ok(listing);
            }
            if listing.len() > ENTRIES_MAX {
                return Err(Error::new(ErrorKind::Unsupported, "listing", "it has too many entries"));
            }
        }
    }
}

impl KeyLister<'_> {
    /// Returns true if a directory has so many entries that the rest is listed in several ranges at a time.
    fn is_wide(&self, listing: &Listing) -> bool {
        let limits = self.api.limits();
        limits.lists_bytewise && listing.len() >= limits.list_page * PAGES_PER_RANGE
    }

    /// Returns true if all keys below a directory are those of extended attributes of other entries.
    async fn has_only_sidecars(&self, below: &str) -> Result<bool> {
        if !is_sidecar_directory(below) {
            return Ok(false);
        }
        let mut pages = KeyPages::new(self.api, below, ListStart::First);
        while !pages.is_over {
            let page = pages.next(self.api.limits().list_page).await?;
            if !page.iter().all(|object| self.root.is_sidecar(&object.key)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds what is directly in a directory after an entry, in several ranges at a time.
    async fn rest(&self, directory: &EntryPath, last: &[u8], listing: &mut Listing) -> Result<()> {
        let (limits, prefix) = (self.api.limits(), self.root.directory(directory)?);
        let after = behind(&prefix, &Position(last.to_vec()), limits.key_bytes_max)?;
        let mut alphabet = KeyAlphabet::new(&prefix);
        let key = |index: usize| {
            let name = EntryPath::new(listing.name(index)).and_then(|name| directory.join(name.as_bytes()));
            name.and_then(|path| self.root.key(&path))
        };
        let first = key(0)?;
        for index in (0..listing.len()).step_by(ALPHABET_STEP) {
            alphabet.add(&key(index)?);
        }
        let entries = list_ranges(self.api, &prefix, (&first, &after), alphabet).await?;
        let mut directories = self.directories(&entries).await?;
        for entry in entries {
            let relative = &entry.key()[prefix.len()..];
            let refuse = |listing: &mut Listing, error: &Error| {
                listing.refuse(no_path(directory, relative.as_bytes(), error));
            };
            let name = self.root.read(relative);
            let name =
                name.and_then(|name| check_name(name.strip_suffix(b"/").unwrap_or(&name)).map(|()| name));
            match (name, &entry) {
                (Err(error), _) => refuse(listing, &error),
                (Ok(_), KeyEntry::Object(object)) if self.root.is_sidecar(&object.key) => {}
                (Ok(name), KeyEntry::Object(object)) => listing.push(&name, listed(limits, object, false))?,
                (Ok(_), KeyEntry::Prefix(below)) if self.has_only_sidecars(below).await? => {}
                (Ok(name), KeyEntry::Prefix(below)) => {
                    let metadata = directories.remove(below).unwrap_or_else(directory_listed);
                    listing.push(name.strip_suffix(b"/").unwrap_or(&name), metadata)?;
                }
            }
        }
        Ok(())
    }
}

impl KeyLister<'_> {
    /// Returns what the objects of directories say, where listings show it of all other objects.
    async fn directories(&self, entries: &[KeyEntry]) -> Result<HashMap<String, EntryMetadata>> {
        let limits = self.api.limits();
        let mut below: Vec<&str> = Vec::new();
        for entry in entries {
            if let KeyEntry::Prefix(prefix) = entry
                && limits.lists_metadata
            {
                below.push(prefix);
            }
        }
        let mut told = HashMap::with_capacity(below.len());
        for some in below.chunks(HEADS_AT_ONCE) {
            let heads = join_all(some.iter().map(|prefix| self.api.head(prefix))).await;
            for (prefix, head) in some.iter().zip(heads) {
                if let Some(head) = head? {
                    told.insert((*prefix).to_owned(), described(limits, &head, true).metadata);
                }
            }
        }
        Ok(told)
    }
}

/// Returns true if the keys below a directory may be those of extended attributes.
fn is_sidecar_directory(prefix: &str) -> bool {
    prefix.trim_end_matches('/').rsplit('/').next() == Some(SIDECAR_DIRECTORY)
}

/// Returns what a listing says about a directory: nothing.
fn directory_listed() -> EntryMetadata {
    plain(EntryKind::Directory, 0, FileTime::default())
}

/// Returns a key after all that belong to the entry of a position, and before all others.
fn behind(prefix: &str, Position(shown): &Position, key_bytes_max: usize) -> Result<String> {
    let shown = std::str::from_utf8(shown).map_err(|_| foreign())?;
    let mut key = format!("{prefix}{shown}");
    if shown.ends_with('/') {
        // The largest character, as often as it fits.
        while key.len() + char::MAX.len_utf8() <= key_bytes_max {
            key.push(char::MAX);
        }
    }
    Ok(key)
}
