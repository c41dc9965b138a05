//! Messages in the language of the user.
//!
//! All texts of the program are English. Where a line for people is written, it is translated: a text whose values are still
//! known by its template ([`localized`]), a text of another module by the templates that it matches ([`text`]). What the
//! catalog lacks stays English. Values stay as they are, except those that are texts of the catalog themselves, such as a
//! cause within an error. Nothing is decided by a translated text, and nothing for programs (JSON, records, logs) is
//! translated.

mod catalog;
mod template;

use std::borrow::Cow;

use self::catalog::CATALOG;
use crate::language::Language;
use crate::messages;

/// Formats a text in a language. The English template, in which each value is `{}`, is the key of its translation.
macro_rules! localized {
    ($language:expr, $template:literal $(, $value:expr)* $(,)?) => {
        match $language {
            $crate::language::Language::En => format!($template $(, $value)*),
            $crate::language::Language::Ja => {
                $crate::translation::filled($template, &[$(&$value.to_string()),*])
            }
        }
    };
}
pub(crate) use localized;

/// Returns the Japanese text of a template with its values.
pub(crate) fn filled(template: &str, values: &[&str]) -> String {
    CATALOG.filled(template, values).unwrap_or_else(|| {
        let mut values = values.iter();
        let parts = template.split("{}").map(str::to_owned);
        parts
            .reduce(|text, part| text + values.next().copied().unwrap_or_default() + &part)
            .unwrap_or_default()
    })
}

/// Returns a text without values in a language.
pub(crate) fn phrase(language: Language, english: &str) -> String {
    let japanese = || CATALOG.filled(english, &[]);
    (language == Language::Ja).then(japanese).flatten().unwrap_or_else(|| english.to_owned())
}

/// Returns the step of an error in a language.
pub(crate) fn step(language: Language, step: &str) -> &str {
    match language {
        Language::En => step,
        Language::Ja => CATALOG.step(step).unwrap_or(step),
    }
}

/// Returns a text of the program in a language, line by line: each part that matches a template is translated.
pub(crate) fn text(language: Language, text: &str) -> Cow<'_, str> {
    translated(language, text, |line| CATALOG.text(line))
}

/// Returns messages in a language, with their labels.
pub(crate) fn lines(language: Language, lines: &str) -> Cow<'_, str> {
    translated(language, lines, |line| match messages::split_label(line) {
        // The name of an entry stands first.
        Some((messages::FAILED, words)) => messages::labelled(language, messages::FAILED, words),
        Some((label, words)) => messages::labelled(language, label, &CATALOG.text(words)),
        None => CATALOG.text(line),
    })
}

fn translated(language: Language, text: &str, translate: impl Fn(&str) -> String) -> Cow<'_, str> {
    if language == Language::En {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let words = line.trim_start_matches(' ');
        format!("{}{}", &line[..line.len() - words.len()], translate(words))
    };
    Cow::Owned(text.split('\n').map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests;
