//! Tests of target paths, conflicts, several items, dry runs, and devices.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use hakobu_core::endpoint::DraftKind;
use hakobu_core::error::ErrorKind;
use hakobu_core::event::Event;
use hakobu_core::path::EntryPath;
use hakobu_testkit::faults::OperationKind;

use crate::bench::{Made, Order, Place};
use crate::tree::{Numbers, dress, fifo, small, write};
use crate::view::{Sums, View, assert_honest, assert_same};

fn failures(made: &Made) -> Vec<(String, ErrorKind)> {
    made.failed_paths();
    let mut failures: Vec<_> = made
        .summary
        .failures
        .iter()
        .map(|failure| (String::from_utf8_lossy(&failure.path).into_owned(), failure.error.kind))
        .collect();
    failures.sort_by(|one, other| one.0.cmp(&other.0));
    failures
}

#[test]
fn a_dry_run_writes_nothing_and_says_what_would_be_done() {
    for lanes in [1, 5] {
        let place = Place::new();
        small(&place.source(), 20);
        let numbers = &mut Numbers(9);
        write(&place.target().join("fifo-not"), numbers, 9);
        write(&place.target().join("link-to-nothing"), numbers, 9);
        let before = place.target_view();
        let dry = |job: &mut hakobu_core::job::Job| {
            job.dry_run = true;
            job.durable = true;
            job.make_directory = Some(EntryPath::new("new/deeper").unwrap());
        };
        let planned = place.run(&Order::contents(lanes).job(dry));
        assert_eq!(planned.summary.fatal, None);
        assert!(planned.writes().is_empty() && planned.count(OperationKind::Barrier) == 0);
        assert_same(&before, &place.target_view());
        let done = place.run(&Order::contents(lanes));
        let (plan, did) = (&planned.summary.counters, &done.summary.counters);
        assert_eq!(plan.entries_scanned, did.entries_scanned);
        assert_eq!((plan.entries_created, plan.entries_updated), (did.entries_created, did.entries_updated));
        assert_eq!(plan.entries_only_in_target, did.entries_only_in_target);
        assert_eq!(Sums::of(&planned).scanned, Sums::of(&planned).told);
        let lines = planned.events.iter().filter(|event| matches!(event, Event::Planned { .. })).count();
        assert_eq!(lines as u64, plan.entries_created + plan.entries_updated + plan.entries_attributes_only);
    }
}

#[test]
fn what_is_in_the_way_stays_or_is_replaced() {
    let place = Place::new();
    let (source, target) = (place.source(), place.target());
    let numbers = &mut Numbers(4);
    for name in ["file-on-directory", "file-on-link", "file-on-fifo", "file-on-file"] {
        write(&source.join(name), numbers, 50);
    }
    write(&source.join("large-on-link"), numbers, 500_000);
    symlink("x", source.join("link-on-directory")).unwrap();
    symlink("x", source.join("link-on-file")).unwrap();
    for name in ["directory-on-file", "directory-on-link", "directory-on-directory"] {
        fs::create_dir(source.join(name)).unwrap();
        write(&source.join(name).join("in"), numbers, 10);
    }
    fs::create_dir(place.source().join("../outside")).unwrap();
    for name in ["file-on-directory", "link-on-directory", "directory-on-directory"] {
        fs::create_dir(target.join(name)).unwrap();
        write(&target.join(name).join("kept"), numbers, 10);
    }
    for name in ["directory-on-file", "file-on-file", "link-on-file"] {
        write(&target.join(name), numbers, 60);
    }
    for name in ["file-on-link", "large-on-link", "directory-on-link"] {
        symlink("../outside", target.join(name)).unwrap();
    }
    fifo(&target.join("file-on-fifo"));
    for lanes in [1, 3] {
        let made = place.run(&Order::contents(lanes));
        let expected = ["directory-on-file", "file-on-directory", "link-on-directory"];
        let expected = expected.map(|name| (name.to_owned(), ErrorKind::Conflict));
        assert_eq!(failures(&made), expected);
        assert_eq!(made.summary.fatal, None);
        assert_eq!(Sums::of(&made).scanned, Sums::of(&made).told);
    }
    let (here, there) = (place.source_view(), place.target_view());
    for path in ["file-on-link", "file-on-fifo", "file-on-file", "large-on-link", "link-on-file"] {
        assert_eq!(here.0.get(path.as_bytes()), there.0.get(path.as_bytes()), "{path}");
    }
    for path in ["directory-on-link", "directory-on-link/in", "directory-on-directory/in"] {
        assert_eq!(here.0.get(path.as_bytes()), there.0.get(path.as_bytes()), "{path}");
    }
    for path in ["directory-on-directory/kept", "file-on-directory/kept", "link-on-directory/kept"] {
        assert!(there.0.contains_key(path.as_bytes()), "{path}");
    }
    assert!(View::of(&place.source().join("../outside")).0.len() == 1, "written through a link");
}

#[test]
fn a_target_directory_is_made_first() {
    let place = Place::new();
    small(&place.source(), 31);
    let new = EntryPath::new("new").unwrap();
    let order = Order::items(2, &[("link-to-nothing", "new/link"), ("file-not-there", "new/x")]);
    let made = place.run(&order.job(|job| job.make_directory = Some(new.clone())));
    assert_eq!(made.summary.fatal, None);
    assert_eq!(failures(&made), [("file-not-there".to_owned(), ErrorKind::NotFound)]);
    assert!(fs::read_link(place.target().join("new/link")).is_ok());
    assert_eq!(place.target_view().0.len(), 3);
    // A file in its place ends the run at once.
    fs::remove_dir_all(place.target().join("new")).unwrap();
    fs::write(place.target().join("new"), "in the way").unwrap();
    let order = Order::items(2, &[("link-to-nothing", "new/link")]);
    let made = place.run(&order.job(|job| job.make_directory = Some(new)));
    assert_eq!(made.summary.fatal.map(|error| error.kind), Some(ErrorKind::Conflict));
    assert_eq!(fs::read(place.target().join("new")).unwrap(), b"in the way");
}

/// Items that need only attributes are answered while the next items are inspected.
#[test]
fn several_items_all_arrive() {
    for lanes in [1, 2, 5] {
        let place = Place::new();
        let source = place.source();
        let numbers = &mut Numbers(14);
        fs::create_dir_all(source.join("directory/inner")).unwrap();
        for (name, size) in [("a", 10), ("b", 20), ("c", 700_000), ("directory/inner/d", 6)] {
            write(&source.join(name), numbers, size);
        }
        symlink("a", source.join("link")).unwrap();
        fifo(&source.join("fifo"));
        let items = [
            ("a", "a"),
            ("b", "b"),
            ("fifo", "fifo"),
            ("c", "c"),
            ("directory", "directory"),
            ("link", "link"),
        ];
        for round in 0..3 {
            let made = place.run(&Order::items(lanes, &items));
            assert_eq!(made.summary.fatal, None, "round {round}");
            assert_eq!(failures(&made), [("fifo".to_owned(), ErrorKind::Unsupported)]);
            assert_eq!(Sums::of(&made).scanned, Sums::of(&made).told);
            assert_eq!(made.summary.digest, None);
            let (mut here, mut there) = (place.source_view().copied(), place.target_view());
            here.0.remove(&b""[..]);
            here.0.remove(&b"fifo"[..]);
            there.0.remove(&b""[..]);
            assert_same(&here, &there);
            for name in ["a", "b", "c", "directory"] {
                dress(&source.join(name), numbers);
            }
            // Equal except for the mode, so that only attributes must be set.
            let time = fs::metadata(place.target().join("a")).unwrap().modified().unwrap();
            for name in ["a", "b", "c"] {
                let times = fs::FileTimes::new().set_modified(time);
                for side in [&source, &place.target()] {
                    fs::File::options().append(true).open(side.join(name)).unwrap().set_times(times).unwrap();
                }
            }
        }
    }
}

#[test]
fn content_goes_to_a_device_and_is_digested() {
    let place = Place::new();
    let null = Path::new("/dev");
    for (size, lanes) in [(0, 1), (77, 2), (13_000_000, 5)] {
        let bytes = crate::tree::content(&mut Numbers(size as u64), size);
        fs::write(place.source().join("file"), &bytes).unwrap();
        let order = Order::items(lanes, &[("file", "null")]).job(|job| {
            job.items[0].place = DraftKind::Sink;
            job.durable = true;
        });
        // The test does not search `/dev`, where other programs work.
        let made = place.run_device(null, &order);
        assert_eq!(made.summary.fatal, None);
        assert!(made.summary.failures.is_empty());
        assert_eq!(made.summary.digest, Some(*blake3::hash(&bytes).as_bytes()));
        assert_eq!(made.summary.counters.target_written_bytes, size as u64);
        assert_eq!(made.count(OperationKind::Barrier), 0);
    }
    // A file that is not such a device is not changed.
    fs::write(place.target().join("file"), "kept").unwrap();
    let made =
        place.run(&Order::items(2, &[("file", "file")]).job(|job| job.items[0].place = DraftKind::Sink));
    assert_eq!(failures(&made), [("file".to_owned(), ErrorKind::Refused)]);
    assert_eq!(fs::read(place.target().join("file")).unwrap(), b"kept");
}

#[test]
fn what_the_target_has_and_the_source_lacks_is_counted_and_kept() {
    let place = Place::new();
    small(&place.source(), 33);
    small(&place.target(), 34);
    let before = place.target_view();
    let made = place.run(&Order::contents(3));
    let source = place.source_view();
    // Counted where both ends have the directory.
    let only = before.0.keys().filter(|path| !source.0.contains_key(*path));
    let parent = |path: &[u8]| match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => path[..slash].to_vec(),
        None => Vec::new(),
    };
    let counted = only.clone().filter(|path| source.is_directory(&parent(path))).count() as u64;
    assert!(counted > 0);
    assert_eq!(made.summary.counters.entries_only_in_target, counted);
    let after = place.target_view();
    let mut kept = after.clone();
    only.for_each(|path| assert!(kept.0.remove(path).is_some(), "removed from the target"));
    assert_honest(&source, &before, &kept, &made);
}
