//! `--itemize` and `--log-file` list the entries that a run changes, and no others.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{XattrFlags, setxattr};

use crate::program::*;

/// Fails unless the listed changes agree with the counts.
#[track_caller]
fn assert_counted(ran: &Ran) {
    let mut listed: HashMap<String, u64> = HashMap::new();
    let changes = ran.changes();
    for (action, _) in &changes {
        *listed.entry(action.clone()).or_default() += 1;
    }
    let count = |actions: &[&str]| actions.iter().filter_map(|action| listed.get(*action)).sum::<u64>();
    let entries = |names: &[&str]| names.iter().map(|name| ran.entries(name)).sum::<u64>();
    // A hard link is new or replaces another file.
    let made = count(&["create", "directory", "link", "update", "replace"]);
    assert_eq!(made, entries(&["created", "updated"]), "{changes:#?} {:#}", ran.report["entries"]);
    assert_eq!(count(&["attributes"]), ran.entries("attributes_only"), "{changes:#?}");
    assert_eq!(count(&["delete"]), ran.entries("deleted"), "{changes:#?}");
}

/// Creates a tree with each kind of entry that is listed in its own way.
fn fill(source: &Path) {
    fs::create_dir_all(source.join("directory/empty")).unwrap();
    for (name, size_bytes) in [("directory/small", 10), ("large", 20_000_000), ("same", 0), ("stays", 5)] {
        file(&source.join(name), size_bytes);
    }
    fs::hard_link(source.join("directory/small"), source.join("further name")).unwrap();
    std::os::unix::fs::symlink("large", source.join("link")).unwrap();
}

fn changes(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(action, path)| ((*action).to_owned(), (*path).to_owned())).collect()
}

#[test]
fn each_change_is_listed_once_whichever_way_it_goes() {
    let host = Host::up();
    for way in ["here", "pushed", "pulled", "--transport sftp"] {
        let place = place();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        fill(&source);
        let sync = |options: &str| {
            let typed = match way {
                "here" => [contents(&source), target.clone().into()],
                "pulled" => [host.at(contents(&source)), target.clone().into()],
                _ => [contents(&source), host.at(&target)],
            };
            let way = if way.starts_with("--") { way } else { "" };
            let ran = Copy::sync()
                .to(&host)
                .options("--delete")
                .options(way)
                .options(options)
                .args(typed)
                .run_to(0);
            assert!(options.contains("--itemize") || ran.changes().is_empty(), "{way}");
            ran
        };
        let ran = sync("--itemize");
        assert_counted(&ran);
        let mut listed = ran.changes();
        // The order of two names of one file depends on the lanes.
        let names = ["directory/small", "further name"];
        let mut of_one: Vec<_> =
            listed.extract_if(.., |change| names.contains(&&*change.1)).map(|change| change.0).collect();
        of_one.sort();
        assert_eq!(of_one, ["create", "link"], "{way}");
        let mut expected = changes(&[
            ("directory", "directory"),
            ("directory", "directory/empty"),
            ("create", "large"),
            ("create", "link"),
            ("create", "same"),
            ("create", "stays"),
        ]);
        // The target itself.
        let root = ("directory".to_owned(), String::new());
        if listed.contains(&root) {
            expected.insert(0, root);
        }
        assert_eq!(listed, expected, "{way}");

        fs::remove_dir(source.join("directory/empty")).unwrap();
        fs::remove_file(source.join("link")).unwrap();
        fs::create_dir_all(target.join("gone/deep")).unwrap();
        file(&target.join("gone/deep/file"), 10);
        fs::create_dir(source.join("link")).unwrap();
        fs::write(source.join("same"), "now it has content").unwrap();
        fs::write(source.join("large"), vec![7; 19_000_000]).unwrap();
        fs::set_permissions(source.join("stays"), fs::Permissions::from_mode(0o600)).unwrap();
        let ran = sync("--itemize");
        assert_counted(&ran);
        let mut listed = ran.changes();
        // Directories whose time alone differs count as unchanged.
        listed.retain(|(action, path)| action != "attributes" || path == "stays");
        let expected = changes(&[
            ("delete", "directory/empty"),
            ("delete", "gone"),
            ("delete", "gone/deep"),
            ("delete", "gone/deep/file"),
            ("update", "large"),
            ("replace", "link"),
            ("update", "same"),
            ("attributes", "stays"),
        ]);
        assert_eq!(listed, expected, "{way}");
        let deletions = ran.report["deletions"].as_array().unwrap();
        let mut deleted: Vec<_> =
            deletions.iter().map(|deletion| deletion["path"].as_str().unwrap()).collect();
        deleted.sort_unstable();
        assert_eq!(deleted, ["directory/empty", "gone", "gone/deep", "gone/deep/file"], "{way}");
        if way != "--transport sftp" {
            assert_same(&source, &target);
        }
        assert!(sync("--itemize").changes().is_empty(), "{way}");
        file(&source.join("new"), 1);
        sync("");
    }
    host.wait_for_no_agent();
}

#[test]
fn new_attributes_of_a_single_file_are_listed() {
    let place = place();
    let (source, target) = (file(&place.path().join("source"), 1_000_000), place.path().join("target"));
    let sync = || {
        let ran = Copy::sync().options("--itemize").arg(&source).arg(&target).run_to(0);
        assert_counted(&ran);
        ran.changes()
    };
    assert_eq!(sync(), changes(&[("create", "target")]));
    assert_eq!(sync(), []);
    fs::set_permissions(&source, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(sync(), changes(&[("attributes", "target")]));
    fs::File::open(&source).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(sync(), changes(&[("attributes", "target")]));
    assert_eq!(sync(), []);
}

#[test]
fn new_attributes_of_a_directory_from_which_something_is_deleted_are_listed() {
    for options in ["--delete", "--delete-during"] {
        let place = place();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        fs::create_dir_all(source.join("inner")).unwrap();
        fs::create_dir_all(target.join("inner")).unwrap();
        file(&target.join("inner/extra"), 5);
        file(&target.join("extra"), 5);
        for (directory, mode) in [(source.clone(), 0o750), (source.join("inner"), 0o711)] {
            fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
        }
        let copy = || Copy::sync().options("--itemize --max-delete 100%").options(options);
        let ran = copy().arg(contents(&source)).arg(&target).run_to(0);
        assert_counted(&ran);
        let expected =
            [("attributes", ""), ("delete", "extra"), ("attributes", "inner"), ("delete", "inner/extra")];
        assert_eq!(ran.changes(), changes(&expected), "{options}");
        assert_same(&source, &target);
        assert_eq!(copy().arg(contents(&source)).arg(&target).run_to(0).changes(), []);
    }
}

#[test]
fn a_target_that_is_made_is_listed_as_made() {
    for options in ["--delete", "--delete-during"] {
        let place = place();
        let source = place.path().join("source");
        fs::create_dir(&source).unwrap();
        file(&source.join("file"), 5);
        setxattr(&source, "user.colour", b"blue", XattrFlags::empty()).unwrap();
        let copy = Copy::sync().options("--itemize").options(options);
        let ran = copy.arg(contents(&source)).arg(place.path().join("target")).run_to(0);
        assert_counted(&ran);
        assert_eq!(ran.changes(), changes(&[("directory", ""), ("create", "file")]), "{options}");
        assert_eq!((ran.entries("created"), ran.entries("attributes_only")), (2, 0), "{options}");
    }
}

#[test]
fn what_failed_is_not_listed_as_done() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    for directory in [&source, &target.join("blocked"), &target.join("far")] {
        fs::create_dir_all(directory).unwrap();
    }
    for name in ["blocked", "fine"] {
        file(&source.join(name), 10);
    }
    file(&source.join("far"), 20_000_000);
    let ran = Copy::new().options("--itemize").arg(contents(&source)).arg(&target).run_to(3);
    assert_eq!(ran.changes(), changes(&[("create", "fine")]));
    assert_eq!(ran.failures().len(), 2);
}

#[test]
fn a_list_on_the_terminal_and_in_a_log_is_one_line_for_each_entry() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    let log = place.path().join("log");
    fs::create_dir_all(&source).unwrap();
    for name in ["a b", "line\nend"] {
        file(&source.join(name), 10);
    }
    let run = |options: &[&str], code: i32| {
        let mut command = Command::new(HAKOBU);
        command.args(["sync", "--delete"]).args(options).arg(contents(&source)).arg(&target);
        let ran = command.env("HAKOBU_SETTINGS", "none").stdin(Stdio::null()).output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{}", String::from_utf8_lossy(&ran.stderr));
        (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap())
    };
    let log_option = format!("--log-file={}", log.display());
    let (listed, _) = run(&["-q", "--itemize"], 0);
    let mut lines: Vec<_> = listed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["create     a b", "create     line\\nend", "directory  ."]);
    // With `--log-file` alone, changes are not printed.
    file(&target.join("gone"), 10);
    let (listed, _) = run(&["-q", &log_option], 0);
    assert_eq!(listed, "");
    fs::remove_file(source.join("a b")).unwrap();
    run(&["-q", &log_option], 0);
    let text = fs::read_to_string(&log).unwrap();
    let words = |line: &str| {
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.ends_with('Z') && time.contains('T'), "{line}");
        rest.split_once(' ').map(|(word, rest)| format!("{word} {}", rest.trim_start())).unwrap()
    };
    let lines: Vec<_> = text.lines().map(words).collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("started ")).count(), 2, "{text}");
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("finished done, exit code 0: ")).count(),
        2,
        "{text}"
    );
    assert!(lines.contains(&"delete gone".to_owned()) && lines.contains(&"delete a b".to_owned()), "{text}");

    // A log that cannot be written is a failure, and a source or target cannot be the log.
    fs::write(source.join("new"), "x").unwrap();
    let (_, said) = run(&["-q", "--log-file=/dev/full"], 1);
    assert!(said.contains("writing the log /dev/full"), "{said}");
    assert!(target.join("new").exists());
    let mut onto = Command::new(HAKOBU);
    onto.args(["copy", "--log-file"])
        .arg(source.join("new"))
        .arg(source.join("new"))
        .arg(target.join("other"));
    assert_eq!(onto.stdin(Stdio::null()).status().unwrap().code(), Some(6));
    assert_eq!(fs::read(source.join("new")).unwrap(), b"x");
}

/// The log tells the exit code that the program has, even if only its report cannot be written.
#[test]
fn a_log_tells_the_exit_code_of_the_program() {
    let place = place();
    let (source, log) = (file(&place.path().join("source"), 5), place.path().join("log"));
    let mut command = Command::new(HAKOBU);
    // A device that is full accepts no report.
    command.args(["copy", "--report", "/dev/full", "--json", "--log-file"]).arg(&log).arg(&source);
    let ran = command.arg(place.path().join("target")).output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains(" error      writing the report"), "{text}");
    assert!(text.contains("exit code 1: 1 created") && !text.contains("exit code 0"), "{text}");
    let events = String::from_utf8(ran.stdout).unwrap();
    assert!(events.lines().last().unwrap().contains(r#""exit_code":1"#), "{events}");
}
