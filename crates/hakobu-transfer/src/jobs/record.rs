//! The record of what is to be run: the file `job.json`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use hakobu_core::report::{base64, from_base64};
use serde::{Deserialize, Serialize};

use super::JobId;

/// The schema of [`JobRecord`].
pub const JOB_SCHEMA: &str = "hakobu.job/1";

/// A job as it was typed, so that it can be run again without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Always [`JOB_SCHEMA`].
    pub schema: String,
    /// The job's ID.
    pub id: String,
    /// The time at which it was created, RFC 3339 in UTC.
    pub created_at: String,
    /// The arguments, with the program's name first. Consent given on the terminal is included, as `--confirm`.
    pub argv: Vec<ArgumentWord>,
    /// The directory that relative paths refer to.
    pub cwd: ArgumentWord,
    /// The relevant environment variables, by name.
    pub environment: Vec<(String, ArgumentWord)>,
    /// The sources as they were typed.
    pub sources: Vec<ArgumentWord>,
    /// The target as it was typed.
    pub target: ArgumentWord,
}

/// Returns the arguments of the command that resumes a job.
pub fn going_on(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let options = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let behind = arguments.split_off(options);
    arguments.retain(|word| word != "--restart");
    arguments.extend(behind);
    arguments
}

impl JobRecord {
    /// Returns true if this is the record of that job, in a schema that this version knows.
    pub(super) fn is_of(&self, id: JobId) -> bool {
        self.schema == JOB_SCHEMA && self.id == id.as_str() && self.argv.len() > 1
    }

    /// Returns the arguments, with the program's name first.
    pub fn arguments(&self) -> Vec<OsString> {
        self.argv.iter().map(|word| word.0.clone()).collect()
    }

    /// Makes the next run resume the job instead of starting anew.
    pub fn go_on(&mut self) {
        self.argv = going_on(self.arguments()).into_iter().map(ArgumentWord).collect();
    }

    /// Adds consent to overwriting a disk, unless it is already there.
    pub fn confirm(&mut self, disk: &str) {
        let [option, disk] = ["--confirm", disk].map(|word| ArgumentWord(OsString::from(word)));
        let is_there = self.argv.windows(2).any(|pair| *pair == [option.clone(), disk.clone()]);
        if !is_there && self.argv.len() > 1 {
            // It goes after the subcommand: at the end it might come after `--`.
            self.argv.splice(2..2, [option, disk]);
        }
    }
}

/// An argument of a command line: text, or `{"base64": …}` if it is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "RecordedState", try_from = "RecordedState")]
pub struct ArgumentWord(pub OsString);

impl<T: AsRef<OsStr>> From<&T> for ArgumentWord {
    fn from(word: &T) -> Self {
        Self(word.as_ref().to_owned())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RecordedState {
    Text(String),
    Bytes { base64: String },
}

impl From<ArgumentWord> for RecordedState {
    fn from(word: ArgumentWord) -> Self {
        match word.0.into_string() {
            Ok(text) => Self::Text(text),
            Err(word) => Self::Bytes { base64: base64(word.as_bytes()) },
        }
    }
}

impl TryFrom<RecordedState> for ArgumentWord {
    type Error = &'static str;

    fn try_from(written: RecordedState) -> Result<Self, Self::Error> {
        let bytes = match written {
            RecordedState::Text(text) => text.into_bytes(),
            RecordedState::Bytes { base64 } => from_base64(&base64).ok_or("this is not base64")?,
        };
        // The system would truncate the argument at the NUL.
        if bytes.contains(&0) {
            return Err("a word holds a NUL");
        }
        Ok(Self(OsString::from_vec(bytes)))
    }
}
