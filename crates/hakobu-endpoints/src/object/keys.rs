//! The place of a tree in a bucket: which key an entry has.

use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::api::ObjectPage;

/// A directory of a bucket that a path below it is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRoot {
    /// What all keys below it begin with: empty for the whole bucket, or with a slash at the end.
    prefix: String,
}

impl KeyRoot {
    /// Returns the root at a path of the bucket.
    ///
    /// # Errors
    /// `Unsupported` if no key can have that path.
    pub(crate) fn new(path: &EntryPath) -> Result<Self> {
        let whole = Self { prefix: String::new() };
        Ok(Self { prefix: whole.directory(path)? })
    }

    /// Returns the key of an entry that is not a directory.
    ///
    /// # Errors
    /// `Unsupported` if no key can have that path.
    pub(crate) fn key(&self, path: &EntryPath) -> Result<String> {
        let spelt = spell(path.as_bytes()).map_err(|error| error.at(path))?;
        Ok(format!("{}{spelt}", self.prefix))
    }

    /// Returns what the keys of a directory begin with. It is the key of the directory's own object, unless it is empty.
    ///
    /// # Errors
    /// `Unsupported` if no key can have that path.
    pub(crate) fn directory(&self, path: &EntryPath) -> Result<String> {
        match path.is_root() {
            true => Ok(self.prefix.clone()),
            false => Ok(format!("{}/", self.key(path)?)),
        }
    }
}

/// Returns the text of a path in keys.
fn spell(path: &[u8]) -> Result<&str> {
    std::str::from_utf8(path).map_err(|_| {
        Error::new(
            ErrorKind::Unsupported,
            "naming an object",
            "the name is not UTF-8, as keys are; rename it",
        )
    })
}

/// Checks that a page has nothing outside of what was asked for.
///
/// # Errors
/// `Protocol` if it has.
pub(crate) fn check_page(page: &ObjectPage, prefix: &str) -> Result<()> {
    let keys = page.objects.iter().map(|object| &object.key).chain(&page.prefixes);
    match keys.into_iter().all(|key| key.starts_with(prefix)) {
        true => Ok(()),
        false => {
            let words = "the store listed keys that were not asked for; it is no S3, or something between changes its answers";
            Err(Error::new(ErrorKind::Protocol, "listing", words))
        }
    }
}
