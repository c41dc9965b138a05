//! Directories of so many entries that they are read in pages if the target has none of them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::program::*;

/// More than two pages.
const FILES: u64 = 20_000;

/// Creates a directory of many files, and of entries that could get lost between two pages: hard links, a directory,
/// a link, and a file that is sent in chunks.
fn large_directory(path: &Path) {
    fs::create_dir(path).unwrap();
    for number in 0..FILES {
        fs::write(path.join(format!("file {number}")), number.to_string()).unwrap();
    }
    // The system decides in which order a directory is read. Of this many pairs, some are on different pages.
    for number in 0..200 {
        fs::hard_link(path.join(format!("file {}", number * 99)), path.join(format!("second {number}")))
            .unwrap();
    }
    fs::create_dir(path.join("below")).unwrap();
    fs::write(path.join("below/file"), "below").unwrap();
    symlink("below/file", path.join("link")).unwrap();
    file(&path.join("large"), 3_000_000);
    fs::set_permissions(path, Permissions::from_mode(0o750)).unwrap();
}

fn assert_linked(target: &Path) {
    for number in 0..200 {
        let inode = |name: String| fs::metadata(target.join(name)).unwrap().ino();
        assert_eq!(inode(format!("file {}", number * 99)), inode(format!("second {number}")));
    }
}

#[test]
fn a_directory_of_many_entries_arrives_whole_wherever_it_goes() {
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    large_directory(&source);
    let all = FILES + 200 + 5;
    for far in [false, true] {
        for there in ["nothing", "an empty directory", "a directory"] {
            let target = place.path().join("target");
            if there != "nothing" {
                fs::create_dir(&target).unwrap();
            }
            if there == "a directory" {
                fs::write(target.join("file 7"), "another").unwrap();
                fs::write(target.join("only there"), "x").unwrap();
            }
            let typed = [contents(&source), if far { host.at(&target) } else { target.clone().into() }];
            let ran = Copy::sync().to(&host).options("--delete").args(&typed).run_to(0);
            let created = all - u64::from(there != "nothing") - u64::from(there == "a directory");
            assert_eq!(ran.entries("created"), created, "{there}: {:#}", ran.report);
            assert_eq!(ran.entries("scanned"), all);
            assert_eq!(ran.entries("deleted"), u64::from(there == "a directory"));
            assert_same(&source, &target);
            assert_linked(&target);
            let ran = Copy::sync().to(&host).args(&typed).run_to(0);
            assert_eq!(ran.entries("unchanged"), all, "{there}: {:#}", ran.report);
            fs::remove_dir_all(&target).unwrap();
        }
    }
}

/// Rules and failures of entries apply on every page, and a dry run lists what the copy does.
#[test]
fn of_a_directory_of_many_entries_rules_and_failures_are_told() {
    let place = place();
    let [source, target] = ["source", "target"].map(|name| place.path().join(name));
    large_directory(&source);
    let typed = [contents(&source), target.clone().into()];
    let planned = Copy::new().options("--exclude *9 --dry-run").args(&typed).run_to(0);
    let ran = Copy::new().options("--exclude *9").args(&typed).run_to(0);
    let left_out = FILES / 10 + 20;
    assert_eq!(ran.entries("skipped"), left_out, "{:#}", ran.report);
    assert_eq!(ran.entries("created"), FILES + 200 + 5 - left_out);
    for name in ["created", "skipped", "scanned"] {
        assert_eq!(planned.entries(name), ran.entries(name), "{name}");
    }
    assert!(target.join("file 8").exists() && !target.join("file 9").exists());
    // Sockets are not copied, and are counted.
    fs::remove_dir_all(&target).unwrap();
    for number in 0..100 {
        drop(std::os::unix::net::UnixListener::bind(source.join(format!("socket {number}"))).unwrap());
    }
    let ran = Copy::new().args(&typed).run();
    assert_eq!(ran.entries("created"), FILES + 200 + 5, "{:#}", ran.report);
    assert_eq!(ran.entries("skipped"), 100);
}
