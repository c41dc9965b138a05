//! The tree writer: prepares the data of a case through a target with all rights.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::content::content_sum;
use hakobu_core::endpoint::{Change, TargetEndpoint, TargetLane};
use hakobu_core::entry::{Attributes, EntryKind};
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::pack::{PACK_RECORDS_MAX, PACKED_FILE_BYTES_MAX, PackBuilder, RecordHead};

use super::bench::*;

/// A target with a lane, with which a case prepares and changes a place. It panics on any error.
pub struct TreeWriter<'a> {
    bench: &'a Workplace<'a>,
    // Declared before the target, so that it is dropped first.
    lane: Box<dyn TargetLane>,
    _target: Box<dyn TargetEndpoint>,
}

/// Opens a tree writer.
pub fn writer<'a>(bench: &'a Workplace<'a>) -> TreeWriter<'a> {
    let target = bench.target();
    TreeWriter { bench, lane: lane(&*target), _target: target }
}

impl TreeWriter<'_> {
    /// Creates a file as a later version, replacing any file or symbolic link. Returns its attributes.
    pub fn file(&mut self, at: &str, content: &[u8]) -> Attributes {
        let attributes = self.bench.next_version(0o644);
        self.file_with(at, content, attributes);
        attributes
    }

    /// Creates a file with these attributes.
    pub fn file_with(&mut self, at: &str, content: &[u8], attributes: Attributes) {
        if content.len() as u64 <= PACKED_FILE_BYTES_MAX {
            let (mut pack, name) = pack_for(at);
            add_file(&mut pack, &name, &attributes, false, content);
            return store_all(&mut *self.lane, pack);
        }
        let size_bytes = content.len() as u64;
        begin(&mut *self.lane, 0, at, size_bytes).unwrap();
        for (index, piece) in content.chunks(PIECE_BYTES as usize).enumerate() {
            write(&mut *self.lane, 0, size_bytes, index as u64 * PIECE_BYTES, piece).unwrap();
        }
        finish(&mut *self.lane, 0, attributes).unwrap();
    }

    /// Creates many files with content in one directory.
    pub fn files(&mut self, directory: &str, files: &[(&[u8], &[u8])]) {
        for some in files.chunks(PACK_RECORDS_MAX as usize) {
            store_all(&mut *self.lane, pack(directory, some));
        }
    }

    /// Creates a file that is a single hole of `size_bytes`.
    pub fn hole(&mut self, at: &str, size_bytes: usize) {
        let (mut pack, name) = pack_for(at);
        let head = RecordHead { sparse: true, ..RecordHead::new(&name, self.bench.next_version(0o644)) };
        let zeros = vec![0; size_bytes];
        pack.whole_file(&head, &zeros, content_sum(&zeros));
        store_all(&mut *self.lane, pack);
    }

    /// Creates directories with the usual permissions, including missing parents. If directories are not separate
    /// entries, each gets a file `in`.
    pub fn directories<T: AsRef<[u8]>>(&mut self, all: impl IntoIterator<Item = T>) {
        if !self.bench.abilities.target.directories {
            for at in all {
                let mut pack = PackBuilder::default();
                pack.directory(&path(at));
                add_file(&mut pack, b"in", &self.bench.next_version(0o644), false, b"");
                store_all(&mut *self.lane, pack);
            }
            return;
        }
        let is_made_by_attributes = self.bench.abilities.implies_directories();
        let make = |at: T| match is_made_by_attributes {
            true => Change::Directory { path: path(at), attributes: attributes(0o755), extended: None },
            false => Change::MakeDirectory { path: path(at), mode: 0o755 },
        };
        self.apply(all.into_iter().map(make).collect());
    }

    /// Creates a symbolic link, replacing any file or symbolic link.
    pub fn symlink(&mut self, at: &str, text: &[u8]) -> Attributes {
        let attributes = self.bench.next_version(0o777);
        let (mut pack, name) = pack_for(at);
        pack.symlink(&RecordHead::new(&name, attributes), text);
        store_all(&mut *self.lane, pack);
        attributes
    }

    /// Creates a named pipe.
    pub fn pipe(&mut self, at: &str) -> Attributes {
        let attributes = self.bench.next_version(0o600);
        let (mut pack, name) = pack_for(at);
        pack.special(&RecordHead::new(&name, attributes), EntryKind::Fifo, 0);
        store_all(&mut *self.lane, pack);
        attributes
    }

    /// Creates a hard link to a file.
    pub fn hard_link(&mut self, at: &str, to: &str) {
        self.apply(vec![Change::Link { path: path(at), to: path(to), replaces: false }]);
    }

    /// Sets the attributes of a file or symbolic link.
    pub fn attributes(&mut self, at: &str, attributes: Attributes) {
        self.apply(vec![Change::Attributes { path: path(at), attributes, extended: None }]);
    }

    /// Sets the attributes of a directory.
    pub fn directory_attributes(&mut self, at: &str, attributes: Attributes) {
        self.apply(vec![Change::Directory { path: path(at), attributes, extended: None }]);
    }

    /// Removes files and symbolic links.
    pub fn remove(&mut self, all: &[&str]) {
        all.iter().for_each(|at| remove(&mut *self.lane, at, false, 0).unwrap());
    }

    /// Removes an empty directory.
    pub fn remove_directory(&mut self, at: &str) {
        remove(&mut *self.lane, at, true, 0).unwrap();
    }

    fn apply(&mut self, changes: Vec<Change>) {
        assert_eq!(apply(&mut *self.lane, changes).unwrap(), (Vec::new(), Vec::new()));
    }
}

/// Returns a pack for the parent directory of an entry, and the entry's name.
fn pack_for(at: &str) -> (PackBuilder, Vec<u8>) {
    let whole = path(at);
    let (parent, name) = whole.split_last().expect("an entry has a name");
    let mut pack = PackBuilder::default();
    pack.directory(&parent);
    (pack, name.to_vec())
}
