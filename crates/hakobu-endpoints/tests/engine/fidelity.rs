//! Tests of properties that `ls -l` does not show: hard links, extended attributes, holes of small files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use hakobu_core::error::ErrorKind;
use hakobu_core::event::Event;
use hakobu_core::extended::Classes;
use hakobu_core::job::Mode;
use hakobu_core::losses::LossKind;
use hakobu_testkit::faults::OperationKind::{Apply, Begin, Extended, Store};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan};
use hakobu_testkit::sshd::no_root;
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, removexattr, setxattr};

use crate::bench::{Made, Order, Place};
use crate::plain::assert_whole;
use crate::tree::{Numbers, stamp, write};
use crate::view::assert_same;

/// The extended attributes of each entry, and the first name of its inode.
type Deep = BTreeMap<PathBuf, (BTreeMap<String, Vec<u8>>, PathBuf)>;

fn deep(root: &Path) -> Deep {
    let (mut found, mut firsts) = (Deep::new(), HashMap::new());
    let mut open = vec![root.to_path_buf()];
    let mut paths = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    paths.sort();
    for path in paths {
        let below = path.strip_prefix(root).unwrap().to_path_buf();
        let inode = fs::symlink_metadata(&path).unwrap().ino();
        let first = firsts.entry(inode).or_insert_with(|| below.clone()).clone();
        found.insert(below, (attributes(&path), first));
    }
    found
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = llistxattr(path, &mut names[..]).unwrap();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let read = |name: &[u8]| {
        let mut value = vec![0; 65_536];
        let length = lgetxattr(path, name, &mut value[..]).unwrap();
        (String::from_utf8(name.to_vec()).unwrap(), value[..length].to_vec())
    };
    names.map(read).collect()
}

fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// Returns an access list that gives user 7 read permission: owner, user 7, group, mask, others.
fn access_list() -> Vec<u8> {
    let entry = |tag: u16, permissions: u16, id: u32| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let entries = [
        entry(1, 6, u32::MAX),
        entry(2, 4, 7),
        entry(4, 4, u32::MAX),
        entry(16, 4, u32::MAX),
        entry(32, 0, u32::MAX),
    ];
    [&2u32.to_le_bytes()[..], &entries.concat()].concat()
}

/// Creates directories with many names of few inodes, some large, and attributes on some.
fn grow(root: &Path, numbers: &mut Numbers) {
    let mut directories = vec![root.to_path_buf()];
    for index in 0..6 {
        let path = numbers.one_of(&directories).join(format!("d{index}"));
        fs::create_dir(&path).unwrap();
        directories.push(path);
    }
    let mut names: Vec<PathBuf> = Vec::new();
    for index in 0..60 {
        let path = numbers.one_of(&directories).join(format!("n{index}"));
        match numbers.below(8) {
            0..4 if !names.is_empty() => fs::hard_link(numbers.one_of(&names), &path).unwrap(),
            4 => symlink(format!("to {index}"), &path).unwrap(),
            5 => write(&path, numbers, 300_000),
            _ => write(&path, numbers, 100),
        }
        names.push(path);
    }
    for path in names.iter().chain(&directories) {
        if fs::symlink_metadata(path).unwrap().is_symlink() {
            continue;
        }
        match numbers.below(4) {
            0 => set(path, "user.tag", format!("{}", numbers.below(9)).as_bytes()),
            1 => set(path, "system.posix_acl_access", &access_list()),
            2 if path.is_dir() => set(path, "system.posix_acl_default", &access_list()),
            _ => {}
        }
    }
    // Times come last: hard links and attributes do not change them, but hard links change those of directories.
    for (index, path) in directories.iter().enumerate().rev() {
        stamp(path, index as i64, 7);
    }
}

fn keeping(lanes: u16) -> Order {
    Order::contents(lanes).job(|job| (job.extended, job.hard_links) = (Classes::USUAL, true))
}

fn equal(place: &Place) {
    assert_same(&place.source_view(), &place.target_view());
    assert_eq!(deep(&place.source()), deep(&place.target()));
}

fn run(place: &Place, order: &Order) -> Made {
    let made = place.run(order);
    assert_whole(&made, &[]);
    made
}

#[test]
fn everything_is_kept_and_a_second_run_finds_nothing_to_do() {
    for (round, lanes) in (0..16u64).zip([1, 2, 5].into_iter().cycle()) {
        let place = Place::new();
        grow(&place.source(), &mut Numbers(round));
        let mut order = keeping(lanes);
        order.remote = round % 2 == 1;
        let made = run(&place, &order);
        assert_eq!(made.summary.losses, [], "round {round}");
        equal(&place);
        let made = run(&place, &order);
        assert!(made.writes().is_empty(), "round {round}: {:?}", made.writes());
        assert_eq!(made.count(Extended), 0, "what is equal is not read");
    }
}

#[test]
fn links_that_were_broken_or_never_made_are_made() {
    for lanes in [1, 4] {
        let place = Place::new();
        let (source, target) = (place.source(), place.target());
        let numbers = &mut Numbers(7);
        for name in ["a", "b", "c", "d"] {
            fs::create_dir(source.join(name)).unwrap();
        }
        write(&source.join("a/one"), numbers, 50);
        for name in ["b/one", "c/one", "d/one"] {
            fs::hard_link(source.join("a/one"), source.join(name)).unwrap();
        }
        write(&source.join("b/large"), numbers, 900_000);
        fs::hard_link(source.join("b/large"), source.join("c/large")).unwrap();
        let order = keeping(lanes);
        // The first copy does not preserve hard links.
        run(&place, &Order::contents(lanes));
        assert_ne!(deep(&source), deep(&target));
        let made = run(&place, &order);
        equal(&place);
        assert_eq!(made.summary.counters.target_written_bytes, 0, "all content is there");
        // One name is missing, one is a separate file, and the content of all has changed.
        fs::remove_file(target.join("c/one")).unwrap();
        fs::remove_file(target.join("a/one")).unwrap();
        fs::write(target.join("a/one"), "other").unwrap();
        run(&place, &order);
        equal(&place);
        fs::write(source.join("d/one"), "changed in all four").unwrap();
        let made = run(&place, &order);
        equal(&place);
        assert_eq!(made.summary.counters.entries_updated, 4);
        assert_eq!(made.summary.counters.target_written_bytes, 19);
    }
}

#[test]
fn a_snapshot_of_hard_links_beside_the_target_keeps_the_old_content() {
    let place = Place::new();
    write(&place.source().join("file"), &mut Numbers(1), 40);
    run(&place, &keeping(1));
    let snapshot = place.target().parent().unwrap().join("snapshot");
    let old = fs::read(place.target().join("file")).unwrap();
    fs::hard_link(place.target().join("file"), &snapshot).unwrap();
    assert!(run(&place, &keeping(1)).writes().is_empty(), "further names elsewhere are no difference");
    fs::write(place.source().join("file"), "new").unwrap();
    run(&place, &keeping(1));
    assert_eq!(fs::read(snapshot).unwrap(), old);
}

#[test]
fn when_the_first_name_fails_the_next_brings_the_content() {
    for lanes in [1, 3] {
        let place = Place::new();
        for directory in ["a", "b", "c"] {
            fs::create_dir(place.source().join(directory)).unwrap();
        }
        write(&place.source().join("a/x"), &mut Numbers(3), 600_000);
        fs::hard_link(place.source().join("a/x"), place.source().join("b/x")).unwrap();
        fs::hard_link(place.source().join("a/x"), place.source().join("c/x")).unwrap();
        let fault = FaultEffect::Error(ErrorKind::PermissionDenied);
        let order = keeping(lanes).target(FaultPlan::new(4).on(Begin, FaultCondition::Nth(1), fault));
        let made = place.run(&order);
        let failed = made.failed_paths();
        assert_eq!((failed.len(), made.summary.fatal), (1, None));
        let there = ["a/x", "b/x", "c/x"].map(|name| place.target().join(name)).to_vec();
        let there: Vec<_> = there.iter().filter_map(|path| fs::metadata(path).ok()).collect();
        assert_eq!(there.len(), 2);
        assert_eq!((there[0].ino(), there[0].len()), (there[1].ino(), 600_000));
    }
}

#[test]
fn a_name_is_not_linked_to_what_lies_where_the_first_one_failed() {
    for (failing, lanes) in [(1, 1), (1, 3), (2, 1), (2, 3)] {
        let place = Place::new();
        let names: Vec<String> = (0..5).map(|number| format!("name {number}")).collect();
        write(&place.source().join(&names[0]), &mut Numbers(3), 600);
        for name in &names[1..] {
            fs::hard_link(place.source().join(&names[0]), place.source().join(name)).unwrap();
        }
        for name in &names {
            write(&place.target().join(name), &mut Numbers(4), 5_000);
        }
        let mut plan = FaultPlan::new(4);
        for nth in 1..=failing {
            plan = plan.on(Store, FaultCondition::Nth(nth), FaultEffect::OneEntry(ErrorKind::Io));
        }
        let made = place.run(&keeping(lanes).target(plan));
        let failed = made.failed_paths();
        assert_eq!((failed.len() as u64, made.summary.fatal), (failing, None));
        let content = fs::read(place.source().join(&names[0])).unwrap();
        for name in &names {
            let is_failed = failed.iter().any(|path| path[..] == *name.as_bytes());
            let is_new = fs::read(place.target().join(name)).unwrap() == content;
            assert_eq!(is_new, !is_failed, "{name}");
        }
    }
}

#[test]
fn where_no_link_can_be_made_each_name_is_a_file() {
    // In separate directories, because one operation may create both links, and one entry of each operation is refused.
    let kinds = [ErrorKind::Unsupported, ErrorKind::Io, ErrorKind::NotFound];
    for (length, kind) in [60, 600_000].into_iter().flat_map(|length| kinds.map(|kind| (length, kind))) {
        let place = Place::new();
        for directory in ["a", "b"] {
            fs::create_dir(place.source().join(directory)).unwrap();
        }
        write(&place.source().join("a/file"), &mut Numbers(3), length);
        fs::hard_link(place.source().join("a/file"), place.source().join("b/file")).unwrap();
        let mut plan = FaultPlan::new(5);
        for path in ["a/file", "b/file"] {
            let when = FaultCondition::At(path.as_bytes().to_vec());
            plan = plan.on(Apply, when, FaultEffect::OneEntry(kind));
        }
        let made = run(&place, &keeping(2).target(plan));
        assert_same(&place.source_view(), &place.target_view());
        let losses: Vec<_> = made.summary.losses.iter().map(|loss| (loss.what, loss.count)).collect();
        assert_eq!(losses, [(LossKind::HardLinks, 1)], "{length} {kind:?}");
        // A file system without hard links needs no explanation.
        let is_cause = |event: &&Event| matches!(event, Event::Notice { words } if words.contains("hard link could not be made"));
        let causes = made.events.iter().filter(is_cause).count();
        assert_eq!(causes, usize::from(kind != ErrorKind::Unsupported), "{length} {kind:?}");
    }
}

#[test]
fn attributes_that_changed_move_no_data() {
    for lanes in [1, 3] {
        let place = Place::new();
        let (source, target) = (place.source(), place.target());
        fs::create_dir(source.join("dir")).unwrap();
        for name in ["dir/a", "dir/b", "c", "d"] {
            write(&source.join(name), &mut Numbers(9), 500);
        }
        set(&source.join("c"), "user.old", b"1");
        stamp(&source.join("dir"), 5, 0);
        stamp(&source, 6, 0);
        run(&place, &keeping(lanes));
        set(&source.join("dir"), "user.new", b"on a directory");
        set(&source.join("dir/a"), "system.posix_acl_access", &access_list());
        removexattr(source.join("c"), "user.old").unwrap();
        // Attributes that only the target has are removed as well.
        set(&target.join("d"), "user.stray", b"x");
        set(&target.join("dir/b"), "system.posix_acl_access", &access_list());
        let made = run(&place, &keeping(lanes));
        equal(&place);
        let it = &made.summary.counters;
        assert_eq!((it.entries_attributes_only, it.target_written_bytes), (5, 0));
        assert_eq!((it.entries_created, it.entries_updated), (0, 0));
        // Attributes of classes that are not kept stay unchanged.
        set(&target.join("d"), "user.stray", b"x");
        let none = keeping(lanes).job(|job| job.extended = Classes::ACL);
        assert!(run(&place, &none).writes().is_empty());
        assert_eq!(attributes(&target.join("d")).len(), 1);
    }
}

#[test]
fn what_a_directory_hands_down_at_the_target_does_not_stay() {
    let place = Place::new();
    set(&place.target(), "system.posix_acl_default", &access_list());
    fs::create_dir_all(place.source().join("new/below")).unwrap();
    for name in ["small", "new/small", "new/below/small"] {
        write(&place.source().join(name), &mut Numbers(2), 10);
    }
    write(&place.source().join("new/large"), &mut Numbers(2), 500_000);
    symlink("x", place.source().join("new/link")).unwrap();
    run(&place, &keeping(2));
    equal(&place);
}

#[test]
fn attributes_that_fill_packs_travel_in_several() {
    let place = Place::new();
    for index in 0..40 {
        let path = place.source().join(format!("f{index}"));
        write(&path, &mut Numbers(index), 20_000);
        set(&path, "user.large", &vec![index as u8; 40_000]);
    }
    let made = run(&place, &keeping(2));
    equal(&place);
    assert!(made.count(Store) >= 3, "without attributes two would be enough");
}

#[test]
fn small_files_keep_their_holes() {
    let place = Place::new();
    let file = fs::File::create(place.source().join("holes")).unwrap();
    file.set_len(200_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"in the middle", 100_000).unwrap();
    drop(file);
    let made = run(&place, &keeping(1));
    equal(&place);
    assert_eq!(made.count(Begin), 0);
    let blocks = |root: PathBuf| fs::metadata(root.join("holes")).unwrap().blocks();
    assert_eq!(blocks(place.target()), blocks(place.source()));
    assert!(blocks(place.target()) < 20);
}

/// Equal files are left alone if it is unknown whether they are one file at the target.
#[test]
fn equal_files_stay_apart_where_inodes_are_not_told() {
    for told in [true, false] {
        let place = Place::new();
        write(&place.source().join("a"), &mut Numbers(3), 300);
        fs::hard_link(place.source().join("a"), place.source().join("b")).unwrap();
        // They become two files.
        place.run(&Order::contents(2).job(|job| job.hard_links = false));
        let mut again = keeping(2);
        again.source_inodes = told;
        let made = place.run(&again);
        assert!(made.summary.fatal.is_none() && made.failed_paths().is_empty());
        let inode = |name: &str| fs::metadata(place.target().join(name)).unwrap().ino();
        assert_eq!(inode("a") == inode("b"), told);
        assert_same(&place.source_view(), &place.target_view());
    }
}

/// An unsupported attribute is one loss, whether content is copied or only an attribute is set.
#[test]
fn a_loss_is_counted_once() {
    if no_root() {
        return;
    }
    let place = Place::new();
    let file = place.source().join("file");
    write(&file, &mut Numbers(6), 300);
    setxattr(&file, "user.kept", b"1", XattrFlags::empty()).unwrap();
    setxattr(&file, "trusted.lost", b"1", XattrFlags::empty()).unwrap();
    let mut order = keeping(1);
    order.extended = Some(Classes::USER);
    for round in [b"1", b"2", b"2"] {
        setxattr(&file, "user.kept", round, XattrFlags::empty()).unwrap();
        let made = place.run(&order);
        assert!(made.summary.fatal.is_none() && made.failed_paths().is_empty());
        let losses: Vec<_> = made.summary.losses.iter().map(|loss| (loss.what, loss.count)).collect();
        assert_eq!(losses, [(LossKind::Xattr, 1)]);
        let mut value = [0; 4];
        let length = lgetxattr(place.target().join("file"), "user.kept", &mut value[..]).unwrap();
        assert_eq!(&value[..length], round);
    }
}

/// A device keeps no attributes of the source, so none are lost by writing to it.
#[test]
fn content_that_goes_to_a_device_loses_nothing() {
    let place = Place::new();
    let file = place.source().join("file");
    write(&file, &mut Numbers(7), 700_000);
    setxattr(&file, "user.a", b"1", XattrFlags::empty()).unwrap();
    let mut order = Order::items(1, &[("file", "null")]).job(|job| {
        job.items[0].place = hakobu_core::endpoint::DraftKind::Sink;
        job.extended = Classes::USUAL;
    });
    order.extended = Some(Classes::NONE);
    let made = place.run_device(Path::new("/dev"), &order);
    assert_whole(&made, &[]);
    assert_eq!(made.summary.losses, []);
    assert_eq!(made.count(Extended), 0, "nobody asks for them");
}

/// Returns the losses that a run reports, with the number of entries.
fn losses(made: &Made) -> Vec<(LossKind, u64)> {
    made.summary.losses.iter().map(|loss| (loss.what, loss.count)).collect()
}

#[test]
fn what_the_directory_that_was_named_loses_is_counted_as_well() {
    let place = Place::new();
    stamp(&place.source(), 1_000_000_000, 5);
    let in_seconds = Order { shows: |able| able.time_step_ns = 1_000_000_000, ..Order::contents(1) };
    for round in 0..2 {
        assert_eq!(losses(&run(&place, &in_seconds)), [(LossKind::Times, 1)], "round {round}");
    }
    let plan = in_seconds.job(|job| job.dry_run = true);
    assert_eq!(losses(&run(&place, &plan)), [(LossKind::Times, 1)]);
    let refusing = plan.job(|job| (job.dry_run, job.require) = (false, vec![LossKind::Times]));
    let made = place.run(&refusing);
    assert_eq!((losses(&made), made.failed_paths()), (vec![], vec![b"".to_vec()]));
}

#[test]
fn what_a_directory_that_is_compared_cannot_hold_is_counted() {
    let place = Place::new();
    stamp(&place.source(), 1_000_000_000, 0);
    stamp(&place.target(), 2_000_000_000, 0);
    let late = Order { shows: |able| able.time_first_s = 2_000_000_000, ..Order::contents(1) };
    let made = run(&place, &late.job(|job| job.mode = Mode::Compare));
    assert_eq!(losses(&made), [(LossKind::Times, 1)]);
}

/// Setting attributes reports their losses, which are counted once.
#[test]
fn what_an_entry_loses_is_counted_once() {
    if no_root() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.source().join("d")).unwrap();
    fs::write(place.source().join("d/f"), "x").unwrap();
    let foreign = |path: &Path| std::os::unix::fs::chown(path, Some(4711), Some(815)).unwrap();
    for path in [place.source(), place.source().join("d"), place.source().join("d/f")] {
        foreign(&path);
    }
    let order = Order { may_chown: false, ..Order::contents(1) };
    for round in 0..3 {
        assert_eq!(losses(&run(&place, &order)), [(LossKind::Owner, 3)], "round {round}");
        let mode = fs::Permissions::from_mode(0o700 + round);
        fs::set_permissions(place.target().join("d"), mode.clone()).unwrap();
        fs::set_permissions(place.target().join("d/f"), mode).unwrap();
    }
}
