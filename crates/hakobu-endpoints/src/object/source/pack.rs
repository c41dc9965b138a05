//! Reads small objects of one directory into a pack, all of them at the same time.

use futures_util::future::join_all;
use hakobu_core::content::content_sum;
use hakobu_core::endpoint::{FetchedPack, Picks};
use hakobu_core::entry::EntryKind;
use hakobu_core::extended::ExtendedAsk;
use hakobu_core::losses::Losses;
use hakobu_core::pack::{
    PACK_BYTES_MAX, PACK_BYTES_USUAL, PACKED_FILE_BYTES_MAX, PackBuilder, RecordHead, check_link_text,
};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use crate::local::errno::{changed, place};
use crate::object::attributes::{AskedAttributes, AttributeReader};
use crate::object::capabilities::listed_attributes;
use crate::object::small_object::{SmallObject, picked, read_small};

/// The maximum size of a record in bytes with its name, but without content.
const HEAD_BYTES_MAX: u64 = 300;

/// Reads the picked entries from index `from` on, as many as fit into a pack. Entries that cannot be read are added to
/// the failures. Each is read as it is now, with the attributes that come with the content.
pub(super) async fn read_pack(
    reader: AttributeReader<'_>,
    (directory, target): (&EntryPath, &EntryPath),
    (picks, from): (&Picks, u32),
    ask: ExtendedAsk,
    buffer: Vec<u8>,
) -> FetchedPack {
    let mut losses = Losses::default();
    let mut fetched = FetchedPack { until: until(picks, from), ..FetchedPack::default() };
    let mut pack = PackBuilder::new(buffer);
    pack.directory(target);
    let entries = (from..fetched.until).map(|index| {
        let listed_bytes = picked(picks, index).map_or(0, |(_, listed)| listed.size_bytes);
        entry(reader, directory, (picks, index), (listed_bytes.min(PACKED_FILE_BYTES_MAX), ask))
    });
    for (index, read) in (from..fetched.until).zip(join_all(entries).await) {
        let read = match read {
            // Those that have grown are read one after another, so that what is held at a time stays bounded.
            Err(error) if error.kind == ErrorKind::SourceChanged => {
                entry(reader, directory, (picks, index), (PACKED_FILE_BYTES_MAX, ask)).await
            }
            read => read,
        };
        let bytes = read.as_ref().map_or(0, |(object, asked)| {
            object.bytes.len() + asked.kept.as_ref().map_or(0, |kept| kept.as_bytes().len())
        });
        if pack.records() > 0 && pack.bytes() + HEAD_BYTES_MAX as usize + bytes > PACK_BYTES_MAX {
            fetched.until = index;
            break;
        }
        let name = || picked(picks, index).map(|(name, _)| name).unwrap_or_default();
        let packed = read.and_then(|read| {
            let content_bytes = put(&mut pack, picks, index, &read)?;
            Ok((content_bytes, read.0.entry.metadata, read.1.lost))
        });
        match packed {
            Ok((content_bytes, metadata, lost)) => {
                fetched.packed.push(index);
                fetched.linked.extend(metadata.inode.map(|_| (index, metadata)));
                fetched.content_bytes += content_bytes;
                losses.merge(&lost, false, || place(directory, name()));
            }
            Err(error) => fetched.failures.push((index, error.at(place(directory, name())))),
        }
    }
    let is_empty = pack.records() == 0;
    fetched.pack = pack.finish();
    if is_empty {
        fetched.pack.clear();
    }
    fetched.losses = losses.finish();
    fetched
}

/// Returns the index after the last entry that fits, according to the listing. The first entry always fits.
fn until(picks: &Picks, from: u32) -> u32 {
    let mut bytes = 0;
    for index in from..picks.entries.len() as u32 {
        bytes += HEAD_BYTES_MAX + picked(picks, index).map_or(0, |(_, listed)| listed.size_bytes);
        if bytes > PACK_BYTES_USUAL as u64 && index > from {
            return index;
        }
    }
    picks.entries.len() as u32
}

async fn entry(
    reader: AttributeReader<'_>,
    directory: &EntryPath,
    (picks, index): (&Picks, u32),
    (bytes_max, ask): (u64, ExtendedAsk),
) -> Result<(SmallObject, AskedAttributes)> {
    let (name, listed) = picked(picks, index)?;
    let key = reader.root.key(&directory.join(name)?)?;
    let object = read_small(reader.api, &key, bytes_max).await?;
    let (shown, now) = (listed_attributes(reader.api.limits()), &object.entry.metadata);
    // A link of which the listing shows everything is the listed one or none.
    let is_another_link = shown.kinds
        && listed.kind == EntryKind::Symlink
        && (listed.mtime, listed.ctime.seconds, listed.size_bytes)
            != (now.mtime, now.ctime.seconds, now.size_bytes);
    if !shown.may_be(listed.kind, now.kind) || is_another_link {
        return Err(changed("reading"));
    }
    let asked = reader.ask(&key, &object.entry.extended, ask).await?;
    Ok((object, asked))
}

/// Adds an entry to a pack. Returns the number of bytes of content.
fn put(
    pack: &mut PackBuilder,
    picks: &Picks,
    index: u32,
    (object, asked): &(SmallObject, AskedAttributes),
) -> Result<u64> {
    let (name, _) = picked(picks, index)?;
    let replaces = picks.entries.get(index as usize).is_some_and(|pick| pick.replaces);
    let name = picks.target_name.as_deref().unwrap_or(name);
    let mut attributes = object.entry.metadata.attributes();
    attributes.mode &= asked.mode_mask;
    let extended = asked.kept.as_ref().map(|kept| kept.as_ref().as_ref());
    let head = RecordHead { extended, ..RecordHead::new(name, attributes).replacing(replaces) };
    let bytes = &object.bytes;
    match object.entry.metadata.kind {
        EntryKind::File => {
            pack.whole_file(&head, bytes, content_sum(bytes));
            return Ok(bytes.len() as u64);
        }
        EntryKind::Symlink => {
            check_link_text(bytes)?;
            pack.symlink(&head, bytes);
        }
        _ if object.entry.lacks_number => {
            let words = "its metadata says that it is a device node, but not with which number";
            let error = Error::new(ErrorKind::Unsupported, "reading the metadata", words);
            return Err(error.hint("leave it out (--exclude)"));
        }
        kind @ (EntryKind::Fifo | EntryKind::BlockDevice | EntryKind::CharDevice) => {
            pack.special(&head, kind, object.entry.metadata.device);
        }
        EntryKind::Directory | EntryKind::Socket => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "reading",
                "the object says that it is none that has content",
            ));
        }
    }
    Ok(0)
}
