use super::*;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

/// Two equal trees. Tests make their changes in the right one.
struct Pair {
    _place: tempfile::TempDir,
    left: PathBuf,
    right: PathBuf,
}

impl Pair {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let (left, right) = (place.path().join("left"), place.path().join("right"));
        for root in [&left, &right] {
            for directory in ["d0000001", "d0000002"] {
                fs::create_dir_all(root.join(directory)).unwrap();
            }
            fs::write(root.join(FILE), vec![7; READ_BYTES + 100]).unwrap();
            symlink("f0000000", root.join(LINK)).unwrap();
            for path in [FILE, LINK, "d0000001", "d0000002", "."] {
                set_time(&root.join(path), 1_000_000_000, 5);
            }
        }
        let pair = Self { _place: place, left, right };
        assert_eq!(pair.differences(), []);
        pair
    }

    fn differences(&self) -> Vec<TreeDifference> {
        compare(&self.left, &self.right).unwrap()
    }

    /// Changes something below the right tree and restores the times.
    fn change(&self, path: &str, change: impl FnOnce(&Path)) -> Vec<EntryDifference> {
        let target = self.right.join(path);
        let kept: Vec<PathBuf> =
            [Path::new(path), Path::new(path).parent().unwrap()].map(Path::to_path_buf).to_vec();
        change(&target);
        for path in kept {
            let model = fs::symlink_metadata(self.left.join(&path)).unwrap();
            set_time(&self.right.join(&path), model.mtime(), model.mtime_nsec());
        }
        self.differences()
            .into_iter()
            .map(|difference| {
                assert_eq!(difference.path, Path::new(path));
                difference.what
            })
            .collect()
    }
}

fn set_time(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

const FILE: &str = "d0000001/f0000000";
const LINK: &str = "d0000001/l0000000";

#[test]
fn one_byte_behind_the_first_buffer() {
    let pair = Pair::new();
    let found = pair.change(FILE, |path| {
        let mut data = fs::read(path).unwrap();
        data[READ_BYTES + 7] ^= 0x80;
        fs::write(path, data).unwrap();
    });
    assert_eq!(found, [EntryDifference::Content(READ_BYTES as u64 + 7)]);
}

#[test]
fn size_and_mode() {
    let pair = Pair::new();
    let size = READ_BYTES as u64 + 100;
    let found = pair.change(FILE, |path| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(size - 1).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o4711)).unwrap();
    });
    assert_eq!(found.len(), 2);
    assert!(found.contains(&EntryDifference::Size(size, size - 1)));
    assert!(matches!(found[0], EntryDifference::Mode(_, 0o4711)));
}

#[test]
fn one_nanosecond_of_file_directory_and_link() {
    for path in [FILE, LINK, "d0000002", ""] {
        let pair = Pair::new();
        let model = fs::symlink_metadata(pair.left.join(path)).unwrap();
        let nanoseconds = (model.mtime_nsec() + 1) % 1_000_000_000;
        let target = match path {
            "" => pair.right.clone(),
            path => pair.right.join(path),
        };
        set_time(&target, model.mtime(), nanoseconds);
        let found = pair.differences();
        assert_eq!(found.len(), 1, "{path}");
        assert_eq!(found[0].path, Path::new(path));
        assert!(matches!(found[0].what, EntryDifference::ModificationTime(..)));
    }
}

#[test]
fn link_target_and_kind() {
    let pair = Pair::new();
    let found = pair.change(LINK, |path| {
        fs::remove_file(path).unwrap();
        symlink("elsewhere", path).unwrap();
    });
    assert!(matches!(&found[..], [EntryDifference::LinkTarget(_, new)] if new == Path::new("elsewhere")));
    let found = pair.change(LINK, |path| {
        fs::remove_file(path).unwrap();
        fs::write(path, "").unwrap();
    });
    assert_eq!(found, [EntryDifference::Kind("symbolic link", "file")]);
}

#[test]
fn names_on_one_side_only() {
    let pair = Pair::new();
    fs::create_dir(pair.left.join("d0000002/more")).unwrap();
    fs::write(pair.left.join("d0000002/more/below"), "").unwrap();
    fs::remove_file(pair.left.join(FILE)).unwrap();
    let mut found = pair.differences();
    found.retain(|difference| !matches!(difference.what, EntryDifference::ModificationTime(..)));
    let expected = [(FILE, EntryDifference::OnlyRight), ("d0000002/more", EntryDifference::OnlyLeft)]
        .map(|(path, what)| TreeDifference { path: path.into(), what });
    assert_eq!(found, expected);
}

#[test]
fn owner_and_group() {
    let pair = Pair::new();
    assert_eq!(fs::metadata(&pair.left).unwrap().uid(), 0, "changing owners takes root");
    for path in [FILE, LINK] {
        let found = pair.change(path, |path| lchown(path, Some(1234), Some(4321)).unwrap());
        assert_eq!(found, [EntryDifference::Uid(0, 1234), EntryDifference::Gid(0, 4321)]);
        lchown(pair.right.join(path), Some(0), Some(0)).unwrap();
    }
}

#[test]
fn links_at_the_root_are_not_followed() {
    let pair = Pair::new();
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    symlink(&pair.left, &one).unwrap();
    symlink(&pair.right, &two).unwrap();
    let found = compare(&one, &two).unwrap();
    assert!(found.iter().any(|difference| matches!(difference.what, EntryDifference::LinkTarget(..))));
}

#[test]
fn what_is_missing_is_an_error() {
    let pair = Pair::new();
    assert!(compare(&pair.left, &pair.right.join("absent")).is_err());
}

#[test]
fn a_difference_is_printed_without_raw_control_characters() {
    let difference = TreeDifference { path: "a\x1b[31m\nb".into(), what: EntryDifference::OnlyLeft };
    assert_eq!(difference.to_string(), r#""a\u{1b}[31m\nb": OnlyLeft"#);
}
