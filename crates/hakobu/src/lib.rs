//! The user interface of `hakobu`: arguments, messages, progress, exit codes.
//!
//! Transfers are implemented in the crates below this one. This crate parses the command line into a request ([`cli`],
//! [`commands`]), shows the progress ([`render`]), and returns an exit code ([`exit`]).

pub mod cli;
mod clock;
pub mod color;
mod command_line;
pub mod commands;
pub mod connecting;
pub mod exit;
pub mod exit_code;
pub mod first_word;
mod fleet_errands;
mod fleet_reader;
pub mod foreign;
pub mod jobs;
pub mod language;
pub mod later;
pub mod log_file;
pub mod messages;
mod order;
pub mod output;
pub mod prompts;
pub mod render;
pub mod report;
pub mod report_file;
pub mod run;
pub mod settings_file;
pub mod signals;
pub mod ssh_hosts;
mod translation;
pub mod version;
pub mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use hakobu_core::job::Mode;

use crate::cli::{Cli, Verb};
use crate::command_line::{CommandLineError, parse};
use crate::commands::make_data::MakeData;
use crate::foreign::Answer;

/// Runs the program with these arguments, the program's own name first.
pub fn main(arguments: &[OsString]) -> ExitCode {
    #[cfg(feature = "planted-faults")]
    if let Ok(name) = std::env::var(hakobu_core::plant::VARIABLE)
        && !hakobu_core::plant::plant(&name)
    {
        return ExitCode::from(exit::wrong_usage(&[format!("error: no fault is named {name}")]));
    }
    ExitCode::from(dispatch(&color::take_choice(arguments)))
}

fn dispatch(arguments: &[OsString]) -> u8 {
    if let Some(same) = first_word::help(arguments) {
        return dispatch(&same);
    }
    if let Some(words) = later::check_verb(arguments).or_else(|| first_word::check(arguments)) {
        return exit::wrong_usage(&words);
    }
    match foreign::check(arguments) {
        Some(Answer::Rejected(words)) => return exit::wrong_usage(&words),
        Some(Answer::Accepted { arguments, note }) => {
            if !arguments.iter().any(|word| word == "-q" || word == "--quiet") {
                output::tell_translated(&words::escaped_lines(&messages::note(&note)));
            }
            return dispatch_ours(&arguments);
        }
        None => {}
    }
    dispatch_ours(arguments)
}

/// Runs a command line without flags of other tools; returns the exit code.
fn dispatch_ours(arguments: &[OsString]) -> u8 {
    match parse(arguments) {
        Err(CommandLineError::Settings(errors)) => exit::errors(&errors),
        Err(CommandLineError::Typed(error)) if error.kind() == clap::error::ErrorKind::InvalidSubcommand => {
            let command = cli::command_for(arguments);
            let typed = arguments.get(1).and_then(|verb| command.find_subcommand(verb));
            exit::wrong_usage(&match typed {
                Some(verb) => first_word::no_such_part(verb.get_name(), arguments),
                None => first_word::no_such_verb(arguments),
            })
        }
        Err(CommandLineError::Typed(error)) => match first_word::too_many_places(&error, arguments) {
            Some(words) => exit::wrong_usage(&words),
            None => exit::clap_error(error),
        },
        Ok(Cli { verb, .. }) => run_verb(verb, arguments),
    }
}

/// Runs a command line; returns the exit code.
fn run_verb(verb: Verb, arguments: &[OsString]) -> u8 {
    match verb {
        Verb::Copy(options) => commands::copy::copy(&options, Mode::Copy, arguments),
        Verb::Sync(options) => commands::copy::copy(&options, Mode::Delta, arguments),
        Verb::Verify(options) => commands::copy::copy(&options, Mode::Compare, arguments),
        Verb::Digest(options) => commands::digest::digest(&options),
        Verb::Ls(options) => commands::ls::ls(&options),
        Verb::MakeData { kind: MakeData::Disk(options) } => commands::make_data::disk(&options),
        Verb::MakeData { kind: MakeData::Tree(options) } => commands::make_data::tree(&options),
        Verb::Disks(options) => commands::disks::disks(&options),
        Verb::Report(options) => report::report(&options),
        Verb::Doctor(options) => commands::doctor::doctor(&options),
        Verb::Settings(options) => commands::settings::show(&options),
        Verb::Probe(options) => commands::probe::probe(&options),
        Verb::Bench(options) => commands::bench::bench(&options),
        Verb::Explain(options) => commands::explain::explain(&options),
        Verb::Jobs { verb } => jobs::jobs(verb),
        Verb::Broker(options) => commands::broker::broker(&options),
        Verb::Fleet(options) => commands::fleet::fleet(&options),
        Verb::Serve(options) => commands::serve::serve(&options),
        Verb::Agent(arguments) => commands::agent::agent(&arguments),
        Verb::Complete(typed) => commands::complete::complete(&typed),
        Verb::Completions { shell } => commands::completions::completions(shell),
        Verb::Man { verb } => commands::man::man(verb.as_deref()),
    }
}
