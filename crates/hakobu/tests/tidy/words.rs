//! Names and words: one name for one thing, comments that say what an item is, commit subjects in the imperative.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::{files, read, root};

/// Names of source files that say nothing about what is in them.
const VAGUE: [&str; 22] = [
    "asking",
    "beneath",
    "ends",
    "far",
    "gather",
    "ground",
    "held",
    "left",
    "meet",
    "near",
    "patience",
    "permits",
    "places",
    "said",
    "side",
    "site",
    "spoken",
    "standing",
    "strangers",
    "stray",
    "told",
    "way",
];

/// The first words that a doc comment does not begin with.
const OPENINGS: [&str; 3] = ["What", "Whether", "The same"];

/// The verbs that commit subjects begin with. Add one if it is an imperative and none of these fits.
const VERBS: [&str; 60] = [
    "accept", "add", "adopt", "allow", "ask", "build", "check", "choose", "close", "compare", "copy",
    "count", "cover", "cut", "delete", "describe", "document", "drop", "embed", "explain", "fail", "find",
    "fix", "give", "group", "handle", "hold", "install", "keep", "let", "limit", "list", "log", "make",
    "mark", "measure", "merge", "move", "name", "open", "pass", "print", "put", "read", "record", "refuse",
    "release", "remove", "rename", "replace", "report", "require", "retry", "return", "rewrite", "run",
    "say", "show", "split", "use",
];
/// The last commit before the rule.
const BEFORE_THE_RULE: &str = "4487c75b";
const SUBJECT_CHARACTERS_MAX: usize = 72;

/// Source files without those of tests.
fn sources() -> Vec<std::path::PathBuf> {
    let is_source = |path: &std::path::PathBuf| {
        let name = path.to_string_lossy();
        (name.starts_with("crates/") || name.starts_with("xtask/")) && name.contains("/src/")
    };
    files(&["rs"]).into_iter().filter(is_source).collect()
}

fn is_test(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// Returns the name of the type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => {
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest)
        }
        None => line,
    };
    let line = line.trim_start();
    let rest =
        ["struct ", "enum ", "trait ", "union "].iter().find_map(|keyword| line.strip_prefix(keyword))?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

#[test]
fn a_type_name_stands_for_one_thing() {
    let mut declarations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources().into_iter().filter(|path| !is_test(path)) {
        let name = path.to_string_lossy().into_owned();
        // The wire's mirror of a type of core is the same thing, and has its name.
        if name.starts_with("crates/hakobu-proto/src/wire/") {
            continue;
        }
        let text = read(&path);
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        for declared in code.lines().filter_map(declared) {
            declarations.entry(declared.to_owned()).or_default().push(name.clone());
        }
    }
    assert!(declarations.len() > 500, "types are found at all");
    let twice: Vec<_> = declarations.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(twice.is_empty(), "{} names of types are used twice: {twice:#?}", twice.len());
}

#[test]
fn declarations_are_found_however_they_are_written() {
    for (line, expected) in [
        ("pub struct Lane<'a> {", Some("Lane")),
        ("    pub(crate) enum Step {", Some("Step")),
        ("pub trait Store: Send {", Some("Store")),
        ("struct Unit;", Some("Unit")),
        ("pub(in crate::engine) struct Task(u8);", Some("Task")),
        ("let structure = 3;", None),
        ("// struct Lane", None),
    ] {
        assert_eq!(declared(line), expected, "{line}");
    }
}

#[test]
fn files_are_named_for_what_is_in_them() {
    for path in sources() {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder =
            path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        assert!(!VAGUE.contains(&stem.as_str()), "{} has a vague name", path.display());
        assert!(!VAGUE.contains(&folder.as_str()), "the folder of {} has a vague name", path.display());
    }
}

#[test]
fn doc_comments_say_what_an_item_is() {
    let mut found = Vec::new();
    for path in files(&["rs"]) {
        // A comment begins after a line that is none.
        let mut is_begun = false;
        for (number, line) in read(&path).lines().enumerate() {
            let comment = ["/// ", "//! "].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
            let starts = comment.filter(|_| !is_begun);
            is_begun = comment.is_some();
            let has = |text: &str, opening: &str| {
                text.strip_prefix(opening).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            if starts.is_some_and(|text| OPENINGS.iter().any(|opening| has(text, opening))) {
                found.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{} doc comments begin with one of {OPENINGS:?}: {found:#?}", found.len());
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
    const LINES_MAX: usize = 82_000;
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
