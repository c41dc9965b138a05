//! Listings of directories, put together from pages.

use std::collections::VecDeque;

use hakobu_core::entry::Kind;
use hakobu_core::handle::Cursor;
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, Result};

use super::{Page, Position, Store};
use crate::local::fault::foreign;

/// How many entries a listing is put together from at a time.
const PAGE_ENTRIES: usize = 1000;

/// Lists a directory from where the last portion of it has left off.
pub(crate) fn portion(
    store: &dyn Store,
    directory: &EntryPath,
    from: Option<Cursor>,
    entries: usize,
) -> Result<Page> {
    let from: Option<Position> = from.map(|cursor| cursor.into_position().ok_or_else(foreign)).transpose()?;
    store.page(directory, from.as_ref(), entries)
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
