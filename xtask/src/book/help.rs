//! The help of a command as Markdown: paragraphs, lists of options as tables, examples as code.

use std::fmt::Write;

/// The columns within which options and commands begin. Their descriptions are further to the right.
const TERM_COLUMNS: usize = 6;
/// The paragraph that gets a heading of its own.
const EXIT_CODES: &str = "Exit codes";

/// A part of a help text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    /// A line that ends in a colon, without the colon.
    Heading(String),
    /// Lines of text, joined.
    Paragraph(String),
    /// Options, arguments or commands.
    Entries(Vec<HelpEntry>),
    /// Lines that stay as they are.
    Code(Vec<String>),
}

/// An option, an argument or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HelpEntry {
    /// The name as it is typed: `-n, --dry-run`.
    pub term: String,
    /// The description.
    pub meaning: String,
}

/// Returns the help of `command` as a section with a heading of this level. `link` returns the page of a subcommand.
pub(super) fn section(
    command: &str,
    help: &str,
    level: usize,
    link: impl Fn(&str) -> Option<String>,
) -> String {
    let mut page = format!("{} {command}\n", "#".repeat(level));
    let heading = |text: &str| format!("\n{} {text}\n", "#".repeat(level + 1));
    let mut last = String::new();
    for block in blocks(help) {
        match block {
            Block::Heading(text) => {
                page.push_str(&heading(&text));
                last = text;
            }
            Block::Paragraph(text) => match text.strip_prefix("Usage: ") {
                Some(usage) => page.push_str(&format!("\n```\n{usage}\n```\n")),
                None => page.push_str(&paragraph(&text, heading)),
            },
            Block::Entries(entries) => page.push_str(&table(&last, &entries, &link)),
            Block::Code(lines) => page.push_str(&format!("\n```\n{}\n```\n", lines.join("\n"))),
        }
    }
    page
}

/// Returns the commands that a help text lists.
pub(super) fn commands(help: &str) -> Vec<HelpEntry> {
    let blocks = blocks(help);
    let at = blocks.iter().position(|block| *block == Block::Heading("Commands".to_owned()));
    match at.and_then(|at| blocks.get(at + 1)) {
        Some(Block::Entries(entries)) => {
            entries.iter().filter(|entry| entry.term != "help").cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a paragraph; the one about exit codes gets a heading.
fn paragraph(text: &str, heading: impl Fn(&str) -> String) -> String {
    match text.split_once(": ") {
        Some((EXIT_CODES, codes)) => format!("{}\n{}\n", heading(EXIT_CODES), escaped(codes)),
        _ => format!("\n{}\n", escaped(text)),
    }
}

fn table(heading: &str, entries: &[HelpEntry], link: impl Fn(&str) -> Option<String>) -> String {
    let kind = match heading {
        "Commands" => "command",
        "Arguments" => "argument",
        _ => "option",
    };
    let mut table = format!("\n| {kind} | meaning |\n|---|---|\n");
    for entry in entries {
        let term = format!("`{}`", entry.term.replace('|', "\\|"));
        let term = link(&entry.term).map_or(term.clone(), |target| format!("[{term}]({target})"));
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| {term} | {} |", escaped(&entry.meaning));
    }
    table
}

/// Splits a help text into its parts.
fn blocks(help: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with(' ') {
            let mut indented = vec![line];
            while let Some(next) = lines.next_if(|next| next.starts_with(' ') || next.trim().is_empty()) {
                indented.push(next);
            }
            while indented.last().is_some_and(|line| line.trim().is_empty()) {
                indented.pop();
            }
            found.push(list(found.last(), &indented));
            continue;
        }
        if let Some(heading) = line.strip_suffix(':') {
            found.push(Block::Heading(heading.to_owned()));
            continue;
        }
        let mut text = line.to_owned();
        while let Some(next) = lines.next_if(|next| !next.starts_with(' ') && !next.trim().is_empty()) {
            text = format!("{text} {next}");
        }
        found.push(Block::Paragraph(text));
    }
    found
}

/// Returns indented lines as options, arguments or commands if they are such, and as code otherwise.
fn list(before: Option<&Block>, lines: &[&str]) -> Block {
    let is_commands = matches!(before, Some(Block::Heading(heading)) if heading == "Commands");
    let first = lines.first().map(|line| line.trim_start()).unwrap_or_default();
    if is_commands || first.starts_with(['-', '<', '[']) {
        return Block::Entries(entries(lines));
    }
    let indent = lines.iter().filter(|line| !line.is_empty()).map(|line| indent_of(line)).min().unwrap_or(0);
    Block::Code(lines.iter().map(|line| line.get(indent..).unwrap_or_default().to_owned()).collect())
}

fn entries(lines: &[&str]) -> Vec<HelpEntry> {
    let mut found: Vec<HelpEntry> = Vec::new();
    for line in lines {
        let text = line.trim();
        match found.last_mut() {
            Some(entry) if indent_of(line) > TERM_COLUMNS => {
                entry.meaning = format!("{} {text}", entry.meaning).trim().to_owned();
            }
            _ if text.is_empty() => {}
            _ => {
                let (term, meaning) = text.split_once("  ").unwrap_or((text, ""));
                found.push(HelpEntry { term: term.to_owned(), meaning: meaning.trim().to_owned() });
            }
        }
    }
    found
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns text with the characters escaped that mean something in Markdown. Code between backquotes stays code.
fn escaped(text: &str) -> String {
    let is_code_closed = text.matches('`').count().is_multiple_of(2);
    let mut result = String::with_capacity(text.len());
    let mut is_code = false;
    for character in text.chars() {
        match character {
            '`' if is_code_closed => is_code = !is_code,
            '|' => result.push('\\'),
            '<' | '*' | '_' | '[' | '`' | '\\' if !is_code => result.push('\\'),
            _ => {}
        }
        result.push(character);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "\
Copy what is missing; never deletes

Usage: hakobu copy [OPTIONS] <SOURCE>... <TARGET>

Arguments:
  <SOURCE>...  A path or host:path; one
               or more

Options:
  -n, --dry-run     Only show
      --cipher <NAME>
          auto, or none|null
          [default: auto]

Landing: `a_b` goes to TARGET,
a_b too.

Examples:
  hakobu copy a b     one
  zfs send p@s | hakobu copy - host:/b

Exit codes: 0 done,
1 failed.
";

    #[test]
    fn a_help_text_becomes_a_section() {
        let expected = "\
# hakobu copy

Copy what is missing; never deletes

```
hakobu copy [OPTIONS] <SOURCE>... <TARGET>
```

## Arguments

| argument | meaning |
|---|---|
| `<SOURCE>...` | A path or host:path; one or more |

## Options

| option | meaning |
|---|---|
| `-n, --dry-run` | Only show |
| `--cipher <NAME>` | auto, or none\\|null \\[default: auto] |

Landing: `a_b` goes to TARGET, a\\_b too.

## Examples

```
hakobu copy a b     one
zfs send p@s | hakobu copy - host:/b
```

## Exit codes

0 done, 1 failed.
";
        assert_eq!(section("hakobu copy", HELP, 1, |_| None), expected);
        assert!(section("hakobu copy", HELP, 2, |_| None).contains("\n### Options\n"));
    }

    #[test]
    fn commands_are_listed_and_linked() {
        let help = "Moves files\n\nCommands:\n  copy       Bring over; if\n             missing\n  help  Print help\n\nOptions:\n  -h  Print help\n";
        let found = commands(help);
        assert_eq!(
            found,
            [HelpEntry { term: "copy".to_owned(), meaning: "Bring over; if missing".to_owned() }]
        );
        let page = section("hakobu", help, 1, |name| (name == "copy").then(|| "copy.md".to_owned()));
        assert!(page.contains("| [`copy`](copy.md) | Bring over; if missing |"), "{page}");
        assert!(commands(HELP).is_empty());
    }

    #[test]
    fn indented_text_without_a_heading_is_code() {
        let blocks = blocks("Files:\n\n  Host *\n    lanes 4\n\n  Host a\n\nText\n");
        assert_eq!(blocks[1], Block::Code(["Host *", "  lanes 4", "", "Host a"].map(str::to_owned).to_vec()));
        assert_eq!(blocks[2], Block::Paragraph("Text".to_owned()));
    }
}
