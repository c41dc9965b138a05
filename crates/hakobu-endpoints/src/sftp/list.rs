//! Listings of directories: complete or an error.

use std::collections::VecDeque;

use futures_util::future::join_all;
use hakobu_core::entry::EntryKind;
use hakobu_core::listing::{DirectoryListing, ENTRIES_MAX, Listing};
use hakobu_core::path::{EntryPath, check_name, is_draft_name};
use hakobu_core::{Error, ErrorKind, Result};

use super::requests::{self, ServerRefusal, attrs, names};
use super::sftp_root::SftpRoot;
use super::wire::NamedEntry;
use crate::local::errno::place;

/// The initial and the maximum number of parts of a listing that are requested at a time. The number doubles with each
/// part received. OpenSSH returns a hundred entries per part, so a directory of a million entries takes 160 round
/// trips, and a small one wastes no requests.
const PARTS_AHEAD: (usize, usize) = (2, 64);
/// The number of directories that are listed at a time.
const DIRECTORIES_AT_ONCE: usize = 16;

/// Lists `directories`, and then their descendants, as long as the total stays below `budget` entries. `enter` decides
/// which directories may be entered. `drafts` receives the drafts, which are left out of listings.
pub(crate) async fn list_all(
    sftp_root: &SftpRoot,
    directories: Vec<EntryPath>,
    budget: u32,
    enter: impl Fn(&EntryPath) -> Result<()>,
    drafts: impl Fn(&EntryPath, &[Vec<u8>]),
) -> Vec<DirectoryListing> {
    let mut listings = Vec::with_capacity(directories.len());
    let mut below = VecDeque::new();
    let mut entries = 0;
    for some in directories.chunks(DIRECTORIES_AT_ONCE) {
        let listed = some.iter().map(|path| async {
            enter(path)?;
            list(sftp_root, path, ENTRIES_MAX, &drafts).await
        });
        for (path, result) in some.iter().zip(join_all(listed).await) {
            if let Ok(listing) = &result {
                entries += listing.len();
                collect_directories(path, listing, budget, &mut below);
            }
            listings.push(DirectoryListing { path: path.clone(), result });
        }
    }
    while entries < budget as usize && !below.is_empty() {
        let some: Vec<_> = below.drain(..below.len().min(DIRECTORIES_AT_ONCE)).collect();
        let some: Vec<_> = some.into_iter().filter(|path| enter(path).is_ok()).collect();
        let room = budget as usize - entries;
        let listed = some.iter().map(|path| list(sftp_root, path, room, &drafts));
        let mut is_full = false;
        for (path, result) in some.iter().zip(join_all(listed).await) {
            // An explicit request for this directory reports the error.
            let Ok(listing) = result else {
                is_full = true;
                continue;
            };
            if entries + listing.len() > budget as usize {
                is_full = true;
                continue;
            }
            entries += listing.len();
            collect_directories(path, &listing, budget, &mut below);
            listings.push(DirectoryListing { path: path.clone(), result: Ok(listing) });
        }
        if is_full {
            break;
        }
    }
    listings
}

/// Returns the names of drafts in a directory, which are left out of listings.
pub(crate) async fn drafts(sftp_root: &SftpRoot, path: &EntryPath) -> Result<Vec<Vec<u8>>> {
    let mut drafts = Vec::new();
    read(sftp_root, path, |part| {
        drafts.extend(part.into_iter().filter(is_draft).map(|named| named.name));
        Ok(())
    })
    .await?;
    Ok(drafts)
}

/// Lists one directory.
pub(crate) async fn list_whole(sftp_root: &SftpRoot, path: &EntryPath) -> Result<Listing> {
    list(sftp_root, path, ENTRIES_MAX, &|_: &EntryPath, _: &[Vec<u8>]| ()).await
}

/// Lists one directory, which must have at most `entries_max` entries.
async fn list(
    sftp_root: &SftpRoot,
    path: &EntryPath,
    entries_max: usize,
    tell: &impl Fn(&EntryPath, &[Vec<u8>]),
) -> Result<Listing> {
    let (mut listing, mut drafts, mut unclear) = (Listing::with_capacity(16), Vec::new(), Vec::new());
    read(sftp_root, path, |part| {
        let (some, others): (Vec<_>, Vec<_>) = part.into_iter().partition(is_draft);
        drafts.extend(some.into_iter().map(|named| named.name));
        add(&mut listing, &mut unclear, others)?;
        match listing.len() <= entries_max {
            true => Ok(()),
            false => {
                Err(Error::new(ErrorKind::Unsupported, "listing the directory", "it has too many entries"))
            }
        }
    })
    .await?;
    // A listing may lack the type of an entry. A request for the entry itself may return it.
    for name in unclear {
        let found = attrs(sftp_root.server.connection.look(&sftp_root.in_directory(path, &name))).await;
        match found {
            Ok(Some(found)) => listing.push(&name, found)?,
            Ok(None) => return Err(requests::unclear("listing the directory").at(place(path, &name))),
            Err(ServerRefusal::NotFound) => {}
            Err(refusal) => {
                return Err(sftp_root.error("listing the directory", refusal).at(place(path, &name)));
            }
        }
    }
    listing.count_drafts(drafts.len());
    if !drafts.is_empty() {
        tell(path, &drafts);
    }
    listing.sort();
    for index in 0..listing.len() {
        if listing.metadata(index).kind == EntryKind::Directory
            && let Ok(below) = path.join(listing.name(index))
        {
            sftp_root.learn(&below);
        }
    }
    Ok(listing)
}

/// Reads a directory part by part.
async fn read(
    sftp_root: &SftpRoot,
    path: &EntryPath,
    mut take: impl FnMut(Vec<NamedEntry>) -> Result<()>,
) -> Result<()> {
    let during = "listing the directory";
    sftp_root.check_way(path).await?;
    let connection = &sftp_root.server.connection;
    let glance = sftp_root.glance(path);
    let opened = connection.open_directory(&sftp_root.whole(path)).await;
    let handle = match opened {
        Ok(handle) => handle,
        Err(refusal) => {
            sftp_root.forget(path);
            return Err(sftp_root.error(during, refusal).at(path));
        }
    };
    let (mut parts, mut ahead) = (VecDeque::new(), PARTS_AHEAD.0);
    parts.extend((0..ahead).map(|_| connection.read_directory(&handle)));
    let glanced = sftp_root.glanced(path, glance).await;
    let listed = loop {
        if glanced.is_err() {
            break glanced;
        }
        let Some(part) = parts.pop_front() else { break Ok(()) };
        let part = match names(part).await {
            Ok(part) if part.is_empty() => break Ok(()),
            Ok(part) => part,
            Err(refusal) => break Err(sftp_root.error(during, refusal).at(path)),
        };
        if let Err(error) = take(part) {
            break Err(error.at(path));
        }
        ahead = (ahead * 2).min(PARTS_AHEAD.1);
        while parts.len() < ahead {
            parts.push_back(connection.read_directory(&handle));
        }
    };
    drop(parts);
    // The result of closing does not matter.
    drop(connection.close(&handle));
    listed
}

fn is_draft(named: &NamedEntry) -> bool {
    let kind = named.attrs.metadata().map(|metadata| metadata.kind);
    is_draft_name(&named.name) && matches!(kind, Some(EntryKind::File | EntryKind::Symlink))
}

/// Adds a part to a listing. Entries without a type are added to `unclear`.
fn add(listing: &mut Listing, unclear: &mut Vec<Vec<u8>>, part: Vec<NamedEntry>) -> Result<()> {
    for named in part {
        if named.name == b"." || named.name == b".." {
            continue;
        }
        check_name(&named.name)?;
        let Some(mut metadata) = named.attrs.metadata() else {
            unclear.push(named.name);
            continue;
        };
        if metadata.kind == EntryKind::File {
            metadata.links = links(&named.line);
        }
        listing.push(&named.name, metadata)?;
    }
    Ok(())
}

/// Returns the number of a file's names from the human-readable line if that has the form of `ls -l`, otherwise 1.
fn links(line: &[u8]) -> u32 {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is_mode = words.next().is_some_and(|mode| mode.len() >= 10 && mode.starts_with(b"-"));
    let count = words.next().and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    count.filter(|_| is_mode).unwrap_or(1)
}

/// Queues the directories of a listing as far as the budget allows.
fn collect_directories(path: &EntryPath, listing: &Listing, budget: u32, below: &mut VecDeque<EntryPath>) {
    let room = (budget as usize).saturating_sub(below.len());
    let directories =
        (0..listing.len()).filter(|&index| listing.metadata(index).kind == EntryKind::Directory);
    below.extend(directories.take(room).filter_map(|index| path.join(listing.name(index)).ok()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_names_is_taken_from_a_line_that_is_as_expected() {
        assert_eq!(links(b"-rw-r--r--    3 root     root            5 Nov 22 12:00 a b"), 3);
        assert_eq!(links(b"-rw-r--r--    ? 0        0               5 Nov 22 12:00 a"), 1);
        for other in [&b""[..], b"a", b"5 2 x", b"drwxr-xr-x 7 a b"] {
            assert_eq!(links(other), 1);
        }
    }
}
