//! The login on a host, as the user's options have it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hakobu_core::location::SshHost;
use hakobu_core::request::{CopyRequest, HostLogin};

use super::settings::SshSettings;
use super::upload::find_uploads;

/// The maximum time for connecting again after a login has worked before. Without it, connection attempts become ever
/// rarer, and it may take a minute to notice that the link is back.
const CONNECT_AGAIN: Duration = Duration::from_secs(15);

/// The method to log in to a host.
#[derive(Clone, Copy, Debug)]
pub struct SshMethod<'a> {
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

impl<'a> SshMethod<'a> {
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

    /// Returns the settings that this login is made with.
    pub fn settings(&self) -> SshSettings {
        let mut settings = SshSettings::new(self.host.host.clone().into_bytes());
        settings.ssh_command = self.ssh.to_vec();
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
