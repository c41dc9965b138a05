//! Trees for the tests to copy.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A pseudo-random number generator with a seed.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = self.0 ^ (self.0 >> 29);
        value.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (value >> 32)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 16) % limit.max(1) as u64) as usize
    }

    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Returns pseudo-random bytes.
pub fn content(numbers: &mut Numbers, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        bytes.extend_from_slice(&numbers.next().to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

pub fn write(path: &Path, numbers: &mut Numbers, size: usize) {
    let bytes = content(numbers, size);
    fs::write(path, bytes).unwrap();
}

/// Gives an entry attributes other than the defaults.
pub fn dress(path: &Path, numbers: &mut Numbers) {
    let kind = fs::symlink_metadata(path).unwrap().file_type();
    if rustix::process::geteuid().is_root() {
        lchown(path, Some(1000 + numbers.below(3) as u32), Some(2000 + numbers.below(3) as u32)).unwrap();
    }
    if !kind.is_symlink() {
        let modes = if kind.is_dir() {
            &[0o755, 0o700, 0o2775, 0o1777, 0o555][..]
        } else {
            &[0o644, 0o600, 0o755, 0o4755, 0o400, 0o000][..]
        };
        fs::set_permissions(path, fs::Permissions::from_mode(*numbers.one_of(modes))).unwrap();
    }
    stamp(path, 1_000_000_000 + numbers.below(500_000_000) as i64, numbers.below(1_000_000_000) as i64);
}

/// Sets the time of an entry.
pub fn stamp(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

pub fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

pub fn socket(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
}

/// Creates a comprehensive tree: files around all size limits, symbolic links, deep and wide directories, and two
/// entries that are not files.
pub fn everything(root: &Path, seed: u64) {
    let numbers = &mut Numbers(seed);
    let sizes = [
        0,
        1,
        4095,
        4097,
        256 * KIB - 1,
        256 * KIB,
        256 * KIB + 1,
        700 * KIB,
        4 * MIB,
        4 * MIB + 1,
        8 * MIB + 3,
        13 * MIB + 7,
    ];
    for (index, size) in sizes.into_iter().enumerate() {
        write(&root.join(format!("file-{index}")), numbers, size);
    }
    fs::create_dir(root.join("empty")).unwrap();
    let mut deep = root.to_path_buf();
    for level in 0..12 {
        deep.push(format!("level-{level}"));
        fs::create_dir(&deep).unwrap();
        write(&deep.join("file"), numbers, 10 * level);
    }
    fs::create_dir(root.join("wide")).unwrap();
    for index in 0..1500 {
        let size = numbers.below(900);
        write(&root.join(format!("wide/file-{index:04}")), numbers, size);
    }
    for index in 0..40 {
        let directory = root.join(format!("many/directory-{index}"));
        fs::create_dir_all(directory.join("inner/innermost")).unwrap();
        write(&directory.join("inner/innermost/file"), numbers, 100);
        if index % 8 == 0 {
            write(&directory.join("larger"), numbers, 300 * KIB);
        }
    }
    odd_ones(root);
    dress_all(root, numbers);
}

/// Creates a small tree with some entries of every kind.
pub fn small(root: &Path, seed: u64) {
    let numbers = &mut Numbers(seed);
    let sizes = [0, 1, 5000, 200 * KIB, 300 * KIB, 600 * KIB, 4 * MIB + 1, 9 * MIB];
    let mut directories = vec![root.to_path_buf()];
    for index in 0..10 {
        let directory = numbers.one_of(&directories).join(format!("directory-{index}"));
        fs::create_dir(&directory).unwrap();
        directories.push(directory);
    }
    let mut large = 0;
    for index in 0..45 {
        let mut size = *numbers.one_of(&sizes);
        large += usize::from(size > MIB);
        if large > 4 && size > MIB {
            size = 17;
        }
        let path = numbers.one_of(&directories).join(format!("file-{index}"));
        if index % 9 == 8 {
            symlink(format!("file-{}", index / 2), path).unwrap();
        } else {
            write(&path, numbers, size);
        }
    }
    odd_ones(root);
    dress_all(root, numbers);
}

/// Creates dangling and directory symbolic links, one out of the tree, names that are not UTF-8, a socket and a FIFO.
fn odd_ones(root: &Path) {
    use std::os::unix::ffi::OsStrExt;
    symlink("nowhere", root.join("link-to-nothing")).unwrap();
    symlink(".", root.join("link-to-directory")).unwrap();
    symlink("/etc/hostname", root.join("link-far-away")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"odd \xff\n name");
    fs::create_dir(root.join(odd)).unwrap();
    fs::write(root.join(odd).join("file"), "odd").unwrap();
    socket(&root.join("socket"));
    fifo(&root.join("fifo"));
}

/// Sets attributes on everything below a directory, and finally on the directory itself.
pub fn dress_all(path: &Path, numbers: &mut Numbers) {
    if fs::symlink_metadata(path).unwrap().is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| dress_all(entry, numbers));
    }
    dress(path, numbers);
}
