//! As HTML: one file with its style and pictures in it, which loads nothing and runs nothing.

use std::fmt::Write;

use hakobu_core::units::format_rate;

use super::charts;
use super::page::{LineSpan, NewsTone, PageBlock, PageLine, RateBar, ReportPage};
use crate::language::Language;

/// A reader that obeys it would not even load what had got into the page.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("style.css");

/// The page as HTML.
pub fn write(page: &ReportPage) -> String {
    let tone = match page.tone {
        NewsTone::Good => "good",
        NewsTone::Mixed => "mixed",
        NewsTone::Bad => "bad",
    };
    let plain_title: String = page.title.iter().map(|span| escaped(text_of(span))).collect();
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{plain_title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}<h1>{}</h1>\n\
         <div class=\"outcome {tone}\">\n<p><strong>{}</strong></p>\n",
        page.language.tag(),
        warning(&page.warning),
        line(&page.title),
        escaped(&page.outcome)
    );
    for meaning in &page.meaning {
        let _ = writeln!(html, "<p>{}</p>", escaped(meaning));
    }
    html.push_str("</div>\n");
    for section in &page.sections {
        let _ = writeln!(html, "<section>\n<h2>{}</h2>", escaped(&section.title));
        for block in &section.blocks {
            write_block(&mut html, block, page.language);
        }
        html.push_str("</section>\n");
    }
    html.push_str("</body>\n</html>\n");
    html
}

fn warning(lines: &[String]) -> String {
    let [warning, more @ ..] = lines else { return String::new() };
    let more: String = more.iter().map(|more| format!("<p>{}</p>\n", escaped(more))).collect();
    format!("<div class=\"outcome bad\">\n<p><strong>{}</strong></p>\n{more}</div>\n", escaped(warning))
}

fn write_block(html: &mut String, block: &PageBlock, language: Language) {
    match block {
        PageBlock::Words(words) => html.push_str(&format!("<p>{}</p>\n", line(words))),
        PageBlock::Lines(lines) => html.push_str(&format!("<pre>{}</pre>\n", escaped(&lines.join("\n")))),
        PageBlock::Facts(facts) => {
            let rows = facts
                .iter()
                .map(|(label, fact)| format!("<th>{}</th><td>{}</td>", escaped(label), line(fact)));
            table(html, "facts", None, rows);
        }
        PageBlock::Table(head, rows) => {
            let rows = rows.iter().map(|row| {
                let cells = row.iter().enumerate().map(|(index, cell)| match index {
                    0 => format!("<td>{}</td>", escaped(cell)),
                    _ => format!("<td class=\"number\">{}</td>", escaped(cell)),
                });
                cells.collect::<String>()
            });
            table(html, "numbers", Some(head), rows);
        }
        PageBlock::Records(head, rows) => {
            let cell = |cell: &PageLine| format!("<td>{}</td>", line(cell));
            table(
                html,
                "records",
                Some(head),
                rows.iter().map(|row| row.iter().map(cell).collect::<String>()),
            );
        }
        PageBlock::Bars(bars) => {
            let rows = bars.iter().map(|(label, share)| {
                let (label, bar) = (line(label), charts::bar(*share, 0));
                format!("<td>{label}</td><td class=\"number\">{}</td><td>{bar}</td>", language.share(*share))
            });
            table(html, "bars", None, rows);
        }
        PageBlock::Rates(rates) => {
            let sound =
                |rate: &RateBar| Some(rate.bytes_per_second).filter(|rate| rate.is_finite()).unwrap_or(0.0);
            let most = rates.iter().map(sound).fold(f64::MIN_POSITIVE, f64::max);
            let rows = rates.iter().map(|rate| {
                let (label, bar) = (line(&rate.of), charts::bar(sound(rate) / most, rate.colour));
                format!(
                    "<td>{label}</td><td class=\"number\">{}</td><td>{bar}</td>",
                    format_rate(sound(rate))
                )
            });
            table(html, "bars", None, rows);
        }
        PageBlock::Chart(chart) => html.push_str(&charts::figure(chart, language)),
    }
}

/// A table of rows whose cells are HTML.
fn table(html: &mut String, class: &str, head: Option<&Vec<String>>, rows: impl Iterator<Item = String>) {
    let _ = writeln!(html, "<table class=\"{class}\">");
    if let Some(head) = head {
        let cells: String = head.iter().map(|cell| format!("<th>{}</th>", escaped(cell))).collect();
        let _ = writeln!(html, "<thead><tr>{cells}</tr></thead>");
    }
    html.push_str("<tbody>\n");
    for row in rows {
        let _ = writeln!(html, "<tr>{row}</tr>");
    }
    html.push_str("</tbody>\n</table>\n");
}

fn line(spans: &PageLine) -> String {
    spans
        .iter()
        .map(|span| match span {
            LineSpan::Words(text) => escaped(text),
            LineSpan::Name(text) => format!("<code>{}</code>", escaped(text)),
            LineSpan::Said(text) => format!("<q>{}</q>", escaped(text)),
        })
        .collect()
}

fn text_of(span: &LineSpan) -> &str {
    match span {
        LineSpan::Words(text) | LineSpan::Name(text) | LineSpan::Said(text) => text,
    }
}

/// Text that is nothing but text, also within quotes.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::{name, said, words};

    #[test]
    fn no_name_is_a_tag() {
        let all = vec![words("a<b"), name("<script>\x1b'\""), said("&amp;</q>")];
        assert_eq!(
            line(&all),
            "a&lt;b<code>&lt;script&gt;\\u{1b}&#39;&quot;</code><q>&amp;amp;&lt;/q&gt;</q>"
        );
    }

    #[test]
    fn the_style_loads_nothing() {
        assert!(!["url", "@import", "<", ">"].iter().any(|loads| STYLE.contains(loads)));
    }
}
