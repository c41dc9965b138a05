//! Links between documents lead to existing files and headings, and the book's tables of contents name all pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{files, read, root};

/// The tables of contents of the book.
const CONTENTS: [&str; 2] = ["docs/book/SUMMARY.md", "docs/book/ja/SUMMARY.md"];

/// Returns the lines of a document outside of code blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if !is_code && !is_fence {
            found.push(line);
        }
        is_code ^= is_fence;
    }
    found
}

/// Returns the line without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns the targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            found.extend(after.split_once(')').map(|(target, _)| target.to_owned()));
            rest = after;
        }
    }
    found
}

/// Returns the text of a heading as it is shown: without backquotes, emphasis and the targets of links.
fn shown(heading: &str) -> String {
    let mut text = heading.replace(['`', '*'], "");
    while let Some((before, after)) = text.split_once("](") {
        let after = after.split_once(')').map_or("", |(_, after)| after);
        text = format!("{}{after}", before.replacen('[', "", 1));
    }
    text
}

/// Returns the names that GitHub gives the headings of a document: in lower case, with hyphens for blanks and without punctuation. The
/// second heading of a name has `-1` behind it. mdBook gives the same names.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in prose(text) {
        let level = line.chars().take_while(|&c| c == '#').count();
        let Some(heading) = line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level)) else {
            continue;
        };
        let name: String = shown(heading.trim()).to_lowercase().replace(' ', "-");
        let name: String = name.chars().filter(|&c| c.is_alphanumeric() || c == '-' || c == '_').collect();
        let count = counts.entry(name.clone()).or_default();
        found.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    found
}

/// Returns the path of a file that the document links to, from the root.
fn target(document: &Path, link: &str) -> PathBuf {
    let mut path = document.parent().expect("a file is in a directory").to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{}: {link} leads out", document.display()),
            other => path.push(other),
        }
    }
    path
}

#[test]
fn relative_links_lead_to_files_and_headings() {
    let (mut count, mut named) = (0, 0);
    for document in files(&["md"]) {
        for link in links(&read(&document)) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            if file.contains("://") {
                continue;
            }
            count += 1;
            let place = format!("{}: {link}", document.display());
            let file = if file.is_empty() { document.clone() } else { target(&document, file) };
            assert!(root().join(&file).exists(), "{place}: there is no {}", file.display());
            if !anchor.is_empty() {
                named += 1;
                let anchors = anchors(&read(&file));
                assert!(anchors.contains(anchor), "{place}: the headings there are {anchors:#?}");
            }
        }
    }
    assert!(count > 300 && named > 20, "links are found at all: {count}, {named}");
}

#[test]
fn the_tables_of_contents_name_every_page_once() {
    let mut named = Vec::new();
    for contents in CONTENTS {
        let links = links(&read(contents));
        assert!(links.len() > 5, "{contents} has links");
        named.extend(links.iter().map(|link| target(Path::new(contents), link)));
    }
    let once: BTreeSet<_> = named.iter().cloned().collect();
    assert_eq!(named.len(), once.len(), "a page is named twice");
    let in_repository: BTreeSet<_> = files(&["md"])
        .into_iter()
        .filter(|path| !path.ends_with("SUMMARY.md"))
        .filter(|path| path.starts_with("docs") || path.components().count() == 1)
        .collect();
    let missing: Vec<_> = in_repository.difference(&once).collect();
    assert!(missing.is_empty(), "in no table of contents: {missing:?}");
}

#[test]
fn headings_have_the_names_that_github_gives_them() {
    let text = "# A `--b`, c\n```\n# no\n```\n## 使用中のディスク(1)をコピーする\n## Two  x\n## [C](d) *e*\n## C e\n#no\n";
    let expected = ["a---b-c", "使用中のディスク1をコピーする", "two--x", "c-e", "c-e-1"];
    assert_eq!(anchors(text), BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn links_in_code_are_no_links() {
    assert_eq!(links("`[a](b)` [c](d) [`e`](f)\n```\n[g](h)\n```\n"), ["d", "f"]);
}
