//! The folder of a control plane: its key file, and its ledger unless that is in a database.

use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind, Result};

use crate::key_file::SealingKeys;

/// The operation that errors name.
const OPENING: &str = "opening the folder of the control plane";

/// The folder of a control plane.
#[derive(Clone, Debug)]
pub struct DataFolder(PathBuf);

impl DataFolder {
    /// Opens the folder, or makes it, for its owner alone.
    ///
    /// # Errors
    /// `Refused` if others may write to it, and those of the file system.
    pub fn open(path: &Path) -> Result<Self> {
        let at = |error: Error| error.at(path.as_os_str().as_bytes());
        let io = |error: std::io::Error| at(Error::io(OPENING, &error));
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
        let mode = std::fs::metadata(path).map_err(io)?.mode();
        if mode & 0o022 != 0 {
            let words = format!("other users may write to it (mode {:o})", mode & 0o777);
            return Err(at(Error::new(ErrorKind::Refused, OPENING, words))
                .hint("take the right away with chmod go-w FOLDER"));
        }
        Ok(Self(path.to_owned()))
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the key file.
    pub fn key_file(&self) -> PathBuf {
        self.0.join("key")
    }

    /// Returns the folder of files that secrets may be read from.
    pub fn secrets(&self) -> PathBuf {
        self.0.join("secrets")
    }

    /// Reads the keys, or makes them.
    ///
    /// # Errors
    /// Those of [`SealingKeys::load_or_create`].
    pub fn keys(&self) -> Result<SealingKeys> {
        SealingKeys::load_or_create(&self.key_file())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_is_made_for_its_owner_and_refused_if_others_write() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("a/b");
        let folder = DataFolder::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        folder.keys().unwrap();
        assert!(folder.key_file().exists());
        set_permissions(&path, Permissions::from_mode(0o770)).unwrap();
        assert_eq!(DataFolder::open(&path).unwrap_err().kind, ErrorKind::Refused);
    }
}
