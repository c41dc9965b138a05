//! Logs in to another host and starts an agent there, according to the user's options.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result, Step};
use hakobu_core::event::{Event, Observer};
use hakobu_core::location::SshHost;

use crate::far::{FarSide, STARTING};
use crate::request::{CopyRequest, HostLogin};
use crate::ssh::{Prompts, SshError, SshSettings, Way, find_uploads};
use crate::ssh_channel::SshChannel;

/// The maximum time for connecting again after a login has worked before. Without it, connection attempts become ever
/// rarer, and it may take a minute to notice that the link is back.
const CONNECT_AGAIN: Duration = Duration::from_secs(15);

/// The method to log in to a host.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// The host.
    pub host: &'a SshHost,
    /// The ssh program and its arguments. Never empty.
    pub ssh: &'a [OsString],
    /// The path of the agent on the host, unless it is to be searched for or uploaded.
    pub agent: Option<&'a Path>,
    /// True if the agent runs under sudo.
    pub sudo: bool,
    /// True if the agent gives precedence to other processes.
    pub nice: bool,
    /// The maximum time of a login that has worked before; `None` for the usual one.
    pub time_limit: Option<Duration>,
}

impl<'a> Login<'a> {
    /// Returns the login that a copy's options specify.
    pub fn of(request: &'a CopyRequest, host: &'a SshHost) -> Self {
        let (ssh, agent, sudo) = (&request.ssh, request.agent.as_deref(), request.sudo);
        Self { host, ssh, agent, sudo, nice: request.nice, time_limit: None }.or_own(&request.logins)
    }

    /// Replaces the settings by those of the login for this host, if there is one among `logins`.
    pub fn or_own(self, logins: &'a [HostLogin]) -> Self {
        match logins.iter().find(|login| login.host == self.host.host) {
            Some(own) => Self { ssh: &own.ssh, agent: own.agent.as_deref(), sudo: own.sudo, ..self },
            None => self,
        }
    }

    /// Logs in and starts an agent. Reports how the agent was found.
    ///
    /// # Errors
    /// `NotFound` if no agent can run there, `Io` for other failures of ssh, and those of [`FarSide::start`].
    pub fn start(&self, prompts: &mut dyn Prompts, observer: &dyn Observer) -> Result<FarSide> {
        let mut settings = self.settings();
        let name = self.host.destination();
        let mut opened = open(&settings, &name, prompts);
        // An agent of another version is no obstacle if this program can be uploaded.
        if opened.as_ref().is_err_and(|error| error.kind == ErrorKind::Unsupported)
            && !settings.uploads.is_empty()
        {
            settings.always_upload = true;
            opened = open(&settings, &name, prompts);
        }
        let (far, way) = opened?;
        let found = match way {
            Way::OnPath => "found on its PATH",
            Way::AtPath => "at the path given",
            Way::Uploaded if settings.always_upload => "uploaded, as the one there is of another version",
            Way::Uploaded => "uploaded, as none was found there",
        };
        if let (Some(path), Way::Uploaded, false) = (self.agent, way, settings.always_upload) {
            let words = format!("{} is not on {name}; the program was uploaded instead", path.display());
            observer.event(Event::Notice { words });
        }
        let choice = format!("agent on {name}: {found}");
        let reason = format!("version {}, {}", far.hello.program, far.hello.machine.system);
        observer.event(Event::Decision { choice, reason });
        Ok(far)
    }

    pub(crate) fn settings(&self) -> SshSettings {
        let mut settings = SshSettings::new(self.host.host.clone().into_bytes());
        settings.ssh_command =
            self.ssh.iter().map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ");
        settings.user = self.host.user.clone().map(String::into_bytes);
        settings.port = self.host.port;
        settings.time_limit = self.time_limit.unwrap_or(settings.time_limit);
        settings.connect_limit = self.time_limit.map(|limit| limit.min(CONNECT_AGAIN));
        settings.agent_path = self.agent.map(|path| path.as_os_str().as_encoded_bytes().to_vec());
        (settings.sudo, settings.nice) = (self.sudo, self.nice);
        settings.uploads = std::env::current_exe().map(|program| find_uploads(&program)).unwrap_or_default();
        settings
    }
}

/// Opens a channel and greets the agent there.
fn open(settings: &SshSettings, host: &str, prompts: &mut dyn Prompts) -> Result<(FarSide, Way)> {
    let channel = SshChannel::open(settings, prompts).map_err(|error| of_ssh(&error, host))?;
    let way = channel.way();
    FarSide::start(Box::new(channel), host).map(|far| (far, way))
}

/// Converts a failure of ssh to an error of the job that is not retried, because a failed login usually fails again.
/// `NotFound`: the login worked, but no agent can run there.
fn of_ssh(error: &SshError, host: &str) -> Error {
    let kind = if error.is_agentless() { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, STARTING, error.to_string()).in_step(Step::Login).at(host)
}

/// Quotes one word for a command line that is split as a shell splits it. Users see the result as well.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:@%+,".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_read_is_quoted() {
        for (word, expected) in [
            ("ssh", "ssh"),
            ("-oX=1", "-oX=1"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("~", "'~'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
