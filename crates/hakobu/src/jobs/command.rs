//! The command of a job, parsed again from its record.

use std::ffi::OsString;

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::job::Mode;
use hakobu_transfer::jobs::JobRecord;

use crate::cli;
use crate::command_line::{CommandLineError, parse};
use crate::commands::copy::arguments::CopyArguments;

/// The command in a job's record.
pub(super) struct JobCommand {
    /// The arguments, with the options from settings files.
    pub typed: Box<CopyArguments>,
    pub mode: Mode,
    /// The arguments of the whole program.
    pub arguments: Vec<OsString>,
}

impl JobCommand {
    /// Parses the command. Relative paths refer to the current directory of this process.
    ///
    /// # Errors
    /// The command is wrong, or a settings file that applies to it.
    pub fn read(record: &JobRecord, during: &'static str) -> Result<Self, Vec<Error>> {
        let wrong = |words: &str| vec![Error::new(ErrorKind::Usage, during, words).at(record.id.as_str())];
        let arguments = record.arguments();
        let verb = match parse(&arguments) {
            Ok(cli) => cli.verb,
            Err(CommandLineError::Settings(errors)) => return Err(errors),
            Err(CommandLineError::Typed(error)) => return Err(wrong(&error.to_string())),
        };
        let moved = cli::moved_by(verb);
        let (typed, mode) = moved.ok_or_else(|| wrong("its record holds no command that can be a job"))?;
        Ok(Self { typed, mode, arguments })
    }

    /// Changes to the directory in which the command was typed, and parses the command.
    ///
    /// # Errors
    /// As [`JobCommand::read`], and if the directory does not exist any more.
    pub fn read_where_typed(record: &JobRecord, during: &'static str) -> Result<Self, Vec<Error>> {
        let directory = &record.cwd.0;
        std::env::set_current_dir(directory)
            .map_err(|error| vec![Error::io(during, &error).at(directory.as_encoded_bytes())])?;
        Self::read(record, during)
    }
}
