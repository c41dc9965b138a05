//! The source over a store, read by lanes.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::content::content_sum;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{
    Endpoint, FetchedPack, Pick, Picks, PieceBuffer, SourceEndpoint, SourceFile, SourceLane, SourceOp,
    SourceOutcome,
};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extent::Extent;
use hakobu_core::handle::SharedFile;
use hakobu_core::pack::{PACK_BYTES_USUAL, PACKED_FILE_BYTES_MAX, PackBuilder, RecordHead, check_link_text};
use hakobu_core::path::EntryPath;
use hakobu_core::requests::RequestCounts;
use hakobu_core::tag::{TagKey, Tagger, content_value};
use hakobu_core::{Error, ErrorKind, Result};

use super::listing::{list_all, portion};
use super::{EntryContent, ObjectPlace, StoredEntry, unsupported};
use crate::common::immediate::{AtOnce, ImmediateWork};
use crate::local::errno::{changed, place, vanished};

/// Stores that are read, each as a root.
#[derive(Clone)]
pub struct StoreSource {
    roots: Arc<[Arc<dyn ObjectPlace>]>,
    capabilities: Capabilities,
    /// The requests of the store before it was opened here.
    before: RequestCounts,
}

impl StoreSource {
    /// Opens a store for reading.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectPlace>) -> Self {
        Self::of(vec![store])
    }

    /// Opens several stores with the same capabilities.
    #[must_use]
    pub fn of(roots: Vec<Arc<dyn ObjectPlace>>) -> Self {
        let able = roots.first().map_or_else(|| Capabilities::posix(false), |root| root.capabilities());
        let capabilities = Capabilities { lists_in_order: true, ..able };
        // The roots are in one store.
        let before = roots.first().map_or_else(RequestCounts::default, |root| root.requests());
        Self { roots: roots.into(), capabilities, before }
    }
}

impl Endpoint for StoreSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn requests(&self) -> RequestCounts {
        self.roots.first().map_or_else(RequestCounts::default, |root| root.requests().since(&self.before))
    }
}

impl SourceEndpoint for StoreSource {
    fn open_source_lane(&self, _index: usize) -> Result<Box<dyn SourceLane>> {
        Ok(Box::new(AtOnce::new(StoreSourceReader { roots: Arc::clone(&self.roots) })))
    }
}

/// The state with which a lane of a source reads.
struct StoreSourceReader {
    roots: Arc<[Arc<dyn ObjectPlace>]>,
}

impl ImmediateWork for StoreSourceReader {
    type Op = SourceOp;

    fn perform(&mut self, operation: SourceOp) -> Option<Result<SourceOutcome>> {
        Some(self.answer(operation))
    }
}

impl StoreSourceReader {
    fn answer(&self, operation: SourceOp) -> Result<SourceOutcome> {
        match operation {
            SourceOp::Stat { root, path, detail: _ } => {
                Ok(SourceOutcome::Stat(self.root(root)?.inspect(&path)))
            }
            SourceOp::List { root, directories, budget, detail: _ } => {
                Ok(SourceOutcome::Listed(list_all(self.root(root)?, directories, budget, at_source)))
            }
            SourceOp::Page { root, directory, from, entries, detail: _ } => {
                let portion = portion(self.root(root)?, &directory, from, entries);
                portion.map(SourceOutcome::Page).map_err(at_source)
            }
            SourceOp::ReadPack { root, directory, target, picks, from, ask: _, buffer } => {
                let store = self.root(root)?;
                Ok(SourceOutcome::Pack(fetch(store, (&directory, &target), (&picks, from), buffer)))
            }
            SourceOp::Read { file, extent, buffer } => {
                self.read(&file, extent, buffer).map_err(|error| error.at(&file.path))
            }
            SourceOp::Revalidate { file, ask: _ } => {
                self.listed(&file).map_err(|error| error.at(&file.path))?;
                Ok(SourceOutcome::Extended { extended: None, losses: Vec::new() })
            }
            SourceOp::DigestPicks { root, directory, picks, key, .. } => {
                digests(self.root(root)?, &directory, &picks, key).map(SourceOutcome::Digests)
            }
            SourceOp::FindHole { extent, .. } => Ok(SourceOutcome::HoleUntil(extent.offset)),
            SourceOp::Open { .. } => Ok(SourceOutcome::Opened(SharedFile::new(()))),
            SourceOp::Extended { .. } => Ok(SourceOutcome::Extended { extended: None, losses: Vec::new() }),
            SourceOp::Names { accounts } => Ok(SourceOutcome::Names(vec![None; accounts.len()])),
            SourceOp::ReadStream { .. } => Err(unsupported("files are no streams")),
            SourceOp::OpenPicks { .. } => Err(unsupported("it copies no files by itself")),
        }
    }

    fn root(&self, root: u16) -> Result<&dyn ObjectPlace> {
        let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {root}"));
        self.roots.get(usize::from(root)).map(|root| &**root).ok_or_else(missing)
    }

    /// Returns a file, which must be the listed version.
    fn listed(&self, file: &SourceFile) -> Result<StoredEntry> {
        listed(self.root(file.root)?, &file.path, &file.metadata)
    }

    fn read(&self, file: &SourceFile, extent: Extent, mut buffer: PieceBuffer) -> Result<SourceOutcome> {
        let EntryContent::File(bytes) = self.listed(file)?.content else { return Err(changed("reading")) };
        let range = usize::try_from(extent.offset).ok().zip(usize::try_from(extent.end()).ok());
        let bytes = range.and_then(|(begin, end)| bytes.get(begin..end)).ok_or_else(|| changed("reading"))?;
        let Some(room) = buffer.room().get_mut(..bytes.len()) else {
            return Err(Error::new(ErrorKind::Usage, "reading", "an extent that is larger than a piece"));
        };
        room.copy_from_slice(bytes);
        buffer.set_read(extent.offset, bytes.len());
        Ok(SourceOutcome::Read(buffer))
    }
}

/// Returns an entry, which must be the listed version.
fn listed(store: &dyn ObjectPlace, path: &EntryPath, listed: &EntryMetadata) -> Result<StoredEntry> {
    let held = store.get(path).map_err(at_source)?;
    match store.capabilities().listed.same_version(listed, &held.metadata) {
        true => Ok(held),
        false => Err(changed("reading")),
    }
}

/// Reads entries from index `from` on, as many as fit into a pack.
fn fetch(
    store: &dyn ObjectPlace,
    (directory, target): (&EntryPath, &EntryPath),
    (picks, from): (&Picks, u32),
    buffer: Vec<u8>,
) -> FetchedPack {
    let mut fetched = FetchedPack { until: from, ..FetchedPack::default() };
    let mut pack = PackBuilder::new(buffer);
    pack.directory(target);
    for pick in picks.entries.iter().skip(from as usize) {
        match entry(store, directory, picks, pick) {
            Ok(held) => {
                let size_bytes = held.metadata.size_bytes as usize;
                if pack.records() > 0 && pack.bytes() + size_bytes + 512 > PACK_BYTES_USUAL {
                    break;
                }
                let name = picks.target_name.as_deref();
                let name = name.unwrap_or(picks.listing.name(pick.index as usize));
                fetched.content_bytes += put(&mut pack, name, pick, &held);
                fetched.packed.push(fetched.until);
            }
            Err(error) => fetched.failures.push((fetched.until, error)),
        }
        fetched.until += 1;
    }
    let is_empty = pack.records() == 0;
    fetched.pack = pack.finish();
    if is_empty {
        fetched.pack.clear();
    }
    fetched
}

/// Returns the current version of a small entry, unless it has become another kind of entry.
fn entry(store: &dyn ObjectPlace, directory: &EntryPath, picks: &Picks, pick: &Pick) -> Result<StoredEntry> {
    let (name, listed) = picked(picks, pick)?;
    let held = store.get(&directory.join(name)?).map_err(at_source);
    let held = held.map_err(|error| error.at(place(directory, name)))?;
    let now = &held.metadata;
    let shown = store.capabilities().listed;
    let is_same = match listed.kind {
        EntryKind::File => {
            shown.may_be(EntryKind::File, now.kind)
                && now.size_bytes <= PACKED_FILE_BYTES_MAX
                && (now.links, now.inode.is_some()) == (listed.links, listed.inode.is_some())
        }
        _ => shown.same_version(listed, now),
    };
    if !is_same {
        return Err(changed("reading").at(place(directory, name)));
    }
    if let EntryContent::Symlink(text) = &held.content {
        check_link_text(text).map_err(|error| error.at(place(directory, name)))?;
    }
    Ok(held)
}

fn digests(
    store: &dyn ObjectPlace,
    directory: &EntryPath,
    picks: &Picks,
    key: Option<TagKey>,
) -> Result<Vec<Result<Digest>>> {
    let tagger = key.map(Tagger::new).transpose()?;
    let digest = |pick: &Pick| {
        let (name, metadata) = picked(picks, pick)?;
        let held = listed(store, &directory.join(name)?, metadata);
        let held = held.map_err(|error| error.at(place(directory, name)))?;
        content_digest(&held.content, tagger.as_ref())
    };
    Ok(picks.entries.iter().map(digest).collect())
}

/// Returns the digest of a small file or of the text of a symbolic link, or its tag.
pub(crate) fn content_digest(content: &EntryContent, tagger: Option<&Tagger>) -> Result<Digest> {
    match content {
        EntryContent::File(bytes) | EntryContent::Symlink(bytes) => content_value(bytes, tagger),
        EntryContent::Special(..) => Err(unsupported("there is no content in it")),
    }
}

/// Adds an entry to a pack. Returns the number of bytes of content.
fn put(pack: &mut PackBuilder, name: &[u8], pick: &Pick, held: &StoredEntry) -> u64 {
    let head = RecordHead::new(name, held.metadata.attributes()).replacing(pick.replaces);
    match &held.content {
        EntryContent::File(bytes) => {
            pack.whole_file(&head, bytes, content_sum(bytes));
            bytes.len() as u64
        }
        EntryContent::Symlink(text) => {
            pack.symlink(&head, text);
            0
        }
        EntryContent::Special(kind, device) => {
            pack.special(&head, *kind, *device);
            0
        }
    }
}

/// Returns the name and the metadata of a picked entry.
fn picked<'a>(picks: &'a Picks, pick: &Pick) -> Result<(&'a [u8], &'a EntryMetadata)> {
    let index = Some(pick.index as usize).filter(|index| *index < picks.listing.len());
    let missing = || Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing");
    index.map(|index| (picks.listing.name(index), picks.listing.metadata(index))).ok_or_else(missing)
}

/// Converts an error for an entry that was listed.
fn at_source(error: Error) -> Error {
    match error.kind {
        ErrorKind::NotFound => vanished("reading"),
        ErrorKind::Conflict => changed("reading"),
        _ => error,
    }
}
