//! What the user of `hakobu` meets: arguments, words, progress, exit codes.
//!
//! How data moves is decided below, in `hakobu-core` and `hakobu-agent`. This crate turns what
//! was typed into a request ([`cli`], [`settings`]), shows what happens ([`render`]), and ends
//! with an exit code ([`exit`]).

pub mod agent_command;
pub mod arguments;
pub mod bench;
pub mod cli;
mod clock;
mod command_line;
pub mod copy;
pub mod digest;
pub mod disks;
pub mod doctor;
pub mod exit;
pub mod exit_code;
pub mod explain;
mod files_from;
pub mod first_word;
pub mod foreign;
pub mod jobs;
pub mod later;
pub mod limits;
pub mod log_file;
mod looking;
pub mod make_data;
pub mod manual;
mod order;
pub mod output;
pub mod pairs;
pub mod probe;
pub mod prompts;
pub mod render;
pub mod report;
pub mod report_file;
pub mod rules;
pub mod run;
pub mod settings;
pub mod settings_file;
pub mod shell;
pub mod signals;
pub mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use hakobu_core::job::Mode;

use crate::arguments::make_data::MakeData;
use crate::cli::{Cli, Verb};
use crate::command_line::{Wrong, parse};

/// Runs the program with these arguments, the program's own name first.
pub fn main(arguments: &[OsString]) -> ExitCode {
    #[cfg(feature = "planted-faults")]
    if let Ok(name) = std::env::var(hakobu_core::plant::VARIABLE)
        && !hakobu_core::plant::plant(&name)
    {
        return ExitCode::from(exit::wrong_usage(&[format!("hakobu: no fault is named {name}")]));
    }
    ExitCode::from(dispatch(arguments))
}

fn dispatch(arguments: &[OsString]) -> u8 {
    if let Some(same) = first_word::help(arguments) {
        return dispatch(&same);
    }
    let wrong = later::check_verb(arguments).or_else(|| first_word::check(arguments));
    if let Some(words) = wrong.or_else(|| foreign::check(arguments)) {
        return exit::wrong_usage(&words);
    }
    match parse(arguments) {
        Err(Wrong::Settings(errors)) => exit::errors(&errors),
        Err(Wrong::Typed(error)) if error.kind() == clap::error::ErrorKind::InvalidSubcommand => {
            let command = cli::command_for(arguments);
            let typed = arguments.get(1).and_then(|verb| command.find_subcommand(verb));
            exit::wrong_usage(&match typed {
                Some(verb) => first_word::no_such_part(verb.get_name(), arguments),
                None => first_word::no_such_verb(arguments),
            })
        }
        Err(Wrong::Typed(error)) => exit::clap_error(error),
        Ok(Cli { verb: Verb::Copy(options) }) => copy::copy(&options, Mode::Copy, arguments),
        Ok(Cli { verb: Verb::Sync(options) }) => copy::copy(&options, Mode::Delta, arguments),
        Ok(Cli { verb: Verb::Verify(options) }) => copy::copy(&options, Mode::Compare, arguments),
        Ok(Cli { verb: Verb::Digest(options) }) => digest::digest(&options),
        Ok(Cli { verb: Verb::MakeData { kind: MakeData::Disk(options) } }) => make_data::disk(&options),
        Ok(Cli { verb: Verb::MakeData { kind: MakeData::Tree(options) } }) => make_data::tree(&options),
        Ok(Cli { verb: Verb::Disks(options) }) => disks::disks(&options),
        Ok(Cli { verb: Verb::Report(options) }) => report::report(&options),
        Ok(Cli { verb: Verb::Doctor(options) }) => doctor::doctor(&options),
        Ok(Cli { verb: Verb::Settings(options) }) => settings_file::show(&options),
        Ok(Cli { verb: Verb::Probe(options) }) => probe::probe(&options),
        Ok(Cli { verb: Verb::Bench(options) }) => bench::bench(&options),
        Ok(Cli { verb: Verb::Explain(options) }) => explain::explain(&options),
        Ok(Cli { verb: Verb::Jobs { verb } }) => jobs::jobs(verb),
        Ok(Cli { verb: Verb::Agent(arguments) }) => agent_command::agent(&arguments),
        Ok(Cli { verb: Verb::Completions { shell } }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut cli::offered(&cli::command()), "hakobu", &mut script);
            output::print(&script)
        }
        Ok(Cli { verb: Verb::Man { verb } }) => man_page(verb.as_deref()),
    }
}

/// The manual page of the program, or that of one verb.
fn man_page(verb: Option<&str>) -> u8 {
    match manual::page(verb) {
        Some(Ok(page)) => output::print(&page),
        Some(Err(_)) => exit::FAILED,
        None => exit::wrong_usage(&["hakobu: there is no manual page of that name".to_owned()]),
    }
}
