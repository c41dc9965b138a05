//! What a store does. Each call is one step that nobody sees half done.

use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, Kind, Metadata};
use hakobu_core::grant::Grant;
use hakobu_core::listing::{DirectoryListing, Listing};
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

/// What is in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes of a file.
    File(Arc<[u8]>),
    /// The text of a symbolic link.
    Symlink(Arc<[u8]>),
    /// A named pipe or a device node, with the device's number.
    Special(Kind, u32),
}

/// An entry with its content.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its description.
    pub metadata: Metadata,
    /// Its content.
    pub content: Content,
}

/// Where a listing goes on: behind the entry of this name, which ends with a slash if it is a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position(pub(crate) Vec<u8>);

/// Some entries of a directory, in the order of [`Listing`].
#[derive(Debug)]
pub struct Page {
    /// The entries.
    pub listing: Listing,
    /// Where the next page begins, if there may be one.
    pub next: Option<Position>,
    /// Complete listings of directories below it, where all below a directory was listed in one go.
    pub below: Vec<DirectoryListing>,
}

/// A place that holds entries. They are put whole: a large file is held in memory until all of it is there, so what has to take
/// any file has lanes of its own.
pub trait Store: Send + Sync + 'static {
    /// Returns what it can do.
    fn capabilities(&self) -> Capabilities;

    /// Returns false if content that is put into it is gone. Then the content of large files is not held until they are whole,
    /// and they are put with none.
    fn keeps(&self) -> bool {
        true
    }

    /// Returns the description of an entry; nothing if there is no such entry.
    fn inspect(&self, path: &EntryPath) -> Option<Metadata>;

    /// Returns the entries of a directory behind `after`, at most `most`. The root is a directory whatever is in the store; without
    /// directories ([`Capabilities::directories`]) what nothing is in is missing.
    ///
    /// # Errors
    /// `NotFound`, or `Conflict` where the path leads to something else.
    fn page(&self, directory: &EntryPath, after: Option<&Position>, most: usize) -> Result<Page>;

    /// Returns the same, and along with it what directories below hold, of at most `most` objects; nothing where each directory has to be
    /// listed by itself. [`flat_page`](super::flat_page) puts it together.
    ///
    /// # Errors
    /// Those of [`Store::page`].
    fn flat_page(
        &self,
        directory: &EntryPath,
        after: Option<&Position>,
        most: usize,
    ) -> Result<Option<Page>> {
        let _ = (directory, after, most);
        Ok(None)
    }

    /// Returns an entry that is no directory.
    ///
    /// # Errors
    /// `NotFound`, or `Conflict` where it is a directory.
    fn get(&self, path: &EntryPath) -> Result<Held>;

    /// Puts an entry into its place, whole, and returns what it lost by that. Missing directories above it are made.
    ///
    /// # Errors
    /// `Conflict` where something is in the way that may not go, `Unsupported` for what the store cannot hold.
    fn put(
        &self,
        path: &EntryPath,
        content: Content,
        attributes: &Attributes,
        grant: &Grant,
    ) -> Result<Vec<LossKind>>;

    /// Makes a change that carries no content, and returns what was lost by that.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, or `Unsupported` for what the store cannot do.
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
