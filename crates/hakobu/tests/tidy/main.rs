//! Checks of the whole source tree: documents that agree with each other and with the files, and rules that no compiler
//! checks.

#![allow(clippy::expect_used)]

mod circles;
mod links;
mod names;
mod page;
mod seams;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// More lines than this need a reason on the file's first line.
const LINES_MAX: usize = 800;
const LONG_FILE_REASON: &str = "// More than 800 lines because ";

/// The crates of the workspace that each crate may use. The program may use all of them.
const MAY_USE: [(&str, &[&str]); 13] = [
    ("hakobu-sys", &[]),
    ("hakobu-core", &["hakobu-sys"]),
    ("hakobu-proto", &["hakobu-core"]),
    ("hakobu-endpoints", &["hakobu-core", "hakobu-sys"]),
    ("hakobu-net", &["hakobu-core", "hakobu-sys", "hakobu-proto", "hakobu-endpoints"]),
    ("hakobu-measure", &["hakobu-core", "hakobu-sys", "hakobu-proto", "hakobu-net"]),
    ("hakobu-ssh", &["hakobu-core", "hakobu-sys", "hakobu-proto"]),
    (
        "hakobu-agent",
        &["hakobu-core", "hakobu-sys", "hakobu-proto", "hakobu-endpoints", "hakobu-net", "hakobu-measure"],
    ),
    ("hakobu-rsync", &["hakobu-core", "hakobu-sys", "hakobu-proto", "hakobu-endpoints", "hakobu-agent"]),
    (
        "hakobu-transfer",
        &[
            "hakobu-core",
            "hakobu-sys",
            "hakobu-proto",
            "hakobu-endpoints",
            "hakobu-net",
            "hakobu-ssh",
            "hakobu-measure",
            "hakobu-agent",
            "hakobu-rsync",
        ],
    ),
    ("hakobu-fleet", &["hakobu-core", "hakobu-transfer"]),
    ("hakobu-testkit", &["hakobu-core", "hakobu-sys", "hakobu-proto"]),
    (
        "hakobu",
        &[
            "hakobu-core",
            "hakobu-sys",
            "hakobu-proto",
            "hakobu-endpoints",
            "hakobu-net",
            "hakobu-ssh",
            "hakobu-measure",
            "hakobu-agent",
            "hakobu-transfer",
            "hakobu-fleet",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the project's files with one of these extensions, without build results.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let (root, mut found, mut open) = (root(), Vec::new(), vec![root()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory can be read").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("entries have a type"));
            let name = entry.file_name().to_string_lossy().into_owned();
            if kind.is_dir() {
                // Cargo and releases are built in these folders of the workspace; others of these names may hold source files.
                let is_built = directory == root && ["target", "dist"].contains(&name.as_str());
                let skipped = [".git", "corpus", "artifacts", "node_modules"].contains(&name.as_str());
                if !is_built && !skipped {
                    open.push(path);
                }
            } else if kind.is_file() {
                let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
                if extensions.contains(&extension.as_str()) {
                    found.push(path.strip_prefix(&root).expect("it is below the root").to_owned());
                }
            }
        }
    }
    assert!(!found.is_empty(), "no files found");
    found.sort();
    found
}

/// The structure of a document, which is equal in both languages of a page.
#[derive(Debug, Default, PartialEq)]
struct Skeleton {
    /// The sections, each from a heading to the next.
    sections: Vec<Section>,
    /// The code blocks, without comments after commands.
    blocks: Vec<String>,
}

/// The amount of content below a heading.
#[derive(Debug, Default, PartialEq)]
struct Section {
    level: usize,
    paragraphs: usize,
    items: usize,
    rows: usize,
    blocks: usize,
}

/// Returns true if a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with("- ") || (number.len() < line.len() && number.starts_with(". "))
}

fn skeleton(text: &str) -> Skeleton {
    let mut found = Skeleton { sections: vec![Section::default()], blocks: Vec::new() };
    let mut block: Option<String> = None;
    let mut in_text = false;
    for line in text.lines() {
        let Some(section) = found.sections.last_mut() else { break };
        let trimmed = line.trim();
        match (&mut block, trimmed.starts_with("```")) {
            (Some(_), true) => found.blocks.extend(block.take()),
            (None, true) => {
                section.blocks += 1;
                in_text = false;
                block = Some(format!("{trimmed}\n"));
            }
            (Some(block), false) => {
                let code = line.split("  #").next().unwrap_or_default();
                *block += &format!("{}\n", code.trim_end());
            }
            (None, false) if line.starts_with('#') => {
                let level = line.chars().take_while(|&letter| letter == '#').count();
                found.sections.push(Section { level, ..Section::default() });
                in_text = false;
            }
            (None, false) if trimmed.starts_with('|') => section.rows += 1,
            (None, false) if is_item(trimmed) => {
                section.items += 1;
                in_text = true;
            }
            (None, false) => {
                section.paragraphs += usize::from(!trimmed.is_empty() && !in_text);
                in_text = !trimmed.is_empty();
            }
        }
    }
    assert!(block.is_none(), "a code block is not closed");
    found
}

#[test]
fn both_languages_have_the_same_sections_and_commands() {
    let (mut count, mut commands) = (0, 0);
    for document in files(&["md"]) {
        let name = document.to_string_lossy().into_owned();
        let Some(other) = name.strip_suffix(".ja.md") else { continue };
        count += 1;
        let (english, japanese) = (skeleton(&read(format!("{other}.md"))), skeleton(&read(&name)));
        assert!(!english.blocks.is_empty() || english.sections.len() > 1, "{other}.md has headings");
        for (at, (english, japanese)) in english.sections.iter().zip(&japanese.sections).enumerate() {
            assert_eq!(english, japanese, "{name}: below heading {at}");
        }
        assert_eq!(english.sections.len(), japanese.sections.len(), "{name}: headings");
        assert_eq!(english.blocks, japanese.blocks, "{name}: code blocks");
        commands += english.blocks.len();
    }
    assert!(count >= 2 && commands > 20, "pages in two languages are found at all, with commands");
}

#[test]
fn skeletons_tell_texts_apart_but_not_remarks() {
    let text = |remark: &str, command: &str| format!("# A\n```\n{command}   # {remark}\n```\n## B\n");
    assert_eq!(skeleton(&text("one", "ls")), skeleton(&text("two", "ls")));
    assert_ne!(skeleton(&text("one", "ls")), skeleton(&text("one", "rm")));
    for (one, another) in [
        ("# A\na\nb\n", "# A\na\n\nb\n"),
        ("# A\n- a\n- b\n", "# A\n- a\n  b\n"),
        ("# A\n1. a\n2. b\n", "# A\n1. a\n"),
        ("# A\n| a |\n| b |\n", "# A\n| a |\n"),
        ("# A\na\n## B\n", "# A\n## B\na\n"),
    ] {
        assert_ne!(skeleton(one), skeleton(another), "{one}");
    }
    assert_eq!(skeleton("# A\na\nb\n"), skeleton("# A\na b\n"));
}

#[test]
fn the_commands_of_the_readme_are_there() {
    for name in ["try", "test", ".ci/run"] {
        let metadata = fs::metadata(root().join(name)).expect(name);
        assert!(metadata.permissions().mode() & 0o111 == 0o111, "{name} cannot be run");
    }
    let readme = read("README.md");
    assert!(readme.contains("./try\n") && readme.contains("./test\n"));
}

#[test]
fn the_architecture_says_what_every_crate_is_for() {
    let architecture = read("ARCHITECTURE.md");
    for entry in fs::read_dir(root().join("crates")).expect("there are crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(architecture.contains(&format!("`{name}`")), "ARCHITECTURE.md says nothing of {name}");
    }
}

#[test]
fn long_source_files_give_a_reason() {
    for file in files(&["rs"]) {
        let text = read(&file);
        let lines = text.lines().count();
        let reason = text.starts_with(LONG_FILE_REASON);
        assert!(lines <= LINES_MAX || reason, "{} has {lines} lines and no reason", file.display());
    }
}

#[test]
fn nothing_is_left_for_later_in_comments() {
    // Assembled from parts, so that this file does not contain them.
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];
    for file in files(&["rs", "toml", "sh", "md"]) {
        let text = read(&file);
        for (number, line) in text.lines().enumerate() {
            for mark in marks {
                assert!(!line.contains(mark), "{}:{}: {mark}", file.display(), number + 1);
            }
        }
    }
}

#[test]
fn only_sys_may_be_unsafe() {
    let (lint, keyword) = (concat!("unsafe", "_code"), concat!("unsafe", " {"));
    assert!(read("Cargo.toml").contains(&format!("\n{lint} = \"deny\"\n")), "the lint of the workspace");
    for manifest in files(&["toml"]) {
        let is_crate = manifest.ends_with("Cargo.toml")
            && (manifest.starts_with("crates") || manifest.starts_with("xtask"));
        if is_crate {
            let text = read(&manifest);
            assert!(text.contains("[lints]\nworkspace = true\n"), "{} takes no lints", manifest.display());
        }
    }
    for file in files(&["rs"]) {
        if file.starts_with("crates/hakobu-sys/src") {
            continue;
        }
        let text = read(&file);
        assert!(!text.contains(lint) && !text.contains(keyword), "{} is unsafe", file.display());
    }
}

#[test]
fn crates_depend_on_each_other_one_way() {
    for (name, allowed) in MAY_USE {
        let manifest = read(format!("crates/{name}/Cargo.toml"));
        let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        for line in dependencies.lines() {
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let ours = used == "hakobu" || used.starts_with("hakobu-");
            assert!(!ours || allowed.contains(&used), "{name} may not use {used}");
        }
    }
    let mut crates: Vec<_> = MAY_USE.iter().map(|(name, _)| (*name).to_owned()).collect();
    let there = fs::read_dir(root().join("crates")).expect("there are crates").flatten();
    let mut there: Vec<_> = there.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    crates.sort();
    there.sort();
    assert_eq!(crates, there);
}

/// Returns the packages that these need, with their features.
fn features(selection: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--locked", "--edges", "normal,build,dev", "--prefix", "none"]);
    cargo.args(["--format", "{p} [{f}]"]).args(selection).current_dir(root());
    let ran = cargo.output().expect("cargo runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let lines = String::from_utf8_lossy(&ran.stdout).into_owned();
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// A package that is built alone, by a test that builds a program or by `cargo xtask`, has the features of the workspace. If a
/// feature differed, cargo would build everything above it a second time, C libraries among them, in the middle of the tests.
#[test]
fn a_package_alone_is_built_with_the_features_of_the_workspace() {
    let all = features(&["--workspace"]);
    for package in ["hakobu", "xtask"] {
        let alone = features(&["--package", package]);
        let more: Vec<_> = alone.difference(&all).collect();
        assert!(alone.len() > 50 && more.is_empty(), "{package} alone: {more:#?}");
    }
}

#[test]
fn core_and_proto_open_no_socket_and_read_no_clock() {
    let forbidden = [
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "UnixStream",
        "Instant::now",
        "SystemTime",
        "std::env",
        "println!",
    ];
    for file in files(&["rs"]) {
        let pure = ["crates/hakobu-core/src", "crates/hakobu-proto/src"];
        let is_test = file.to_string_lossy().ends_with("tests.rs");
        if is_test || !pure.iter().any(|directory| file.starts_with(directory)) {
            continue;
        }
        let text = read(&file);
        // Everything below this line is test code.
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        for word in forbidden {
            assert!(!code.contains(word), "{} has {word}", file.display());
        }
    }
}

/// Files of data paths in which the position of a descriptor may be used, each with the reason.
const POSITIONED: [(&str, &str); 11] = [
    ("crates/hakobu-endpoints/src/local/stream_source.rs", "a pipe has no offsets"),
    ("crates/hakobu-endpoints/src/local/target_side/stream.rs", "a pipe has no offsets"),
    ("crates/hakobu-endpoints/src/sftp/connection.rs", "the pipes of ssh"),
    ("crates/hakobu-endpoints/src/sftp/outgoing.rs", "the pipes of ssh"),
    ("crates/hakobu-endpoints/src/local/journal.rs", "a journal is no content: it is appended to"),
    ("crates/hakobu-endpoints/src/object/upload_journal.rs", "lines of a journal, which it reads at offsets"),
    ("crates/hakobu-endpoints/src/object/credentials/gcs.rs", "a file of credentials"),
    ("crates/hakobu-endpoints/src/local/target_side/state.rs", "a note of this program's own"),
    ("crates/hakobu-endpoints/src/local/target_side/run_marks.rs", "what the kernel tells of this boot"),
    ("crates/hakobu-endpoints/src/local/accounts.rs", "the system's list of accounts"),
    ("crates/hakobu-endpoints/src/block/inspect/kernel_directories.rs", "what the kernel tells of a device"),
];

/// Returns the calls in a source file that use or move the position of a descriptor.
fn positioned(code: &str) -> Vec<String> {
    let calls = [
        "rustix::io::read(",
        "rustix::io::readv(",
        "rustix::io::write(",
        "rustix::io::writev(",
        ".read_exact(",
        ".read_to_end(",
        ".read_vectored(",
        ".write_all(",
        ".write_vectored(",
        ".seek(",
        "Seek::seek(",
        "SeekFrom::Start",
        "SeekFrom::Current",
        "fs::read(",
        "fs::write(",
        "fs::copy(",
        "io::copy(",
        "copy_file_range(",
        "sendfile(",
    ];
    let mut found: Vec<String> =
        calls.iter().filter(|call| code.contains(**call)).map(|call| (*call).to_owned()).collect();
    for (start, names) in [
        ("use rustix::io::", &["read", "readv", "write", "writev"][..]),
        ("use std::io::", &["Read", "Write", "Seek"]),
    ] {
        for imports in code.split(start).skip(1) {
            let imports = imports.split(';').next().unwrap_or_default();
            let words = imports.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            found.extend(words.filter(|word| names.contains(word)).map(|word| format!("{start}{word}")));
        }
    }
    found
}

#[test]
fn content_is_read_and_written_at_explicit_offsets() {
    let paths =
        ["crates/hakobu-endpoints/src", "crates/hakobu-core/src", "crates/hakobu-measure/src/generate"];
    let mut scanned = 0;
    for file in files(&["rs"]) {
        let name = file.to_string_lossy().into_owned();
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
        if is_test || !paths.iter().any(|path| file.starts_with(path)) {
            continue;
        }
        scanned += 1;
        let text = read(&file);
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let found = positioned(code);
        let may = POSITIONED.iter().any(|(excepted, _)| *excepted == name);
        assert!(found.is_empty() || may, "{name} uses the position of a descriptor: {found:?}");
    }
    assert!(scanned > 100, "source files are found at all");
    for (name, reason) in POSITIONED {
        assert!(!positioned(&read(name)).is_empty(), "{name} needs no exception: {reason}");
    }
}

#[test]
fn positions_are_found_however_they_are_written() {
    for code in [
        "use rustix::io::{Errno, read, retry_on_intr};",
        "use rustix::io::{Errno,\n    write,\n};",
        "let n = rustix::io::write(file, data);",
        "use std::io::{self, Seek as _};",
        "seek(file, SeekFrom::Start(0))?;",
        "let all = std::fs::read(path);",
    ] {
        assert!(!positioned(code).is_empty(), "{code}");
    }
    for code in
        ["use rustix::io::{Errno, pread, pwrite};", "seek(file, SeekFrom::Hole(0))", "use std::io::IoSlice;"]
    {
        assert_eq!(positioned(code), Vec::<String>::new(), "{code}");
    }
}
