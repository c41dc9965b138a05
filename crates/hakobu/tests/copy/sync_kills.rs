//! Kills of `hakobu sync` in the middle of a tree. The same command continues and copies no complete file again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hakobu_testkit::sshd::no_root;
use rustix::process::{Signal, kill_process};

use crate::program::*;

const DIRECTORIES: usize = 60;
const FILES_EACH: usize = 150;
/// The time limit until a run can be killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates many small files, one in five of which is a hard link to the one before, and some large ones.
fn grow(root: &Path) {
    for directory in 0..DIRECTORIES {
        let at = root.join(format!("dir {directory:03}"));
        fs::create_dir_all(&at).unwrap();
        for index in 0..FILES_EACH {
            let path = at.join(format!("file {index}"));
            match index % 5 {
                4 => fs::hard_link(at.join(format!("file {}", index - 1)), &path).unwrap(),
                _ => fs::write(&path, vec![index as u8; 500 + 7 * index]).unwrap(),
            }
        }
        file(&at.join("large"), 700_000);
    }
}

/// Returns the inode of each complete file, recognised by its modification time, which is set last.
fn complete(source: &Path, target: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for directory in fs::read_dir(target).into_iter().flatten().flatten() {
        for entry in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
            let (path, there) = (entry.path(), entry.metadata().unwrap());
            let Ok(here) = fs::metadata(source.join(path.strip_prefix(target).unwrap())) else { continue };
            if (here.mtime(), here.mtime_nsec(), here.len())
                == (there.mtime(), there.mtime_nsec(), there.len())
            {
                found.insert(path, there.ino());
            }
        }
    }
    found
}

fn kill_agents(host: &Host) {
    for agent in host.agents() {
        // It may have ended.
        let _ = kill_process(agent, Signal::KILL);
    }
}

/// Kills a run and runs it again. Returns true if the kill hit in the middle.
fn kill(host: &Host, (source, target): (&Path, &Path), far: bool, goal: usize) -> bool {
    let _ = fs::remove_dir_all(target);
    fs::create_dir_all(target.join("old/deep")).unwrap();
    file(&target.join("old/deep/file"), 100);
    let sync = |command: Command| {
        Copy::verb(command, "sync")
            .to(host)
            .options("--delete --retry-for 0s")
            .args([contents(source), host.at(target)])
    };
    let running = sync(Command::new(HAKOBU)).start();
    let began = Instant::now();
    while fs::read_dir(target).unwrap().count() < goal {
        assert!(began.elapsed() < PATIENCE, "it does not come so far");
        std::thread::sleep(Duration::from_micros(300));
    }
    match (far, host.agents().first()) {
        (true, Some(agent)) => drop(kill_process(*agent, Signal::KILL)),
        (true, None) => {}
        (false, _) => running.signal(Signal::KILL),
    }
    let ended = running.end();
    host.wait_for_no_agent();
    let before = complete(source, target);
    let all = DIRECTORIES * (FILES_EACH + 1);
    let middle = ended.code != Some(0) && !before.is_empty() && before.len() < all;
    assert!(
        target.join("old/deep/file").exists() || ended.code == Some(0),
        "nothing goes before all has come"
    );

    let ran = sync(Command::new(HAKOBU)).run_to(0);
    assert_same(source, target);
    assert!(!target.join("old").exists() && drafts(target).is_empty());
    let after = complete(source, target);
    assert_eq!(after.len(), all);
    let again: Vec<_> = before.iter().filter(|(path, inode)| after[*path] != **inode).collect();
    // Hard links may have been created before the first run could report them. None of these moves data.
    assert!(again.len() <= 2 && ran.entries("updated") <= 2, "{again:?} {:#}", ran.report["entries"]);
    middle
}

fn kills(rounds: usize, least: usize) {
    let (host, place) = (Host::up(), place());
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    grow(&source);
    let hit = (0..rounds).filter(|round| {
        // Ten to fifty of the directories.
        let goal = 10 + round * 17 % 41;
        kill(&host, (&source, &target), round % 2 == 1, goal)
    });
    let hit = hit.count();
    assert!(hit >= least, "only {hit} of {rounds} kills came in the middle");
}

#[test]
fn kills_in_the_middle_of_a_tree() {
    if !no_root() {
        kills(5, 3);
    }
}

#[test]
#[ignore = "long"]
fn long_kills_in_the_middle_of_a_tree() {
    if !no_root() {
        kills(50, 40);
    }
}

/// Entries that a run created before it lost its connection do not count for the deletion limit: a wrong source remains one.
/// Over ssh, an agent serves the target, the source, or both.
#[test]
fn what_an_attempt_that_was_lost_has_made_does_not_count_for_the_limit() {
    if no_root() {
        return;
    }
    let (host, place) = (Host::up(), place());
    let source = place.path().join("source");
    grow(&source);
    for (far_source, far_target) in [(false, true), (true, false), (true, true)] {
        let target = place.path().join(format!("target {far_source} {far_target}"));
        fs::create_dir_all(target.join("old")).unwrap();
        (0..50).for_each(|number| fs::write(target.join(format!("old/{number}")), "x").unwrap());
        let at = |far: bool, path: &Path| if far { host.at(path) } else { path.as_os_str().to_owned() };
        let typed = [contents(at(far_source, &source)), at(far_target, &target)];
        let running = Copy::sync().to(&host).options("--delete --retry-for 60s").args(typed).start();
        let began = Instant::now();
        while fs::read_dir(&target).unwrap().count() < 10 {
            assert!(began.elapsed() < PATIENCE, "it does not come so far");
            std::thread::sleep(Duration::from_micros(300));
        }
        kill_agents(&host);
        let ran = running.end();
        assert_eq!(ran.code, Some(6), "{}\n{:#}", ran.err, ran.report);
        ran.says(&["trying again", "would be deleted, more than half"]);
        assert_eq!(fs::read_dir(target.join("old")).unwrap().count(), 50);
        assert_eq!(complete(&source, &target).len(), DIRECTORIES * (FILES_EACH + 1));
    }
}

/// The limit does not refuse a correct source because of a lost connection.
#[test]
fn a_run_that_lost_its_connection_removes_what_it_may() {
    if no_root() {
        return;
    }
    let (host, place) = (Host::up(), place());
    let source = place.path().join("source");
    grow(&source);
    for far_source in [false, true] {
        let target = place.path().join(format!("target {far_source}"));
        Copy::sync().args([contents(&source), target.clone().into()]).run_to(0);
        // More than half of the entries have to be copied, and some have to be deleted.
        for number in 10..DIRECTORIES {
            fs::remove_dir_all(target.join(format!("dir {number:03}"))).unwrap();
        }
        fs::create_dir_all(target.join("old")).unwrap();
        (0..500).for_each(|number| fs::write(target.join(format!("old/{number}")), "x").unwrap());
        let at = |far: bool, path: &Path| if far { host.at(path) } else { path.as_os_str().to_owned() };
        let typed = [contents(at(far_source, &source)), at(!far_source, &target)];
        let running = Copy::sync().to(&host).options("--delete --retry-for 60s").args(typed).start();
        let began = Instant::now();
        while fs::read_dir(&target).unwrap().count() < 20 {
            assert!(began.elapsed() < PATIENCE, "it does not come so far");
            std::thread::sleep(Duration::from_micros(300));
        }
        kill_agents(&host);
        let ran = running.end();
        assert_eq!(ran.code, Some(0), "{}\n{:#}", ran.err, ran.report);
        ran.says(&["trying again"]);
        assert_same(&source, &target);
    }
}

/// A removal restores the time of each directory that it finds. A removal that was cut off has left the time of its changes.
#[test]
fn a_removal_that_lost_its_connection_leaves_no_time_of_its_own() {
    if no_root() {
        return;
    }
    const EXTRA: usize = 30_000;
    let (host, place) = (Host::up(), place());
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir_all(source.join("inner")).unwrap();
    (0..3).for_each(|number| drop(file(&source.join(format!("inner/{number}")), 100)));
    Copy::sync().args([contents(&source), target.clone().into()]).run_to(0);
    (0..EXTRA).for_each(|number| fs::write(target.join(format!("inner/extra {number}")), "").unwrap());
    let typed = [contents(&source), host.at(&target)];
    let running =
        Copy::sync().to(&host).options("--delete --max-delete 100% --retry-for 60s").args(typed).start();
    let began = Instant::now();
    while fs::read_dir(target.join("inner")).unwrap().count() > EXTRA {
        assert!(began.elapsed() < PATIENCE, "nothing is removed");
    }
    kill_agents(&host);
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{}\n{:#}", ran.err, ran.report);
    ran.says(&["trying again"]);
    assert_same(&source, &target);
    assert!(
        ran.entries("deleted") <= EXTRA as u64 && ran.entries("unchanged") == 5,
        "{:#}",
        ran.report["entries"]
    );
}
