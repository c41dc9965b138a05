//! Tests with several sources for one target directory: of entries of one name the first is copied, and the others
//! fail.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use hakobu_core::error::ErrorKind;
use hakobu_core::filter::FilterRule;
use hakobu_testkit::faults::{FaultPlan, OperationKind};

use crate::bench::{Made, Order, Place};
use crate::tree::{Numbers, dress, small, write};
use crate::view::{Sums, View, What, assert_same};

/// Creates three sources side by side.
fn three(place: &Place) -> [PathBuf; 3] {
    ["a", "b", "c"].map(|name| {
        let path = place.source().join(name);
        fs::create_dir(&path).unwrap();
        path
    })
}

/// Returns the expected target: for each name the entry of the first source that has it.
fn merged(sources: &[PathBuf; 3]) -> View {
    let mut all = View::default();
    for source in sources {
        for (path, entry) in View::of(source).copied().0 {
            all.0.entry(path).or_insert(entry);
        }
    }
    all
}

/// Returns the sorted paths that are not copied because an earlier source has an entry of that name.
fn lost(sources: &[PathBuf; 3]) -> Vec<Vec<u8>> {
    let views = sources.each_ref().map(|source| View::of(source).copied().0);
    let mut lost = Vec::new();
    for (number, view) in views.iter().enumerate() {
        let other = |entry: &crate::view::Entry| entry.what != What::Directory;
        for (path, _) in view.iter().filter(|(_, entry)| other(entry)) {
            lost.extend(
                views[..number].iter().any(|earlier| earlier.contains_key(path)).then(|| path.clone()),
            );
        }
    }
    lost.sort();
    lost
}

/// Returns the failed paths. With several sources one may occur several times.
fn failed(made: &Made) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = made.summary.failures.iter().map(|failure| failure.path.clone()).collect();
    paths.sort();
    assert_eq!(paths.len() as u64, made.summary.counters.entries_failed);
    assert!(made.summary.failures.iter().all(|failure| failure.error.kind == ErrorKind::Conflict));
    paths
}

fn run(place: &Place, sources: &[PathBuf; 3], order: &Order) -> Made {
    let made = place.run_from_three(&sources.each_ref().map(PathBuf::as_path), order);
    assert_eq!(made.summary.fatal, None);
    let sums = Sums::of(&made);
    assert_eq!(sums.scanned, sums.told);
    made
}

const ALL: [(&str, &str); 3] = [("", ""), ("", ""), ("", "")];

#[test]
fn the_first_source_wins_and_each_name_counts_once() {
    for (round, lanes) in [1, 2, 5, 5, 5].into_iter().enumerate() {
        let place = Place::new();
        let sources = three(&place);
        // One seed gives the same names, so the three have most of them in common.
        let numbers = &mut Numbers(round as u64);
        for (number, source) in sources.iter().enumerate() {
            small(source, 90);
            let _ = fs::remove_file(source.join("fifo"));
            for name in ["both", "large", &format!("alone-{number}")] {
                write(&source.join(name), numbers, if name == "large" { 3_000_000 } else { 100 });
            }
            fs::create_dir_all(source.join("shared/deep")).unwrap();
            write(&source.join("shared/deep/file"), numbers, 300);
            write(&source.join(format!("shared/deep/{number}")), numbers, 300);
            for name in ["both", "large", "shared/deep/file", "shared/deep", "shared", ""] {
                dress(&source.join(name), numbers);
            }
        }
        let expected = merged(&sources);
        let mut order = Order::items(lanes, &ALL);
        order.remote = round % 2 == 0;
        order.target = FaultPlan::new(round as u64).reorder(8);
        let made = run(&place, &sources, &order);
        let lost = lost(&sources);
        assert!(lost.len() > 10 && failed(&made) == lost, "{:?}", made.summary.failures);
        assert_same(&expected, &place.target_view());
        let it = &made.summary.counters;
        // Sockets are skipped as well; the target itself existed.
        let entries = expected.0.len() as u64;
        let kept = it.entries_unchanged + it.entries_attributes_only;
        assert_eq!((it.entries_created, kept), (entries - 1, 1));
        assert_eq!(it.target_written_bytes, expected.bytes());
        assert_eq!((it.entries_updated, it.entries_only_in_target), (0, 0));

        let again = run(&place, &sources, &order);
        assert!(again.writes().is_empty(), "{:?}", again.writes());
        let second = &again.summary.counters;
        assert_eq!((second.entries_unchanged, second.entries_only_in_target), (entries, 0));
        assert_eq!(second.entries_skipped, it.entries_skipped);
        assert_eq!(failed(&again), lost, "it is said each time");
    }
}

#[test]
fn what_the_user_named_is_merged_with_contents() {
    for lanes in [1, 4] {
        let place = Place::new();
        let sources = three(&place);
        let numbers = &mut Numbers(5);
        for source in &sources {
            fs::create_dir(source.join("d")).unwrap();
            for name in ["f", "g", "d/f", "large"] {
                write(&source.join(name), numbers, if name == "large" { 2_000_000 } else { 50 });
            }
        }
        write(&sources[2].join("d/c"), numbers, 10);
        // A file, then contents with a file of its name, then a directory that these contain as well.
        let items = [("f", "f"), ("", ""), ("d", "d")];
        let made = run(&place, &sources, &Order::items(lanes, &items));
        let content = |source: usize, name: &str| fs::read(sources[source].join(name)).unwrap();
        let there = |name: &str| fs::read(place.target().join(name)).unwrap();
        for (name, from) in [("f", 0), ("g", 1), ("d/f", 1), ("d/c", 2), ("large", 1)] {
            assert!(there(name) == content(from, name), "{name}");
        }
        assert_eq!((made.summary.counters.entries_created, made.summary.counters.entries_skipped), (6, 0));
        assert_eq!(failed(&made), [&b"d/f"[..], b"f"]);
        // Two directories of one name, without contents beside them.
        fs::remove_dir_all(place.target()).unwrap();
        fs::create_dir(place.target()).unwrap();
        write(&place.target().join("other"), numbers, 10);
        let made = run(&place, &sources, &Order::items(lanes, &[("d", "d"), ("d", "d"), ("d", "d")]));
        assert!(there("d/f") == content(0, "d/f") && there("d/c") == content(2, "d/c"));
        let it = &made.summary.counters;
        assert_eq!((it.entries_created, it.entries_skipped, it.entries_only_in_target), (3, 0, 0));
        assert_eq!(failed(&made), [b"d/f", b"d/f"]);
        // One of them is missing: the others are copied.
        fs::remove_dir_all(sources[1].join("d")).unwrap();
        fs::remove_file(sources[0].join("f")).unwrap();
        let order = Order::items(lanes, &[("f", "f"), ("d", "d"), ("", "")]);
        let made = place.run_from_three(&sources.each_ref().map(PathBuf::as_path), &order);
        assert_eq!(made.failed_paths(), [&b"d"[..], b"f"]);
        assert!(there("f") == content(2, "f"));
    }
}

#[test]
fn a_directory_and_something_else_of_one_name_are_a_conflict() {
    let place = Place::new();
    let sources = three(&place);
    let numbers = &mut Numbers(6);
    for (source, directory) in [(0, "x"), (1, "y"), (2, "x")] {
        fs::create_dir(sources[source].join(directory)).unwrap();
        write(&sources[source].join(directory).join("in"), numbers, 10);
    }
    write(&sources[0].join("y"), numbers, 10);
    symlink("nowhere", sources[1].join("x")).unwrap();
    write(&sources[2].join("y"), numbers, 20);
    for lanes in [1, 3] {
        let made = run(&place, &sources, &Order::items(lanes, &ALL));
        // The second `y`, and the names that both have in `x`, fail as well.
        assert_eq!(failed(&made), [&b"x"[..], b"x/in", b"y", b"y"]);
        let target = place.target();
        assert!(fs::read(target.join("x/in")).unwrap() == fs::read(sources[0].join("x/in")).unwrap());
        assert!(fs::read(target.join("y")).unwrap() == fs::read(sources[0].join("y")).unwrap());
        assert_eq!(made.summary.counters.entries_skipped, 0);
    }
}

/// A directory that becomes read-only gets its mode after all sources.
#[test]
fn a_directory_is_given_its_attributes_once() {
    let place = Place::new();
    let sources = three(&place);
    let numbers = &mut Numbers(8);
    for (number, source) in sources.iter().enumerate() {
        fs::create_dir(source.join("d")).unwrap();
        write(&source.join(format!("d/{number}")), numbers, 10);
        fs::set_permissions(source.join("d"), fs::Permissions::from_mode(0o500 + number as u32)).unwrap();
    }
    let made = run(&place, &sources, &Order::items(3, &ALL));
    assert_same(&merged(&sources), &place.target_view());
    let settled = made.target_log.iter().filter(|logged| logged.kind == OperationKind::Apply).count();
    assert!(settled <= 2, "{:?}", made.target_log);
}

/// An entry that a rule excludes from an earlier source does not block its name, whatever its kind.
#[test]
fn what_a_rule_leaves_out_takes_no_name() {
    for lanes in [1, 3] {
        let place = Place::new();
        let sources = three(&place);
        // The rule covers only directories, and files of one name.
        fs::create_dir(sources[0].join("left")).unwrap();
        write(&sources[1].join("left"), &mut Numbers(1), 100);
        write(&sources[0].join("small"), &mut Numbers(2), 10);
        write(&sources[1].join("small"), &mut Numbers(3), 300_000);
        write(&sources[0].join("both"), &mut Numbers(4), 100);
        write(&sources[1].join("both"), &mut Numbers(5), 200);
        let order = Order::items(lanes, &ALL).job(|job| {
            job.filter.rules = vec![FilterRule::exclude("left/", "--exclude".into())];
            job.filter.bytes_min = Some(50);
        });
        let made = run(&place, &sources, &order);
        assert_eq!(failed(&made), [b"both"]);
        for (name, source) in [("left", 1), ("small", 1), ("both", 0)] {
            let read = |root: &PathBuf| fs::read(root.join(name)).unwrap();
            assert!(read(&place.target()) == read(&sources[source]), "{name}");
        }
    }
}
