//! Tables, times and JSON.

use hakobu_core::error::{Error, Result};
use hakobu_core::path::lossy;
use hakobu_core::units::{format_bytes, format_count, format_duration};
use hakobu_fleet::api::byte_text::ByteText;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::language::Language;
use crate::render::json::{one_line, pretty};
use crate::translation::phrase;

/// The cell for an absent value.
pub(super) const NOTHING: &str = "-";

/// The states of relationships, runs and brokers.
const STATES: [&str; 13] = [
    "busy",
    "idle",
    "draining",
    "ending",
    "away",
    "refused",
    "running",
    "paused",
    "failed",
    "partial",
    "complete",
    "cancelled",
    "new",
];

/// Returns a table with columns that stand below each other. Headings are in the language of the user.
pub(super) fn table<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    table_in(Language::from_environment(), headings, rows)
}

fn table_in<const N: usize>(
    language: Language,
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut all = vec![headings.map(|heading| phrase(language, heading))];
    // A name must not break lines or colors.
    all.extend(rows.into_iter().map(|row| row.map(|cell| lossy(cell.as_bytes()))));
    let width = |column: usize| all.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &all {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width - cell.width() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns items as JSON, one a line.
///
/// # Errors
/// None that is known; serialising could fail.
pub(super) fn json_lines<T: Serialize>(items: &[T]) -> Result<String> {
    let line = |item| one_line(item).map(|line| line + "\n");
    items.iter().map(|item| line(item).map_err(|error| Error::io("writing JSON", &error))).collect()
}

/// Returns one value as JSON.
///
/// # Errors
/// As for [`json_lines`].
pub(super) fn json_object<T: Serialize>(value: &T) -> Result<String> {
    pretty(value).map_err(|error| Error::io("writing JSON", &error))
}

/// Returns a moment in local time.
pub(super) fn time(ms: Option<u64>) -> String {
    let stamp =
        ms.and_then(|ms| i64::try_from(ms).ok()).and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    stamp.map_or_else(
        || NOTHING.to_owned(),
        |stamp| stamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// Returns a time between two moments.
pub(super) fn span(from_ms: u64, to_ms: u64) -> String {
    format_duration(std::time::Duration::from_millis(to_ms.saturating_sub(from_ms)))
}

/// Returns a name or path.
pub(super) fn text(bytes: &ByteText) -> String {
    lossy(&bytes.0)
}

/// Returns a number with its unit.
pub(super) fn bytes(count: u64) -> String {
    format_bytes(count)
}

/// Returns a number with separators.
pub(super) fn count(count: u64) -> String {
    format_count(count)
}

/// Returns a line with a named value. The name is in the language of the user.
pub(super) fn field(name: &str, columns: usize, value: &str) -> String {
    let name = phrase(Language::from_environment(), name);
    format!("{name}{} {value}\n", " ".repeat(columns.saturating_sub(name.width())))
}

/// Returns the name of a state in the language of the user.
pub(super) fn state_name(state: &impl Serialize) -> String {
    let name = name_of(state);
    match STATES.contains(&&*name) {
        true => phrase(Language::from_environment(), &name),
        false => name,
    }
}

/// Returns the name of a state as in JSON.
pub(super) fn name_of(state: &impl Serialize) -> String {
    serde_json::to_value(state).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_of_a_list_is_a_line_of_json() {
        assert_eq!(json_lines(&["a", "b"]).unwrap(), "\"a\"\n\"b\"\n");
        assert_eq!(json_lines::<u8>(&[]).unwrap(), "");
    }

    #[test]
    fn columns_stand_below_each_other_and_names_do_no_harm() {
        let rows =
            [["a\u{1b}[2J".to_owned(), "x".to_owned()], ["\u{904b}\u{3076}".to_owned(), String::new()]];
        let shown = table_in(Language::En, ["NAME", "STATE"], rows.clone());
        assert_eq!(shown, "NAME        STATE\na\\u{1b}[2J  x\n\u{904b}\u{3076}\n");
        let shown = table_in(Language::Ja, ["NAME", "STATE"], rows);
        assert_eq!(shown, "名前        状態\na\\u{1b}[2J  x\n\u{904b}\u{3076}\n");
    }
}
