//! An rsync that is killed, files that change or cannot be read, and a run that is stopped.

use std::fs;
use std::time::Duration;

use hakobu_testkit::sshd::descendants;
use rustix::process::Signal;

use crate::bench::{Bench, assert_nothing_to_do, copy, wrapper};
use crate::program::{contents, file, wait_until};

/// Makes the first rsync that copies files slow, and kills it once a part of a file has arrived.
const KILLED: &str = r#"
case "$*" in *--info=progress2*) if mkdir "$MARK" 2>/dev/null; then
    exec 3<&0
    "$REAL" --bwlimit=200 "$@" <&3 &
    until find "$ARRIVES" -type f -name '.?*' -size +1k | grep -q .; do
        kill -0 $! || exit 99
        sleep 0.02
    done
    kill -9 $!
    wait $!
    : > "$MARK/killed"
    kill -9 $$
fi;; esac"#;

#[test]
fn the_batch_of_an_rsync_that_was_killed_is_done_again() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..6 {
        file(&tree.join(number.to_string()), 2_000_000 + number);
    }
    fs::create_dir(bench.module("t")).unwrap();
    let path = wrapper(&bench.path("bin"), KILLED);
    let (mark, arrives) = (bench.path("mark"), bench.module("t"));
    let run = copy(contents(&tree), bench.url("m/t")).options("--lanes 2");
    let ran = run.env("PATH", path).env("MARK", &mark).env("ARRIVES", &arrives).run_to(0);
    assert!(mark.join("killed").exists());
    ran.says(&["connection lost", "copied again"]);
    assert_nothing_to_do(&tree, &bench.module("t"));
    assert_eq!((ran.entries("created"), ran.entries("failed")), (6, 0));
}

#[test]
fn a_run_that_is_stopped_ends_its_children_and_can_be_gone_on_with() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..8 {
        file(&tree.join(number.to_string()), 2_000_000);
    }
    let slow = r#"case "$*" in *--info=progress2*) exec "$REAL" --bwlimit=100 "$@";; esac"#;
    let path = wrapper(&bench.path("bin"), slow);
    for signal in [Signal::INT, Signal::KILL] {
        let typed = copy(&tree, bench.url("m/t")).options("--lanes 2");
        let mut running = typed.env("PATH", &path).start();
        running.wait_until_under_way();
        let children = descendants(running.id().as_raw_nonzero().get().cast_unsigned());
        assert!(!children.is_empty());
        running.signal(signal);
        let ran = running.end();
        if signal == Signal::INT {
            assert_eq!((ran.code, ran.report["outcome"].as_str()), (Some(130), Some("interrupted")));
            ran.says(&["to go on: "]);
        }
        // An rsync that survives would overwrite files of the next run.
        let ended = |child: &u32| !std::path::Path::new(&format!("/proc/{child}")).exists();
        wait_until("its children end", Duration::from_secs(60), || children.iter().all(ended));
    }
    copy(&tree, bench.url("m/t")).run_to(0);
    assert_nothing_to_do(&tree, &bench.module("t/tree"));
}

#[test]
fn a_file_that_changes_while_it_is_read_is_reported() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["quiet", "busy"] {
        fs::write(tree.join(name), name).unwrap();
    }
    let written =
        r#"case "$*" in *--info=progress2*) "$REAL" "$@"; code=$?; echo more >> "$BUSY"; exit $code;; esac"#;
    let path = wrapper(&bench.path("bin"), written);
    let run = copy(&tree, bench.url("m/t")).env("PATH", path).env("BUSY", tree.join("busy"));
    let ran = run.run_to(5);
    let failures = ran.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].0, "tree/busy");
}

#[test]
fn what_cannot_be_written_is_a_failure_of_its_own_and_never_a_success() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    for name in ["a", "b", "d/c"] {
        fs::write(tree.join(name), name).unwrap();
    }
    // A directory that is not empty is in the place of a file.
    fs::create_dir_all(bench.module("t/tree/a/full")).unwrap();
    let ran = copy(&tree, bench.url("m/t")).run_to(3);
    assert_eq!(ran.failures().iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["tree/a"]);
    assert_eq!(ran.entries("created"), 3);
    assert!(bench.module("t/tree/d/c").exists() && bench.module("t/tree/a/full").exists());
}

#[test]
fn what_rsync_keeps_of_a_run_that_was_cut_off_takes_no_part() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir_all(tree.join("in/.rsync-partial")).unwrap();
    fs::write(tree.join("in/.rsync-partial/large"), "a part").unwrap();
    fs::write(tree.join("in/file"), "whole").unwrap();
    copy(contents(&tree), bench.url("m/t")).run_to(0);
    assert!(bench.module("t/in/file").exists() && !bench.module("t/in/.rsync-partial").exists());
    fs::create_dir(bench.module("t/in/.rsync-partial")).unwrap();
    let back = bench.path("back");
    let ran = copy(bench.url("m/t/"), &back).run_to(0);
    assert_eq!((ran.entries("scanned"), ran.entries("skipped")), (3, 1));
    assert!(back.join("in/file").exists() && !back.join("in/.rsync-partial").exists());
}
