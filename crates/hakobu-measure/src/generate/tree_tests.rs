use super::*;
use crate::generate::SizeDistribution;
use std::os::unix::fs::MetadataExt;

fn spec() -> TreeSpec {
    TreeSpec {
        files: 300,
        directories: 20,
        empty_directories: 5,
        fanout: 3,
        size: SizeDistribution::LogNormal { median_bytes: 2000, sigma: 1.0 },
        compressibility: 0.5,
        nasty_names: true,
        links: true,
        hard_links: 7,
        extended_attributes: true,
        seed: 99,
        threads: 4,
    }
}

/// Counts files, directories, symbolic links and bytes with an independent walk.
fn count(path: &Path, into: &mut TreeSummary) {
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            into.directories += 1;
            count(&entry.path(), into);
        } else if kind.is_symlink() {
            into.links += 1;
        } else if entry.file_name().as_encoded_bytes().starts_with(b"h0") {
            assert_eq!(entry.metadata().unwrap().nlink(), 2);
            into.hard_links += 1;
        } else {
            into.files += 1;
            into.bytes += entry.metadata().unwrap().len();
        }
    }
}

/// Returns names, attributes and content of everything in a tree, by independent tools.
fn listing(root: &Path) -> Vec<u8> {
    const LINE: &str = "cd \"$0\" && find . -printf '%p %y %m %U %G %T@ %l\\0' | sort -z && \
         find . -type f -print0 | sort -z | xargs -0 cat && getfattr -RPhd -m - . | sort";
    let output = std::process::Command::new("sh").args(["-c", LINE]).arg(root).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    output.stdout
}

#[test]
fn two_generations_are_equal_whatever_the_threads() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    let first = tree(&one, &spec()).unwrap();
    let alone = TreeSpec { threads: 1, ..spec() };
    let second = tree(&two, &alone).unwrap();
    assert_eq!(first, second);
    assert_eq!(listing(&one), listing(&two));
}

#[test]
fn another_seed_differs() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    tree(&one, &spec()).unwrap();
    let other = TreeSpec { seed: 1, ..spec() };
    tree(&two, &other).unwrap();
    assert_ne!(listing(&one), listing(&two));
}

#[test]
fn the_summary_is_what_is_there() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("deep/tree");
    let summary = tree(&root, &spec()).unwrap();
    let mut found = TreeSummary::default();
    count(&root, &mut found);
    assert_eq!(found, summary);
    assert_eq!((found.files, found.directories), (300, 25));
    // 15 files per directory: one link each.
    assert_eq!(found.links, 20);
}

#[test]
fn second_names_are_in_other_directories_and_attributes_are_what_the_plan_says() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("tree");
    let plain = TreeSpec { nasty_names: false, ..spec() };
    tree(&root, &plain).unwrap();
    let plan = DataPlan::new(&plain).unwrap();
    for link in 0..7 {
        let (holder, file, other, name) = plan.hard_link(link);
        assert!(plan.files_in(holder).contains(&file) && holder != other, "{link}");
        let first = plan.directory_path(&root, holder).join(plan.file_name(file));
        let second = plan.directory_path(&root, other).join(name);
        assert_eq!(fs::metadata(first).unwrap().ino(), fs::metadata(second).unwrap().ino());
    }
    let mut files = 0;
    for file in 0..300 {
        let path = plan.directory_path(&root, plan.holder(file)).join(plan.file_name(file));
        let mut list = vec![0; 4096];
        let length = rustix::fs::listxattr(&path, &mut list).unwrap();
        let expected: Vec<_> = plan.file_attributes(file).collect();
        assert_eq!(list[..length].iter().filter(|byte| **byte == 0).count(), expected.len(), "{path:?}");
        for (name, value) in &expected {
            let mut found = vec![0; 4096];
            let length = rustix::fs::getxattr(&path, name, &mut found).unwrap();
            assert_eq!(&found[..length], value, "{path:?}");
        }
        files += usize::from(!expected.is_empty());
    }
    assert!((60..140).contains(&files), "{files} of 300");
}

#[test]
fn more_second_names_than_files_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let spec = TreeSpec { files: 3, hard_links: 4, ..TreeSpec::default() };
    assert!(matches!(tree(&place.path().join("tree"), &spec), Err(MeasureError::Specification(_))));
    let all = TreeSpec { files: 3, hard_links: 3, ..TreeSpec::default() };
    assert_eq!(tree(&place.path().join("all"), &all).unwrap().hard_links, 3);
}

#[test]
fn attributes_are_set_with_nanoseconds() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("tree");
    let plain = TreeSpec { nasty_names: false, ..spec() };
    tree(&root, &plain).unwrap();
    let metadata = fs::metadata(root.join("d0000001/f0000000")).unwrap();
    let plan = DataPlan::new(&plain).unwrap();
    let time = plan.file_times(0).last_modification;
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (time.tv_sec, time.tv_nsec));
    assert_eq!(metadata.mode() & 0o7777, plan.file_mode(0));
    assert!(fs::metadata(&root).unwrap().mtime() < 1_700_000_000);
}

#[test]
fn few_files_in_the_root_alone() {
    let place = tempfile::tempdir().unwrap();
    let small = TreeSpec {
        files: 3,
        size: SizeDistribution::Fixed(WRITE_BYTES as u64 + 5),
        threads: 0,
        ..TreeSpec::default()
    };
    // The directory exists and is empty.
    let summary = tree(place.path(), &small).unwrap();
    assert_eq!(summary.files, 3);
    let data = fs::read(place.path().join("f0000002")).unwrap();
    let seed = DataPlan::new(&small).unwrap().file_seed(2);
    assert_eq!(Pattern::new(seed, 0.0).first_difference(0, &data), None);
}

#[test]
fn what_is_there_is_not_touched() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "data").unwrap();
    assert!(matches!(tree(place.path(), &spec()), Err(MeasureError::NotEmpty(_))));
    assert!(matches!(tree(&file, &spec()), Err(MeasureError::NotEmpty(_))));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn a_path_too_long_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let chain = TreeSpec { directories: 1000, fanout: 1, ..TreeSpec::default() };
    let error = tree(&place.path().join("chain"), &chain).unwrap_err();
    assert!(matches!(error, MeasureError::Io { .. }), "{error}");
}
