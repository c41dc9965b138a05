//! The login on a host, as the user's options have it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hakobu_core::location::SshHost;
use hakobu_core::request::{CopyRequest, HostLogin};

use super::settings::SshSettings;
use super::upload::find_uploads;

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

    /// Returns the settings that this login is made with.
    pub fn settings(&self) -> SshSettings {
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
