//! The folder of the results, and their digests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::tarball::ArchiveFile;

/// The file with the digests of all others, as `sha256sum --check` reads it.
const SUMS: &str = "SHA256SUMS";

/// The folder of the results, with the digests of the added files.
#[derive(Debug)]
pub(super) struct DistResults {
    directory: PathBuf,
    /// Digests by file name.
    digests: BTreeMap<String, String>,
}

impl DistResults {
    /// Opens the folder, and creates it if it does not exist.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
        Ok(Self { directory: directory.to_owned(), digests: BTreeMap::new() })
    }

    /// Writes a file, prints its name, and returns its path. The file appears at once, because a running hakobu may
    /// be uploading the old one.
    pub(super) fn add(&mut self, name: &str, data: &[u8], mode: u32) -> Result<PathBuf> {
        let path = self.directory.join(name);
        let digest = sha256(data);
        write(&path, data, mode)?;
        println!("{}: {} bytes, sha256 {digest}", path.display(), data.len());
        self.digests.insert(name.to_owned(), digest);
        Ok(path)
    }

    /// Writes the digest of a file that was added beside it, in a file of its own.
    pub(super) fn add_digest(&self, name: &str) -> Result<()> {
        let digest = self.digests.get(name).with_context(|| format!("{name} was not added"))?;
        write(&self.directory.join(format!("{name}.sha256")), line(name, digest).as_bytes(), 0o644)
    }

    /// Replaces a folder. It has no digest, because nobody downloads a folder.
    pub(super) fn add_directory(&self, name: &str, files: &[ArchiveFile]) -> Result<()> {
        let top = self.directory.join(name);
        if top.exists() {
            fs::remove_dir_all(&top).with_context(|| format!("removing the old {}", top.display()))?;
        }
        for file in files {
            let path = top.join(&file.path);
            let parent = path.parent().unwrap_or(&top);
            fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
            write(&path, &file.data, file.mode)?;
        }
        Ok(())
    }

    /// Writes the digests of all files that were added.
    pub(super) fn finish(self) -> Result<()> {
        let lines: String = self.digests.iter().map(|(name, digest)| line(name, digest)).collect();
        write(&self.directory.join(SUMS), lines.as_bytes(), 0o644)
    }
}

/// Returns the SHA-256 of the data in hexadecimal.
pub(super) fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a line in the format of `sha256sum`.
fn line(name: &str, digest: &str) -> String {
    format!("{digest}  {name}\n")
}

/// Writes a file under another name and renames it when it is complete.
fn write(path: &Path, data: &[u8], mode: u32) -> Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let written = fs::write(&fresh, data)
        .and_then(|()| fs::set_permissions(&fresh, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&fresh, path));
    written.with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_as_sha256sum_reads_them() {
        let place = tempfile::tempdir().unwrap();
        let mut results = DistResults::open(place.path()).unwrap();
        results.add("b", b"abc", 0o644).unwrap();
        let path = results.add("a", b"", 0o755).unwrap();
        results.add_digest("a").unwrap();
        assert!(results.add_digest("c").is_err());
        results.finish().unwrap();
        let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n";
        assert_eq!(read(SUMS), format!("{empty}{abc}"));
        assert_eq!(read("a.sha256"), empty);
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 4, "nothing but the results is left");
    }

    #[test]
    fn a_folder_is_written_anew() {
        let place = tempfile::tempdir().unwrap();
        let results = DistResults::open(place.path()).unwrap();
        let file = |path: &str| ArchiveFile { path: path.to_owned(), mode: 0o644, data: b"x".to_vec() };
        results.add_directory("image", &[file("blobs/old")]).unwrap();
        results.add_directory("image", &[file("blobs/new"), file("top")]).unwrap();
        let there =
            ["blobs/old", "blobs/new", "top"].map(|name| place.path().join("image").join(name).exists());
        assert_eq!(there, [false, true, true]);
    }
}
