//! Rules and limits that exclude entries, and their effect on the target.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use hakobu_testkit::sshd::no_root;

use crate::program::*;

/// A small tree, and a target for it.
struct Pair {
    place: tempfile::TempDir,
    source: PathBuf,
    target: PathBuf,
}

impl Pair {
    fn new() -> Self {
        let place = place();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        for name in ["src/main.c", "src/main.o", "src/deep/x.o", "cache/a/b", "keep.o", "notes"] {
            let path = source.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        Self { place, source, target }
    }

    fn typed(&self) -> [OsString; 2] {
        [contents(&self.source), self.target.clone().into()]
    }
}

/// Returns the files below a directory.
fn files(root: &Path) -> Vec<String> {
    let output = Command::new("find").arg(root).args(["-type", "f", "-printf", "%P\n"]).output().unwrap();
    let mut files: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    files.sort();
    files
}

const RULES: &str = "--exclude *.o --include /keep.o --exclude cache/";

#[test]
fn rules_hold_here_in_a_push_in_a_pull_and_for_named_directories() {
    let host = Host::up();
    let expected = ["keep.o", "notes", "src/main.c"];
    for way in 0..4 {
        let pair = Pair::new();
        let (typed, landed) = match way {
            0 => (pair.typed(), pair.target.clone()),
            1 => ([contents(&pair.source), host.at(&pair.target)], pair.target.clone()),
            2 => ([contents(host.at(&pair.source)), pair.target.clone().into()], pair.target.clone()),
            // Rules are relative to the directory that was named.
            _ => ([pair.source.clone().into(), pair.target.clone().into()], pair.target.join("source")),
        };
        let ran = Copy::new().to(&host).options(RULES).args(&typed).run_to(0);
        assert_eq!(files(&landed), expected, "{way}");
        assert!(!landed.join("cache").exists() && landed.join("src/deep").is_dir());
        // main.o, x.o and cache, whose content was not listed.
        assert_eq!(ran.entries("skipped"), 3, "{:#}", ran.report);
        let again = Copy::new().to(&host).options(RULES).args(&typed).run_to(0);
        assert_eq!(again.entries("created") + again.entries("attributes_only"), 0);
    }
}

#[test]
fn rules_of_a_file_and_limits() {
    let pair = Pair::new();
    let rules = pair.place.path().join("rules");
    fs::write(&rules, "# objects\n*.o\n!keep.o\n").unwrap();
    let old = SystemTime::now() - Duration::from_secs(10 * 86_400);
    let stamp = |name: &str| {
        fs::File::options().write(true).open(pair.source.join(name)).unwrap().set_modified(old).unwrap();
    };
    stamp("notes");
    file(&pair.source.join("large"), 3_000_000);
    let run = |options: &str| {
        let _ = fs::remove_dir_all(&pair.target);
        Copy::new().options(options).args(pair.typed()).run_to(0);
        files(&pair.target)
    };
    let file = format!("--filter-file {}", rules.display());
    assert_eq!(run(&format!("{file} --max-size 1MB")), ["cache/a/b", "keep.o", "notes", "src/main.c"]);
    assert_eq!(
        run(&format!("{file} --newer-than 7d --exclude large")),
        ["cache/a/b", "keep.o", "src/main.c"]
    );
    assert_eq!(run("--older-than 7d"), ["notes"]);
    assert_eq!(run("--min-size 1MB"), ["large"]);
}

#[test]
fn what_is_left_out_is_not_removed_either() {
    let pair = Pair::new();
    Copy::new().args(pair.typed()).run_to(0);
    for name in ["old/x.o", "old/deep/text", "gone/text"] {
        let path = pair.target.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    fs::remove_file(pair.source.join("src/main.c")).unwrap();
    fs::remove_file(pair.source.join("src/main.o")).unwrap();
    let ran = Copy::sync().options("--delete --exclude *.o").args(pair.typed()).run_to(0);
    // main.c, old/deep with its file, gone with its file. old contains an excluded entry, so it stays.
    assert_eq!(ran.entries("deleted"), 5, "{:#}", ran.report);
    assert_eq!(
        files(&pair.target),
        ["cache/a/b", "keep.o", "notes", "old/x.o", "src/deep/x.o", "src/main.o"]
    );
    // The next run has nothing to delete.
    let again = Copy::sync().options("--exclude *.o").args(pair.typed()).run_to(0);
    assert_eq!((again.entries("deleted"), again.entries("only_in_target")), (0, 0), "{:#}", again.report);
}

#[test]
fn a_directory_with_something_protected_in_it_cannot_make_way() {
    let pair = Pair::new();
    Copy::new().args(pair.typed()).run_to(0);
    for name in ["src", "cache"] {
        fs::remove_dir_all(pair.source.join(name)).unwrap();
        fs::write(pair.source.join(name), "a file").unwrap();
    }
    let protected = "--delete --exclude deep/ --exclude *.o --exclude /src/main.c";
    for options in ["", "--delete-during", "--dry-run"] {
        let copy = Copy::sync().options(protected).options(options);
        let ran = copy.args(pair.typed()).run_to(3);
        assert_eq!(ran.failures().len(), 1, "{:?}", ran.failures());
        let told = ran.err.lines().filter(|line| line.starts_with("failed: ")).count();
        assert_eq!(told, 1, "{}", ran.err);
        let (path, error) = &ran.failures()[0];
        assert!(
            path.ends_with("src") && error.contains("a filter rule leaves something in it alone"),
            "{error}"
        );
        assert_eq!(files(&pair.target)[..2], ["cache/a/b", "keep.o"], "nothing is deleted after failures");
    }
    fs::remove_dir_all(pair.target.join("src")).unwrap();
    Copy::sync().options(protected).options("--max-delete 100%").args(pair.typed()).run_to(0);
    assert_eq!(files(&pair.target), ["cache", "keep.o", "notes", "src"]);
}

#[test]
fn rules_that_are_none_are_refused() {
    let pair = Pair::new();
    for (options, words) in [
        ("--exclude [a", "`[a`"),
        ("--filter-file /nothing/here", "/nothing/here"),
        ("--newer-than soon", "2026-11-01"),
        ("--max-size many", "--max-size"),
    ] {
        let ran = Copy::new().options(options).args(pair.typed()).run();
        assert!(matches!(ran.code, Some(1 | 2)), "{options}: {:?}", ran.code);
        ran.says(&[words]);
        assert!(!pair.target.exists());
    }
}

#[test]
fn explain_names_the_rule() {
    let pair = Pair::new();
    let explain = |path: &str, options: &str| {
        let output = Command::new(HAKOBU)
            .args(["explain", path])
            .arg(&pair.source)
            .args(options.split_whitespace())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout) + &text(output.stderr))
    };
    for (path, code, words) in [
        ("src/main.o", 3, "src/main.o is excluded: matches `*.o` (--exclude)"),
        ("keep.o", 0, "keep.o is included: it matches `!/keep.o` (--include)"),
        ("notes", 0, "notes is included: no rule excludes it"),
        ("cache/a/b", 3, "cache/a/b is excluded: it lies in cache, which matches `cache/` (--exclude)"),
        ("missing", 1, "missing"),
        ("../out", 2, "below SOURCE"),
    ] {
        let (found, said) = explain(path, RULES);
        assert_eq!(found, code, "{said}");
        assert!(said.contains(words), "{said}");
    }
    let (code, said) = explain("notes", "--min-size 1GB");
    assert!(code == 3 && said.contains("--min-size; it has 5 bytes"), "{said}");
    let (code, said) = explain("missing", "");
    assert!(code == 1 && said.contains("missing"), "{said}");
    let (code, said) = explain("notes", "-x");
    assert!(code == 0 && said.contains("no rule excludes it"), "{said}");
    if !no_root() {
        let small = Small::mount(&pair.source.join("mounted"), "size=1m");
        fs::write(small.0.join("inner"), "content").unwrap();
        let (code, said) = explain("mounted/inner", "--one-file-system");
        assert!(code == 3 && said.contains("it lies in mounted, which is on another file system"), "{said}");
        assert_eq!((explain("mounted", "-x").0, explain("mounted/inner", "").0), (0, 0));
    }
    let whole = pair.source.join("notes");
    let (code, said) = explain(whole.to_str().unwrap(), "");
    assert!(code == 0 && said.contains("there are no rules"), "{said}");
    let remote = Command::new(HAKOBU).args(["explain", "notes", "host:/tree"]).output().unwrap();
    let said = String::from_utf8_lossy(&remote.stderr);
    assert!(
        remote.status.code() == Some(2) && said.contains("run hakobu explain on the other host"),
        "{said}"
    );
}
