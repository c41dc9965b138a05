//! Trees that processes have copied together are those of the source, whatever happened to the processes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use hakobu_core::path::is_draft_name;
use hakobu_testkit::stores::StoreServer;
use hakobu_testkit::tree_difference::{EntryDifference, compare};
use tempfile::TempDir;

use crate::ledger::{Ledger, Misfortune, Results, Shared};
use crate::program::Host;

/// The number of files in one of the directories.
const FLAT_FILES: usize = 800;

/// Makes a tree with links, a directory of many files, further names of files in other directories, an empty directory, and some larger files.
fn make_tree(root: &Path, directories: usize) {
    let mut paths = vec![root.to_path_buf()];
    fs::create_dir(root).unwrap();
    for number in 1..directories {
        let above = &paths[(number * 7 / 11).max(number.saturating_sub(9))];
        let directory = above.join(format!("d{number}"));
        fs::create_dir(&directory).unwrap();
        paths.push(directory);
    }
    for (number, directory) in paths.iter().enumerate().filter(|(number, _)| number % 17 != 5) {
        for file in 0..20 {
            let length = if file == 7 && number % 5 == 0 { 700_000 } else { 300 + number * 13 + file };
            let content: Vec<u8> = (0..length).map(|at| (at * (file + 3) + number) as u8).collect();
            let path = directory.join(format!("f{file}"));
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600 + (file as u32 % 8))).unwrap();
            age(&path, number * 1000 + file);
        }
        symlink(format!("f{}", number % 20), directory.join("link")).unwrap();
        if number % 3 == 0 {
            let other = &paths[number * 5 % paths.len()];
            fs::hard_link(directory.join("f1"), other.join(format!("name{number}"))).unwrap();
        }
    }
    // More files than are kept by whoever lists them, some with names that are no text.
    for number in 0..FLAT_FILES {
        let name = [format!("n{number}").as_bytes(), &[0xfe, number as u8 | 0x80][..number % 2 * 2]].concat();
        let path = paths[1].join(OsStr::from_bytes(&name));
        fs::write(&path, vec![number as u8; 10 + number % 400]).unwrap();
        age(&path, number);
    }
    for (number, directory) in paths.iter().enumerate().rev() {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o710 + number as u32 % 8)).unwrap();
        age(directory, number);
    }
}

/// Sets a time in the past, with nanoseconds.
fn age(path: &Path, number: usize) {
    let time = std::time::UNIX_EPOCH
        + std::time::Duration::new(1_500_000_000 + number as u64, 123_456_000 + number as u32);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

fn walk(root: &Path) -> Vec<PathBuf> {
    let (mut all, mut below) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(directory) = below.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                below.push(entry.path());
            }
            all.push(entry.path().strip_prefix(root).unwrap().to_path_buf());
        }
    }
    all
}

/// Returns the names of each file that has several.
fn names(root: &Path) -> Vec<Vec<PathBuf>> {
    let mut names: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    for path in walk(root) {
        let found = root.join(&path).symlink_metadata().unwrap();
        if found.is_file() && found.nlink() > 1 {
            names.entry(found.ino()).or_default().push(path);
        }
    }
    let mut names: Vec<_> = names.into_values().collect();
    names.iter_mut().for_each(|names| names.sort());
    names.sort();
    names
}

#[track_caller]
fn assert_same(source: &Path, target: &Path, has_nanoseconds: bool) {
    let drafts: Vec<_> =
        walk(target).into_iter().filter(|path| is_draft_name(path.file_name().unwrap().as_bytes())).collect();
    assert_eq!(drafts, Vec::<PathBuf>::new());
    let mut differences = compare(source, target).unwrap();
    differences.retain(|difference| match difference.what {
        EntryDifference::ModificationTime(left, right) => has_nanoseconds || left.0 != right.0,
        _ => true,
    });
    assert!(differences.is_empty(), "{}: {:?}", differences.len(), differences.first());
    assert!(!names(source).is_empty());
    assert_eq!(names(source), names(target));
}

fn shared(source: &Path, target: &Path, workers: usize) -> Shared {
    Shared {
        source: [source.as_os_str().as_bytes(), b"/"].concat(),
        target: target.as_os_str().as_bytes().to_vec(),
        ssh: "ssh".to_owned(),
        agent: String::new(),
        operations: 0,
        workers,
        environment: Vec::new(),
    }
}

/// Copies the tree, and compares it.
#[track_caller]
fn copy(shared: &Shared, (source, target): (&Path, &Path), misfortunes: &[(usize, Misfortune)]) -> Results {
    let results = run(shared, source, misfortunes);
    // An SFTP server keeps seconds.
    assert_same(source, target, !shared.target.starts_with(b"sftp://"));
    results
}

/// Copies the tree. Each entry counts once in units that count.
#[track_caller]
fn run(shared: &Shared, source: &Path, misfortunes: &[(usize, Misfortune)]) -> Results {
    let results = Ledger::copy(shared, misfortunes);
    assert_eq!(results.failures, Vec::<String>::new());
    assert_eq!(results.scanned as usize, walk(source).len() + 1);
    // A worker that is stopped between its last change and its report has nothing left that could be refused.
    let (refused, others): (Vec<_>, Vec<_>) =
        results.late.iter().partition(|late| late.starts_with("@fatal BeyondGrant"));
    assert!(others.iter().all(|late| late.starts_with("@done")), "{others:?}");
    assert!(others.is_empty() || !refused.is_empty(), "{others:?}");
    results
}

/// Copies again until slices are given away, which depends on the load of the machine. Returns the last results.
#[track_caller]
fn with_slices(mut copied: impl FnMut() -> Results) -> Results {
    (0..5).map(|_| copied()).find(|results| results.slices > 0).expect("no slice is given away")
}

fn on_disk() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn processes_copy_a_tree_together_and_another_time_nothing() {
    // On a disk there are marks of runs; in memory there are none.
    for place in [crate::program::place(), on_disk()] {
        let source = place.path().join("source");
        make_tree(&source, 60);
        let (mut target, mut copies) = (PathBuf::new(), 0);
        let results = with_slices(|| {
            copies += 1;
            target = place.path().join(format!("target{copies}"));
            // Files of the large directory still wait when the run asks for the first time.
            let slow = Shared { operations: 300, ..shared(&source, &target, 2) };
            copy(&slow, (&source, &target), &[])
        });
        assert!(results.units > 10 && results.slices >= 2, "{results:?}");
        let again = copy(&shared(&source, &target, 2), (&source, &target), &[]);
        assert_eq!((again.created, again.unchanged), (0, results.scanned), "{again:?}");
    }
}

/// Copies a tree on a disk by several workers, with misfortunes.
fn copy_on_disk(workers: usize, operations: u32, misfortunes: &[(usize, Misfortune)]) -> Results {
    with_slices(|| {
        let place = on_disk();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        make_tree(&source, 60);
        let shared = Shared { operations, ..shared(&source, &target, workers) };
        copy(&shared, (&source, &target), misfortunes)
    })
}

#[test]
fn whoever_is_killed_another_takes_its_unit_over() {
    let kills: Vec<_> = [0, 1, 3, 6, 10, 15].map(|after| (after, Misfortune::Kill)).to_vec();
    assert_eq!(copy_on_disk(4, 250, &kills).killed, kills.len());
}

#[test]
fn whoever_was_stopped_until_after_its_lease_changes_nothing() {
    let stops: Vec<_> = [0, 2, 5].map(|after| (after, Misfortune::Stop)).to_vec();
    let results = copy_on_disk(3, 600, &stops);
    assert_eq!(results.late.len(), stops.len(), "{results:?}");
}

/// Changes every third file, and some links; adds directories and a large file.
fn change_tree(root: &Path, large_bytes: usize) {
    for (number, path) in walk(root).into_iter().enumerate() {
        let path = root.join(path);
        let found = path.symlink_metadata().unwrap();
        if found.is_file() && number % 3 == 0 {
            let content: Vec<u8> = (0..found.len() as usize + number % 2).map(|at| (at * 5) as u8).collect();
            fs::write(&path, content).unwrap();
            age(&path, number * 7);
        } else if found.is_symlink() && number % 2 == 0 {
            fs::remove_file(&path).unwrap();
            fs::write(&path, "no link any more").unwrap();
        } else if found.is_dir() && number % 4 == 0 {
            fs::create_dir(path.join("later")).unwrap();
            fs::write(path.join("later/file"), [number as u8; 5000]).unwrap();
        }
    }
    let content: Vec<u8> = (0..large_bytes).map(|at| (at / 4096 * 7 + at) as u8).collect();
    fs::write(root.join("large"), content).unwrap();
}

#[test]
fn changes_arrive_although_processes_are_killed_and_stopped() {
    let place = on_disk();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    make_tree(&source, 50);
    let shared = Shared { operations: 800, ..shared(&source, &target, 4) };
    copy(&Shared { operations: 0, ..shared.clone() }, (&source, &target), &[]);
    change_tree(&source, 70 << 20);
    let misfortunes = [
        (0, Misfortune::Kill),
        (0, Misfortune::Stop),
        (3, Misfortune::Kill),
        (5, Misfortune::Stop),
        (8, Misfortune::Kill),
    ];
    let results = copy(&shared, (&source, &target), &misfortunes);
    assert_eq!(results.killed, 3);
}

/// The state that workers keep is their own, and the credentials are those of the server.
fn environment(place: &Path, server: &StoreServer) -> Vec<(&'static str, String)> {
    let state = place.join("state").to_str().unwrap().to_owned();
    vec![
        ("HAKOBU_STATE", state),
        ("AWS_ACCESS_KEY_ID", server.access_key.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", server.secret_key.to_owned()),
        ("AWS_ENDPOINT_URL", server.endpoint.clone()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
    ]
}

#[test]
fn a_tree_goes_into_a_bucket_and_returns_by_several_processes() {
    let server = StoreServer::versitygw().unwrap();
    server.make_bucket("bucket").unwrap();
    let place = crate::program::place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    make_tree(&source, 40);
    let mut there = Shared {
        environment: environment(place.path(), &server),
        operations: 600,
        ..shared(&source, &target, 3)
    };
    let misfortunes =
        [(0, Misfortune::Kill), (2, Misfortune::Stop), (4, Misfortune::Kill), (6, Misfortune::Stop)];
    let mut copies = 0;
    let stored = with_slices(|| {
        copies += 1;
        there.target = format!("s3://bucket/new{copies}").into_bytes();
        run(&there, &source, &misfortunes)
    });
    assert_eq!((stored.killed, stored.late.len()), (2, 2), "{stored:?}");
    let again = run(&there, &source, &[]);
    assert_eq!((again.created, again.unchanged), (0, again.scanned), "{again:?}");
    let back = Shared {
        source: [&there.target[..], b"/"].concat(),
        target: target.as_os_str().as_bytes().to_vec(),
        ..there
    };
    let results = run(&back, &source, &misfortunes);
    assert_same(&source, &target, true);
    assert_eq!(results.killed, 2);
}

/// Copies to another host, killing and stopping some.
fn copy_to_host(agent: &str, more: &str, target_prefix: &str) {
    let host = Host::up();
    let misfortunes =
        [(0, Misfortune::Kill), (2, Misfortune::Stop), (4, Misfortune::Kill), (6, Misfortune::Stop)];
    let results = with_slices(|| {
        let place = crate::program::place();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        make_tree(&source, 40);
        let shared = Shared {
            target: [target_prefix.as_bytes(), target.as_os_str().as_bytes()].concat(),
            ssh: format!("{}{more}", host.sshd.ssh_command()),
            agent: agent.to_owned(),
            operations: 600,
            ..shared(&source, &target, 3)
        };
        copy(&shared, (&source, &target), &misfortunes)
    });
    assert_eq!(results.killed, 2);
}

#[test]
fn an_agent_on_another_host_serves_several_processes() {
    copy_to_host(crate::program::HAKOBU, "", "throwaway:");
}

#[test]
fn an_sftp_server_serves_several_processes() {
    copy_to_host("", "", "sftp://throwaway");
}
