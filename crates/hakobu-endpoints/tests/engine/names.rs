//! Tests of names that the target cannot hold: each is reported, and no entry takes the place of another.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::chown;

use hakobu_core::error::ErrorKind;
use hakobu_core::job::Mode;
use hakobu_core::names::NameRules;
use hakobu_testkit::faults::{FaultPlan, OperationKind};
use hakobu_testkit::sshd::no_root;

use crate::bench::{Order, Place};

const WINDOWS: NameRules = NameRules { bytes_max: 100, text: true, windows: true, ignores_case: true };

fn order() -> Order {
    let mut order = Order::contents(2);
    order.names = Some(WINDOWS);
    order
}

#[test]
fn what_cannot_be_named_fails_and_the_others_come() {
    let place = Place::new();
    let long = "x".repeat(101);
    let bad: [&[u8]; 5] = [b"\xe3\x81", b"a:b", b"dot.", b"blank ", long.as_bytes()];
    let good = ["a.b", "日本語", ".hidden"];
    fs::create_dir(place.source().join("in")).unwrap();
    for name in bad.iter().copied().chain(good.map(str::as_bytes)) {
        fs::write(place.source().join("in").join(OsStr::from_bytes(name)), name).unwrap();
    }
    // A directory whose name is invalid is not read.
    fs::create_dir(place.source().join("what?")).unwrap();
    fs::write(place.source().join("what?/below"), "x").unwrap();
    let mut expected: Vec<_> = bad.iter().map(|name| [b"in/", *name].concat()).collect();
    expected.push(b"what?".to_vec());
    expected.sort();
    let foreseen = place.run(&order().job(|job| job.dry_run = true));
    assert_eq!(foreseen.failed_paths(), expected, "a dry run says so as well");
    let made = place.run(&order());
    assert_eq!(made.failed_paths(), expected);
    assert!(made.summary.failures.iter().all(|failure| failure.error.kind == ErrorKind::Unsupported));
    let mut there: Vec<_> =
        fs::read_dir(place.target().join("in")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, [".hidden", "a.b", "日本語"]);
    assert!(!place.target().join("what?").exists());
}

#[test]
fn names_that_are_one_there_do_not_overwrite_each_other() {
    let place = Place::new();
    for name in ["README", "Readme", "other"] {
        fs::write(place.source().join(name), name).unwrap();
    }
    let made = place.run(&order());
    assert_eq!(made.failed_paths(), [b"Readme".to_vec()]);
    assert_eq!(made.summary.failures[0].error.kind, ErrorKind::Conflict);
    assert_eq!(fs::read(place.target().join("README")).unwrap(), b"README");
    // Another run gives the same result: the existing entry is the right one.
    assert_eq!(place.run(&order()).failed_paths(), [b"Readme".to_vec()]);
}

/// To such a target both names are one file: its file would be overwritten, and then be treated as an extra entry.
#[test]
fn what_the_target_has_in_another_case_is_in_the_way() {
    let place = Place::new();
    fs::write(place.source().join("name"), "new").unwrap();
    fs::write(place.target().join("NAME"), "old").unwrap();
    let made = place.run(&order().job(|job| job.mode = Mode::Delta));
    assert_eq!(made.failed_paths(), [b"name".to_vec()]);
    // The rename to that case was requested and refused, because this directory does not ignore case.
    assert!(made.writes().iter().all(|logged| logged.kind == OperationKind::Apply), "{:?}", made.writes());
    assert!(!place.target().join("name").exists());
    assert_eq!(fs::read(place.target().join("NAME")).unwrap(), b"old");
}

#[test]
fn two_entries_are_never_taken_for_one_in_another_case() {
    let place = Place::new();
    fs::write(place.source().join("name"), "new").unwrap();
    for name in ["NAME", "Name"] {
        fs::write(place.target().join(name), "old").unwrap();
    }
    let made = place.run(&order());
    assert_eq!(made.failed_paths(), [b"name".to_vec()]);
    for name in ["NAME", "Name"] {
        assert_eq!(fs::read(place.target().join(name)).unwrap(), b"old");
    }
}

#[test]
fn a_dry_run_foresees_that_inodes_run_out() {
    let place = Place::new();
    fs::create_dir(place.source().join("directory")).unwrap();
    for name in ["one", "directory/two"] {
        fs::write(place.source().join(name), name).unwrap();
    }
    for (free, lacks) in [(2, true), (3, false)] {
        let mut order = Order::contents(1).job(|job| job.dry_run = true);
        order.free_inodes = Some(free);
        let made = place.run(&order);
        assert_eq!(made.summary.fatal.map(|error| error.kind), lacks.then_some(ErrorKind::Refused), "{free}");
    }
}

/// While the target looks up the numbers of accounts, it answers an earlier list, which makes a rename necessary.
#[test]
fn answers_go_to_what_asked_for_them() {
    if no_root() {
        return;
    }
    for seed in 0..20 {
        let place = Place::new();
        for (index, owner) in (1..9).zip([1, 2, 3, 5, 6, 7, 8, 9]) {
            let name = format!("directory {index}");
            fs::create_dir(place.source().join(&name)).unwrap();
            fs::create_dir(place.target().join(&name)).unwrap();
            fs::write(place.source().join(&name).join("file"), "new").unwrap();
            chown(place.source().join(&name).join("file"), Some(owner), Some(owner)).unwrap();
            fs::write(place.target().join(&name).join("FILE"), "old").unwrap();
        }
        let mut order = order().job(|job| (job.by_name, job.mode) = (true, Mode::Delta));
        order.target = FaultPlan::new(seed).reorder(3);
        let made = place.run(&order);
        assert_eq!(made.summary.fatal.map(|error| error.to_string()), None, "{seed}");
    }
}
