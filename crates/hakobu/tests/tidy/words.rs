//! Commit subjects in the imperative, the beginnings of comments, and the size of the product.

use std::path::Path;
use std::process::Command;

use super::{files, read, root};

/// The verbs that commit subjects begin with. Add one if it is an imperative and none of these fits.
const VERBS: [&str; 116] = [
    "abort",
    "accept",
    "add",
    "adopt",
    "allow",
    "ask",
    "begin",
    "believe",
    "bench",
    "borrow",
    "bound",
    "build",
    "carry",
    "check",
    "choose",
    "close",
    "compare",
    "copy",
    "correct",
    "count",
    "cover",
    "cut",
    "decide",
    "define",
    "delete",
    "deliver",
    "describe",
    "divide",
    "document",
    "drop",
    "embed",
    "end",
    "examine",
    "expect",
    "explain",
    "fail",
    "find",
    "fit",
    "fix",
    "foretell",
    "give",
    "group",
    "handle",
    "hold",
    "install",
    "join",
    "keep",
    "kill",
    "leave",
    "let",
    "limit",
    "list",
    "log",
    "look",
    "make",
    "mark",
    "measure",
    "mend",
    "mention",
    "merge",
    "mount",
    "move",
    "name",
    "open",
    "order",
    "pass",
    "print",
    "put",
    "quote",
    "read",
    "recheck",
    "record",
    "refuse",
    "regenerate",
    "release",
    "remove",
    "rename",
    "renew",
    "replace",
    "report",
    "require",
    "restore",
    "resume",
    "retry",
    "return",
    "reuse",
    "rewrite",
    "run",
    "say",
    "send",
    "separate",
    "serve",
    "set",
    "share",
    "shorten",
    "show",
    "skip",
    "sort",
    "spell",
    "split",
    "start",
    "state",
    "stop",
    "store",
    "take",
    "tell",
    "test",
    "torture",
    "translate",
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
/// The words that say nothing about an item, and with which no comment begins.
const COMMENT_BEGINNINGS: [&str; 3] = ["What", "Whether", "The same"];

/// Returns the source files without tests.
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
    // A shallow clone has only the last commit.
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
        ["core: nothing is left out", "Added a thing", "docs: the words", "sync: what speaks for sending"]
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

/// Returns the numbers of the lines, from 1, on which a comment begins with one of [`COMMENT_BEGINNINGS`].
fn vague_comments(code: &str) -> Vec<usize> {
    let comment = |line: &str| -> Option<String> {
        let text = line.trim_start().strip_prefix("//")?;
        Some(text.trim_start_matches(['/', '!']).trim_start().to_owned())
    };
    let begins_vaguely = |text: &str| {
        COMMENT_BEGINNINGS.iter().any(|beginning| {
            let rest = text.strip_prefix(beginning);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
        })
    };
    let mut found = Vec::new();
    let mut is_within = false;
    for (index, line) in code.lines().enumerate() {
        let whole = comment(line);
        // After an odd number of quotes it is inside a string.
        let behind_code = || {
            let (code, text) = line.split_once(" // ")?;
            code.matches('"').count().is_multiple_of(2).then(|| text.to_owned())
        };
        let begun = if is_within { None } else { whole.clone().or_else(behind_code) };
        if begun.is_some_and(|text| begins_vaguely(&text)) {
            found.push(index + 1);
        }
        is_within = whole.is_some();
    }
    found
}

#[test]
fn comments_say_what_an_item_is_or_does() {
    let mut vague = Vec::new();
    for path in files(&["rs"]) {
        let name = path.to_string_lossy().into_owned();
        if ["crates/", "xtask/", "fuzz/"].iter().any(|folder| name.starts_with(folder)) {
            vague.extend(vague_comments(&read(&path)).into_iter().map(|line| format!("{name}:{line}")));
        }
    }
    assert!(
        vague.is_empty(),
        "{vague:#?}: begin the comment with what the item is or does (\"Returns …\"), not with one of \
         {COMMENT_BEGINNINGS:?}"
    );
}

#[test]
fn vague_comments_are_told_from_others() {
    for vague in ["/// What is read.", "    //! Whether it is.", "// The same twice.", "let a = 1; // What"] {
        assert_eq!(vague_comments(&format!("let b = 2;\n{vague}\n")), [2], "{vague}");
    }
    for clear in
        ["/// Whatever comes.", "/// Returns\n/// What it reads.", "/// True if", "let a = \"What\";"]
    {
        assert!(vague_comments(clear).is_empty(), "{clear}");
    }
}

/// Prints the size of the product with `--nocapture`, and fails if it exceeds the limit.
#[test]
fn the_size_of_the_product_is_bounded() {
    // Raise this only for a new part of the product.
    const LINES_MAX: usize = 156_000;
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
