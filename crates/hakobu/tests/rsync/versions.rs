//! An older rsync, and a missing one.

use std::fs;

use crate::bench::{Bench, assert_nothing_to_do, copy, wrapper};

/// A script that rejects the options that rsync 3.0 does not know.
const OLD: &str = r#"
for argument; do
    case $argument in
    --version) echo "rsync  version 3.0.9  protocol version 30"; exit 0;;
    --info=*|--outbuf=*|--no-human-readable|--delete-missing-args)
        echo "rsync: $argument: unknown option" >&2
        echo "rsync error: syntax or usage error (code 1) at main.c(1422) [client=3.0.9]" >&2
        exit 1;;
    esac
done"#;

#[test]
fn an_old_rsync_is_given_the_options_that_it_knows() {
    let bench = Bench::new();
    let tree = bench.tree("tree");
    let path = wrapper(&bench.path("bin"), OLD);
    let ran = copy(&tree, bench.url("m/t")).env("PATH", &path).run_to(0);
    ran.says(&["whole seconds"]);
    assert_nothing_to_do(&tree, &bench.module("t/tree"));
    assert_eq!(ran.entries("created"), ran.entries("scanned"));
    let back = copy(bench.url("m/t/tree"), bench.path("back")).options("--allow setuid,devices");
    back.env("PATH", &path).run_to(0);
    assert_nothing_to_do(&tree, &bench.path("back/tree"));
}

#[test]
fn without_rsync_the_error_says_what_to_install() {
    let bench = Bench::new();
    let tree = bench.tree("tree");
    fs::create_dir(bench.path("empty")).unwrap();
    let ran = copy(&tree, bench.url("m/t")).env("PATH", bench.path("empty")).run_to(1);
    ran.says(&["rsync is not installed", "install the package rsync"]);
    let other = wrapper(&bench.path("bin"), "echo 'openrsync: protocol version 29'; exit 0");
    copy(&tree, bench.url("m/t")).env("PATH", other).run_to(1).says(&["openrsync"]);
}
