//! Japanese text: lines that are joined without a blank between them.

/// The first character of the blocks that hold Japanese and Chinese characters, kana and full-width forms.
const FIRST_WIDE: char = '\u{2e80}';
/// The beginning of a line of a quotation.
const QUOTE: &str = "> ";

/// Returns the text with the lines of each paragraph joined where both sides of the line end are Japanese. A browser would show a
/// blank there, and a search would not find a word that the line end divides.
pub(super) fn joined(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        let last = lines.last_mut().filter(|_| !is_code && !is_fence);
        match last.and_then(|last| Some((rest_of_paragraph(last, line)?, last))) {
            Some((rest, last)) => last.push_str(rest),
            None => lines.push(line.to_owned()),
        }
        is_code ^= is_fence;
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Returns the text of `line` that continues the line `last` without a blank, if both are of one paragraph and Japanese.
fn rest_of_paragraph<'a>(last: &str, line: &'a str) -> Option<&'a str> {
    let rest = match last.starts_with(QUOTE) {
        true => line.strip_prefix(QUOTE)?,
        false => line.trim_start(),
    };
    let is_heading = last.starts_with('#');
    let start = rest.trim_start_matches(['[', '*']);
    (!is_heading && end_of(last).is_some_and(is_wide) && start.starts_with(is_wide)).then_some(rest)
}

/// Returns the last character of a line that is shown: for a link, that of its text.
fn end_of(line: &str) -> Option<char> {
    let shown = line.strip_suffix(')').and_then(|link| Some(link.rsplit_once("](")?.0));
    shown.unwrap_or(line).trim_end_matches('*').chars().next_back()
}

fn is_wide(character: char) -> bool {
    character >= FIRST_WIDE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_paragraph_are_joined() {
        for (text, expected) in [
            ("一行目。\n二行目。\n", "一行目。二行目。\n"),
            ("- 項目の\n  続き\n- 次\n", "- 項目の続き\n- 次\n"),
            ("ここで `sync`\nを使う。\n次に\nLVM を\n", "ここで `sync`\nを使う。次に\nLVM を\n"),
            ("> 引用の\n> 続き\n", "> 引用の続き\n"),
            ("一つ目、\n[二つ目](b.md)\nは **太字**\nの次\n", "一つ目、[二つ目](b.md)は **太字**の次\n"),
            ("次の[README](a.md)\nに\n", "次の[README](a.md)\nに\n"),
        ] {
            assert_eq!(joined(text), expected);
        }
    }

    #[test]
    fn blocks_stay_apart() {
        for text in [
            "# 見出し\n本文\n",
            "段落\n\n段落\n",
            "```\n一\n二\n```\n",
            "| 表 |\n|---|\n| 値 |\n",
            "> 引用\n\n本文\n",
            "段落\n- 項目\n",
        ] {
            assert_eq!(joined(text), text);
        }
    }
}
