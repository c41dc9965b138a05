//! The tree reader: reads back the results of a case through a source.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hakobu_core::content::content_sum;
use hakobu_core::endpoint::{
    FetchedPack, Pick, Picks, PieceBuffer, SourceEndpoint, SourceFile, SourceLane, SourceOp, SourceOutcome,
};
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata};
use hakobu_core::extended::ExtendedAsk;
use hakobu_core::extent::{Extent, PIECE_BYTES};
use hakobu_core::listing::Listing;
use hakobu_core::pack::{PACKED_FILE_BYTES_MAX, PackContent, PackReader, PackRecord};

use super::abilities::HarnessCapabilities;
use super::bench::*;

/// A source with a lane, with which a case reads the content of a place. It panics on any error.
pub struct TreeReader<'a> {
    abilities: &'a HarnessCapabilities,
    // Declared before the source, so that it is dropped first.
    lane: Box<dyn SourceLane>,
    _source: Box<dyn SourceEndpoint>,
}

/// Opens a tree reader.
pub fn reader<'a>(bench: &'a Workplace<'_>) -> TreeReader<'a> {
    let source = bench.source();
    TreeReader { abilities: bench.abilities, lane: lane(&*source), _source: source }
}

/// Waits until a directory has exactly these names and no draft. The remote host may need a moment to clean up after
/// a connection that ended.
pub fn settles_to(bench: &Workplace<'_>, directory: &str, expected: &[&[u8]]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut seen = reader(bench);
        let (names, drafts) = (seen.names(directory), seen.listing(directory).drafts());
        if names == expected && drafts == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "left behind: {names:?} and {drafts} drafts");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl TreeReader<'_> {
    /// Returns the metadata of one entry.
    pub fn inspect(&mut self, at: &str) -> Option<EntryMetadata> {
        inspect(&mut *self.lane, at).unwrap()
    }

    /// Returns the metadata of one entry that must exist.
    pub fn metadata(&mut self, at: &str) -> EntryMetadata {
        self.inspect(at).unwrap_or_else(|| panic!("there is no {at:?}"))
    }

    /// Returns the kind of an entry that must exist.
    pub fn kind(&mut self, at: &str) -> EntryKind {
        self.metadata(at).kind
    }

    /// Lists one directory.
    pub fn listing(&mut self, directory: &str) -> Listing {
        let listing = list(&mut *self.lane, directory).unwrap();
        assert!(listing.is_sorted());
        listing
    }

    /// Returns the names in a directory, sorted.
    pub fn names(&mut self, directory: &str) -> Vec<Vec<u8>> {
        let mut names = names_of(&self.listing(directory));
        names.sort();
        names
    }

    /// Reads a whole file.
    pub fn content(&mut self, at: &str) -> Vec<u8> {
        let metadata = self.metadata(at);
        assert_eq!(metadata.kind, EntryKind::File, "{at}");
        match metadata.size_bytes {
            ..=PACKED_FILE_BYTES_MAX => self.one_packed(at, metadata),
            _ => self.pieces(at, metadata),
        }
    }

    /// Reads the target of a symbolic link.
    pub fn text(&mut self, at: &str) -> Vec<u8> {
        let metadata = self.metadata(at);
        assert_eq!(metadata.kind, EntryKind::Symlink, "{at}");
        self.one_packed(at, metadata)
    }

    /// Reads all small files and symbolic links of a directory. Returns content or link target by name.
    pub fn contents(&mut self, directory: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let listing = Arc::new(self.listing(directory));
        self.packed(directory, &listing)
    }

    /// Checks attributes, as far as they are kept.
    pub fn check(&mut self, at: &str, wanted: &Attributes) {
        let found = self.metadata(at);
        self.abilities.check(at, &found, wanted);
    }

    fn one_packed(&mut self, at: &str, metadata: EntryMetadata) -> Vec<u8> {
        let whole = path(at);
        let (parent, name) = whole.split_last().expect("an entry has a name");
        let mut listing = Listing::default();
        listing.push(name, metadata).unwrap();
        let directory = String::from_utf8(parent.as_bytes().to_vec()).unwrap();
        self.packed(&directory, &Arc::new(listing)).remove(name).expect("the entry was packed")
    }

    fn packed(&mut self, directory: &str, listing: &Arc<Listing>) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let is_packed = |index: &u32| listing.metadata(*index as usize).kind != EntryKind::Directory;
        let entries: Vec<_> = (0..listing.len() as u32)
            .filter(is_packed)
            .map(|index| Pick { index, replaces: false })
            .collect();
        let all = entries.len() as u32;
        let picks = Arc::new(Picks { listing: Arc::clone(listing), entries, target_name: None });
        let (mut from, mut found) = (0, BTreeMap::new());
        while from < all {
            let (directory, target, picks) = (path(directory), path(directory), Arc::clone(&picks));
            let (ask_for, buffer) = (ExtendedAsk::default(), Vec::new());
            let fetch = SourceOp::ReadPack { root: 0, directory, target, picks, from, ask: ask_for, buffer };
            let SourceOutcome::Pack(fetched) = ask(&mut *self.lane, fetch).unwrap() else {
                panic!("not the answer to a fetch")
            };
            assert!(fetched.failures.is_empty(), "{:?}", fetched.failures);
            assert!(fetched.until > from, "nothing was dealt with");
            from = fetched.until;
            decode(&fetched, &mut found);
        }
        found
    }

    fn pieces(&mut self, at: &str, metadata: EntryMetadata) -> Vec<u8> {
        let file = Arc::new(SourceFile { root: 0, path: path(at), metadata, tolerant: false });
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < metadata.size_bytes {
            let offset = bytes.len() as u64;
            let length = PIECE_BYTES.min(metadata.size_bytes - offset);
            let extent = Extent { offset, length };
            let read = SourceOp::Read { file: Arc::clone(&file), extent, buffer: PieceBuffer::default() };
            match ask(&mut *self.lane, read).unwrap() {
                SourceOutcome::Read(buffer) => bytes.extend_from_slice(buffer.filled()),
                SourceOutcome::Hole { .. } => bytes.resize((offset + length) as usize, 0),
                other => panic!("not the answer to a read: {other:?}"),
            }
            assert_eq!(bytes.len() as u64, offset + length, "the piece is whole");
        }
        bytes
    }
}

/// Returns the names of a listing, in its order.
pub fn names_of(listing: &Listing) -> Vec<Vec<u8>> {
    (0..listing.len()).map(|index| listing.name(index).to_vec()).collect()
}

fn decode(fetched: &FetchedPack, found: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut reader = PackReader::new(&fetched.pack);
    while let Some(record) = reader.read().unwrap() {
        let PackRecord::Entry(head, content) = record else { continue };
        let bytes = match content {
            PackContent::File(content) => {
                assert_eq!(content.sum, content_sum(content.bytes), "the sum of what was read");
                content.bytes.to_vec()
            }
            PackContent::Symlink(text) => text.to_vec(),
            PackContent::Special(kind, device) => format!("{kind:?} {device:#x}").into_bytes(),
        };
        assert!(found.insert(head.name.to_vec(), bytes).is_none(), "{:?} twice", head.name);
    }
}
