//! `Apply`: changes that carry no content.

use hakobu_core::Result;
use hakobu_core::endpoint::{Change, Outcome};
use hakobu_core::entry::{Attributes, Kind};
use hakobu_core::extended::{Extended, ExtendedRef};
use hakobu_core::losses::Losses;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;

use super::Shared;
use super::attributes::Lost;
use super::directories::{Directories, PASSING_MODE, reach};
use super::link::link;
use super::remove::remove;
use crate::local::fault::fault;
use crate::local::metadata;

/// Makes the changes in order. Those that fail are named in the outcome by their index.
///
/// # Errors
/// When what failed would fail for every further change.
pub(crate) fn apply(shared: &Shared, directories: &mut Directories, changes: &[Change]) -> Result<Outcome> {
    let (mut failures, mut losses, mut lost) = (Vec::new(), Losses::default(), Lost::new());
    for (index, change) in changes.iter().enumerate() {
        lost.clear();
        match apply_one(shared, directories, change, &mut lost) {
            Ok(()) => losses.merge(&lost, || change.path().as_bytes().to_vec()),
            Err(error) if error.is_fatal() => return Err(error.at(change.path())),
            Err(error) => failures.push((index as u32, error.at(change.path()))),
        }
    }
    Ok(Outcome::Stored { failures, losses: losses.finish() })
}

fn apply_one(shared: &Shared, directories: &mut Directories, change: &Change, lost: &mut Lost) -> Result<()> {
    let path = change.path();
    shared.grant.check_write(path)?;
    match change {
        Change::Remove { directory, kept_names, .. } => {
            remove(shared, directories, path, *directory, *kept_names)
        }
        Change::Link { to, replaces, .. } => link(shared, directories, path, to, *replaces),
        Change::MakeDirectory { mode, .. } => reach(shared, path, *mode).map(drop),
        Change::Directory { attributes, extended, .. } => {
            let directory = reach(shared, path, PASSING_MODE)?;
            // New files may belong to others from now on.
            directories.forget(path);
            settle(shared, path, &directory, (attributes, extended.as_ref().map(Extended::as_ref)), lost)
        }
        Change::Attributes { attributes, extended, .. } => {
            let entry = open_entry(shared, path)?;
            settle(shared, path, &entry, (attributes, extended.as_ref().map(Extended::as_ref)), lost)
        }
    }
}

fn open_entry(shared: &Shared, path: &EntryPath) -> Result<OwnedFd> {
    shared.root.open_beneath(path, OFlags::PATH).map_err(|errno| fault("opening", errno))
}

fn settle(
    shared: &Shared,
    path: &EntryPath,
    entry: &OwnedFd,
    (attributes, extended): (&Attributes, Option<ExtendedRef<'_>>),
    lost: &mut Lost,
) -> Result<()> {
    let during = "setting the attributes";
    let is = metadata::of_path(entry).map_err(|errno| fault(during, errno))?;
    // The mode of a device node gives rights, and one that stands for itself is only written to.
    let may = match is.kind {
        Kind::File | Kind::Directory | Kind::Symlink => true,
        Kind::Fifo => shared.grant.is_in_tree(path),
        Kind::BlockDevice | Kind::CharDevice => {
            shared.grant.is_in_tree(path) && shared.grant.may_make_devices
        }
        Kind::Socket => false,
    };
    if !may {
        return Err(Error::new(ErrorKind::Conflict, during, format!("{} is in its place", is.kind.words())));
    }
    let settled = shared.policy.settle_entry(entry.as_fd(), &is, attributes, extended, lost);
    settled.map_err(|errno| fault(during, errno))
}
