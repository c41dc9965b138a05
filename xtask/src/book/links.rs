//! Links in Markdown: finds and rewrites them, and leaves code alone.

/// The beginning and end of a code block.
const FENCE: &str = "```";

/// Returns the text with the target of each link replaced by the result of `target`. A link for which that is `None` becomes its text.
pub(super) fn rewrite(text: &str, mut target: impl FnMut(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    // The positions of open brackets in the result.
    let mut open = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let skipped = code_length(rest, result.is_empty() || result.ends_with('\n'));
        if skipped > 0 {
            let (code, after) = rest.split_at(skipped);
            result.push_str(code);
            rest = after;
            continue;
        }
        if let Some((link, after)) = link_end(rest).filter(|_| !open.is_empty()) {
            let start: usize = open.pop().unwrap_or_default();
            match target(link) {
                Some(link) => result.push_str(&format!("]({link})")),
                None => {
                    result.remove(start);
                }
            }
            rest = after;
            continue;
        }
        let mut characters = rest.chars();
        let Some(character) = characters.next() else { break };
        match character {
            '[' => open.push(result.len()),
            ']' => {
                open.pop();
            }
            _ => {}
        }
        result.push(character);
        rest = characters.as_str();
    }
    result
}

/// Returns the targets of all links.
pub(super) fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    rewrite(text, |target| {
        found.push(target.to_owned());
        None
    });
    found
}

/// Returns the length of the code with which `text` begins: a block, a span, or an escaped character. Zero if there is none.
fn code_length(text: &str, is_line_start: bool) -> usize {
    if is_line_start && text.trim_start_matches(' ').starts_with(FENCE) {
        return block_length(text);
    }
    if text.starts_with('`') {
        return span_length(text);
    }
    match text.strip_prefix('\\').and_then(|rest| rest.chars().next()) {
        Some(escaped) if escaped.is_ascii_punctuation() => 2,
        _ => 0,
    }
}

/// Returns the length of a code block, with the lines of its fences.
fn block_length(text: &str) -> usize {
    let mut length = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        length += line.len();
        if number > 0 && line.trim_start().starts_with(FENCE) {
            break;
        }
    }
    length
}

/// Returns the length of a code span, or of the backquotes if nothing in the paragraph closes them.
fn span_length(text: &str) -> usize {
    let quotes = text.len() - text.trim_start_matches('`').len();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let mut at = quotes;
    while let Some(found) = paragraph[at..].find('`') {
        let run = &paragraph[at + found..];
        let length = run.len() - run.trim_start_matches('`').len();
        at += found + length;
        if length == quotes {
            return at;
        }
    }
    quotes
}

/// Returns the target of the link whose text ends where `text` begins, and the text after the link.
fn link_end(text: &str) -> Option<(&str, &str)> {
    let (target, after) = text.strip_prefix("](")?.split_once(')')?;
    (!target.contains('\n')).then_some((target, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upper(text: &str) -> String {
        rewrite(text, |target| (!target.starts_with('-')).then(|| target.to_uppercase()))
    }

    #[test]
    fn targets_are_replaced() {
        assert_eq!(upper("see [a](b.md#c), [d](e)."), "see [a](B.MD#C), [d](E).");
        assert_eq!(upper("[over\ntwo lines](b)"), "[over\ntwo lines](B)");
        assert_eq!(upper("![chart](c.svg) [![x](y)](z)"), "![chart](C.SVG) [![x](Y)](Z)");
        assert_eq!(upper("[`code` in it](b)"), "[`code` in it](B)");
        assert_eq!(upper("[日本語](b)"), "[日本語](B)");
    }

    #[test]
    fn links_without_a_target_become_their_text() {
        assert_eq!(upper("see [a](-) and [`b`](-)."), "see a and `b`.");
        assert_eq!(upper("[1] and [a](-)"), "[1] and a");
        assert_eq!(upper("[日本](-)語"), "日本語");
    }

    #[test]
    fn code_is_left_alone() {
        for text in [
            "`[a](b)` and ``x` [a](b)``",
            "```\n[a](b)\n```\n",
            "1. item\n\n   ```\n   [a](b)\n   ```\n",
            "\\[a](b)",
            "a ](b) c",
            "[a](b\nc)",
            "`open",
        ] {
            assert_eq!(upper(text), text);
        }
        assert_eq!(upper("```\n[a](b)\n```\n[a](b)\n"), "```\n[a](b)\n```\n[a](B)\n");
        assert_eq!(upper("a ` b\n\n[a](b) `"), "a ` b\n\n[a](B) `");
    }

    #[test]
    fn targets_are_listed() {
        assert_eq!(targets("[a](b) `[c](d)` [e](f)"), ["b", "f"]);
    }
}
