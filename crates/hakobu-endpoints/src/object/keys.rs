//! The place of a tree in a bucket: which key an entry has.

use hakobu_core::entry::EntryKind;
use hakobu_core::key_spelling::KeySpelling;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::api::ObjectPage;
use super::metadata::sidecar::SidecarName;

/// A directory of a bucket that paths are relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRoot {
    /// The beginning of all keys below it: empty for the whole bucket, or with a slash at the end.
    prefix: String,
    spelling: KeySpelling,
}

impl KeyRoot {
    /// Returns the root at a path of the bucket. Its names are spelled like those below it.
    ///
    /// # Errors
    /// `Unsupported` if its key would be too long.
    pub(crate) fn new(path: &EntryPath, spelling: KeySpelling) -> Result<Self> {
        Ok(Self { prefix: spelling.key("", path, EntryKind::Directory)?, spelling })
    }

    /// Returns what all keys below it begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the key of an entry that is not a directory. For the root itself, it is that of an object in its place.
    ///
    /// # Errors
    /// `Unsupported` if the key would be too long.
    pub(crate) fn key(&self, path: &EntryPath) -> Result<String> {
        match path.is_root() {
            true => Ok(self.prefix.trim_end_matches('/').to_owned()),
            false => self.spelling.key(&self.prefix, path, EntryKind::File).map_err(|error| error.at(path)),
        }
    }

    /// Returns what the keys in a directory begin with. It is the key of the directory's own object, unless it is empty.
    ///
    /// # Errors
    /// `Unsupported` if the key would be too long.
    pub(crate) fn directory(&self, path: &EntryPath) -> Result<String> {
        match path.is_root() {
            true => Ok(self.prefix.clone()),
            false => {
                self.spelling.key(&self.prefix, path, EntryKind::Directory).map_err(|error| error.at(path))
            }
        }
    }

    /// Returns true if a key is that of the root as an object, or below it.
    pub(crate) fn contains(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) || key == self.prefix.trim_end_matches('/')
    }

    /// Returns true if a key is that of extended attributes that belong to the metadata of other objects.
    pub(crate) fn is_sidecar(&self, key: &str) -> bool {
        key.strip_prefix(&self.prefix).is_some_and(SidecarName::is_key)
    }

    /// Returns the path below a directory that a key stands for, with a slash at its end if the key has one.
    ///
    /// # Errors
    /// `Unsupported` if a name in it is no spelling of a name.
    pub(crate) fn read(&self, relative: &str) -> Result<Vec<u8>> {
        let mut path = Vec::with_capacity(relative.len());
        for (index, name) in relative.split('/').enumerate() {
            if index > 0 {
                path.push(b'/');
            }
            // An impossible name is refused where it would be listed.
            if !matches!(name, "" | "." | "..") {
                path.extend_from_slice(&self.spelling.read(name)?);
            } else {
                path.extend_from_slice(name.as_bytes());
            }
        }
        Ok(path)
    }
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
            let words = "the store listed keys that were not asked for; see if something between here and there changes its answers";
            Err(Error::new(ErrorKind::Protocol, "listing", words))
        }
    }
}
