//! Messages to the user on standard error: each begins with a label that says what it is, as those of cargo and uv do.

use clap::builder::styling::Style;

use crate::color;
use crate::language::Language;

pub(crate) const ERROR: &str = "error:";
pub(crate) const WARNING: &str = "warning:";
pub(crate) const NOTE: &str = "note:";
pub(crate) const HINT: &str = "hint:";
/// An entry that failed in a run that continues.
pub(crate) const FAILED: &str = "failed:";

/// The labels in both languages, and their colors.
const LABELS: [(&str, &str, Style); 5] = [
    (ERROR, "エラー:", color::ERROR),
    (WARNING, "警告:", color::WARNING),
    (NOTE, "注記:", color::NOTE),
    (HINT, "ヒント:", color::HINT),
    (FAILED, "失敗:", color::ERROR),
];

/// Returns a message with its label in a language. The label is given in English.
pub(crate) fn labelled(language: Language, label: &str, words: &str) -> String {
    let known = LABELS.iter().find(|(english, ..)| *english == label);
    let label = known.map_or(label, |(english, japanese, _)| language.say(english, japanese));
    format!("{label} {words}")
}

/// Returns the English label at the beginning of a line, and what is behind it.
pub(crate) fn split_label(line: &str) -> Option<(&'static str, &str)> {
    LABELS.iter().find_map(|(label, ..)| Some((*label, line.strip_prefix(label)?.strip_prefix(' ')?)))
}

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
        let labels =
            LABELS.iter().flat_map(|(english, japanese, style)| [(english, style), (japanese, style)]);
        let label = { labels }.find_map(|(label, style)| Some((label, style, line.strip_prefix(label)?)));
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
        let japanese = labelled(Language::Ja, ERROR, "x");
        assert_eq!(super::painted(&japanese).matches("\u{1b}[0m").count(), 1, "{japanese}");
    }

    #[test]
    fn a_label_is_told_from_words() {
        assert_eq!(split_label("hint: mend it"), Some((HINT, "mend it")));
        assert_eq!(split_label("hints: mend it"), None);
        assert_eq!(labelled(Language::En, NOTE, "x"), note("x"));
        assert_eq!(labelled(Language::Ja, FAILED, "x"), "失敗: x");
    }
}
