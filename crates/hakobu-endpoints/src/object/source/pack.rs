//! Reads small objects of one directory into a pack, all of them at the same time.

use futures_util::future::join_all;
use hakobu_core::content::content_sum;
use hakobu_core::endpoint::{FetchedPack, Picks};
use hakobu_core::entry::EntryKind;
use hakobu_core::pack::{
    PACK_BYTES_MAX, PACK_BYTES_USUAL, PACKED_FILE_BYTES_MAX, PackBuilder, RecordHead, check_link_text,
};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use crate::local::errno::{changed, place};
use crate::object::api::ObjectApi;
use crate::object::capabilities::listed_attributes;
use crate::object::keys::KeyRoot;
use crate::object::small_object::{SmallObject, picked, read_small};

/// The maximum size of a record in bytes with its name, but without content.
const HEAD_BYTES_MAX: u64 = 300;

/// Reads the picked entries from index `from` on, as many as fit into a pack. Entries that cannot be read are added to
/// the failures. Each is read as it is now, with the attributes that come with the content.
pub(super) async fn read_pack(
    api: &dyn ObjectApi,
    root: &KeyRoot,
    (directory, target): (&EntryPath, &EntryPath),
    (picks, from): (&Picks, u32),
    buffer: Vec<u8>,
) -> FetchedPack {
    let mut fetched = FetchedPack { until: until(picks, from), ..FetchedPack::default() };
    let mut pack = PackBuilder::new(buffer);
    pack.directory(target);
    let entries = (from..fetched.until).map(|index| {
        let listed_bytes = picked(picks, index).map_or(0, |(_, listed)| listed.size_bytes);
        entry(api, root, directory, (picks, index), listed_bytes.min(PACKED_FILE_BYTES_MAX))
    });
    for (index, read) in (from..fetched.until).zip(join_all(entries).await) {
        let read = match read {
            // Those that have grown are read one after another, so that what is held at a time stays bounded.
            Err(error) if error.kind == ErrorKind::SourceChanged => {
                entry(api, root, directory, (picks, index), PACKED_FILE_BYTES_MAX).await
            }
            read => read,
        };
        let bytes = read.as_ref().map_or(0, |object| object.bytes.len());
        if pack.records() > 0 && pack.bytes() + HEAD_BYTES_MAX as usize + bytes > PACK_BYTES_MAX {
            fetched.until = index;
            break;
        }
        match read.and_then(|object| put(&mut pack, picks, index, &object)) {
            Ok(content_bytes) => {
                fetched.packed.push(index);
                fetched.content_bytes += content_bytes;
            }
            Err(error) => {
                let name = picked(picks, index).map(|(name, _)| name).unwrap_or_default();
                fetched.failures.push((index, error.at(place(directory, name))));
            }
        }
    }
    let is_empty = pack.records() == 0;
    fetched.pack = pack.finish();
    if is_empty {
        fetched.pack.clear();
    }
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
    api: &dyn ObjectApi,
    root: &KeyRoot,
    directory: &EntryPath,
    (picks, index): (&Picks, u32),
    bytes_max: u64,
) -> Result<SmallObject> {
    let (name, listed) = picked(picks, index)?;
    let object = read_small(api, &root.key(&directory.join(name)?)?, bytes_max).await?;
    let (shown, now) = (listed_attributes(api.limits()), &object.entry.metadata);
    // A link is never accepted as another one, where the listing shows that it is a link.
    let is_link = shown.kinds && now.kind == EntryKind::Symlink;
    match shown.may_be(listed.kind, now.kind) && (!is_link || listed.ctime == now.ctime) {
        true => Ok(object),
        false => Err(changed("reading")),
    }
}

/// Adds an entry to a pack. Returns the number of bytes of content.
fn put(pack: &mut PackBuilder, picks: &Picks, index: u32, object: &SmallObject) -> Result<u64> {
    let (name, _) = picked(picks, index)?;
    let replaces = picks.entries.get(index as usize).is_some_and(|pick| pick.replaces);
    let name = picks.target_name.as_deref().unwrap_or(name);
    let head = RecordHead::new(name, object.entry.metadata.attributes()).replacing(replaces);
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
