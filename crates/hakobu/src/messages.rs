//! Messages to the user on standard error: each begins with a label that says what it is, as those of cargo and uv do.

use clap::builder::styling::Style;

use crate::color;

pub(crate) const ERROR: &str = "error:";
const WARNING: &str = "warning:";
const NOTE: &str = "note:";
const HINT: &str = "hint:";
/// An entry that failed in a run that continues.
const FAILED: &str = "failed:";

/// The labels and their colors.
const LABELS: [(&str, Style); 5] = [
    (ERROR, color::ERROR),
    (WARNING, color::WARNING),
    (NOTE, color::NOTE),
    (HINT, color::HINT),
    (FAILED, color::ERROR),
];

/// Returns the message that something failed.
pub fn error(words: &str) -> String {
    format!("{ERROR} {words}")
}

/// Returns the message about a probable mistake of the user.
pub fn warning(words: &str) -> String {
    format!("{WARNING} {words}")
}

/// Returns the message about something that the user should know.
pub fn note(words: &str) -> String {
    format!("{NOTE} {words}")
}

/// Returns the remedy that stands below the message that it belongs to.
pub fn hint(words: &str) -> String {
    format!("{HINT} {words}")
}

/// Returns lines with their labels in color.
pub(crate) fn painted(lines: &str) -> String {
    let paint = |line: &str| {
        let label = LABELS.iter().find_map(|(label, style)| Some((label, style, line.strip_prefix(label)?)));
        match label {
            Some((label, style, rest)) => format!("{style}{label}{style:#}{rest}"),
            None => line.to_owned(),
        }
    };
    lines.split('\n').map(paint).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_colored_at_the_beginning_of_lines_alone() {
        let lines = format!("{}\n{}\nan error: none\n", error("it broke"), hint("mend it"));
        let painted = painted(&lines);
        assert_eq!(painted.matches("\u{1b}[0m").count(), 2, "{painted:?}");
        assert!(painted.contains("error:\u{1b}[0m it broke\n") && painted.ends_with("\nan error: none\n"));
        assert_eq!(super::painted("done"), "done");
        assert!(super::painted(&warning("x")).contains(&color::WARNING.to_string()));
        assert!(super::painted(&note("x")).contains(&color::NOTE.to_string()));
    }
}
