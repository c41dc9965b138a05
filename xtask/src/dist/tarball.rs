//! Archives whose bytes depend only on their files: sorted, owned by root, all with the same time.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

/// A file that goes into an archive or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchiveFile {
    /// Its path below the top, such as `usr/bin/hakobu`.
    pub path: String,
    /// The permission bits.
    pub mode: u32,
    pub data: Vec<u8>,
}

/// Returns a tar archive of the files below `top` (`""`, or a path that ends in a slash), folders before what is in them.
///
/// # Errors
/// A path is longer than the 100 bytes that every tar supports.
pub(super) fn tar(files: &[ArchiveFile], top: &str, epoch: u64) -> Result<Vec<u8>> {
    let mut entries = BTreeMap::new();
    for file in files {
        let path = format!("{top}{}", file.path);
        for (slash, _) in path.match_indices('/') {
            entries.insert(path[..=slash].to_owned(), None);
        }
        entries.insert(path, Some(file));
    }
    let mut archive = tar::Builder::new(Vec::new());
    for (path, file) in entries {
        append(&mut archive, &path, file, epoch).with_context(|| format!("adding {path} to an archive"))?;
    }
    archive.into_inner().context("closing an archive")
}

fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &str,
    file: Option<&ArchiveFile>,
    epoch: u64,
) -> Result<()> {
    let (kind, mode, data) = match file {
        Some(file) => (tar::EntryType::Regular, file.mode, file.data.as_slice()),
        None => (tar::EntryType::Directory, 0o755, &[][..]),
    };
    let mut header = tar::Header::new_ustar();
    // `set_path` would remove the `./` that Debian's tools expect.
    let name = header.as_old_mut().name.get_mut(..path.len()).context("the path is too long")?;
    name.copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    header.set_mtime(epoch);
    header.set_size(data.len() as u64);
    header.set_cksum();
    Ok(archive.append(&header, data)?)
}

/// Returns the data packed by gzip, as small as it gets, with neither name nor time in the header.
pub(super) fn gzip(data: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).context("compressing")?;
    encoder.finish().context("compressing")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn file(path: &str, mode: u32, data: &str) -> ArchiveFile {
        ArchiveFile { path: path.to_owned(), mode, data: data.as_bytes().to_vec() }
    }

    #[test]
    fn folders_come_first_and_everything_is_roots_and_of_one_time() {
        let files = [file("usr/share/b", 0o644, "text"), file("usr/bin/a", 0o755, "program")];
        let archive = tar(&files, "./", 1234).unwrap();
        let mut seen = Vec::new();
        for entry in tar::Archive::new(archive.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 1234));
            let mut data = String::new();
            entry.read_to_string(&mut data).unwrap();
            seen.push((path, header.mode().unwrap(), data));
        }
        let expected = [
            ("./", 0o755, ""),
            ("./usr/", 0o755, ""),
            ("./usr/bin/", 0o755, ""),
            ("./usr/bin/a", 0o755, "program"),
            ("./usr/share/", 0o755, ""),
            ("./usr/share/b", 0o644, "text"),
        ];
        assert_eq!(seen, expected.map(|(path, mode, data)| (path.to_owned(), mode, data.to_owned())));
    }

    #[test]
    fn the_order_of_the_files_changes_nothing() {
        let files = [file("a", 0o644, "1"), file("b/c", 0o644, "2")];
        let turned = [files[1].clone(), files[0].clone()];
        assert_eq!(tar(&files, "top/", 1).unwrap(), tar(&turned, "top/", 1).unwrap());
    }

    #[test]
    fn paths_that_old_tars_cannot_read_are_refused() {
        tar(&[file(&"x".repeat(100), 0o644, "")], "", 1).unwrap();
        assert!(tar(&[file(&"x".repeat(101), 0o644, "")], "", 1).is_err());
    }

    #[test]
    fn gzip_has_neither_time_nor_name() {
        let packed = gzip(b"text").unwrap();
        // Flags and time: all nil.
        assert_eq!(packed[3..8], [0; 5]);
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }
}
