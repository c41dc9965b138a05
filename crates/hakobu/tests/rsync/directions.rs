//! Copies to a module and from one.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::bench::{Bench, assert_nothing_to_do, copy};
use crate::program::{Copy, Small, contents, file};

#[test]
fn a_tree_goes_to_a_module_and_the_second_run_changes_nothing() {
    let bench = Bench::new();
    let tree = bench.tree("tree");
    let ran = copy(&tree, bench.url("m/backup")).options("--lanes 3").run_to(0);
    assert_nothing_to_do(&tree, &bench.module("backup/tree"));
    assert_eq!(ran.report["transport"], "rsync");
    assert_eq!(ran.report["losses"].as_array().map(Vec::len), Some(0), "{:#}", ran.report);
    let created = ran.entries("created");
    assert_eq!((created, ran.entries("unchanged")), (ran.entries("scanned"), 0));

    let ran = copy(&tree, bench.url("m/backup")).run_to(0);
    assert_eq!((ran.entries("created"), ran.entries("updated"), ran.entries("attributes_only")), (0, 0, 0));
    assert_eq!(
        (ran.entries("unchanged"), ran.report["bytes"]["target_written"].as_u64()),
        (created, Some(0))
    );
}

#[test]
fn a_target_that_was_just_made_is_not_listed() {
    let bench = Bench::new();
    let tree = bench.tree("tree");
    let asked = || bench.daemon.log().matches("rsync on m/").count();
    copy(&tree, bench.url("m/t")).run_to(0);
    let at_first = asked();
    copy(&tree, bench.url("m/t")).run_to(0);
    // Each run inspects the ends, but lists the target only where entries exist.
    assert_eq!(asked() - at_first, at_first + 1, "{}", bench.daemon.log());
}

#[test]
fn holes_are_kept_and_not_looked_for_elsewhere() {
    let bench = Bench::new();
    let bytes = 8 << 20;
    let trees = ["holes", "zeros"].map(|name| bench.path(name));
    trees.iter().for_each(|tree| fs::create_dir(tree).unwrap());
    fs::File::create(trees[0].join("file")).unwrap().set_len(bytes).unwrap();
    fs::write(trees[1].join("file"), vec![0; bytes as usize]).unwrap();
    let arrive = |name: &str| {
        let tree = bench.path(name);
        copy(&tree, bench.url("m")).run_to(0);
        copy(tree.join("file"), bench.url(&format!("m/alone-{name}"))).run_to(0);
        [format!("{name}/file"), format!("alone-{name}")].map(|place| {
            let found = fs::metadata(bench.module(&place)).unwrap();
            assert_eq!(found.len(), bytes);
            found.blocks() * 512 < bytes / 2
        })
    };
    assert_eq!([arrive("holes"), arrive("zeros")], [[true; 2], [false; 2]]);
}

#[test]
fn the_contents_of_a_module_come_here() {
    let bench = Bench::new();
    let tree = bench.tree("module/deep/tree");
    // Entries from another machine keep set-ID bits only with `--allow`.
    let allowed = "--allow setuid,devices";
    copy(bench.url("m/deep/tree/"), bench.path("contents")).options(allowed).run_to(0);
    assert_nothing_to_do(&tree, &bench.path("contents"));
    copy(bench.url("m/deep/tree"), bench.path("new")).options(allowed).run_to(0);
    assert_nothing_to_do(&tree, &bench.path("new/tree"));
    let ran = copy(bench.url("m/deep/tree"), bench.path("new")).options(allowed).run_to(0);
    assert_eq!((ran.entries("created"), ran.entries("updated")), (0, 0));
    // A module without a path stands for its content, as with rsync.
    copy(bench.url("m"), bench.path("all")).options(allowed).run_to(0);
    assert_nothing_to_do(&tree, &bench.path("all/deep/tree"));
}

#[test]
fn rights_that_are_not_taken_over_are_named() {
    let bench = Bench::new();
    let program = file(&bench.module("program"), 1000);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    file(&bench.module("other"), 1000);
    let ran = copy(bench.url("m"), bench.path("here")).run_to(3);
    assert_eq!(ran.lost("setid"), 1);
    ran.says(&["such as program", "only with --allow setuid"]);
    assert_eq!(fs::metadata(bench.path("here/program")).unwrap().permissions().mode() & 0o7777, 0o755);
    let ran = copy(bench.url("m/program"), bench.path("alone")).run_to(3);
    assert_eq!(ran.lost("setid"), 1);
}

#[test]
fn single_files_land_as_everywhere() {
    let bench = Bench::new();
    let source = file(&bench.path("a file"), 3_000_000);
    fs::create_dir(bench.module("there")).unwrap();
    for (target, path) in [("m/there", "there/a file"), ("m/renamed", "renamed"), ("m/new/", "new/a file")] {
        let ran = copy(&source, bench.url(target)).run_to(0);
        assert_eq!(fs::read(bench.module(path)).unwrap(), fs::read(&source).unwrap(), "{target}");
        assert_eq!(ran.entries("created"), 1);
    }
    copy(bench.url("m/new/a file"), bench.path("back")).run_to(0);
    assert_eq!(fs::read(bench.path("back")).unwrap(), fs::read(&source).unwrap());
    let ran = copy(bench.url("m/new/no file"), bench.path("back")).run_to(1);
    ran.says(&["no such file"]);
}

#[test]
fn only_what_takes_part_is_copied() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    fs::create_dir_all(tree.join("logs/old")).unwrap();
    for name in ["keep", "a.o", "logs/x", "logs/old/y", "large"] {
        fs::write(tree.join(name), name.repeat(10)).unwrap();
    }
    let options = "--exclude *.o --exclude logs/ --max-size 45";
    copy(contents(&tree), bench.url("m/out")).options(options).run_to(0);
    copy(bench.url("m/out/"), bench.path("back")).options("--exclude kee?").run_to(0);
    let names = |path| {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(bench.module("out")), ["keep"]);
    assert!(names(bench.path("back")).is_empty());
}

#[test]
fn a_plan_changes_nothing() {
    let bench = Bench::new();
    let tree = bench.tree("tree");
    let ran = copy(&tree, bench.url("m/backup")).arg("-n").run_to(0);
    assert!(!bench.module("backup").exists());
    assert_eq!(ran.entries("created"), ran.entries("scanned"));
    let planned = ran.events.iter().filter(|event| event["event"] == "planned").count() as u64;
    assert_eq!(planned, ran.entries("created"));
}

#[test]
fn a_dry_run_foresees_that_this_machine_has_no_room() {
    let bench = Bench::new();
    let tree = bench.module("t");
    fs::create_dir(&tree).unwrap();
    for index in 0..10 {
        file(&tree.join(index.to_string()), 1_000_000);
    }
    let small = Small::mount(&bench.path("small"), "size=8m");
    let plan = || Copy::new().arg("-n").arg(bench.url("m/t/")).arg(small.0.join("target"));
    let ran = plan().run_to(1);
    ran.says(&["10.0 MB are needed", "are free", "hint: free space at the target"]);
    assert_eq!(ran.report["error"]["kind"], "no_space");
    // The replaced entries make room.
    fs::create_dir(small.0.join("target")).unwrap();
    for index in 0..7 {
        file(&small.0.join("target").join(index.to_string()), 999_999);
    }
    plan().run_to(1);
    (7..10).for_each(|index| fs::remove_file(tree.join(index.to_string())).unwrap());
    plan().run_to(0);
}
