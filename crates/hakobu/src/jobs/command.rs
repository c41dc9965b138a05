//! The command that a job was started with, read again.

use std::ffi::OsString;

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::job::Mode;
use hakobu_transfer::jobs::JobRecord;

use crate::cli;
use crate::command_line::{CommandLineError, parse};
use crate::commands::copy::arguments::CopyArguments;

/// The command in a job's record.
pub(super) struct JobCommand {
    /// As it was typed, and as settings files say.
    pub typed: Box<CopyArguments>,
    pub mode: Mode,
    /// Those of the whole program.
    pub arguments: Vec<OsString>,
}

impl JobCommand {
    /// Reads it. Files that it names are seen from where this process is.
    ///
    /// # Errors
    /// The errors in it, or in a settings file that applies to it.
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

    /// As [`JobCommand::read`], by a process that is elsewhere, and from now on is where the command was typed.
    ///
    /// # Errors
    /// As [`JobCommand::read`], and that the directory is not there any more.
    pub fn read_where_typed(record: &JobRecord, during: &'static str) -> Result<Self, Vec<Error>> {
        let directory = &record.cwd.0;
        std::env::set_current_dir(directory)
            .map_err(|error| vec![Error::io(during, &error).at(directory.as_encoded_bytes())])?;
        Self::read(record, during)
    }
}
