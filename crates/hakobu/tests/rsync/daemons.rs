//! Daemons with unusual settings, and requests that rsync cannot serve.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::bench::{Bench, assert_nothing_to_do, copy};
use crate::program::{Copy, contents, file};

#[test]
fn a_password_is_taken_from_a_file_or_the_environment_and_a_wrong_one_ends_the_run() {
    let bench = Bench::with("auth users = joe");
    let tree = bench.tree("tree");
    let url = bench.daemon.url_of_joe("m/t");
    let secret = bench.path("secret");
    fs::write(&secret, "sesame\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let to = |url: &str| Copy::new().arg(contents(&tree)).arg(url);
    to(&url).arg("--password-file").arg(&secret).run_to(0);
    assert_nothing_to_do(&tree, &bench.module("t"));
    to(&url).env("RSYNC_PASSWORD", "sesame").run_to(0);
    let before = refusals(&bench);
    let refused = to(&url).env("RSYNC_PASSWORD", "guess").run_to(1);
    refused.says(&["auth failed", "the user joe", "in RSYNC_PASSWORD", "secrets file"]);
    assert!(!refused.err.contains("give user and password"), "{}", refused.err);
    // A refused login is tried once and not repeated.
    assert_eq!(refusals(&bench) - before, 1);
    to(&url).run_to(1).says(&["auth failed", "give user and password"]);
}

/// Returns the number of logins that the daemon has refused.
fn refusals(bench: &Bench) -> usize {
    bench.daemon.log().matches("auth failed").count()
}

#[test]
fn max_connections_are_respected() {
    let bench = Bench::with("max connections = 2");
    let tree = bench.path("tree");
    fs::create_dir(&tree).unwrap();
    (0..40).for_each(|number| drop(file(&tree.join(number.to_string()), 1_500_000)));
    let ran = copy(&tree, bench.url("m/t")).options("--lanes 6").run_to(0);
    assert_nothing_to_do(&tree, &bench.module("t/tree"));
    assert_eq!(ran.entries("created"), 40);
    assert!(ran.report["lanes_max"].as_u64().unwrap() <= 2, "{:#}", ran.report);
    let told = ran.err.lines().filter_map(|line| line.split_once("going on with ")?.1.parse().ok());
    assert!(told.into_iter().all(|lanes: u32| lanes <= 2), "{}", ran.err);
    let full = bench.daemon.log().matches("max connections (2) reached").count();
    assert!(full > 0, "the limit was never reached");
}

#[test]
fn each_decision_is_told_with_its_figures() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir(&tree).unwrap();
    file(&tree.join("a"), 10);
    let ran = copy(&tree, bench.url("m/t")).options("--why").run_to(0);
    ran.says(&["why: way: rsync: ", "why: connections: ", "an rsync with nothing to do takes "]);
    let ran = copy(tree.join("a"), bench.url("m/b")).options("--why").run_to(0);
    ran.says(&["why: way: rsync: ", "why: connections: 1: it is a single entry"]);
}

#[test]
fn a_module_that_cannot_be_written_to_or_is_not_there_is_named() {
    let bench = Bench::with("read only = yes");
    let tree = bench.tree("tree");
    copy(&tree, bench.url("m/t")).run_to(1).says(&["read only"]);
    copy(&tree, bench.url("nothing/t")).run_to(1).says(&["Unknown module 'nothing'"]);
    assert!(!bench.module("t").exists());
    // Reading from it still works.
    fs::write(bench.module("a"), "a").unwrap();
    copy(bench.url("m/"), bench.path("back")).run_to(0);
    assert_nothing_to_do(&bench.module(""), &bench.path("back"));
}

#[test]
fn options_that_are_refused_are_done_without_and_the_loss_is_counted() {
    let bench = Bench::with("refuse options = hard-links xattrs sparse partial-dir timeout");
    let tree = bench.tree("tree");
    let ran = copy(&tree, bench.url("m/t")).run_to(0);
    ran.says(&["refuses --hard-links: hardlinks is not kept", "refuses --xattrs"]);
    assert_eq!(ran.lost("hardlinks"), 3);
    let read = |name| fs::read(bench.module("t/tree").join(name)).unwrap();
    assert_eq!(read("one"), read("further/three"));
    let ran = copy(&tree, bench.url("m/u")).options("--require hardlinks").run_to(6);
    ran.says(&["--require hardlinks is not met"]);
    assert!(!bench.module("u").exists());
}

#[test]
fn a_hidden_module_with_a_charset_and_without_chroot_works() {
    let bench = Bench::with("list = no\ncharset = utf-8\nuse chroot = no\nmunge symlinks = yes");
    let tree = bench.tree("tree");
    copy(&tree, bench.url("m/t")).run_to(0);
    let back = copy(bench.url("m/t/tree/"), bench.path("back")).options("--allow setuid,devices");
    back.run_to(0);
    assert_nothing_to_do(&tree, &bench.path("back"));
}

#[test]
fn a_module_that_can_only_be_written_to_is_written_to() {
    let bench = Bench::with("write only = yes");
    let tree = bench.tree("tree");
    copy(&tree, bench.url("m/t")).run_to(1).says(&["a slash at the end"]);
    copy(&tree, bench.url("m/t/")).run_to(0);
    assert_nothing_to_do(&tree, &bench.module("t/tree"));
}

#[test]
fn what_rsync_cannot_do_is_refused_before_it_runs() {
    let bench = Bench::new();
    let (tree, url) = (bench.tree("tree"), bench.url("m/t"));
    let cases = [
        (Copy::verify().arg(&tree).arg(&url), "hakobu verify"),
        (copy(&tree, &url).options("--compare digest"), "--compare digest"),
        (copy(&tree, &url).options("--verify wire"), "--verify"),
        (Copy::sync().arg(&tree).arg(&url).arg("--in-place"), "--in-place"),
        (copy(bench.url("m/a"), &url), "between this machine and a daemon"),
        (copy(&tree, bench.path("x")).options("--transport rsync"), "write rsync://host/module/path"),
    ];
    for (run, words) in cases {
        run.run_to(2).says(&[words]);
    }
    assert!(!bench.module("t").exists());
}
