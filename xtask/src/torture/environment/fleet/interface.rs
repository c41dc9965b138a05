//! The interface of a control plane over HTTP, as a program that was written from its description uses it.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::super::object_store::exchange::exchange;

/// A control plane that answers on a port of this machine.
#[derive(Clone, Debug)]
pub(super) struct FleetInterface {
    port: u16,
    token: String,
}

impl FleetInterface {
    /// Returns the interface for the owner of a token.
    pub(super) fn new(port: u16, token: &str) -> Self {
        Self { port, token: token.to_owned() }
    }

    /// Asks for something.
    ///
    /// # Errors
    /// Returns an error if nothing answers, or with another status than 200.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send("GET", path, None)
    }

    /// Sends a request. Returns the answer; null if it has no content.
    ///
    /// # Errors
    /// Returns an error if nothing answers, or with a status that is none of success.
    pub(super) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let Self { port, token } = self;
        let headers = format!(
            "Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        );
        let content = body.map(Value::to_string).unwrap_or_default();
        let target = format!("/api/v1/{path}");
        let answer = exchange(*port, method, &target, &headers, content.as_bytes())?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!((200..300).contains(&answer.status), "{method} {target}: {} {text}", answer.status);
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer.body).with_context(|| format!("{method} {target}"))
    }
}
