//! Markdown for a ticket: the common subset of GitHub, GitLab and CommonMark.
//!
//! All that comes from the file is in code spans, in which no letter means anything, and never in a
//! table, in which a bar would. Our own words hold nothing that Markdown would take for its own but
//! what is escaped here.

use super::page::{LineSpan, PageBlock, PageLine, ReportPage};
use crate::language::{Language, clamped};

/// How long a bar of all the time would be.
const BAR_LETTERS: f64 = 20.0;
/// The characters that may have a meaning in running text.
const SPECIAL: &str = "\\`*_[]<>|~&#!$";

/// The page as Markdown.
pub fn write(page: &ReportPage) -> String {
    let mut text = String::new();
    if let [warning, more @ ..] = &page.warning[..] {
        text.push_str(&format!("**{}**\n\n", escaped(warning)));
        more.iter().for_each(|more| text.push_str(&format!("{}\n\n", escaped(more))));
    }
    text.push_str(&format!("# {}\n\n**{}**\n", line(&page.title), escaped(&page.outcome)));
    for meaning in &page.meaning {
        text.push_str(&format!("\n{}\n", escaped(meaning)));
    }
    for section in &page.sections {
        text.push_str(&format!("\n## {}\n", escaped(&section.title)));
        for block in &section.blocks {
            write_block(&mut text, block, page.language);
        }
    }
    text
}

fn write_block(text: &mut String, block: &PageBlock, language: Language) {
    match block {
        PageBlock::Words(words) => text.push_str(&format!("\n{}\n", line(words))),
        PageBlock::Lines(lines) => text.push_str(&fenced(lines)),
        PageBlock::Facts(facts) => {
            text.push('\n');
            for (label, fact) in facts {
                text.push_str(&format!("- **{}**: {}\n", escaped(label), line(fact)));
            }
        }
        PageBlock::Table(head, rows) => {
            let row = |cells: &[String]| {
                let cells: Vec<_> = cells.iter().map(|cell| escaped(cell)).collect();
                format!("| {} |\n", cells.join(" | "))
            };
            let rule: Vec<_> =
                (0..head.len()).map(|column| if column == 0 { "---" } else { "---:" }).collect();
            text.push_str(&format!("\n{}| {} |\n", row(head), rule.join(" | ")));
            rows.iter().for_each(|cells| text.push_str(&row(cells)));
        }
        PageBlock::Records(head, rows) => {
            text.push('\n');
            rows.iter().for_each(|row| text.push_str(&record(head, row, language)));
        }
        PageBlock::Bars(bars) => {
            text.push('\n');
            for (label, share) in bars {
                let bar = "█".repeat((clamped(*share) * BAR_LETTERS).round() as usize);
                let told = format!("- {}: {} {bar}", line(label), language.share(*share));
                text.push_str(&format!("{}\n", told.trim_end()));
            }
        }
        PageBlock::Rates(_) | PageBlock::Chart(_) => {}
    }
}

/// One item of a list, with all that there is to say.
fn record(head: &[String], row: &[PageLine], language: Language) -> String {
    let mut cells = head.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
    let first = cells.next().map_or_else(String::new, |(_, cell)| line(cell));
    let rest: Vec<_> = cells.map(|(label, cell)| format!("{}: {}", escaped(label), line(cell))).collect();
    match rest.is_empty() {
        true => format!("- {first}\n"),
        false => format!("- {first}  \n  {}\n", rest.join(language.say("; ", " / "))),
    }
}

fn line(spans: &PageLine) -> String {
    spans
        .iter()
        .map(|span| match span {
            LineSpan::Words(text) => escaped(text),
            LineSpan::Name(text) | LineSpan::Said(text) => code(text),
        })
        .collect()
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if SPECIAL.contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// A code span, which ends at as many backticks as it begins with: more than there are in a row within.
fn code(text: &str) -> String {
    if text.trim().is_empty() {
        // Of spaces alone there is no code span.
        return if text.is_empty() { String::new() } else { format!("`\"{text}\"`") };
    }
    let fence = "`".repeat(longest_row(text) + 1);
    // One space at each end is taken off again.
    let padding = if text.starts_with([' ', '`']) || text.ends_with([' ', '`']) { " " } else { "" };
    format!("{fence}{padding}{text}{padding}{fence}")
}

fn longest_row(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

fn fenced(lines: &[String]) -> String {
    let longest = lines.iter().map(|line| longest_row(line)).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("\n{fence}text\n{}\n{fence}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::{name, said, words};

    #[test]
    fn no_name_means_anything() {
        for (given, shown) in [
            ("a*b|c <script>", "`a*b|c <script>`"),
            ("a`b", "``a`b``"),
            ("`", "`` ` ``"),
            ("a``b`", "``` a``b` ```"),
            (" a ", "`  a  `"),
            (" ", "`\" \"`"),
            ("a\n# b", "`a\\n# b`"),
            ("\\", "`\\`"),
        ] {
            assert_eq!(line(&vec![name(given)]), shown, "{given:?}");
            assert_eq!(line(&vec![said(given)]), shown, "{given:?}");
        }
        assert_eq!(line(&vec![words("5 * <b> | _")]), "5 \\* \\<b\\> \\| \\_");
    }

    #[test]
    fn lines_of_others_do_not_get_out_of_their_block() {
        let mut text = String::new();
        let lines = ["one", "```", "# two"].map(str::to_owned).to_vec();
        write_block(&mut text, &PageBlock::Lines(lines), Language::En);
        assert_eq!(text, "\n````text\none\n```\n# two\n````\n");
    }
}
