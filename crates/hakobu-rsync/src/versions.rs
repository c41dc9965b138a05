//! Detects local files that changed while rsync read them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hakobu_core::path::EntryPath;

/// The attributes that distinguish versions of a file: size, times of the last changes, inode.
pub(super) type FileVersion = (u64, i64, i64, i64, i64, u64);

/// Returns the versions of files below a directory. A file that cannot be examined has none.
pub(super) fn of<'a>(
    root: &[u8],
    paths: impl Iterator<Item = &'a EntryPath>,
) -> HashMap<EntryPath, FileVersion> {
    let root = Path::new(OsStr::from_bytes(root));
    let look = |path: &EntryPath| {
        let found = std::fs::symlink_metadata(root.join(OsStr::from_bytes(path.as_bytes()))).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        let version = (found.size(), found.mtime(), found.mtime_nsec(), changed.0, changed.1, found.ino());
        Some((path.clone(), version))
    };
    paths.filter_map(look).collect()
}

/// Returns the files that have changed. rsync itself reports those that have vanished.
pub(super) fn changed<'a>(
    before: &'a HashMap<EntryPath, FileVersion>,
    after: &'a HashMap<EntryPath, FileVersion>,
) -> impl Iterator<Item = &'a EntryPath> {
    before
        .iter()
        .filter(|(path, version)| after.get(*path).is_some_and(|now| now != *version))
        .map(|(path, _)| path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_file_that_was_written_to_is_found() {
        let place = tempfile::tempdir().unwrap();
        let names = ["a", "b"].map(|name| EntryPath::new(name).unwrap());
        for name in ["a", "b"] {
            std::fs::write(place.path().join(name), name).unwrap();
        }
        let root = place.path().as_os_str().as_bytes();
        let before = of(root, names.iter());
        std::fs::write(place.path().join("b"), "more").unwrap();
        let after = of(root, names.iter());
        assert_eq!(changed(&before, &after).collect::<Vec<_>>(), [&names[1]]);
    }
}
