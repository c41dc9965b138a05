//! How the data of a run got from its source to its target.

use serde::{Deserialize, Serialize};

/// A route. In reports it has the name that [`Route::name`] gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Route {
    /// It did not come to that.
    #[default]
    #[serde(rename = "none")]
    None,
    /// Both ends are on one machine.
    #[serde(rename = "local")]
    Local,
    /// Data connections from agent to agent.
    #[serde(rename = "agent")]
    Agent,
    /// The same through the machine of the controller, which cannot read what it passes on.
    #[serde(rename = "agent, relayed")]
    AgentRelayed,
    /// Data connections through ssh.
    #[serde(rename = "ssh")]
    Ssh,
    /// The same through the machine of the controller.
    #[serde(rename = "ssh, relayed")]
    SshRelayed,
    /// A server's SFTP, without an agent.
    #[serde(rename = "sftp")]
    Sftp,
    /// The installed rsync.
    #[serde(rename = "rsync")]
    Rsync,
    /// One that this version does not know, in the report of another.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl Route {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local => "local",
            Self::Agent => "agent",
            Self::AgentRelayed => "agent, relayed",
            Self::Ssh => "ssh",
            Self::SshRelayed => "ssh, relayed",
            Self::Sftp => "sftp",
            Self::Rsync => "rsync",
            Self::Unknown => "unknown",
        }
    }

    /// The route of data connections, through ssh or not, relayed or not.
    pub fn of_connections(by_ssh: bool, relayed: bool) -> Self {
        match (by_ssh, relayed) {
            (false, false) => Self::Agent,
            (false, true) => Self::AgentRelayed,
            (true, false) => Self::Ssh,
            (true, true) => Self::SshRelayed,
        }
    }

    /// Returns true if ssh alone encrypts and checks what travels, as nothing of ours runs at the other end.
    pub fn relies_on_ssh(self) -> bool {
        self == Self::Sftp
    }

    /// Returns true if data connections go through ssh, at least a part of the way.
    pub fn is_through_ssh(self) -> bool {
        matches!(self, Self::Ssh | Self::SshRelayed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_reports() {
        use Route::*;
        for route in [None, Local, Agent, AgentRelayed, Ssh, SshRelayed, Sftp, Rsync, Unknown] {
            let written = serde_json::to_string(&route).unwrap();
            assert_eq!(written, format!("{:?}", route.name()));
            assert_eq!(serde_json::from_str::<Route>(&written).unwrap(), route);
        }
        assert_eq!(serde_json::from_str::<Route>("\"by pigeon\"").unwrap(), Unknown);
    }
}
