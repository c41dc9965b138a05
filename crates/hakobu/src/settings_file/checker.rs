//! The check of values from settings files, as if they had been typed.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, FromArgMatches};
use hakobu_core::job::Mode;
use hakobu_core::pace::RateLimit;

use super::keywords::Keyword;
use crate::cli::{self, Cli, Verb};
use crate::commands::copy::request::request;

/// The error in a value, and the index of the character that is wrong, from 0.
pub(crate) type WrongValue = (usize, String);

/// Checks values as if they had been typed.
pub(crate) struct Checker {
    command: Command,
}

impl Checker {
    pub fn new() -> Self {
        Self { command: cli::command() }
    }

    /// Checks a value of an option.
    pub fn check(&mut self, keyword: &Keyword, value: &str) -> Result<(), WrongValue> {
        if keyword.is_flag() && !matches!(value, "yes" | "no") {
            return Err((0, "it is true or false".to_owned()));
        }
        if keyword.name == "bwlimit" {
            RateLimit::parse(value, 0).map_err(|error| (error.column - 1, error.words))?;
        }
        let words = ["hakobu", "copy", "a", "h:/b"].map(OsString::from);
        let words = words[..2].iter().cloned().chain(keyword.option(value)).chain(words[2..].iter().cloned());
        let parsed = self.command.try_get_matches_from_mut(words);
        let typed = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
            Ok(Cli { verb: Verb::Copy(typed), .. }) => typed,
            Ok(_) => return Ok(()),
            Err(error) => return Err((0, words_of(&error))),
        };
        match request(&typed, Mode::Copy, None) {
            Ok(_) => Ok(()),
            Err(errors) => Err((0, errors.into_iter().next().map(|error| error.detail).unwrap_or_default())),
        }
    }
}

/// The words of the parser without those about a command line.
fn words_of(error: &clap::Error) -> String {
    if let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue) {
        return format!("it is one of {}", valid.join(", "));
    }
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.render().to_string().lines().next().unwrap_or_default().replace("error: ", ""),
    }
}
