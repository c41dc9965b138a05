//! The scripts of a case, and the words of those that run here.

use super::names::{NOT_PLACED, Names};

/// What waits for a connection before the script begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listener {
    /// What ssh runs over there.
    There(String),
    /// A script here.
    Here(String),
}

/// The scripts of a case, before those for the host are made fit for its shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scripts {
    pub near: String,
    pub far: Option<String>,
    pub listener: Option<Listener>,
}

/// How scripts here name programs and hosts: by variables where they run, by what is typed where they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// ssh, up to the host.
    pub ssh: String,
    /// The same within double quotes.
    pub ssh_inside: String,
    /// scp, up to its ciphers and places.
    pub scp: String,
    pub host: String,
    /// The host within double quotes, as scp and rsync take it.
    pub copy_host: String,
    /// hakobu, up to its own options.
    pub hakobu: String,
    /// `--agent` and its path, with a blank before it.
    pub agent: String,
    /// The host as hakobu takes it, before a path.
    pub hakobu_host: String,
    /// The address of the host, and its port.
    pub address: String,
    pub port: String,
}

impl Words {
    /// Of scripts that run.
    pub(super) fn variables(names: &Names) -> Self {
        let word = str::to_owned;
        Self {
            ssh: word("\"$SSH\""),
            ssh_inside: word("$SSH"),
            scp: word("scp -q -S \"$SSH\""),
            host: word("\"$HOST\""),
            copy_host: word("$COPY_HOST"),
            hakobu: word("\"$HAKOBU\" copy -q --report \"$REPORT\""),
            // Where it could not be placed there, that is for hakobu itself to find out.
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
