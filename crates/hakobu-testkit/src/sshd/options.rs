//! The options of a server.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// The options of a server.
#[derive(Debug, Clone)]
pub struct SshdOptions {
    /// The address to listen on.
    pub address: IpAddr,
    /// The port; `None` for a free one.
    pub port: Option<u16>,
    /// The network namespace to run in, by its `ip netns` name.
    pub netns: Option<String>,
    /// sshd's `MaxStartups`.
    pub max_startups: String,
    /// The text that is shown before login.
    pub banner: Option<String>,
    /// The user to log in as if none is named; `None` for the user who runs the test.
    pub login: Option<String>,
    /// The directories in a session's PATH before that of the machine's tools. The latter contains no hakobu, even if
    /// one is installed. Directories that the login shell's own startup file adds (root's may) must not contain one
    /// either.
    pub path_dirs: Vec<PathBuf>,
    /// The environment of every session.
    pub set_env: Vec<(String, String)>,
    /// Directories that are mounted without execution rights, for this server's sessions only. Missing ones are
    /// skipped.
    pub noexec: Vec<PathBuf>,
    /// Directories that are empty file systems of this size in bytes, for this server's sessions only.
    pub small: Vec<(PathBuf, u64)>,
    /// Additional lines for sshd's configuration. sshd uses the first value of an option, and these lines come first.
    pub config_lines: Vec<String>,
}

impl Default for SshdOptions {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: None,
            netns: None,
            max_startups: "100:30:200".to_owned(),
            banner: None,
            login: None,
            path_dirs: Vec::new(),
            set_env: Vec::new(),
            noexec: Vec::new(),
            small: Vec::new(),
            config_lines: Vec::new(),
        }
    }
}
