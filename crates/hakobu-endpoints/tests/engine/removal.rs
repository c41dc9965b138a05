//! Tests of extra entries: counted by one run, removed by another.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use hakobu_core::job::Removal;
use hakobu_testkit::faults::OperationKind::{Apply, List, Store};
use hakobu_testkit::faults::{FaultCondition, FaultEffect, FaultPlan};

use crate::bench::{Made, Order, Place};
use crate::tree::{Numbers, dress, socket, stamp, write};
use crate::view::{View, assert_same};

fn order(lanes: u16, removal: Removal) -> Order {
    Order::contents(lanes).job(|job| (job.removal, job.removals_max) = (removal, u64::MAX))
}

fn run(place: &Place, order: &Order) -> Made {
    let made = place.run(order);
    assert_eq!(made.summary.fatal, None);
    made
}

/// Creates some files and directories from a seed.
fn grow(root: &Path, numbers: &mut Numbers, count: usize) {
    let mut open = vec![root.to_path_buf()];
    for index in 0..count {
        let parent = numbers.one_of(&open).clone();
        // Few names, so that trees have some in common, with other kinds as well.
        let path = parent.join(format!("name-{}", numbers.below(count)));
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        match numbers.below(4) {
            0 => {
                fs::create_dir(&path).unwrap();
                open.push(path);
            }
            1 => symlink(format!("to-{index}"), &path).unwrap(),
            2 if index % 9 == 0 => write(&path, numbers, 400_000),
            _ => {
                let size = numbers.below(300);
                write(&path, numbers, size);
            }
        }
    }
    for path in open.iter().rev() {
        dress(path, numbers);
    }
}

#[test]
fn any_tree_becomes_any_other() {
    for (round, lanes) in (0..24u64).zip([1, 2, 5].into_iter().cycle()) {
        let place = Place::new();
        let numbers = &mut Numbers(round);
        grow(&place.source(), numbers, 40);
        grow(&place.target(), numbers, 40);
        let (source, before) = (place.source_view(), place.target_view());
        let remote = round % 2 == 0;
        let go = |removal| {
            let mut order = order(lanes, removal);
            order.remote = remote;
            order.target = FaultPlan::new(round).reorder(8);
            run(&place, &order)
        };
        let counted = go(Removal::Count);
        assert_eq!(counted.failed_paths(), Vec::<Vec<u8>>::new());
        let figures = &counted.summary.counters;
        assert_eq!((figures.entries_deleted, figures.entries_in_target), (0, before.0.len() as u64 - 1));
        // Nothing was removed yet except entries replaced by another kind.
        let after = place.target_view();
        assert!(before.0.keys().all(|path| after.0.contains_key(path)));
        assert_made(&counted, &before, &after);
        let removed = go(Removal::Remove);
        let extras = figures.entries_only_in_target;
        assert_eq!(removed.summary.counters.entries_deleted, extras, "round {round}");
        assert_eq!(removed.summary.counters.entries_only_in_target, 0);
        let in_the_way = removed.summary.counters.entries_in_the_way;
        assert_eq!(in_the_way, figures.entries_in_the_way);
        // The removal copied nothing.
        assert_eq!(removed.summary.counters.target_written_bytes, 0);
        if in_the_way > 0 {
            go(Removal::Leave);
        }
        assert_same(&source, &place.target_view());
        let again = go(Removal::Remove);
        assert!(again.writes().is_empty(), "round {round}: {:?}", again.writes());
    }
}

/// Checks that both ends report at least the number of new entries.
fn assert_made(made: &Made, before: &View, after: &View) {
    let new = after.0.keys().filter(|path| !before.0.contains_key(*path)).count() as u64;
    let absent = made.summary.counters.entries_absent;
    assert!(new <= absent, "{new} new entries, {absent} that the target did not have");
    assert!(new <= made.entries_made, "{new} new entries, {} that it says it made", made.entries_made);
}

/// A run that lost its connection has created entries that it does not know of. The counters of both ends are enough to
/// tell how many entries existed before.
#[test]
fn a_run_that_was_lost_made_no_more_than_either_end_says() {
    let mut middle = 0;
    for (round, lanes) in (0..40u64).zip([1, 2, 5].into_iter().cycle()) {
        let place = Place::new();
        let numbers = &mut Numbers(round);
        grow(&place.source(), numbers, 60);
        grow(&place.target(), numbers, 20);
        let before = place.target_view();
        let (mut lost, fault) = (order(lanes, Removal::Count), hakobu_core::error::ErrorKind::ConnectionLost);
        // The pending operation is performed, but its answer is lost.
        let kind = if round % 2 == 0 { Store } else { Apply };
        lost.target =
            FaultPlan::new(round).on(kind, FaultCondition::Nth(1 + round % 4), FaultEffect::Unheard(fault));
        let made = place.run(&lost);
        let after = place.target_view();
        assert_made(&made, &before, &after);
        if made.summary.fatal.is_some() && after.0.len() > before.0.len() {
            middle += 1;
        }
        // The next run sees the entries that this one created.
        let again = run(&place, &order(lanes, Removal::Count));
        let seen = again.summary.counters.entries_in_target;
        assert_eq!(seen, after.0.len() as u64 - 1, "round {round}");
        for may_be_new in [made.summary.counters.entries_absent, made.entries_made] {
            assert!(seen.saturating_sub(may_be_new) < before.0.len() as u64, "round {round}");
        }
    }
    assert!(middle > 10, "only {middle} runs were lost in the middle");
}

/// Nothing counts twice, because the number of entries before the run would then seem too small.
#[test]
fn what_is_new_is_made_once() {
    let place = Place::new();
    let source = place.source();
    fs::create_dir_all(source.join("one/two/three")).unwrap();
    for (name, size) in [("small", 10), ("one/two/small", 10), ("large", 400_000), ("one/empty", 0)] {
        fs::write(source.join(name), vec![1; size]).unwrap();
    }
    for (number, name) in ["small", "one/two/small", "large"].iter().enumerate() {
        fs::hard_link(source.join(name), source.join(format!("one/name-{number}"))).unwrap();
    }
    symlink("to", source.join("link")).unwrap();
    for lanes in [1, 5] {
        let order = order(lanes, Removal::Count).job(|job| job.hard_links = true);
        let made = run(&place, &order);
        let (counters, all) = (&made.summary.counters, place.target_view().0.len() as u64 - 1);
        assert_eq!((counters.entries_absent, made.entries_made, all), (11, 11, 11));
        let again = run(&place, &order);
        assert_eq!((again.summary.counters.entries_absent, again.entries_made), (0, 0));
        fs::remove_dir_all(place.target()).unwrap();
        fs::create_dir(place.target()).unwrap();
    }
}

/// Existing entries do not count as created, however they are changed.
#[test]
fn what_is_updated_is_not_made() {
    let place = Place::new();
    for (index, root) in [place.source(), place.target()].iter().enumerate() {
        fs::create_dir(root.join("directory")).unwrap();
        for name in ["small", "directory/small", "large"] {
            let size = if name == "large" { 400_000 } else { 10 };
            fs::write(root.join(name), vec![index as u8; size + index]).unwrap();
        }
        symlink("to".repeat(index + 1), root.join("link")).unwrap();
        fs::set_permissions(root.join("directory"), Permissions::from_mode(0o700 + index as u32)).unwrap();
    }
    let made = run(&place, &order(2, Removal::Count));
    let counters = &made.summary.counters;
    assert_eq!((counters.entries_updated, counters.entries_in_target), (4, 5));
    assert_eq!((counters.entries_absent, made.entries_made), (0, 0));
    assert_same(&place.source_view(), &place.target_view());
}

#[test]
fn a_copy_counts_what_only_the_target_has_and_leaves_it() {
    let place = Place::new();
    fs::create_dir_all(place.target().join("old/deep")).unwrap();
    fs::write(place.target().join("old/deep/file"), "x").unwrap();
    let made = run(&place, &Order::contents(2));
    let figures = &made.summary.counters;
    assert_eq!((figures.entries_only_in_target, figures.entries_deleted), (1, 0));
    let counted = run(&place, &order(2, Removal::Count));
    assert_eq!(counted.summary.counters.entries_only_in_target, 3);
    let examples: Vec<_> = counted.summary.only_in_target.iter().map(ToString::to_string).collect();
    assert_eq!(examples, ["old", "old/deep", "old/deep/file"]);
    assert!(place.target().join("old/deep/file").exists());
}

#[test]
fn what_the_source_has_of_any_kind_stays() {
    let place = Place::new();
    fs::write(place.target().join("socket"), "kept").unwrap();
    socket(&place.source().join("socket"));
    let made = run(&place, &order(2, Removal::Remove));
    assert_eq!(made.summary.counters.entries_deleted, 0);
    assert_eq!(fs::read(place.target().join("socket")).unwrap(), b"kept");
}

#[test]
fn nothing_goes_from_a_directory_whose_attributes_are_unknown() {
    let place = Place::new();
    for root in [place.source(), place.target()] {
        fs::create_dir(root.join("a")).unwrap();
        fs::set_permissions(root.join("a"), Permissions::from_mode(0o751)).unwrap();
    }
    for old in ["a/old", "old"] {
        fs::write(place.target().join(old), "x").unwrap();
    }
    let before = place.target_view();
    let broken = FaultPlan::new(1).on(List, FaultCondition::Nth(1), FaultEffect::Undescribed);
    let made = place.run(&order(1, Removal::Remove).target(broken));
    assert_eq!(made.failed_paths(), [b"a"], "{:?}", made.summary.failures);
    let after = place.target_view();
    assert_eq!(after.0.get(&b"a"[..]), before.0.get(&b"a"[..]));
    assert!(place.target().join("a/old").exists() && !place.target().join("old").exists());
    let made = run(&place, &order(1, Removal::Remove));
    assert_eq!((made.failed_paths().len(), made.summary.counters.entries_deleted), (0, 1));
    let mode = fs::metadata(place.target().join("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
}

#[test]
fn nothing_goes_where_the_source_could_not_be_listed() {
    let place = Place::new();
    for name in ["a", "b"] {
        fs::create_dir(place.source().join(name)).unwrap();
        fs::create_dir(place.target().join(name)).unwrap();
        fs::write(place.target().join(name).join("old"), "x").unwrap();
    }
    // The second listed directory is one of these.
    let broken = FaultPlan::new(1).on(
        List,
        FaultCondition::Nth(2),
        FaultEffect::OneEntry(hakobu_core::error::ErrorKind::Io),
    );
    let made = place.run(&order(1, Removal::Remove).source(broken));
    assert_eq!(made.summary.counters.entries_failed, 1, "{:?}", made.summary.failures);
    assert_eq!(made.summary.counters.entries_deleted, 1);
    let left = ["a", "b"].iter().filter(|name| place.target().join(name).join("old").exists()).count();
    assert_eq!(left, 1);
}

#[test]
fn what_cannot_be_removed_is_told_once_and_counted_as_left() {
    let place = Place::new();
    fs::create_dir_all(place.target().join("old/deep")).unwrap();
    fs::write(place.target().join("old/deep/file"), "x").unwrap();
    fs::write(place.target().join("old/other"), "x").unwrap();
    stamp(&place.target(), 1, 1);
    stamp(&place.source(), 1, 1);
    // The first entry found is the first to be removed.
    let broken = FaultPlan::new(1).on(
        Apply,
        FaultCondition::Nth(1),
        FaultEffect::OneEntry(hakobu_core::error::ErrorKind::PermissionDenied),
    );
    let made = place.run(&order(1, Removal::Remove).target(broken));
    let figures = &made.summary.counters;
    let left = View::of(&place.target()).0.len() as u64 - 1;
    assert_eq!((figures.entries_only_in_target, figures.entries_deleted), (left, 4 - left));
    assert_eq!(made.failed_paths().len(), 1, "{:?}", made.summary.failures);
    assert!(left > 0);
}

/// The source has changed since the user agreed, for example because it is no longer mounted.
#[test]
fn no_more_goes_than_was_agreed_to() {
    for lanes in [1, 5] {
        let place = Place::new();
        for directory in 0..9 {
            let directory = place.target().join(format!("old-{directory}"));
            fs::create_dir(&directory).unwrap();
            (0..9).for_each(|file| fs::write(directory.join(file.to_string()), "x").unwrap());
        }
        let before = place.target_view().0.len() as u64;
        let made = place.run(&order(lanes, Removal::Remove).job(|job| job.removals_max = 3));
        let fatal = made.summary.fatal.unwrap();
        assert!(
            fatal.kind == hakobu_core::error::ErrorKind::Refused && fatal.detail.contains("the 3 entries")
        );
        let gone = before - place.target_view().0.len() as u64;
        assert!(gone <= 3, "{gone}");
    }
}

#[test]
fn a_plan_names_everything_and_changes_nothing() {
    use hakobu_core::event::Event;
    let place = Place::new();
    fs::create_dir_all(place.target().join("old")).unwrap();
    fs::write(place.target().join("old/file"), "x").unwrap();
    let before = place.target_view();
    let made = run(&place, &order(2, Removal::Count).job(|job| job.dry_run = true));
    let mut planned: Vec<_> = made
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Planned { action, path, .. } => Some((action.clone(), path.clone())),
            _ => None,
        })
        .collect();
    planned.sort();
    let delete = |path: &str| ("delete".into(), path.as_bytes().to_vec());
    assert_eq!(planned, [delete("old"), delete("old/file")]);
    assert_same(&before, &place.target_view());
}
