//! Colors: when they are used, and which.
//!
//! `--color` decides, then `NO_COLOR`, then `CLICOLOR_FORCE`, then whether the output is a terminal.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Style, Styles};

/// The values of `--color`.
pub const COLOR_CHOICES: [&str; 3] = ["auto", "always", "never"];

/// The index of the choice in [`COLOR_CHOICES`].
static CHOICE: AtomicU8 = AtomicU8::new(0);

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const NOTE: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Green.on_default().bold();
const HEADER: Style = AnsiColor::Green.on_default().bold();
const LITERAL: Style = AnsiColor::Cyan.on_default().bold();
const VALUE_NAME: Style = AnsiColor::Cyan.on_default();

/// The colors of the help.
pub const STYLES: Styles = Styles::styled()
    .header(HEADER)
    .usage(HEADER)
    .literal(LITERAL)
    .placeholder(VALUE_NAME)
    .error(ERROR)
    .valid(HINT)
    .invalid(WARNING);

/// Takes `--color` out of a command line, wherever it is, and obeys it. A wrong value stays for the parser to refuse.
pub fn take_choice(arguments: &[OsString]) -> Vec<OsString> {
    let mut rest = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            rest.push(word.clone());
            rest.extend(words.cloned());
            break;
        }
        let attached = word.to_str().and_then(|word| word.strip_prefix("--color=")).and_then(index_of);
        let detached = words.peek().filter(|_| word == "--color").and_then(|next| index_of(next.to_str()?));
        match attached.or(detached) {
            Some(index) => CHOICE.store(index, Relaxed),
            None => rest.push(word.clone()),
        }
        if attached.is_none() && detached.is_some() {
            words.next();
        }
    }
    rest
}

fn index_of(choice: &str) -> Option<u8> {
    COLOR_CHOICES.iter().position(|known| *known == choice).and_then(|index| u8::try_from(index).ok())
}

/// Returns true if standard output is to be colored.
pub(crate) fn on_stdout() -> bool {
    decide(CHOICE.load(Relaxed), |name| std::env::var_os(name), || std::io::stdout().is_terminal())
}

/// Returns true if standard error is to be colored.
pub(crate) fn on_stderr() -> bool {
    decide(CHOICE.load(Relaxed), |name| std::env::var_os(name), || std::io::stderr().is_terminal())
}

/// Returns a help text as it is printed. Headings below the options get their color as well.
pub(crate) fn help(text: &StyledStr, is_colored: bool) -> String {
    if !is_colored {
        return text.to_string();
    }
    let lines = text.ansi().to_string();
    let heading = |line: &str| match line {
        "Examples:" => format!("{HEADER}{line}{HEADER:#}"),
        line => line.to_owned(),
    };
    lines.split('\n').map(heading).collect::<Vec<_>>().join("\n")
}

fn decide(choice: u8, variable: impl Fn(&str) -> Option<OsString>, is_terminal: impl Fn() -> bool) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    match choice {
        1 => true,
        2 => false,
        _ if is_set("NO_COLOR") => false,
        _ if is_set("CLICOLOR_FORCE") && variable("CLICOLOR_FORCE").as_deref() != Some(OsStr::new("0")) => {
            true
        }
        _ if variable("TERM").as_deref() == Some(OsStr::new("dumb")) => false,
        _ => is_terminal(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_counts_more_than_variables_and_these_more_than_the_terminal() {
        let decided = |choice, set: &[(&str, &str)], is_terminal| {
            let find = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into());
            decide(choice, find, || is_terminal)
        };
        assert!(decided(0, &[], true) && !decided(0, &[], false));
        assert!(decided(1, &[("NO_COLOR", "1")], false) && !decided(2, &[("CLICOLOR_FORCE", "1")], true));
        assert!(!decided(0, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true));
        assert!(decided(0, &[("NO_COLOR", "")], true) && decided(0, &[("CLICOLOR_FORCE", "1")], false));
        assert!(!decided(0, &[("CLICOLOR_FORCE", "0")], false) && !decided(0, &[("TERM", "dumb")], true));
    }

    #[test]
    fn the_option_is_taken_out_wherever_it_is() {
        let taken = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            let rest: Vec<_> = take_choice(&words).iter().map(|word| word.display().to_string()).collect();
            rest.join(" ")
        };
        for line in ["h --color auto copy a b", "h copy a --color=auto b", "h copy a b --color auto"] {
            assert_eq!(taken(line), "h copy a b", "{line}");
        }
        for line in ["h copy --color red a b", "h copy --color=red a", "h copy -- --color auto", "h --color"]
        {
            assert_eq!(taken(line), line);
        }
    }
}
