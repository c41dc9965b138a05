//! Several engines copy a directory of many files together, and the result is that of a single one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::job::{Job, Removal};
use hakobu_core::names::NameRules;
use rustix::fs::{FlockOperation, flock};

use crate::bench::{Order, Place, Watchdog};
use crate::exchange::{
    Policy, copy_together, copy_together_with, exclude, figures, links, run_one, run_with,
};
use crate::leases::{large_file, leave_large};
use crate::tree::{Numbers, dress_all, stamp, write};
use crate::view::{View, assert_same, drafts};

/// Makes a directory of so many files, some of which have names that are no text, further names, or are links.
fn flat(root: &Path, numbers: &mut Numbers, files: usize) {
    fs::create_dir_all(root).unwrap();
    for number in 0..files {
        let mut name = format!("{}-{number}", ["f", "F", "skip", "~", "."][number % 5]).into_bytes();
        if number % 7 == 0 {
            name.extend([0xff, number as u8 | 0x80]);
        }
        let path = root.join(OsStr::from_bytes(&name));
        match number % 50 {
            3 => std::os::unix::fs::symlink(format!("f-{number}"), path).unwrap(),
            4 => fs::hard_link(root.join(OsStr::from_bytes(b"F-1")), path).unwrap(),
            5 => {
                fs::create_dir(&path).unwrap();
                write(&path.join("below"), numbers, 30);
            }
            6 if number % 500 == 6 => write(&path, numbers, 1_200_000),
            _ => write(&path, numbers, number % 300),
        }
    }
    dress_all(root, numbers);
}

/// Changes some of the files, and adds and removes others.
fn change(root: &Path, numbers: &mut Numbers) {
    let mut names: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for (number, path) in names.iter().enumerate() {
        match number % 9 {
            0 if path.is_file() => write(path, numbers, number % 250 + 1),
            1 if path.is_file() => stamp(path, 1_300_000_000 + number as i64, 7),
            2 if path.is_file() && number % 2 == 0 => fs::remove_file(path).unwrap(),
            3 => write(&root.join(format!("new-{number}")), numbers, 50),
            _ => {}
        }
    }
}

fn job(lanes: u16, items: &[(&str, &str)]) -> Job {
    let mut job = Order::items(lanes, items).job;
    (job.itemize, job.hard_links, job.removal) = (true, true, Removal::Count);
    job.filter.rules = ["skip-1*", "below"].map(exclude).into();
    job
}

/// Copies a flat directory with one engine and with several, three times. Returns the number of slices of each time.
fn compare((engines, policy): (usize, Policy), files: usize, seed: u64, top: &str) -> [usize; 3] {
    let _watchdog = Watchdog::new();
    let numbers = &mut Numbers(seed);
    let (alone, together) = (Place::new(), Place::new());
    let (source, job) = (alone.source(), job(1 + (seed % 3) as u16, &[(top, top)]));
    let directory = source.join(top).join("flat");
    flat(&directory, numbers, files);
    [0, 1, 2].map(|round| {
        let (expected, _) = run_one(&source, &alone.target(), &job, None);
        assert!(expected.fatal.is_none() && expected.failures.is_empty(), "{expected:?}");
        let state = copy_together(&source, &together.target(), &job, engines, policy);
        let what = format!("{policy:?}, {engines} engines, seed {seed}, round {round}");
        assert_eq!(state.failures, Vec::<String>::new(), "{what}");
        let seen = |place: &Place| View::of(&place.target().join(top));
        assert_same(&seen(&alone), &seen(&together));
        assert_eq!(links(&alone.target()), links(&together.target()), "{what}");
        assert_eq!(figures(&expected.counters), figures(&state.totals), "{what}");
        if round == 0 {
            change(&directory, numbers);
        }
        state.slices
    })
}

#[test]
fn engines_that_share_a_large_directory_copy_what_one_copies() {
    for (engines, policy, top, seed) in
        [(1, Policy::Budget(1), "", 3), (3, Policy::Budget(500), "", 4), (2, Policy::Budget(1500), "top", 5)]
    {
        let slices = compare((engines, policy), 3500, seed, top);
        assert!(slices[0] > 0, "{slices:?}");
        // A single lane gives away before it copies.
        assert!(engines > 1 || slices[0] > 8 && slices[1] > 0, "what changed is shared as well: {slices:?}");
        assert_eq!(slices[2], 0, "nothing is left to do");
    }
}

#[test]
fn whatever_of_a_large_directory_is_given_away_it_is_the_same() {
    let mut slices = 0;
    for seed in 0..16 {
        let engines = 1 + (seed % 4) as usize;
        slices += compare((engines, Policy::Chance(seed * 37)), 1500, seed, "")[0];
    }
    // How often an engine is asked depends on the order in which its lanes run: 14 or more were seen.
    assert!(slices > 8, "{slices}");
}

/// A target that ignores case has one of two files whose names differ in it, whoever copies it.
#[test]
fn names_that_are_one_at_the_target_are_told_apart_by_whoever_lists_the_directory() {
    let ignoring_case: fn(&mut Capabilities) = |able| {
        able.names = NameRules { ignores_case: true, ..able.names };
    };
    let (alone, together, numbers) = (Place::new(), Place::new(), &mut Numbers(5));
    for number in 0..3000 {
        write(&alone.source().join(format!("name-{number}")), numbers, 20);
        if number % 10 == 0 {
            write(&alone.source().join(format!("NAME-{number}")), numbers, 20);
        }
    }
    let (source, job) = (alone.source(), job(2, &[("", "")]));
    for _ in 0..2 {
        let (expected, _) = run_with((&source, &alone.target()), &job, None, ignoring_case);
        let both = (&*source, &*together.target());
        let state = copy_together_with(both, &job, (3, Policy::Budget(1)), ignoring_case, &|| ());
        assert_eq!((expected.failures.len(), state.failures.len()), (300, 300));
        assert_eq!(figures(&expected.counters), figures(&state.totals));
        assert_same(&alone.target_view(), &together.target_view());
    }
}

/// Entries that are gone, or are others, when a slice is begun.
#[test]
fn a_directory_that_changed_after_it_was_listed_is_copied_as_far_as_it_is_there() {
    let (place, numbers) = (Place::new(), &mut Numbers(5));
    (0..2000).for_each(|number| write(&place.source().join(format!("f{number}")), numbers, 20));
    let job = job(1, &[("", "")]);
    let source = place.source();
    let target = place.target();
    let state = copy_together_with((&source, &target), &job, (1, Policy::Budget(1)), |_| (), &|| {
        let mut names: Vec<_> = fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|path| !place.target().join(path.file_name().unwrap()).exists());
        names.sort();
        let [gone, directory, longer, ..] = &names[..] else { panic!("nothing is left to do") };
        fs::remove_file(gone).unwrap();
        fs::remove_file(directory).unwrap();
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("within"), "new").unwrap();
        fs::write(longer, vec![7; 5000]).unwrap();
    });
    assert!(state.slices > 2, "{}", state.slices);
    assert_eq!(state.failures.len(), 1, "{:?}", state.failures);
    assert!(state.failures[0].contains("NotFound"), "{:?}", state.failures);
    assert_eq!(place.source_view().0.len(), place.target_view().0.len());
    let (again, _) = run_one(&source, &place.target(), &job, None);
    assert!(again.failures.is_empty());
    assert_same(&place.source_view(), &place.target_view());
}

/// Whoever copies a slice does not list its directory, so the last one who works on that looks for drafts.
#[test]
fn drafts_that_a_lost_lease_has_left_are_removed_with_the_end_of_the_directory() {
    let (place, other, numbers) = (Place::new(), Place::new(), &mut Numbers(5));
    (0..2000).for_each(|number| write(&place.source().join(format!("f{number}")), numbers, 20));
    large_file(&other.source().join("large"));
    let (source, target, mut job) = (place.source(), place.target(), job(1, &[("", "")]));
    job.clone = false;
    let held = Mutex::new(Vec::new());
    let state = copy_together_with((&source, &target), &job, (1, Policy::Budget(1)), |_| (), &|| {
        leave_large((&other.source(), &target), &job);
        // Its process is stopped, and may go on at any time.
        for draft in drafts(&target) {
            let draft = fs::File::open(draft).unwrap();
            flock(&draft, FlockOperation::LockExclusive).unwrap();
            held.lock().unwrap().push(draft);
        }
    });
    assert!(state.slices > 2 && held.lock().unwrap().len() == 2, "{}", state.slices);
    assert_same(&place.source_view(), &place.target_view());
}

/// Names of one file of the target are those of different files of the source, which only a run that has met both knows.
#[test]
fn names_that_are_one_file_at_the_target_stay_with_whoever_has_met_them() {
    let (alone, together, numbers) = (Place::new(), Place::new(), &mut Numbers(5));
    let source = alone.source();
    (0..1500).for_each(|number| write(&source.join(format!("f{number}")), numbers, 20));
    for number in 0..600 {
        let name = format!("same{number}");
        fs::write(source.join(&name), "equal").unwrap();
        stamp(&source.join(&name), 1_200_000_000, 0);
        for target in [alone.target(), together.target()] {
            match number % 2 {
                0 => fs::copy(source.join(&name), target.join(&name)).map(drop).unwrap(),
                _ => fs::hard_link(target.join(format!("same{}", number - 1)), target.join(&name)).unwrap(),
            }
            stamp(&target.join(&name), 1_200_000_000, 0);
        }
    }
    let job = job(1, &[("", "")]);
    let (expected, _) = run_one(&source, &alone.target(), &job, None);
    assert_eq!((expected.counters.entries_updated, links(&alone.target()).len()), (300, 0));
    let state = copy_together(&source, &together.target(), &job, 2, Policy::Budget(1));
    assert!(state.slices > 2);
    assert_eq!(links(&together.target()), links(&alone.target()));
    assert_eq!(figures(&expected.counters), figures(&state.totals));
}
