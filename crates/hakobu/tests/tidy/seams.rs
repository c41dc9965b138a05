//! The kind of an endpoint is checked in one place only, and nothing is decided by the text of an error.

use std::path::Path;

use super::{files, read};

/// Files that may know the kinds of endpoints: those that open them, and those that read or write their names.
const KNOW_ENDPOINTS: [&str; 8] = [
    "crates/hakobu-transfer/src/opening.rs",
    "crates/hakobu-core/src/request.rs",
    "crates/hakobu-core/src/open_at.rs",
    "crates/hakobu-rsync/",
    "crates/hakobu-transfer/src/sftp/",
    "crates/hakobu-core/src/location.rs",
    "crates/hakobu-core/src/report/route.rs",
    "crates/hakobu/src/commands/copy/request.rs",
];

/// Names with which code would check if an endpoint is an SFTP server.
const ASKS: [&str; 5] = ["Sftp", "wants_sftp", "has_sftp", "is_sftp", "over_sftp"];

/// Calls that read or compare the text of an error.
const READS: [&str; 7] =
    [".contains(", ".starts_with(", ".ends_with(", ".find(", ".strip_prefix(", ".split", "=="];

/// Returns the code of a source file without tests and comments.
fn code(path: &Path) -> String {
    without_tests(&read(path))
}

fn without_tests(text: &str) -> String {
    // A module of tests in another file may be declared above the code.
    let is_body = |at: &usize| text[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    let tests = text.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at).find(is_body);
    let lines =
        text[..tests.unwrap_or(text.len())].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn sources() -> impl Iterator<Item = std::path::PathBuf> {
    files(&["rs"]).into_iter().filter(|path| {
        let name = path.to_string_lossy();
        let is_test = name.contains("/tests/") || name.ends_with("tests.rs");
        name.starts_with("crates/") && name.contains("/src/") && !is_test
    })
}

/// Returns true if `code` has `word` as a part of a name that begins with it or ends with it.
fn asks(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_lowercase() || letter == '_')
    })
}

/// Returns true if a line contains an expression such as `error.detail == words` or `error.during.contains("ssh")`.
fn compares_words(line: &str) -> bool {
    let field = [".during", ".detail", ".hint"].into_iter().find_map(|field| {
        let at = line.find(field)? + field.len();
        let behind = line[at..].trim_start();
        // Methods that only pass the text on are allowed.
        READS.iter().any(|read| behind.starts_with(read)).then_some(())
    });
    let of_text = [".to_string()", ".reason()"].into_iter().any(|call| {
        line.find(call).is_some_and(|at| {
            let behind = line[at + call.len()..].trim_start();
            line[..at].ends_with("error") && READS.iter().any(|read| behind.starts_with(read))
        })
    });
    field.is_some() || of_text
}

#[test]
fn what_an_end_is_is_asked_where_it_is_opened() {
    let crates = ["core", "proto", "net", "ssh", "rsync", "agent", "transfer"]
        .map(|name| format!("crates/hakobu-{name}/"));
    let crates = crates.into_iter().chain(["crates/hakobu/".to_owned()]).collect::<Vec<_>>();
    let mut found = Vec::new();
    for path in sources() {
        let name = path.to_string_lossy().into_owned();
        let known = KNOW_ENDPOINTS.iter().any(|known| name.starts_with(known));
        if known || !crates.iter().any(|of| name.starts_with(of.as_str())) {
            continue;
        }
        let code = code(&path);
        found.extend(ASKS.into_iter().filter(|word| asks(&code, word)).map(|word| format!("{name}: {word}")));
    }
    assert!(found.is_empty(), "ask the capabilities instead of what an end is:\n{}", found.join("\n"));
}

#[test]
fn nothing_is_decided_by_the_words_of_an_error() {
    let mut found = Vec::new();
    // The test kit may read the messages of other tools.
    for path in sources().filter(|path| !path.starts_with("crates/hakobu-testkit")) {
        let code = code(&path);
        let lines = code.lines().enumerate().filter(|(_, line)| compares_words(line));
        found.extend(
            lines.map(|(number, line)| format!("{}:{}: {}", path.display(), number + 1, line.trim())),
        );
    }
    assert!(found.is_empty(), "decide by kind and step:\n{}", found.join("\n"));
}

#[test]
fn the_core_knows_no_file_descriptors() {
    let of_core = |path: &std::path::PathBuf| path.starts_with("crates/hakobu-core");
    let found: Vec<_> = sources()
        .filter(of_core)
        .filter(|path| {
            ["OwnedFd", "BorrowedFd", "RawFd", "AsFd", "std::fs::File"]
                .iter()
                .any(|name| code(path).contains(name))
        })
        .collect();
    assert!(found.is_empty(), "hand over a `Cursor` or a `SharedFile`: {found:?}");
}

#[test]
fn only_bodies_of_tests_are_left_out() {
    let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod more {\nfn b() {}\n}\n";
    let code = without_tests(text);
    assert!(code.contains("fn a") && !code.contains("fn b"), "{code}");
}

#[test]
fn questions_and_comparisons_are_found() {
    assert!(asks("match host { Host::Sftp(side) => 1 }", "Sftp") && asks("if wants_sftp()", "wants_sftp"));
    assert!(!asks("let no_wants_sftp", "wants_sftp") && !asks("fn rides_sftp()", "is_sftp"));
    for line in
        ["if error.detail == words {", "error.during.contains(\"ssh\")", "error.to_string().contains(\"x\")"]
    {
        assert!(compares_words(line), "{line}");
    }
    for line in ["detail: error.detail.clone(),", "error.hint.is_some()", "text.contains(name)"] {
        assert!(!compares_words(line), "{line}");
    }
}
