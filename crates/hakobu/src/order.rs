//! Options may stand between the places, as for most tools: what has to come last is put there.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Command;

/// Moves the positional arguments behind the options and their values. Returns `None` if that changes nothing.
pub fn places_last(arguments: &[OsString], command: &Command) -> Option<Vec<OsString>> {
    let verb = command.find_subcommand(arguments.get(1)?)?;
    let mut words = arguments.iter().skip(2);
    let (mut options, mut places) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        if word == "--" {
            places.push(word);
            places.extend(words.by_ref());
        } else if !word.as_bytes().starts_with(b"-") || word == "-" {
            places.push(word);
        } else {
            options.push(word);
            if wants_more(word, verb) {
                options.extend(words.next());
            }
        }
    }
    let ordered: Vec<_> = arguments.iter().take(2).chain(options).chain(places).cloned().collect();
    (ordered != arguments).then_some(ordered)
}

/// Returns true if the next word is the value of this option.
fn wants_more(word: &OsStr, verb: &Command) -> bool {
    let takes_value =
        |argument: &clap::Arg| argument.get_action().takes_values() && !argument.is_require_equals_set();
    let Some(text) = word.to_str() else { return false };
    if let Some(name) = text.strip_prefix("--") {
        let is_it = |argument: &&clap::Arg| {
            argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&name))
        };
        return verb.get_arguments().find(is_it).is_some_and(takes_value);
    }
    // The first of several letters that takes a value has the rest for it.
    let mut letters = text.chars().skip(1).peekable();
    while let Some(letter) = letters.next() {
        if verb.get_arguments().find(|argument| argument.get_short() == Some(letter)).is_some_and(takes_value)
        {
            return letters.peek().is_none();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn ordered(typed: &str) -> Option<String> {
        let words: Vec<OsString> = format!("hakobu {typed}").split(' ').map(OsString::from).collect();
        let ordered = places_last(&words, &cli::command_for(&words))?;
        Some(ordered[1..].iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn places_come_last_with_their_order() {
        for (typed, expected) in [
            ("copy a -n b", "copy -n a b"),
            ("copy a --lanes 4 b -", "copy --lanes 4 a b -"),
            ("copy a --lanes=4 b c", "copy --lanes=4 a b c"),
            ("sync a --delete b", "sync --delete a b"),
            ("copy a -n b -- -c", "copy -n a b -- -c"),
        ] {
            assert_eq!(ordered(typed).as_deref(), Some(expected), "{typed}");
        }
        for same in ["copy -n a b", "copy a b", "frob a -n b", "copy --exclude x a b"] {
            assert_eq!(ordered(same), None, "{same}");
        }
    }
}
