//! How an agent is started on a far host.

use std::path::PathBuf;
use std::time::Duration;

use super::answer::printable;

/// How to start an agent.
#[derive(Debug, Clone)]
pub struct SshSettings {
    /// The ssh command, split into words as a shell splits them.
    pub ssh_command: String,
    /// The host, or its alias in the user's ssh configuration.
    pub host: Vec<u8>,
    /// The user; ssh's own choice without.
    pub user: Option<Vec<u8>>,
    /// The port; ssh's own choice without.
    pub port: Option<u16>,
    /// The program on the far side, `~/` being the far home, instead of `hakobu` on PATH.
    pub agent_path: Option<Vec<u8>>,
    /// Run the agent under sudo.
    pub sudo: bool,
    /// Let the agent give way to all other processes over there.
    pub nice: bool,
    /// Upload even where a program is found, as when that one speaks no common version.
    pub always_upload: bool,
    /// Static programs to upload, for one machine or for several; see [`find_uploads`](super::find_uploads).
    pub uploads: Vec<PathBuf>,
    /// How long nothing may happen. It covers the time in which ssh may be asking the user for a password.
    pub time_limit: Duration,
    /// How long a connection may take until the server has said who it is; ssh's own choice without, and where the user's
    /// configuration says something.
    pub connect_limit: Option<Duration>,
}

impl SshSettings {
    /// The command by which the user can try the login, made printable.
    pub(super) fn typed(&self) -> String {
        let mut words = vec![self.ssh_command.clone()];
        words.extend(self.port.map(|port| format!("-p {port}")));
        let user = self.user.as_ref().map(|user| format!("{}@", printable(user)));
        words.push(format!("{}{}", user.unwrap_or_default(), printable(&self.host)));
        words.join(" ")
    }

    /// Plain `ssh` to `host`: nothing to upload, 120 s.
    #[must_use]
    pub fn new(host: Vec<u8>) -> Self {
        Self {
            ssh_command: "ssh".to_owned(),
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
