//! Commit subjects in the imperative, and the size of the product.

use std::path::Path;
use std::process::Command;

use super::{files, read, root};

/// The verbs that commit subjects begin with. Add one if it is an imperative and none of these fits.
const VERBS: [&str; 80] = [
    "accept",
    "add",
    "adopt",
    "allow",
    "ask",
    "believe",
    "bound",
    "build",
    "check",
    "choose",
    "close",
    "compare",
    "copy",
    "count",
    "cover",
    "cut",
    "define",
    "delete",
    "describe",
    "document",
    "drop",
    "embed",
    "explain",
    "fail",
    "find",
    "fix",
    "give",
    "group",
    "handle",
    "hold",
    "install",
    "keep",
    "let",
    "limit",
    "list",
    "log",
    "make",
    "mark",
    "measure",
    "mention",
    "merge",
    "move",
    "name",
    "open",
    "order",
    "pass",
    "print",
    "put",
    "quote",
    "read",
    "record",
    "refuse",
    "regenerate",
    "release",
    "remove",
    "rename",
    "replace",
    "report",
    "require",
    "restore",
    "retry",
    "return",
    "reuse",
    "rewrite",
    "run",
    "say",
    "shorten",
    "show",
    "skip",
    "sort",
    "split",
    "stop",
    "test",
    "untie",
    "update",
    "use",
    "wait",
    "warn",
    "wrap",
    "write",
];
/// The last commit before the rule.
const BEFORE_THE_RULE: &str = "db8a9c066d";
const SUBJECT_CHARACTERS_MAX: usize = 72;

/// Source files without those of tests.
pub fn sources() -> Vec<std::path::PathBuf> {
    let is_source = |path: &std::path::PathBuf| {
        let name = path.to_string_lossy();
        (name.starts_with("crates/") || name.starts_with("xtask/")) && name.contains("/src/")
    };
    files(&["rs"]).into_iter().filter(is_source).collect()
}

pub fn is_test(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// Returns true if a subject is short and, after an area such as `core: `, begins with a verb of the list.
fn is_imperative(subject: &str) -> bool {
    let said = subject.split_once(": ").map_or(subject, |(_, rest)| rest);
    let verb = said.split([' ', ',']).next().unwrap_or_default().to_lowercase();
    subject.chars().count() <= SUBJECT_CHARACTERS_MAX && VERBS.contains(&verb.as_str())
}

#[test]
fn commit_subjects_are_imperative() {
    let log = |range: &str| {
        let git = Command::new("git")
            .args(["log", "--no-merges", "--format=%h %s", range, "--"])
            .current_dir(root())
            .output()
            .expect("git runs");
        git.status.success().then(|| String::from_utf8_lossy(&git.stdout).into_owned())
    };
    // A shallow clone has the last commit alone.
    let subjects =
        log(&format!("{BEFORE_THE_RULE}..HEAD")).or_else(|| log("HEAD~1..HEAD")).unwrap_or_default();
    for line in subjects.lines() {
        let (_, subject) = line.split_once(' ').expect("an abbreviated hash is first");
        assert!(is_imperative(subject), "{line}: begin with a verb of the list, in at most 72 characters");
    }
}

#[test]
fn imperatives_are_told_from_other_subjects() {
    for subject in
        ["core: leave out nothing", "Added a thing", "docs: the words", "sync: what speaks for sending"]
    {
        assert!(!is_imperative(subject), "{subject}");
    }
    assert!(!is_imperative(&format!("Add {}", "x".repeat(70))));
    for subject in
        ["core: move the request out of the agent", "Release 0.2.0: install packages", "Rename Way"]
    {
        assert!(is_imperative(subject), "{subject}");
    }
}

/// Prints the size of the product, by which it is seen whether it grows: run with `--nocapture`.
#[test]
fn the_size_of_the_product_is_bounded() {
    // Raise it for a new part of the product only.
    const LINES_MAX: usize = 98_000;
    let mut lines = 0;
    for path in sources().into_iter().filter(|path| !is_test(path)) {
        let name = path.to_string_lossy().into_owned();
        if !name.starts_with("crates/") || name.starts_with("crates/hakobu-testkit") {
            continue;
        }
        let text = read(&path);
        lines += text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default().lines().count();
    }
    println!("{lines} lines of Rust in the product");
    assert!(lines <= LINES_MAX, "{lines} lines of Rust in the product, at most {LINES_MAX}");
}
