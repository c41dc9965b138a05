//! The operation `Apply`: changes without content.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hakobu_core::Result;
use hakobu_core::endpoint::{Change, TargetOutcome};
use hakobu_core::entry::{Attributes, EntryKind};
use hakobu_core::extended::{Extended, ExtendedRef};
use hakobu_core::losses::Losses;
use hakobu_core::path::EntryPath;
use hakobu_core::plant::planted;
use hakobu_core::{Error, ErrorKind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;

use super::attributes::EntryLosses;
use super::directories::{DirectoryCache, PASSING_MODE, reach};
use super::link::link;
use super::remove::remove;
use super::rename::rename;
use super::shared::LocalTargetState;
use crate::local::errno::fault;
use crate::local::metadata;
use crate::local::thread_budget::many;

/// Makes the changes in order, or on a file server several independent ones at a time. The outcome lists the changes
/// that failed by index.
///
/// # Errors
/// If a failure would affect every further change.
pub(crate) fn apply(
    shared: &LocalTargetState,
    directories: &mut DirectoryCache,
    changes: &[Change],
) -> Result<TargetOutcome> {
    let mut applied = AppliedChanges::default();
    if shared.on_network && changes.len() > 1 && changes.iter().all(is_independent) {
        for level in levels(changes) {
            let made = many(level.len(), DirectoryCache::new, |directories, number| {
                let mut lost = EntryLosses::new();
                let change = &changes[level[number]];
                (apply_one(shared, directories, change, &mut lost), lost)
            });
            for (index, (result, lost)) in level.into_iter().zip(made) {
                applied.take((index, &changes[index]), result, &lost)?;
            }
        }
        // Other threads may have replaced directories that this lane keeps open.
        *directories = DirectoryCache::new();
    } else {
        let mut lost = EntryLosses::new();
        for (index, change) in changes.iter().enumerate() {
            lost.clear();
            let result = apply_one(shared, directories, change, &mut lost);
            applied.take((index, change), result, &lost)?;
        }
    }
    let AppliedChanges { mut failures, losses } = applied;
    failures.sort_unstable_by_key(|(index, _)| *index);
    Ok(TargetOutcome::PackWritten { failures, losses: losses.finish() })
}

/// The results of the changes so far.
#[derive(Default)]
struct AppliedChanges {
    failures: Vec<(u32, Error)>,
    losses: Losses,
}

impl AppliedChanges {
    fn take(
        &mut self,
        (index, change): (usize, &Change),
        result: Result<()>,
        lost: &EntryLosses,
    ) -> Result<()> {
        match result {
            Ok(()) => self.losses.merge(lost, true, || change.path().as_bytes().to_vec()),
            Err(error) if error.is_fatal() => return Err(error.at(change.path())),
            Err(error) => self.failures.push((index as u32, error.at(change.path()))),
        }
        Ok(())
    }
}

/// Returns true if a change depends on no other changes except those deeper in the tree.
fn is_independent(change: &Change) -> bool {
    matches!(change, Change::Attributes { .. } | Change::Directory { .. } | Change::Remove { .. })
}

/// Groups the indices of the changes by depth, deepest first, since a directory's contents come before it.
fn levels(changes: &[Change]) -> Vec<Vec<usize>> {
    let depth = |change: &Change| change.path().as_bytes().iter().filter(|byte| **byte == b'/').count();
    let mut levels: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        // The root itself is above the names in it.
        let down = depth(change) + usize::from(!change.path().as_bytes().is_empty());
        levels.entry(Reverse(down)).or_default().push(index);
    }
    levels.into_values().collect()
}

fn apply_one(
    shared: &LocalTargetState,
    directories: &mut DirectoryCache,
    change: &Change,
    lost: &mut EntryLosses,
) -> Result<()> {
    let path = change.path();
    shared.grant.check_write(path)?;
    shared.grant.check_time()?;
    match change {
        Change::Remove { directory, kept_names, .. } => {
            remove(shared, directories, path, *directory, *kept_names)
        }
        Change::Rename { from, .. } => rename(shared, directories, path, from),
        Change::Link { to, replaces, .. } => link(shared, directories, path, to, *replaces),
        Change::MakeDirectory { mode, .. } => reach(shared, path, *mode).map(drop),
        Change::Directory { attributes, extended, .. } => {
            let directory = reach(shared, path, PASSING_MODE)?;
            shared.root.check_apart(&directory)?;
            // New files may get another owner from now on.
            directories.forget(path);
            let extended = extended.as_ref().filter(|_| !planted("directory-xattrs-lost"));
            settle(shared, path, &directory, (attributes, extended.map(Extended::as_ref)), lost)
        }
        Change::Attributes { attributes, extended, .. } => {
            let entry = open_entry(shared, path)?;
            settle(shared, path, &entry, (attributes, extended.as_ref().map(Extended::as_ref)), lost)
        }
    }
}

fn open_entry(shared: &LocalTargetState, path: &EntryPath) -> Result<OwnedFd> {
    shared.root.open_beneath(path, OFlags::PATH).map_err(|errno| fault("opening", errno))
}

fn settle(
    shared: &LocalTargetState,
    path: &EntryPath,
    entry: &OwnedFd,
    (attributes, extended): (&Attributes, Option<ExtendedRef<'_>>),
    lost: &mut EntryLosses,
) -> Result<()> {
    let during = "setting the attributes";
    let is = metadata::of_path(entry).map_err(|errno| fault(during, errno))?;
    // The mode of a device node gives rights, and a device that was named itself is only written to.
    let may = match is.kind {
        EntryKind::File | EntryKind::Directory | EntryKind::Symlink => true,
        EntryKind::Fifo => shared.grant.is_in_tree(path),
        EntryKind::BlockDevice | EntryKind::CharDevice => {
            shared.grant.is_in_tree(path) && shared.grant.may_make_devices
        }
        EntryKind::Socket => false,
    };
    if !may {
        return Err(Error::new(ErrorKind::Conflict, during, format!("{} is in its place", is.kind.words())));
    }
    let settled = shared.policy.settle_entry(entry.as_fd(), &is, attributes, extended, lost);
    settled.map_err(|errno| fault(during, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_directory_holds_comes_before_it() {
        let remove = |path: &str| Change::Remove {
            path: EntryPath::new(path).unwrap(),
            directory: false,
            kept_names: 0,
        };
        let changes = ["", "a", "a/b", "c", "a/b/c", "d/e"].map(remove);
        assert_eq!(levels(&changes), [vec![4], vec![2, 5], vec![1, 3], vec![0]]);
        assert!(changes.iter().all(is_independent));
    }
}
