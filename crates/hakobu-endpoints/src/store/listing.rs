//! Assembles listings of directories from pages.

use std::collections::VecDeque;

use hakobu_core::endpoint::ListingPage;
use hakobu_core::entry::EntryKind;
use hakobu_core::handle::Cursor;
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, Result};

use super::{ObjectPlace, Position};
use crate::local::errno::foreign;

/// The number of entries per page.
const PAGE_ENTRIES: usize = 1000;

/// Lists a directory, continuing after the last portion.
pub(crate) fn portion(
    store: &dyn ObjectPlace,
    directory: &EntryPath,
    from: Option<Cursor>,
    entries: usize,
) -> Result<ListingPage> {
    let from: Option<Position> = from.map(|cursor| cursor.into_position().ok_or_else(foreign)).transpose()?;
    let page = match store.flat_page(directory, from.as_ref(), entries)? {
        Some(page) => page,
        None => store.page(directory, from.as_ref(), entries)?,
    };
    Ok(ListingPage { listing: page.listing, rest: page.next.map(Cursor::new), below: page.below })
}

/// The complete listing of a directory.
struct CompleteListing {
    listing: Listing,
    /// Complete listings of directories below it, if the store returns them along with it.
    below: Option<Vec<DirectoryListing>>,
}

/// Lists a directory completely. Returns `None` if it has more than `entries_max` entries. Listings of directories
/// below it are included as long as they have less than `below_max` entries in total.
fn list(
    store: &dyn ObjectPlace,
    directory: &EntryPath,
    entries_max: usize,
    below_max: usize,
) -> Result<Option<CompleteListing>> {
    let mut room = below_max;
    let mut whole = CompleteListing { listing: Listing::default(), below: None };
    let mut after = None;
    loop {
        let flat = match below_max {
            0 => None,
            _ => store.flat_page(directory, after.as_ref(), PAGE_ENTRIES)?,
        };
        let page = match flat {
            Some(mut page) => {
                let below = whole.below.get_or_insert_default();
                for listing in page.below.drain(..) {
                    // Once a listing is left out, so are all following ones, which may be below it.
                    room = room.saturating_sub(listing.result.as_ref().map_or(0, Listing::len));
                    if room > 0 {
                        below.push(listing);
                    }
                }
                page
            }
            None => store.page(directory, after.as_ref(), PAGE_ENTRIES)?,
        };
        for index in 0..page.listing.len() {
            if whole.listing.len() >= entries_max {
                return Ok(None);
            }
            whole.listing.push(page.listing.name(index), *page.listing.metadata(index))?;
        }
        page.listing.refused().iter().for_each(|refused| whole.listing.refuse(refused.clone()));
        after = page.next;
        if after.is_none() {
            return Ok(Some(whole));
        }
    }
}

/// Lists directories, and then their descendants, as long as the total stays below `budget` entries. `fault` converts
/// errors for the caller.
pub(crate) fn list_all(
    store: &dyn ObjectPlace,
    directories: Vec<EntryPath>,
    budget: u32,
    fault: fn(Error) -> Error,
) -> Vec<DirectoryListing> {
    let mut listings = Vec::with_capacity(directories.len());
    let (mut below, mut along) = (VecDeque::new(), Vec::new());
    let mut used = 0;
    for path in directories {
        let result = list(store, &path, ENTRIES_MAX, budget as usize).map_err(|error| fault(error).at(&path));
        let result = result.map(|whole| match whole {
            Some(CompleteListing { listing, below: Some(mut came) }) => {
                along.append(&mut came);
                listing
            }
            Some(CompleteListing { listing, below: None }) => {
                below.extend(directories_in(&path, &listing));
                listing
            }
            None => Listing::default(),
        });
        used += result.as_ref().map_or(0, Listing::len);
        listings.push(DirectoryListing { path, result });
    }
    let room = |used: usize| (budget as usize).saturating_sub(used);
    for listing in along {
        used += listing.result.as_ref().map_or(0, Listing::len);
        if room(used) == 0 {
            break;
        }
        listings.push(listing);
    }
    while let Some(path) = below.pop_front() {
        match list(store, &path, room(used), 0) {
            Ok(Some(CompleteListing { listing, .. })) if room(used) > 0 => {
                used += listing.len();
                below.extend(directories_in(&path, &listing));
                listings.push(DirectoryListing { path, result: Ok(listing) });
            }
            // An explicit request for this directory reports the error.
            Err(_) => {}
            Ok(_) => break,
        }
    }
    listings
}

fn directories_in(path: &EntryPath, listing: &Listing) -> Vec<EntryPath> {
    let is_directory = |index: &usize| listing.metadata(*index).kind == EntryKind::Directory;
    (0..listing.len()).filter(is_directory).filter_map(|index| path.join(listing.name(index)).ok()).collect()
}
