//! Getting an agent on a far machine, as the user's options have it.

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

/// How long making a connection again may take, which has worked before. Whoever does without asks for it less and less
/// often, and so does not see for a minute that a line is there again.
const CONNECT_AGAIN: Duration = Duration::from_secs(15);

/// How to get to a machine.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// The machine.
    pub host: &'a SshHost,
    /// The ssh program and its arguments, at least the program.
    pub ssh: &'a [OsString],
    /// The program on the far side, if it is not to be found or uploaded.
    pub agent: Option<&'a Path>,
    /// Whether the agent runs under sudo.
    pub sudo: bool,
    /// Whether the agent gives way to other processes.
    pub nice: bool,
    /// How long it may take where it has worked before; as long as usual without.
    pub time_limit: Option<Duration>,
}

impl<'a> Login<'a> {
    /// The way that a copy's options name.
    pub fn of(request: &'a CopyRequest, host: &'a SshHost) -> Self {
        let (ssh, agent, sudo) = (&request.ssh, request.agent.as_deref(), request.sudo);
        Self { host, ssh, agent, sudo, nice: request.nice, time_limit: None }.or_own(&request.logins)
    }

    /// The one of these that is for its machine, if any is.
    pub fn or_own(self, logins: &'a [HostLogin]) -> Self {
        match logins.iter().find(|login| login.host == self.host.host) {
            Some(own) => Self { ssh: &own.ssh, agent: own.agent.as_deref(), sudo: own.sudo, ..self },
            None => self,
        }
    }

    /// Logs in and starts an agent; says how it was found.
    ///
    /// # Errors
    /// As [`FarSide::start`].
    pub fn start(&self, prompts: &mut dyn Prompts, observer: &dyn Observer) -> Result<FarSide> {
        let mut settings = self.settings();
        let name = self.host.destination();
        let mut opened = open(&settings, &name, prompts);
        // A program of another version is no obstacle where ours can be sent.
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

/// ssh's failure in the words of the job. Trying again helps nobody who could not log in. `NotFound`: the login worked,
/// and no agent can run there.
fn of_ssh(error: &SshError, host: &str) -> Error {
    let kind = if error.is_agentless() { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, STARTING, error.to_string()).in_step(Step::Login).at(host)
}

/// One word for a command line that is split as a shell splits it. People see it as well.
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
