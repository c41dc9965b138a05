//! The scripts of a case, and the words that scripts on this machine use.

use super::names::{NOT_PLACED, ScriptNames};

/// A command that waits for a connection before the script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenCommand {
    /// A command that ssh runs on the host.
    There(String),
    /// A script for this machine.
    Here(String),
}

/// The scripts of a case, before those for the host are quoted for its shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scripts {
    pub near: String,
    pub far: Option<String>,
    pub listener: Option<ListenCommand>,
}

/// The names of programs and hosts in scripts for this machine: variables in scripts that run, and the user's input
/// in those that are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandNames {
    /// The ssh command, up to the host.
    pub ssh: String,
    /// The ssh command, for use within double quotes.
    pub ssh_inside: String,
    /// The scp command, up to cipher and paths.
    pub scp: String,
    pub host: String,
    /// The host within double quotes, for scp and rsync.
    pub copy_host: String,
    /// The hakobu command, up to its own options.
    pub hakobu: String,
    /// `--agent` and its path, preceded by a space.
    pub agent: String,
    /// The host in hakobu's syntax, to which a path is appended.
    pub hakobu_host: String,
    /// The address and the port of the host.
    pub address: String,
    pub port: String,
}

impl CommandNames {
    /// Returns the words for scripts that run.
    pub(super) fn variables(names: &ScriptNames) -> Self {
        let word = str::to_owned;
        Self {
            ssh: word("\"$SSH\""),
            ssh_inside: word("$SSH"),
            scp: word("scp -q -S \"$SSH\""),
            host: word("\"$HOST\""),
            copy_host: word("$COPY_HOST"),
            hakobu: word("\"$HAKOBU\" copy -q --report \"$REPORT\""),
            // If the program could not be placed on the host, hakobu has to find it by itself.
            agent: match names.far_hakobu.as_str() {
                NOT_PLACED => String::new(),
                path => format!(" --agent {path}"),
            },
            hakobu_host: word("\"$HAKOBU_HOST\""),
            address: word("\"$ADDRESS\""),
            port: word("\"$PORT\""),
        }
    }
}
