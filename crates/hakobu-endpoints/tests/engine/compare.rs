//! Tests of runs that compare: to verify a copy, to find differences that times do not show, and for a manifest of
//! digests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use hakobu_core::digest::hex;
use hakobu_core::event::{Difference, Different, Event};
use hakobu_core::extended::Classes;
use hakobu_core::extent::Extent;
use hakobu_core::job::{FileSample, Mode};
use hakobu_testkit::faults::OperationKind;
use rustix::fs::{XattrFlags, chown, setxattr};

use crate::bench::{Made, Order, Place};
use crate::plain::assert_whole;
use crate::tree::{Numbers, everything, stamp, write};
use crate::view::assert_same;

fn copy(lanes: u16) -> Order {
    Order::contents(lanes).job(|job| (job.extended, job.hard_links) = (Classes::USUAL, true))
}

fn verify(lanes: u16) -> Order {
    copy(lanes).job(|job| (job.mode, job.owners) = (Mode::Compare, true))
}

fn differences(made: &Made) -> Vec<(String, Different)> {
    let words =
        |difference: &Difference| (String::from_utf8_lossy(&difference.path).into_owned(), difference.what);
    made.summary.differences.iter().map(words).collect()
}

#[test]
fn a_copy_is_found_equal_and_nothing_is_written() {
    let place = Place::new();
    everything(&place.source(), 8);
    place.run(&copy(2));
    let before = place.target_view();
    for (lanes, remote) in [(1, false), (3, true)] {
        let mut order = verify(lanes);
        order.remote = remote;
        let made = place.run(&order);
        assert_eq!(differences(&made), []);
        assert_eq!((made.summary.fatal, made.summary.counters.entries_failed), (None, 0));
        let writes: Vec<_> = made.target_log.iter().filter(|logged| logged.kind.writes()).collect();
        assert!(
            writes.iter().all(|logged| matches!(logged.kind, OperationKind::Begin | OperationKind::Abandon)),
            "{:?}",
            writes.iter().map(|logged| logged.kind).collect::<Vec<_>>()
        );
        assert_same(&before, &place.target_view());
        let it = &made.summary.counters;
        assert_eq!(it.entries_unchanged + it.entries_skipped, it.entries_scanned);
        assert_eq!(it.source_read_bytes, it.bytes_scanned, "all content was read");
    }
}

#[test]
fn each_difference_is_named() {
    let place = Place::new();
    let (source, target) = (place.source(), place.target());
    let numbers = &mut Numbers(5);
    for name in ["content", "size", "mode", "owner", "time", "extended", "gone", "kind", "two"] {
        write(&source.join(name), numbers, 100);
    }
    write(&source.join("large"), numbers, 900_000);
    fs::create_dir_all(source.join("dir/below")).unwrap();
    fs::create_dir_all(source.join("missing/below")).unwrap();
    symlink("one", source.join("link")).unwrap();
    symlink("one", source.join("link longer")).unwrap();
    for name in ["dir/below", "dir", "missing/below", "missing", ""] {
        stamp(&source.join(name), 50, 0);
    }
    place.run(&copy(2));
    let changed = |name: &str, offset: usize| {
        let mut content = fs::read(target.join(name)).unwrap();
        content[offset] ^= 1;
        fs::write(target.join(name), content).unwrap();
        let time = fs::metadata(source.join(name)).unwrap();
        stamp(&target.join(name), time.mtime(), time.mtime_nsec());
    };
    changed("content", 5);
    changed("two", 5);
    changed("large", 600_000);
    fs::set_permissions(target.join("two"), fs::Permissions::from_mode(0o711)).unwrap();
    fs::write(target.join("size"), "x").unwrap();
    fs::set_permissions(target.join("mode"), fs::Permissions::from_mode(0o711)).unwrap();
    chown(target.join("owner"), Some(rustix::fs::Uid::from_raw(77)), None).unwrap();
    stamp(&target.join("time"), 3, 3);
    setxattr(target.join("extended"), "user.x", b"", XattrFlags::empty()).unwrap();
    fs::remove_file(target.join("gone")).unwrap();
    fs::remove_file(target.join("kind")).unwrap();
    fs::create_dir(target.join("kind")).unwrap();
    fs::remove_dir_all(target.join("missing")).unwrap();
    fs::create_dir_all(target.join("extra/below")).unwrap();
    fs::set_permissions(target.join("dir/below"), fs::Permissions::from_mode(0o711)).unwrap();
    for (name, text) in [("link", "two"), ("link longer", "three")] {
        fs::remove_file(target.join(name)).unwrap();
        symlink(text, target.join(name)).unwrap();
        let time = fs::symlink_metadata(source.join(name)).unwrap();
        stamp(&target.join(name), time.mtime(), time.mtime_nsec());
    }
    stamp(&target.join("dir"), 50, 0);
    stamp(&target, 50, 0);
    let piece = Extent { offset: 512 * 1024, length: 256 * 1024 };
    let expected = [
        ("content", Different::Content),
        ("dir/below", Different::Mode),
        ("extended", Different::Extended),
        ("extra", Different::OnlyInTarget),
        ("gone", Different::OnlyInSource),
        ("kind", Different::Kind),
        ("large", Different::Range(piece)),
        ("link", Different::Content),
        ("link longer", Different::Content),
        ("missing", Different::OnlyInSource),
        ("mode", Different::Mode),
        ("owner", Different::Owner),
        ("size", Different::Size),
        ("size", Different::Time),
        ("time", Different::Time),
        ("two", Different::Content),
        ("two", Different::Mode),
    ];
    for lanes in [1, 3] {
        let made = place.run(&verify(lanes));
        let found = differences(&made);
        let expected = expected.map(|(path, what)| (path.to_owned(), what));
        assert_eq!(found, expected);
        let it = &made.summary.counters;
        assert_eq!((it.entries_different, it.entries_only_in_target), (14, 1));
        let told = made.events.iter().filter(|event| matches!(event, Event::Difference(_))).count();
        assert_eq!(told, expected.len() - 1, "ranges are in the summary only");
    }
    let without = verify(1).job(|job| job.owners = false);
    assert!(!differences(&place.run(&without)).iter().any(|(_, what)| *what == Different::Owner));
}

#[test]
fn a_sample_reads_some_files_and_compares_all_names() {
    let place = Place::new();
    for index in 0..400 {
        write(&place.source().join(format!("f{index}")), &mut Numbers(index), 10);
    }
    place.run(&copy(2));
    fs::remove_file(place.target().join("f7")).unwrap();
    let taken: Vec<u64> = (0..2)
        .map(|seed| {
            let sample = Some(FileSample { per_million: 250_000, seed });
            let made = place.run(&verify(2).job(|job| job.sample = sample));
            let missing = ("f7".to_owned(), Different::OnlyInSource);
            assert!(differences(&made).contains(&missing));
            made.summary.counters.entries_compared
        })
        .collect();
    assert!(taken.iter().all(|count| (50..150).contains(count)), "{taken:?}");
    let all = Some(FileSample { per_million: 1_000_000, seed: 1 });
    let made = place.run(&verify(2).job(|job| job.sample = all));
    assert_eq!(made.summary.counters.entries_compared, 399);
}

#[test]
fn content_is_compared_where_times_are_not_trusted() {
    for lanes in [1, 3] {
        let place = Place::new();
        let (source, target) = (place.source(), place.target());
        for (index, name) in
            ["same", "hidden", "touched", "large", "large hidden", "large touched"].iter().enumerate()
        {
            let size = if name.starts_with("large") { 700_000 } else { 300 };
            write(&source.join(name), &mut Numbers(index as u64), size);
        }
        for name in ["same", "hidden"] {
            fs::hard_link(source.join(name), source.join(format!("{name} too"))).unwrap();
        }
        place.run(&copy(lanes));
        for name in ["hidden", "large hidden"] {
            let mut content = fs::read(source.join(name)).unwrap();
            content[200] ^= 1;
            let time = fs::metadata(source.join(name)).unwrap();
            fs::write(source.join(name), content).unwrap();
            stamp(&source.join(name), time.mtime(), time.mtime_nsec());
        }
        for name in ["touched", "large touched"] {
            stamp(&source.join(name), 9, 9);
        }
        let planned = place.run(&copy(lanes).job(|job| (job.compare_content, job.dry_run) = (true, true)));
        let plan = |action: &str| {
            let of = |event: &&Event| matches!(event, Event::Planned { action: of, .. } if of == action);
            planned.events.iter().filter(of).count()
        };
        assert_eq!((plan("update"), plan("attributes"), plan("link")), (2, 2, 1));
        let made = place.run(&copy(lanes).job(|job| job.compare_content = true));
        assert_whole(&made, &[]);
        assert_same(&place.source_view(), &place.target_view());
        let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
        assert_eq!(inode("same"), inode("same too"));
        assert_eq!(inode("hidden"), inode("hidden too"));
        let it = &made.summary.counters;
        assert_eq!((it.entries_updated, it.entries_attributes_only), (3, 2));
        assert_eq!(it.target_written_bytes, 700_300);
        assert!(place.run(&copy(lanes)).writes().is_empty());
    }
}

#[test]
fn a_manifest_has_the_digest_of_each_file() {
    let place = Place::new();
    everything(&place.source(), 4);
    write(&place.source().join("large"), &mut Numbers(1), 9_000_000);
    for lanes in [1, 3] {
        let order = Order::contents(lanes).job(|job| job.mode = Mode::Digest(Default::default()));
        let made = place.run(&order);
        assert_eq!(made.summary.fatal, None);
        let digest = |event: &Event| match event {
            Event::Digest { path, digest } => Some((String::from_utf8_lossy(path).into_owned(), hex(digest))),
            _ => None,
        };
        let found: BTreeMap<_, _> = made.events.iter().filter_map(digest).collect();
        let mut expected = BTreeMap::new();
        collect(&place.source(), &place.source(), &mut expected);
        assert_eq!(found, expected);
        assert_eq!(fs::read_dir(place.target()).unwrap().count(), 0);
    }
}

fn collect(root: &Path, directory: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            collect(root, &path, found);
        } else if kind.is_file() {
            let below = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.insert(below, hex(blake3::hash(&fs::read(&path).unwrap()).as_bytes()));
        }
    }
}

/// Differences that cannot be compared are reported, because such entries must not be called equal.
#[test]
fn attributes_that_the_target_may_not_set_are_named() {
    let place = Place::new();
    everything(&place.source(), 9);
    place.run(&copy(2));
    let notices = |order: &Order| {
        let words = |event: &Event| match event {
            Event::Notice { words } if words.contains("not compared") => Some(words.clone()),
            _ => None,
        };
        place.run(order).events.iter().filter_map(words).collect::<Vec<_>>()
    };
    assert_eq!(notices(&verify(2)), Vec::<String>::new());
    let mut without = verify(2);
    without.extended = Some(Classes::USER);
    let said = notices(&without);
    assert!(said.len() == 1 && said[0].contains("access lists, capabilities, trusted.*"), "{said:?}");
}
