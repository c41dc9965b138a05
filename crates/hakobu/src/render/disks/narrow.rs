//! The list of disks on a terminal that is too narrow for the table.

use super::{HEADINGS, NOTHING, Row, SIZE};

/// The lines of a disk that follow its first one begin here.
const INDENT: usize = 4;
/// The columns of a row.
const ID: usize = 0;
const DEVICE: usize = 1;
const MODEL: usize = 3;
const SECTOR: usize = 4;
const CONTENTS: usize = 5;
const USED_BY: usize = 6;
const BOOT: usize = 7;

/// Several lines for each row: first the device, its size and what is on it.
pub(super) fn text(rows: &[Row], columns: usize) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (device, size) = (width(DEVICE), width(SIZE));
    let indent = " ".repeat(INDENT);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let first = format!("{:<device$}  {:>size$}  {}", row[DEVICE], row[SIZE], row[CONTENTS]);
        text += &wrapped(&first, columns);
        if number == 0 {
            let rest = [ID, MODEL, SECTOR, BOOT, USED_BY].map(|column| HEADINGS[column]).join("  ");
            text += &wrapped(&format!("{indent}{rest}"), columns);
            continue;
        }
        let is = |column: usize| !matches!(row[column].trim(), "" | NOTHING);
        let mut more = vec![row[ID].trim().to_owned()];
        more.extend(is(MODEL).then(|| row[MODEL].clone()));
        more.extend(is(SECTOR).then(|| format!("{} B", row[SECTOR])));
        more.extend(is(BOOT).then(|| row[BOOT].clone()));
        text += &wrapped(&format!("{indent}{}", more.join("  ")), columns);
        if is(USED_BY) {
            text += &wrapped(&format!("{indent}{}", row[USED_BY]), columns);
        }
    }
    text
}

/// Lines, each wrapped.
pub(super) fn wrapped_lines(text: &str, columns: usize) -> String {
    text.lines().map(|line| wrapped(line, columns)).collect()
}

/// A line, wrapped between words where it is wider; what follows is indented. A word that is wider by itself stays whole.
fn wrapped(line: &str, columns: usize) -> String {
    let mut text = String::new();
    let (mut used, mut is_first) = (0, true);
    // The gaps within a line are kept, for they align columns.
    for part in line.split_inclusive(' ') {
        let word = part.trim_end().chars().count();
        if !is_first && word > 0 && used + word > columns {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text += &" ".repeat(INDENT + 2);
            used = INDENT + 2;
        }
        is_first &= word == 0;
        text += part;
        used += part.chars().count();
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrapped("aa  bb cc", 80), "aa  bb cc\n");
        assert_eq!(wrapped("aa  bb cc", 7), "aa  bb\n      cc\n");
        assert_eq!(wrapped("    longer-than-that x", 8), "    longer-than-that\n      x\n");
        assert_eq!(wrapped("", 8), "\n");
    }
}
