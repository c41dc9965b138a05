//! Tables in Markdown, and how figures are written in them.

use std::fmt;

use hakobu_core::units::format_rate;

use serde::Serialize;

/// A table whose columns are also aligned in the Markdown source. The first column is left-aligned; all others
/// (figures) are right-aligned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MarkdownTable {
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    /// Creates a table with these column headings and no rows.
    pub fn new<T: Into<String>>(headers: impl IntoIterator<Item = T>) -> Self {
        Self { headers: headers.into_iter().map(escape).collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty, and cells beyond the last heading are dropped. `|` and line ends are
    /// escaped or replaced.
    pub fn push<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut row: Vec<String> = cells.into_iter().map(escape).collect();
        row.resize(self.headers.len(), String::new());
        self.rows.push(row);
    }
}

fn escape<T: Into<String>>(cell: T) -> String {
    cell.into().replace('|', "\\|").replace(['\n', '\r'], " ")
}

impl fmt::Display for MarkdownTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths: Vec<usize> = vec![3; self.headers.len()];
        for row in std::iter::once(&self.headers).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        write_row(f, &self.headers, &widths)?;
        for (column, width) in widths.iter().enumerate() {
            let end = if column == 0 { "-" } else { ":" };
            write!(f, "| {}{end} ", "-".repeat(width - 1))?;
        }
        writeln!(f, "|")?;
        self.rows.iter().try_for_each(|row| write_row(f, row, &widths))
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, row: &[String], widths: &[usize]) -> fmt::Result {
    for (column, (cell, &width)) in row.iter().zip(widths).enumerate() {
        if column == 0 {
            write!(f, "| {cell:<width$} ")?;
        } else {
            write!(f, "| {cell:>width$} ")?;
        }
    }
    writeln!(f, "|")
}

/// The unit of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Seconds,
    /// Bytes of memory, or on the wire.
    Bytes,
    BytesPerSecond,
    FilesPerSecond,
    /// Requests to an object store.
    Requests,
}

/// Formats a figure with its unit and three digits: `2.31 GB/s`, `0.184 s`.
pub fn format_figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value < 0.9995 => format!("{value:.3} s"),
        Unit::Seconds => format!("{value:.2} s"),
        Unit::Bytes => format!("{:.0} MiB", value / f64::from(1 << 20)),
        Unit::BytesPerSecond => format_rate(value),
        Unit::Requests => format!("{value:.0} requests"),
        Unit::FilesPerSecond => format!("{value:.0} files/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = MarkdownTable::new(["tool", "rate"]);
        table.push(["hakobu", "2.31 GB/s"]);
        table.push(["scp"]);
        let expected = "\
| tool   |      rate |
| ------ | --------: |
| hakobu | 2.31 GB/s |
| scp    |           |
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn cells_cannot_break_the_table() {
        let mut table = MarkdownTable::new(["command", "x"]);
        table.push(["dd | ssh\nhost", "1", "surplus"]);
        let text = table.to_string();
        assert!(text.contains(r"dd \| ssh host"), "{text}");
        assert!(!text.contains("surplus"));
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn figures_follow_their_unit() {
        assert_eq!(format_figure(0.1844, Unit::Seconds), "0.184 s");
        assert_eq!(format_figure(12.346, Unit::Seconds), "12.35 s");
        assert_eq!(format_figure(2.31e9, Unit::BytesPerSecond), "2.31 GB/s");
        assert_eq!(format_figure(43_210.4, Unit::FilesPerSecond), "43210 files/s");
        assert_eq!(format_figure(5.3e6, Unit::Bytes), "5 MiB");
    }
}
