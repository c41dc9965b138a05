//! Listings of directories, from keys that are listed without regard to slashes.

use std::collections::VecDeque;

use hakobu_core::endpoint::ListingPage;
use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime};
use hakobu_core::handle::Cursor;
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::api::{ListStart, ObjectApi};
use super::entry::{listed, plain};
use super::key_pages::KeyPages;
use super::keys::KeyRoot;
use crate::local::errno::foreign;
use crate::store::{FlatKey, Position, StorePage, flat_page, no_path, shown};

/// The most keys that are held until they are entries of listings.
const KEYS_MAX: usize = 64 << 10;

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
                Ok(name) => names.push((name, listed(object))),
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
            used += entries_of(&listing);
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
        let entries = budget.min(KEYS_MAX).max(self.api.limits().list_page);
        let (mut listing, mut after, mut came) = (Listing::default(), None::<Position>, 0);
        loop {
            let page = self.flat(directory, after.as_ref(), entries).await?;
            for index in 0..page.listing.len() {
                listing.push(page.listing.name(index), *page.listing.metadata(index))?;
            }
            page.listing.refused().iter().for_each(|refused| listing.refuse(refused.clone()));
            // What is more than the budget would be left out later.
            if came <= budget {
                came += page.below.iter().map(entries_of).sum::<usize>();
                along.extend(page.below);
            }
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

/// Returns the number of entries of a listing.
fn entries_of(listing: &DirectoryListing) -> usize {
    listing.result.as_ref().map_or(0, Listing::len)
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
