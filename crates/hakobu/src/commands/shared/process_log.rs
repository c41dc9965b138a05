//! The log of a process that goes on for long: lines on standard error, or JSON objects on standard output.

use hakobu_core::error::Error;
use hakobu_core::event::{Event, Observer};
use serde::Serialize;

use crate::clock::now;
use crate::render::json::one_line;
use crate::{exit, messages, output};

/// The schema of each object.
const SCHEMA: &str = "hakobu.log/1";

/// The process that writes a log.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum LoggedProcess {
    /// A control plane.
    ControlPlane {
        /// Its name.
        control_plane: String,
    },
    /// A broker.
    Broker {
        /// Its name.
        broker: String,
        /// Its group.
        group: String,
    },
}

/// The log of a process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessLog {
    json: bool,
    process: LoggedProcess,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    schema: &'static str,
    time: String,
    level: &'static str,
    #[serde(flatten)]
    process: &'a LoggedProcess,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl ProcessLog {
    /// Creates the log of a process.
    pub(crate) fn new(json: bool, process: LoggedProcess) -> Self {
        Self { json, process }
    }

    /// Writes a message.
    pub(crate) fn note(&self, words: &str) {
        match self.json {
            true => self.write("note", words, None),
            false => output::tell_translated(&messages::note(words)),
        }
    }

    /// Writes the error with which the process ends; returns its exit code.
    pub(crate) fn fail(&self, error: &Error) -> u8 {
        if !self.json {
            return exit::errors(std::slice::from_ref(error));
        }
        let words = Error { hint: None, ..error.clone() }.to_string();
        self.write("error", &words, error.hint.as_deref());
        exit::code_of_errors(std::slice::from_ref(error))
    }

    fn write(&self, level: &'static str, message: &str, hint: Option<&str>) {
        let line = JsonLine { schema: SCHEMA, time: now(), level, process: &self.process, message, hint };
        if let Ok(line) = one_line(&line) {
            output::print(format!("{line}\n").as_bytes());
        }
    }
}

impl Observer for ProcessLog {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            self.note(&words);
        }
    }
}
