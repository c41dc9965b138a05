//! A page of a report, before it is written as text, Markdown or HTML.
//!
//! Names and messages of others come from the file: control characters and direction marks are escaped here, and each writer
//! escapes the characters that have a meaning in its format.

use hakobu_core::path::lossy;
use hakobu_core::report::from_base64;
use jiff::Timestamp;

use crate::language::Language;

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSpan {
    /// Our own words and numbers.
    Words(String),
    /// A path, an ID, a command: shown letter by letter.
    Name(String),
    /// A message of the system or of another program.
    Said(String),
}

/// One line or cell.
pub type PageLine = Vec<LineSpan>;

/// Our own words.
pub fn words(text: impl Into<String>) -> LineSpan {
    LineSpan::Words(text.into())
}

/// A name from the file.
pub fn name(text: &str) -> LineSpan {
    LineSpan::Name(lossy(text.as_bytes()))
}

/// A path from the file, and its bytes where it is not UTF-8. The top of a tree has no name of its own.
pub fn path(text: &str, base64: Option<&str>) -> LineSpan {
    let bytes = base64.and_then(from_base64);
    // The two are of one path; otherwise the text that every other reader shows is shown here.
    let exact = bytes.filter(|bytes| String::from_utf8_lossy(bytes) == text);
    match exact {
        Some(bytes) => LineSpan::Name(lossy(&bytes)),
        None if text.is_empty() => LineSpan::Name(".".to_owned()),
        None => name(text),
    }
}

/// Returns a message of others on one line.
pub fn said(text: &str) -> LineSpan {
    LineSpan::Said(lossy(text.as_bytes()))
}

/// How good the news are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewsTone {
    /// All is as it should be.
    Good,
    /// Something has to be looked at.
    Mixed,
    /// It did not work.
    Bad,
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum PageBlock {
    /// A paragraph.
    Words(PageLine),
    /// Lines of others, which stay lines.
    Lines(Vec<String>),
    /// Facts, each with its label.
    Facts(Vec<(String, PageLine)>),
    /// Numbers: a head, and rows that begin with a label.
    Table(Vec<String>, Vec<Vec<String>>),
    /// Things of which there may be many: a head, and rows whose first cell names each.
    Records(Vec<String>, Vec<Vec<PageLine>>),
    /// Shares from 0 to 1, each with its label.
    Bars(Vec<(PageLine, f64)>),
    /// Rates as bars beside each other: in pictures alone, for a table beside them says the same.
    Rates(Vec<RateBar>),
    /// A chart, for HTML only; the text beside it contains the essential figures.
    Chart(Chart),
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// From the start of the run to its end.
    pub seconds: f64,
    /// The length of each sample but the last, which ends with the run.
    pub interval_seconds: f64,
    /// The values.
    pub series: Series,
}

/// A rate as a bar, as long as it is against the largest of those beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct RateBar {
    /// The label of the bar.
    pub of: PageLine,
    /// The rate.
    pub bytes_per_second: f64,
    /// The number of its colour.
    pub colour: usize,
}

/// The values of the samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Series {
    /// Bytes per second: all, and those that were written.
    Rates(Vec<(f64, f64)>, [String; 2]),
    /// Shares that are stacked: the names, from the bottom, each with the number of its colour, and
    /// the shares of each sample.
    Shares(Vec<(String, usize)>, Vec<Vec<f64>>),
}

/// A part with a heading.
#[derive(Clone, Debug, PartialEq)]
pub struct PageSection {
    /// The heading.
    pub title: String,
    /// The blocks below the heading.
    pub blocks: Vec<PageBlock>,
}

impl PageSection {
    /// A section; `None` if there is nothing in it.
    pub fn of(title: &str, blocks: Vec<PageBlock>) -> Option<Self> {
        (!blocks.is_empty()).then(|| Self { title: title.to_owned(), blocks })
    }

    /// The version of hakobu that measured, and the time of the end, for pages that are saved as files. In English.
    pub fn measured(ended_at: Timestamp) -> Self {
        let text = ended_at.to_string();
        let ended = Language::En.moment(&text).unwrap_or(text);
        let by = format!("hakobu {}", env!("CARGO_PKG_VERSION"));
        let facts = vec![("Ended".to_owned(), vec![words(ended)]), ("By".to_owned(), vec![words(by)])];
        Self { title: "Measured".to_owned(), blocks: vec![PageBlock::Facts(facts)] }
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportPage {
    /// The language it is in.
    pub language: Language,
    /// A warning to read before anything else: a line, and further ones with details.
    pub warning: Vec<String>,
    /// The title.
    pub title: PageLine,
    /// The outcome in one line.
    pub outcome: String,
    /// How good that is.
    pub tone: NewsTone,
    /// The meaning of the outcome.
    pub meaning: Vec<String>,
    /// The rest.
    pub sections: Vec<PageSection>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_by_its_bytes_if_they_are_its_own() {
        let shown = |text, base64| match path(text, base64) {
            LineSpan::Name(shown) => shown,
            other => panic!("{other:?}"),
        };
        assert_eq!(shown("a\u{fffd}", Some("Yf8=")), "a\\xff");
        assert_eq!(shown("b", Some("Yf8=")), "b");
        assert_eq!(shown("b", Some("!")), "b");
        assert_eq!(shown("", None), ".");
        assert_eq!(shown("a\u{202e}\n", None), "a\\u{202e}\\n");
    }
}
