//! The log of a broker: lines on standard error, or JSON objects on standard output.

use hakobu_core::event::{Event, Observer};
use serde::Serialize;

use crate::clock::now;
use crate::render::json::one_line;
use crate::{messages, output};

/// The schema of each object.
const SCHEMA: &str = "hakobu.log/1";

/// The log of a broker.
#[derive(Clone, Debug)]
pub struct BrokerLog {
    json: bool,
    broker: String,
    group: String,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    schema: &'static str,
    time: String,
    level: &'static str,
    broker: &'a str,
    group: &'a str,
    message: &'a str,
}

impl BrokerLog {
    /// Creates the log of a broker of a group.
    pub fn new(json: bool, broker: &str, group: &str) -> Self {
        Self { json, broker: broker.to_owned(), group: group.to_owned() }
    }

    /// Writes a message.
    pub fn note(&self, words: &str) {
        if !self.json {
            return output::tell_translated(&messages::note(words));
        }
        let (broker, group) = (self.broker.as_str(), self.group.as_str());
        let line = JsonLine { schema: SCHEMA, time: now(), level: "note", broker, group, message: words };
        if let Ok(line) = one_line(&line) {
            output::print(format!("{line}\n").as_bytes());
        }
    }
}

impl Observer for BrokerLog {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            self.note(&words);
        }
    }
}
