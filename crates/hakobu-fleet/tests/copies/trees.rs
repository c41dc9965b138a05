//! Trees to copy, and their comparison, hard links included.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use hakobu_testkit::tree_difference::compare;

/// Returns the paths of a folder and of everything below it, sorted.
pub fn paths(root: &Path) -> Vec<PathBuf> {
    let (mut waiting, mut found) = (vec![root.to_owned()], vec![root.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Returns the first name of the inode of each entry that is no directory.
fn first_names(root: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let (mut found, mut inodes) = (BTreeMap::new(), BTreeMap::new());
    for path in paths(root) {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if !metadata.is_dir() {
            let name = path.strip_prefix(root).unwrap().to_owned();
            let first = inodes.entry(metadata.ino()).or_insert_with(|| name.clone()).clone();
            found.insert(name, first);
        }
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
    let mut differences = compare(source, target).unwrap();
    differences.truncate(10);
    assert!(differences.is_empty(), "{differences:#?}");
    let (source, target) = (first_names(source), first_names(target));
    let others: Vec<_> = source.iter().filter(|(name, first)| target.get(*name) != Some(*first)).collect();
    assert!(others.is_empty(), "names of other files: {:#?}", &others[..others.len().min(10)]);
}
