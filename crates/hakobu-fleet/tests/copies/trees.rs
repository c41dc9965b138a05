//! Trees to copy, and a comparison that shares no code with the program.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// An entry, with everything that a copy keeps.
#[derive(Debug, PartialEq, Eq)]
pub struct TreeEntry {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    content: Vec<u8>,
    /// The first name of its inode in the tree.
    first_name: Vec<u8>,
}

/// Returns all entries below a folder by their paths.
pub fn entries(root: &Path) -> BTreeMap<Vec<u8>, TreeEntry> {
    let (mut found, mut inodes) = (BTreeMap::new(), BTreeMap::new());
    let mut waiting = vec![root.to_owned()];
    let mut paths = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    paths.sort();
    for path in paths {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let kind = metadata.file_type();
        let content = match () {
            () if kind.is_file() => fs::read(&path).unwrap(),
            () if kind.is_symlink() => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
            () => Vec::new(),
        };
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let first_name = match kind.is_dir() {
            true => name.clone(),
            false => inodes.entry(metadata.ino()).or_insert_with(|| name.clone()).clone(),
        };
        let mtime = (metadata.mtime(), metadata.mtime_nsec());
        let owner = (metadata.uid(), metadata.gid());
        found.insert(name, TreeEntry { mode: metadata.mode(), owner, mtime, content, first_name });
    }
    found
}

/// Makes a tree with so many directories of so many files, links among them.
pub fn make(root: &Path, directories: usize, files: usize) {
    for directory in 0..directories {
        let folder = root.join(format!("d{}/e{directory}", directory % 7));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..files {
            let path = folder.join(format!("f{file}"));
            fs::write(&path, format!("{directory} {file} {}", "x".repeat(file * 97 % 5000))).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600 + file as u32 % 8)).unwrap();
        }
        symlink("f0", folder.join("link")).unwrap();
        // Names of one file, near and far.
        fs::hard_link(folder.join("f0"), folder.join("name")).unwrap();
        fs::hard_link(folder.join("f1"), root.join(format!("far{directory}"))).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
    }
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("odd \u{ff}\n"), "").unwrap();
}

/// Fails if two trees differ, naming the first differences.
pub fn assert_equal(source: &Path, target: &Path) {
    let (source, target) = (entries(source), entries(target));
    let lossy = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let mut differences = Vec::new();
    for (path, entry) in &source {
        match target.get(path) {
            Some(other) if other == entry => {}
            Some(other) if other.content != entry.content => {
                differences.push(format!("{}: content", lossy(path)));
            }
            Some(other) => differences.push(format!("{}: {other:?} instead of {entry:?}", lossy(path))),
            None => differences.push(format!("{}: missing", lossy(path))),
        }
    }
    differences.extend(
        target
            .keys()
            .filter(|path| !source.contains_key(*path))
            .map(|path| format!("{}: extra", lossy(path))),
    );
    differences.truncate(10);
    assert!(differences.is_empty(), "{differences:#?}");
}
