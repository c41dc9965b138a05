//! Sources that change while they are read, and targets that fill up.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::Duration;

use hakobu_testkit::devices::{self, LoopDevice};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::process::Signal;

use crate::program::*;

/// Slow enough to interfere: about 12 MB/s.
pub fn slow_link() -> Link {
    Link::up(LinkSettings { rate_bits_per_second: Some(100_000_000), mtu: 9000, ..LinkSettings::default() })
        .unwrap()
}

/// Repeats an action while a copy runs.
fn while_copying(mut what: impl FnMut() + Send, copy: impl FnOnce() -> Ran) -> Ran {
    let ended = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Relaxed) {
                what();
                sleep(Duration::from_micros(200));
            }
        });
        let ran = copy();
        ended.store(true, Relaxed);
        ran
    })
}

#[test]
fn a_file_that_grows_while_it_is_read() {
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    let log = file(&source.join("log"), 150_000_000);
    fs::write(source.join("quiet"), "x").unwrap();
    let target = place.path().join("target");
    for typed in [
        [contents(&source), host.at(&target)],
        [contents(&source), target.clone().into()],
        [contents(host.at(&source)), target.clone().into()],
    ] {
        let mut appending = File::options().append(true).open(&log).unwrap();
        let append = || appending.write_all(b"a line of a log\n").unwrap();
        let ran = while_copying(append, || Copy::new().to(&host).args(&typed).run_to(5));
        assert_eq!(ran.report["outcome"], "source_changed");
        assert_eq!(ran.failures().len(), 1);
        assert_eq!(ran.failures()[0].0, "log");
        ran.says(&["failed: log: ", "it has changed since it was listed"]);
        assert!(!target.join("log").exists() && drafts(&target).is_empty());
        assert_same(&source.join("quiet"), &target.join("quiet"));
        fs::remove_dir_all(&target).unwrap();
    }
}

/// The file is overwritten in place, and its size stays the same.
#[test]
fn a_file_that_is_overwritten_while_it_is_read() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 150_000_000);
    let target = place.path().join("target");
    let writing = File::options().write(true).open(&source).unwrap();
    let mut at = 0;
    let overwrite = || {
        at = (at + 7_654_321) % 150_000_000;
        writing.write_all_at(b"other", at).unwrap();
    };
    let ran = while_copying(overwrite, || Copy::new().to(&host).arg(&source).arg(host.at(&target)).run_to(5));
    ran.says(&["it has changed since it was listed"]);
    assert!(!target.exists() && drafts(place.path()).is_empty());
}

#[test]
fn small_and_large_files_that_vanish() {
    if no_root() {
        return;
    }
    let link = slow_link();
    let (place, host) = (place(), Host::behind(&link));
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for index in 0..8 {
        file(&source.join(format!("large {index}")), 4_000_000);
    }
    fs::create_dir(source.join("small")).unwrap();
    for index in 0..60 {
        file(&source.join(format!("small/{index}")), 60_000);
    }
    let target = place.path().join("target");
    let mut running = Copy::across(&link)
        .to(&host)
        .options("--lanes 2")
        .arg(contents(&source))
        .arg(host.at(&target))
        .start();
    running.wait_until_under_way();
    // In any order, not all of these are read within a second or two.
    let gone: Vec<PathBuf> = (0..8).map(|index| source.join(format!("large {index}"))).collect();
    for path in &gone {
        fs::remove_file(path).unwrap();
    }
    fs::remove_dir_all(source.join("small")).unwrap();
    running.assert_unfinished();
    let ran = running.end();
    assert_eq!(ran.code, Some(5), "{}", ran.err);
    // A file that is already open counts as changed, because it has one name less.
    let told = |error: &str| error.contains("vanished") || error.contains("changed");
    assert!(ran.failures().iter().all(|(_, error)| told(error)), "{:#}", ran.report);
    ran.says(&["it has vanished since it was listed"]);
    let arrived = fs::read_dir(&target).unwrap().flatten().filter(|entry| entry.path().is_file()).count();
    assert!(arrived < 8);
    assert!(drafts(&target).is_empty());
}

#[test]
fn a_file_for_which_there_is_no_room_is_refused_beforehand() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 30_000_000);
    let small = Small::mount(&place.path().join("small"), "size=8m");
    for remote in [false, true] {
        let target = small.0.join("target");
        let typed = if remote { host.at(&target) } else { target.into_os_string() };
        let ran = Copy::new().to(&host).arg(&source).arg(typed).run_to(6);
        ran.says(&["30.0 MB are needed", "are free", "free space at the target"]);
        assert_eq!(ran.report["bytes"]["target_written"], 0);
        assert_eq!(fs::read_dir(&small.0).unwrap().count(), 0);
    }
}

#[test]
fn a_draft_of_no_use_gives_its_room_to_the_new_one() {
    if no_root() {
        return;
    }
    let place = place();
    let source = file(&place.path().join("source"), 30_000_000);
    let small = Small::mount(&place.path().join("small"), "size=36m");
    let target = small.0.join("target");
    let copy = |options: &str| Copy::new().options(options).arg(&source).arg(&target);
    let running = copy("--bwlimit 10M").start();
    let has_come = || fs::read_dir(&small.0).unwrap().any(|entry| blocks(&entry.unwrap()) > 12_000_000);
    wait_until("some of it is there", Duration::from_secs(60), has_come);
    running.signal(Signal::KILL);
    running.end();
    assert!(!target.exists());
    // The draft is of another version of the source, and there is no space for a second draft.
    fs::write(&source, vec![7; 30_000_000]).unwrap();
    copy("").run_to(0);
    assert_same(&source, &target);
}

fn blocks(entry: &fs::DirEntry) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&entry.metadata().unwrap()) * 512
}

/// Returns all files below a directory.
fn files(below: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![below.to_owned()]);
    while let Some(directory) = open.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

#[test]
fn a_target_that_fills_up_ends_the_copy_cleanly() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for index in 0..1000 {
        file(&source.join(index.to_string()), 20_000);
    }
    file(&source.join("large"), 3_000_000);
    for index in 0..60 {
        fs::create_dir_all(source.join(format!("z {index}/inner"))).unwrap();
        file(&source.join(format!("z {index}/inner/file")), 20_000);
    }
    for remote in [false, true] {
        let small = Small::mount(&place.path().join("small"), "size=8m");
        let target = small.0.join("target");
        let typed = if remote { host.at(&target) } else { target.clone().into() };
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(&typed).run_to(6);
        ran.says(&["23.0 MB are needed", "free space at the target"]);
        // With another file system mounted in the target, hakobu does not know in advance how much fits.
        let elsewhere = target.join("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        let inner = Small::mount(&elsewhere, "size=1m");
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(&typed).run_to(1);
        ran.says(&["hint: free space at the target"]);
        drop(inner);
        fs::remove_dir(&elsewhere).unwrap();
        // Files under their final names are complete, and the counts are correct.
        assert!(drafts(&target).is_empty());
        let arrived = files(&target);
        for path in &arrived {
            let path = path.strip_prefix(&target).unwrap();
            assert_same(&source.join(path), &target.join(path));
        }
        let directories = fs::read_dir(&target).unwrap().flatten().filter(|entry| entry.path().is_dir());
        let arrived = arrived.len() as u64;
        let there = arrived + 1 + 2 * directories.count() as u64;
        assert!(ran.entries("created") <= there, "{there} {:#}", ran.report);
        // With more space, the same command continues.
        let mut larger = Command::new("mount");
        assert!(larger.args(["-o", "remount,size=60m"]).arg(&small.0).status().unwrap().success());
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(typed).run_to(0);
        assert!(ran.entries("created") <= 1182 - arrived, "{arrived} {:#}", ran.report);
        assert_same(&source, &target);
    }
}

#[test]
fn sparse_files_need_less_than_their_size() {
    if no_root() {
        return;
    }
    let place = place();
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for (name, size) in [("large", 1 << 30)].into_iter().chain((0..100).map(|_| ("small", 200_000))) {
        let name = format!("{name} {}", fs::read_dir(&source).unwrap().count());
        File::create(source.join(name)).unwrap().set_len(size).unwrap();
    }
    let small = Small::mount(&place.path().join("small"), "size=8m");
    Copy::new().arg(contents(&source)).arg(small.0.join("target")).run_to(0);
    assert_same(&source, &small.0.join("target"));
}

#[test]
fn a_target_that_runs_out_of_inodes() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for index in 0..300 {
        fs::write(source.join(index.to_string()), "x").unwrap();
    }
    for remote in [false, true] {
        let small = Small::mount(&place.path().join("small"), "size=8m,nr_inodes=100");
        let target = small.0.join("target");
        let typed = if remote { host.at(&target) } else { target.clone().into() };
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(&typed).run_to(6);
        ran.says(&["new files and directories are needed", "room for 99"]);
        fs::create_dir_all(source.join("!elsewhere")).unwrap();
        fs::create_dir_all(target.join("!elsewhere")).unwrap();
        let _inner = Small::mount(&target.join("!elsewhere"), "size=1m");
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(&typed).run_to(1);
        ran.says(&["inode", "hint: free inodes at the target"]);
        assert!(drafts(&target).is_empty());
    }
}

/// A quota that `statfs` does not report, so that only writing fails.
#[test]
fn a_target_that_is_over_quota() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for index in 0..100 {
        file(&source.join(index.to_string()), 100_000);
    }
    file(&source.join("large"), 12_000_000);
    let (disk, mounted) = (LoopDevice::new(256 << 20).unwrap(), place.path().join("mounted"));
    fs::create_dir(&mounted).unwrap();
    devices::run("mkfs.btrfs", &["--quiet"], disk.path()).unwrap();
    let _mounted = devices::mount(disk.path(), &mounted, &[]).unwrap();
    devices::run("btrfs", &["quota", "enable"], &mounted).unwrap();
    for (remote, name) in [(false, "here"), (true, "there")] {
        let target = mounted.join(name);
        devices::run("btrfs", &["subvolume", "create"], &target).unwrap();
        devices::run("btrfs", &["qgroup", "limit", "8M"], &target).unwrap();
        let typed = if remote { host.at(&target) } else { target.clone().into() };
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(&typed).run_to(1);
        ran.says(&["over quota", "raise the quota"]);
        assert!(drafts(&target).is_empty());
        for path in files(&target) {
            assert_same(&source.join(path.file_name().unwrap()), &path);
        }
        devices::run("btrfs", &["qgroup", "limit", "none"], &target).unwrap();
        Copy::new().to(&host).arg(contents(&source)).arg(typed).run_to(0);
        assert_same(&source, &target);
    }
}

#[test]
fn a_target_that_is_mounted_for_reading_only() {
    if no_root() {
        return;
    }
    let place = place();
    let source = file(&place.path().join("source"), 30_000);
    let small = Small::mount(&place.path().join("small"), "size=8m,ro");
    let todo = "hint: mount the target's file system for writing";
    Copy::new().arg(&source).arg(small.0.join("target")).run_to(1).says(&["ead-only", todo]);
    // A dry run of a tree reports it as well, unless there is nothing to do.
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let plan = || Copy::sync().options("-n").arg(contents(&tree)).arg(&small.0);
    let mut remount = Command::new("mount");
    assert!(remount.args(["-o", "remount,rw"]).arg(&small.0).status().unwrap().success());
    Copy::new().arg(contents(&tree)).arg(&small.0).run_to(0);
    let mut remount = Command::new("mount");
    assert!(remount.args(["-o", "remount,ro"]).arg(&small.0).status().unwrap().success());
    plan().run_to(0);
    fs::write(tree.join("new"), "new").unwrap();
    plan().run_to(1).says(&["mounted for reading only", todo]);
}
