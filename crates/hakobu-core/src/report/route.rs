//! The transport that carried the data of a run from its source to its target.

use serde::{Deserialize, Serialize};

/// A transport. [`UsedTransport::name`] is its name in reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UsedTransport {
    /// No data was transferred.
    #[default]
    #[serde(rename = "none")]
    None,
    /// Both ends are on one machine.
    #[serde(rename = "local")]
    Local,
    /// Data connections from agent to agent.
    #[serde(rename = "agent")]
    Agent,
    /// Data connections relayed through the controller's machine, which cannot read them.
    #[serde(rename = "agent, relayed")]
    AgentRelayed,
    /// Data connections through ssh.
    #[serde(rename = "ssh")]
    Ssh,
    /// Data connections through ssh, relayed through the controller's machine.
    #[serde(rename = "ssh, relayed")]
    SshRelayed,
    /// A server's SFTP, without an agent.
    #[serde(rename = "sftp")]
    Sftp,
    /// The installed rsync.
    #[serde(rename = "rsync")]
    Rsync,
    /// A transport in the report of another version that this version does not know.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl UsedTransport {
    /// Returns the name used in reports.
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

    /// Returns the route of data connections, through ssh or not, relayed or not.
    pub fn of_connections(by_ssh: bool, relayed: bool) -> Self {
        match (by_ssh, relayed) {
            (false, false) => Self::Agent,
            (false, true) => Self::AgentRelayed,
            (true, false) => Self::Ssh,
            (true, true) => Self::SshRelayed,
        }
    }

    /// Returns true if only ssh encrypts and checks the data, because hakobu does not run at the other end.
    pub fn relies_on_ssh(self) -> bool {
        self == Self::Sftp
    }

    /// Returns true if data connections use ssh for at least a part of the network path.
    pub fn is_through_ssh(self) -> bool {
        matches!(self, Self::Ssh | Self::SshRelayed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_reports() {
        use UsedTransport::*;
        for route in [None, Local, Agent, AgentRelayed, Ssh, SshRelayed, Sftp, Rsync, Unknown] {
            let written = serde_json::to_string(&route).unwrap();
            assert_eq!(written, format!("{:?}", route.name()));
            assert_eq!(serde_json::from_str::<UsedTransport>(&written).unwrap(), route);
        }
        assert_eq!(serde_json::from_str::<UsedTransport>("\"by pigeon\"").unwrap(), Unknown);
    }
}
