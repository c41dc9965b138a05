//! The operations `Inspect` and `Extended`: the description and the extended attributes of one entry.

use hakobu_core::Result;
use hakobu_core::endpoint::{Detail, SourceOutcome};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extended::{Extended, ExtendedAsk, ExtendedRef};
use hakobu_core::losses::{Loss, LossKind};
use hakobu_core::path::EntryPath;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::digests;
use super::errno::{fault, source_fault};
use super::extended::{AttributeOwner, ExtendedReader};
use super::losses::check_required;
use super::metadata;
use super::proc_path::proc_path;
use super::reader::RootReader;
use super::resolve_beneath::TreeRoot;

/// Reads the extended attributes of an entry of any kind.
pub(super) fn extended_of(
    reader: &RootReader,
    extended: &mut ExtendedReader,
    (root, path): (u16, &EntryPath),
    ask: ExtendedAsk,
) -> Result<SourceOutcome> {
    let flags = if ask.readable { digests::READ } else { OFlags::PATH };
    let opened = reader.root(root)?.open_beneath(path, flags);
    let opened = opened.map_err(|errno| source_fault("opening", errno))?;
    let mut lost = Vec::new();
    let found = extended.read(AttributeOwner::Proc(&proc_path(&opened)), ask, &mut lost)?.kept;
    check_required(&reader.require(), &lost)?;
    extended_outcome(found, lost, path)
}

/// Returns the outcome of reading extended attributes.
pub(crate) fn extended_outcome(
    found: Option<ExtendedRef<'_>>,
    lost: Vec<LossKind>,
    path: &EntryPath,
) -> Result<SourceOutcome> {
    let extended = found.map(|found| Extended::decode(found.as_bytes().to_vec())).transpose()?;
    let loss = |what| Loss { what, count: 1, at_target: false, example: path.as_bytes().to_vec() };
    Ok(SourceOutcome::Extended { extended, losses: lost.into_iter().map(loss).collect() })
}

/// Describes one entry that the user named. A block device gets the size of its content.
pub(super) fn inspect_content(
    reader: &RootReader,
    (root, path): (u16, &EntryPath),
    extended: (&mut ExtendedReader, Detail),
) -> Result<Option<EntryMetadata>> {
    let root = reader.root(root)?;
    let found = inspect(root, path, extended)?;
    let Some(metadata) = &found else { return Ok(found) };
    if metadata.kind != EntryKind::BlockDevice {
        return Ok(found);
    }
    reader.check_kind(metadata.kind).map_err(|error| error.at(path))?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let content = root.open_beneath(path, flags).and_then(metadata::of_content);
    let content = content.map_err(|errno| fault("opening the device", errno).at(path))?;
    // A device has no modification time. With the current time, its image never passes for the disk's later contents.
    let time = metadata::now();
    Ok(Some(EntryMetadata { mtime: time, ctime: time, ..content }))
}

/// Describes one entry. Returns `None` if it does not exist, or if the path leads through a non-directory.
pub(crate) fn inspect(
    root: &TreeRoot,
    path: &EntryPath,
    (extended, Detail { extended: keep, missed, .. }): (&mut ExtendedReader, Detail),
) -> Result<Option<EntryMetadata>> {
    let found = root.open_beneath(path, OFlags::PATH).and_then(|opened| {
        let mut found = metadata::of_path(&opened)?;
        if !(keep | missed).is_empty() {
            let place = proc_path(&opened);
            extended.mark(AttributeOwner::Proc(&place), keep, missed).put(&mut found);
        }
        Ok(found)
    });
    match found {
        Ok(metadata) => Ok(Some(metadata)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(fault("looking at", errno).at(path)),
    }
}
