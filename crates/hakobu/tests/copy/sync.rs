//! `hakobu sync` of trees: the target becomes equal, and deletions need consent.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::SshdOptions;
use hakobu_testkit::sshd::{Shell, Sudo, User, no_root};

use crate::program::*;

/// A tree, and a copy of it with extra entries.
struct Pair {
    place: tempfile::TempDir,
    source: PathBuf,
    target: PathBuf,
}

/// The number of extra entries.
const EXTRAS: u64 = 5;

impl Pair {
    fn new() -> Self {
        let place = place();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        tree(&source);
        Copy::new().arg(contents(&source)).arg(&target).run_to(0);
        fs::create_dir_all(target.join("old/deep")).unwrap();
        for name in ["old/deep/one", "old/two", "three"] {
            file(&target.join(name), 1000);
        }
        Self { place, source, target }
    }

    fn here(&self) -> [OsString; 2] {
        [contents(&self.source), self.target.clone().into()]
    }

    fn has_extras(&self) -> bool {
        ["old/deep/one", "old/two", "three"].iter().all(|name| self.target.join(name).exists())
    }
}

#[test]
fn here_pushed_and_pulled_the_target_becomes_equal() {
    let host = Host::up();
    for way in 0..3 {
        let pair = Pair::new();
        let typed = match way {
            0 => pair.here(),
            1 => [contents(&pair.source), host.at(&pair.target)],
            _ => [contents(host.at(&pair.source)), pair.target.clone().into()],
        };
        file(&pair.source.join("new"), 5000);
        let ran = Copy::sync().to(&host).options("--delete").args(&typed).run_to(0);
        assert_eq!((ran.entries("deleted"), ran.entries("created")), (EXTRAS, 1), "{:#}", ran.report);
        assert_eq!(ran.entries("only_in_target"), 0);
        assert_eq!(
            ran.entries("scanned"),
            ran.entries("created") + ran.entries("unchanged"),
            "{:#}",
            ran.report
        );
        assert_same(&pair.source, &pair.target);
        let again = Copy::sync().to(&host).args(&typed).run_to(0);
        assert_eq!((again.entries("deleted"), again.entries("only_in_target")), (0, 0));
        assert_eq!(again.entries("unchanged"), again.entries("scanned"), "{:#}", again.report);
    }
    host.wait_for_no_agent();
}

/// Deleting, and replacing deleted entries, changes no other count of the report.
#[test]
fn a_deletion_changes_no_other_count() {
    const LEFT_ALONE: [&str; 4] = ["scanned", "unchanged", "skipped", "failed"];
    for options in ["--delete", "--delete-during"] {
        let place = place();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        fs::create_dir_all(source.join("down")).unwrap();
        fs::create_dir_all(&target).unwrap();
        file(&source.join("down/equal"), 1000);
        file(&source.join("left out"), 1000);
        let _socket = std::os::unix::net::UnixListener::bind(source.join("down/socket")).unwrap();
        file(&target.join("left out too"), 1000);
        let here = [contents(&source), target.clone().into()];
        let sync = |options: &str| {
            let rules = format!("{options} --exclude left*");
            Copy::sync().options(&rules).args(&here).run_to(0)
        };
        sync("");
        let count = |ran: &Ran| LEFT_ALONE.map(|name| ran.entries(name));
        let expected = count(&sync(""));
        assert_eq!(expected, [5, 3, 3, 0], "a socket and one entry of each side are left out");
        file(&target.join("down/gone"), 1000);
        let ran = sync(options);
        assert_eq!((count(&ran), ran.entries("deleted")), (expected, 1), "{options}: {:#}", ran.report);
        // A file takes the place of a directory.
        fs::create_dir_all(target.join("new/deep")).unwrap();
        file(&source.join("new"), 1000);
        let ran = sync(options);
        let [scanned, unchanged, skipped, failed] = expected;
        assert_eq!(count(&ran), [scanned + 1, unchanged, skipped, failed], "{options}: {:#}", ran.report);
        assert_eq!((ran.entries("deleted"), ran.entries("created")), (2, 1), "{options}: {:#}", ran.report);
        assert_eq!((ran.entries("updated"), ran.entries("only_in_target")), (0, 0), "{options}");
        assert!(source.join("new").is_file() && target.join("left out too").exists());
    }
}

#[test]
fn nothing_goes_without_leave() {
    let pair = Pair::new();
    file(&pair.source.join("new"), 5000);
    let ran = Copy::verb(alone(), "sync").args(pair.here()).run_to(6);
    ran.says(&["5 entries stay", "--delete removes them"]);
    assert_eq!(ran.report["outcome"], "refused");
    // Everything else has been done.
    assert_eq!((ran.entries("created"), ran.entries("only_in_target")), (1, EXTRAS));
    assert!(pair.has_extras() && pair.target.join("new").exists());
    let ran = Copy::new().options("--delete").args(pair.here()).run_to(2);
    ran.says(&["hakobu sync"]);
    assert!(pair.has_extras());
}

/// Returns the program in a session without a terminal.
fn alone() -> Command {
    let mut command = Command::new("setsid");
    command.args(["--wait", HAKOBU]);
    command
}

#[test]
fn a_plan_says_what_would_go() {
    let pair = Pair::new();
    let ran = Copy::sync().options("-n").args(pair.here()).run_to(0);
    let planned =
        ran.events.iter().filter(|event| event["event"] == "planned" && event["action"] == "delete");
    let mut paths: Vec<_> = planned.map(|event| event["path"].as_str().unwrap().to_owned()).collect();
    paths.sort();
    assert_eq!(paths, ["old", "old/deep", "old/deep/one", "old/two", "three"]);
    assert!(pair.has_extras());
    assert_eq!((ran.entries("deleted"), ran.entries("only_in_target")), (0, EXTRAS));
    let ran = Copy::sync().options("-n --max-delete 4").args(pair.here()).run_to(6);
    ran.says(&["--max-delete allows 4"]);
}

/// The plan contains the entries that replace deleted ones.
#[test]
fn a_plan_says_what_comes_in_the_place_of_what_goes() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    for directory in [source.join("down"), target.join("up")] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(source.join("up"), "a file").unwrap();
    fs::write(target.join("up/inner"), "goes").unwrap();
    fs::write(target.join("down"), "is replaced").unwrap();
    let typed = [contents(&source), target.clone().into()];
    let ran = Copy::sync().options("-n --max-delete 100%").args(&typed).run_to(0);
    let planned = ran.events.iter().filter(|event| event["event"] == "planned");
    let mut planned: Vec<_> = planned
        .map(|event| format!("{} {} {}", event["action"], event["path"], event["size_bytes"]))
        .collect();
    planned.sort();
    assert_eq!(
        planned,
        [r#""create" "up" 6"#, r#""delete" "up" 0"#, r#""delete" "up/inner" 0"#, r#""replace" "down" 0"#]
    );
    assert_eq!((ran.entries("created"), ran.entries("updated")), (1, 1), "{:#}", ran.report);
    let ran = Copy::sync().options("--delete --max-delete 100%").args(&typed).run_to(0);
    assert_eq!((ran.entries("created"), ran.entries("updated")), (1, 1), "{:#}", ran.report);
    assert_same(&source, &target);
}

#[test]
fn more_than_was_allowed_is_refused_as_a_whole() {
    let pair = Pair::new();
    for limit in ["4", "0", "1%"] {
        let ran = Copy::sync().options(&format!("--delete --max-delete {limit}")).args(pair.here()).run_to(6);
        ran.says(&["would be deleted", "none was deleted"]);
        assert!(pair.has_extras());
    }
    for wrong in ["101%", "-1", "many", "%"] {
        Copy::sync().options("--delete").arg(format!("--max-delete={wrong}")).args(pair.here()).run_to(2);
    }
    // An empty source, as if a file system were not mounted.
    let empty = pair.place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let typed = [contents(&empty), pair.target.clone().into()];
    let ran = Copy::sync().options("--delete").args(&typed).run_to(6);
    ran.says(&["more than half", "is that the right source?"]);
    assert!(pair.has_extras() && fs::read_dir(&pair.target).unwrap().count() > 5);
    Copy::sync().options("--delete --max-delete 100%").args(&typed).run_to(0);
    assert_same(&empty, &pair.target);
}

#[test]
fn after_a_failure_nothing_goes() {
    if no_root() {
        return;
    }
    let pair = Pair::new();
    let user = User::create(Shell::Bash, &Sudo::Refused).unwrap();
    let bin = crate::agents::bin();
    let host = Host::with(&SshdOptions {
        login: Some(user.name().to_owned()),
        path_dirs: vec![bin.path().to_owned()],
        ..SshdOptions::default()
    });
    // The remote user may read the entries, except for the one that is created below.
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(&pair.source).status().unwrap();
    assert!(opened.success());
    let secret = pair.source.join("secret");
    file(&secret, 10);
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let typed = [contents(host.at(&pair.source)), pair.target.clone().into()];
    let ran = Copy::sync().to(&host).options("--delete").args(&typed).run_to(3);
    ran.says(&["nothing is deleted after failures"]);
    assert!(pair.has_extras());
    assert_eq!(ran.entries("deleted"), 0);
    fs::remove_file(&secret).unwrap();
    Copy::sync().to(&host).options("--delete").args(&typed).run_to(0);
    assert!(!pair.target.join("three").exists() && !pair.target.join("old").exists());
}

#[test]
fn one_kind_takes_the_place_of_another() {
    let host = Host::up();
    for (options, far) in [("--delete", false), ("--delete", true), ("--delete-during", false)] {
        let pair = Pair::new();
        fs::create_dir(pair.target.join("becomes a file")).unwrap();
        file(&pair.target.join("becomes a file/within"), 10);
        file(&pair.source.join("becomes a file"), 3000);
        file(&pair.target.join("becomes a directory"), 10);
        fs::create_dir(pair.source.join("becomes a directory")).unwrap();
        file(&pair.source.join("becomes a directory/within"), 400_000);
        let target = if far { host.at(&pair.target) } else { pair.target.clone().into() };
        // `copy` deletes nothing.
        let ran = Copy::new().to(&host).arg(contents(&pair.source)).arg(&target).run_to(3);
        assert_eq!(ran.failures().len(), 2, "{:#}", ran.report);
        let ran = Copy::sync().to(&host).options(options).arg(contents(&pair.source)).arg(&target).run_to(0);
        assert_same(&pair.source, &pair.target);
        assert_eq!(ran.entries("deleted"), EXTRAS + 2, "{:#}", ran.report);
    }
}

#[test]
fn before_anything_is_brought_over() {
    let pair = Pair::new();
    // The target has room for only one of the two large files.
    let small = Small::mount(&pair.place.path().join("small"), "size=8m");
    let (source, target) = (pair.place.path().join("big"), small.0.join("target"));
    fs::create_dir_all(&target).unwrap();
    fs::create_dir(&source).unwrap();
    for index in 0..9 {
        file(&source.join(format!("small {index}")), 10);
    }
    Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    file(&target.join("old"), 5_000_000);
    file(&source.join("new"), 5_000_000);
    let typed = [contents(&source), target.clone().into()];
    let ran = Copy::sync().options("--delete").args(&typed).run_to(6);
    ran.says(&["free space at the target"]);
    assert!(target.join("old").exists());
    let ran = Copy::sync().options("--delete-during").args(&typed).run_to(0);
    assert_eq!((ran.entries("deleted"), ran.entries("created")), (1, 1), "{:#}", ran.report);
    assert_same(&source, &target);
}

#[test]
fn a_refused_deletion_before_the_copy_changes_nothing_and_says_so() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&target).unwrap();
    file(&source.join("new"), 10);
    file(&target.join("old"), 10);
    let typed = [contents(&source), target.clone().into()];
    let ran = Copy::sync().options("--delete-during --max-delete 0 --itemize").args(&typed).run_to(6);
    ran.says(&["none was deleted; nothing was copied", "refused: 0 created"]);
    assert_eq!((ran.entries("created"), ran.entries("deleted")), (0, 0), "{:#}", ran.report);
    assert!(!target.join("new").exists() && target.join("old").exists());
    // Where it is deleted last, all else is done.
    let ran = Copy::sync().options("--delete --max-delete 0").args(&typed).run_to(6);
    assert_eq!((ran.entries("created"), ran.entries("deleted")), (1, 0), "{:#}", ran.report);
    assert!(target.join("new").exists() && target.join("old").exists());
}

/// Runs `sync` on a terminal, types the answer, and returns the exit code and the output.
fn asked(pair: &Pair, answer: &str) -> (i32, String) {
    let [from, to] = pair.here().map(|typed| typed.into_string().unwrap());
    let line = format!("exec {HAKOBU} sync '{from}' '{to}'");
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
    script.env("TERM", "dumb").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut shown = String::new();
    while !shown.contains("y (yes) or n (no): ") {
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        shown.push(char::from(byte[0]));
    }
    // Closing the input would close the terminal.
    let mut input = child.stdin.take().unwrap();
    input.write_all(answer.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    shown.push_str(&String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), shown)
}

#[test]
fn on_a_terminal_it_is_asked() {
    let pair = Pair::new();
    for no in ["no\n", "\n", "yess\n"] {
        let (code, shown) = asked(&pair, no);
        assert_eq!(code, 0, "{shown}");
        assert!(shown.contains("note: Nothing deleted, as requested: 5 extra entries remain"), "{shown}");
        assert!(shown.contains("5 entries of ") && shown.contains("\n  old/deep/one"), "{shown}");
        assert!(pair.has_extras());
    }
    // Ctrl-C
    let (code, shown) = asked(&pair, "\x03");
    assert_eq!(code, 130, "{shown}");
    assert!(shown.contains("interrupted: 0 created") && shown.contains("5 only in the target"), "{shown}");
    assert!(pair.has_extras());
    let (code, shown) = asked(&pair, "Y\n");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("5 deleted"), "{shown}");
    assert_same(&pair.source, &pair.target);
}
