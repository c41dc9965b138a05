//! A command line, with the options that settings files add to it.

use std::ffi::OsString;

use clap::FromArgMatches;
use hakobu_core::error::Error;

use crate::cli::{self, Cli};
use crate::order;
use crate::settings_file::settle;

/// Why a command line cannot be carried out.
pub(crate) enum CommandLineError {
    /// It cannot be understood, or help was asked for.
    Typed(clap::Error),
    /// A settings file cannot be used.
    Settings(Vec<Error>),
}

/// Parses a command line, beginning with the name of the program, with the options that settings files add to it.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Cli, CommandLineError> {
    let command = cli::command_for(arguments);
    let read = |words: &[OsString]| command.clone().try_get_matches_from(words);
    let (words, matches) = match read(arguments) {
        Ok(matches) => (arguments.to_vec(), matches),
        Err(error) => match order::places_last(arguments, &command) {
            Some(ordered) => match read(&ordered) {
                Ok(matches) => (ordered, matches),
                Err(_) => return Err(CommandLineError::Typed(error)),
            },
            None => return Err(CommandLineError::Typed(error)),
        },
    };
    let Some(settled) = settle(&command, &words, &matches).map_err(CommandLineError::Settings)? else {
        return Cli::from_arg_matches(&matches).map_err(CommandLineError::Typed);
    };
    let mut cli = read(&settled.words)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(CommandLineError::Typed)?;
    if let Some(login) = cli.verb.login() {
        (login.from_files, login.logins) = (settled.from_files, settled.logins);
    }
    if let Some(store) = cli.verb.store() {
        store.overrides = settled.stores;
    }
    Ok(cli)
}
