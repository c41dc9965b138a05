//! Reads the chapter of the document, including the parts written by hand, and rewrites it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Frame;
use crate::shape::Structures;

const BEGIN: &str = "<!-- structures: what follows is rewritten by a test, but for what things mean -->\n";
const END: &str = "<!-- structures: end -->\n";

/// The advice if the chapter does not match the code.
const ADVICE: &str = "\
What crosses the wire is no longer what docs/PROTOCOL.md says. If that was not meant, undo it: peers of this version would
read something else than was written. If it was, docs/PROTOCOL.md, \"Versions\", says how: it takes a new version of the
protocol, or, while the newest one has not been released, a word in that version's row. Then
HAKOBU_BLESS=1 cargo test -p hakobu-proto --test structures
rewrites the chapter; write down there what the new things mean.";

/// The parts of the chapter that are written by hand.
#[derive(Default)]
struct Written {
    /// The text before the table, by heading.
    words: BTreeMap<String, String>,
    /// The meaning of a row, by heading and name of the row.
    meanings: BTreeMap<(String, String), String>,
}

impl Written {
    fn read(chapter: &str) -> Self {
        let mut written = Self::default();
        for section in chapter.split("### ").skip(1) {
            let (heading, rest) = section.split_once('\n').unwrap_or((section, ""));
            let (words, table) = rest.split_once("\n| ").unwrap_or((rest, ""));
            written.words.insert(heading.to_owned(), words.trim().to_owned());
            for row in table.lines().skip(2) {
                let cells: Vec<&str> = row.trim_matches('|').splitn(4, '|').map(str::trim).collect();
                if let [_, name, _, meaning] = cells[..] {
                    written.meanings.insert((heading.to_owned(), name.to_owned()), meaning.to_owned());
                }
            }
        }
        written
    }

    /// Returns one section. Items without a description are added to `missing`.
    fn section(
        &self,
        heading: &str,
        columns: [&str; 2],
        rows: &[[String; 3]],
        missing: &mut Vec<String>,
    ) -> String {
        let mut section = format!("### {heading}\n\n");
        match self.words.get(heading).map(String::as_str) {
            None | Some("") => missing.push(heading.to_owned()),
            Some(words) => section.push_str(&format!("{words}\n\n")),
        }
        section.push_str(&format!("| # | {} | {} | meaning |\n|---|---|---|---|\n", columns[0], columns[1]));
        for [number, name, shape] in rows {
            let meaning = self.meanings.get(&(heading.to_owned(), name.clone())).map_or("", String::as_str);
            if meaning.is_empty() {
                missing.push(format!("{heading}: {name}"));
            }
            // Avoids double spaces in empty cells.
            let row = format!("| {number} | {name} | {shape} | {meaning} |\n");
            section.push_str(&row.replace("|  |", "| |").replace("|  |", "| |"));
        }
        section.push('\n');
        section
    }
}

/// Compares the chapter with the code, or rewrites it.
pub fn check(structures: &Structures, frames: &[Frame]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/PROTOCOL.md");
    let document = std::fs::read_to_string(&path).expect("the document is there");
    let (before, rest) = document.split_once(BEGIN).expect("the chapter begins");
    let (chapter, after) = rest.split_once(END).expect("the chapter ends");
    let written = Written::read(chapter);
    let mut missing = Vec::new();

    let mut right = String::from("\n");
    let frame = |(number, name, meta, payload): &Frame| {
        let parts = [("meta", meta), ("payload", payload)];
        let parts = parts.iter().filter_map(|(part, shape)| Some(format!("{part}: {}", shape.as_ref()?)));
        [number.to_string(), (*name).to_owned(), parts.collect::<Vec<_>>().join("; ")]
    };
    let rows: Vec<_> = frames.iter().map(frame).collect();
    right.push_str(&written.section("Frames", ["kind", "postcard in it"], &rows, &mut missing));
    // The root types come first, the others sorted by name.
    let first = ["Request", "AgentMessage"];
    let rest = structures.0.keys().filter(|name| !first.contains(name));
    for name in first.iter().chain(rest) {
        let structure = &structures.0[name];
        let number = |(number, [name, shape]): (usize, [String; 2])| [number.to_string(), name, shape];
        let rows: Vec<_> = structure.rows().into_iter().enumerate().map(number).collect();
        right.push_str(&written.section(name, structure.columns(), &rows, &mut missing));
    }

    if std::env::var_os("HAKOBU_BLESS").is_some() {
        std::fs::write(&path, [before, BEGIN, &right, END, after].concat())
            .expect("the document can be written");
    } else if chapter != right {
        panic!("{}\n\n{ADVICE}", differences(chapter, &right));
    }
    assert!(missing.is_empty(), "docs/PROTOCOL.md does not say what these mean: {}", missing.join(", "));
}

/// Returns the rows that only one of the two texts has, with their headings.
fn differences(written: &str, right: &str) -> String {
    let lines = |text: &str| {
        let mut heading = String::new();
        let mut lines = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(found) = line.strip_prefix("### ") {
                heading = found.to_owned();
            }
            lines.push(format!("{heading}: {line}"));
        }
        lines
    };
    let (written, right) = (lines(written), lines(right));
    let only = |these: &[String], those: &[String], mark: &str| {
        let found = these.iter().filter(|line| !those.contains(line));
        found.map(|line| format!("{mark} {line}\n")).collect::<String>()
    };
    let found = only(&written, &right, "document") + &only(&right, &written, "code    ");
    if found.is_empty() { "the order of the chapter\n".to_owned() } else { found }
}
