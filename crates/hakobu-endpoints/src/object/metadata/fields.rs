//! The attributes that a convention expresses, and how they are looked up and collected.

use std::cell::Cell;

use hakobu_core::entry::{EntryKind, FileTime};

/// The attributes that the metadata of one convention states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MetadataFields {
    pub kind: Option<EntryKind>,
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mtime: Option<FileTime>,
    pub device: Option<u32>,
}

/// Looks up values by name, and counts those that are malformed.
#[derive(Debug)]
pub(super) struct MetadataReader<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    malformed: Cell<u32>,
}

impl<'a> MetadataReader<'a> {
    pub fn new(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self { pairs: pairs.into_iter().collect(), malformed: Cell::new(0) }
    }

    /// Returns the value of a name. Stores and tools change the case of names.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns a value as `parse` reads it, or `None` if it is missing or malformed.
    pub fn read<T>(&self, name: &str, parse: impl FnOnce(&'a str) -> Option<T>) -> Option<T> {
        let value = parse(self.get(name)?);
        if value.is_none() {
            self.count_malformed();
        }
        value
    }

    pub fn count_malformed(&self) {
        self.malformed.set(self.malformed.get().saturating_add(1));
    }

    pub fn malformed(&self) -> u32 {
        self.malformed.get()
    }
}

/// Collects names and values.
#[derive(Debug)]
pub(super) struct MetadataWriter {
    pub pairs: Vec<(String, String)>,
    /// The size as the store counts it, in bytes.
    pub size_bytes: usize,
    prefix_bytes: usize,
}

impl MetadataWriter {
    /// Creates an empty collection. `prefix` comes before each name in a request.
    pub fn new(prefix: &str) -> Self {
        Self { pairs: Vec::with_capacity(12), size_bytes: 0, prefix_bytes: prefix.len() }
    }

    pub fn push(&mut self, name: impl Into<String>, value: String) {
        let name = name.into();
        self.size_bytes += self.bytes_of(&name, value.len());
        self.pairs.push((name, value));
    }

    /// Returns the number of bytes that a name and its value add.
    pub fn bytes_of(&self, name: &str, value_bytes: usize) -> usize {
        self.prefix_bytes + name.len() + value_bytes
    }
}

/// Packs a device number: 12 bits major, 20 bits minor.
pub(super) fn packed_device(major: u64, minor: u64) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20).then_some((major << 20 | minor) as u32)
}

/// Splits a packed device number into major and minor.
pub(super) fn split_device(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}
