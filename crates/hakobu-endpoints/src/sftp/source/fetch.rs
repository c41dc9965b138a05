//! The operation `Fetch`: reads small files, symbolic links and pipes of one directory into a pack, many at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use hakobu_core::endpoint::{FetchedPack, Picks};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::pack::{PACK_BYTES_USUAL, PACKED_FILE_BYTES_MAX, PackBuilder, RecordHead, check_link_text};
use hakobu_core::path::{EntryPath, PATH_BYTES_MAX};
use hakobu_core::{Error, ErrorKind, Result};

use crate::common::time_steps::TimeSteps;
use crate::local::errno::{changed, place};
use crate::sftp::read_file::{SmallFile, at_once, read_small};
use crate::sftp::requests::attrs;
use crate::sftp::sftp_root::SftpRoot;

/// The maximum size of a record in bytes with its name, but without content.
const HEAD_BYTES_MAX: usize = 300;
/// The maximum number of times that a changing file is read.
const LOOKS: u32 = 3;

/// The number of bytes by which all files of a pack together may still exceed their listed sizes. All data of a pack is
/// kept in memory, which a server that lists its files as empty could exhaust.
struct PackGrowth(AtomicU64);

impl PackGrowth {
    fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// The data that was read of an entry.
enum ReadEntry {
    File(SmallFile),
    Link(Vec<u8>),
    Pipe,
}

/// Reads the picked entries from index `from` on, as many as fit into a pack. Entries that cannot be read are added to
/// the failures; the rest is packed.
pub(super) async fn fetch(
    (sftp_root, steps): (&SftpRoot, &TimeSteps),
    (directory, target): (&EntryPath, &EntryPath),
    (picks, from): (&Picks, u32),
    buffer: Vec<u8>,
) -> FetchedPack {
    let mut fetched = FetchedPack { until: from, ..FetchedPack::default() };
    if let Err(error) = sftp_root.check_way(directory).await {
        fetched.until = picks.entries.len() as u32;
        fetched.failures = (from..fetched.until).map(|index| (index, error.clone())).collect();
        return fetched;
    }
    let mut pack = PackBuilder::new(buffer);
    pack.directory(target);
    fetched.until = until(picks, from, pack.bytes());
    let glance = sftp_root.glance(directory);
    let growth = PackGrowth(AtomicU64::new(PACK_BYTES_USUAL as u64));
    let entries =
        (from..fetched.until).map(|index| entry((sftp_root, steps), directory, (picks, index), &growth));
    let taken = at_once(entries).await;
    let glanced = sftp_root.glanced(directory, glance).await;
    for (index, taken) in (from..fetched.until).zip(taken) {
        let taken = glanced.clone().and(taken);
        let packed = taken.and_then(|(is, taken)| put(&mut pack, picks, index, &is, taken));
        match packed {
            Ok(content_bytes) => {
                fetched.packed.push(index);
                fetched.content_bytes += content_bytes;
            }
            Err(error) => {
                let pick = picks.entries.get(index as usize).map(|pick| pick.index as usize);
                let name =
                    pick.filter(|pick| *pick < picks.listing.len()).map(|pick| picks.listing.name(pick));
                fetched.failures.push((index, error.at(place(directory, name.unwrap_or_default()))));
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
fn until(picks: &Picks, from: u32, begun_bytes: usize) -> u32 {
    let mut bytes = begun_bytes;
    for index in from..picks.entries.len() as u32 {
        let listed = picks.entries.get(index as usize).map(|pick| pick.index as usize);
        let listed = listed.filter(|listed| *listed < picks.listing.len());
        bytes += HEAD_BYTES_MAX
            + listed.map_or(0, |listed| match picks.listing.metadata(listed).kind {
                EntryKind::File => {
                    picks.listing.metadata(listed).size_bytes.min(PACKED_FILE_BYTES_MAX) as usize
                }
                _ => PATH_BYTES_MAX,
            });
        if bytes > PACK_BYTES_USUAL && index > from {
            return index;
        }
    }
    picks.entries.len() as u32
}

async fn entry(
    (sftp_root, steps): (&SftpRoot, &TimeSteps),
    directory: &EntryPath,
    (picks, index): (&Picks, u32),
    growth: &PackGrowth,
) -> Result<(EntryMetadata, ReadEntry)> {
    let pick = picks.entries.get(index as usize).map(|pick| pick.index as usize);
    let Some(pick) = pick.filter(|pick| *pick < picks.listing.len()) else {
        return Err(Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing"));
    };
    let whole = sftp_root.in_directory(directory, picks.listing.name(pick));
    let listed = picks.listing.metadata(pick);
    match listed.kind {
        EntryKind::File => file((sftp_root, steps), &whole, listed, growth).await,
        EntryKind::Symlink => {
            link(sftp_root, &whole, listed).await.map(|text| (*listed, ReadEntry::Link(text)))
        }
        EntryKind::Fifo => Ok((*listed, ReadEntry::Pipe)),
        EntryKind::BlockDevice | EntryKind::CharDevice => {
            let words = "an sftp server does not tell which device it is";
            Err(Error::new(ErrorKind::Unsupported, "reading", words))
        }
        other => {
            let words = format!("{} does not go into a pack", other.words());
            Err(Error::new(ErrorKind::Usage, "reading", words))
        }
    }
}

/// Reads a file. If it differs from the listing, its current version is used, so that a busy tree can be copied. A file
/// that changes during each read is an error.
async fn file(
    (sftp_root, steps): (&SftpRoot, &TimeSteps),
    whole: &[u8],
    listed: &EntryMetadata,
    growth: &PackGrowth,
) -> Result<(EntryMetadata, ReadEntry)> {
    if listed.size_bytes > PACKED_FILE_BYTES_MAX {
        return Err(Error::new(ErrorKind::Usage, "reading", "a file that is too large for a pack"));
    }
    let (mut size_bytes, mut version) = (listed.size_bytes, *listed);
    for look in 1..=LOOKS {
        if look < LOOKS {
            steps.wait(&version);
        }
        let began = TimeSteps::moment();
        if let Some(mut small) = read_small(sftp_root, whole, size_bytes).await? {
            if !steps.may_repeat_at(&small.is, began) {
                return Ok((small.is, ReadEntry::File(small)));
            }
            if look == LOOKS {
                small.is.mtime = steps.never(small.is.mtime);
                return Ok((small.is, ReadEntry::File(small)));
            }
            version = small.is;
            continue;
        }
        let now = attrs(sftp_root.server.connection.look(whole)).await;
        let now = now.map_err(|refusal| sftp_root.error("looking at", refusal))?;
        match now.filter(|now| now.kind == EntryKind::File && now.size_bytes <= PACKED_FILE_BYTES_MAX) {
            Some(now) if growth.take(now.size_bytes.saturating_sub(size_bytes)) => {
                size_bytes = now.size_bytes;
            }
            _ => break,
        }
    }
    Err(changed("reading"))
}

async fn link(sftp_root: &SftpRoot, whole: &[u8], listed: &EntryMetadata) -> Result<Vec<u8>> {
    let connection = &sftp_root.server.connection;
    let during = "reading the link";
    let looked = connection.look(whole);
    let text = connection.read_link(whole).await;
    match attrs(looked).await.map_err(|refusal| sftp_root.error(during, refusal))? {
        Some(now) if listed.same_version(&now) => {}
        _ => return Err(changed(during)),
    }
    let text = text.map_err(|refusal| sftp_root.error(during, refusal))?;
    check_link_text(&text)?;
    Ok(text)
}

/// Adds an entry to the pack. Returns the number of bytes of content.
fn put(
    pack: &mut PackBuilder,
    picks: &Picks,
    index: u32,
    is: &EntryMetadata,
    taken: ReadEntry,
) -> Result<u64> {
    let pick = picks.entries.get(index as usize).copied().ok_or_else(|| changed("reading"))?;
    let name = picks.target_name.as_deref().unwrap_or_else(|| picks.listing.name(pick.index as usize));
    let head = RecordHead::new(name, is.attributes()).replacing(pick.replaces);
    match taken {
        ReadEntry::File(SmallFile { bytes, sum, .. }) => {
            // The file may have grown, or the listing may have reported a wrong size.
            if pack.bytes() + HEAD_BYTES_MAX + bytes.len() > PACK_BYTES_USUAL {
                return Err(changed("reading"));
            }
            pack.whole_file(&head, &bytes, sum);
            Ok(bytes.len() as u64)
        }
        ReadEntry::Link(text) => {
            pack.symlink(&head, &text);
            Ok(0)
        }
        ReadEntry::Pipe => {
            pack.special(&head, EntryKind::Fifo, 0);
            Ok(0)
        }
    }
}
