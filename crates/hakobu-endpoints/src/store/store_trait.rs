//! The operations of a store. Each call is atomic to observers.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata};
use hakobu_core::grant::Grant;
use hakobu_core::listing::{DirectoryListing, Listing};
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::requests::RequestCounts;
use hakobu_core::{Error, ErrorKind, Result};

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryContent {
    /// The bytes of a file.
    File(Arc<[u8]>),
    /// The text of a symbolic link.
    Symlink(Arc<[u8]>),
    /// A named pipe or a device node, with the device's number.
    Special(EntryKind, u32),
}

/// An entry with its content.
#[derive(Clone, Debug)]
pub struct StoredEntry {
    /// The metadata.
    pub metadata: EntryMetadata,
    /// The content.
    pub content: EntryContent,
}

/// The position of a listing: after the entry of this name, which ends in a slash for a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position(pub(crate) Vec<u8>);

/// Some entries of a directory, in the order of [`Listing`].
#[derive(Debug)]
pub struct StorePage {
    /// The entries.
    pub listing: Listing,
    /// The position of the next page, if there may be one.
    pub next: Option<Position>,
    /// Complete listings of directories below it, if everything below a directory was listed at once.
    pub below: Vec<DirectoryListing>,
}

/// A place that holds entries, which are put as a whole. A large file is kept in memory until it is complete, so an
/// endpoint for files of any size has lanes of its own.
pub trait ObjectPlace: Send + Sync + 'static {
    /// Returns the capabilities of the store.
    fn capabilities(&self) -> Capabilities;

    /// Returns the requests that were sent so far by all who have opened the store, if they are counted.
    fn requests(&self) -> RequestCounts {
        RequestCounts::default()
    }

    /// Returns false if the store discards content. The content of large files is then not kept in memory until they
    /// are complete, and they are put without content.
    fn keeps(&self) -> bool {
        true
    }

    /// Returns the metadata of an entry, or `None` if it does not exist.
    fn inspect(&self, path: &EntryPath) -> Option<EntryMetadata>;

    /// Returns at most `most` entries of a directory after `after`. The root always is a directory. In a store without
    /// directories ([`Capabilities::directories`]), an empty directory does not exist.
    ///
    /// # Errors
    /// `NotFound`, or `Conflict` if the path leads to another kind of entry.
    fn page(&self, directory: &EntryPath, after: Option<&Position>, most: usize) -> Result<StorePage>;

    /// Returns such a page together with the listings of directories below, from at most `most` objects. Returns `None`
    /// if each directory must be listed separately. [`flat_page`](super::flat_page) assembles it.
    ///
    /// # Errors
    /// Those of [`ObjectPlace::page`].
    fn flat_page(
        &self,
        directory: &EntryPath,
        after: Option<&Position>,
        most: usize,
    ) -> Result<Option<StorePage>> {
        let _ = (directory, after, most);
        Ok(None)
    }

    /// Returns an entry that is not a directory.
    ///
    /// # Errors
    /// `NotFound`, or `Conflict` if it is a directory.
    fn get(&self, path: &EntryPath) -> Result<StoredEntry>;

    /// Puts a whole entry into its place and returns the losses. Missing parent directories are created.
    ///
    /// # Errors
    /// `Conflict` if an entry in the way must not be replaced, `Unsupported` for entries that the store cannot hold.
    fn put(
        &self,
        path: &EntryPath,
        content: EntryContent,
        attributes: &Attributes,
        grant: &Grant,
    ) -> Result<Vec<LossKind>>;

    /// Makes a change without content and returns the losses.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, or `Unsupported` for changes that the store cannot make.
    fn apply(&self, change: &Change, grant: &Grant) -> Result<Vec<LossKind>>;
}

pub(crate) fn missing(during: &'static str) -> Error {
    Error::new(ErrorKind::NotFound, during, "there is no such file or directory")
}

pub(crate) fn conflict(during: &'static str, words: &'static str) -> Error {
    Error::new(ErrorKind::Conflict, during, words)
}

pub(crate) fn unsupported(words: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, "working on a store", words)
}
