//! Listings: of a remote tree by rsync, of one local directory by hakobu's own lane.

use std::ffi::OsString;

use hakobu_core::endpoint::{CompletionWait, Detail, SourceLane, SourceOp, SourceOutcome};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::extended::Classes;
use hakobu_core::listing::DirectoryListing;
use hakobu_core::path::{EntryPath, lossy};

use super::options::RsyncPurpose;
use super::output::{ItemizedEntry, RsyncMessage};
use super::remote::as_directory;
use super::remote_rsync::{RemoteAccess, RsyncOrder};
use hakobu_core::prompts::Prompts;

/// A path that does not exist and cannot be created: the target of an rsync that only lists.
pub(super) const NOWHERE: &str = "/proc/self/none/";

/// Lists a remote tree, entry by entry; the tree itself is the root. Returns what could not be listed, with its path.
///
/// # Errors
/// The errors of [`RemoteAccess::run_patiently`], or it is unknown which part of the tree is missing.
pub(super) fn list_far(
    way: &RemoteAccess<'_>,
    tree: &[u8],
    prompts: &mut dyn Prompts,
    each: &mut dyn FnMut(ItemizedEntry),
) -> Result<Vec<(Vec<u8>, Error)>> {
    let order = RsyncOrder {
        from: way.remote.argument(&as_directory(tree)),
        to: OsString::from(NOWHERE),
        names: None,
    };
    let mut unread = None;
    let failures = way.run_patiently(RsyncPurpose::List, &order, prompts, &mut |said| match said {
        RsyncMessage::Item(item) => each(item),
        RsyncMessage::Unread(line) => drop(unread.get_or_insert(line)),
        _ => {}
    })?;
    if let Some(line) = unread {
        return Err(cannot_be_read(&line));
    }
    match failures.iter().find(|(path, _)| path.is_empty()) {
        Some((_, error)) => Err(Error { during: "listing the tree".into(), ..error.clone() }),
        None => Ok(failures),
    }
}

/// Returns the error for an entry whose line cannot be parsed.
pub(super) fn cannot_be_read(line: &[u8]) -> Error {
    let words = format!("a line of rsync's list cannot be read: {}", lossy(line));
    Error::new(ErrorKind::Protocol, "listing the tree", words)
}

/// Lists one local directory.
pub(super) fn list(
    lane: &mut impl SourceLane,
    directory: &EntryPath,
    extended: Classes,
) -> Result<DirectoryListing> {
    let directories = vec![directory.clone()];
    let operation =
        SourceOp::List { root: 0, directories, budget: 0, detail: Detail { extended, ..Detail::default() } };
    let full = || Error::new(ErrorKind::Io, "listing the directory", "the lane is full");
    lane.submit(0, operation).map_err(|_| full())?;
    match lane.reap(CompletionWait::Forever).map(|completion| completion.result) {
        Some(Ok(SourceOutcome::Listed(mut listings))) if listings.len() == 1 => {
            listings.pop().ok_or_else(full)
        }
        Some(Err(error)) => Err(error),
        _ => Err(full()),
    }
}

/// Returns the path of an entry of the tree, relative to the directory that is copied from.
pub(super) fn below_of(prefix: &EntryPath, below: &EntryPath) -> Result<EntryPath> {
    match (prefix.is_root(), below.is_root()) {
        (true, _) => Ok(below.clone()),
        (_, true) => Ok(prefix.clone()),
        _ => EntryPath::new([prefix.as_bytes(), b"/", below.as_bytes()].concat()),
    }
}

/// Returns a path relative to the tree that it is in.
pub(super) fn without(path: &EntryPath, tree: &EntryPath) -> Result<EntryPath> {
    if tree.is_root() {
        return Ok(path.clone());
    }
    let below = path.as_bytes().strip_prefix(tree.as_bytes()).unwrap_or_default();
    EntryPath::new(below.strip_prefix(b"/").unwrap_or(below))
}
