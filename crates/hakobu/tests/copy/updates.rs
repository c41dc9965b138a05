//! `hakobu sync` of changed large files: only differences are sent, into a new file or in place.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use hakobu_testkit::devices::{self, LoopDevice};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use hakobu_testkit::throttle::{Throttle, ThrottledAccess};
use rustix::process::Signal;

use crate::program::*;

const MIB: u64 = 1 << 20;
const SIZE_BYTES: u64 = 40 * MIB + 77;
/// The maximum number of bytes that a run sends besides content.
const TALK_BYTES: u64 = MIB;

/// A tree with a large file, and a target with an older version of it.
struct Pair {
    place: tempfile::TempDir,
    host: Host,
}

impl Pair {
    fn new() -> Self {
        let pair = Self { place: place(), host: Host::up() };
        for directory in ["source", "target"] {
            fs::create_dir(pair.place.path().join(directory)).unwrap();
        }
        file(&pair.new_file(), SIZE_BYTES);
        fs::copy(pair.new_file(), pair.old_file()).unwrap();
        // Twenty changes, far from each other.
        let changed = fs::File::options().write(true).open(pair.new_file()).unwrap();
        for place in 0..20 {
            changed.write_all_at(b"another page", place * 2 * MIB + 4096 * place).unwrap();
        }
        let old = fs::File::options().write(true).open(pair.old_file()).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        pair
    }

    fn new_file(&self) -> PathBuf {
        self.place.path().join("source/large")
    }

    fn old_file(&self) -> PathBuf {
        self.place.path().join("target/large")
    }

    /// Returns source and target, local, pushed or pulled.
    fn typed(&self, way: &str) -> [OsString; 2] {
        let (source, target) = (self.place.path().join("source"), self.place.path().join("target"));
        match way {
            "here" => [contents(source), target.into()],
            "push" => [contents(source), self.host.at(&target)],
            _ => [contents(self.host.at(&source)), target.into()],
        }
    }

    fn sync(&self, way: &str, options: &str) -> Ran {
        let ran = Copy::sync().to(&self.host).options(options).args(self.typed(way)).run_to(0);
        assert_eq!((ran.entries("updated"), ran.lost("hardlinks")), (1, 0), "{:#}", ran.report);
        assert_same(&self.place.path().join("source"), &self.place.path().join("target"));
        ran
    }
}

/// A file with an insertion at the beginning, and with a part moved to the end.
#[test]
fn a_named_file_is_compared_by_its_content_where_that_is_asked_for() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    for (number, size_bytes) in [1, 1000, 300_000, 3_000_000].into_iter().enumerate() {
        for to in [target.clone().into(), host.at(&target)] {
            fs::write(&source, vec![1; size_bytes]).unwrap();
            fs::write(&target, vec![2; size_bytes]).unwrap();
            let time = UNIX_EPOCH + Duration::from_secs(1_500_000_000 + number as u64);
            for path in [&source, &target] {
                File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            }
            let run = || Copy::new().to(&host).options("--compare digest").arg(&source).arg(&to);
            assert_eq!(run().run_to(0).entries("updated"), 1, "{size_bytes} {to:?}");
            assert!(fs::read(&target).unwrap() == vec![1; size_bytes]);
            // Equal content is not sent, even if the time differs.
            File::options().write(true).open(&target).unwrap().set_modified(UNIX_EPOCH).unwrap();
            let ran = run().run_to(0);
            assert_eq!((ran.entries("updated"), ran.entries("attributes_only")), (0, 1), "{:#}", ran.report);
            assert_eq!(fs::metadata(&target).unwrap().modified().unwrap(), time);
            assert_eq!(run().run_to(0).entries("unchanged"), 1);
        }
    }
}

#[test]
fn what_moved_does_not_travel() {
    for way in ["push", "pull"] {
        let pair = Pair::new();
        let old = fs::read(pair.old_file()).unwrap();
        let part = 7 * MIB as usize;
        let moved = [b"a line more\n", &old[..part], &old[2 * part..], &old[part..2 * part]].concat();
        fs::write(pair.new_file(), moved).unwrap();
        let ran = pair.sync(way, "");
        assert!(wire_bytes(&ran) < TALK_BYTES, "{way}: {}", wire_bytes(&ran));
    }
}

fn wire_bytes(ran: &Ran) -> u64 {
    ["wire_sent", "wire_received"].iter().map(|way| ran.report["bytes"][way].as_u64().unwrap()).sum()
}

#[test]
fn what_differs_travels() {
    for way in ["push", "pull"] {
        for in_place in [false, true] {
            let pair = Pair::new();
            let inode = fs::metadata(pair.old_file()).unwrap().ino();
            let ran = pair.sync(way, if in_place { "--in-place --why" } else { "--why" });
            assert_eq!(ran.report["bytes"]["target_written"], 20 * 4096, "{way} {:#}", ran.report);
            assert!(wire_bytes(&ran) < TALK_BYTES, "{way} {:#}", ran.report);
            assert_eq!(fs::metadata(pair.old_file()).unwrap().ino() == inode, in_place);
            ran.says(&["why: large files that changed: what differs"]);
        }
    }
}

#[test]
fn an_empty_file_stays_the_file_that_it_is() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    for (directory, held) in [(&source, ""), (&target, "something")] {
        fs::create_dir(directory).unwrap();
        for name in ["emptied", "empty"] {
            fs::write(directory.join(name), if name == "empty" { "" } else { held }).unwrap();
        }
        let at = std::time::UNIX_EPOCH + Duration::from_secs(held.len() as u64);
        fs::File::open(directory.join("empty")).unwrap().set_modified(at).unwrap();
    }
    let inodes = || ["emptied", "empty"].map(|name| fs::metadata(target.join(name)).unwrap().ino());
    let before = inodes();
    let ran = Copy::sync().options("--in-place").args([contents(&source), target.clone().into()]).run_to(0);
    // Only the time of the file that was empty before differs.
    let changed = ["updated", "attributes_only"].map(|what| ran.entries(what));
    assert_eq!((changed, inodes()), ([1, 1], before), "{:#}", ran.report);
    assert_same(&source, &target);
}

#[test]
fn all_of_it_travels_where_that_is_asked_for() {
    let pair = Pair::new();
    assert!(wire_bytes(&pair.sync("push", "--whole-file")) > SIZE_BYTES);
    let ran = Copy::new().options("--in-place").args(pair.typed("here")).run();
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    ran.says(&["--in-place", "hakobu sync"]);
}

/// A busy machine may answer so late that comparing is the right choice, so there are three attempts.
#[test]
fn a_file_whose_comparison_is_waited_for_is_sent_as_it_is() {
    if no_root() {
        return;
    }
    let choice = "why: large: all of the rest: comparing reaches";
    let mut ran = sync_beside_a_slow_disk();
    for _ in 0..2 {
        if !ran.err.contains(choice) {
            ran = sync_beside_a_slow_disk();
        }
    }
    ran.says(&[choice, ", sending "]);
    let read = ran.report["bytes"]["target_read"].as_u64().unwrap();
    assert!((32 * MIB..200 * MIB).contains(&read), "{:#}", ran.report);
}

/// Synchronises a file in which one page differs. The old file is on a disk with slow reads, and the network is a
/// hundred times as fast.
fn sync_beside_a_slow_disk() -> Ran {
    let (place, host) = (place(), Host::up());
    let (source, mounted) = (place.path().join("source"), place.path().join("mounted"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&mounted).unwrap();
    let size_bytes = 300 * MIB + 5;
    file(&source.join("large"), size_bytes);
    let disk = LoopDevice::new(900 * MIB).unwrap();
    devices::run("mkfs.ext4", &["-q"], disk.path()).unwrap();
    let target = mounted.join("target");
    {
        let _mounted = devices::mount(disk.path(), &mounted, &[]).unwrap();
        fs::create_dir(&target).unwrap();
        fs::copy(source.join("large"), target.join("large")).unwrap();
        let old = fs::File::options().write(true).open(target.join("large")).unwrap();
        old.write_all_at(b"another page", 4096).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    // Mounting again empties the cache.
    let _mounted = devices::mount(disk.path(), &mounted, &[]).unwrap();
    let throttle = Throttle::disk(disk.path(), ThrottledAccess::Read, 20 << 20).unwrap();
    let copy = Copy::verb(throttle.command(HAKOBU), "sync").to(&host).options("--why");
    let ran = copy.arg(contents(host.at(&source))).arg(&target).run_to(0);
    drop(throttle);
    assert_same(&source, &target);
    ran
}

#[test]
fn on_one_machine_it_is_copied_or_changed_where_it_lies() {
    let pair = Pair::new();
    let ran = pair.sync("here", "");
    assert_eq!(ran.report["bytes"]["target_read"], 0, "{:#}", ran.report);
    let pair = Pair::new();
    let inode = fs::metadata(pair.old_file()).unwrap().ino();
    let ran = pair.sync("here", "--in-place");
    assert_eq!(ran.report["bytes"]["target_written"], 20 * 256 * 1024, "{:#}", ran.report);
    assert_eq!(fs::metadata(pair.old_file()).unwrap().ino(), inode);
}

/// Readers of the old file keep it until the new one is complete. A killed run leaves it unchanged.
#[test]
fn until_it_is_complete_the_old_file_is_there() {
    let pair = Pair::new();
    let old = fs::read(pair.old_file()).unwrap();
    let mut running = Copy::verb(stopped(), "sync").to(&pair.host).args(pair.typed("push")).start();
    running.crawl_until(|_| !drafts(pair.place.path()).is_empty());
    running.signal(Signal::KILL);
    running.end();
    pair.host.wait_for_no_agent();
    assert!(fs::read(pair.old_file()).unwrap() == old);
    pair.sync("push", "");
    assert!(drafts(pair.place.path()).is_empty());
}

/// Parts that were compared or sent before an interruption are not compared or sent again.
#[test]
fn it_goes_on_where_it_was_interrupted() {
    if no_root() {
        return;
    }
    let settings =
        |rate_bits_per_second| LinkSettings { rate_bits_per_second, mtu: 9000, ..LinkSettings::default() };
    let link = Link::up(settings(Some(100_000_000))).unwrap();
    let (place, host) = (place(), Host::behind(&link));
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    for directory in [&source, &target] {
        fs::create_dir(directory).unwrap();
    }
    let size_bytes = 200 * MIB + 99;
    file(&source.join("large"), size_bytes);
    fs::copy(source.join("large"), target.join("large")).unwrap();
    let old = fs::File::options().write(true).open(target.join("large")).unwrap();
    // The first half is equal, the second half differs.
    old.write_all_at(&vec![7; 100 * MIB as usize], 100 * MIB).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    let sync = || {
        let copy = Copy::verb(link.near().command(HAKOBU), "sync").to(&host);
        copy.args(["--compress", "none"]).arg(contents(&source)).arg(host.at(&target))
    };
    let running = sync().start();
    let done = |running: &Running| {
        running.events().iter().filter_map(|event| event["bytes_done"].as_u64()).max().unwrap_or(0)
    };
    // With an eighth of the file left, hakobu would read all of the old file to look for moved content. Progress
    // comes once a second, in which the link carries 12 MiB, so there is time to interrupt the run.
    wait_until("much is there", Duration::from_secs(180), || done(&running) > 140 * MIB);
    link.change(settings(Some(40_000_000))).unwrap();
    wait_until("most of the rest is there", Duration::from_secs(180), || done(&running) > 178 * MIB);
    running.signal(Signal::INT);
    assert_eq!(running.end().code, Some(130));
    host.wait_for_no_agent();
    assert!(!drafts(place.path()).is_empty());
    link.change(settings(None)).unwrap();
    let ran = sync().run_to(0);
    assert_eq!(ran.report["resumed"], true, "{:#}", ran.report);
    for side in ["source_read", "target_read"] {
        assert!(ran.report["bytes"][side].as_u64().unwrap() < 100 * MIB, "{:#}", ran.report);
    }
    assert_same(&source, &target);
    assert!(drafts(place.path()).is_empty());
}

/// Files of the same size and time but other content, small and large, are found only by their digests.
#[test]
fn what_is_compared_by_digest_is_changed_where_it_lies() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    let names = ["one byte", "small", "directory/small", "large"];
    for (name, size_bytes) in names.into_iter().zip([1, 1000, 70_000, 3 * MIB + 7]) {
        fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
        file(&source.join(name), size_bytes);
    }
    Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    let inodes = || names.map(|name| fs::metadata(target.join(name)).unwrap().ino());
    let inodes_before = inodes();
    for to in [target.clone().into(), host.at(&target)] {
        for name in names {
            let (old, time) =
                (target.join(name), fs::metadata(source.join(name)).unwrap().modified().unwrap());
            let old = fs::File::options().write(true).open(old).unwrap();
            let first = fs::read(source.join(name)).unwrap()[0];
            old.write_all_at(&[!first], 0).unwrap();
            old.set_modified(time).unwrap();
        }
        let sync =
            || Copy::sync().to(&host).options("--in-place --compare digest").arg(contents(&source)).arg(&to);
        let planned = sync().options("-n").run_to(0);
        assert_eq!(planned.entries("updated"), 4, "{:#}", planned.report);
        let ran = sync().run_to(0);
        assert_eq!(ran.entries("updated"), 4, "{:#}", ran.report);
        assert_same(&source, &target);
        assert_eq!(inodes(), inodes_before);
        let again = sync().run_to(0);
        assert_eq!((again.entries("updated"), again.entries("unchanged")), (0, 6), "{:#}", again.report);
    }
}

/// Returns everything that a run could change in a tree: paths, inodes and change times.
fn touched(root: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()) {
            directories.extend(path.is_dir().then(|| path.clone()));
            let is = fs::symlink_metadata(&path).unwrap();
            found.push((path, is.ino(), is.ctime(), is.ctime_nsec()));
        }
    }
    found.sort();
    found
}

#[test]
fn files_of_several_names_that_are_equal_are_left_alone() {
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir_all(source.join("directory/deeper")).unwrap();
    for (name, size_bytes) in [("small", 5000), ("large", 3 * MIB + 7)] {
        let first = file(&source.join(format!("directory/{name}")), size_bytes);
        for further in ["directory/deeper", "directory"] {
            fs::hard_link(&first, source.join(further).join(format!("{name} too"))).unwrap();
        }
    }
    // The first name of a file in the order of the scan, and a later one.
    file(&source.join("directory/zebra"), 77);
    for further in ["directory/a", "directory/deeper/zebra"] {
        fs::hard_link(source.join("directory/zebra"), source.join(further)).unwrap();
    }
    // An SFTP server has only whole seconds.
    let second = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (path, ..) in touched(place.path()).into_iter().rev() {
        fs::File::open(path).unwrap().set_modified(second).unwrap();
    }
    for (way, options) in [("here", ""), ("ssh", "--transport ssh"), ("sftp", "--transport sftp")] {
        let target = place.path().join(way);
        let to = if way == "here" { target.clone().into() } else { host.at(&target) };
        let sync = || {
            let sync = Copy::sync().to(&host).options(format!("--compare digest {options}").trim());
            sync.arg(contents(&source)).arg(&to).run_to(0)
        };
        sync();
        let before = touched(&target);
        let again = sync();
        assert_eq!(touched(&target), before, "{way}: {:#}", again.report);
        assert_eq!(again.entries("unchanged"), again.entries("scanned"), "{way}: {:#}", again.report);
        // An entry with other content is not a name of this file.
        for name in ["directory/small too", "directory/deeper/large too", "directory/a"] {
            let (at, of) = (target.join(name), fs::metadata(source.join(name)).unwrap());
            fs::remove_file(&at).unwrap();
            fs::write(&at, vec![7; of.len() as usize]).unwrap();
            fs::File::options().write(true).open(&at).unwrap().set_modified(of.modified().unwrap()).unwrap();
        }
        let mended = sync();
        assert!(mended.entries("updated") >= 3, "{way}: {:#}", mended.report);
        assert_same(&source, &target);
        for name in ["small", "large", "zebra"] {
            let file = fs::metadata(target.join("directory").join(name)).unwrap();
            assert_eq!(file.nlink(), 3, "{way}: {name}");
        }
    }
}
