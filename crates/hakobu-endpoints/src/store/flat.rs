//! Assembles listings of directories from keys that were listed without regard to slashes.

use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::event::Failure;
use hakobu_core::listing::{DirectoryListing, Listing};
use hakobu_core::path::{EntryPath, check_name};
use hakobu_core::{Error, ErrorKind, Result};

use super::{Position, StorePage};

/// A key relative to the listed directory, with the metadata of its object.
pub type FlatKey<'a> = (&'a [u8], EntryMetadata);

/// Assembles the listing of a directory and of the directories below it from the keys below it.
///
/// The keys are sorted, and complete between the first and the last. With `more`, further keys may follow, so the
/// directory of the last key may be incomplete. That directory is listed as an entry, but its own entries are left out.
/// With `has_markers`, a key with a slash at its end is the object of a directory, and not an entry in it; its metadata
/// counts if it is that of a directory.
///
/// # Errors
/// If there are more entries than a listing can hold.
pub fn flat_page(
    directory: &EntryPath,
    keys: &[FlatKey<'_>],
    more: bool,
    of_directories: EntryMetadata,
    has_markers: bool,
) -> Result<StorePage> {
    let mut grouping = KeyGrouping { of_directories, has_markers, below: Vec::new() };
    let listing = grouping.group(directory, keys, more)?;
    let last = keys.last().filter(|_| more).map(|(key, _)| Position(shown(key).to_vec()));
    Ok(StorePage { listing, next: last, below: grouping.below })
}

/// Returns the failure for a key that is not a path.
pub fn no_path(directory: &EntryPath, shown: &[u8], error: &Error) -> Failure {
    let words = format!("the key is no path: {}; rename the object", error.detail);
    let mut path = directory.as_bytes().to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(shown);
    Failure { path, error: Error::new(ErrorKind::Unsupported, "listing", words) }
}

/// Returns the name that a directory shows for a key below it. The name of a directory ends in a slash.
pub fn shown(key: &[u8]) -> &[u8] {
    let slash = key.iter().position(|byte| *byte == b'/');
    &key[..slash.map_or(key.len(), |slash| slash + 1)]
}

struct KeyGrouping {
    of_directories: EntryMetadata,
    has_markers: bool,
    /// Complete listings, each before those of directories below it.
    below: Vec<DirectoryListing>,
}

impl KeyGrouping {
    /// Returns what a listing shows of a directory: what its own object shows, if that shows a directory, or else the
    /// times of that object.
    fn of_directory(&self, shown: &[u8], keys: &[FlatKey<'_>]) -> EntryMetadata {
        match keys.first() {
            Some((key, marker)) if self.has_markers && *key == shown => match marker.kind {
                EntryKind::Directory => *marker,
                _ => {
                    let EntryMetadata { mtime, ctime, links, .. } = *marker;
                    EntryMetadata { mtime, ctime, links, ..self.of_directories }
                }
            },
            _ => self.of_directories,
        }
    }

    fn group(&mut self, directory: &EntryPath, keys: &[FlatKey<'_>], more: bool) -> Result<Listing> {
        let mut listing = Listing::default();
        let mut rest = keys;
        if self.has_markers && rest.first().is_some_and(|(key, _)| key.is_empty()) {
            rest = &rest[1..];
        }
        while let Some((key, metadata)) = rest.first() {
            let shown = shown(key);
            let is_directory = shown.ends_with(b"/");
            let count = match is_directory {
                true => rest.iter().take_while(|(key, _)| key.starts_with(shown)).count(),
                false => 1,
            };
            let (group, behind) = rest.split_at(count);
            rest = behind;
            let name = shown.strip_suffix(b"/").unwrap_or(shown);
            if let Err(error) = check_name(name) {
                listing.refuse(no_path(directory, shown, &error));
                continue;
            }
            if !is_directory {
                listing.push(name, *metadata)?;
                continue;
            }
            listing.push(name, self.of_directory(shown, group))?;
            let is_complete = !(more && rest.is_empty());
            if let (true, Ok(path)) = (is_complete, directory.join(name)) {
                let inner: Vec<FlatKey<'_>> =
                    group.iter().map(|(key, metadata)| (&key[shown.len()..], *metadata)).collect();
                // Each directory precedes its subdirectories.
                let place = self.below.len();
                self.below.push(DirectoryListing { path: path.clone(), result: Ok(Listing::default()) });
                self.below[place].result = Ok(self.group(&path, &inner, false)?);
            }
        }
        Ok(listing)
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::entry::FileTime;

    use super::*;

    fn told(keys: &[&str], more: bool) -> (String, Vec<String>, Option<String>) {
        let file = EntryMetadata::new(EntryKind::File);
        let keys: Vec<FlatKey<'_>> = keys.iter().map(|key| (key.as_bytes(), file)).collect();
        told_with(&keys, more, false)
    }

    fn told_with(
        keys: &[FlatKey<'_>],
        more: bool,
        has_markers: bool,
    ) -> (String, Vec<String>, Option<String>) {
        let directory = EntryPath::new("top").unwrap();
        let of_directories = EntryMetadata::new(EntryKind::Directory);
        let page = flat_page(&directory, keys, more, of_directories, has_markers).unwrap();
        let names = |listing: &Listing| {
            assert!(listing.is_sorted());
            let name = |index: usize| {
                let (name, kind) = listing.place(index);
                format!(
                    "{}{}",
                    String::from_utf8_lossy(name),
                    if kind == EntryKind::Directory { "/" } else { "" }
                )
            };
            let refused =
                listing.refused().iter().map(|it| format!("!{}", String::from_utf8_lossy(&it.path)));
            (0..listing.len()).map(name).chain(refused).collect::<Vec<_>>().join(" ")
        };
        let below = |it: &DirectoryListing| format!("{}: {}", it.path, names(it.result.as_ref().unwrap()));
        let next = page.next.map(|next| String::from_utf8(next.0).unwrap());
        (names(&page.listing), page.below.iter().map(below).collect(), next)
    }

    #[test]
    fn keys_become_listings_of_all_directories_that_are_complete() {
        let keys = ["a", "a-b", "a/b/c", "a/b/d", "a/e", "f/g"];
        let (listing, mut below, next) = told(&keys, false);
        below.sort();
        assert_eq!((&listing[..], next), ("a a-b a/ f/", None));
        assert_eq!(below, ["top/a/b: c d", "top/a: b/ e", "top/f: g"]);
        let (listing, mut below, next) = told(&keys, true);
        below.sort();
        assert_eq!((&listing[..], next.as_deref()), ("a a-b a/ f/", Some("f/")));
        assert_eq!(below, ["top/a/b: c d", "top/a: b/ e"]);
        assert_eq!(told(&keys[..5], true).1, [] as [&str; 0]);
        assert_eq!(told(&keys[..1], true).2.as_deref(), Some("a"));
        assert_eq!(told(&[], true), (String::new(), Vec::new(), None));
    }

    #[test]
    fn the_object_of_a_directory_is_no_entry_in_it() {
        let keys = ["", "a/", "a/b/", "a/b/c", "a/d", "e/", "f//g"];
        let of = |key: &str| match key.ends_with('/') {
            true => EntryMetadata { mode: 0o700, ..EntryMetadata::new(EntryKind::Directory) },
            false => EntryMetadata::new(EntryKind::File),
        };
        let keys: Vec<FlatKey<'_>> = keys.iter().map(|key| (key.as_bytes(), of(key))).collect();
        let (listing, mut below, _) = told_with(&keys, false, true);
        below.sort();
        assert_eq!(listing, "a/ e/ f/");
        assert_eq!(below, ["top/a/b: c", "top/a: b/ d", "top/e: ", "top/f: !top/f//"]);
        let implied = EntryMetadata::new(EntryKind::Directory);
        let page = flat_page(&EntryPath::root(), &keys, false, implied, true).unwrap();
        let modes: Vec<u32> =
            (0..page.listing.len()).map(|index| page.listing.metadata(index).mode).collect();
        assert_eq!(modes, [0o700, 0o700, implied.mode], "the object of a directory has its metadata");
    }

    #[test]
    fn a_directory_has_the_times_of_its_own_object() {
        let at = |seconds| EntryMetadata {
            ctime: FileTime { seconds, nanoseconds: 0 },
            ..EntryMetadata::new(EntryKind::File)
        };
        let keys = [("a/", at(5)), ("a/b", at(7)), ("c/d", at(9))];
        let keys: Vec<FlatKey<'_>> = keys.iter().map(|(key, found)| (key.as_bytes(), *found)).collect();
        let times = |has_markers| {
            let of_directories = EntryMetadata::new(EntryKind::Directory);
            let page = flat_page(&EntryPath::default(), &keys, false, of_directories, has_markers).unwrap();
            let listing = page.listing;
            [0, 1].map(|index| (listing.metadata(index).kind, listing.metadata(index).ctime.seconds))
        };
        assert_eq!(times(true), [(EntryKind::Directory, 5), (EntryKind::Directory, 0)]);
        assert_eq!(times(false), [(EntryKind::Directory, 0), (EntryKind::Directory, 0)]);
    }

    #[test]
    fn keys_that_are_no_paths_are_refused_where_they_are() {
        let (listing, below, _) = told(&["/x", "a/../d", "a//b", "a//c", "a/e", "b/"], false);
        assert_eq!(listing, "a/ b/ !top//");
        assert_eq!(below, ["top/a: e !top/a/../ !top/a//", "top/b: !top/b/"]);
    }
}
