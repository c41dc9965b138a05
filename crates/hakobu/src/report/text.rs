//! As text, for a terminal.

use unicode_width::UnicodeWidthStr;

use super::page::{LineSpan, PageBlock, PageLine, ReportPage};
use crate::language::{Language, clamped};

/// As many failures and the like are listed; the other formats have all.
const RECORDS_MAX: usize = 20;
/// How long a bar of all the time would be.
const BAR_LETTERS: f64 = 40.0;
/// Labels that are wider than this do not push the others to the right.
const LABEL_WIDTH_MAX: usize = 44;

/// The page as text.
pub fn write(page: &ReportPage) -> String {
    let mut text = String::new();
    if let [warning, more @ ..] = &page.warning[..] {
        text.push_str(&format!("{warning}\n"));
        more.iter().for_each(|more| text.push_str(&format!("  {more}\n")));
        text.push('\n');
    }
    text.push_str(&format!("{}\n\n{}\n", plain(&page.title), page.outcome));
    for meaning in &page.meaning {
        text.push_str(&format!("  {meaning}\n"));
    }
    for section in &page.sections {
        text.push_str(&format!("\n{}\n", section.title));
        for block in &section.blocks {
            write_block(&mut text, block, page.language);
        }
    }
    text
}

fn write_block(text: &mut String, block: &PageBlock, language: Language) {
    match block {
        PageBlock::Words(line) => text.push_str(&format!("  {}\n", plain(line))),
        PageBlock::Lines(lines) => lines.iter().for_each(|line| text.push_str(&format!("  {line}\n"))),
        PageBlock::Facts(facts) => {
            let width = widest(facts.iter().map(|(label, _)| label.as_str()));
            for (label, line) in facts {
                text.push_str(&format!("  {}  {}\n", left(label, width), plain(line)));
            }
        }
        PageBlock::Table(head, rows) => write_table(text, head, rows),
        PageBlock::Records(head, rows) => write_records(text, head, rows, language),
        PageBlock::Bars(bars) => {
            let labels: Vec<_> = bars.iter().map(|(label, _)| plain(label)).collect();
            let width = widest(labels.iter().map(String::as_str));
            for (label, (_, share)) in labels.iter().zip(bars) {
                let bar = "#".repeat((clamped(*share) * BAR_LETTERS).round() as usize);
                let line = format!("  {}  {:>5}  {bar}", left(label, width), language.share(*share));
                text.push_str(&format!("{}\n", line.trim_end()));
            }
        }
        PageBlock::Rates(_) | PageBlock::Chart(_) => {}
    }
}

/// Formats a table whose first column is a label and whose other columns are numbers. The head is left out if the labels are
/// sufficient.
fn write_table(text: &mut String, head: &[String], rows: &[Vec<String>]) {
    let has_head = head.len() > 2;
    let shown = || has_head.then_some(head).into_iter().chain(rows.iter().map(Vec::as_slice));
    let width = |column: usize| widest(shown().filter_map(|row| row.get(column)).map(String::as_str));
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in shown() {
        let mut line = String::from(" ");
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            match index {
                0 => line.push_str(&format!(" {cell}{padding}")),
                _ => line.push_str(&format!("  {padding}{cell}")),
            }
        }
        text.push_str(&format!("{}\n", line.trim_end()));
    }
}

/// Formats each item as two lines: its name, and its details.
fn write_records(text: &mut String, head: &[String], rows: &[Vec<PageLine>], language: Language) {
    for row in rows.iter().take(RECORDS_MAX) {
        let cells = head.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        let mut cells = cells.map(|(label, cell)| (label, plain(cell)));
        if let Some((_, first)) = cells.next() {
            text.push_str(&format!("  {first}\n"));
        }
        let rest: Vec<_> = cells.map(|(label, cell)| format!("{label}: {cell}")).collect();
        if !rest.is_empty() {
            text.push_str(&format!("    {}\n", rest.join(language.say("; ", " / "))));
        }
    }
    let more = rows.len().saturating_sub(RECORDS_MAX) as u64;
    if more > 0 {
        let count = language.count(more);
        text.push_str(&match language {
            Language::En => format!("  and {count} more: --format markdown or html lists them all\n"),
            Language::Ja => {
                format!("  ほか {count} 件(--format markdown または html ではすべて表示します)\n")
            }
        });
    }
}

/// Names and messages of others are escaped already.
fn plain(line: &PageLine) -> String {
    line.iter()
        .map(|span| match span {
            LineSpan::Words(text) | LineSpan::Name(text) | LineSpan::Said(text) => text.as_str(),
        })
        .collect()
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(UnicodeWidthStr::width).filter(|width| *width <= LABEL_WIDTH_MAX).max().unwrap_or(0)
}

/// Japanese letters are two columns wide.
fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::{name, words};

    #[test]
    fn columns_are_in_line_in_both_languages() {
        let mut text = String::new();
        let facts =
            vec![("コピー元".to_owned(), vec![words("a")]), ("ID".to_owned(), vec![name("b\x1b[2J")])];
        write_block(&mut text, &PageBlock::Facts(facts), Language::Ja);
        assert_eq!(text, "  コピー元  a\n  ID        b\\u{1b}[2J\n");
        let mut text = String::new();
        write_table(&mut text, &["項目".into(), "件数".into()], &[vec!["更新".into(), "7".into()]]);
        assert_eq!(text, "  更新  7\n");
    }

    #[test]
    fn the_first_twenty_are_listed_and_the_others_counted() {
        let row = |number: usize| vec![vec![name(&number.to_string())], Vec::new(), vec![words("no")]];
        let head = ["Entry", "Where", "Error"].map(str::to_owned);
        for (rows, more) in [(20, 0), (21, 1)] {
            let mut text = String::new();
            write_records(&mut text, &head, &(0..rows).map(row).collect::<Vec<_>>(), Language::En);
            assert_eq!(text.matches("    Error: no\n").count(), 20);
            assert_eq!(text.contains("and 1 more: "), more == 1, "{text}");
        }
    }
}
