//! The last words of a program that did not get as far as a run, and the exit codes that go with them.

use clap::error::{ContextKind, ContextValue};
use hakobu_core::error::{Error, ErrorKind};

pub use crate::exit_code::{FAILED, INTERRUPTED, WRONG_USAGE, code_of};
use crate::language::Language;
use crate::{color, messages, output, words};

/// Prints an error about the arguments.
pub fn wrong_usage(lines: &[String]) -> u8 {
    for line in lines {
        output::tell_translated(&words::escaped_lines(line));
    }
    WRONG_USAGE
}

/// Prints the errors that were found in the arguments. Returns the code of the worst.
pub fn errors(errors: &[Error]) -> u8 {
    let language = Language::from_environment();
    for error in errors {
        output::tell(&words::error(error, language));
    }
    if errors.is_empty() { FAILED } else { code_of_errors(errors) }
}

/// Returns the code of the worst of these errors, 0 if there are none.
pub fn code_of_errors(errors: &[Error]) -> u8 {
    if errors.iter().any(|error| error.kind == ErrorKind::Requirement) {
        return code_of(ErrorKind::Requirement);
    }
    errors.first().map_or(0, |error| code_of(error.kind))
}

/// Prints clap's answer: help and version to standard output with code 0, errors to standard
/// error with code 2. Nothing that was typed reaches the terminal unescaped.
pub fn clap_error(mut error: clap::Error) -> u8 {
    name_what_is_missing(&mut error);
    if !error.use_stderr() {
        return output::print(color::help(&error.render(), color::on_stdout()).as_bytes());
    }
    let rendered = words::escaped_lines(&with_hints(&error.render().to_string()));
    match error.kind() {
        clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => output::tell(&rendered),
        _ => output::tell_translated(&rendered),
    }
    WRONG_USAGE
}

/// The parser's words with its tips as hints, directly below the error.
fn with_hints(rendered: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in rendered.trim_end().lines() {
        match line.trim_start().strip_prefix("tip: ") {
            Some(tip) => {
                if lines.last().is_some_and(String::is_empty) {
                    lines.pop();
                }
                lines.push(messages::hint(tip));
            }
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// A single place that was typed is the source to whoever typed it. The parser takes it for the target, which stands
/// last, and misses a source.
fn name_what_is_missing(error: &mut clap::Error) {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return };
    if error.kind() != clap::error::ErrorKind::MissingRequiredArgument
        || missing.iter().any(|name| name == "<TARGET>")
    {
        return;
    }
    let has_target = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string().contains("<TARGET>"),
        _ => false,
    };
    let of_target = |name: &String| match has_target && name.starts_with("<SOURCE>") {
        true => "<TARGET>".to_owned(),
        false => name.clone(),
    };
    let missing = missing.iter().map(of_target).collect();
    error.insert(ContextKind::InvalidArg, ContextValue::Strings(missing));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_single_place_the_target_is_missing() {
        let said = |line: &str| {
            let mut error = crate::cli::command().try_get_matches_from(line.split(' ')).unwrap_err();
            name_what_is_missing(&mut error);
            let words = error.render().to_string();
            words.split("\n\n").next().unwrap_or_default().to_owned()
        };
        for verb in ["copy", "sync", "verify"] {
            let one = said(&format!("hakobu {verb} a"));
            assert!(one.ends_with("not provided:\n  <TARGET>"), "{one}");
            let none = said(&format!("hakobu {verb}"));
            let source = if verb == "copy" { "<SOURCE>..." } else { "<SOURCE>" };
            assert!(none.ends_with(&format!("  {source}\n  <TARGET>")), "{none}");
        }
        assert!(said("hakobu explain a").ends_with("  <SOURCE>"));
    }

    #[test]
    fn a_requirement_weighs_more_than_wrong_usage() {
        let error = |kind| Error::new(kind, "reading", "x");
        assert_eq!(errors(&[error(ErrorKind::Usage)]), WRONG_USAGE);
        assert_eq!(errors(&[error(ErrorKind::Usage), error(ErrorKind::Requirement)]), 6);
        assert_eq!(errors(&[error(ErrorKind::Io)]), FAILED);
        assert_eq!(errors(&[error(ErrorKind::Cancelled)]), INTERRUPTED);
    }
}
