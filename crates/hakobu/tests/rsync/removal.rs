//! `hakobu sync` deletes extra entries if the user agrees, but never those that a rule excludes.

use std::fs;
use std::path::Path;

use crate::bench::{Bench, assert_nothing_to_do};
use crate::program::{Copy, contents};

/// Adds extra entries to a copy of the tree.
fn add(target: &Path) {
    fs::create_dir_all(target.join("old/deep")).unwrap();
    for name in ["old/deep/x", "old/y", "further/extra", "kept.log", "old/kept.log"] {
        fs::write(target.join(name), name).unwrap();
    }
    // A directory takes the place of a file.
    fs::remove_file(target.join("large")).unwrap();
    fs::create_dir(target.join("large")).unwrap();
    fs::write(target.join("large/in it"), "").unwrap();
}

/// Returns the added entries that still exist.
fn left(target: &Path) -> Vec<&'static str> {
    let added = ["old/deep", "old/y", "further/extra", "large/in it", "old/kept.log", "kept.log"];
    added.into_iter().filter(|name| target.join(name).exists()).collect()
}

#[test]
fn nothing_goes_without_consent_or_beyond_the_limit() {
    let bench = Bench::new();
    let tree = bench.tree("tree");
    let sync = || Copy::sync().arg(contents(&tree)).arg(bench.url("m/t"));
    sync().run_to(0);
    add(&bench.module("t"));
    let all = left(&bench.module("t"));
    // First nobody can be asked, then there are too many entries.
    let ran = sync().run_to(6);
    ran.says(&["--delete removes them"]);
    assert_eq!(ran.entries("only_in_target"), 9);
    sync().options("--delete --max-delete 8").run_to(6).says(&["--max-delete allows 8"]);
    let planned = sync().options("--delete -n").run_to(0);
    let is_deletion = |event: &&serde_json::Value| event["event"] == "planned" && event["action"] == "delete";
    assert_eq!(planned.events.iter().filter(is_deletion).count(), 9);
    // Entries that replace directories are planned as well.
    assert_eq!((planned.entries("failed"), planned.entries("created")), (0, 1));
    Copy::new().arg(contents(&tree)).arg(bench.url("m/t")).run_to(3);
    assert_eq!(left(&bench.module("t")), all);

    fs::write(tree.join("new"), "new").unwrap();
    fs::write(tree.join("one"), "of three names, and other content").unwrap();
    let ran = sync().options("--delete --itemize").run_to(0);
    assert_eq!(ran.entries("deleted"), 9);
    let listed = ran.changes();
    let of = |wanted: &str| -> Vec<&str> {
        listed.iter().filter(|(action, _)| action == wanted).map(|(_, path)| &**path).collect()
    };
    let mut deleted = of("delete");
    deleted.sort_unstable();
    let gone = [
        "further/extra",
        "kept.log",
        "large",
        "large/in it",
        "old",
        "old/deep",
        "old/deep/x",
        "old/kept.log",
        "old/y",
    ];
    assert_eq!(deleted, gone);
    let named = ran.report["deletions"].as_array().unwrap().iter();
    let mut named: Vec<_> = named.map(|deletion| deletion["path"].as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, gone);
    assert_eq!(of("create"), ["large", "new"]);
    assert_eq!(of("create").len() as u64, ran.entries("created"), "{listed:?}");
    assert!(of("update").contains(&"one"), "{listed:?}");
    assert_eq!(of("update").len() as u64, ran.entries("updated"), "{listed:?}");
    assert_nothing_to_do(&tree, &bench.module("t"));
}

/// The deletion limit counts only entries that existed before the run.
#[test]
fn more_than_half_of_what_was_there_stays_whatever_comes() {
    let bench = Bench::new();
    let source = bench.path("source");
    fs::create_dir_all(source.join("new/deep")).unwrap();
    for number in 0..20 {
        fs::write(source.join(format!("new/deep/{number}")), "x").unwrap();
    }
    let target = bench.module("t");
    fs::create_dir(&target).unwrap();
    for name in ["one", "two", "three"] {
        fs::write(target.join(name), name).unwrap();
    }
    let sync = || Copy::sync().options("--delete").arg(contents(&source)).arg(bench.url("m/t"));
    sync().run_to(6).says(&["3 of the 3 entries at the target would be deleted", "more than half"]);
    assert!(target.join("one").exists() && target.join("new/deep/19").exists());
}

#[test]
fn a_copy_takes_nothing_away_from_the_target() {
    let bench = Bench::new();
    let fill = |source: &Path, target: &Path| {
        fs::create_dir_all(source.join("file/deep")).unwrap();
        fs::write(source.join("file/deep/x"), "new").unwrap();
        fs::write(source.join("empty"), "new").unwrap();
        fs::write(source.join("other"), "new").unwrap();
        fs::create_dir_all(target.join("empty")).unwrap();
        fs::write(target.join("file"), "old").unwrap();
    };
    let unharmed = |target: &Path| {
        assert_eq!(fs::read(target.join("file")).unwrap(), b"old");
        assert!(target.join("empty").is_dir() && target.join("other").is_file());
    };
    let (source, target) = (bench.path("s"), bench.module("t"));
    fill(&source, &target);
    let ran = Copy::new().arg(contents(&source)).arg(bench.url("m/t")).run_to(3);
    ran.says(&["something that is no directory is in the way", "a directory is in the way"]);
    assert_eq!((ran.entries("failed"), ran.entries("created")), (2, 1));
    unharmed(&target);
    let (source, target) = (bench.module("s"), bench.path("t"));
    fill(&source, &target);
    let ran = Copy::new().arg(bench.url("m/s/")).arg(&target).run_to(3);
    assert_eq!((ran.entries("failed"), ran.entries("created")), (2, 1));
    unharmed(&target);
}

#[test]
fn what_a_rule_leaves_out_stays_in_both_directions() {
    let bench = Bench::new();
    let tree = bench.tree("tree");
    let kept = ["old/kept.log", "kept.log"];
    let sync = |source: &std::ffi::OsStr, target: &std::ffi::OsStr| {
        Copy::sync().args([source, target]).args([
            "--exclude",
            "*.log",
            "--delete",
            "--allow",
            "setuid,devices",
        ])
    };
    let out = || sync(&contents(&tree), bench.url("m/t").as_ref());
    out().run_to(0);
    add(&bench.module("t"));
    out().run_to(0);
    assert_eq!(left(&bench.module("t")), kept);

    let inwards = || sync(bench.url("m/t/").as_ref(), bench.path("back").as_ref());
    inwards().run_to(0);
    add(&bench.path("back"));
    inwards().run_to(0);
    assert_eq!(left(&bench.path("back")), kept);
}

#[test]
fn a_daemon_that_refuses_to_delete_is_given_everything_else() {
    let bench = Bench::with("refuse options = delete");
    let tree = bench.tree("tree");
    let sync = || Copy::sync().arg(contents(&tree)).arg(bench.url("m/t")).arg("--delete");
    sync().run_to(0);
    fs::write(bench.module("t/extra"), "").unwrap();
    fs::write(tree.join("more"), "more").unwrap();
    sync().run_to(1).says(&["refuses to delete"]);
    assert!(bench.module("t/extra").exists() && bench.module("t/more").exists());
}
