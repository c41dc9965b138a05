//! Listings of directories, from keys that are listed without regard to slashes.

use std::collections::{BTreeMap, HashMap, VecDeque};

use futures_util::future::join_all;
use hakobu_core::endpoint::ListingPage;
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extended::Classes;
use hakobu_core::handle::Cursor;
use hakobu_core::listing::{Detail, DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::{EntryPath, check_name};
use hakobu_core::{Error, ErrorKind, Result};

use super::api::{ListCursor, ListQuery, ListStart, ListedObject, ObjectApi, ObjectPage};
use super::attributes::{AttributeReader, SidecarProof};
use super::entry::{described, implied_directory, listed, plain};
use super::key_pages::{EMPTY_PAGES_MAX, KeyPages, endless};
use super::key_ranges::{KeyEntry, PAGES_PER_RANGE, list_ranges};
use super::key_space::KeyAlphabet;
use super::keys::{KeyRoot, check_page};
use super::metadata::ObjectExtended;
use super::metadata::sidecar::{SIDECAR_DIRECTORY, SidecarName};
use super::sidecars::Sidecars;
use crate::local::errno::foreign;
use crate::store::{FlatKey, Position, StorePage, flat_page, no_path, shown};

/// The entries of a directory of which one tells which characters its keys consist of.
const ALPHABET_STEP: usize = 16;
/// The most keys that are held until they are entries of listings.
const KEYS_MAX: usize = 64 << 10;

/// The objects of directories that one lane asks for at a time.
const HEADS_AT_ONCE: usize = 64;

/// Lists directories of a bucket.
#[derive(Clone, Copy)]
pub(crate) struct KeyLister<'a> {
    pub(crate) api: &'a dyn ObjectApi,
    pub(crate) root: &'a KeyRoot,
    /// The detail that is asked for, where listings show any attributes.
    pub(crate) detail: Detail,
    pub(crate) sidecars: &'a Sidecars,
    pub(crate) proof: SidecarProof,
    /// Returns the error for a directory that does not exist.
    pub(crate) missing: fn() -> Error,
}

impl KeyLister<'_> {
    /// Returns the entries of objects that were listed. Their sidecars are read many at a time.
    async fn listed(&self, objects: &[&ListedObject]) -> Result<Vec<EntryMetadata>> {
        let (mut sidecars, mut referring) = (HashMap::new(), Vec::new());
        let mut entries = Vec::with_capacity(objects.len());
        for object in objects {
            let (metadata, sidecar) = listed(self.api.limits(), object, self.detail);
            if let Some(name) = sidecar {
                sidecars.entry(name).or_insert(&object.key);
                referring.push((entries.len(), &object.key, name));
            }
            entries.push(metadata);
        }
        if sidecars.len() > 1 {
            let sidecars: Vec<(SidecarName, &String)> = sidecars.into_iter().collect();
            for some in sidecars.chunks(HEADS_AT_ONCE) {
                join_all(some.iter().map(|(name, key)| self.read_ahead(key, name))).await;
            }
        }
        // Errors are those of the entries.
        for (index, key, name) in referring {
            if let Some(metadata) = entries.get_mut(index) {
                self.show((key, &ObjectExtended::Sidecar(name)), metadata).await?;
            }
        }
        Ok(entries)
    }

    fn reader(&self) -> AttributeReader<'_> {
        let Self { api, root, sidecars, proof, .. } = *self;
        AttributeReader { api, root, sidecars, proof }
    }

    /// Reads a sidecar, if the entries that refer to it need that. Errors come again when it is needed.
    async fn read_ahead(&self, key: &str, name: &SidecarName) {
        let reader = self.reader();
        if self.proof != SidecarProof::Told {
            let _ = reader.prove(key, name).await;
        } else if ObjectExtended::Sidecar(*name).loses_list(self.detail) {
            let _ = self.sidecars.read(self.api, self.root, key, name).await;
        }
    }

    /// Adds what the listing shows of the extended attributes of the object at a key.
    async fn show(&self, of: (&str, &ObjectExtended), metadata: &mut EntryMetadata) -> Result<()> {
        let loses_list = of.1.loses_list(self.detail);
        let missed = if loses_list { Classes::ACL } else { Classes::NONE };
        let detail = Detail { extended: self.detail.extended, missed, ..Detail::default() };
        self.reader().show(of, detail, metadata).await?;
        if loses_list {
            // To count what entries lose that stay as they are would take a request for each.
            metadata.missed = false;
        }
        Ok(())
    }

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
        let mut page = self.assembled(directory, &prefix, &keys, more).await?;
        // The store goes on after a key, not after a name.
        let last = keys.last().filter(|_| more).map(|last| last.key.as_bytes()[prefix.len()..].to_vec());
        page.next = last.map(|last| Position(shown(&last).to_vec()));
        Ok(page)
    }

    /// Assembles listings from sorted objects below a directory.
    async fn assembled(
        &self,
        directory: &EntryPath,
        prefix: &str,
        objects: &[ListedObject],
        more: bool,
    ) -> Result<StorePage> {
        let (mut names, mut refused) = (Vec::with_capacity(objects.len()), Vec::new());
        let entries = self.listed(&objects.iter().collect::<Vec<_>>()).await?;
        for (object, metadata) in objects.iter().zip(entries) {
            let relative = &object.key[prefix.len()..];
            match self.root.read(relative) {
                Ok(name) => names.push((name, metadata)),
                Err(error) => refused.push(no_path(directory, relative.as_bytes(), &error)),
            }
        }
        let relative: Vec<FlatKey<'_>> =
            names.iter().map(|(name, metadata)| (&name[..], *metadata)).collect();
        let mut page = flat_page(directory, &relative, more, directory_listed(), true)?;
        refused.into_iter().for_each(|refused| page.listing.refuse(refused));
        page.below.iter_mut().flat_map(|below| &mut below.result).for_each(sort_by_names);
        Ok(page)
    }

    /// Lists a page of a directory, of at most `entries` entries.
    pub(crate) async fn page(
        &self,
        directory: &EntryPath,
        from: Option<Cursor>,
        entries: usize,
    ) -> Result<ListingPage> {
        if !self.api.limits().lists_bytewise {
            let mut along = VecDeque::new();
            let listing = self.by_level(directory, ENTRIES_MAX, &mut along).await?;
            return Ok(ListingPage { listing, rest: None, below: along.into() });
        }
        let from: Option<Position> =
            from.map(|cursor| cursor.into_position().ok_or_else(foreign)).transpose()?;
        let mut page = self.flat(directory, from.as_ref(), entries).await?;
        sort_by_names(&mut page.listing);
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
        if !self.api.limits().lists_bytewise {
            return self.by_level(directory, budget, along).await;
        }
        // A request for less than a page of the store costs as much.
        let page = self.api.limits().list_page.max(1);
        let entries = (budget.min(KEYS_MAX) / page).max(1) * page;
        let (mut listing, mut after, mut came) = (Listing::default(), None::<Position>, 0);
        loop {
            if let Some(Position(last)) = after.as_ref().filter(|_| self.is_wide(&listing)) {
                self.rest(directory, last, &mut listing).await?;
                sort_by_names(&mut listing);
                return Ok(listing);
            }
            let page = self.flat(directory, after.as_ref(), entries).await?;
            for index in 0..page.listing.len() {
                listing.push(page.listing.name(index), *page.listing.metadata(index))?;
            }
            page.listing.refused().iter().for_each(|refused| listing.refuse(refused.clone()));
            // Entries beyond the budget would be left out later.
            if came <= budget {
                came += page.below.iter().map(entries_of).sum::<usize>();
                along.extend(page.below);
            }
            after = page.next;
            if after.is_none() {
                sort_by_names(&mut listing);
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

/// Sorts a listing or a page of one. Keys are in order, which names that are spelled differently are not.
fn sort_by_names(listing: &mut Listing) {
    if !listing.is_sorted() {
        listing.sort();
    }
}

impl KeyLister<'_> {
    /// Returns true if a directory has so many entries that the rest is listed in several ranges at a time.
    fn is_wide(&self, listing: &Listing) -> bool {
        let limits = self.api.limits();
        limits.lists_bytewise && listing.len() >= limits.list_page * PAGES_PER_RANGE
    }

    /// Lists a directory of a store that has an order of its own: with all that is below, if that is one page, else by
    /// itself.
    async fn by_level(
        &self,
        directory: &EntryPath,
        budget: usize,
        along: &mut VecDeque<DirectoryListing>,
    ) -> Result<Listing> {
        let (limits, prefix) = (self.api.limits(), self.root.directory(directory)?);
        let mut level = KeyLevel::default();
        if budget > 0 {
            let mut pages = KeyPages::new(self.api, &prefix, ListStart::First);
            let objects = pages.next(limits.list_page).await?;
            if pages.is_over {
                level.exists = !objects.is_empty();
                self.check_exists(directory, &level)?;
                return self.whole_below(directory, &prefix, objects, along).await;
            }
        }
        let (mut cursor, mut empty_pages) = (None::<ListCursor>, 0);
        loop {
            let start = cursor.as_ref().map_or(ListStart::First, ListStart::Cursor);
            let query =
                ListQuery { prefix: &prefix, delimiter: true, start, until: None, entries: limits.list_page };
            let page = self.api.list(query).await?;
            check_page(&page, &prefix)?;
            let next = page.next.clone();
            let is_empty = page.objects.is_empty() && page.prefixes.is_empty();
            empty_pages = if is_empty { empty_pages + 1 } else { 0 };
            self.add_page(&mut level, &prefix, page).await?;
            let entries = level.files.len() + level.directories.len();
            let is_endless = next == cursor || empty_pages > EMPTY_PAGES_MAX || entries > ENTRIES_MAX;
            if next.is_some() && is_endless {
                return Err(endless());
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        self.check_exists(directory, &level)?;
        let mut listing = Listing::default();
        let directories =
            level.directories.into_iter().map(|(key, own)| (key, own.unwrap_or_else(directory_listed)));
        for (relative, metadata) in level.files.into_iter().chain(directories) {
            let name = self
                .root
                .read(relative.trim_end_matches('/'))
                .and_then(|name| check_name(&name).map(|()| name));
            match name {
                Ok(name) => listing.push(&name, metadata)?,
                Err(error) => listing.refuse(no_path(directory, relative.as_bytes(), &error)),
            }
        }
        listing.sort();
        Ok(listing)
    }

    /// Assembles the listings of a directory and all directories below it from all their objects.
    async fn whole_below(
        &self,
        directory: &EntryPath,
        prefix: &str,
        mut objects: Vec<ListedObject>,
        along: &mut VecDeque<DirectoryListing>,
    ) -> Result<Listing> {
        objects.retain(|object| !self.root.is_sidecar(&object.key));
        objects.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let page = self.assembled(directory, prefix, &objects, false).await?;
        let sorted = |mut listing: Listing| {
            sort_by_names(&mut listing);
            listing
        };
        let below = page.below.into_iter();
        along.extend(below.map(|below| DirectoryListing { result: below.result.map(sorted), ..below }));
        Ok(sorted(page.listing))
    }

    /// Adds the entries of one page to those of a directory.
    async fn add_page(&self, level: &mut KeyLevel, prefix: &str, page: ObjectPage) -> Result<()> {
        level.exists |= !page.objects.is_empty() || !page.prefixes.is_empty();
        // The directory's own object is no entry of it.
        let is_entry =
            |object: &&ListedObject| object.key.len() > prefix.len() && !self.root.is_sidecar(&object.key);
        let objects: Vec<&ListedObject> = page.objects.iter().filter(is_entry).collect();
        for (object, metadata) in objects.iter().zip(self.listed(&objects).await?) {
            let relative = &object.key[prefix.len()..];
            match relative.ends_with('/') {
                true => drop(level.directories.insert(relative.to_owned(), Some(metadata))),
                false => level.files.push((relative.to_owned(), metadata)),
            }
        }
        for key in page.prefixes {
            if !self.is_of_sidecars(&key).await? {
                level.directories.entry(key[prefix.len()..].to_owned()).or_default();
            }
        }
        Ok(())
    }

    /// Returns true if a directory has nothing but extended attributes of other entries.
    async fn is_of_sidecars(&self, key: &str) -> Result<bool> {
        if !key.trim_end_matches('/').ends_with(SIDECAR_DIRECTORY) {
            return Ok(false);
        }
        let mut pages = KeyPages::new(self.api, key, ListStart::First);
        while !pages.is_over {
            let objects = pages.next(self.api.limits().list_page).await?;
            if objects.iter().any(|object| !self.root.is_sidecar(&object.key)) {
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
        let directories = self.directories(&entries).await?;
        for some in entries.chunks(limits.list_page.max(1)) {
            let objects = some.iter().filter_map(|entry| match entry {
                KeyEntry::Object(object) => Some(object),
                KeyEntry::Prefix(_) => None,
            });
            let mut objects = self.listed(&objects.collect::<Vec<_>>()).await?.into_iter();
            for entry in some {
                let metadata = match entry {
                    KeyEntry::Object(object) => shown_of(object, objects.next()),
                    KeyEntry::Prefix(below) => {
                        directories.get(below).copied().unwrap_or_else(directory_listed)
                    }
                };
                self.add_shown((directory, &prefix), (entry, metadata), listing).await?;
            }
        }
        Ok(())
    }

    /// Adds an entry of a directory to its listing, unless it is there already.
    async fn add_shown(
        &self,
        (directory, prefix): (&EntryPath, &str),
        (entry, metadata): (&KeyEntry, EntryMetadata),
        listing: &mut Listing,
    ) -> Result<()> {
        let relative = &entry.key()[prefix.len()..];
        let name = self.root.read(relative);
        let name = name.and_then(|name| check_name(name.strip_suffix(b"/").unwrap_or(&name)).map(|()| name));
        let name = match name {
            Ok(name) => name,
            Err(error) => {
                listing.refuse(no_path(directory, relative.as_bytes(), &error));
                return Ok(());
            }
        };
        let name = name.strip_suffix(b"/").unwrap_or(&name);
        let is_hidden = match entry {
            KeyEntry::Object(object) => self.root.is_sidecar(&object.key),
            KeyEntry::Prefix(below) => self.is_of_sidecars(below).await?,
        };
        // Some stores show both the object of a directory and what is below it.
        let is_known = !listing.is_empty() && listing.name(listing.len() - 1) == name;
        if !is_hidden && !is_known {
            listing.push(name, metadata)?;
        }
        Ok(())
    }

    fn check_exists(&self, directory: &EntryPath, level: &KeyLevel) -> Result<()> {
        match level.exists || directory.is_root() {
            true => Ok(()),
            false => Err((self.missing)()),
        }
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
                    let mut entry = described(limits, &head, true);
                    self.show((prefix, &entry.extended), &mut entry.metadata).await?;
                    told.insert((*prefix).to_owned(), entry.metadata);
                }
            }
        }
        Ok(told)
    }
}

/// Returns what a listing shows of the entry of an object. A key with a slash at its end is that of a directory.
fn shown_of(object: &ListedObject, shown: Option<EntryMetadata>) -> EntryMetadata {
    let shown = shown.unwrap_or_else(|| plain(EntryKind::File, object.size_bytes, object.uploaded));
    match object.key.ends_with('/') && shown.kind != EntryKind::Directory {
        true => plain(EntryKind::Directory, 0, shown.ctime),
        false => shown,
    }
}

/// The entries of one directory, by their keys below it.
#[derive(Default)]
struct KeyLevel {
    files: Vec<(String, EntryMetadata)>,
    /// Directories, with what their own objects show.
    directories: BTreeMap<String, Option<EntryMetadata>>,
    /// True if the store has anything below it.
    exists: bool,
}

/// Returns what a listing says about a directory: nothing.
fn directory_listed() -> EntryMetadata {
    implied_directory()
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
