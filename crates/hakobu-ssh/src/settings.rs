//! The settings for starting an agent on a remote host.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use hakobu_core::shell;

use super::answer::printable;

/// The settings for starting an agent.
#[derive(Debug, Clone)]
pub struct SshSettings {
    /// The ssh program and its arguments. Never empty.
    pub ssh_command: Vec<OsString>,
    /// The host, or its alias in the user's ssh configuration.
    pub host: Vec<u8>,
    /// The user; ssh's own choice if absent.
    pub user: Option<Vec<u8>>,
    /// The port; ssh's own choice if absent.
    pub port: Option<u16>,
    /// The path of the program on the remote host, with `~/` for the remote home directory, instead of `hakobu` on
    /// PATH.
    pub agent_path: Option<Vec<u8>>,
    /// Run the agent under sudo.
    pub sudo: bool,
    /// Run the agent with the lowest priority.
    pub nice: bool,
    /// Upload even if a program is found, for example if that one supports no common version.
    pub always_upload: bool,
    /// Static programs to upload, for one or several architectures; see [`find_uploads`](super::find_uploads).
    pub uploads: Vec<PathBuf>,
    /// The longest time without any progress. It includes the time in which ssh may be asking the user for a password.
    pub time_limit: Duration,
    /// The time limit for a connection until the server has identified itself; ssh's own choice if absent, and the
    /// user's configuration takes precedence.
    pub connect_limit: Option<Duration>,
}

impl SshSettings {
    /// Returns the command with which the user can try the login, made printable.
    pub(super) fn typed(&self) -> String {
        let mut words = vec![shell::quote_all(&self.ssh_command)];
        words.extend(self.port.map(|port| format!("-p {port}")));
        let user = self.user.as_ref().map(|user| format!("{}@", printable(user)));
        words.push(format!("{}{}", user.unwrap_or_default(), printable(&self.host)));
        words.join(" ")
    }

    /// Returns settings for plain `ssh` to `host`: nothing to upload, a time limit of 120 s.
    #[must_use]
    pub fn new(host: Vec<u8>) -> Self {
        Self {
            ssh_command: vec!["ssh".into()],
            host,
            user: None,
            port: None,
            agent_path: None,
            sudo: false,
            nice: false,
            always_upload: false,
            uploads: Vec::new(),
            time_limit: Duration::from_secs(120),
            connect_limit: None,
        }
    }
}
