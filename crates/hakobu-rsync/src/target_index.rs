//! The kinds of the target's entries, so that a copy puts no directory in the place of a file, and no file in that of a
//! directory. rsync would do both silently, the second if the directory is empty.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::path::EntryPath;

use super::endpoints::{RsyncEndpoints, here};
use super::listing::{below_of, list_far};
use super::remote::joined;
use super::remote_rsync::RemoteAccess;
use hakobu_core::prompts::Prompts;

/// The kinds of the target's entries.
pub(super) struct TargetIndex {
    names: NameList,
    /// Directories of the source whose content needs no check.
    settled: Mutex<HashMap<EntryPath, EntryDecision>>,
}

enum NameList {
    /// No check is needed.
    Unasked,
    /// Below this local directory.
    Here(Vec<u8>),
    /// A listing, without symbolic links.
    Listed(HashMap<EntryPath, EntryKind>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryDecision {
    /// It replaces a symbolic link, so nothing is below it yet.
    New,
    /// Something is in its way.
    Held,
}

/// The decision about an entry.
#[derive(Debug)]
pub(super) enum EntryVerdict {
    Goes,
    /// Something is in its way.
    Conflict(Error),
    /// Something is in the way of a directory above it.
    Held,
}

impl TargetIndex {
    /// Returns the state of an empty target.
    pub fn nothing() -> Self {
        Self { names: NameList::Unasked, settled: Mutex::default() }
    }

    /// Examines the target of a copy. A sync does not need it: replacements are agreed on with the deletions.
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn find(way: &RemoteAccess<'_>, ends: &RsyncEndpoints, prompts: &mut dyn Prompts) -> Result<Self> {
        let names = match (way.request.deletion.is_some(), way.outward) {
            (true, _) => NameList::Unasked,
            (_, false) => NameList::Here(ends.local.clone()),
            (_, true) => listed(way, ends, prompts)?,
        };
        Ok(Self { names, settled: Mutex::default() })
    }

    /// Decides if an entry of the source may be copied to its place. Its directory must have been judged before.
    pub fn judge(&self, path: &EntryPath, kind: EntryKind) -> EntryVerdict {
        let is_directory = kind == EntryKind::Directory;
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = path.split_last().map(|(parent, _)| parent).unwrap_or_default();
        let above = settled.get(&parent).copied();
        let stands = if above.is_none() { self.kind_of(path) } else { None };
        let (now, judgement) = match (above, stands) {
            (Some(above), _) => (
                Some(above),
                if above == EntryDecision::Held { EntryVerdict::Held } else { EntryVerdict::Goes },
            ),
            (None, Some(EntryKind::Directory)) if !is_directory => {
                (None, EntryVerdict::Conflict(conflict("a directory is in the way")))
            }
            (None, Some(EntryKind::Symlink)) => (Some(EntryDecision::New), EntryVerdict::Goes),
            (None, Some(stands)) if is_directory && stands != EntryKind::Directory => {
                let error = conflict("something that is no directory is in the way");
                (Some(EntryDecision::Held), EntryVerdict::Conflict(error))
            }
            _ => (None, EntryVerdict::Goes),
        };
        if let (Some(now), true) = (now, is_directory) {
            settled.insert(path.clone(), now);
        }
        judgement
    }

    fn kind_of(&self, path: &EntryPath) -> Option<EntryKind> {
        match &self.names {
            NameList::Unasked => None,
            NameList::Listed(kinds) => kinds.get(path).copied(),
            NameList::Here(top) => {
                let place = here(&joined(top, path.as_bytes()));
                let found = std::fs::symlink_metadata(place).ok()?.file_type();
                Some(match () {
                    () if found.is_dir() => EntryKind::Directory,
                    () if found.is_symlink() => EntryKind::Symlink,
                    () if found.is_file() => EntryKind::File,
                    () => EntryKind::Fifo,
                })
            }
        }
    }
}

fn conflict(words: &str) -> Error {
    Error::new(ErrorKind::Conflict, "making way", words)
}

/// Lists a remote target. One that cannot be listed may still be writable.
fn listed(way: &RemoteAccess<'_>, ends: &RsyncEndpoints, prompts: &mut dyn Prompts) -> Result<NameList> {
    let mut kinds = HashMap::new();
    let listed = list_far(way, &ends.far_tree(), prompts, &mut |item| {
        if let (Ok(path), true) = (below_of(&ends.prefix, &item.path), item.kind != EntryKind::Symlink) {
            kinds.insert(path, item.kind);
        }
    });
    match listed {
        Err(error) if error.kind == ErrorKind::Cancelled => return Err(error),
        Err(error) => {
            let words = format!(
                "the target cannot be listed ({error}); where it has a file, a directory of the source takes its place"
            );
            way.observer.event(Event::Notice { words });
        }
        Ok(_) => {}
    }
    Ok(NameList::Listed(kinds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_do_not_fit_are_conflicts_with_all_below() {
        use EntryKind::{Directory, File, Symlink};
        let path = |name: &str| EntryPath::new(name).unwrap();
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        std::fs::create_dir_all(place.path().join("directory/d")).unwrap();
        std::os::unix::fs::symlink("directory", place.path().join("link")).unwrap();
        let listed = [("file", File), ("directory", Directory), ("directory/d", Directory)];
        let listed = listed.map(|(name, kind)| (path(name), kind)).into();
        let here = place.path().to_str().unwrap().as_bytes().to_vec();
        for names in [NameList::Here(here), NameList::Listed(listed)] {
            let standing = TargetIndex { names, settled: Mutex::default() };
            let conflicts =
                |name, kind| matches!(standing.judge(&path(name), kind), EntryVerdict::Conflict(_));
            let goes = |name, kind| matches!(standing.judge(&path(name), kind), EntryVerdict::Goes);
            assert!(conflicts("directory", File) && conflicts("directory/d", Symlink));
            assert!(conflicts("file", Directory) && goes("file", File) && goes("directory", Directory));
            for (name, kind) in [("file/d", Directory), ("file/d/x", File)] {
                assert!(matches!(standing.judge(&path(name), kind), EntryVerdict::Held), "{name}");
            }
            // A directory replaces a symbolic link, and nothing is below it then.
            assert!(goes("link", Directory) && goes("link/d", File) && goes("new", Directory));
        }
    }
}
